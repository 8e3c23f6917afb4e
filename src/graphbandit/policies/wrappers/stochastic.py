"""Stochastic: adds randomness of known probability to any policy, for off-policy evaluation."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import exp
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from ...compute.arrays import Floats, Ints
from ...compute.compiler import compiled
from ...compute.linalg import normal_cdf
from ...graph import UserGraph
from ...live_graph import Edges
from ...storage import archive
from ...validate import NO_ITEMS, POSITIVE, SHARE, check_features, check_items, check_places, optional
from ..core import kernels, policy_file
from ..core.decisions import Belief
from ..core.graph_changes import Removal
from ..core.item_effects import ItemEffects, ItemIntervals
from ..core.policy import Policy, Seed
from .inner_policy import prefixed_params, reseed_inner, unpack_policy


class StochasticState(NamedTuple):
    """The state of the policy inside, and how much randomness is added."""

    inner: Any  # the policy's own state
    epsilon: float
    temperature: float  # 0: no softmax, but the policy's own choice


@compiled
def score_items(state: StochasticState, user: int, arms: Floats, items: Ints, mean: Floats, bonus: Floats) -> None:
    """The scores of the policy inside."""
    kernels.score_items(state.inner, user, arms, items, mean, bonus)


@compiled
def update_item(state: StochasticState, user: int, x: Floats, item: int, reward: float) -> None:
    """Let the policy inside learn."""
    kernels.update_item(state.inner, user, x, item, reward)


@compiled
def sample_items(state: StochasticState, user: int, arms: Floats, items: Ints, normals: Floats, values: Floats) -> None:
    """Equal values, with probability epsilon; else an arm by softmax, or the policy's values.

    The first normal decides about epsilon, the second draws from the softmax, the others are the
    policy's own.
    """
    if normal_cdf(normals[0]) < state.epsilon:
        for a in range(values.shape[0]):
            values[a] = 0.0
    elif state.temperature > 0.0:
        softmax(state, user, arms, items, values)
        left, drawn = normal_cdf(normals[1]), -1
        for a in range(values.shape[0]):
            if left >= 0.0 and values[a] > 0.0:
                drawn = a
            left -= values[a]
        for a in range(values.shape[0]):
            values[a] = 1.0 if a == drawn else 0.0
    else:
        kernels.sample_items(state.inner, user, arms, items, normals[2:], values)


@compiled
def softmax(state: StochasticState, user: int, arms: Floats, items: Ints, chances: Floats) -> None:
    """Write P(a) ∝ exp((mean + bonus) / temperature)."""
    bonus = np.empty(arms.shape[0])
    kernels.score_items(state.inner, user, arms, items, chances, bonus)
    best, total = -np.inf, 0.0
    for a in range(arms.shape[0]):
        chances[a] += bonus[a]
        best = max(best, chances[a])
    for a in range(arms.shape[0]):
        chances[a] = exp((chances[a] - best) / state.temperature)
        total += chances[a]
    for a in range(arms.shape[0]):
        chances[a] /= total


class Stochastic(Policy):
    """Any policy with randomness added: P(a) = (1 - epsilon) Q(a) + epsilon / m for m arms.

    Q is softmax((mean + bonus) / temperature) of the policy's scores or, without a temperature, the
    policy's own choice. Every arm then has a known probability of at least epsilon / m, which
    inverse propensity scoring needs.

    Parameters
    ----------
    policy : Policy
        Learns, and scores the arms. From now on it must be used through this wrapper only.
    epsilon : float
        Share of decisions that are uniform.
    temperature : float, optional
        In units of reward. The smaller it is, the more often the best arm is chosen. Replaces the
        sampling of a Thompson policy.

    Notes
    -----
    `propensities` is exact, unless the policy samples and there is no temperature. `rank` fills one
    place after the other, each by a decision among the arms that are left.

    Examples
    --------
    >>> from graphbandit import LinUCB, graphs
    >>> policy = Stochastic(LinUCB(graphs.empty(1), 2, exploration=0.0), epsilon=0.2)
    >>> policy.update(0, [1.0, 0.0], 1.0)
    >>> arms = [[1.0, 0.0], [0.0, 1.0]]
    >>> policy.propensities(0, arms).tolist(), policy.recommend(0, arms, propensity=True)
    ([0.9, 0.1], Choice(arm=0, propensity=0.9))
    """

    ranges = Policy.ranges | {"epsilon": SHARE, "temperature": optional(POSITIVE)}

    def __init__(self, policy: Policy, *, epsilon: float = 0.0, temperature: float | None = None, seed: Seed = 0) -> None:
        if not isinstance(policy, Policy):
            raise ValueError(f"policy must be a Policy, but it is a {type(policy).__name__}.")
        if not (policy.decides_by_kernels and policy.learns_by_kernels):
            raise ValueError(
                f"policy must decide and learn by its kernels, but {type(policy).__name__} has methods of its own."
            )
        super().__init__(policy.graph, policy.dim, locals())
        self.params = prefixed_params(policy) | {"epsilon": epsilon, "temperature": temperature}
        self.policy = policy
        self.live_graph = policy.live_graph
        self.state = StochasticState(policy.state, float(epsilon), 0.0 if temperature is None else float(temperature))

    @property
    def theta(self) -> Floats:
        """(n_users, dim) the policy's estimate for every user, as a copy."""
        return self.policy.theta

    def bonus_scale(self, user: int) -> float:
        """β of the policy inside."""
        return self.policy.bonus_scale(user)

    def rank(self, user: int, arms: npt.ArrayLike, k: int, *, items: npt.ArrayLike | None = None) -> Ints:
        """`k` rows of `arms` for `user`, each by a decision among those that are left."""
        user, features = self.check_user(user), check_features(arms, self.dim)
        ids = None if items is None else check_items(items, len(features))
        check_places(k, len(features))
        left, chosen = list(range(len(features))), np.empty(k, dtype=np.int64)
        for place in range(k):
            choice = self.recommend(user, features[left], items=None if ids is None else ids[left])
            chosen[place] = left.pop(choice)
        return chosen

    def belief(self, user: int) -> Belief | None:
        """Return the belief of the policy inside, unless its scores are replaced by a softmax."""
        return self.policy.belief(user) if self.params["temperature"] is None else None

    @property
    def epsilon(self) -> float:
        return float(self.state.epsilon)

    def decides_uniformly(self, rng: np.random.Generator) -> bool:
        return bool(normal_cdf(rng.standard_normal((1, self.n_normals))[0, 0]) < self.epsilon)

    def reseed(self, seed: Seed) -> None:
        """Replace the generator of the decisions; it seeds that of the policy inside."""
        super().reseed(seed)
        reseed_inner(self, self.policy)

    def count_rounds(self, rounds: int) -> None:
        """Let the policy inside refresh when it is time."""
        self.policy.count_rounds(rounds)
        self._follow_inner()

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
        """What items earn beyond their features, see `Policy.effects_of`."""
        return self.policy.effects_of(items, cautious=cautious)

    def remove_item(self, item: int) -> None:
        """Forget the effect of an item, see `Policy.remove_item`."""
        self.policy.remove_item(item)

    def user_rows(self) -> dict[str, Any]:
        return self.policy.user_rows()

    def removable_rows(self) -> dict[str, Any]:
        return self.policy.removable_rows()

    def add_user(self, edges: Edges = (), *, id: Hashable | None = None) -> int:
        """Take in a new user, see `Policy.add_user`."""
        user = self.policy.add_user(edges, id=id)
        self._follow_inner()
        return user

    def remove_user(self, user: int) -> Removal:
        """Remove a user's data and edges, see `Policy.remove_user`."""
        removal = self.policy.remove_user(user)
        self._follow_inner()
        return removal

    def set_graph(self, graph: UserGraph) -> None:
        """Replace all edges at once, see `Policy.set_graph`."""
        self.policy.set_graph(graph)
        self._follow_inner()

    def change_edges(self, changes: Sequence[tuple[int, int, float]]) -> None:
        self.policy.change_edges(changes)
        self._follow_inner()

    def _follow_inner(self) -> None:
        """Take over graph and state of the policy inside, which replaces them as they change."""
        self.live_graph = self.policy.live_graph
        self.state = self.state._replace(inner=self.policy.state)

    @property
    def until_refresh(self) -> int:
        """How many observations may follow before the policy's `refresh` is due."""
        return self.policy.until_refresh

    @property
    def n_normals(self) -> int:
        """One decides about epsilon, one draws from the softmax, the others are the policy's own."""
        return 2 + self.policy.n_normals

    @property
    def is_sampling(self) -> bool:
        return self.params["temperature"] is None and self.policy.is_sampling

    @property
    def draws_values(self) -> bool:
        return self.params["temperature"] is None and self.policy.draws_values

    def choice_probabilities(self, user: int, arms: Floats, normals: Floats, items: Ints = NO_ITEMS) -> Floats:
        if self.params["temperature"] is None:
            chances = self.policy.choice_probabilities(user, arms, np.ascontiguousarray(normals[:, 2:]), items)
        else:
            chances = np.empty(len(arms))
            softmax(self.state, user, arms, items, chances)
        epsilon = self.state.epsilon
        return np.asarray((1.0 - epsilon) * chances + epsilon / len(arms))

    def pack(self) -> tuple[dict[str, Any], archive.Arrays]:
        inner, arrays = self.policy.pack()
        settings = {name: self.params[name] for name in ("epsilon", "temperature")}
        return {"policy": "Stochastic", "inner": inner, "generator": self.rng.bit_generator.state, **settings}, arrays

    @classmethod
    def unpack(cls, header: dict[str, Any], arrays: archive.Arrays) -> Self:
        inner = unpack_policy(header["inner"], arrays)
        policy = cls(inner, epsilon=header["epsilon"], temperature=header["temperature"])
        policy.rng = policy_file.generator(header["generator"])
        return policy


kernels.register(StochasticState, score_items=score_items, update_item=update_item, sample_items=sample_items)
