"""Stochastic: a known amount of chance over any policy, so that its log can tell what other policies would have earned."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import erfc, exp, sqrt
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from ...compute.arrays import Floats, Ints
from ...compute.compiler import compiled
from ...graph import UserGraph
from ...live_graph import Edges
from ...storage import archive
from ...validate import check_features, check_places
from ..core import kernels
from ..core.graph_changes import Removal
from ..core.policy import Policy, Seed, check_not_negative, check_positive
from ..core.policy_file import generator as read_generator


class StochasticState(NamedTuple):
    """The state of the policy inside, and how much chance is added."""

    inner: Any  # the policy's own state
    epsilon: float
    temperature: float  # 0: the policy's own choice


@compiled
def score(state: StochasticState, user: int, arms: Floats, mean: Floats, bonus: Floats) -> None:
    """What the policy inside thinks."""
    kernels.score(state.inner, user, arms, mean, bonus)


@compiled
def update(state: StochasticState, user: int, x: Floats, reward: float) -> None:
    """Let the policy inside learn."""
    kernels.update(state.inner, user, x, reward)


@compiled
def sample(state: StochasticState, user: int, arms: Floats, noise: Floats, values: Floats) -> None:
    """All arms alike, with probability epsilon; else 1 for the arm drawn from the softmax; or else the policy's own values.

    The first normal decides about epsilon, the second draws from the softmax, the others are the policy's own.
    """
    if uniform(noise[0]) < state.epsilon:
        for a in range(values.shape[0]):
            values[a] = 0.0
    elif state.temperature > 0.0:
        softmax(state, user, arms, values)
        left, drawn = uniform(noise[1]), -1
        for a in range(values.shape[0]):
            if left >= 0.0 and values[a] > 0.0:
                drawn = a
            left -= values[a]
        for a in range(values.shape[0]):
            values[a] = 1.0 if a == drawn else 0.0
    else:
        kernels.sample(state.inner, user, arms, noise[2:], values)


@compiled
def softmax(state: StochasticState, user: int, arms: Floats, chances: Floats) -> None:
    """Write P(a) ∝ exp((mean + bonus) / temperature)."""
    bonus = np.empty(arms.shape[0])
    kernels.score(state.inner, user, arms, chances, bonus)
    best, total = -np.inf, 0.0
    for a in range(arms.shape[0]):
        chances[a] += bonus[a]
        best = max(best, chances[a])
    for a in range(arms.shape[0]):
        chances[a] = exp((chances[a] - best) / state.temperature)
        total += chances[a]
    for a in range(arms.shape[0]):
        chances[a] /= total


@compiled
def uniform(normal: float) -> float:
    """Φ: uniform on (0, 1) for a standard normal."""
    return 0.5 * erfc(-normal / sqrt(2.0))


class Stochastic(Policy):
    """Any policy with chance added: (1 - epsilon) P + epsilon / m over m arms.

    P is softmax((mean + bonus) / temperature) of the policy's scores, or without a temperature its own choice. Every arm then
    has a probability that is known, and with `epsilon` none is below epsilon / m: what inverse propensity scoring needs.

    Parameters
    ----------
    policy : Policy
        Learns and judges; from now on through this one only.
    epsilon : float
        Share of decisions that are uniform.
    temperature : float, optional
        In units of reward. The smaller, the more often the best is chosen; the sampling of a Thompson policy is replaced.

    Notes
    -----
    `propensities` is exact, except without a temperature for a policy that samples. `rank` fills one place after the other,
    each by a decision among the arms that are left.

    Examples
    --------
    >>> from graphbandit import LinUCB, graphs
    >>> policy = Stochastic(LinUCB(graphs.empty(1), 2, exploration=0.0), epsilon=0.2)
    >>> policy.update(0, [1.0, 0.0], 1.0)
    >>> arms = [[1.0, 0.0], [0.0, 1.0]]
    >>> policy.propensities(0, arms).tolist(), policy.recommend(0, arms, propensity=True)
    ([0.9, 0.1], Choice(arm=0, propensity=0.9))
    """

    def __init__(self, policy: Policy, *, epsilon: float = 0.0, temperature: float | None = None, seed: Seed = 0) -> None:
        if not isinstance(policy, Policy):
            raise ValueError(f"policy must be a Policy, but it is a {type(policy).__name__}.")
        if not (policy.decides_by_kernels and policy.learns_by_kernels):
            raise ValueError(
                f"policy must decide and learn by its kernels, but {type(policy).__name__} has methods of its own."
            )
        check_not_negative(epsilon=epsilon)
        if epsilon > 1:
            raise ValueError(f"epsilon must lie between 0 and 1, but it is {epsilon!r}.")
        check_positive(temperature=1.0 if temperature is None else temperature)
        state = StochasticState(policy.state, float(epsilon), 0.0 if temperature is None else float(temperature))
        params = {f"policy.{name}": value for name, value in policy.params.items()}
        params |= dict(epsilon=epsilon, temperature=temperature)
        super().__init__(policy.graph, policy.dim, state, params, seed, noise=2 + policy.n_normals)
        self.policy = policy
        self.live_graph = policy.live_graph

    def __repr__(self) -> str:
        return f"Stochastic({self.policy!r}, epsilon={self.params['epsilon']!r}, temperature={self.params['temperature']!r})"

    @property
    def theta(self) -> Floats:
        """(n_users, dim) the policy's estimate for every user, as a copy."""
        return self.policy.theta

    def bonus_scale(self, user: int) -> float:
        """That of the policy inside."""
        return self.policy.bonus_scale(user)

    def rank(self, user: int, arms: npt.ArrayLike, k: int) -> Ints:
        """`k` rows of `arms` for `user`, each the decision among those that are left."""
        user, features = self.check_user(user), check_features(arms, self.dim)
        check_places(k, len(features))
        left = list(range(len(features)))
        return np.array([left.pop(self.recommend(user, features[left])) for _ in range(k)], dtype=np.int64)

    def reseed(self, seed: Seed) -> None:
        """Replace the generator of the decisions and, by a number from it, the policy's own, which some need to refresh."""
        super().reseed(seed)
        self.policy.reseed(int(self.rng.integers(2**62)))

    def count_rounds(self, rounds: int) -> None:
        """Let the policy inside refresh when it is time."""
        self.policy.count_rounds(rounds)
        self._keep_up()

    def add_user(self, edges: Edges = (), *, id: Hashable | None = None) -> int:
        """Take in a new user, see `Policy.add_user`."""
        user = self.policy.add_user(edges, id=id)
        self._keep_up()
        return user

    def remove_user(self, user: int) -> Removal:
        """Remove a user's data and edges, see `Policy.remove_user`."""
        removal = self.policy.remove_user(user)
        self._keep_up()
        return removal

    def set_graph(self, graph: UserGraph) -> None:
        """Replace all edges at once, see `Policy.set_graph`."""
        self.policy.set_graph(graph)
        self._keep_up()

    def change_edges(self, changes: Sequence[tuple[int, int, float]], users: Sequence[int] = ()) -> None:
        self.policy.change_edges(changes, users)
        self._keep_up()

    def _keep_up(self) -> None:
        """Look at what the policy inside has now."""
        self.live_graph = self.policy.live_graph
        self.state = self.state._replace(inner=self.policy.state)

    @property
    def until_refresh(self) -> int:
        """How many observations may follow before the policy's `refresh` is due."""
        return self.policy.until_refresh

    @property
    def n_normals(self) -> int:
        """One normal decides about epsilon, one draws from the softmax, the others are the policy's own."""
        return 2 + self.policy.n_normals

    @property
    def is_sampling(self) -> bool:
        return self.params["temperature"] is None and self.policy.is_sampling

    def choice_probabilities(self, user: int, arms: Floats, noise: Floats) -> Floats:
        if self.params["temperature"] is None:
            chances = self.policy.choice_probabilities(user, arms, np.ascontiguousarray(noise[:, 2:]))
        else:
            chances = np.empty(len(arms))
            softmax(self.state, user, arms, chances)
        epsilon = self.state.epsilon
        return np.asarray((1.0 - epsilon) * chances + epsilon / len(arms))

    def pack(self) -> tuple[dict[str, Any], archive.Arrays]:
        inner, arrays = self.policy.pack()
        settings = {name: self.params[name] for name in ("epsilon", "temperature")}
        return {"policy": "Stochastic", "inner": inner, "generator": self.rng.bit_generator.state, **settings}, arrays

    @classmethod
    def unpack(cls, header: dict[str, Any], arrays: archive.Arrays) -> Self:
        inner = _kinds(Policy)[header["inner"]["policy"]].unpack(header["inner"], arrays)
        policy = cls(inner, epsilon=header["epsilon"], temperature=header["temperature"])
        policy.rng = read_generator(header["generator"])
        return policy


def _kinds(base: type[Policy]) -> dict[str, type[Policy]]:
    """Every policy by its name, a user's own too."""
    found = {base.__name__: base}
    for kind in base.__subclasses__():
        found |= _kinds(kind)
    return found


kernels.register(StochasticState, score=score, update=update, sample=sample)
