"""`ShardChanges`: changes that may concern several shards. Answered when all of them have the change on disk."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...recommending.errors import Conflict, InvalidRequest, UnknownName
from ..domain import shard_proposals
from ..domain.proposals import ProposedChange
from ..domain.shard_recommender import ShardRecommender
from .changes import Changes
from .courier import Courier
from .peers import Peers, reached
from .runtime import Runtime


class ShardChanges(Changes):
    """As `Changes`, in one shard.

    The event in the log of this shard is the point of no return: once it is written, the others will be told, however often
    any of them is killed. Before that, a shard that has to be told is asked whether it knows the users, so that what cannot
    be is refused while nothing has happened.

    Parameters
    ----------
    runtime
        The runtime of this shard.
    shard_of
        The shard of a user, by name.
    courier, peers
        For the other shards.
    """

    def __init__(self, runtime: Callable[[], Runtime], shard_of: Callable[[str], int], courier: Courier, peers: Peers) -> None:
        super().__init__(runtime)
        self._shard_of, self._courier, self._peers = shard_of, courier, peers

    @property
    def state(self) -> ShardRecommender:
        """The state of this shard."""
        found = self.runtime().service.recommender
        assert isinstance(found, ShardRecommender)
        return found

    async def put_user(self, user: str, edges: dict[str, float]) -> int:
        """Add a user with its neighbours, who may belong to other shards."""
        self.state.check_home(user, "user")
        homes = self._homes(edges)
        if not homes:
            return await super().put_user(user, edges)
        shard_proposals.put_user_across(self.state, user, edges, homes)  # raises before others are asked
        await self._check_known(homes, "edges")
        return await self._commit_everywhere(shard_proposals.put_user_across(self.state, user, edges, homes), "edges")

    async def delete_user(self, user: str) -> int:
        """Forget a user, also where it is a neighbour."""
        self.state.check_home(user, "user")
        seq = await super().delete_user(user)
        await self._courier.delivered(seq)
        return seq

    async def put_edge(self, a: str, b: str, weight: float) -> int:
        """Connect two users, or change the weight of their edge."""
        self.state.check_home(a, "a")
        homes = self._homes([b])
        if a == b or not homes:
            return await super().put_edge(a, b, weight)
        self.state.row(a, "a")
        await self._check_known(homes, "b")
        return await self._commit_everywhere(shard_proposals.put_edge_across(self.state, a, b, weight, homes[b]), "b")

    async def delete_edge(self, a: str, b: str) -> int:
        """Remove the edge between two users."""
        self.state.check_home(a, "a")
        homes = self._homes([b])
        if not homes:
            return await super().delete_edge(a, b)
        return await self._commit_everywhere(shard_proposals.delete_edge_across(self.state, a, b, homes[b]), "b")

    async def put_arm(
        self, arm: str, features: list[float] | None, attributes: Mapping[str, str], columns: Mapping[str, Any] | None
    ) -> int:
        """Add an arm, or a new version of an existing arm, in all shards."""
        self._check_first()
        seq = await super().put_arm(arm, features, attributes, columns)
        await self._courier.delivered(seq)
        return seq

    async def delete_arm(self, arm: str) -> int:
        """Stop offering an arm in all shards."""
        self._check_first()
        seq = await super().delete_arm(arm)
        await self._courier.delivered(seq)
        return seq

    def _check_first(self) -> None:
        if self.state.number:
            raise InvalidRequest("arm", "arms are changed by shard 0, from where all shards hear of them in the same order.")

    def _homes(self, users: Sequence[str] | Mapping[str, float]) -> dict[str, int]:
        """The shards of those users who belong to others."""
        found = {user: self._shard_of(user) for user in users if user not in self.state.rows}
        return {user: home for user, home in found.items() if home != self.state.number}

    async def _check_known(self, homes: Mapping[str, int], field: str) -> None:
        """Raise `UnknownName` if another shard does not know its user, and `Unavailable` if it cannot be asked."""
        for home in sorted(set(homes.values())):
            asked = [user for user in homes if homes[user] == home]
            question = {"ask": "known", "users": asked}
            answer = await reached(home, self._peers[home].deliver(self.state.number, 0, question))
            for user in answer["unknown"]:
                raise UnknownName(field, f"there is no user {user!r}.")

    async def _commit_everywhere(self, proposal: ProposedChange, field: str) -> int:
        seq = await self.commit(proposal)
        refused = await self._courier.delivered(seq)
        if refused:
            names = ", ".join(map(repr, refused))
            raise Conflict(field, f"user {names} was deleted before the edge could be put; it was not.")
        return seq
