"""Slow, readable NumPy versions of what the package computes, straight from the formulas, with the same names."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphbandit import UserGraph
from graphbandit.compute.arrays import Floats

History = list[tuple[int, Floats, float]]


def random_history(n_users: int, dim: int, length: int, seed: int) -> History:
    """Return unit features and rewards of size one, for users uniformly at random."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((length, dim))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return list(zip(rng.integers(n_users, size=length).tolist(), x, rng.standard_normal(length).tolist(), strict=True))


def observations(history: History, n_users: int, dim: int) -> tuple[Floats, Floats]:
    """Return (n, d, d) Gram matrices and (n, d) sums of rewarded features."""
    gram, bias = np.zeros((n_users, dim, dim)), np.zeros((n_users, dim))
    for user, x, reward in history:
        gram[user] += np.outer(x, x)
        bias[user] += reward * x
    return gram, bias


def block_diagonal(blocks: Floats) -> Floats:
    """Return (n, d, d) blocks as one (nd, nd) matrix."""
    n, d, _ = blocks.shape
    out = np.zeros((n * d, n * d))
    for i in range(n):
        out[i * d : (i + 1) * d, i * d : (i + 1) * d] = blocks[i]
    return out


def random_walk(graph: UserGraph) -> Floats:
    """Return R, built entry by entry: R_ii = 1 (isolated users too), R_ij = -W_ij / D_i."""
    weights = graph.adjacency.toarray()
    out = np.eye(len(weights))
    for i, row in enumerate(weights):
        if row.sum() > 0:
            out[i] -= row / row.sum()
    return out


def laplacian_estimate(graph: UserGraph, gram: Floats, bias: Floats, alpha: float, ridge: float) -> Floats:
    """Solve eq. (5): (A + ridge I + alpha R ⊗ I) vec(θ) = b."""
    n, d = bias.shape
    system = block_diagonal(gram) + ridge * np.eye(n * d) + alpha * np.kron(random_walk(graph), np.eye(d))
    return np.asarray(np.linalg.solve(system, bias.ravel())).reshape(n, d)


def goblin_estimate(graph: UserGraph, gram: Floats, bias: Floats, scale: float) -> tuple[Floats, Floats]:
    """Return Gob.Lin's estimate and (nd, nd) covariance, in the textbook form with the matrix square root."""
    n, d = bias.shape
    prior = scale * (np.eye(n) + graph.laplacian("combinatorial").toarray())
    values, vectors = np.linalg.eigh(prior)
    root = np.kron(vectors @ np.diag(values**-0.5) @ vectors.T, np.eye(d))  # A_x^(-1/2)
    m = np.eye(n * d) + root @ block_diagonal(gram) @ root
    w = np.linalg.solve(m, root @ bias.ravel())
    return (root @ w).reshape(n, d), root @ np.linalg.inv(m) @ root


def user_precision(
    graph: UserGraph, gram: Floats, user: int, *, alpha: float, ridge: float, shift: float, metric: str
) -> Floats:
    """Return eq. (10) by its definition, as a diagonal block of an (nd, nd) product where there is one."""
    n, d, _ = gram.shape
    laplacian = random_walk(graph) + shift * np.eye(n)
    regular = gram + ridge * np.eye(d)
    block = slice(user * d, (user + 1) * d)
    if metric == "exact":
        m = block_diagonal(regular) + alpha * np.kron(laplacian, np.eye(d))
        return np.asarray((m.T @ np.linalg.inv(block_diagonal(regular)) @ m)[block, block])
    out = regular[user] + 2 * alpha * laplacian[user, user] * np.eye(d)
    for j in range(n):
        if metric == "paper" or j != user:
            out = out + alpha**2 * laplacian[user, j] ** 2 * np.linalg.inv(regular[j])
    return np.asarray(out)


def radius(
    graph: UserGraph,
    gram: Floats,
    values: Floats,
    user: int,
    *,
    alpha: float,
    shift: float,
    sigma: float,
    delta: float,
    eps: float,
) -> float:
    """Return eq. (11) with V_i = A_i + shift I and Δ from `values`."""
    n, d, _ = gram.shape
    rough = ((random_walk(graph) + eps * np.eye(n)) @ values)[user]
    log_det = np.linalg.slogdet(gram[user] + shift * np.eye(d))[1]
    noise = sigma * np.sqrt(log_det - d * np.log(alpha) + 2 * np.log(1 / delta))
    return float(noise + np.sqrt(alpha) * np.linalg.norm(rough))


def club_clusters(start: Floats, history: History, dim: int, alpha2: float, *, before: bool = False) -> list[set[int]]:
    """Return the final clusters of CLUB, with an adjacency matrix and a search from scratch."""
    n = len(start)
    edges, seen = start.astype(bool).copy(), [0] * n
    gram, bias = np.tile(np.eye(dim), (n, 1, 1)), np.zeros((n, dim))
    theta = np.zeros((n, dim))

    def width(user: int) -> float:
        return float(alpha2 * np.sqrt((1 + np.log(1 + seen[user])) / (1 + seen[user])))

    def cut(user: int) -> None:
        for other in range(n):
            apart = np.linalg.norm(theta[user] - theta[other]) > width(user) + width(other)
            if apart:
                edges[user, other] = edges[other, user] = False

    for user, x, reward in history:
        if before:
            cut(user)
        gram[user] += np.outer(x, x)
        bias[user] += reward * x
        seen[user] += 1
        theta[user] = np.linalg.solve(gram[user], bias[user])
        if not before:
            cut(user)
    return components(edges)


def components(edges: Any) -> list[set[int]]:
    """Return connected components by repeated flooding."""
    left, out = set(range(len(edges))), []
    while left:
        part, front = set(), {left.pop()}
        while front:
            part |= front
            front = {int(j) for i in front for j in np.flatnonzero(edges[i])} - part
        left -= part
        out.append(part)
    return out
