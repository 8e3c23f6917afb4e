"""Changes of users, edges and arms that requests ask for: each returns when it is on disk and in force."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...recommending.errors import InvalidRequest
from ..domain import proposals
from ..domain.proposals import ProposedChange
from .runtime import Runtime


class Changes:
    """What the endpoints of users, edges and arms call. Every method returns the number of its event.

    Parameters
    ----------
    runtime
        Called at every request.
    """

    def __init__(self, runtime: Callable[[], Runtime]) -> None:
        self.runtime = runtime

    async def put_user(self, user: str, edges: dict[str, float]) -> int:
        """Add a user with its neighbours, or add neighbours of an existing user."""
        return await self.commit(proposals.put_user(self.runtime().service.recommender, user, edges))

    async def delete_user(self, user: str) -> int:
        """Forget a user."""
        return await self.commit(proposals.delete_user(self.runtime().service.recommender, user))

    async def put_edge(self, a: str, b: str, weight: float) -> int:
        """Connect two users, or change the weight of their edge."""
        return await self.commit(proposals.put_edge(self.runtime().service.recommender, a, b, weight))

    async def delete_edge(self, a: str, b: str) -> int:
        """Remove the edge between two users."""
        return await self.commit(proposals.delete_edge(self.runtime().service.recommender, a, b))

    async def put_arm(
        self, arm: str, features: list[float] | None, attributes: Mapping[str, str], columns: Mapping[str, Any] | None
    ) -> int:
        """Add an arm, or a new version of an existing arm."""
        return await self.commit(proposals.put_arm(self.runtime().service.recommender, arm, features, attributes, columns))

    async def delete_arm(self, arm: str) -> int:
        """Stop offering an arm."""
        return await self.commit(proposals.delete_arm(self.runtime().service.recommender, arm))

    async def commit(self, proposal: ProposedChange) -> int:
        """Log and apply; raises `InvalidRequest` if it is refused."""
        [result] = await self.runtime().commit([proposal])
        if isinstance(result, InvalidRequest):
            raise result
        return result.seq
