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
from math import exp, log, sqrt
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from ..graph import UserGraph
from ..jit import Floats, Ints, compiled
from ..linalg import cholesky, dot, invert_positive, multiply, quadratic_form, solve_cholesky
from ..links import Links, links, relinked
from ..observations import Observations, no_observations, no_rows, record, touched
from ..solvers import DENSE_ROWS
from ..solvers.graph_models import GraphModels, forget, learn, look, moments, predict, surround
from ..solvers.hierarchy import Hierarchy, hierarchy, observe_hierarchy, replace_user
from ..solvers.joint import Joint, joint, rejoined
from ..solvers.relaxed import Relaxed, View, new_view, relaxed, relaxed_rows, renew_relaxed, sandwich
from .base import Policy, Seed, check_choice, check_dim, check_not_negative, check_positive, check_probability
from .evidence import (
    Evidence,
    all_evidence,
    fade_evidence,
    judge,
    log_evidence,
    no_evidence,
    noise_variance,
    weigh,
    weigh_by,
)
from .kernels import register
from .live import Changes

if TYPE_CHECKING:
    from .report import Report

KINDS = ("alone", "everyone", "graph")
ALONE, EVERYONE, GRAPH = range(3)  # from GRAPH on, one kind for every slack
LOOSENESS = 0.3
SOLVERS = ("auto", "dense", "local")
ALPHAS = tuple(np.geomspace(1e-4, 30.0, 9).tolist())
LEVELS = (0.5, 0.9, 0.99)
QUANTILES = (0.6744897501960817, 1.6448536269514722, 2.5758293035489004)  # of |N(0, 1)|
TRAIL = 63
WORST = 4.0  # nats; what one round can say against the graph in a user's gain


class AdaptiveState(NamedTuple):
    """All models share the users' statistics, and at one strength also V_i = A_i + τ I."""

    seen: Observations
    solver: GraphModels
    common: Hierarchy
    evidence: Evidence
    strength: Floats  # (k,), τ
    gain: Floats  # (n,), log evidence for the graph against being alone, from a user's rounds, each at least -WORST
    trail: Floats  # (TRAIL, 2 + kinds), at rounds 1, 2, 4, …: round, effective strength, weight of each kind
    inside: Ints  # (levels,), rewards inside the central interval of each level, judged before they were learned
    rounds: Ints  # (1,)
    rho: Floats  # (slacks,), 1 / (1 + slack)
    keep: float  # what an observation leaves of the same user's earlier ones
    exploration: float
    best_only: bool
    thompson: bool


@compiled
def mixture(state: AdaptiveState, user: int, theta: Floats, covariance: Floats) -> None:
    """Write mean and covariance of the user's vector over all models, by their weights."""
    dim, n_strengths = theta.shape[0], state.strength.shape[0]
    weight = np.empty_like(state.evidence.squares)
    weigh(state.evidence, state.best_only, weight)
    for i in range(dim):
        theta[i] = 0.0
        for j in range(dim):
            covariance[i, j] = 0.0
    view = new_view(state.rho.shape[0] * n_strengths, dim)
    wanted = weight[GRAPH:].copy().reshape(view.pull.shape[0])
    if wanted.any():
        look(state.solver, state.seen, user, wanted, view)
    inverse, around, spread = np.empty((dim, dim)), np.empty((dim, dim)), np.empty((dim, dim))
    own, mean = np.empty(dim), np.empty(dim)
    for k in range(n_strengths):
        if not weight[:, k].any():
            continue
        tau = state.strength[k]
        invert_positive(state.seen.gram[user], tau, inverse)
        multiply(inverse, state.seen.bias[user], own)
        if weight[ALONE, k] > 0.0:
            blend(weight[ALONE, k], noise_variance(state.evidence, ALONE, k), own, inverse, theta, covariance)
        if weight[EVERYONE, k] > 0.0:
            multiply(inverse, state.common.mean[k], mean)
            for i in range(dim):
                mean[i] = own[i] + tau * mean[i]
            sandwich(inverse, state.common.inverse[k], tau * tau, spread)
            blend(weight[EVERYONE, k], noise_variance(state.evidence, EVERYONE, k), mean, spread, theta, covariance)
        if weight[GRAPH:, k].any():
            surround(state.solver, tau, view, around)
        for slack in range(state.rho.shape[0]):
            kind, model, rho = GRAPH + slack, slack * n_strengths + k, state.rho[slack]
            if weight[kind, k] > 0.0:
                moments(state.solver, user, model, tau, rho, inverse, own, view, around, mean, spread)
                blend(weight[kind, k], noise_variance(state.evidence, kind, k), mean, spread, theta, covariance)
    for i in range(dim):
        for j in range(dim):
            covariance[i, j] -= theta[i] * theta[j]


@compiled
def mean_noise(state: AdaptiveState) -> float:
    """The variance of the noise, over all models by their weights."""
    weight = np.empty_like(state.evidence.squares)
    weigh(state.evidence, state.best_only, weight)
    total = 0.0
    for kind in range(weight.shape[0]):
        for k in range(weight.shape[1]):
            total += weight[kind, k] * noise_variance(state.evidence, kind, k)
    return total


@compiled
def blend(weight: float, variance: float, mean: Floats, spread: Floats, theta: Floats, covariance: Floats) -> None:
    """Add one model's share of E θ and E θθᵀ."""
    for i in range(mean.shape[0]):
        theta[i] += weight * mean[i]
        for j in range(mean.shape[0]):
            covariance[i, j] += weight * (variance * spread[i, j] + mean[i] * mean[j])


@compiled
def score(state: AdaptiveState, user: int, arms: Floats, mean: Floats, bonus: Floats) -> None:
    """xᵀθ and exploration · sqrt(xᵀ C x), θ and C being mean and covariance of the user's vector."""
    dim = arms.shape[1]
    theta, covariance = np.empty(dim), np.empty((dim, dim))
    mixture(state, user, theta, covariance)
    for a in range(arms.shape[0]):
        mean[a] = dot(arms[a], theta)
        bonus[a] = state.exploration * sqrt(max(0.0, quadratic_form(covariance, arms[a])))


@compiled
def sample(state: AdaptiveState, user: int, arms: Floats, noise: Floats, values: Floats) -> None:
    """mean + bonus, or the values under one draw of the user's vector."""
    dim = arms.shape[1]
    theta, covariance = np.empty(dim), np.empty((dim, dim))
    mixture(state, user, theta, covariance)
    if state.thompson:
        factor = np.zeros((dim, dim))
        largest = 1e-300
        for i in range(dim):
            largest = max(largest, covariance[i, i])
        cholesky(covariance, 1e-12 * largest, factor)
        for i in range(dim):
            for j in range(i + 1):
                theta[i] += state.exploration * factor[i, j] * noise[j]
    for a in range(arms.shape[0]):
        values[a] = dot(arms[a], theta)
        if not state.thompson:
            values[a] += state.exploration * sqrt(max(0.0, quadratic_form(covariance, arms[a])))


@compiled
def update(state: AdaptiveState, user: int, x: Floats, reward: float) -> None:
    """Judge every model by its prediction, then let all of them learn."""
    dim, n_strengths = x.shape[0], state.strength.shape[0]
    view = new_view(state.rho.shape[0] * n_strengths, dim)
    look(state.solver, state.seen, user, np.ones(view.pull.shape[0]), view)
    factors, z, own = np.empty((n_strengths, dim, dim)), np.empty((n_strengths, dim)), np.empty((n_strengths, dim))
    solve_own(state, user, x, factors, z, own)
    count_prediction(state, user, x, reward, view, z, own)
    if state.keep < 1.0 and state.seen.visits[user] > 0:
        forget_user(state, user)
        solve_own(state, user, x, factors, z, own)
    record(state.seen, user, x, reward)
    state.common.updates[0] += 1
    theta = np.empty(dim)
    for k in range(n_strengths):
        tau, q = state.strength[k], 1.0 + dot(x, z[k])
        if state.common.mean.shape[0] > 0:
            observe_hierarchy(state.common, k, tau, z[k], q, reward - dot(x, own[k]))
        for slack in range(state.rho.shape[0]):
            model = slack * n_strengths + k
            for i in range(dim):
                theta[i] = view.pull[model, i]
            solve_cholesky(factors[k], theta)
            for i in range(dim):  # V⁻¹(b + τ ρ Σ_j P_ij θ_j), and then with the new observation, by rank one
                theta[i] = own[k, i] + tau * state.rho[slack] * theta[i]
            surprise = (reward - dot(x, theta)) / q
            for i in range(dim):
                theta[i] += surprise * z[k, i]
            learn(state.solver, state.seen, user, model, x, reward, theta)
    state.rounds[0] += 1


@compiled
def solve_own(state: AdaptiveState, user: int, x: Floats, factors: Floats, z: Floats, own: Floats) -> None:
    """Write, for every strength, the Cholesky factor of V = A_i + τ I, V⁻¹x and V⁻¹b."""
    for k in range(state.strength.shape[0]):
        cholesky(state.seen.gram[user], state.strength[k], factors[k])
        for i in range(x.shape[0]):
            z[k, i], own[k, i] = x[i], state.seen.bias[user, i]
        solve_cholesky(factors[k], z[k])
        solve_cholesky(factors[k], own[k])


@compiled
def count_prediction(state: AdaptiveState, user: int, x: Floats, reward: float, view: View, z: Floats, own: Floats) -> None:
    """Add one round to the evidence of every model, to the user's gain, to the coverage and to the trail."""
    n_strengths = state.strength.shape[0]
    weight, fit = np.empty_like(state.evidence.squares), np.empty_like(state.evidence.squares)
    all_evidence(state.evidence, fit)
    weigh_by(state.evidence, fit, state.best_only, weight)
    predicted, growth = np.zeros_like(weight), np.ones_like(weight)
    for k in range(n_strengths):
        tau = state.strength[k]
        predicted[ALONE, k] = dot(x, own[k])
        growth[ALONE, k] = 1.0 + dot(x, z[k])
        if state.common.mean.shape[0] > 0:
            predicted[EVERYONE, k] = predicted[ALONE, k] + tau * dot(z[k], state.common.mean[k])
            growth[EVERYONE, k] = growth[ALONE, k] + tau * tau * max(0.0, quadratic_form(state.common.inverse[k], z[k]))
        predict(state.solver, user, k, tau, state.rho, x, z[k], own[k], view, predicted[GRAPH:, k], growth[GRAPH:, k])
    mean, square = 0.0, 0.0
    for kind in range(weight.shape[0]):
        for k in range(n_strengths):
            variance = noise_variance(state.evidence, kind, k) * growth[kind, k]
            mean += weight[kind, k] * predicted[kind, k]
            square += weight[kind, k] * (variance + predicted[kind, k] ** 2)
    deviation = abs(reward - mean) / sqrt(max(square - mean * mean, 1e-300))
    for level in range(len(QUANTILES)):
        state.inside[level] += deviation <= QUANTILES[level]
    with_graph, single = best_model(fit, GRAPH, weight.shape[0] - 1), best_model(fit, ALONE, ALONE)
    before = fit[with_graph] - fit[single]
    fade_evidence(state.evidence)
    for kind in range(weight.shape[0]):
        for k in range(n_strengths):
            judge(state.evidence, kind, k, reward - predicted[kind, k], growth[kind, k])
    # While the noise level is hardly known, one error can shift the evidence of all earlier rounds; no user is to blame for it.
    after = log_evidence(state.evidence, *with_graph) - log_evidence(state.evidence, *single)
    state.gain[user] += max(after - before, -WORST)
    leave_trail(state, weight)


@compiled
def best_model(fit: Floats, first: int, last: int) -> tuple[int, int]:
    """Kind and strength of the model with the most evidence, among these kinds."""
    chosen = (first, 0)
    for kind in range(first, last + 1):
        for k in range(fit.shape[1]):
            if fit[kind, k] > fit[chosen]:
                chosen = (kind, k)
    return chosen


@compiled
def leave_trail(state: AdaptiveState, weight: Floats) -> None:
    """At rounds 1, 2, 4, … note the weights that were used and the strength that they amount to."""
    now, place = state.rounds[0] + 1, 0
    while now > 1 and now % 2 == 0:
        now //= 2
        place += 1
    if now != 1 or place >= state.trail.shape[0]:
        return
    log_strength = 0.0
    state.trail[place, 2:] = 0.0
    for kind in range(weight.shape[0]):
        state.trail[place, 2 + min(kind, GRAPH)] += weight[kind].sum()
        for k in range(weight.shape[1]):
            log_strength += weight[kind, k] * log(state.strength[k])
    state.trail[place, 0] = state.rounds[0] + 1
    state.trail[place, 1] = exp(log_strength)


@compiled
def forget_user(state: AdaptiveState, user: int) -> None:
    """Multiply the user's statistics by `keep`, and let everything that is computed from them follow."""
    gram, bias = state.seen.gram[user], state.seen.bias[user]
    dim, n_common = bias.shape[0], state.common.mean.shape[0]
    before = np.empty((n_common, dim, dim))
    after, old, new = np.empty((dim, dim)), np.empty((n_common, dim)), np.empty(dim)
    for k in range(n_common):
        invert_positive(gram, state.strength[k], before[k])
        multiply(before[k], bias, old[k])
    for i in range(dim):
        bias[i] *= state.keep
        for j in range(dim):
            gram[i, j] *= state.keep
    for k in range(n_common):
        invert_positive(gram, state.strength[k], after)
        multiply(after, bias, new)
        replace_user(state.common, k, state.strength[k], before[k], after, old[k], new)
    forget(state.solver, state.seen, user, state.keep)


@compiled
def forget_common(state: AdaptiveState, user: int) -> None:
    """Take a user out of the common vectors."""
    gram, bias = state.seen.gram[user], state.seen.bias[user]
    dim = bias.shape[0]
    before, after, old, new = np.empty((dim, dim)), np.empty((dim, dim)), np.empty(dim), np.zeros(dim)
    for k in range(state.common.mean.shape[0]):
        tau = state.strength[k]
        invert_positive(gram, tau, before)
        multiply(before, bias, old)
        for i in range(dim):
            for j in range(dim):
                after[i, j] = 1.0 / tau if i == j else 0.0
        replace_user(state.common, k, tau, before, after, old, new)


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
    state_parts = {
        "Observations": Observations,
        "Joint": Joint,
        "Relaxed": Relaxed,
        "Links": Links,
        "Hierarchy": Hierarchy,
        "Evidence": Evidence,
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
            gain=touched(graph.n_users),
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
        mixture(self._state, self._check_user(user), theta, covariance)
        return theta, covariance

    def user_precision(self, user: int) -> Floats:
        """The inverse of the covariance: the metric in which the confidence region of this user is a ball."""
        return np.asarray(np.linalg.inv(self.moments(user)[1]))

    def report(self) -> Report:
        """Does the graph help? Evidence with and without it, coverage, the users whom it misleads; `str` says it in words."""
        from .report import report  # which reads what is defined here

        return report(self._state, self.graph)

    def unit(self, user: int) -> float:
        """`exploration` standard deviations of the noise: the covariance over the noise's variance is in observations."""
        self._check_user(user)
        return float(self._state.exploration * np.sqrt(mean_noise(self._state)))

    def beta(self, user: int, level: float = 0.99) -> float:
        """The radius of the region that holds the user's vector with this probability, under the model."""
        from scipy.special import chdtri

        self._check_user(user)
        return float(np.sqrt(chdtri(self.dim, 1.0 - level)))

    def _user_rows(self) -> dict[str, Any]:
        own = relaxed_rows("solver") if isinstance(self._state.solver, Relaxed) else {}
        return no_rows("seen") | {"gain": 0.0} | own

    def _forget(self, user: int) -> None:
        """Take out what a user said about the common vector. How well models predicted its rewards stays in the evidence."""
        forget_common(self._state, user)

    def _follow(self, touched: Ints, changes: Changes) -> None:
        state, solver = self._state, self._state.solver
        fade = state.keep ** (1.0 / self.n_users)
        if isinstance(solver, Joint):
            if self.params["solver"] == "auto" and self.n_users * self.dim > DENSE_ROWS:
                before, touched = solver.theta, np.arange(self.n_users)
                solver = relaxed(self.graph, self.dim, len(before))
                solver.theta[: before.shape[1]] = before.transpose(1, 0, 2)
            else:
                solver = rejoined(joint(self.graph, self.dim, strengths=state.strength, rhos=state.rho), state.seen)
        else:
            solver = solver._replace(links=links(self.graph) if changes is None else relinked(solver.links, changes))
        self._state = state._replace(solver=solver, evidence=state.evidence._replace(fade=fade))
        if isinstance(solver, Relaxed):
            renew_relaxed(solver, state.seen, touched, state.strength, state.rho)

    def _estimates(self, users: Ints) -> Floats:
        return np.array([self.moments(user)[0] for user in users.tolist()]).reshape(len(users), self.dim)


def _grid(name: str, values: Sequence[float]) -> Floats:
    if isinstance(values, str) or not len(values):
        raise ValueError(f"{name} must be a list of one or more positive numbers, but it is {values!r}.")
    for value in values:
        check_positive(**{name: value})
    return np.array(sorted({float(value) for value in values}))


register(AdaptiveState, score=score, update=update, sample=sample)
