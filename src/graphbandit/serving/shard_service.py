"""`ShardService`: one shard of the service. The service core as it is, with its own log, and what it exchanges with others.

A shard answers the HTTP API in process, for users of its own. Whoever faces the clients (`graphbandit.cluster`) checks tokens
and finds the shard of a request.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from starlette.types import Message

from ..sharding.values import encode_values
from .domain import shard_proposals
from .domain.correspondence import Origin
from .domain.initial_state import InitialState
from .domain.shard_recommender import NOT_ON_A_SHARD, ShardRecommender
from .http.app import create_app, fast_handlers
from .http.connection_limits import Connections
from .http.guard import Guard, decode_path
from .http.responses import HttpResponse, problem
from .operations.courier import Courier
from .operations.exchange import Exchange
from .operations.peers import Peer, Peers
from .operations.recommendation_service import RecommendationService
from .operations.runtime import NOT_RUNNING, Runtime
from .operations.settings import ServiceSettings
from .operations.shard_changes import ShardChanges
from .operations.stats import Stats
from .store.database import Unavailable
from .store.event_store import EventStore
from .store.shard_schema import make_room, shard_folder, shard_store
from .store.snapshots import snapshot_folder

__all__ = ["Answer", "Peer", "Peers", "ShardService", "shard_settings"]

Answer = tuple[int, list[tuple[str, str]], bytes]
"""Status, headers and body of a response."""
WITHOUT_START = "/health"
NOT_OFFERED = ("/v1/policy", "/v1/shadow", "/v1/experiment")


def shard_settings(settings: ServiceSettings, number: int) -> ServiceSettings:
    """The settings of one shard, from those of the service: its own store and its own folder of snapshots.

    >>> shard_settings(ServiceSettings(store="sqlite:///service"), 1).store
    'sqlite:///service/shard-0001/state.db'
    """
    store = shard_store(settings.store, number)
    chosen = settings.snapshots
    folder = Path("graphbandit-snapshots") if chosen is None else chosen
    if store.startswith("sqlite") and chosen is None:
        return replace(settings, store=store, snapshots=Path(store.removeprefix("sqlite:///")).parent / "snapshots")
    return replace(settings, store=store, snapshots=folder / shard_folder(number))


class ShardService:
    """One shard of the service.

    Made by `open`, which blocks; all else belongs to an event loop.
    """

    def __init__(self, service: RecommendationService, settings: ServiceSettings, shard_of: Callable[[str], int]) -> None:
        state = service.recommender
        assert isinstance(state, ShardRecommender)
        self.number, self.n_shards = state.number, state.shard.n_shards
        self.settings = settings
        self.is_ready = False  # whether it answers requests
        self._service, self._shard_of = service, shard_of
        state.shard_of = shard_of
        state.begin_epoch(time.time_ns() // 1000)
        self._runtime: Runtime | None = None
        self._courier: Courier | None = None
        self._exchange: Exchange | None = None
        self._guard: Guard | None = None

    @classmethod
    def open(
        cls,
        settings: ServiceSettings,
        number: int,
        n_shards: int,
        initial: InitialState | None,
        shard_of: Callable[[str], int],
    ) -> ShardService:
        """Lock the store of a shard, restore the newest snapshot and replay the rest of the log.

        Parameters
        ----------
        settings : ServiceSettings
            Of the whole service; see `shard_settings`.
        number, n_shards : int
        initial : InitialState, optional
            Of this shard, from `divided`; None if its store has a log.
        shard_of
            The shard of a user, by name: the same function in all shards, for ever.
        """
        for name in ("model", "history"):
            if getattr(settings, name) is not None:
                raise ValueError(f"{name} is given, but a service of shards begins from a graph and arms.")
        if settings.shadow not in ("", "none"):
            raise ValueError(f"shadow is {settings.shadow!r}, but {NOT_ON_A_SHARD}")
        own = shard_settings(settings, number)
        make_room(settings.store, number)
        archive = None if own.store.startswith("sqlite") else Path("graphbandit-archive") / shard_folder(number)
        store = EventStore(own.store, archive)
        found = store.open(initial)
        place = found.shard
        if place is None or (place.number, place.n_shards) != (number, n_shards):
            store.close()
            said = "a whole service" if place is None else f"shard {place.number} of {place.n_shards}"
            raise ValueError(f"{store.database!r} must be that of shard {number} of {n_shards}, but it is that of {said}.")
        service = RecommendationService.restore(store, snapshot_folder(own.store, own.snapshots), found, Stats())
        service.reward_range = (own.reward_low, own.reward_high)
        return cls(service, own, shard_of)

    @property
    def state(self) -> ShardRecommender:
        """The state of the shard; raises `Unavailable` unless it runs."""
        found = self.runtime.service.recommender
        assert isinstance(found, ShardRecommender)
        return found

    @property
    def runtime(self) -> Runtime:
        """The runtime; raises `Unavailable` before `start`."""
        if self._runtime is None:
            raise Unavailable(NOT_RUNNING)
        return self._runtime

    async def start(
        self,
        peers: Peers,
        *,
        on_failure: Callable[[], None] = lambda: None,
        when_ready: Callable[[InitialState], None] = lambda _: None,
    ) -> None:
        """Take what other shards have to tell, deliver what they do not have, and begin to answer.

        A shard that cannot be reached is not waited for: its users are not served, those of this one are.

        Parameters
        ----------
        peers : mapping
            The other shards, by number.
        on_failure
            Called if the state and the log no longer belong together, so that the process has to end.
        when_ready
            Called with the initial state; `warm_up_in_background` compiles what later requests need.
        """
        service, settings = self._service, self.settings
        runtime = Runtime(lambda: service, service.stats, settings.snapshot_every, cancel=service.store.cancel)
        courier = Courier(lambda: runtime, peers)
        exchange = Exchange(lambda: runtime, peers, settings.exchange_seconds, settings.exchange_every)
        changes = ShardChanges(lambda: runtime, self._shard_of, courier, peers)
        app = create_app(lambda: runtime, most_work=settings.most_work, changes=changes)
        app.state.runtime = runtime
        connections = Connections(settings, service.stats)
        self._guard = Guard(app, service.stats, fast_handlers(app), connections=connections, largest_body=settings.largest_body)
        await runtime.run(on_failure)
        self._runtime, self._courier, self._exchange = runtime, courier, exchange  # from here on other shards are answered
        await asyncio.gather(courier.first_round(), exchange.round())
        exchange.start()
        self.is_ready = True
        when_ready(service.store.initial_state())

    async def handle(self, method: str, path: str, query: str, headers: Sequence[tuple[str, str]], body: bytes) -> Answer:
        """Answer a request to the HTTP API of the service.

        Parameters
        ----------
        method : str
        path, query : str
            As they were sent, percent-encoded; the query without its question mark.
        headers : sequence of pairs
        body : bytes
        """
        refusal = self._refusal(method, path)
        if refusal is not None:
            return _answer(refusal)
        guard = self._guard
        assert guard is not None
        fast = guard.fast_handlers.get(path) if method == "POST" else None
        if fast is not None:
            start = time.perf_counter()
            content_type = next((value for name, value in headers if name.lower() == "content-type"), "")
            answered: asyncio.Future[HttpResponse] = asyncio.get_running_loop().create_future()
            fast(content_type.encode(), body, lambda made: None if answered.done() else answered.set_result(made))
            response = await answered
            guard.record(path, method, response.status, start)
            return _answer(response)
        return await _through(guard, method, path, query, headers, body)

    def _refusal(self, method: str, path: str) -> HttpResponse | None:
        """The response to a request that is not for this shard, or not for now."""
        if not self.is_ready and path != WITHOUT_START:
            return problem(503, "service", f"shard {self.number} is starting or stopping.", "unavailable", {"retry-after": "1"})
        if self._guard is None:  # it lives, which is all that one can say
            return HttpResponse(200, b'{"status":"alive"}')
        if method in ("GET", "HEAD"):
            return None
        if path.startswith(NOT_OFFERED):
            return problem(501, "policy", NOT_ON_A_SHARD, "not_offered")
        if path.startswith("/v1/arms/") and self.number:
            return problem(421, "arm", "arms are changed by shard 0, from where all shards hear of them.", "refused")
        return None

    async def values_for(self, reader: int, epoch: int, since: int) -> bytes:
        """What another shard reads of this one and does not have yet, as JSON; raises `Unavailable` unless it runs."""
        return encode_values(self.state.shard.values_for(reader, epoch, since)).encode()

    async def deliver(self, origin: int, number: int, change: dict[str, Any]) -> dict[str, Any]:
        """Take a change that another shard has committed and that concerns this one: once, however often it comes.

        Returns when it is on disk; `refused` are the users that are not here. Number 0 is a question about users, and changes
        nothing. Raises `Unavailable` unless this shard runs.
        """
        if number == 0:
            return {"unknown": [user for user in change["users"] if user not in self.state.rows]}
        said = dict(change)
        where = Origin(origin, said.pop("epoch"), number)
        if self.state.correspondence.is_new(where):
            await self.runtime.commit([shard_proposals.received(where, said)])
        return {"refused": self.state.correspondence.refused(where)}

    def status(self) -> dict[str, Any]:
        """Facts for monitoring; may be called at any time.

        `undelivered`: for each shard, changes that it has not acknowledged. `heard`: for each shard that this one reads from,
        seconds since it last answered, None if it has not.
        """
        found: dict[str, Any] = {"shard": self.number, "shards": self.n_shards, "ready": self.is_ready}
        failed = None if self._runtime is None else self._runtime.failed
        try:
            state = self.state
        except Unavailable as error:
            return found | {"trouble": str(failed or error)}
        answered = {} if self._exchange is None else self._exchange.answered
        now, outbox = time.monotonic(), state.correspondence.outbox.values()
        sources = sorted(state.shard.sources())
        return found | {
            "trouble": str(failed) if failed else self.runtime.trouble,
            "seq": state.seq,
            "users": len(state.rows),
            "ghosts": len(state.ghosts),
            "epoch": state.shard.epoch,
            "undelivered": {to: sum(to in changes for changes in outbox) for to in sorted({k for c in outbox for k in c})},
            "heard": {source: now - answered[source] if source in answered else None for source in sources},
            "taken": {source: list(state.shard.asks(source)) for source in sources},
        }

    async def exchange(self) -> int:
        """Ask the other shards now; how many have told something new."""
        if self._exchange is None:
            raise Unavailable(NOT_RUNNING)
        return await self._exchange.round()

    async def close(self) -> None:
        """Answer nothing more, write a snapshot, and leave the store."""
        self.is_ready = False
        tasks = [task for part in (self._courier, self._exchange) if part is not None for task in part.close()]
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._runtime is None:
            await asyncio.to_thread(self._service.close)
        else:
            self._runtime.leave()
            await self._runtime.stop()


def _answer(response: HttpResponse) -> Answer:
    headers = [("content-type", "application/json"), ("content-length", str(len(response.body)))]
    return response.status, [*headers, *response.headers.items()], response.body


async def _through(guard: Guard, method: str, path: str, query: str, headers: Sequence[tuple[str, str]], body: bytes) -> Answer:
    """Call an ASGI application without a socket."""
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": decode_path(path.encode()) or path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers],
        "client": None,
        "server": None,
    }
    sent = [{"type": "http.request", "body": body, "more_body": False}]
    ended = asyncio.Event()
    status, found, parts = 500, list[tuple[str, str]](), list[bytes]()

    async def receive() -> Message:
        if sent:
            return sent.pop()
        await ended.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        nonlocal status, found
        if message["type"] == "http.response.start":
            status = message["status"]
            found = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in message["headers"]]
        else:
            parts.append(message.get("body", b""))
            if not message.get("more_body", False):
                ended.set()

    await guard(scope, receive, send)
    return status, found, b"".join(parts)
