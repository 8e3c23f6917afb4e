"""Several shards of a small service in one process, whose messages can be lost and doubled, and which can be killed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from graphbandit import graphs
from graphbandit.serving import InitialState, ServiceSettings, replay_from_zero
from graphbandit.serving.domain.logged_recommender import LoggedRecommender
from graphbandit.serving.domain.packing import digest
from graphbandit.serving.domain.shard_initial import divided
from graphbandit.serving.operations.recommendation_service import RecommendationService
from graphbandit.serving.operations.settings import ServiceSettings as Settings
from graphbandit.serving.shard_service import ShardService, shard_settings
from graphbandit.serving.store.event_store import EventStore

PEOPLE = ("ann", "bob", "eve", "joe", "kim", "lea", "max", "zoë")
DISHES = ("tea", "a/b", "50%", "ünï")
HOME = {name: place % 3 for place, name in enumerate(PEOPLE)}  # a ring: every neighbour is in another shard


class Away(Exception):
    """A message was lost."""


def home_of(name: str) -> int:
    """The shard of a user: newcomers by their last letter."""
    return HOME.get(name, ord(name[-1]) % 3)


def whole_state(policy: str = "linucb", **settings: Any) -> InitialState:
    """A ring of people, and arms of two features."""
    graph = graphs.from_edges([*pairwise(PEOPLE), (PEOPLE[-1], PEOPLE[0])], ids=PEOPLE)
    features = np.random.default_rng(0).standard_normal((len(DISHES), 2))
    return InitialState(graph, DISHES, features, [{} for _ in DISHES], policy=policy, **settings)


def hashed(state: LoggedRecommender) -> str:
    """The hash of a state."""
    return digest(*state.pack())


class Link:
    """One shard as another one sees it."""

    def __init__(self, shards: Shards, source: int, target: int) -> None:
        self._shards, self._source, self._target = shards, source, target

    async def values_for(self, reader: int, epoch: int, since: int) -> bytes:
        found: bytes = await self._shards.send("values_for", self._source, self._target, (reader, epoch, since))
        return found

    async def deliver(self, origin: int, number: int, change: dict[str, Any]) -> dict[str, Any]:
        copy = json.loads(json.dumps(change))  # as between processes
        found: dict[str, Any] = await self._shards.send("deliver", self._source, self._target, (origin, number, copy))
        return found


Fault = Callable[["Shards", str, int, int, Callable[[], Awaitable[Any]]], Awaitable[Any]]
"""What becomes of a message: shards, method, from, to, and the call."""


class Shards:
    """Three shards by default. A shard that was killed is None until it is opened again."""

    def __init__(
        self, folder: Path, initial: InitialState | None, n: int = 3, store: str | None = None, **settings: Any
    ) -> None:
        chosen = {"exchange_seconds": 60.0, "snapshots": None if store is None else folder} | settings
        self.settings: Settings = ServiceSettings(store=store or f"sqlite:///{folder}", **chosen)
        self.n = n
        placed = np.array([HOME[name] % n for name in PEOPLE])
        self.initial = None if initial is None else divided(initial, placed, n)
        self.services: list[ShardService | None] = [None] * n
        self.fault: Fault | None = None
        self.sent = 0

    def __getitem__(self, number: int) -> ShardService:
        found = self.services[number]
        assert found is not None
        return found

    def home(self, name: str) -> int:
        return home_of(name) % self.n

    async def send(self, method: str, source: int, target: int, arguments: tuple[Any, ...]) -> Any:
        """A message on its way."""
        self.sent += 1

        async def call() -> Any:
            found = self.services[target]
            if found is None:
                raise Away
            return await getattr(found, method)(*arguments)

        return await (call() if self.fault is None else self.fault(self, method, source, target, call))

    async def open(self, *numbers: int) -> None:
        """Open shards and start them, all by default."""
        chosen = numbers or tuple(range(self.n))
        for number in chosen:
            initial = None if self.initial is None else self.initial[number]
            self.services[number] = ShardService.open(self.settings, number, self.n, initial, self.home)
        for number in chosen:
            await self[number].start({other: Link(self, number, other) for other in range(self.n) if other != number})

    async def kill(self, number: int) -> None:
        """Stop a shard at once: nothing more is written."""
        found, self.services[number] = self.services[number], None
        assert found is not None
        found.is_ready = False
        found.runtime.service.store.close()
        found.runtime.service.abandon()
        for part in (found._courier, found._exchange):
            assert part is not None
            await asyncio.gather(*part.close(), return_exceptions=True)

    async def restart(self, number: int) -> None:
        """Kill a shard and open it again."""
        if self.services[number] is not None:
            await self.kill(number)
        await self.open(number)

    async def close(self) -> None:
        """Shut down."""
        for found in self.services:
            if found is not None:
                await found.close()

    async def exchange(self, rounds: int = 30) -> None:
        """Exchange until nothing is new."""
        for _ in range(rounds):
            told = [await found.exchange() for found in self.services if found is not None]
            if not any(told):
                return

    async def delivered(self) -> None:
        """Wait until all outboxes are empty."""
        for _ in range(1000):
            if not any(found is None or found.state.correspondence.outbox for found in self.services):
                return
            for found in self.services:
                if found is not None and found._courier is not None:
                    found._courier.wake()
            await asyncio.sleep(0.01)
        raise AssertionError("something is undelivered")

    async def ask(self, number: int, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """A request to a shard: status and answer."""
        content = b"" if body is None else json.dumps(body).encode()
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(content)))]
        path, _, query = path.partition("?")
        status, found, answer = await self[number].handle(method, path, query, headers, content)
        if status == 503:
            assert ("retry-after", "1") in found
        return status, json.loads(answer)

    async def at(self, user: str, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """A request to the shard of a user."""
        return await self.ask(self.home(user), method, path, body)

    async def reward(self, user: str, arm: str, value: float) -> str:
        """Show a user an arm, which earns a reward; the decision."""
        status, made = await self.at(user, "POST", "/v1/recommendations", {"user": user, "candidates": [arm]})
        assert status == 200, made
        status, answer = await self.at(user, "POST", "/v1/rewards", {"decision": made["decision"], "value": value})
        assert (status, answer) == (200, {"accepted": 1, "duplicates": 0})
        return str(made["decision"])

    def theta(self, users: Sequence[str]) -> np.ndarray[Any, np.dtype[np.float64]]:
        """What is known of users, by their own shards."""
        rows = []
        for user in users:
            state = self[self.home(user)].state
            rows.append(state.inner.estimates(np.array([state.rows[user]]))[0])
        return np.array(rows)

    def edges(self) -> dict[tuple[str, str], float]:
        """All edges; an AssertionError if two shards do not agree about one."""
        told: dict[tuple[str, str], dict[str, float]] = {}
        for found in self.services:
            assert found is not None
            state = found.state
            for name, row in state.rows.items():
                for other, weight in state.edges(row):
                    pair = (min(name, state.names[other]), max(name, state.names[other]))
                    told.setdefault(pair, {})[name] = weight
        for pair, weights in told.items():
            assert set(weights) == set(pair) and len(set(weights.values())) == 1, (pair, weights)
        return {pair: min(weights.values()) for pair, weights in told.items()}

    def check_replay(self) -> None:
        """Every log, replayed from zero, leads to the state of its shard bit for bit."""
        for number, found in enumerate(self.services):
            assert found is not None
            reader = EventStore(shard_settings(self.settings, number).store)
            reader.attach()
            whole = replay_from_zero(reader)
            reader.close()
            assert hashed(whole) == hashed(found.state)


def run(steps: Callable[[], Awaitable[None]]) -> None:
    """Run a test in an event loop."""

    async def within() -> None:
        await asyncio.wait_for(steps(), 300)  # compiling may take long

    asyncio.run(within())


def user_path(name: str) -> str:
    return f"/v1/users/{quote(name, safe='')}"


def edge_path(a: str, b: str) -> str:
    return f"/v1/edges/{quote(a, safe='')}/{quote(b, safe='')}"


def whole_service(folder: Path, initial: InitialState) -> RecommendationService:
    """The same in one piece."""
    folder.mkdir(parents=True, exist_ok=True)
    return RecommendationService.open(EventStore(f"sqlite:///{folder}/state.db"), folder / "snapshots", initial)


Edges = Mapping[tuple[str, str], float]
