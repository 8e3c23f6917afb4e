"""Stochastic: adds randomness of known probability to any policy, for off-policy evaluation."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ...compute.arrays import Floats, Ints
from ...compute.linalg import normal_cdf
from ...storage import archive
from ...validate import NO_ITEMS, POSITIVE, SHARE, check_features, check_items, check_places, optional
from ..core import policy_file
from ..core.kernels import Belief
from ..core.policy import Policy, Seed, unpack_policy


def from_inner(*names: str, changing: bool = False) -> Callable[[type[Policy]], type[Policy]]:
    """Give `Stochastic` these members of the policy inside; after methods that are `changing`, it takes over the new state."""

    def member(name: str) -> Any:
        own = getattr(Policy, name)
        if isinstance(own, property):
            return property(lambda self: getattr(self.policy, name), doc=own.__doc__)

        @wraps(own)
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            result = getattr(self.policy, name)(*args, **kwargs)
            if changing:
                self._follow_inner()
            return result

        return call

    def add(wrapper: type[Policy]) -> type[Policy]:
        for name in names:
            setattr(wrapper, name, member(name))
        return wrapper

    return add


@from_inner(
    "theta", "has_belief", "scores_from_belief", "beliefs", "score", "score_many", "learns_items", "item_table", "item_room"
)
@from_inner("effects_of", "remove_item", "compile", "until_refresh", "user_rows", "removable_rows")
@from_inner(
    "reserve_items",
    "update",
    "update_many",
    "count_rounds",
    "add_user",
    "remove_user",
    "set_graph",
    "change_edges",
    changing=True,
)
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
    draws_from_belief = False
    is_optimistic = False
    decides_by_kernels = False
    learns_by_kernels = False

    def __init__(self, policy: Policy, *, epsilon: float = 0.0, temperature: float | None = None, seed: Seed = 0) -> None:
        if not isinstance(policy, Policy):
            raise ValueError(f"policy must be a Policy, but it is a {type(policy).__name__}.")
        if type(policy).recommend is not Policy.recommend:
            raise ValueError(f"policy must decide by its scores, but {type(policy).__name__} has its own `recommend`.")
        super().__init__(policy.graph, policy.dim, locals())
        inside = {f"policy.{name}": value for name, value in policy.params.items()}
        self.params = inside | {"epsilon": epsilon, "temperature": temperature}
        self.policy = policy
        self._follow_inner()

    def reseed(self, seed: Seed) -> None:
        """Replace the generator of the decisions; it seeds that of the policy inside."""
        super().reseed(seed)
        self.policy.reseed(int(self.rng.integers(2**62)))

    def rank(self, user: int, arms: npt.ArrayLike, k: int, *, items: npt.ArrayLike | None = None) -> Ints:
        """Return `k` rows of `arms` for `user`, each by a decision among those that are left."""
        user, features = self.check_user(user), check_features(arms, self.dim)
        ids = None if items is None else check_items(items, len(features))
        check_places(k, len(features))
        left, chosen = list(range(len(features))), np.empty(k, dtype=np.int64)
        for place in range(k):
            choice = self.recommend(user, features[left], items=None if ids is None else ids[left])
            chosen[place] = left.pop(choice)
        return chosen

    @property
    def n_normals(self) -> int:
        """One decides about epsilon, one draws from the softmax, the others are the policy's own."""
        return 2 + self.policy.n_normals

    @property
    def is_sampling(self) -> bool:
        """Return True if probabilities of choices have to be estimated."""
        return self.params["temperature"] is None and self.policy.is_sampling

    @property
    def draws_values(self) -> bool:
        """Return True if the values to maximise are drawn."""
        return self.params["temperature"] is None and self.policy.draws_values

    @property
    def epsilon(self) -> float:
        """Share of decisions that are uniform."""
        return float(self.params["epsilon"])

    def search_belief(self, user: int) -> Belief | None:
        """Return the belief by which the best of many arms can be searched for."""
        return self.policy.search_belief(user) if self.params["temperature"] is None else None

    def decides_uniformly(self, rng: np.random.Generator) -> bool:
        """Return True if a decision is uniform."""
        return bool(normal_cdf(rng.standard_normal((1, self.n_normals))[0, 0]) < self.epsilon)

    def values(self, user: int, arms: Floats, items: Ints, normals: Floats) -> Floats:
        """Return equal values, with probability epsilon; else 1 for an arm drawn by softmax, or the policy's values."""
        values = np.zeros((len(normals), len(arms)))
        for row, drawn in enumerate(normals):
            if normal_cdf(drawn[0]) < self.epsilon:
                continue
            if self.params["temperature"] is None:
                values[row] = self.policy.values(user, arms, items, drawn[None, 2:].copy())[0]
            else:
                ends = np.cumsum(self._softmax(user, arms, items))
                values[row, min(np.searchsorted(ends, normal_cdf(drawn[1]) * ends[-1], side="right"), len(arms) - 1)] = 1.0
        return values

    def choice_probabilities(self, user: int, arms: Floats, normals: Floats, items: Ints = NO_ITEMS) -> Floats:
        """Return the probability of each arm, (m,)."""
        if self.params["temperature"] is None:
            chances = self.policy.choice_probabilities(user, arms, np.ascontiguousarray(normals[:, 2:]), items)
        else:
            chances = self._softmax(user, arms, items)
        return self.with_epsilon(chances)

    def with_epsilon(self, chances: Floats) -> Floats:
        """Return the probabilities with the share of decisions that are uniform."""
        return np.asarray((1.0 - self.epsilon) * chances + self.epsilon / len(chances))

    def _softmax(self, user: int, arms: Floats, items: Ints) -> Floats:
        return softmax(np.add(*self.policy.score(user, arms, items)), self.params["temperature"])

    def _follow_inner(self) -> None:
        self.live_graph, self.state = self.policy.live_graph, self.policy.state

    def pack(self) -> tuple[dict[str, Any], archive.Arrays]:
        """Return header and arrays of the file."""
        inner, arrays = self.policy.pack()
        settings = {name: self.params[name] for name in ("epsilon", "temperature")}
        return {"policy": "Stochastic", "inner": inner, "generator": self.rng.bit_generator.state, **settings}, arrays

    @classmethod
    def unpack(cls, header: dict[str, Any], arrays: archive.Arrays) -> Self:
        """Return the policy of which `pack` gave header and arrays."""
        inner = unpack_policy(header["inner"], arrays)
        policy = cls(inner, epsilon=header["epsilon"], temperature=header["temperature"])
        policy.rng = policy_file.generator(header["generator"])
        return policy


def softmax(values: Floats, temperature: float) -> Floats:
    """Return probabilities proportional to exp(values / temperature)."""
    chances = np.exp((values - values.max()) / temperature)
    return np.asarray(chances / chances.sum())
