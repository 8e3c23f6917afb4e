"""AdaptiveGraphUCB: evidence chooses how strongly the graph ties users, and whether they have a taste in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from ...compute.adjacency import change_links, link_rows, links_of
from ...compute.arrays import Floats, Ints
from ...compute.growable import growable_zeros
from ...compute.observations import no_observations, observation_rows
from ...diagnose.judge import Verdict
from ...graph import UserGraph
from ...solvers.selection import DENSE_ROWS
from ...validate import POSITIVE, PROBABILITY, list_of, one_of, optional
from ..core.item_effects import no_items
from ..core.kernels import Requests, Scores
from ..core.live_users import Changes
from ..core.policy import Policy, Seed
from .evidence import KINDS, no_evidence
from .graph_report import Report, graph_report
from .joint import joint_models, no_joint, rebuild_joint
from .model import (
    LEVELS,
    LOOSENESS,
    TRAIL,
    AdaptiveState,
    Moments,
    add_to_common,
    mix,
    no_common,
    rebuild_common,
    relax_users,
    solve_common,
)

ALPHAS = tuple(np.geomspace(1e-4, 30.0, 9).tolist())
LOCAL_ALPHAS = (0.03, 0.3, 3.0, 10.0, 30.0, 100.0)


class AdaptiveGraphUCB(Policy):
    """Learns how strong the graph is, and stops using one that does not help. Nothing to tune.

    The reward of showing item j with features x to user i is level + xᵀθ_i + b_j + noise. The
    user's vector θ_i = m + δ_i is a taste that is common to all, and a deviation that resembles
    those of the user's neighbours. There are models with and without the common taste, with and
    without the graph, each at every strength of a grid. All learn the same data. A model's evidence
    is how well it predicted every reward before that was seen, up to a constant. The user's vector
    has the mean and covariance of the evidence-weighted mixture, and the arm is
    argmax xᵀθ_i + b_j + exploration · m_i · s, with s² = xᵀ C_i x + Var b_j. The deviations m_i grow
    with the user's own observations n_i, with L = log(1 + n_i/dim): sqrt(1 + L) with the dense
    solver, max(0.3, sqrt(L) min(1, L / log 11)) with the local one, where most users come a few times only.
    The noise level is learned as well.

    Parameters
    ----------
    alphas : list of float, optional
        Strengths τ of the prior, in units of the noise variance: given its neighbours, a user's
        coordinate deviates with variance σ²/τ. The default, nine values from 1e-4 to 30, or six
        from 0.03 to 100 for many users, suits features of norm about 1.
    sigma : float, optional
        Standard deviation of the noise, if it is known; otherwise each model estimates its own.
    exploration : float
        Multiplies the bonus; 0 is greedy.
    models : names among "alone", "everyone", "graph", "both"
        Which kinds may act: each user for itself; around a common vector; neighbours alike;
        neighbours alike around a common vector.
    temper : float
        Evidence is raised to this power. 1 is Bayes' rule; less keeps more models in play, since
        none of them is true.
    slack : float, optional
        How loosely a user is tied to its neighbours' mean rather than to 0: ρ = 1/(1 + slack). By default 0.03, or 0.1 for
        many users.
    half_life : float, optional
        For tastes that drift: after this many observations of a user an old one of the same user
        counts half. Evidence fades at the same pace. Users are treated one at a time then.
    solver : {"auto", "dense", "local"}
        Posterior of the models with the graph: exact, O((n dim)²) a round and strength; or one user
        at a time, at a cost that depends on the degree only. `auto` takes `dense` up to 256 rows.
    item_effects : bool
        Whether to learn, of items whose ids are given, what each earns beyond its features. Where
        items have no effects, none are found.
    item_ridge : float, optional
        Pseudo-observations that an item earns nothing; learned by default.

    References
    ----------
    The evidence is the prequential one of Dawid 1984, its power that of Grünwald & van Ommen 2017
    ("Inconsistency of Bayesian inference for misspecified linear models"). The graph prior is that
    of Yang, Dong & Toni 2020.

    Examples
    --------
    >>> from graphbandit import environments, graphs, signals, simulate
    >>> graph = graphs.erdos_renyi(20, 0.4, seed=0)
    >>> env = environments.Linear(graph, signals.smooth(graph, 5, gamma=7, seed=1), signals.unit_arms(500, 5, seed=2), pool=50)
    >>> policy = AdaptiveGraphUCB(graph, 5)
    >>> trace = simulate(policy, env, 1000, seed=0)
    >>> bool(trace.regret[-1] < 25)
    True
    """

    State = AdaptiveState
    _verdict: tuple[float, Verdict | None] = (-1.0, None)  # rewards when the graph was judged last, and the answer
    ranges = Policy.ranges | {
        "alphas": optional(list_of(POSITIVE, "positive numbers")),
        "sigma": optional(POSITIVE),
        "models": list_of(one_of(KINDS), f"of {', '.join(KINDS)}"),
        "temper": PROBABILITY,
        "slack": optional(POSITIVE),
        "half_life": optional(POSITIVE),
        "solver": one_of(("auto", "dense", "local")),
    }

    def __init__(
        self,
        graph: UserGraph,
        dim: int,
        *,
        alphas: Sequence[float] | None = None,
        sigma: float | None = None,
        exploration: float = 1.0,
        models: Sequence[str] = KINDS,
        temper: float = 0.1,
        slack: float | None = None,
        half_life: float | None = None,
        solver: Literal["auto", "dense", "local"] = "auto",
        item_effects: bool = True,
        item_ridge: float | None = None,
        seed: Seed = 0,
    ) -> None:
        super().__init__(graph, dim, locals())
        few = graph.n_users * dim <= DENSE_ROWS and half_life is None
        if solver == "dense" and half_life is not None:
            raise ValueError("solver must be 'auto' or 'local' with a half_life, but it is 'dense'.")
        dense = solver == "dense" or (solver == "auto" and few)
        strengths = np.unique((ALPHAS if dense else LOCAL_ALPHAS) if alphas is None else np.array(alphas, dtype=np.float64))
        slack = (0.03 if dense else 0.1) if slack is None else slack
        self.params |= {"alphas": strengths.tolist(), "models": list(models), "slack": slack}
        n, rho, keep = graph.n_users, 1.0 / (1.0 + slack), 1.0 if half_life is None else 0.5 ** (1.0 / half_life)
        self.state = self.build_state(
            seen=no_observations(n, self.dim),
            x_sum=growable_zeros(n, self.dim),
            spread=growable_zeros(n),
            links=links_of(graph),
            message=growable_zeros(n, 0 if dense else 2 * len(strengths), self.dim),
            joint=joint_models(graph, self.dim, strengths, rho, LOOSENESS) if dense else no_joint(self.dim),
            common=no_common(strengths, self.dim),
            evidence=no_evidence(
                np.array([float(kind in models) for kind in KINDS]),
                len(strengths),
                sigma=sigma,
                temper=float(temper),
                fade=keep ** (1.0 / n),
            ),
            strength=strengths,
            gain=growable_zeros(n),
            trail=np.zeros((TRAIL, len(KINDS) + 1)),
            inside=np.zeros(len(LEVELS), dtype=np.int64),
            constant=np.zeros(self.dim),
            rewards=np.zeros(4),
            rho=rho,
            keep=keep,
            items=no_items(item_effects, item_ridge),
        )

    @property
    def level(self) -> float:
        """The constant part of the rewards, as for ratings; 0 where they vary around 0, or are rare."""
        return float(self.state.rewards[3])

    def score(self, user: int, arms: Floats, items: Ints) -> Scores:
        """Return the scores, the level included."""
        scores = super().score(user, arms, items)
        return Scores(scores.mean + self.level, scores.bonus)

    def score_many(self, requests: Requests, scores: Scores) -> None:
        """Write the scores of many users, the level included."""
        super().score_many(requests, scores)
        scores.mean[:] += self.level

    def moments(self, user: int) -> Moments:
        """Return mean and covariance of a user's vector."""
        moments = Moments(np.empty(self.dim), np.empty((self.dim, self.dim)))
        mix(self.state, self.check_user(user), *moments)
        return moments

    def user_precision(self, user: int) -> Floats:
        """Return the inverse covariance: in this metric the user's credible region is a ball."""
        return np.asarray(np.linalg.inv(self.moments(user).covariance))

    def report(self) -> Report:
        """Return the verdict on the graph, the evidence of the models, the coverage and the misled users.

        The graph is judged anew when there are a tenth more rewards than at the last report.
        """
        rounds, (judged, verdict) = float(self.state.rewards[0]), self._verdict
        report = graph_report(self.state, self.graph, verdict if judged <= rounds <= 1.1 * judged else None)
        if report.verdict is not verdict:
            self._verdict = rounds, report.verdict
        return report

    def beta(self, user: int, level: float = 0.99) -> float:
        """Return the radius of the credible region of this probability, under the model."""
        from scipy.special import chdtri

        self.check_user(user)
        return float(np.sqrt(chdtri(self.dim, 1.0 - level)))

    def user_rows(self) -> dict[str, Any]:
        """Return the rows of a user without data: zeros."""
        own = dict.fromkeys(("x_sum", "spread", "message", "gain"), 0.0)
        return observation_rows("seen") | link_rows("links") | own

    def forget_user(self, user: int) -> None:
        """Take a user's data out of the common vectors; its past rounds stay in the evidence."""
        add_to_common(self.state, user, -1.0)
        solve_common(self.state.common)

    def follow_graph(self, users: Ints, changes: Changes) -> None:
        """Solve the models with the graph afresh, if they are exact, or update these users one by one."""
        links = links_of(self.graph) if changes is None else change_links(self.state.links, changes)
        state = self.state._replace(
            links=links, evidence=self.state.evidence._replace(fade=self.state.keep ** (1.0 / self.n_users))
        )
        if not len(state.joint.theta):
            self.state = state
            relax_users(state, users)
        elif self.params["solver"] == "auto" and self.n_users * self.dim > DENSE_ROWS:
            message = growable_zeros(self.n_users, 2 * len(state.strength), self.dim)
            self.state = state._replace(joint=no_joint(self.dim), message=message)
            relax_users(self.state, np.arange(self.n_users))
            rebuild_common(self.state)
        else:
            joint = joint_models(self.graph, self.dim, state.strength, state.rho, LOOSENESS)
            if state.seen.visits.any():
                rebuild_joint(joint, state.seen)
            self.state = state._replace(joint=joint)

    def estimates(self, users: Ints) -> Floats:
        """Return the means of the mixtures of these users."""
        return np.array([self.moments(user)[0] for user in users.tolist()]).reshape(len(users), self.dim)
