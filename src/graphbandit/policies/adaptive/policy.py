"""AdaptiveGraphUCB: the strength of the graph, and whether to use it at all, chosen by evidence.

Kinds of models of the users, each at every strength τ of a grid, all fed the same data. With noise N(0, σ²):

| kind | prior of the users' vectors | posterior |
|---|---|---|
| `alone` | θ_i ~ N(0, σ²/τ I), independent | exact |
| `graph` | θ smooth on the graph | exact (`solvers/joint.py`) or one user at a time (`solvers/relaxed.py`) |
| `everyone` | θ_i = μ + δ_i, δ_i ~ N(0, σ²/τ I), μ ~ N(0, σ²/(0.3 τ) I) | exact (`solvers/hierarchy.py`) |

The graph prior is the symmetric one behind the random-walk system: sqrt(D_i) θ_i has the precision τ (I - ρ D^-½ W D^-½) / σ²,
ρ = 1/(1 + slack), so that given its neighbours θ_i has mean ρ Σ_j P_ij θ_j, P = D⁻¹W, and the precision τ/σ² whatever its
degree. Read literally, the same scaling makes the noise of user i σ²/D_i. We take it as σ² for everybody, in the evidence and
in the confidence: exact for regular graphs, an approximation for others (its coverage is measured in docs/adaptive.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ...compute.adjacency import change_links, links_of
from ...compute.arrays import Floats, Ints
from ...compute.growable import growable_zeros
from ...compute.observations import no_observations, observation_rows
from ...graph import UserGraph
from ...solvers import DENSE_ROWS
from ..core.graph_changes import Changes
from ..core.policy import Policy, Seed, check_choice, check_dim, check_not_negative, check_positive, check_probability
from .evidence import no_evidence
from .hierarchy import hierarchy
from .joint import Joint, joint, rejoined
from .mixture import AdaptiveState, forget_common, mean_noise, mixture
from .relaxed import Relaxed, relaxed, relaxed_rows, renew_relaxed

if TYPE_CHECKING:
    from .report import Report

KINDS = ("alone", "everyone", "graph")
LOOSENESS = 0.3
SOLVERS = ("auto", "dense", "local")
ALPHAS = tuple(np.geomspace(1e-4, 30.0, 9).tolist())
LEVELS = (0.5, 0.9, 0.99)
TRAIL = 63


class AdaptiveGraphUCB(Policy):
    """Learns how strong the graph is while it acts, and stops using a graph that does not help. No constant to tune.

    Keeps three kinds of models of the users (each for itself, everyone around a common vector, neighbours alike), each at every
    strength of a grid, all fed the same data. Each is judged by how well it predicted every reward before it was seen, up to a
    constant. The user's vector has the mean and covariance of the evidence-weighted mixture, and the arm is
    argmax xᵀθ_i + exploration · sqrt(xᵀ C_i x). The noise level is learned as well.

    Parameters
    ----------
    alphas : list of float, optional
        Strengths τ of the prior, in units of the noise variance: given its neighbours, a user's coordinate deviates with
        variance σ²/τ. The default, nine values from 1e-4 to 30, suits features of norm about 1.
    sigma : float, optional
        Standard deviation of the noise, if it is known; otherwise each model estimates its own.
    exploration : float
        Standard deviations of optimism; 0 is greedy.
    models : names among "alone", "everyone", "graph"
        Which kinds may act. `alone` and `graph` are judged in any case. `everyone`, a vector that all users share, tells
        users without neighbours what people like; without it a round is cheaper, and it gets more hits on Last.fm.
    choice : {"average", "best"}
        Act with the evidence-weighted average of the models, or with the single best one.
    temper : float
        Evidence is raised to this power. 1 is Bayes' rule; less keeps more models in play, since none of them is right.
    slack : list of float
        How loosely a user is tied to its neighbours' mean rather than to 0; graph models with each of these values take part.
    half_life : float, optional
        For tastes that drift: after this many observations of a user an old one of the same user counts half. Evidence
        fades at the same pace.
    solver : {"auto", "dense", "local"}
        Posterior of the graph models: exact, O((n dim)²) a round and strength; or one user at a time with the uncertainty of
        its neighbours to first order, at a cost that depends on the degree only. `auto` takes `dense` up to 256 rows.
    thompson : bool
        Draw the user's vector from N(θ_i, exploration² C_i) in every decision, in place of the bonus.

    References
    ----------
    The evidence is the prequential one of Dawid 1984, its power that of Grünwald & van Ommen 2017 ("Inconsistency of Bayesian
    inference for misspecified linear models"). The graph prior is that of Yang, Dong & Toni 2020.

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

    def __init__(
        self,
        graph: UserGraph,
        dim: int,
        *,
        alphas: Sequence[float] | None = None,
        sigma: float | None = None,
        exploration: float = 1.0,
        models: Sequence[str] = KINDS,
        choice: Literal["average", "best"] = "average",
        temper: float = 0.1,
        slack: Sequence[float] = (0.03, 0.3),
        half_life: float | None = None,
        solver: Literal["auto", "dense", "local"] = "auto",
        thompson: bool = False,
        seed: Seed = 0,
    ) -> None:
        dim = check_dim(graph, dim)
        strengths, slacks = _grid("alphas", ALPHAS if alphas is None else alphas), _grid("slack", slack)
        rhos = 1.0 / (1.0 + slacks)
        check_positive(half_life=1.0 if half_life is None else half_life, sigma=1.0 if sigma is None else sigma)
        check_not_negative(exploration=exploration)
        check_probability(temper=temper)
        check_choice("solver", solver, SOLVERS)
        for name in models:
            check_choice("models", name, KINDS)
        if not models:
            raise ValueError(f"models must name one or more of {', '.join(KINDS)}, but it is empty.")
        dense = solver == "dense" or (solver == "auto" and graph.n_users * dim <= DENSE_ROWS)
        kinds = ("alone", "everyone", *["graph"] * len(rhos))
        keep = 1.0 if half_life is None else 0.5 ** (1.0 / half_life)
        state = AdaptiveState(
            seen=no_observations(graph.n_users, dim),
            solver=joint(graph, dim, strengths=strengths, rhos=rhos)
            if dense
            else relaxed(graph, dim, len(rhos) * len(strengths)),
            common=hierarchy(strengths if "everyone" in models else strengths[:0], dim, LOOSENESS),
            evidence=no_evidence(
                np.array([float(name in models) for name in kinds]),
                np.array([float(name != "everyone" or name in models) for name in kinds]),
                len(strengths),
                sigma=sigma,
                temper=float(temper),
                fade=keep ** (1.0 / graph.n_users),
            ),
            strength=strengths,
            gain=growable_zeros(graph.n_users),
            trail=np.zeros((TRAIL, 2 + len(KINDS))),
            inside=np.zeros(len(LEVELS), dtype=np.int64),
            rounds=np.zeros(1, dtype=np.int64),
            rho=rhos,
            keep=keep,
            exploration=float(exploration),
            best_only=check_choice("choice", choice, ("average", "best")) == 1,
            thompson=bool(thompson),
        )
        params = dict(
            alphas=strengths.tolist(), sigma=sigma, exploration=exploration, models=list(models), choice=choice, temper=temper
        )
        params |= dict(slack=slacks.tolist(), half_life=half_life, solver=solver, thompson=thompson)
        super().__init__(graph, dim, state, params, seed, noise=dim if thompson else 0)

    @property
    def theta(self) -> Floats:
        """(n_users, dim) the mean of every user's vector, as a copy."""
        return np.array([self.moments(user)[0] for user in range(self.n_users)])

    def moments(self, user: int) -> tuple[Floats, Floats]:
        """Mean and covariance of what is known about a user's vector."""
        theta, covariance = np.empty(self.dim), np.empty((self.dim, self.dim))
        mixture(self.state, self.check_user(user), theta, covariance)
        return theta, covariance

    def user_precision(self, user: int) -> Floats:
        """The inverse of the covariance: the metric in which the confidence region of this user is a ball."""
        return np.asarray(np.linalg.inv(self.moments(user)[1]))

    def report(self) -> Report:
        """Does the graph help? Evidence with and without it, coverage, the users whom it misleads; `str` says it in words."""
        from .report import report  # which reads what is defined here

        return report(self.state, self.graph)

    def bonus_scale(self, user: int) -> float:
        """`exploration` standard deviations of the noise: the covariance over the noise's variance is in observations."""
        self.check_user(user)
        return float(self.state.exploration * np.sqrt(mean_noise(self.state)))

    def beta(self, user: int, level: float = 0.99) -> float:
        """The radius of the region that holds the user's vector with this probability, under the model."""
        from scipy.special import chdtri

        self.check_user(user)
        return float(np.sqrt(chdtri(self.dim, 1.0 - level)))

    def user_rows(self) -> dict[str, Any]:
        own = relaxed_rows("solver") if isinstance(self.state.solver, Relaxed) else {}
        return observation_rows("seen") | {"gain": 0.0} | own

    def forget_user(self, user: int) -> None:
        """Take out what a user said about the common vector. How well models predicted its rewards stays in the evidence."""
        forget_common(self.state, user)

    def follow_graph(self, users: Ints, changes: Changes) -> None:
        state, solver = self.state, self.state.solver
        fade = state.keep ** (1.0 / self.n_users)
        if isinstance(solver, Joint):
            if self.params["solver"] == "auto" and self.n_users * self.dim > DENSE_ROWS:
                before, users = solver.theta, np.arange(self.n_users)
                solver = relaxed(self.graph, self.dim, len(before))
                solver.theta[: before.shape[1]] = before.transpose(1, 0, 2)
            else:
                solver = rejoined(joint(self.graph, self.dim, strengths=state.strength, rhos=state.rho), state.seen)
        else:
            solver = solver._replace(links=links_of(self.graph) if changes is None else change_links(solver.links, changes))
        self.state = state._replace(solver=solver, evidence=state.evidence._replace(fade=fade))
        if isinstance(solver, Relaxed):
            renew_relaxed(solver, state.seen, users, state.strength, state.rho)

    def estimates(self, users: Ints) -> Floats:
        return np.array([self.moments(user)[0] for user in users.tolist()]).reshape(len(users), self.dim)


def _grid(name: str, values: Sequence[float]) -> Floats:
    if isinstance(values, str) or not len(values):
        raise ValueError(f"{name} must be a list of one or more positive numbers, but it is {values!r}.")
    for value in values:
        check_positive(**{name: value})
    return np.array(sorted({float(value) for value in values}))
