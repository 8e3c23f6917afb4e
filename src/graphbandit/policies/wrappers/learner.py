"""GraphLearner: who resembles whom is learned from the rewards, and any graph policy acts on what has been learned."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import exp, log
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse

from ...compute.arrays import Floats, Indices, Ints
from ...compute.compiler import compiled
from ...compute.linalg import dot, invert_positive, multiply
from ...compute.observations import Observations
from ...graph import UserGraph
from ...storage import archive
from ..core import kernels
from ..core.graph_changes import Changes, Removal
from ..core.policy import Policy, Seed, check_count, check_dim, check_not_negative
from ..core.policy_file import generator as read_generator
from ..core.policy_file import plain_ids
from .similarity import Tastes, common_part, similar_users, tastes
from .stochastic import _kinds

FADE = 0.5  # what a refresh leaves of the evidence: the learned graph has become another one
TEMPER = 0.1  # power of the evidence, as in AdaptiveGraphUCB
OWN = ("rewards", "centre", "mean", "errors", "rounds")  # what a file holds beside the policy inside
NEGLIGIBLE = 1e-3  # a graph with less weight is left out


class Ties(NamedTuple):
    """One graph: the rows of P = D⁻¹W."""

    start: Ints  # (n + 1,), where the neighbours of a user begin
    neighbour: Indices
    weight: Floats  # P_ij


class LearnerState(NamedTuple):
    """The state of the policy inside, and what tells the given graph from the learned one."""

    inner: Any
    seen: Observations  # the policy's own, not a copy
    rewards: Floats  # (n, 2), Σ 1 and Σ y² of each user, as far as the policy remembers
    centre: Floats  # (n, d), what a user's own data and μ say: V_i⁻¹ (b_i + τ μ)
    mean: Floats  # (d,), μ
    given: Ties
    learned: Ties
    errors: Floats  # (2, 2), Σ (y - p)² and Σ (y - p) by the given graph, and by the learned one
    rounds: Floats  # (1,), how many predictions that were
    strength: float  # τ; 0 before the first refresh
    blends: bool


@compiled
def score(state: LearnerState, user: int, arms: Floats, mean: Floats, bonus: Floats) -> None:
    """What the policy inside thinks."""
    kernels.score(state.inner, user, arms, mean, bonus)


@compiled
def sample(state: LearnerState, user: int, arms: Floats, noise: Floats, values: Floats) -> None:
    """What the policy inside maximises."""
    kernels.sample(state.inner, user, arms, noise, values)


@compiled
def update(state: LearnerState, user: int, x: Floats, reward: float) -> None:
    """Judge both graphs by their predictions, then let the policy inside learn."""
    judging = state.blends and state.strength > 0.0
    if judging:
        judge(state, user, x, reward)
    before = trace(state.seen.gram[user])
    kernels.update(state.inner, user, x, reward)
    kept = 1.0  # of the user's earlier rounds, by a policy that forgets
    if before > 0.0:
        kept = min(max((trace(state.seen.gram[user]) - dot(x, x)) / before, 0.0), 1.0)
    state.rewards[user, 0] = kept * state.rewards[user, 0] + 1.0
    state.rewards[user, 1] = kept * state.rewards[user, 1] + reward * reward
    if judging:
        settle(state, user)


@compiled
def trace(matrix: Floats) -> float:
    """Σ_k M_kk."""
    total = 0.0
    for k in range(matrix.shape[0]):
        total += matrix[k, k]
    return total


@compiled
def judge(state: LearnerState, user: int, x: Floats, reward: float) -> None:
    """Count by each graph the error of what the user's neighbours alone say, xᵀ Σ_j P_ij m_j, or xᵀμ if there are none.

    The user's own data would soon predict so well that the graphs could no append_rows be told apart.
    """
    for graph in range(2):
        ties = state.given if graph == 0 else state.learned
        predicted = dot(x, state.mean) if ties.start[user] == ties.start[user + 1] else 0.0
        for edge in range(ties.start[user], ties.start[user + 1]):
            predicted += ties.weight[edge] * dot(x, state.centre[ties.neighbour[edge]])
        state.errors[graph, 0] += (reward - predicted) ** 2
        state.errors[graph, 1] += reward - predicted
    state.rounds[0] += 1.0


@compiled
def settle(state: LearnerState, user: int) -> None:
    """Bring the user's centre up to date."""
    dim = state.mean.shape[0]
    inverse, target = np.empty((dim, dim)), np.empty(dim)
    invert_positive(state.seen.gram[user], state.strength, inverse)
    for k in range(dim):
        target[k] = state.seen.bias[user, k] + state.strength * state.mean[k]
    multiply(inverse, target, state.centre[user])


class GraphLearner(Policy):
    """Starts with everybody alike, learns from the rewards who resembles whom, and lets a graph policy act on that graph.

    At every refresh each user is described by its own data around a common vector, with what the data leave open; two users are
    joined the more strongly the more the data say that they are alike rather than strangers (a Bayes factor), and each with
    its `k` most probable only (`solvers/similarity.py`). A graph that was given takes part by evidence: in every round both
    graphs predict the reward before it is seen, from what is known of the user's neighbours, and their adjacency matrices,
    scaled to the same mean degree, are added with weights proportional to evidence^0.1. What is learned from a reward is
    judged by later ones only.

    Parameters
    ----------
    graph, dim
        The graph that is given. One without edges gives only the number of users.
    policy : name in `POLICIES`, or function
        What acts: `policy(graph, dim)`. A policy that keeps the statistics of every user and takes another graph by
        `set_graph`.
    settings : dict, optional
        Keyword arguments for it.
    k : int
        Neighbours that a user looks for.
    period : int, optional
        Observations until the graph is learned for the first time, and at least between two refreshes; the number of
        users by default.
    growth : float
        A refresh waits until the observations have grown by this share. So the work of all refreshes together stays
        proportional to the number of observations.
    given : bool
        Whether the given graph takes part.
    seed
        Also draws whom users without data are joined with.

    Notes
    -----
    Edges of the given graph may come and go; they count from the next refresh on.

    Above 2,000 users with data neighbours are searched approximately (a k-d tree in the six directions in which users
    differ most). The policy inside takes the learned graph for given, although the same data made it: its confidence is
    somewhat too high.

    Examples
    --------
    >>> from graphbandit import environments, graphs, signals, simulate
    >>> theta = signals.unit_rows([[1.0, 0.2, 0.1], [0.1, 1.0, 0.3]])[[0, 1] * 5]  # two kinds of users, in turn
    >>> env = environments.Linear(graphs.empty(10), theta, signals.unit_arms(100, 3, seed=2), pool=10)
    >>> policy = GraphLearner(graphs.empty(10), 3, k=4)
    >>> trace = simulate(policy, env, 200, seed=0)
    >>> policy.learned.neighbours(0).tolist()
    [2, 4, 6, 8]
    """

    State = LearnerState

    def __init__(
        self,
        graph: UserGraph,
        dim: int,
        *,
        policy: str | Callable[..., Policy] = "adaptive",
        settings: Mapping[str, Any] | None = None,
        k: int = 10,
        period: int | None = None,
        growth: float = 0.5,
        given: bool = True,
        seed: Seed = 0,
    ) -> None:
        dim = check_dim(graph, dim)
        period = graph.n_users if period is None else period
        check_count(k=k, period=period)
        check_not_negative(growth=growth)
        rng = np.random.default_rng(seed)
        alike = similar_users(Tastes(np.empty(0, np.int64), np.empty((0, dim)), np.empty((0, dim))), graph.n_users, k, rng)
        blends = bool(given) and graph.n_edges > 0
        inner = _made(policy)(UserGraph(graph.adjacency) if blends else alike, dim, **(settings or {}))
        seen = getattr(inner.state, "seen", None)
        if not isinstance(seen, Observations) or len(seen.visits) < graph.n_users:
            raise ValueError(f"policy must keep the statistics of every user, but {type(inner).__name__} does not.")
        state = LearnerState(
            inner=inner.state,
            seen=seen,
            rewards=np.zeros((graph.n_users, 2)),
            centre=np.zeros((graph.n_users, dim)),
            mean=np.zeros(dim),
            given=ties(graph),
            learned=ties(alike),
            errors=np.zeros((2, 2)),
            rounds=np.zeros(1),
            strength=0.0,
            blends=blends,
        )
        params: dict[str, Any] = dict(
            policy=type(inner).__name__, k=int(k), period=int(period), growth=float(growth), given=bool(given)
        )
        params |= {f"policy.{name}": value for name, value in inner.params.items()}
        super().__init__(graph, dim, state, params, rng, noise=inner.n_normals)
        self.policy, self.learned = inner, alike
        self._count = self._last = 0  # observations so far, and at the last refresh

    @property
    def period(self) -> int:
        """Observations between the last refresh and the next."""
        return max(int(self.params["period"]), int(self.params["growth"] * self._last))

    @property
    def given_share(self) -> float:
        """The weight of the given graph, between 0 and 1, by the evidence of the rounds so far."""
        if not self.state.blends:
            return 0.0
        squares, total = self.state.errors.T  # around their level: a constant error ranks no arm (evidence.py)
        given, learned = np.maximum(squares - total**2 / max(self.state.rounds[0], 1e-300), 1e-300)
        odds = 0.5 * TEMPER * self.state.rounds[0] * (log(given) - log(learned))
        return 1.0 / (1.0 + exp(min(odds, 700.0)))

    @property
    def theta(self) -> Floats:
        """(n_users, dim) the estimate of the policy inside for every user, as a copy."""
        return self.policy.theta

    def bonus_scale(self, user: int) -> float:
        """That of the policy inside."""
        return self.policy.bonus_scale(user)

    def refresh(self) -> None:
        """Learn the graph anew, blend it with the given one, and hand it to the policy."""
        self._last = self._count
        common = common_part(self.state.seen, self.state.rewards, self.rng)
        found = tastes(self.state.seen, common)
        self.learned = similar_users(found, self.n_users, self.params["k"], self.rng)
        blends = self.params["given"] and self.graph.n_edges > 0
        share = self.given_share if self.state.blends else 0.5
        self.policy.set_graph(blended(self.graph, self.learned, share) if blends else self.learned)
        centre = np.tile(common.mean, (self.n_users, 1))
        centre[found.users] += found.deviation * np.sqrt(common.noise / common.strength)
        self.state.errors[:] *= FADE
        self.state.rounds[:] *= FADE
        self.state = self.state._replace(
            centre=centre,
            mean=common.mean,
            given=ties(self.graph),
            learned=ties(self.learned),
            strength=common.strength,
            blends=blends,
        )
        self._keep_up()

    def count_rounds(self, rounds: int) -> None:
        """Let the policy inside refresh what it has to, then learn the graph when it is time."""
        self.policy.count_rounds(rounds)
        self._keep_up()
        self._count += rounds
        super().count_rounds(rounds)

    @property
    def until_refresh(self) -> int:
        """How many observations may follow before this policy or the one inside refreshes."""
        return min(super().until_refresh, self.policy.until_refresh)

    def reseed(self, seed: Seed) -> None:
        """Replace the generator and, by a number from it, that of the policy inside."""
        super().reseed(seed)
        self.policy.reseed(int(self.rng.integers(2**62)))

    def remove_user(self, user: int) -> Removal:
        """Remove a user's data and edges, see `Policy.remove_user`; then learn the graph anew, which they had a part in."""
        removal = super().remove_user(user)
        self.state.errors[:] = self.state.rounds[:] = 0.0
        self.refresh()
        return removal

    def user_rows(self) -> dict[str, Any]:
        """A new user has no neighbours in either graph before the next refresh; the policy inside has its edges at once."""
        ends = {f"{name}.start": len(getattr(self.state, name).neighbour) for name in ("given", "learned")}
        return {"rewards": 0.0, "centre": self.state.mean} | ends

    def removable_rows(self) -> dict[str, Any]:
        return {"rewards": 0.0, "centre": self.state.mean}

    def forget_user(self, user: int) -> None:
        self.policy.remove_user(user)
        self._keep_up()

    def follow_graph(self, users: Ints, changes: Changes) -> None:
        """Hand new users to the policy inside; other changes of the given graph count from the next refresh on."""
        for new in range(self.policy.n_users, self.n_users):
            joined = {other: weight for user, other, weight in changes or () if user == new} if self.params["given"] else {}
            self.policy.add_user(joined)
        self._keep_up()

    def _keep_up(self) -> None:
        """Look at what the policy inside has now."""
        self.state = self.state._replace(inner=self.policy.state, seen=self.policy.state.seen)

    @property
    def n_normals(self) -> int:
        """Those of the policy inside."""
        return self.policy.n_normals

    def pack(self) -> tuple[dict[str, Any], archive.Arrays]:
        inner, arrays = self.policy.pack()
        own = {name: getattr(self.state, name) for name in OWN}
        for name, graph in (("given", self.graph), ("learned", self.learned)):
            own |= {f"{name}.{part}": getattr(graph.adjacency, part) for part in ("data", "indices", "indptr")}
        header: dict[str, Any] = {
            "policy": "GraphLearner",
            "inner": inner,
            "generator": self.rng.bit_generator.state,
            "params": self.params,
        }
        header |= {"since": self._since_refresh, "observed": self._count, "last": self._last, "strength": self.state.strength}
        header |= {"blends": self.state.blends, "ids": plain_ids(self.graph.ids)}
        return header, arrays | {f"learner.{name}": array for name, array in own.items()}

    @classmethod
    def unpack(cls, header: dict[str, Any], arrays: archive.Arrays) -> Self:
        own = {name.removeprefix("learner."): arrays.pop(name) for name in list(arrays) if name.startswith("learner.")}
        inner = _kinds(Policy)[header["inner"]["policy"]].unpack(header["inner"], arrays)
        n = inner.graph.n_users
        given, learned = (
            UserGraph(
                sparse.csr_array(tuple(own[f"{name}.{part}"] for part in ("data", "indices", "indptr")), shape=(n, n)),
                header["ids"] if name == "given" else None,
            )
            for name in ("given", "learned")
        )
        policy = cls.__new__(cls)
        state = LearnerState(
            inner=inner.state,
            seen=inner.state.seen,
            given=ties(given),
            learned=ties(learned),
            strength=header["strength"],
            blends=header["blends"],
            **{name: own[name] for name in OWN},
        )
        Policy.__init__(policy, given, inner.dim, state, header["params"], None, inner.n_normals)
        policy.policy, policy.learned = inner, learned
        policy.rng = read_generator(header["generator"])
        policy._since_refresh, policy._count, policy._last = header["since"], header["observed"], header["last"]
        return policy


def blended(given: UserGraph, learned: UserGraph, share: float) -> UserGraph:
    """The sum of two graphs, scaled to mean degree 1, with the weights `share` and 1 - `share`; a negligible one is left out.

    >>> from graphbandit import graphs
    >>> one, other = graphs.from_edges([(0, 1)], n_users=3), graphs.from_edges([(1, 2)], n_users=3, weights=[9.0])
    >>> blended(one, other, 0.25).adjacency.toarray()[1].tolist()
    [0.375, 0.0, 1.125]
    """
    total = sparse.csr_array(given.adjacency.shape)
    for graph, weight in ((given, share), (learned, 1.0 - share)):
        if weight > NEGLIGIBLE and graph.n_edges:
            total = total + graph.adjacency * (weight / float(graph.degrees.mean()))
    return UserGraph(total)


def ties(graph: UserGraph) -> Ties:
    """The graph for compiled code."""
    start, neighbour, inward, _ = graph.transitions()
    return Ties(start, neighbour, inward)


def _made(policy: str | Callable[..., Policy]) -> Callable[..., Policy]:
    """The function that makes the policy inside."""
    from .. import POLICIES  # which contains what is defined here

    if isinstance(policy, str):
        if policy not in POLICIES:
            raise ValueError(f"policy must be one of {', '.join(POLICIES)} or a function, but it is {policy!r}.")
        return POLICIES[policy]
    if not callable(policy):
        raise ValueError(f"policy must be a name or a function of graph and dim, but it is {policy!r}.")
    return policy


kernels.register(LearnerState, score=score, update=update, sample=sample)
