"""Builds everything from the settings, and runs the server."""

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

from ..compute.compiler import compiling_aside
from ..recommending.recommender_file import file_bytes
from ..storage.columns import EDGES, EVENTS, ITEMS, parse_columns
from ..storage.tables import Reading, columns_by_file
from .domain.initial_state import InitialState
from .domain.shadow import PolicySpec, parse_policy
from .http.app import create_app, fast_handlers
from .http.connection_limits import Connections, raise_descriptor_limit
from .http.fast_path import FastPathProtocol
from .http.guard import Guard
from .operations import json_logs
from .operations.demo_population import DemoPopulation
from .operations.importing import Imported, import_history
from .operations.input_files import read_arms, read_graph
from .operations.recommendation_service import RecommendationService
from .operations.runtime import Runtime
from .operations.settings import ServiceSettings, is_loopback
from .operations.shadow_stats import follow_shadow
from .operations.stats import Stats
from .operations.traces import Traces
from .operations.warmup import compile_state, warm_up_in_background
from .store import snapshots
from .store.event_store import EventStore

logger = logging.getLogger("graphbandit.serving")


def read_initial_state(settings: ServiceSettings) -> InitialState | None:
    """The initial state from the input files; None without files, which a store that has a log does
    not need."""
    if settings.model is not None:
        if settings.graph is not None or settings.arms is not None:
            raise ValueError("model is given, so graph and arms must not be: it brings its own.")
        return InitialState.from_model(file_bytes(settings.model))
    if settings.graph is None and settings.arms is None:
        return None
    if settings.arms is None:
        raise ValueError("arms is missing: a new store needs a file of arms.")
    options = reading_options(settings)
    graph = None if settings.graph is None else read_graph(settings.graph, **options[settings.graph])
    names, features, attributes = read_arms(settings.arms, **options[settings.arms])
    chosen: dict[str, Any] = dict(policy=settings.policy, params=settings.params, epsilon=settings.epsilon, seed=settings.seed)
    return InitialState(graph, names, features, attributes, **chosen)


def reading_options(settings: ServiceSettings) -> dict[Path, Reading]:
    """How to read each of the input files."""
    roles = ((settings.graph, EDGES), (settings.arms, ITEMS), (settings.history, EVENTS))
    said = columns_by_file(parse_columns(settings.columns), {path: role for path, role in roles if path is not None})
    return {path: {"columns": columns, "skip_bad": settings.skip_bad, "say": logger.info} for path, columns in said.items()}


def import_before_serving(service: RecommendationService, settings: ServiceSettings) -> None:
    """Import the history, if there is one and the log does not have it yet."""
    if settings.history is None:
        return
    start, shown = time.perf_counter(), 0.0

    def show(share: float) -> None:
        nonlocal shown
        if share >= shown + 0.1:
            shown = share
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
    """The folder of the snapshots."""
    return snapshots.snapshot_folder(settings.store, settings.snapshots)


def overruled(settings: ServiceSettings, found: InitialState) -> dict[str, Any]:
    """Settings that somebody chose and that the log of the store overrules: it goes on as it was begun."""
    usual = ServiceSettings()
    asked = {name: getattr(settings, name) for name in ("policy", "params", "epsilon", "seed")}
    return {name: value for name, value in asked.items() if value not in (getattr(usual, name), getattr(found, name))}


def build_app(
    settings: ServiceSettings,
    initial: InitialState | None,
    on_failure: Callable[[], None],
    when_ready: Callable[[InitialState], None] = lambda _: None,
) -> tuple[FastAPI, Guard]:
    """The application and its guard. Opens the store; `on_failure` is called if the service cannot
    start later."""
    traces = Traces.from_environment() if settings.traces else None  # raises before the store is touched
    store = EventStore(settings.store)
    found: list[InitialState] = []  # once the store is open

    def open_store() -> None:
        found.append(store.open(initial, math.inf if settings.standby else None))
        if found[0].shard is not None:
            store.close()
            raise ValueError(f"{store.database!r} is the store of a shard: serve all of them, with --shards.")
        report_overruled(settings, initial, found[0])

    if not settings.standby:
        open_store()
    stats = Stats()

    def start() -> RecommendationService:
        if not found:
            logger.info("standing by: another process may be writing to the store")
            open_store()
            logger.info("taking over")
        service = RecommendationService.restore(store, snapshot_folder(settings), found[0], stats)
        service.reward_range = (settings.reward_low, settings.reward_high)
        try:
            import_before_serving(service, settings)
            follow_shadow(settings.shadow, service.recommender, service.change)
        except BaseException:
            service.close()
            raise
        service.recommender.warm_up()
        begun = PolicySpec.of(found[0])
        found.extend(spec.initial_state(found[0]) for spec in service.recommender.specs if spec != begun)
        return service

    def ready() -> None:
        for state in found:  # that of the log, and the same with other policies: all are compiled
            when_ready(state)

    def make_runtime() -> Runtime:
        return Runtime(start, stats, settings.snapshot_every, ready, store.cancel, traces)

    app = create_app(make_runtime, on_failure, settings.most_work, traces)
    tokens = settings.tokens()
    guard = Guard(
        app,
        stats,
        fast_handlers(app),
        connections=Connections(settings, stats),
        tokens=tokens,
        rate=settings.rate,
        largest_body=settings.largest_body,
        only_local=not tokens and is_loopback(settings.host),
        traces=traces,
    )
    return app, guard


def report_overruled(settings: ServiceSettings, initial: InitialState | None, found: InitialState) -> None:
    """Say which settings the log of the store overrules."""
    if initial is not None and found.to_bytes() != initial.to_bytes():
        logger.warning("the store has a log already: its own graph, arms and policy are used, not those given now")
    for name, asked in overruled(settings, found).items():
        facts = {"setting": name, "asked": asked, "in_force": getattr(found, name)}
        logger.warning("a setting is not in force: the log of the store was begun with another", extra=facts)


def server_config(guard: Guard, settings: ServiceSettings) -> uvicorn.Config:
    """The configuration of the web server."""
    seconds = max(1, math.ceil(settings.shutdown_deadline))
    limits: dict[str, Any] = dict(timeout_graceful_shutdown=seconds, proxy_headers=False, server_header=False)
    parts: dict[str, Any] = dict(http=FastPathProtocol, ws="none", log_config=None, access_log=False)
    return uvicorn.Config(guard, host=settings.host, port=settings.port, **parts, **limits)


class GracefulServer(uvicorn.Server):
    """A server that first says that it is not ready any more, and then stops."""

    def __init__(self, guard: Guard, settings: ServiceSettings, leave: Callable[[], None] = lambda: None) -> None:
        super().__init__(server_config(guard, settings))
        self._guard, self._notice, self._leave = guard, settings.shutdown_notice, leave

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal asks the process to end."""
        self._guard.is_stopping = True
        self._leave()
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket] | None = None) -> None:
        """Answer what has begun, and close all connections."""
        self._guard.is_stopping = True
        if not self.force_exit:
            await self.wait_for_notice()
        await super().shutdown(sockets)

    async def wait_for_notice(self) -> None:
        """Give load balancers the time to notice that the service is not ready."""
        await asyncio.sleep(self._notice)


def reload_tokens(guard: Guard, settings: ServiceSettings) -> None:
    """Read the token file again. If it is wrong, the tokens stay as they are."""
    try:
        tokens = settings.tokens()
    except (OSError, ValueError) as error:
        logger.error("the token file could not be read again: the tokens stay as they are", extra={"reason": str(error)})
        return
    guard.set_tokens(tokens)
    logger.info("tokens read again", extra={"tokens": len(tokens), "read_only": sum(not token.may_write for token in tokens)})


def reload_tokens_on_signal(guard: Guard, settings: ServiceSettings) -> None:
    """Read the token file again whenever the process is sent SIGHUP."""
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, lambda *_: reload_tokens(guard, settings))
    elif settings.token_file is not None:
        logger.info("Windows has no SIGHUP: a changed token file is read at the next start")


def serve(settings: ServiceSettings, demo: bool = False) -> None:
    """Run until a signal ends the process; raises whatever kept the service from starting."""
    json_logs.set_up_logging(settings.log_level)
    # uvicorn shuts down and then raises the signal again, which would end the process before it has
    # cleaned up.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    if not demo:
        _run(settings, read_initial_state(settings), None)
        return
    with TemporaryDirectory(prefix="graphbandit-demo-", ignore_cleanup_errors=True) as folder:
        population = DemoPopulation(settings.seed)
        own = replace(settings, store=f"sqlite:///{folder}/demo.db", create=True, standby=False)
        initial = population.initial_state(settings.policy, settings.seed, settings.epsilon, settings.params)
        others = [] if settings.shadow in ("", "none") else [parse_policy(settings.shadow, PolicySpec.of(initial))]
        states = [initial, *(spec.initial_state(initial) for spec in others)]
        with compiling_aside(lambda: compile_for(*states)):  # a newcomer should not wait for the compiler
            _run(own, initial, population)


def compile_for(*initial: InitialState) -> None:
    """Compile what a service with these initial states needs, by warming up copies of them."""
    start = time.perf_counter()
    try:
        for state in initial:
            compile_state(state)
        logger.info("compiled", extra={"seconds": round(time.perf_counter() - start, 3)})
    except Exception:  # a full disk, for example
        logger.exception("the policy could not be compiled: it goes on as plain Python, slowly")


def require_log(settings: ServiceSettings) -> None:
    """Raise ValueError if the store has no log and none is to be begun: a log that was lost must not
    be replaced by an empty one without a word."""
    store = EventStore(settings.store)
    try:
        is_there = store.exists()
    finally:
        store.close()
    if not is_there and not settings.create:
        raise ValueError(
            f"{store.database!r} has no log. If it had one, it was lost: restore a copy (docs/explanation/durability.md). "
            "To begin a new log, say --create, this once."
        )
    if is_there and settings.create:
        logger.warning("the store has a log already: leave out create, so that a lost log is noticed")


def _run(settings: ServiceSettings, initial: InitialState | None, population: DemoPopulation | None) -> None:
    tokens = settings.tokens()  # raises, if the file is wrong, before the store is touched
    if settings.shadow not in ("", "none"):
        parse_policy(settings.shadow, PolicySpec(settings.policy))
    raise_descriptor_limit()
    logger.info("settings", extra=settings.public())
    require_log(settings)
    servers: list[uvicorn.Server] = []

    def end() -> None:
        for running in servers:
            running.should_exit = True

    app, guard = build_app(
        settings, initial if settings.create else None, end, warm_up_in_background if population is None else lambda _: None
    )
    sys.setswitchinterval(0.0005)  # seconds: a whole group of requests waits while the writer thread waits for its turn

    def leave() -> None:
        running: Runtime | None = getattr(app.state, "runtime", None)
        if running is not None:
            running.leave()

    server = GracefulServer(guard, settings, leave)
    servers.append(server)
    reload_tokens_on_signal(guard, settings)
    if population is not None:
        secret = next((token.secret for token in tokens if token.may_write), None)
        population.start(f"http://{settings.host}:{settings.port}", secret)
    server.run()
    runtime: Runtime | None = getattr(app.state, "runtime", None)
    if runtime is not None and runtime.failed is not None:
        raise runtime.failed
