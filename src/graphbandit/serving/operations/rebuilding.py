"""Rebuilding the state after a retraction, beside the service, which goes on answering meanwhile."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from ..domain.logged_recommender import LoggedRecommender
from .log_replay import needs_rebuilding, replay_pages
from .pipeline import Pipeline
from .recommendation_service import RecommendationService

logger = logging.getLogger("graphbandit.serving")


async def rebuild(
    service: RecommendationService, pipeline: Pipeline, reading: asyncio.Lock, is_wanted: Callable[[], bool]
) -> int | None:
    """Replay the log without the rewards that were retracted, and put the result in place of the state.

    Returns the last event of the snapshot that the replay began with; None if there was no replay to the end."""
    start, begun = time.perf_counter(), None
    while is_wanted() and service.recommender.stale and service.follows_log:
        replayed = await asyncio.to_thread(_replayed, service, is_wanted)
        if replayed is None:
            return None
        begun, fresh = replayed
        async with reading:
            pipeline.hold()
            try:
                if await asyncio.to_thread(_caught_up, service, fresh):
                    service.replace_state(fresh)
            finally:
                await pipeline.release()
    logger.info("state rebuilt", extra={"events": service.recommender.seq, "seconds": round(time.perf_counter() - start, 3)})
    return begun


def _replayed(service: RecommendationService, is_wanted: Callable[[], bool]) -> tuple[int, LoggedRecommender] | None:
    """Where the replay began, and the state of the whole log; None if the service stops."""
    fresh = service.restart_point()
    begun = fresh.seq
    for _ in replay_pages(service.store, fresh):
        if not is_wanted():
            return None
    return begun, fresh


def _caught_up(service: RecommendationService, fresh: LoggedRecommender) -> bool:
    """Apply what came meanwhile, while nothing is applied to the state; False if a retraction is among it."""
    if needs_rebuilding(service.store, fresh, service.recommender.seq):
        return False
    for _ in replay_pages(service.store, fresh, service.recommender.seq):
        pass
    return fresh.seq == service.recommender.seq and not fresh.stale
