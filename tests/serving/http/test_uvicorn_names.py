"""Names of uvicorn that the fast path uses without a promise that they stay. When a new version fails
here, look at what it changed before the range in pyproject.toml is widened."""

from __future__ import annotations

import inspect
import tomllib
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import uvicorn
from packaging.requirements import Requirement
from uvicorn.protocols.http import flow_control, httptools_impl
from uvicorn.server import ServerState

from graphbandit.serving.http.fast_path import FastPathProtocol
from graphbandit.serving.http.limited_protocol import LimitedProtocol
from graphbandit.serving.http.request_bodies import BodyFlow

ROOT = Path(__file__).parents[3]
REQUIREMENT = next(
    Requirement(text)
    for text in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["serve"]
    if text.startswith("uvicorn")
)
HELP = f"uvicorn {version('uvicorn')} differs from what http/limited_protocol.py was written for ({REQUIREMENT.specifier})"
METHODS = {
    "connection_made": ["self", "transport"],
    "connection_lost": ["self", "exc"],
    "data_received": ["self", "data"],
    "eof_received": ["self"],
    "pause_writing": ["self"],
    "resume_writing": ["self"],
    "on_message_begin": ["self"],
    "on_header": ["self", "name", "value"],
    "on_headers_complete": ["self"],
    "on_body": ["self", "body"],
    "on_message_complete": ["self"],
    "on_response_complete": ["self"],
    "shutdown": ["self"],
    "_unset_keepalive_if_required": ["self"],
}
"""Of HttpToolsProtocol: overridden or called."""
ATTRIBUTES = ("config", "loop", "transport", "flow", "client", "parser", "pipeline", "cycle", "headers", "server_state")


def parameters(function: Any) -> list[str]:
    return list(inspect.signature(function).parameters)


def test_the_installed_uvicorn_is_one_that_was_tested() -> None:
    assert REQUIREMENT.specifier.contains(version("uvicorn")), HELP
    upper = [part for part in REQUIREMENT.specifier if part.operator == "<"]
    assert upper, "the range needs an upper end: the next version may move private names"


@pytest.mark.parametrize("name", METHODS)
def test_methods_of_the_protocol_are_as_expected(name: str) -> None:
    assert hasattr(httptools_impl.HttpToolsProtocol, name), f"{HELP}: {name} is gone"
    assert parameters(getattr(httptools_impl.HttpToolsProtocol, name)) == METHODS[name], f"{HELP}: {name}"


def test_what_the_fast_path_overrides_exists() -> None:
    """A method that uvicorn does not call any more would be dead without a word."""
    own = {"line", "handle", "is_waiting", "overdue", "give_up", "on_chunk_header"}  # the last is called by httptools
    members = vars(LimitedProtocol) | vars(FastPathProtocol)
    public = {name for name, value in members.items() if not name.startswith("_") and name not in own}
    assert public <= METHODS.keys(), f"{HELP}: {public - METHODS.keys()}"
    # What uvicorn has under a name of ours would be overridden by accident.
    ours = {name for name in members if name.startswith("_") and not name.startswith("__")} | own
    assert not ours & set(vars(httptools_impl.HttpToolsProtocol)) - {"_unset_keepalive_if_required"}, HELP


def test_attributes_of_the_protocol_are_as_expected() -> None:
    source = inspect.getsource(httptools_impl.HttpToolsProtocol)
    for name in ATTRIBUTES:
        assert f"self.{name}" in source, f"{HELP}: {name} is gone"
    fields = inspect.getsource(httptools_impl.RequestResponseCycle)
    for name in ("scope", "keep_alive", "response_started", "response_complete", "disconnected", "message_event"):
        assert f"self.{name} = " in fields, f"{HELP}: {name} of a request is gone"
    state = ServerState()
    assert state.total_requests == 0 and state.default_headers == [], HELP
    assert parameters(httptools_impl.HttpToolsProtocol) == ["config", "server_state", "app_state", "_loop"], HELP


def test_flow_control_is_as_expected() -> None:
    flow = flow_control.FlowControl(SimpleNamespace())  # type: ignore[arg-type]
    assert flow.read_paused is False and flow.write_paused is False, HELP
    found = {name for name in vars(flow_control.FlowControl) if not name.startswith("_")}
    assert found == {"drain", "pause_reading", "resume_reading", "pause_writing", "resume_writing"}, HELP
    resumed: list[bool] = []
    own = BodyFlow(SimpleNamespace(), lambda: resumed.append(True))
    own.pause_reading()
    assert own.read_paused
    own.resume_reading()
    assert not own.read_paused and resumed == [True]


def test_the_server_is_as_expected() -> None:
    assert parameters(uvicorn.Server.handle_exit) == ["self", "sig", "frame"], HELP
    assert parameters(uvicorn.Server.shutdown) == ["self", "sockets"], HELP
    assert inspect.iscoroutinefunction(uvicorn.Server.shutdown), HELP
    assert {"should_exit", "force_exit"} <= vars(uvicorn.Server(uvicorn.Config("x"))).keys(), HELP
