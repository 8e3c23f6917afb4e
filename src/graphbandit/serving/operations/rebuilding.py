"""Rebuilding the state after a retraction, beside the service, which goes on answering meanwhile."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from ..domain.logged_recommender import LoggedRecommender
from .log_replay import needs_rebuilding, replay_pages
from .recommendation_service import RecommendationService

logger = logging.getLogger("graphbandit.serving")
Beside = Callable[[Callable[[], None]], Awaitable[None]]
"""`Runtime.beside`."""


async def rebuild(service: RecommendationService, beside: Beside, is_wanted: Callable[[], bool]) -> None:
    """Replay the log without the rewards that were retracted, and put the result in place of the state."""
    start = time.perf_counter()
    while is_wanted() and service.recommender.stale and service.follows_log:
        fresh = await asyncio.to_thread(_replayed, service, is_wanted)
        if fresh is None:
            return
        await beside(lambda fresh=fresh: _replace(service, fresh))  # type: ignore[misc]
    logger.info("state rebuilt", extra={"events": service.recommender.seq, "seconds": round(time.perf_counter() - start, 3)})


def _replayed(service: RecommendationService, is_wanted: Callable[[], bool]) -> LoggedRecommender | None:
    """The state of the whole log; None if the service stops."""
    fresh = service.restart_point()
    for _ in replay_pages(service.store, fresh):
        if not is_wanted():
            return None
    return fresh


def _replace(service: RecommendationService, fresh: LoggedRecommender) -> None:
    """Apply what came meanwhile, while nothing is applied to the old state; go on with that if a retraction is among it."""
    end = service.recommender.seq
    if needs_rebuilding(service.store, fresh, end):
        return
    for _ in replay_pages(service.store, fresh, end):
        pass
    if fresh.seq == end and not fresh.stale:
        service.replace_state(fresh)
