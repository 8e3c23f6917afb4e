"""`Wrapper`: a policy around another one, which decides and learns."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from ...compute.arrays import Floats, Ints
from ...storage import archive
from ...validate import NO_ITEMS
from ..core.item_effects import ItemEffects, ItemIntervals
from ..core.kernels import Belief, Requests, Scores
from ..core.policy import Policy, Seed


class Wrapper(Policy):
    """Base of the wrappers: scores, beliefs, draws and effects of items are those of the policy inside."""

    policy: Policy

    @property
    def theta(self) -> Floats:
        """(n_users, dim) the estimate of the policy inside for every user, as a copy."""
        return self.policy.theta

    @property
    def has_belief(self) -> bool:
        return self.policy.has_belief

    @property
    def scores_from_belief(self) -> bool:
        return self.policy.scores_from_belief

    @property
    def draws_from_belief(self) -> bool:
        return self.policy.draws_from_belief

    @property
    def n_normals(self) -> int:
        return self.policy.n_normals

    @property
    def is_optimistic(self) -> bool:
        return self.policy.is_optimistic

    @property
    def is_sampling(self) -> bool:
        return self.policy.is_sampling

    @property
    def draws_values(self) -> bool:
        return self.policy.draws_values

    @property
    def decides_by_kernels(self) -> bool:
        return self.policy.decides_by_kernels

    @property
    def learns_by_kernels(self) -> bool:
        return self.policy.learns_by_kernels

    def beliefs(self, users: Ints) -> Belief:
        return self.policy.beliefs(users)

    def search_belief(self, user: int) -> Belief | None:
        return self.policy.search_belief(user)

    def score(self, user: int, arms: Floats, items: Ints) -> Scores:
        return self.policy.score(user, arms, items)

    def score_many(self, requests: Requests, scores: Scores) -> None:
        self.policy.score_many(requests, scores)

    def values(self, user: int, arms: Floats, items: Ints, normals: Floats) -> Floats:
        return self.policy.values(user, arms, items, normals)

    def choice_probabilities(self, user: int, arms: Floats, normals: Floats, items: Ints = NO_ITEMS) -> Floats:
        return self.policy.choice_probabilities(user, arms, normals, items)

    @property
    def learns_items(self) -> bool:
        return self.policy.learns_items

    @property
    def item_table(self) -> ItemEffects:
        return self.policy.item_table

    @property
    def item_room(self) -> int:
        return self.policy.item_room

    def reserve_items(self, n: int) -> None:
        """Make room for items in the policy inside."""
        self.policy.reserve_items(n)
        self._follow_inner()

    def effects_of(self, items: npt.ArrayLike, *, cautious: bool = False) -> ItemIntervals:
        """Return what items earn beyond their features, see `Policy.effects_of`."""
        return self.policy.effects_of(items, cautious=cautious)

    def remove_item(self, item: int) -> None:
        """Forget the effect of an item, see `Policy.remove_item`."""
        self.policy.remove_item(item)

    def reseed(self, seed: Seed) -> None:
        """Replace the generator of the decisions; it seeds that of the policy inside."""
        super().reseed(seed)
        self.policy.reseed(int(self.rng.integers(2**62)))

    def _follow_inner(self) -> None:
        """Take over what the policy inside replaces as it changes."""
        raise NotImplementedError


def prefixed_params(inner: Policy) -> dict[str, Any]:
    """Return the settings of the policy inside, as they appear among those of the wrapper."""
    return {f"policy.{name}": value for name, value in inner.params.items()}


def unpack_policy(header: dict[str, Any], arrays: archive.Arrays) -> Policy:
    """Return the policy of which `pack` gave header and arrays, of whatever class the header names."""
    return policy_classes()[header["policy"]].unpack(header, arrays)


def policy_classes(base: type[Policy] = Policy) -> dict[str, type[Policy]]:
    """Return `base` and all its subclasses by name, those that a user has defined too."""
    found = {base.__name__: base}
    for subclass in base.__subclasses__():
        found |= policy_classes(subclass)
    return found
