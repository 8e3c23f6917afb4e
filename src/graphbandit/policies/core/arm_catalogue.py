"""`ArmCatalogue`: many arms, prepared once so that `Policy.rank` need not score all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ...compute.arrays import Ints
from ...validate import as_floats, check_features, check_items, check_places
from .arm_index import ArmIndex
from .arm_search import Asked
from .catalogue_choice import Leaders, find_leaders, pays
from .item_effects import no_items

if TYPE_CHECKING:
    from .policy import Policy

NO_EFFECTS = no_items()


class ArmCatalogue:
    """An (m, dim) array of arms that does not change, for `Policy.rank`.

    Parameters
    ----------
    arms : (m, dim) array
    items : m distinct integers from 0 on, optional
        Ids of the arms.

    Examples
    --------
    >>> from graphbandit import LinUCB, graphs
    >>> policy = LinUCB(graphs.empty(1), 2, exploration=0.1)
    >>> policy.update(0, [1.0, 0.0], 1.0)
    >>> policy.rank(0, ArmCatalogue([[1.0, 0.0], [0.0, 1.0]]), 1).tolist()
    [0]
    """

    def __init__(self, arms: npt.ArrayLike, *, items: npt.ArrayLike | None = None) -> None:
        found = as_floats(arms, "arms")
        self.arms = check_features(found, found.shape[1] if found.ndim == 2 else 0)
        self.items = check_items(items, len(self.arms))
        if len(np.unique(self.items)) != len(self.items) or (self.items < 0).any():
            raise ValueError("items must be distinct ids from 0 on, but one is missing or occurs twice.")
        self._index = ArmIndex(self.arms.shape[1])
        rows = np.arange(len(self.arms))
        self._index.put_many(self.items if len(self.items) else rows, rows)
        self._no_items = np.full(len(self.arms), -1)

    def __len__(self) -> int:
        return len(self.arms)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """The arms, for policies that score all of them."""
        return np.array(self.arms, dtype=dtype, copy=copy)

    def best(self, policy: Policy, user: int, k: int) -> Leaders | None:
        """The rows that may be among the `k` best; None if they are too many for a search."""
        self._index.forget_effects()  # the policy may have learned since, from anything
        ids, effects = (self.items, policy.item_table) if len(self.items) else (self._no_items, NO_EFFECTS)
        blocks = self._index.refresh(policy, self.arms, effects)
        asked = Asked(self.arms, ids, effects, blocks, np.empty(0, np.uint8))
        return find_leaders(policy, user, asked, len(self), k)

    def rank(self, policy: Policy, user: int, k: int) -> Ints:
        """The `k` best rows for a user, as `Policy.rank` says; the policy's generator is used only if some tie."""
        check_features(self.arms[:1], policy.dim)
        check_places(k, len(self))
        searched = policy.is_outlined and policy.is_optimistic and len(self) >= policy.dim and pays(len(self), k, len(self))
        leaders = self.best(policy, user, k) if searched else None
        if leaders is None:
            return policy.rank(user, self.arms, k, items=self.items if len(self.items) else None)
        values = leaders.mean + leaders.bonus
        dealt = np.arange(len(values))
        if len(np.unique(values)) < len(values):
            dealt = policy.rng.permutation(len(values))
        return leaders.versions[dealt[np.argsort(-values[dealt], kind="stable")][:k]]
