"""Ready means that events can be written: on a full disk, with a database that hangs, and on the way out."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from sqlalchemy import create_engine, text

from graphbandit.serving import Client, EventStore, RecommendationService, Request
from graphbandit.serving.operations import recommendation_service, runtime
from graphbandit.serving.store import event_store
from graphbandit.serving.store.database import ANSWER_TIMEOUT, parse_url
from serving_zoo import free_port, new_database, recommend, running, small_initial_state, write_input_files

SERVE = [sys.executable, "-m", "graphbandit.cli", "serve"]


def started(folder: Path, store: str, *more: str) -> tuple[subprocess.Popen[str], str]:
    """A process of its own on this store, and its address."""
    edges, arms = write_input_files(folder)
    port = free_port()
    files = ["--graph", str(edges), "--arms", str(arms), "--snapshots", str(folder / "snapshots")]
    command = [*SERVE, *files, "--store", store, "--policy", "linucb", "--port", str(port), *more]
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment), f"http://127.0.0.1:{port}"


def ask(http: httpx.Client) -> int:
    return http.post("/v1/recommendations", json={"user": "ann"}).status_code


def test_ready_is_a_write_and_a_full_disk_is_not_ready(tmp_path: Path) -> None:
    process, url = started(tmp_path, f"sqlite:///{tmp_path}/state.db", "--create")
    try:
        with Client(url, patience=120.0) as client:
            client.wait()
        with httpx.Client(base_url=url) as http:
            unlimited = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
            size = max(path.stat().st_size for path in tmp_path.glob("state.db*"))
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size + 100_000, unlimited[1]))
            while 200 in [ask(http) for _ in range(3)]:  # SQLite finds some room in its other file first
                pass
            for _ in range(3):  # probes come and go, and the trouble stays
                assert http.get("/ready").status_code == 503
                assert "graphbandit_ready 0.0" in http.get("/metrics").text
                assert str(tmp_path) not in http.get("/ready").text
                time.sleep(1.1)
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, unlimited)
            end = time.monotonic() + 30
            while http.get("/ready").status_code != 200:
                assert time.monotonic() < end
                time.sleep(0.2)
            assert ask(http) == 200
    finally:
        process.send_signal(signal.SIGTERM)
        _, lines = process.communicate(timeout=60)
    said = [line["message"] for line in map(json.loads, lines.splitlines())]
    assert 1 <= said.count("the store cannot be used") <= 2 and said.count("the store can be used again") <= 2


def test_many_probes_are_one_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[bool] = []
    append = EventStore.append

    def counted(self: EventStore, drafts: list[object], beat: bool = False) -> object:
        written.append(beat)
        return append(self, drafts, beat)  # type: ignore[arg-type]

    monkeypatch.setattr(EventStore, "append", counted)
    with running(tmp_path, small_initial_state()) as server:
        for _ in range(50):
            assert server.http.get("/ready").status_code == 200
        assert 1 <= sum(written) <= 3
        assert runtime.HEARTBEAT_EVERY >= 1.0


class Proxy:
    """Forwards connections to PostgreSQL, until it is told to stop forwarding and say nothing."""

    def __init__(self, path: str) -> None:
        self.path, self.is_frozen = path, False
        self._server = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = [self._server]
        self.port = int(self._server.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(self.path)
            self._open += [client, server]
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=self._forward, args=(source, sink), daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                while self.is_frozen:
                    time.sleep(0.02)
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            end.close()

    def close(self) -> None:
        self.is_frozen = False
        for end in self._open:
            end.close()


@pytest.fixture
def proxy(postgres: str) -> Iterator[tuple[Proxy, str]]:
    """A proxy before PostgreSQL, and the address of an empty database behind it."""
    url = urlsplit(new_database(postgres))
    folder = parse_qs(url.query)["host"][0]
    forward = Proxy(f"{folder}/.s.PGSQL.{parse_qs(url.query).get('port', ['5432'])[0]}")
    yield forward, f"postgresql://postgres@127.0.0.1:{forward.port}{url.path}"
    forward.close()


def test_a_database_that_hangs_is_503_in_time_and_passes(proxy: tuple[Proxy, str], tmp_path: Path) -> None:
    forward, url = proxy
    with running(tmp_path, small_initial_state(), store=url) as server:
        name = recommend(server)["decision"]
        forward.is_frozen = True
        limit = ANSWER_TIMEOUT + 1.0
        for path, body in (("/v1/recommendations", {"user": "ann"}), ("/v1/rewards", {"decision": name, "value": 1.0})):
            start = time.monotonic()
            answer = server.http.post(path, json=body)
            assert answer.status_code == 503 and time.monotonic() - start < limit, path
            start = time.monotonic()
            assert server.http.get("/ready").status_code == 503 and time.monotonic() - start < limit
        start = time.monotonic()
        assert server.http.get("/v1/users/ann/history").status_code == 503 and time.monotonic() - start < limit
        forward.is_frozen = False
        end = time.monotonic() + 60  # each refused attempt waits for its own deadline first
        while server.http.post("/v1/rewards", json={"decision": name, "value": 1.0}).status_code != 200:
            assert time.monotonic() < end
            time.sleep(0.2)
        assert server.http.get("/v1/users/ann/history").status_code == 200
        while server.http.get("/ready").status_code != 200:
            assert time.monotonic() < end
            time.sleep(0.2)
        assert server.runtime.service.recommender.rewards == 1


def test_a_database_that_lost_events_ends_the_process(postgres: str, tmp_path: Path) -> None:
    url = new_database(postgres)
    process, address = started(tmp_path, url, "--create")
    try:
        with Client(address, patience=120.0) as client:
            client.wait()
        with httpx.Client(base_url=address) as http:
            assert [ask(http) for _ in range(5)] == [200] * 5
            engine = create_engine(parse_url(url), isolation_level="AUTOCOMMIT")
            with engine.connect() as connection:
                connection.execute(text("DELETE FROM graphbandit_events WHERE seq > 3"))
                others = (
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = :name"
                )
                connection.execute(text(others), {"name": parse_url(url).database})
            engine.dispose()
            statuses = []
            try:
                while process.poll() is None:
                    statuses.append(ask(http))
            except httpx.TransportError:
                pass
            assert set(statuses) <= {503}
    finally:
        _, lines = process.communicate(timeout=60)
    assert process.returncode == 3
    *log, _ = lines.splitlines()
    [last] = [line for line in map(json.loads, log) if line["level"] == "critical"]
    assert "acknowledged events are missing" in last["reason"]


def test_a_replay_that_is_cancelled_ends_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = EventStore(f"sqlite:///{tmp_path}/state.db")
    service = RecommendationService.open(store, tmp_path / "snapshots", small_initial_state())
    for _ in range(20):
        service.recommend([Request("ann")])
    service.store.close()
    monkeypatch.setattr(event_store, "PAGE_SIZE", 1)
    seen = []

    class Cancelling(EventStore):
        def go_on(self) -> None:
            seen.append(1)
            if len(seen) == 5:
                self.cancel()
            super().go_on()

    store = Cancelling(f"sqlite:///{tmp_path}/state.db")
    with pytest.raises(event_store.Cancelled):
        RecommendationService.open(store, tmp_path / "snapshots")
    assert len(seen) == 5 and recommendation_service  # the other fifteen were not replayed


def test_sigterm_is_not_ready_at_once_then_drained_then_the_end(tmp_path: Path) -> None:
    (tmp_path / "settings.toml").write_text("shutdown_notice = 1.0\n")
    process, url = started(tmp_path, f"sqlite:///{tmp_path}/state.db", "--create", "--config", str(tmp_path / "settings.toml"))
    with Client(url, patience=120.0) as client:
        client.wait()
    with httpx.Client(base_url=url) as http:
        assert ask(http) == 200
        start = time.monotonic()
        process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        assert http.get("/ready").status_code == 503
        assert ask(http) == 200  # whoever still comes is answered
        process.wait(timeout=30)
        assert 1.0 <= time.monotonic() - start < 10.0
        with pytest.raises(httpx.TransportError):
            http.get("/health")
    process.communicate()
    assert process.returncode == 0 and list((tmp_path / "snapshots").glob("snapshot-*2.npz"))


def test_a_lost_store_is_not_replaced_without_a_word(tmp_path: Path, postgres: str) -> None:
    for store in (f"sqlite:///{tmp_path}/state.db", new_database(postgres)):
        process, _ = started(tmp_path, store)
        _, said = process.communicate(timeout=60)
        assert process.returncode == 2 and "it was lost: restore a copy" in said and "--create" in said
    assert not list(tmp_path.glob("state.db*"))


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_standby_takes_over_when_the_first_is_killed(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    sqlite = kind == "sqlite"
    store = f"sqlite:///{tmp_path}/state.db" if sqlite else new_database(request.getfixturevalue("postgres"))
    first, address = started(tmp_path, store, "--create")
    with Client(address, patience=120.0) as client:
        client.wait()
        names = [str(client.recommend("ann")["decision"]) for _ in range(10)]
    second, other = started(tmp_path, store, "--standby")
    try:
        with httpx.Client(base_url=other) as http:
            end = time.monotonic() + 60
            while True:
                try:
                    if http.get("/health").status_code == 200:
                        break
                except httpx.TransportError:
                    assert time.monotonic() < end
                time.sleep(0.05)
            assert http.get("/ready").status_code == 503 and ask(http) == 503
            start = time.monotonic()
            first.kill()
            while http.get("/ready").status_code != 200:
                assert time.monotonic() - start < 30
                time.sleep(0.02)
            print(f"{kind}: took over in {time.monotonic() - start:.2f} s")
            for name in names:
                assert http.post("/v1/rewards", json={"decision": name, "value": 1.0}).json()["accepted"] == 1
    finally:
        for process in (first, second):
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)
    assert second.returncode == 0


def test_a_standby_that_is_told_to_end_ends(tmp_path: Path) -> None:
    store = EventStore(f"sqlite:///{tmp_path}/state.db")
    store.open(small_initial_state())
    process, address = started(tmp_path, f"sqlite:///{tmp_path}/state.db", "--standby")
    with Client(address, patience=60.0) as client:
        client.call("GET", "/health")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 0
    store.close()
