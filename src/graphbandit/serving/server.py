"""The server: builds the service from its settings, and runs it until a signal ends the process."""

from __future__ import annotations

import asyncio
import logging
import math
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from socket import socket
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI

from ..policies import policy_class
from ..recommending.recommender_file import file_bytes
from ..tables import EDGES, EVENTS, ITEMS, Reading, parse_columns, split_columns
from .domain.initial_state import InitialState
from .domain.shadow import PolicySpec, parse_policy
from .http.app import create_app
from .http.guard import Guard
from .operations import json_logs
from .operations.async_service import AsyncService
from .operations.demo_population import DemoPopulation
from .operations.importing import Imported, import_history
from .operations.input_files import read_arms, read_graph
from .operations.recommendation_service import RecommendationService
from .operations.settings import ServiceSettings
from .operations.shadow_monitor import follow_shadow
from .operations.stats import Stats
from .operations.tracing import RequestTracer
from .operations.warmup import warm_up
from .store import snapshots
from .store.event_store import EventStore

logger = logging.getLogger("graphbandit.serving")


def read_initial_state(settings: ServiceSettings) -> InitialState | None:
    """Return the initial state from the input files.

    It is None without files, which a store that has a log does not need.
    """
    if settings.model is not None:
        if settings.graph is not None or settings.items is not None:
            raise ValueError("model must be given without graph and items, because it contains its own.")
        policy_class(settings.policy)  # imports the class of the model's policy if it is one of the user's own
        return InitialState.from_model(file_bytes(settings.model))
    if settings.graph is None and settings.items is None:
        return None
    if settings.items is None:
        raise ValueError("items is missing: a new store needs a file of items.")
    options = reading_options(settings)
    graph = None if settings.graph is None else read_graph(settings.graph, **options[settings.graph])
    names, features, attributes = read_arms(settings.items, **options[settings.items])
    chosen: dict[str, Any] = dict(policy=settings.policy, params=settings.params, epsilon=settings.epsilon, seed=settings.seed)
    return InitialState(graph, names, features, attributes, **chosen)


def reading_options(settings: ServiceSettings) -> dict[Path, Reading]:
    """Return the reading options of each input file."""
    roles = ((settings.graph, EDGES), (settings.items, ITEMS), (settings.history, EVENTS))
    said = split_columns(parse_columns(settings.columns), {path: (path, role) for path, role in roles if path is not None})
    return {path: {"columns": columns, "skip_bad": settings.skip_bad, "say": logger.info} for path, columns in said.items()}


def import_before_serving(service: RecommendationService, settings: ServiceSettings) -> None:
    """Import the history, if there is one and the log does not contain it yet."""
    if settings.history is None:
        return
    start = time.perf_counter()

    def show(share: float) -> None:  # after some ten thousand rewards
        logger.info("importing", extra={"share": round(share, 2)})

    done = import_history(service, settings.history, on_import=show, **reading_options(settings)[settings.history])
    if done.was_there:
        logger.info("the history is in the log already", extra={"path": str(settings.history)})
    else:
        facts = {name: value for name, value in done._asdict().items() if name != "was_there"}
        logger.info("history imported", extra={**facts, "seconds": round(time.perf_counter() - start, 3)})


def import_into_store(
    settings: ServiceSettings, on_import: Callable[[float], None] | None = None, say: Callable[[str], None] | None = None
) -> Imported:
    """Import `settings.history` into a store that no service uses, and write a snapshot."""
    if settings.history is None:
        raise ValueError("history is missing: there must be a table to import.")
    options = reading_options(settings)[settings.history]
    options["say"] = say
    service = RecommendationService.open(EventStore(settings.store), snapshot_folder(settings), read_initial_state(settings))
    service.reward_range = (settings.reward_low, settings.reward_high)
    try:
        return import_history(service, settings.history, on_import=on_import, **options)
    finally:
        service.close()


def snapshot_folder(settings: ServiceSettings) -> Path:
    """Return the folder of the snapshots."""
    return snapshots.snapshot_folder(settings.store, settings.snapshots)


def overridden_settings(settings: ServiceSettings, found: InitialState) -> dict[str, Any]:
    """Return the given settings that differ from the log of the store, which overrides them."""
    usual = ServiceSettings()
    asked = {name: getattr(settings, name) for name in ("policy", "params", "epsilon", "seed")}
    return {name: value for name, value in asked.items() if value not in (getattr(usual, name), getattr(found, name))}


def build_app(
    settings: ServiceSettings, initial: InitialState | None, on_failure: Callable[[], None], wait_until_ready: bool = False
) -> tuple[FastAPI, Guard]:
    """Return the application and its guard, after opening the store.

    `on_failure` is called if the service cannot start, or cannot continue. `wait_until_ready` is as in `create_app`.
    """
    traces = RequestTracer.from_environment() if settings.traces else None  # raises before the store is touched
    store = EventStore(settings.store)
    found = store.open(initial)
    log_overridden_settings(settings, initial, found)
    stats = Stats()

    def start() -> RecommendationService:
        service = RecommendationService.restore(store, snapshot_folder(settings), found, stats)
        service.reward_range = (settings.reward_low, settings.reward_high)
        try:
            import_before_serving(service, settings)
            follow_shadow(settings.shadow, service.state, service.change)
            for spec in service.state.specs:
                warm_up(spec.initial_state(found))
            service.state.warm_up()
        except BaseException:
            service.close()
            raise
        return service

    def make_async_service() -> AsyncService:
        return AsyncService(start, stats, settings.snapshot_every, store.cancel, settings.most_work)

    app = create_app(make_async_service, on_failure, wait_until_ready)
    return app, Guard(app, stats, settings, traces)


def log_overridden_settings(settings: ServiceSettings, initial: InitialState | None, found: InitialState) -> None:
    """Log a warning for each setting that the log of the store overrides."""
    if initial is not None and found.to_bytes() != initial.to_bytes():
        logger.warning("the store has a log: its graph, items and policy override the settings")
    for name, asked in overridden_settings(settings, found).items():
        facts = {"setting": name, "asked": asked, "in_force": getattr(found, name)}
        logger.warning("a setting is overridden by the log of the store", extra=facts)


class GracefulServer(uvicorn.Server):
    """A uvicorn server that reports itself as not ready before it stops."""

    def __init__(self, guard: Guard, settings: ServiceSettings) -> None:
        super().__init__(
            uvicorn.Config(
                guard,
                host=settings.host,
                port=settings.port,
                ws="none",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_keep_alive=math.ceil(settings.keep_alive),
                timeout_graceful_shutdown=max(1, math.ceil(settings.shutdown_deadline)),
            )
        )
        self._guard, self._notice = guard, settings.shutdown_notice

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Report as not ready from the first signal on."""
        self._guard.is_stopping = True
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket] | None = None) -> None:
        """Answer the requests that have begun, and close all connections."""
        self._guard.is_stopping = True
        if not self.force_exit:
            await self.wait_for_notice()
        await super().shutdown(sockets)

    async def wait_for_notice(self) -> None:
        """Wait until load balancers have noticed that the service is not ready."""
        await asyncio.sleep(self._notice)


def reload_tokens(guard: Guard, settings: ServiceSettings) -> None:
    """Read the token file again; keep the tokens if it is wrong."""
    try:
        tokens = settings.tokens()
    except (OSError, ValueError) as error:
        logger.error("the token file could not be read; the tokens are unchanged", extra={"reason": str(error)})
        return
    guard.set_tokens(tokens)
    logger.info("tokens reloaded", extra={"tokens": len(tokens), "read_only": sum(not token.may_write for token in tokens)})


def reload_tokens_on_signal(guard: Guard, settings: ServiceSettings) -> None:
    """Read the token file again whenever the process is sent SIGHUP."""
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, lambda *_: reload_tokens(guard, settings))
    elif settings.token_file is not None:
        logger.info("Windows has no SIGHUP: a changed token file is read at the next start")


def serve(settings: ServiceSettings, demo: bool = False) -> None:
    """Run the service until a signal ends the process; raise the error if it cannot start."""
    json_logs.set_up_logging(settings.log_level)
    # uvicorn shuts down and then raises the signal again, which would end the process before it has
    # cleaned up.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    if not demo:
        _run(settings, read_initial_state(settings), None)
        return
    with TemporaryDirectory(prefix="graphbandit-demo-", ignore_cleanup_errors=True) as folder:
        population = DemoPopulation(settings.seed)
        own = replace(settings, store=f"sqlite:///{folder}/demo.db", require_existing=False)
        _run(own, population.initial_state(settings.policy, settings.seed, settings.epsilon, settings.params), population)


def require_log(settings: ServiceSettings) -> None:
    """Raise a ValueError if the store has no log, so that a lost log is not replaced by an empty one."""
    store = EventStore(settings.store)
    try:
        is_there = store.exists()
    finally:
        store.close()
    if not is_there:
        raise ValueError(
            f"{store.database!r} has no log, and require_existing is set. If it had one, it was lost: restore a backup "
            "(docs/explanation/durability.md). To begin a new log, leave require_existing out, this once."
        )


def _run(settings: ServiceSettings, initial: InitialState | None, population: DemoPopulation | None) -> None:
    tokens = settings.tokens()  # raises, if the file is wrong, before the store is touched
    if settings.shadow not in ("", "none"):
        parse_policy(settings.shadow, PolicySpec(settings.policy))
    logger.info("settings", extra=settings.public())
    if settings.require_existing:
        require_log(settings)
    servers: list[uvicorn.Server] = []

    def end() -> None:
        for running in servers:
            running.should_exit = True

    app, guard = build_app(settings, initial, end)
    sys.setswitchinterval(0.0005)  # seconds: a whole group of requests waits while the writer thread waits for its turn

    server = GracefulServer(guard, settings)
    servers.append(server)
    reload_tokens_on_signal(guard, settings)
    if population is not None:
        secret = next((token.secret for token in tokens if token.may_write), None)
        population.start(f"http://{settings.host}:{settings.port}", secret)
    server.run()
    async_service: AsyncService | None = getattr(app.state, "async_service", None)
    if async_service is not None and async_service.failed is not None:
        raise async_service.failed
