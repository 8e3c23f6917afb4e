"""GraphLearner: learns which users are alike, and lets any graph policy act on that graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
from scipy import sparse

from ...compute.adjacency import link_rows, links_of
from ...compute.arrays import Ints
from ...compute.observations import Observations
from ...graph import UserGraph
from ...storage import archive
from ...validate import NOT_NEGATIVE, count, optional
from ..core import policy_file
from ..core.live_users import Changes, Removal
from ..core.policy import Policy, Seed
from .inner_policy import Wrapper, prefixed_params, unpack_policy
from .learner_kernels import LearnerState, given_share
from .similarity import fit_prior, no_posteriors, similarity_graph, user_posteriors

FADE = 0.5  # factor by which a refresh discounts the evidence: the learned graph has become another one
OWN_ARRAYS = ("rewards", "centre", "mean", "errors", "rounds")  # those of the state that a file has beside the policy inside
NEGLIGIBLE = 1e-3  # a graph with less weight is left out


class GraphLearner(Wrapper):
    """Learns from rewards which users are alike, and lets a graph policy act on that graph.

    It starts with all users alike. At every refresh each user has a posterior by its own data,
    around a vector that all users share. Two users are joined the more strongly, the larger the
    Bayes factor of "alike" against "strangers" is, and each only with the `k` users of the largest
    ones (`similarity.py`). A graph that was given is blended with the learned one: in every round
    both graphs predict the reward from the user's neighbours, before it is seen, and their
    adjacency matrices, scaled to the same mean degree, are added with weights proportional to
    evidence^0.1. A learned graph has evidence from later rewards only.

    Parameters
    ----------
    graph, dim
        The graph that is given. One without edges gives only the number of users.
    policy : name in `POLICIES`, or function
        The policy inside, which acts: `policy(graph, dim)`. It must keep statistics of every user
        and support `set_graph`.
    settings : dict, optional
        Keyword arguments of the policy inside.
    k : int
        Number of most similar users that each user is joined with.
    period : int, optional
        Observations before the first refresh, and at least between two of them; the number of users
        by default.
    growth : float
        A refresh waits until the number of observations has grown by this share. The cost of all
        refreshes together is then proportional to the number of observations.
    given : bool
        Whether the given graph takes part.
    seed
        Of the decisions, and of the random neighbours of users without data.

    Notes
    -----
    Changes of the given graph's edges count from the next refresh on.

    With more than 2,000 users who have data, the search for neighbours is approximate (a k-d tree
    in the six directions in which users differ most). The policy inside treats the learned graph as
    given, although the same data made it: its confidence is somewhat too high.

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
    ranges = Policy.ranges | {"k": count(), "period": optional(count()), "growth": NOT_NEGATIVE}

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
        super().__init__(graph, dim, locals())
        self.learned = similarity_graph(no_posteriors(self.dim), graph.n_users, k, self.rng)
        blends = bool(given) and graph.n_edges > 0
        start = UserGraph(graph.adjacency) if blends else self.learned
        self.policy = _policy_function(policy)(start, self.dim, **(settings or {}))
        seen = getattr(self.policy, "observations", None)
        if not isinstance(seen, Observations) or len(seen.visits) < graph.n_users:
            raise ValueError(f"policy must keep the statistics of every user, but {type(self.policy).__name__} does not.")
        self.params = {
            "policy": type(self.policy).__name__,
            "k": int(k),
            "period": graph.n_users if period is None else int(period),
            "growth": float(growth),
            "given": bool(given),
        } | prefixed_params(self.policy)
        self.state = self._build_state(
            own={
                "rewards": np.zeros((graph.n_users, 2)),
                "centre": np.zeros((graph.n_users, self.dim)),
                "mean": np.zeros(self.dim),
                "errors": np.zeros((2, 2)),
                "rounds": np.zeros(1),
            },
            strength=0.0,
            blends=blends,
        )
        self._count = self._last = 0  # observations so far, and at the last refresh

    @property
    def period(self) -> int:
        """Observations between the last refresh and the next."""
        return max(int(self.params["period"]), int(self.params["growth"] * self._last))

    @property
    def given_share(self) -> float:
        """The weight of the given graph, between 0 and 1, by the evidence of the rounds so far."""
        return given_share(self.state)

    def refresh(self) -> None:
        """Learn the graph anew, blend it with the given one, and hand it to the policy inside."""
        self._last = self._count
        prior = fit_prior(self.state.seen, self.state.rewards, self.rng)
        posteriors = user_posteriors(self.state.seen, prior)
        self.learned = similarity_graph(posteriors, self.n_users, self.params["k"], self.rng)
        blends = self.params["given"] and self.graph.n_edges > 0
        share = self.given_share if self.state.blends else 0.5
        self.policy.set_graph(blended_graph(self.graph, self.learned, share) if blends else self.learned)
        centre = np.tile(prior.mean, (self.n_users, 1))
        centre[posteriors.users] += posteriors.deviation * np.sqrt(prior.noise_variance / prior.strength)
        self.state.errors[:] *= FADE
        self.state.rounds[:] *= FADE
        self.state = self.state._replace(
            centre=centre,
            mean=prior.mean,
            given=links_of(self.graph),
            learned=links_of(self.learned),
            strength=prior.strength,
            blends=blends,
        )
        self._follow_inner()

    def count_rounds(self, rounds: int) -> None:
        """Refresh what is due: first the policy inside, then the graph."""
        self.policy.count_rounds(rounds)
        self._follow_inner()
        self._count += rounds
        super().count_rounds(rounds)

    @property
    def until_refresh(self) -> int:
        """How many observations may follow before this policy or the one inside refreshes."""
        return min(super().until_refresh, self.policy.until_refresh)

    def remove_user(self, user: int) -> Removal:
        """See `Policy.remove_user`; then learn the graph anew, because the data shaped it."""
        removal = super().remove_user(user)
        self.state.errors[:] = self.state.rounds[:] = 0.0
        self.refresh()
        return removal

    def user_rows(self) -> dict[str, Any]:
        """A new user has no neighbours here before the next refresh.

        The policy inside has its edges at once.
        """
        return self.removable_rows() | link_rows("given") | link_rows("learned")

    def removable_rows(self) -> dict[str, Any]:
        return {"rewards": 0.0, "centre": self.state.mean}

    def forget_user(self, user: int) -> None:
        self.policy.remove_user(user)
        self._follow_inner()

    def follow_graph(self, users: Ints, changes: Changes) -> None:
        """Add new users to the policy inside; other changes count from the next refresh on."""
        for new in range(self.policy.n_users, self.n_users):
            joined = {other: weight for user, other, weight in changes or () if user == new} if self.params["given"] else {}
            self.policy.add_user(joined)
        self._follow_inner()

    def _build_state(self, own: archive.Arrays, strength: float, blends: bool) -> LearnerState:
        """The state with the arrays `own`; the rest comes from the graphs and the policy inside."""
        return LearnerState(
            inner=self.policy.state,
            seen=self.policy.observations,
            given=links_of(self.graph),
            learned=links_of(self.learned),
            strength=strength,
            blends=blends,
            weighs=self.policy.learns_items,
            **own,
        )

    def _follow_inner(self) -> None:
        """Take over the state of the policy inside, which replaces it as it refreshes or grows."""
        self.state = self.state._replace(inner=self.policy.state, seen=self.policy.observations)

    def pack(self) -> tuple[dict[str, Any], archive.Arrays]:
        inner, arrays = self.policy.pack()
        header: dict[str, Any] = {
            "policy": "GraphLearner",
            "inner": inner,
            "generator": self.rng.bit_generator.state,
            "params": self.params,
            "since": self._since_refresh,
            "observed": self._count,
            "last": self._last,
            "strength": self.state.strength,
            "blends": self.state.blends,
            "ids": policy_file.plain_ids(self.graph.ids),
        }
        arrays |= {f"learner.{name}": getattr(self.state, name) for name in OWN_ARRAYS}
        arrays |= policy_file.pack_graph(self.graph, "learner.given.")
        return header, arrays | policy_file.pack_graph(self.learned, "learner.learned.")

    @classmethod
    def unpack(cls, header: dict[str, Any], arrays: archive.Arrays) -> Self:
        own = {name: arrays.pop(f"learner.{name}") for name in OWN_ARRAYS}
        given = policy_file.unpack_graph(arrays, "learner.given.", header["ids"])
        policy = cls.__new__(cls)
        policy.learned = policy_file.unpack_graph(arrays, "learner.learned.", None)
        policy.policy = unpack_policy(header["inner"], arrays)
        policy.restore(given, header | {"dim": policy.policy.dim})
        policy.state = policy._build_state(own, header["strength"], header["blends"])
        policy._count, policy._last = header["observed"], header["last"]
        return policy


def blended_graph(given: UserGraph, learned: UserGraph, share: float) -> UserGraph:
    """share · given + (1 - share) · learned, each scaled to mean degree 1.

    A graph with negligible weight is left out.

    >>> from graphbandit import graphs
    >>> one, other = graphs.from_edges([(0, 1)], n_users=3), graphs.from_edges([(1, 2)], n_users=3, weights=[9.0])
    >>> blended_graph(one, other, 0.25).adjacency.toarray()[1].tolist()
    [0.375, 0.0, 1.125]
    """
    total = sparse.csr_array(given.adjacency.shape)
    for graph, weight in ((given, share), (learned, 1.0 - share)):
        if weight > NEGLIGIBLE and graph.n_edges:
            total = total + graph.adjacency * (weight / float(graph.degrees.mean()))
    return UserGraph(total)


def _policy_function(policy: str | Callable[..., Policy]) -> Callable[..., Policy]:
    """The function that makes the policy inside."""
    from .. import policy_class  # its module contains GraphLearner

    if isinstance(policy, str):
        return policy_class(policy)
    if not callable(policy):
        raise ValueError(f"policy must be a name or a function of graph and dim, but it is {policy!r}.")
    return policy
