"""A service of many processes: shards in Ray, and an ingress in this process."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Mapping
from typing import Any

from ..serving.http.connection_limits import Connections, raise_descriptor_limit
from ..serving.http.guard import Guard
from ..serving.operations.json_logs import set_up_logging
from ..serving.operations.settings import ServiceSettings, is_loopback
from ..serving.operations.stats import Stats
from ..serving.start import GracefulServer, read_initial_state, reload_tokens_on_signal
from ..serving.store.event_store import EventStore
from ..serving.store.shard_schema import shard_store
from .ingress import Ingress
from .ray_session import import_ray, join_ray
from .shard_actor import ActorLink, start_shards, stop_shards, wait_for_shards
from .shard_plan import FILE, ShardPlan, divide, plan_folder

logger = logging.getLogger("graphbandit.cluster")
NICENESS = "RAY_worker_niceness"
"""Ray lets its workers wait for everybody else, which clients of a service should not have to."""
NOT_TAKEN = ("model", "history", "shadow", "standby")


def begin_shards(settings: ServiceSettings, shards: int | None = None, options: Mapping[str, Any] | None = None) -> ShardPlan:
    """Start the shards of a service, unless they run, and return its plan. Ray must be running.

    Parameters
    ----------
    settings : ServiceSettings
        `store` is a folder, as in sqlite:///service, or a PostgreSQL. With `create` a new service begins, unless there is one.
    shards : int, optional
        How many; that of the plan if there is one.
    options : mapping, optional
        For the actors, as Ray takes them.
    """
    for name in NOT_TAKEN:
        if getattr(settings, name) not in (None, "", "none", False):
            raise ValueError(f"{name} is not offered by a service of shards; see docs/howto/sharded_http.md.")
    folder = plan_folder(settings)
    plan, initial = ShardPlan.read(folder), None
    if plan is not None and shards not in (None, plan.n_shards):
        raise ValueError(f"shards must be {plan.n_shards}, as {folder / FILE} says: the number never changes.")
    if plan is None and not settings.create:
        raise ValueError(
            f"{folder / FILE} is not there. If it was, it was lost: restore a copy. "
            "To begin a new service, say --create, this once."
        )
    if settings.create:
        whole = read_initial_state(settings)
        if whole is None:
            raise ValueError("arms is missing: a new service needs a file of arms.")
        if plan is None:
            _refuse_other_stores(settings, shards or 1)
        plan, initial = divide(whole, shards or 1, plan)
        plan.write(folder)
    assert plan is not None
    start_shards(settings, plan, initial, options)
    return plan


def _refuse_other_stores(settings: ServiceSettings, shards: int) -> None:
    """Refuse to divide users anew whose logs are there: they would be looked for in the wrong shards."""
    for number in range(shards):
        store = EventStore(shard_store(settings.store, number))
        try:
            if store.exists():
                raise ValueError(f"{FILE} is missing, but shard {number} has a log: restore a copy of the file.")
        finally:
            store.close()


def make_guard(settings: ServiceSettings, plan: ShardPlan, *, timeout: float = 10.0, most_waiting: int = 1000) -> Guard:
    """The ingress behind the checks of the service: host, tokens, rate, size.

    Parameters
    ----------
    settings : ServiceSettings
    plan : ShardPlan
    timeout : float
        Seconds for a shard to answer.
    most_waiting : int
        Requests that may wait for a shard at a time.
    """
    stats = Stats()
    links = [ActorLink(plan, number) for number in range(plan.n_shards)]
    ingress = Ingress(plan.router, links, stats, timeout=timeout, most_waiting=most_waiting)
    tokens = settings.tokens()
    limits: dict[str, Any] = dict(rate=settings.rate, largest_body=settings.largest_body)
    only_local = not tokens and is_loopback(settings.host)
    connections = Connections(settings, stats)
    handlers = ingress.fast_handlers()
    return Guard(ingress, stats, handlers, connections=connections, tokens=tokens, only_local=only_local, **limits)


def serve_shards(
    settings: ServiceSettings, shards: int | None = None, *, address: str | None = None, keep_shards: bool = False
) -> None:
    """Run the shards and an ingress until a signal ends the process; requests that have begun are answered.

    Parameters
    ----------
    settings : ServiceSettings
    shards : int, optional
        How many; that of the plan if there is one.
    address : str, optional
        Of a Ray that runs; without it one is started on this machine.
    keep_shards : bool
        Leave the shards running at the end, for other ingresses or for the next one.
    """
    set_up_logging(settings.log_level)
    settings.tokens()  # raises, if the file is wrong, before anything is started
    raise_descriptor_limit()
    ray = import_ray()
    os.environ.setdefault(NICENESS, "0")
    is_ours = join_ray(address, logs=True)
    try:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # Ray has set its own, which ends the process at once
        plan = begin_shards(settings, shards)
        logger.info("settings", extra=settings.public() | {"shards": plan.n_shards} | plan.partition)
        try:
            wait_for_shards(plan)
            guard = make_guard(settings, plan)
            reload_tokens_on_signal(guard, settings)
            GracefulServer(guard, settings).run()
        finally:
            if not keep_shards:
                stop_shards(plan)
    finally:
        if is_ours:
            ray.shutdown()
