"""The client retries, and retries are safe; it is a distribution of its own, which needs the standard library only."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import get_type_hints

import pytest

from graphbandit import __version__
from graphbandit.serving import Client, ServiceError
from graphbandit.serving import client as package
from graphbandit.serving.client import responses
from graphbandit.serving.client.connection import HttpResponse
from serving_zoo import running, small_initial_state

ROOT = Path(__file__).parents[2]


def test_the_client_retries_and_repeats_safely(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(tmp_path, small_initial_state()) as server, Client(server.url) as client:
        client.wait()
        decision = client.recommend("ann", ["tea", "50%"], where={"topic": ["hot"]}, k=2)
        assert [arm["arm"] for arm in decision["arms"]] == ["tea"]
        attempt, lost = client.attempt, list[str]()

        def unlucky(method: str, path: str, body: str | None) -> HttpResponse:
            answer = attempt(method, path, body)
            if len(lost) % 2 == 0:  # the answer to every first attempt gets lost
                lost.append(path)
                return HttpResponse(0, "lost", response_lost=True)
            lost.append(path)
            return answer

        monkeypatch.setattr(client, "attempt", unlucky)
        decision = client.recommend("ann")
        assert client.reward(decision["decision"], 1.0, decision["arms"][0]["arm"]) == {"accepted": 0, "duplicates": 1}
        many = client.recommend_many([{"user": "ann"}, {"user": "bob", "k": 2}])
        client.reward_many([{"decision": entry["decision"], "value": 1.0} for entry in many])
        client.put_user("new/one", {"ann": 1.0})
        client.put_edge("new/one", "bob", 2.0)
        client.put_arm("new%arm", [1.0, 0.0], {"topic": "new"})
        client.delete("edges", "new/one", "bob")
        client.delete("users", "new/one")
        client.delete("arms", "new%arm")
        stats = client.stats()
        assert stats["rewards"] == 3 and stats["users"] == 5
        again = [client.recommend("bob", exclude=["tea"], idempotency_key="the same key")["decision"] for _ in range(2)]
        assert again[0] == again[1]
        assert client.user("ann")["user"] == "ann" and client.edge("ann", "bob")["weight"] == 1.0
        assert len(client.arm("tea")["features"]) == 2 and client.history("ann", limit=1)["events"]
        assert client.explanation("ann")["own"]["rewards"] == 2
        monkeypatch.undo()
        with pytest.raises(ServiceError, match="nobody") as caught:
            client.explanation("nobody")
        assert caught.value.status == 404 and "users/nobody/explanation was refused with status 404: user: " in str(
            caught.value
        )
        assert client.is_alive() and client.is_ready() and len(client.state()["sha256"]) == 64


class Scripted(ThreadingHTTPServer):
    """Answers requests one after the other with (status, headers, body), and keeps what it was sent."""

    def __init__(self, *script: tuple[int, dict[str, str], bytes]) -> None:
        self.script, self.asked, self.clients = list(script), list[tuple[str, dict[str, str]]](), set[tuple[str, int]]()
        super().__init__(("127.0.0.1", 0), ScriptedHandler)


class ScriptedHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # connections are kept open
    server: Scripted

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.server.asked.append((self.path, dict(self.headers)))
        self.server.clients.add(self.client_address)
        status, headers, body = self.server.script.pop(0)
        self.send_response(status)
        for name, value in ({"content-length": str(len(body))} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_PUT = do_DELETE = do_GET

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def scripted(*script: tuple[int, dict[str, str], bytes]) -> Iterator[tuple[Scripted, str]]:
    server = Scripted(*script)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server, f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


FINE: tuple[int, dict[str, str], bytes] = (200, {}, b'{"accepted": 1, "duplicates": 0}')


def test_the_client_waits_as_long_as_the_service_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    busy = (503, {"retry-after": "7"}, b'{"detail": [{"loc": ["store"], "msg": "wait.", "type": "unavailable"}]}')
    limited = (429, {"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, b"{}")  # in the past: no longer than usual
    with scripted(busy, limited, FINE) as (server, url), Client(url) as client:
        assert client.reward("1", 1.0) == {"accepted": 1, "duplicates": 0}
        assert len(server.asked) == 3 and len(server.clients) == 1  # one connection for all attempts
    assert pauses[0] == 7.0 and 0.0 < pauses[1] < 1.0
    refused = pytest.raises(ServiceError, match=r"POST http://.*/v1/rewards was refused with status 503: store: wait\.$")
    with scripted(busy) as (_, url), Client(url, patience=5.0) as client, refused:
        client.reward("1", 1.0)  # seven seconds are more than its patience
    assert len(pauses) == 2


def test_a_token_is_sent_and_never_shown() -> None:
    with scripted(FINE) as (server, url), Client(f"{url}/behind/a/proxy/", "a-secret-token\n") as client:
        client.reward("1", 1.0)
        path, headers = server.asked[0]
        assert path == "/behind/a/proxy/v1/rewards" and headers["authorization"] == "Bearer a-secret-token"
    for wrong in ("a-secret-token\nx", "", "geheim-ü"):
        with pytest.raises(ValueError, match=r"token must be of printable ASCII characters, and not empty\.$"):
            Client("http://localhost", wrong)


def test_threads_share_a_client() -> None:
    with scripted(*[FINE] * 40) as (server, url), Client(url) as client, ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda n: client.reward(str(n), 1.0)["accepted"], range(40)))
        assert found == [1] * 40 and len(server.clients) <= 4


def test_something_that_was_never_there_is_not_deleted() -> None:
    gone: tuple[int, dict[str, str], bytes] = (
        404,
        {},
        b'{"detail": [{"loc": ["user"], "msg": "there is no user.", "type": "unknown"}]}',
    )
    with scripted((503, {}, b"{}"), gone) as (_, url), Client(url) as client, pytest.raises(ServiceError, match="no user"):
        client.delete("users", "nobody")  # a service that refuses has deleted nothing
    with scripted((504, {}, b"{}"), gone) as (_, url), Client(url) as client:
        client.delete("users", "ann")  # perhaps it was the first attempt, whose answer was lost
    with scripted((504, {}, b"{}"), gone) as (_, url), Client(url) as client, pytest.raises(ServiceError) as caught:
        client.retract("1.0")  # has an answer with fields, or none
    assert caught.value.status == 404 and caught.value.may_have_executed


def test_a_request_that_was_never_sent_is_not_one_without_an_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:  # connects, and says nothing
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(ServiceError, match="service: sent, but no answer within") as caught:
            Client(url, timeout=0.1, patience=0.0).put_user("new")
        assert caught.value.status == 0 and caught.value.may_have_executed
    with pytest.raises(ServiceError, match="service: no connection, so that nothing was sent") as caught:
        Client(url, patience=0.0).put_user("new")
    assert caught.value.status == 0 and not caught.value.may_have_executed


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ((502, {}, b"<html>Bad Gateway</html>"), r"status 502: service: the answer is not JSON: '<html>Bad Gateway</html>'\."),
        ((200, {}, b"<html>a proxy's page</html>"), r"status 200: service: the answer is not JSON"),
        ((404, {}, b'{"detail": "Not Found"}'), r"status 404: service: {'detail': 'Not Found'}\."),
    ],
)
def test_an_answer_that_is_not_the_services_is_shown(answer: tuple[int, dict[str, str], bytes], sentence: str) -> None:
    with scripted(answer) as (_, url), Client(url, patience=0.0) as client, pytest.raises(ServiceError, match=sentence):
        client.stats()


def test_arguments_that_cannot_work_are_refused_with_a_sentence() -> None:
    with pytest.raises(
        ServiceError, match=r"GET http://127.0.0.1:9/ready failed: service: no connection, so that nothing"
    ) as caught:
        Client("http://127.0.0.1:9", patience=0.2).wait()
    assert caught.value.status == 0
    for wrong in ("ftp://x", "http://", "localhost:8000"):
        with pytest.raises(ValueError, match=r"url must be like http://127\.0\.0\.1:8000"):
            Client(wrong)
    with pytest.raises(ValueError, match="it is 'http://…@host'"):
        Client("http://name:password@host")
    with pytest.raises(ValueError, match="timeout must be a positive"):
        Client("http://localhost", timeout=0.0)
    with pytest.raises(ValueError, match="patience must be"):
        Client("http://localhost", patience=float("nan"))
    with pytest.raises(ValueError, match=r"POST /v1/rewards cannot be sent, since its body is not JSON"):
        Client("http://localhost").reward("1", float("nan"))


def test_types_of_responses_are_those_of_the_openapi_document() -> None:
    document = json.loads((ROOT / "docs" / "reference" / "openapi.json").read_text(encoding="utf-8"))
    schemas = document["components"]["schemas"]
    pairs = {
        "ServedArm": "ScoredArm",
        "ServedDecision": "DecisionAnswer",
        "AcceptedRewards": "RewardAnswer",
        "RetractedReward": "RetractionAnswer",
        "LoggedChange": "ChangeAnswer",
        "ServiceProblem": "Problem",
    }
    kinds = {"string": str, "number": float, "integer": int, "boolean": bool}
    for ours, theirs in pairs.items():
        hints, fields = get_type_hints(getattr(responses, ours)), schemas[theirs]["properties"]
        assert hints.keys() == fields.keys()
        simple = {name: kinds[field["type"]] for name, field in fields.items() if field["type"] in kinds}
        assert simple == {name: hints[name] for name in simple}


def test_the_client_alone_needs_the_standard_library_only() -> None:
    """-S leaves out everything that is installed; -I leaves out this checkout."""
    program = f"import sys; sys.path.insert(0, {str(ROOT / 'client' / 'src')!r}); import graphbandit_client as c; c.Client('http://x')"
    program += "; print(c.__version__, [name for name in sys.modules if name.split('.')[0] == 'graphbandit'])"
    done = subprocess.run([sys.executable, "-I", "-S", "-B", "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == f"{__version__} []", done.stderr
    project = tomllib.loads((ROOT / "client" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["dependencies"] == [] and package.__version__ == __version__
