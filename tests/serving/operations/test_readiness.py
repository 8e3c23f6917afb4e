"""Ready means that events can be written: on a full disk, with a database that hangs, and on the way out."""

from __future__ import annotations

import json
import resource
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from sqlalchemy import create_engine, text
from typer.testing import CliRunner

from graphbandit.cli import app
from graphbandit.serving import EventStore, RecommendationService, Request
from graphbandit.serving.operations import async_service, recommendation_service
from graphbandit.serving.store import database, event_store
from graphbandit.serving.store.database import parse_url
from serving_zoo import (
    ServiceProcess,
    new_database,
    recommend,
    reward,
    running,
    small_initial_state,
    write_input_files,
)
from waiting import wait_until


def flags(folder: Path, store: str, *more: str) -> list[str]:
    """Return the arguments of `graphbandit serve` for a small service on this store."""
    edges, arms = write_input_files(folder)
    files = ["--graph", str(edges), "--items", str(arms), "--snapshots", str(folder / "snapshots")]
    return [*files, "--store", store, "--policy", "linucb", *more]


def test_a_full_disk_is_not_ready(tmp_path: Path) -> None:
    often = "from graphbandit.serving.operations import async_service as a; a.HEARTBEAT_EVERY = a.HEARTBEAT_IN_TROUBLE = 0.1"
    given = flags(tmp_path, f"sqlite:///{tmp_path}/state.db")
    with ServiceProcess(tmp_path, *given, before=often) as service:
        unlimited = resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE)
        size = max(path.stat().st_size for path in tmp_path.glob("state.db*"))
        resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, (size + 100_000, unlimited[1]))
        while 200 in [service.recommend() for _ in range(3)]:  # SQLite finds some room in its other file first
            pass
        for _ in range(3):  # probes come and go, and the trouble stays
            assert service.http.get("/ready").status_code == 503
            assert "graphbandit_ready 0.0" in service.http.get("/metrics").text
            assert str(tmp_path) not in service.http.get("/ready").text
        resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, unlimited)
        wait_until(service.is_ready)  # by a heartbeat
        assert service.recommend() == 200
        assert service.end() == 0
        said = service.messages
    assert 1 <= said.count("the store cannot be used") <= 2 and said.count("the store can be used again") <= 2


def test_probes_write_nothing_and_a_quiet_service_writes_seldom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[bool] = []
    append = EventStore.append

    def counted(self: EventStore, drafts: list[object], beat: bool = False) -> object:
        written.append(beat)
        return append(self, drafts, beat)  # type: ignore[arg-type]

    assert async_service.HEARTBEAT_EVERY >= 1.0
    monkeypatch.setattr(EventStore, "append", counted)
    monkeypatch.setattr(async_service, "HEARTBEAT_EVERY", 3600.0)
    with running(tmp_path, small_initial_state()) as server:
        for path in ("/ready", "/health", "/metrics") * 10:
            assert server.http.get(path).status_code == 200
        assert written == []
        monkeypatch.setattr(async_service, "HEARTBEAT_EVERY", 0.2)
        wait_until(lambda: True in written)


def hang_up(end: socket.socket) -> None:
    """Close a connection that another thread may be reading from: without the shutdown, PostgreSQL would not notice."""
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()


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
            hang_up(end)

    def close(self) -> None:
        self.is_frozen = False
        for end in self._open:
            hang_up(end)


@pytest.fixture
def proxy(postgres: str) -> Iterator[tuple[Proxy, str]]:
    """Run a proxy in front of PostgreSQL; yield it and the address of an empty database behind it."""
    url = urlsplit(new_database(postgres))
    folder = parse_qs(url.query)["host"][0]
    forward = Proxy(f"{folder}/.s.PGSQL.{parse_qs(url.query).get('port', ['5432'])[0]}")
    yield forward, f"postgresql://postgres@127.0.0.1:{forward.port}{url.path}"
    forward.close()


def test_a_database_that_hangs_is_503_in_time_and_passes(
    proxy: tuple[Proxy, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a deadline each of these requests would hang, and the client give up after a minute."""
    assert database.PING_TIMEOUT + database.CONNECT_TIMEOUT <= database.ANSWER_TIMEOUT <= 5.0
    monkeypatch.setattr(database, "ANSWER_TIMEOUT", 0.5)
    monkeypatch.setattr(database, "PING_TIMEOUT", 0.5)
    monkeypatch.setattr(database, "CONNECT_TIMEOUT", 2)  # the least that the driver takes
    forward, url = proxy
    with running(tmp_path, small_initial_state(), store=url) as server, ThreadPoolExecutor(3) as crowd:
        told = {"decision": recommend(server)["decision"], "value": 1.0}
        server.http.get("/v1/users/ann/history").raise_for_status()
        forward.is_frozen = True
        assert server.http.post("/v1/recommendations", json={"user": "ann"}).status_code == 503  # on the old connection
        asked = [crowd.submit(server.http.get, path) for path in ("/ready", "/v1/users/ann/history")]
        asked.append(crowd.submit(server.http.post, "/v1/rewards", json=told))
        assert [one.result().status_code for one in asked] == [503, 503, 503]  # and on new ones
        forward.is_frozen = False
        wait_until(lambda: reward(server, **told)[0] == 200)
        assert server.http.get("/v1/users/ann/history").status_code == 200
        wait_until(server.is_ready)
        assert server.async_service.service.state.rewards == 1


def test_a_database_that_lost_events_ends_the_process(postgres: str, tmp_path: Path) -> None:
    url = new_database(postgres)
    with ServiceProcess(tmp_path, *flags(tmp_path, url)) as service:
        assert [service.recommend() for _ in range(5)] == [200] * 5
        engine = create_engine(parse_url(url), isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text("DELETE FROM graphbandit_events WHERE seq > 3"))
            others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = :name"
            connection.execute(text(others), {"name": parse_url(url).database})
        engine.dispose()
        statuses: list[int] = []
        with suppress(httpx.TransportError):
            while service.process.poll() is None and len(statuses) < 10_000:
                statuses.append(service.recommend())
        assert set(statuses) <= {503}
        assert service.process.wait(60) == 3
        *log, _ = service.log.splitlines()
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
        def check_cancelled(self) -> None:
            seen.append(1)
            if len(seen) == 5:
                self.cancel()
            super().check_cancelled()

    store = Cancelling(f"sqlite:///{tmp_path}/state.db")
    with pytest.raises(event_store.Cancelled):
        RecommendationService.open(store, tmp_path / "snapshots")
    assert len(seen) == 5 and recommendation_service  # the other fifteen were not replayed


def test_a_lost_store_is_not_replaced_without_a_word(tmp_path: Path, postgres: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphbandit.serving.operations.json_logs.set_up_logging", lambda level: None)
    for store in (f"sqlite:///{tmp_path}/state.db", new_database(postgres)):
        done = CliRunner().invoke(app, ["serve", *flags(tmp_path, store, "--require-existing")])
        assert done.exit_code == 2 and "it was lost: restore a backup" in done.stderr
    assert not list(tmp_path.glob("state.db*"))


def test_a_replica_goes_on_when_another_is_killed(tmp_path: Path, postgres: str) -> None:
    store = new_database(postgres)
    with ServiceProcess(tmp_path, *flags(tmp_path, store)) as first, running(tmp_path, store=store) as second:
        made = [first.http.post("/v1/recommendations", json={"user": "ann"}).json() for _ in range(10)]
        first.kill()
        for one in made:
            assert reward(second, decision=one["decision"], value=1.0) == (200, {"accepted": 1, "duplicates": 0})
