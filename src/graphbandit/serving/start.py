"""From settings to a running server."""

from __future__ import annotations

import logging
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import uvicorn
from fastapi import FastAPI

from ..compute.compiler import compiling_aside
from .domain.initial_state import Beginning
from .domain.recommender import Recommender
from .http.app import create_app, quick_answers
from .http.fast_path import Wire
from .http.guard import Guard, is_loopback
from .operations import json_logs as logs
from .operations.demo_population import Population
from .operations.input_files import read_arms, read_graph
from .operations.recommendation_service import Service
from .operations.runtime import Runtime
from .operations.settings import Settings
from .operations.stats import Stats
from .operations.warmup import rehearse, rehearse_aside
from .store.event_store import Store, disk_path

logger = logging.getLogger("graphbandit.serving")


def beginning_of(settings: Settings) -> Beginning | None:
    """What the files say; None without files, which is enough for a store that has a log."""
    if settings.graph is None and settings.arms is None:
        return None
    if settings.graph is None or settings.arms is None:
        raise ValueError(f"{'graph' if settings.graph is None else 'arms'} is missing: a new store needs both files.")
    graph = read_graph(settings.graph)
    names, features, attributes = read_arms(settings.arms)
    chosen = dict(policy=settings.policy, params=settings.params, epsilon=settings.epsilon, seed=settings.seed)
    return Beginning(graph, names, features, attributes, **chosen)  # type: ignore[arg-type]


def snapshot_folder(settings: Settings) -> Path:
    """Where snapshots are kept."""
    path = disk_path(settings.store)
    if settings.snapshots is not None or path is None:
        return settings.snapshots or Path("graphbandit-snapshots")
    return path.with_name(f"{path.name}.snapshots")


def build(
    settings: Settings,
    beginning: Beginning | None,
    server: list[uvicorn.Server],
    when_ready: Callable[[Beginning], None] = lambda _: None,
) -> tuple[FastAPI, Guard]:
    """The application with its guard. A start that fails ends the server."""
    store = Store(settings.store)
    found = store.open(beginning)
    if beginning is not None and found.to_bytes() != beginning.to_bytes():
        logger.warning("the store has a log already: graph, arms and policy of its first day count, not those given now")
    stats = Stats()

    def start() -> Service:
        return Service.restore(store, snapshot_folder(settings), found)

    def end() -> None:
        for running in server:
            running.should_exit = True

    app = create_app(lambda: Runtime(start, stats, settings.snapshot_every, lambda: when_ready(found)), end)
    return app, guarded(app, settings, stats)


def guarded(app: FastAPI, settings: Settings, stats: Stats) -> Guard:
    """The application behind its guard."""
    tokens = settings.tokens()
    local = not tokens and is_loopback(settings.host)
    return Guard(app, stats, quick_answers(app), tokens=tokens, rate=settings.rate, largest=settings.largest_body, local=local)


def configured(guard: Guard, settings: Settings) -> uvicorn.Config:
    """The server's own settings."""
    limits: dict[str, Any] = dict(timeout_graceful_shutdown=10, proxy_headers=False, server_header=False)
    parts: dict[str, Any] = dict(http=Wire, ws="none", log_config=None, access_log=False)
    return uvicorn.Config(guard, host=settings.host, port=settings.port, **parts, **limits)


def serve(settings: Settings, demo: bool = False) -> None:
    """Run until told to stop; raises whatever kept the service from starting."""
    logs.set_up(settings.log_level)
    # uvicorn stops in good order and then raises the signal again, which would end us before we have tidied up.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    if not demo:
        _serve(settings, beginning_of(settings), None)
        return
    with TemporaryDirectory(prefix="graphbandit-demo-") as folder:
        population = Population(settings.seed)
        own = replace(settings, store=f"sqlite:///{folder}/demo.db")
        beginning = population.beginning(settings.policy, settings.seed, settings.epsilon, settings.params)
        with compiling_aside(lambda: compile_for(beginning)):  # a newcomer should not wait for that
            _serve(own, beginning, population)


def compile_for(beginning: Beginning) -> None:
    """Compile what a service with this beginning needs, by warming up one that nobody asks."""
    start = time.perf_counter()
    try:
        Recommender.new(beginning).warm_up()
        rehearse(beginning)
        logger.info("compiled", extra={"seconds": round(time.perf_counter() - start, 3)})
    except Exception:  # a full disk, for example
        logger.exception("the policy could not be compiled: it goes on as plain Python, slowly")


def _serve(settings: Settings, beginning: Beginning | None, population: Population | None) -> None:
    settings.tokens()  # what is wrong with them is said before the store is touched
    logger.info("settings", extra=settings.shown())
    servers: list[uvicorn.Server] = []
    app, guard = build(settings, beginning, servers, rehearse_aside if population is None else lambda _: None)
    sys.setswitchinterval(0.0005)  # seconds: the thread that writes holds up a whole group when it waits for the event loop
    server = uvicorn.Server(configured(guard, settings))
    servers.append(server)
    if population is not None:
        tokens = settings.tokens()
        population.start(f"http://{settings.host}:{settings.port}", tokens[0] if tokens else None)
    server.run()
    runtime: Runtime | None = getattr(app.state, "runtime", None)
    if runtime is not None and runtime.failed is not None:
        raise runtime.failed
