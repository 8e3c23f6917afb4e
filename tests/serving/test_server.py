"""From settings to a running server: the command, the demo, starts that fail."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
import uvicorn
from typer.testing import CliRunner

from graphbandit.cli import app
from graphbandit.serving import Client, InitialState, RecommendationService, ServiceSettings
from graphbandit.serving import server as service_server
from graphbandit.serving.server import GracefulServer, build_app, overridden_settings, read_initial_state, snapshot_folder
from graphbandit.serving.store import event_store
from serving_zoo import ServiceProcess, free_port, opened_store, running, small_initial_state, write_input_files
from waiting import wait_until


def test_what_a_store_begins_with(tmp_path: Path) -> None:
    edges, arms = write_input_files(tmp_path)
    found = read_initial_state(
        ServiceSettings(graph=edges, items=arms, policy="graphucb", params={"alpha": 2.0}, epsilon=0.1, seed=5)
    )
    assert found is not None and found.make_policy().params["policy.alpha"] == 2.0
    again = InitialState.from_bytes(found.to_bytes())
    assert again.to_bytes() == found.to_bytes() and again.users == ["ann", "bob", "é/e"] and again.epsilon == 0.1
    assert read_initial_state(ServiceSettings()) is None
    with pytest.raises(ValueError, match="items is missing"):
        read_initial_state(ServiceSettings(graph=edges))
    for policy, message in (("nope", "policy must be one of"), ("spectral-ucb", "fixed catalogue")):
        with pytest.raises(ValueError, match=message):
            read_initial_state(ServiceSettings(graph=edges, items=arms, policy=policy))
    assert snapshot_folder(ServiceSettings(store="sqlite:////x/state.db")) == Path("/x/state.db.snapshots")
    assert snapshot_folder(ServiceSettings(store="postgresql://db/x")) == Path("graphbandit-snapshots")


def test_tables_of_other_systems_start_a_store(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    edges, arms = tmp_path / "edges.tsv", tmp_path / "arms.csv"
    edges.write_text("from\tto\nann\tbob\nann\tann\n")
    arms.write_text("title,x0\ntea,1\n,2\n")
    files = ServiceSettings(graph=edges, items=arms)
    for settings, message in (
        (replace(files, skip_bad=True), "the column item .or arm. is missing"),
        (replace(files, columns="item=title"), "a user is its own friend .first: record 2, 'ann'."),
        (replace(files, columns="item=nothing"), "no table that has a role item has a column nothing"),
    ):
        with pytest.raises(ValueError, match=message):
            read_initial_state(settings)
    with caplog.at_level("INFO", "graphbandit.serving"):
        found = read_initial_state(replace(files, columns="item=title", skip_bad=True))
    assert found is not None and found.users == ["ann", "bob"] and list(found.arms) == ["tea"]
    for part in (
        "from is user, to is friend",
        "a user is its own friend (first: record 2, 'ann')",
        "arms.csv: 1 bad row skipped",
    ):
        assert part in caplog.text, part


def test_the_command_says_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphbandit.serving.operations.json_logs.set_up_logging", lambda level: None)
    monkeypatch.setattr(event_store, "OPEN_TIMEOUT", 0.0)
    runner = CliRunner()
    edges, arms = write_input_files(tmp_path)
    occupied = opened_store(f"sqlite:///{tmp_path}/occupied.db")
    for arguments, message in (
        (["--store", f"sqlite:///{tmp_path}/new.db"], "needs a graph and arms"),
        (["--store", f"sqlite:///{tmp_path}/new.db", "--require-existing"], "If it had one, it was lost"),
        (["--host", "0.0.0.0"], "give a token_file, put a proxy in front"),
        (["--store", f"sqlite:///{tmp_path}/occupied.db"], "a SQLite file serves one process"),
        (["--store", "mysql://x"], "store must be an address"),
        (["--store", "postgresql://nobody@127.0.0.1:1/x"], "the store cannot be used now"),
        (["--graph", str(tmp_path / "none.csv")], "items is missing"),
        (["--token-file", str(tmp_path / "none")], "No such file"),
        (["--graph", str(edges), "--items", str(arms), "--columns", "wife=uid"], "must be ROLE=COLUMN"),
    ):
        done = runner.invoke(app, ["serve", *arguments])
        assert done.exit_code == 2 and message in done.stderr, (arguments, done.stderr)
    occupied.close()


def post(port: int, *more: str) -> bytes:
    lines = [f"host: 127.0.0.1:{port}", "content-type: application/json", "content-length: 15"]
    return "\r\n".join(["POST /v1/recommendations HTTP/1.1", *lines, *more, "", '{"user": "ann"}']).encode()


def test_the_command_prints_its_settings_reads_tokens_again_and_ends_though_a_request_does_not(tmp_path: Path) -> None:
    edges, arms = write_input_files(tmp_path)
    file, store = tmp_path / "tokens", f"sqlite:///{tmp_path}/state.db"
    file.write_text("first-token-of-two\nsecond-token-of-two\n")
    flags = ["--store", store, "--policy", "linucb", "--graph", str(edges), "--items", str(arms)]
    flags += ["--token-file", str(file)]
    end = {"GRAPHBANDIT_SHUTDOWN_NOTICE": "0.2", "GRAPHBANDIT_SHUTDOWN_DEADLINE": "1"}
    with ServiceProcess(tmp_path, *flags, token="first-token-of-two", **end) as service:
        with Client(f"http://127.0.0.1:{service.port}", "second-token-of-two") as client:
            client.reward(client.recommend("é/e")["decision"], 1.0)

        def statuses(*tokens: str) -> list[int]:
            return [service.http.get("/v1/stats", headers={"authorization": f"Bearer {one}"}).status_code for one in tokens]

        file.write_text("short\n")
        service.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "the tokens are unchanged" in service.log)
        assert statuses("first-token-of-two", "second-token-of-two") == [200, 200]
        file.write_text("second-token-of-two\nthird-token-of-three\n")
        service.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "tokens reloaded" in service.messages)
        assert statuses("first-token-of-two", "second-token-of-two", "third-token-of-three") == [401, 200, 200]
        with socket.create_connection(("127.0.0.1", service.port), 60) as link:
            link.sendall(post(service.port, "authorization: Bearer second-token-of-two")[:-5])
            assert statuses("second-token-of-two", "second-token-of-two") == [200, 200]  # so it has been read
            begin = time.monotonic()
            assert service.end() == 0 and time.monotonic() - begin > 1.2  # the notice and the deadline were given
        first = json.loads(service.log.splitlines()[0])
    assert first["message"] == "settings" and first["store"] == store and first["policy"] == "linucb"
    assert list((tmp_path / "state.db.snapshots").rglob("snapshot-*2.npz"))  # written on the way out


def test_sigterm_says_so_drains_and_closes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    noticed = threading.Event()

    async def wait_for_notice(server: GracefulServer) -> None:
        await asyncio.to_thread(noticed.wait)

    monkeypatch.setattr(GracefulServer, "wait_for_notice", wait_for_notice)
    with running(tmp_path, small_initial_state()) as server:
        port = server.settings.port
        whole = post(port)

        def connect(first: bytes) -> socket.socket:
            link = socket.create_connection(("127.0.0.1", port), 60)
            link.sendall(first)
            return link

        idle = connect(whole)
        assert idle.recv(2**16).startswith(b"HTTP/1.1 200")
        slow = connect(whole[:-5])
        wait_until(lambda: server.guard.running == 1)
        server.terminate()
        wait_until(lambda: not server.is_ready())
        idle.sendall(whole)
        assert idle.recv(2**16).startswith(b"HTTP/1.1 200")  # not ready, but whoever comes is served
        noticed.set()
        assert idle.recv(2**16) == b""  # then connections between two requests are closed
        slow.sendall(whole[-5:])
        answer = b"".join(iter(lambda: slow.recv(2**16), b""))
        assert answer.startswith(b"HTTP/1.1 200")
        slow.close()
        idle.close()
        assert server.has_ended()


def test_the_command_starts_a_demo_of_which_nothing_is_kept(tmp_path: Path) -> None:
    own = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "TMPDIR": str(tmp_path), "NUMBA_DISABLE_JIT": "0"}
    with ServiceProcess(tmp_path, "--demo", "--policy", "linucb", **own) as service:
        wait_until(lambda: service.http.get("/v1/stats").json()["rewards"])
        assert list(tmp_path.glob("graphbandit-demo-*"))
        assert service.end(signal.SIGINT) == 130
        *lines, last = service.log.splitlines()
    assert last == "interrupted: nothing is kept of a demo."
    assert not list(tmp_path.glob("graphbandit-demo-*"))
    assert not [line for line in map(json.loads, lines) if line["level"] in ("warning", "error")]


def test_a_start_that_fails_ends_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = ServiceSettings(store=f"sqlite:///{tmp_path}/s.db", port=free_port())
    monkeypatch.setattr(RecommendationService, "restore", lambda *_: 1 / 0)

    def end() -> None:
        server.should_exit = True

    application, guard = build_app(settings, small_initial_state(), end)
    server = uvicorn.Server(uvicorn.Config(guard, port=free_port(), log_config=None))
    thread = threading.Thread(target=server.run)
    thread.start()
    thread.join(timeout=60)
    assert not thread.is_alive() and isinstance(application.state.async_service.failed, ZeroDivisionError)


def test_settings_that_the_log_of_a_store_overrules_are_found() -> None:
    found = replace(small_initial_state("linucb"), epsilon=0.1)
    assert overridden_settings(ServiceSettings(policy="linucb", epsilon=0.1), found) == {}
    assert overridden_settings(ServiceSettings(), found) == {}  # nobody asked for the defaults
    asked = ServiceSettings(policy="graphucb", epsilon=0.3, params={"alpha": 2.0})
    assert overridden_settings(asked, found) == {"policy": "graphucb", "epsilon": 0.3, "params": {"alpha": 2.0}}


def test_a_shadow_that_cannot_be_read_is_refused_before_the_store_is_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphbandit.serving.operations.json_logs.set_up_logging", lambda level: None)
    edges, arms = write_input_files(tmp_path)
    path = tmp_path / "state.db"
    given = ["--graph", str(edges), "--items", str(arms), "--store", f"sqlite:///{path}", "--shadow", "nothing"]
    done = CliRunner().invoke(app, ["serve", *given])
    assert done.exit_code == 2 and "must begin with a policy: policy must be one of" in done.output
    assert not path.exists()


def test_all_policies_are_compiled_before_the_service_is_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    warmed: list[str] = []
    monkeypatch.setattr(service_server, "warm_up", lambda initial: warmed.append(initial.policy))
    settings = ServiceSettings(store=f"sqlite:///{tmp_path}/state.db", snapshots=tmp_path, shadow="graphucb-local")
    made, _ = build_app(settings, small_initial_state(), lambda: None, wait_until_ready=True)

    async def live() -> None:
        async with made.router.lifespan_context(made):
            assert made.state.async_service.trouble is None and warmed == ["linucb", "graphucb-local"]

    asyncio.run(live())
