"""The synthetic environments, as the paper describes them (printed) and as the authors' scripts make them (released).

| part | printed | released |
|---|---|---|
| users | the minimiser of eq. (19), scaled so that ‖Θ‖² = n | (I + γR)⁻¹Θ₀, every row scaled to norm 1 |
| arms | one set of 500, all on offer in every round (Sections 1 and 3) | 50 of 500, drawn anew in every round |
| RBF | weights exp(−ρ‖θ_i − θ_j‖²) of the rows of Θ₀; ρ leaves 40 % of the pairs at s = 0.5 | of other vectors, ρ = 0.05 |
| WS | 7 neighbours | 8 neighbours |

Three points of the text are open. Θ is a function of the RBF graph and the graph of Θ: the weights here are those of Θ₀, from
which eq. (19) starts. ρ is not given: the value here makes the RBF graph as sparse as the Erdős-Rényi graph, as the caption
of Figure 2 asks. Appendix L has ‖Θ‖₂ = n, Theorem 1 ‖θ_i‖ ≤ 1: ‖Θ‖² = n agrees with both up to the square (errata E48).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np

from .. import environments, graphs, signals
from ..compute.arrays import Floats
from ..experiments.testbeds import DIM, GAMMA, N_ARMS, N_USERS, POOL, SIGMA, draw_graph
from ..graph import UserGraph
from .figure import Setting

ALPHA, RIDGE, DELTA = 1.0, 0.01, 0.01  # of the paper
NOISY = 0.1
"""The standard deviation that the paper's "noise variance σ = 0.01" means, read literally."""
DENSITY = 0.4
"""Share of pairs that the RBF graph of the text joins at the threshold 0.5: that of Erdős-Rényi with p = 0.4."""
FAMILIES = {
    "rbf": "RBF (s = 0.5)",
    "er": "Erdős-Rényi (p = 0.4)",
    "ba": "Barabási-Albert (m = 5)",
    "ws": "Watts-Strogatz (p = 0.2)",
}


class NoMinimiser(ValueError):
    """The objective of eq. (19) is unbounded below, so that the environment of the text does not exist."""


def environment(
    setting: Setting,
    family: str,
    seed: int,
    *,
    gamma: float = GAMMA,
    sigma: float = SIGMA,
    cut: float | None = None,
    **graph: Any,
) -> environments.Linear:
    """Return the environment of one seed; graph, users and arms have streams of their own.

    `cut` removes weights below it after the users are drawn, as the text has it for the sparsity figure; the scripts
    remove them before.
    """
    if cut is not None and setting == "released":
        graph["threshold"] = cut
    users = family_graph(setting, family, seed, **graph)
    truth = smooth_users(setting, users, seed, gamma)
    if cut is not None and setting == "printed":
        users = thinned(users, cut)
    return with_arms(setting, users, truth, seed, sigma)


def with_arms(setting: Setting, users: UserGraph, truth: Floats, seed: int, sigma: float = SIGMA) -> environments.Linear:
    """Return the environment of these users with 500 unit arms: all on offer, or 50 of them in each round."""
    (stream,) = environments.streams(seed, "arms")
    arms = signals.unit_arms(N_ARMS, DIM, seed=stream)
    return environments.Linear(users, truth, arms, sigma=sigma, pool=None if setting == "printed" else POOL)


def family_graph(setting: Setting, family: str, seed: int, **graph: Any) -> UserGraph:
    """Return a graph of one of the four families."""
    shape, theta = environments.streams(seed, "graph", "theta")
    if setting == "released" or family not in ("rbf", "ws"):
        return draw_graph(family, shape, **graph)
    if family == "ws":
        return ring(shape, graph.get("m") or 7, 0.2 if graph.get("p") is None else graph["p"])
    start = theta.standard_normal((graph.get("n_users", N_USERS), DIM))
    squares = ((start[:, None] - start) ** 2).sum(axis=2)
    rho = np.log(2) / np.quantile(squares[np.triu_indices(len(start), 1)], DENSITY)
    return graphs.rbf(start, rho=rho, threshold=graph.get("threshold", 0.5))


def ring(rng: np.random.Generator, m: int, p: float) -> UserGraph:
    """Return a ring of 20 users with m neighbours each, every edge rewired with probability p.

    For an odd m the opposite user is the last neighbour.
    """
    even = graphs.watts_strogatz(N_USERS, m - m % 2, p, seed=rng)
    joined = even.adjacency.toarray() > 0
    for i in range(N_USERS // 2 if m % 2 else 0):
        free = np.flatnonzero(~joined[i])
        j = rng.choice(free[free != i]) if joined[i, i + N_USERS // 2] or rng.random() < p else i + N_USERS // 2
        joined[i, j] = joined[j, i] = True
    return graphs.from_adjacency(joined.astype(float))


def thinned(users: UserGraph, threshold: float) -> UserGraph:
    """Return the graph without the edges whose weight is below the threshold."""
    weights = users.adjacency.toarray()
    return graphs.from_adjacency(np.where(weights >= threshold, weights, 0.0))


def smooth_users(setting: Setting, users: UserGraph, seed: int, gamma: float) -> Floats:
    """Return the users' vectors: the minimiser of eq. (19), or what the scripts compute.

    The gradient of eq. (19) is zero where (I + γS) Θ = Θ₀ with S = (R + Rᵀ)/2. That is the minimum if I + γS is positive
    definite; otherwise there is none (errata E5).
    """
    (theta,) = environments.streams(seed, "theta")
    if setting == "released":
        return signals.smooth(users, DIM, gamma=gamma, seed=theta)
    system = np.eye(users.n_users) + gamma * symmetric_part(users)
    if np.linalg.eigvalsh(system)[0] <= 1e-9:
        raise NoMinimiser(f"eq. (19) has no minimiser at gamma = {gamma:g} on the graph of seed {seed}.")
    truth = np.linalg.solve(system, theta.standard_normal((users.n_users, DIM)))
    return np.asarray(truth * np.sqrt(users.n_users) / np.linalg.norm(truth))


def symmetric_part(users: UserGraph) -> Floats:
    """Return S = (R + Rᵀ)/2, the part of the random-walk Laplacian that a quadratic form sees."""
    walk = users.laplacian().toarray()
    return np.asarray((walk + walk.T) / 2)


def equally_smooth(setting: Setting, users: UserGraph, seed: int, smoothness: float) -> environments.Linear:
    """Return the environment with the γ for which tr(ΘᵀℒΘ) has this value.

    Every isolated user adds 1 to the trace, whatever γ is. If they alone exceed the value, γ is the largest allowed.
    """
    from scipy.optimize import brentq

    least = float(np.linalg.eigvalsh(symmetric_part(users))[0])
    low, high = np.log(1e-3), np.log(min(1e4, 0.999 / -least) if setting == "printed" and least < -1e-4 else 1e4)

    def excess(log_gamma: float) -> float:
        return signals.smoothness(users, smooth_users(setting, users, seed, float(np.exp(log_gamma)))) - smoothness

    gamma = np.exp(high if excess(high) > 0 else brentq(excess, low, high))
    return with_arms(setting, users, smooth_users(setting, users, seed, float(gamma)), seed)


def maker(setting: Setting, family: str, **choices: Any) -> Callable[[int], environments.Linear]:
    """Return `environment` as a function of the seed alone."""
    return partial(environment, setting, family, **choices)


def existing(make: Callable[[int], Any], seeds: Iterable[int]) -> list[int]:
    """Return the seeds whose environment exists."""
    kept = []
    for seed in seeds:
        try:
            make(seed)
        except NoMinimiser:
            continue
        kept.append(seed)
    return kept


def random_rounds(env: environments.Linear, horizon: int, seed: int) -> Any:
    """Yield user, features, reward and noise of rounds in which a random arm is shown."""
    (draw,) = environments.streams(seed, "random arms")
    for rounds in env.rounds(horizon, seed):
        for t, user in enumerate(rounds.user.tolist()):
            k = int(draw.integers(rounds.pool.shape[1]))
            yield user, env.arms[rounds.pool[t, k]], rounds.mean[t, k] + rounds.noise[t], float(rounds.noise[t])


def checkpoints(horizon: int, count: int = 40) -> Any:
    """Return rounds at which slow quantities are computed, more of them at the start."""
    return np.unique(np.geomspace(5, horizon, count).astype(int))
