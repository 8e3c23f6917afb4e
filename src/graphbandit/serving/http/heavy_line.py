"""Requests that weigh many arms wait in a line of their own. A thread decides them in slices of bounded
work; between two slices the state follows the log, and everybody else is served all the time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ...recommending.errors import InvalidRequest
from ...recommending.requests import AnyRequest
from ..domain import proposals
from ..domain.events import DecisionRecord
from ..domain.proposals import ProposedDecisions, RequestBatch
from ..operations.runtime import Runtime
from ..store.database import Unavailable
from ..store.group_commit import Callback

LIGHT = 20_000
"""Work, in decisions × arms, up to which a request is decided on the event loop: two milliseconds."""
SLICE = 200_000
"""Work of one slice: it bounds the memory, and how long the state is held."""
WAITING = 10
"""Requests of the largest work that may wait; more is refused, so that memory and delay stay bounded."""


@dataclass(eq=False)
class Heavy:
    """A request that is being decided."""

    asked: RequestBatch
    work: int
    done: Callback[ProposedDecisions]
    decisions: list[DecisionRecord] = field(default_factory=list)
    catalogues: list[int] = field(default_factory=list)  # number of the catalogue at each decision
    taken: int = 0  # how many of its requests have been in a slice
    has_ended: bool = False


class Place(NamedTuple):
    """One decision of a slice."""

    heavy: Heavy
    request: AnyRequest


class HeavyLine:
    """Decides heavy requests, all in turn, one decision of each at a time; belongs to the event loop.

    Parameters
    ----------
    most_work
        Decisions × arms that one request may ask for. A single decision is always allowed.
    """

    def __init__(self, runtime: Callable[[], Runtime], most_work: int) -> None:
        self._runtime, self._most_work = runtime, most_work
        self._line: deque[Heavy] = deque()
        self.work = 0  # of all that waits
        self._task: asyncio.Task[None] | None = None
        self.slices = 0  # so far

    def check(self, requests: Sequence[AnyRequest], work: int) -> None:
        """Raise if a request asks for too much, or too much waits already."""
        if work > self._most_work and len(requests) > 1:
            raise InvalidRequest(
                "requests",
                f"{len(requests):,} decisions would weigh {work:,} arms in all, and one request may weigh {self._most_work:,} "
                "(most_work, decisions × arms): send fewer at once, or candidates.",
            )
        if work > LIGHT and self.work + work > max(WAITING * self._most_work, work):
            raise Unavailable("too many decisions about many arms wait already")

    def add(self, asked: RequestBatch, work: int, done: Callback[ProposedDecisions]) -> None:
        """Decide a request in its turn."""
        self._line.append(Heavy(asked, work, done))
        self.work += work
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        while self._line:
            places = self._next_slice()
            try:
                await self._decide(places)
            except Exception as error:  # the service stops, or a defect
                for place in places:
                    self._end(place.heavy, error)

    def _next_slice(self) -> list[Place]:
        """The next decisions, one of each request in turn."""
        places: list[Place] = []
        work = skipped = 0
        while work < SLICE and skipped < len(self._line):
            heavy = self._line[0]
            self._line.rotate(-1)
            if heavy.taken == len(heavy.asked.requests):
                skipped += 1
                continue
            places.append(Place(heavy, heavy.asked.requests[heavy.taken]))
            heavy.taken += 1
            work, skipped = work + heavy.work // len(heavy.asked.requests) + 1, 0
        return places

    async def _decide(self, places: list[Place]) -> None:
        runtime = self._runtime()
        service = runtime.service
        state, requests = service.recommender, [place.request for place in places]
        made, catalogue = await runtime.beside(lambda: (service.decide_some(requests), state.catalogue))
        self.slices += 1
        for place, decision in zip(places, made, strict=True):
            if isinstance(decision, ValueError):
                self._end(place.heavy, decision)
            else:
                place.heavy.decisions.append(decision)
                place.heavy.catalogues.append(catalogue)
        for heavy in dict.fromkeys(place.heavy for place in places):
            if len(heavy.decisions) == len(heavy.asked.requests) and not heavy.has_ended:
                self._end(heavy, await asyncio.to_thread(_proposed, heavy, state.catalogue))

    def _end(self, heavy: Heavy, result: ProposedDecisions | Exception) -> None:
        if not heavy.has_ended:
            heavy.has_ended = True
            self._line.remove(heavy)
            self.work -= heavy.work
            heavy.done(result)


def _proposed(heavy: Heavy, now: int) -> ProposedDecisions:
    """The event of a request. A decision about all arms names the catalogue if that has changed since."""
    decisions = [
        decision._replace(filter={"where": {}, "exclude": [], "catalogue": catalogue})
        if catalogue != now and decision.candidates is None and decision.filter is None
        else decision
        for decision, catalogue in zip(heavy.decisions, heavy.catalogues, strict=True)
    ]
    return proposals.decided(decisions, heavy.asked)
