"""Parameters that vary smoothly over a graph, and measures of their smoothness and of the graph's density."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from .compute.arrays import Floats
from .graph import UserGraph
from .graphs import Seed
from .validate import NOT_NEGATIVE, check, is_integer

__all__ = ["density", "smooth", "smoothness", "smoothness_terms", "unit_arms", "unit_rows"]
DIRECT_SOLVE_USERS = 2000  # for more, the sparse factors fill in, and conjugate gradients are faster


def smooth(graph: UserGraph, dim: int, *, gamma: float, seed: Seed = None) -> Floats:
    """Draw (n_users, dim) parameters (I + gamma R)⁻¹ Θ₀ with Gaussian Θ₀, every row scaled to norm 1.

    The larger `gamma`, the more similar are neighbours. R is the random-walk Laplacian, so a row is
    an average over random walks on the graph. This is what the released code does (see the errata),
    not the minimiser of the paper's eq. (19), which need not exist; `paper.synthetic.smooth_users` generates that.

    >>> from graphbandit import graphs
    >>> ring = graphs.watts_strogatz(12, 2, 0.0)
    >>> rough, fine = (smooth(ring, 3, gamma=g, seed=0) for g in (0.0, 10.0))
    >>> smoothness(ring, fine) < smoothness(ring, rough)
    True
    """
    check("gamma", gamma, NOT_NEGATIVE)
    from scipy.sparse.linalg import cg, splu  # slow to import

    start = _generator(seed, "theta").standard_normal((graph.n_users, dim))
    # (I + γR) θ = θ₀  <=>  (I + γ L_sym)(D^½ θ) = D^½ θ₀, which is symmetric positive definite.
    root = np.sqrt(graph.positive_degrees)[:, None]
    system = sparse.csc_array(sparse.eye_array(graph.n_users) + gamma * graph.laplacian("normalized"))
    scaled = root * start
    if graph.n_users <= DIRECT_SOLVE_USERS:
        solution = splu(system).solve(scaled)
    else:
        columns = [cg(system, scaled[:, k], rtol=1e-10, atol=0.0)[0] for k in range(dim)]
        solution = np.column_stack(columns)
    return unit_rows(solution / root)


def unit_rows(matrix: Floats) -> Floats:
    """Divide every row by its norm; a row of zeros stays unchanged."""
    norms = np.linalg.norm(matrix, axis=1, keepdims=True)
    return np.ascontiguousarray(matrix / np.where(norms > 0, norms, 1.0))


def unit_arms(n_arms: int, dim: int, *, seed: Seed = None) -> Floats:
    """Draw (n_arms, dim) directions uniformly from the unit sphere."""
    return unit_rows(_generator(seed, "arms").standard_normal((n_arms, dim)))


def _generator(seed: Seed, name: str) -> np.random.Generator:
    """Return a generator whose stream depends on `name`.

    Users and arms drawn with the same integer seed must not coincide.
    """
    return np.random.default_rng([seed, *name.encode()] if is_integer(seed) else seed)


def smoothness(graph: UserGraph, theta: Floats) -> float:
    """Return tr(Θᵀ R Θ) with the random-walk Laplacian R: the smaller, the smoother.

    It can be negative (errata E5).
    """
    edges, norms = smoothness_terms(graph, theta)
    return edges + norms


def smoothness_terms(graph: UserGraph, theta: Floats) -> tuple[float, float]:
    """Return the two terms of the exact identity behind the paper's eq. (1) (errata E4).

    tr(Θᵀ R Θ) = ¼ Σ_(i,j) (W_ij/D_i + W_ij/D_j) ‖θ_i - θ_j‖²  +  Σ_i r_i ‖θ_i‖², where the first
    sum is over *ordered* pairs and r_i is the i-th row sum of (R + Rᵀ)/2. The paper prints the
    first term only, which is exact on regular graphs and, without isolated users, when all rows of
    Θ have the same norm.
    """
    theta = np.asarray(theta, dtype=np.float64)
    if theta.ndim != 2 or len(theta) != graph.n_users:
        raise ValueError(f"theta must have one row for each of {graph.n_users} users, but its shape is {theta.shape}.")
    pairs = graph.adjacency.tocoo()
    i, j = pairs.coords
    closeness = pairs.data / graph.positive_degrees[i] + pairs.data / graph.positive_degrees[j]
    edges = 0.25 * float(closeness @ ((theta[i] - theta[j]) ** 2).sum(axis=1))
    laplacian = graph.laplacian("random-walk")
    row_sums = (laplacian.sum(axis=1) + laplacian.sum(axis=0)) / 2
    return edges, float(row_sums @ (theta**2).sum(axis=1))


def density(graph: UserGraph) -> float:
    """Return the share of pairs of users that are joined: the paper's sp, which it calls sparsity."""
    n = graph.n_users
    return 2 * graph.n_edges / (n * (n - 1)) if n > 1 else 0.0


def __dir__() -> list[str]:
    return __all__
