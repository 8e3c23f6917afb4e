"""A shard of the service as a Ray actor, and how others reach it.

An actor that ends, for whatever reason, is started again by Ray; it opens its store, replays the log and serves.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from ..serving.domain.initial_state import InitialState
from ..serving.http.responses import problem
from ..serving.operations.json_logs import set_up_logging
from ..serving.operations.settings import ServiceSettings
from ..serving.operations.warmup import warm_up_in_background
from ..serving.shard_service import ShardService
from ..serving.store.database import Unavailable, sqlite_path
from .grouped_calls import GroupedAnswers, GroupedCalls
from .shard_calls import Answer, Headers, ShardDown, ShardRequest
from .shard_plan import ShardPlan

logger = logging.getLogger("graphbandit.cluster")
NAMESPACE = "graphbandit"
MOST_CALLS = 10_000
"""At a time: more than all ingresses let wait, so that shards always reach each other. One event loop handles all of them,
which concurrency groups of Ray would not do."""
PEER_TIMEOUT = 10.0  # seconds
UNSOUND = 3  # exit code, as that of the service
PROBE_AGAIN = 0.1  # seconds
OPEN_AGAIN = 1.0  # seconds, until a store that could not be opened is tried again


class ShardProcess:
    """What runs in the process of a shard. Ray makes an actor of it.

    Parameters
    ----------
    settings : ServiceSettings
    plan : ShardPlan
    number : int
        Of this shard.
    initial : InitialState, optional
        Of this shard, for a store that has no log.
    """

    async def __init__(  # type: ignore[misc]  # Ray awaits it
        self, settings: ServiceSettings, plan: ShardPlan, number: int, initial: InitialState | None = None
    ) -> None:
        set_up_logging(settings.log_level)
        self._settings, self._plan, self._number, self._initial = settings, plan, number, initial
        self._service: ShardService | None = None
        self._trouble, self._failed = "is starting", ""
        self._answers = GroupedAnswers(self.handle)
        self._running = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        """Open the store and begin. Meanwhile requests are answered with 503."""
        try:
            self._service = await self._open()
            others = (number for number in range(self._plan.n_shards) if number != self._number)
            peers = {number: ActorPeer(self._plan, number) for number in others}
            await self._service.start(peers, on_failure=_end_process, when_ready=warm_up_in_background)
        except Exception as error:  # nothing that waiting would mend
            self._failed = self._trouble = f"cannot start: {error}"
            logger.exception("a shard cannot start", extra={"shard": self._number})
            return
        self._initial, self._trouble = None, ""
        logger.info("a shard serves", extra={"shard": self._number})

    async def _open(self) -> ShardService:
        opening = (self._settings, self._number, self._plan.n_shards, self._initial, self._plan.router.shard_of)
        while True:
            try:
                return await asyncio.to_thread(ShardService.open, *opening)
            except Unavailable as error:  # the process before this one may not be quite gone, or the database is not there
                self._trouble = f"cannot open its store ({error})"
                logger.warning("the store cannot be opened yet", extra={"shard": self._number, "reason": str(error)})
                await asyncio.sleep(OPEN_AGAIN)

    async def handle(self, method: str, path: str, query: str, headers: Headers, body: bytes) -> Answer:
        """Answer a request of the API."""
        if self._service is None:
            refusal = problem(503, "shard", f"shard {self._number} {self._trouble}.", "unavailable", {"retry-after": "1"})
            return refusal.status, list(refusal.headers.items()), refusal.body
        return await self._service.handle(method, path, query, headers, body)

    async def handle_many(self, requests: Sequence[tuple[Any, ...]]) -> tuple[list[Answer | None], int]:
        """Answer requests that travel together."""
        return await self._answers.handle_many(requests)

    async def late_answer(self, ticket: int, place: int) -> Answer:
        """An answer that took longer than the others of its group."""
        return await self._answers.late_answer(ticket, place)

    async def values_for(self, reader: int, epoch: int, since: int) -> bytes:
        """What another shard reads of this one."""
        return await self._there().values_for(reader, epoch, since)

    async def deliver(self, origin: int, number: int, change: dict[str, Any]) -> dict[str, Any]:
        """Take a change that another shard has committed."""
        return await self._there().deliver(origin, number, change)

    def _there(self) -> ShardService:
        if self._service is None:
            raise ShardDown(self._trouble)
        return self._service

    async def status(self) -> dict[str, Any]:
        """Facts for monitoring; `failed` says why the shard will never be ready."""
        found: dict[str, Any] = {"shard": self._number, "ready": False, "trouble": self._trouble or None}
        if self._service is not None:
            found |= self._service.status()
        return found | {"pid": os.getpid(), "failed": self._failed or None}

    async def stop(self) -> None:
        """Write what waits and a snapshot, and leave the store."""
        await asyncio.gather(self._running, return_exceptions=True)
        service, self._service, self._trouble = self._service, None, "has been stopped"
        if service is not None:
            await service.close()


def _end_process() -> None:
    """The state and the log no longer belong together: end, so that Ray starts the shard again from its log."""
    logger.error("the state does not follow the log: the shard is started again")
    os._exit(UNSOUND)


class ShardGone(ShardDown):
    """There is no actor of a shard, and nobody starts one: it could not be made, or it was stopped."""


class _ActorCaller:
    """Calls the actor of a shard, whose handle stays the same when it is started again."""

    def __init__(self, plan: ShardPlan, number: int) -> None:
        self._name = plan.actor_name(number)
        self._actor: Any = None

    async def call(self, method: str, *arguments: Any) -> Any:
        """What a method returns; raises ShardDown if the actor is not there."""
        import ray
        from ray.exceptions import ActorDiedError, RayActorError, RayTaskError

        try:
            if self._actor is None:
                self._actor = await asyncio.to_thread(partial(ray.get_actor, self._name, namespace=NAMESPACE))
            return await getattr(self._actor, method).remote(*arguments)
        except ValueError as error:
            raise ShardGone(f"there is no actor {self._name}") from error
        except RayTaskError as error:
            if isinstance(error.cause, ShardDown):
                raise error.cause from None
            raise
        except RayActorError as error:
            self._actor = None  # if it was made anew, the name leads to the new one
            raise (ShardGone if isinstance(error, ActorDiedError) else ShardDown)(str(error)) from error


class ActorLink(_ActorCaller):
    """How the ingress reaches a shard."""

    def __init__(self, plan: ShardPlan, number: int) -> None:
        super().__init__(plan, number)
        self._grouped = GroupedCalls(self.call)
        self._probing: asyncio.Task[None] | None = None

    async def handle(self, method: str, path: str, query: str, headers: Headers, body: bytes) -> Answer:
        """Answer a request of the API; raises ShardDown if the shard is not there.

        Ray takes seconds to say so. Once it has, others are refused at once, until the shard answers again.
        """
        if self._probing is not None and not self._probing.done():
            raise ShardDown("it is being started again")
        try:
            return await self._grouped.handle(ShardRequest(method, path, query, headers, body))
        except ShardDown:
            if self._probing is None or self._probing.done():
                self._probing = asyncio.get_running_loop().create_task(self._probe())
            raise

    async def _probe(self) -> None:
        """Return when the shard's process answers."""
        while True:
            with suppress(ShardDown, TimeoutError):
                async with asyncio.timeout(PEER_TIMEOUT):
                    await self.call("status")
                    return
            await asyncio.sleep(PROBE_AGAIN)

    async def status(self) -> dict[str, Any]:
        """Facts for monitoring."""
        found: dict[str, Any] = await self.call("status")
        return found


class ActorPeer(_ActorCaller):
    """How a shard reaches another one."""

    async def values_for(self, reader: int, epoch: int, since: int) -> bytes:
        """What the other has for this shard."""
        async with asyncio.timeout(PEER_TIMEOUT):
            values: bytes = await self.call("values_for", reader, epoch, since)
        return values

    async def deliver(self, origin: int, number: int, change: dict[str, Any]) -> dict[str, Any]:
        """Give the other a change."""
        async with asyncio.timeout(PEER_TIMEOUT):
            answer: dict[str, Any] = await self.call("deliver", origin, number, change)
        return answer


def start_shards(
    settings: ServiceSettings,
    plan: ShardPlan,
    initial: Sequence[InitialState] | None = None,
    options: Mapping[str, Any] | None = None,
) -> None:
    """Start the actors of all shards that do not run already. They outlive the process that starts them.

    With SQLite all of them run on this machine, where the files are. With PostgreSQL they are spread over the machines.

    Parameters
    ----------
    settings : ServiceSettings
    plan : ShardPlan
    initial : sequence of InitialState, optional
        Of the shards, for stores that have no log.
    options : mapping, optional
        For Ray, as in {"num_cpus": 1}: what an actor needs, where it may run.
    """
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    where: Any = "SPREAD"
    if sqlite_path(settings.store) is not None:
        where = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    # A call that failed may have been logged: whoever made it repeats it, with its key.
    usual: dict[str, Any] = dict(num_cpus=0, max_restarts=-1, max_task_retries=0, max_concurrency=MOST_CALLS)
    usual |= dict(lifetime="detached", namespace=NAMESPACE, get_if_exists=True, scheduling_strategy=where)
    actor = ray.remote(ShardProcess)
    for number in range(plan.n_shards):
        chosen = usual | dict(options or {}) | {"name": plan.actor_name(number)}
        actor.options(**chosen).remote(settings, plan, number, None if initial is None else initial[number])


def wait_for_shards(plan: ShardPlan, timeout: float = 600.0) -> None:
    """Wait until all shards serve.

    Parameters
    ----------
    plan : ShardPlan
    timeout : float
        Seconds.
    """
    asyncio.run(_all_ready(plan, timeout))


async def _all_ready(plan: ShardPlan, timeout: float) -> None:
    waiting = {number: ActorLink(plan, number) for number in range(plan.n_shards)}
    end, trouble = asyncio.get_running_loop().time() + timeout, ""
    while waiting:
        for number, link in list(waiting.items()):
            try:
                found = await link.status()
            except ShardGone as error:
                raise ValueError(f"shard {number} could not be started: {error}") from None
            except ShardDown as error:
                trouble = str(error)
                continue
            if found["failed"]:
                raise ValueError(f"shard {number} {found['failed']}")
            trouble = f"shard {number} {found['trouble']}"
            if found["ready"]:
                del waiting[number]
        if waiting and asyncio.get_running_loop().time() > end:
            raise ValueError(f"timeout is over: not all shards serve after {timeout:g} s ({trouble}).")
        await asyncio.sleep(0.05 if waiting else 0.0)


def stop_shards(plan: ShardPlan, timeout: float = 60.0) -> None:
    """Stop the actors of all shards; each writes a snapshot first.

    Parameters
    ----------
    plan : ShardPlan
    timeout : float
        Seconds; whoever takes longer is killed, which loses nothing.
    """
    import ray

    async def stop_all() -> None:
        callers = [_ActorCaller(plan, number) for number in range(plan.n_shards)]
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await asyncio.gather(*(caller.call("stop") for caller in callers), return_exceptions=True)

    asyncio.run(stop_all())
    for number in range(plan.n_shards):
        with suppress(ValueError):
            ray.kill(ray.get_actor(plan.actor_name(number), namespace=NAMESPACE), no_restart=True)
