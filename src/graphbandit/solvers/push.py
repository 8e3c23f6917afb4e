"""The Laplacian-regularised estimate kept up to date by pushing residuals along edges.

With P = D⁻¹W, V_i = A_i + (ridge + alpha) I and M = blockdiag(V_i) - alpha P ⊗ I, the estimate
solves M θ = b. The state holds a θ together with its residual r = b - M θ, and one invariant:
|r_vk| <= tolerance · s for every user v and feature k. The scale s is the mean of
|y - xᵀθ_i| ‖x‖ over the observations so far, by how much one of them changes a residual: so c
times the rewards give c times the estimate, for any c.

* An observation (i, x, y) adds x xᵀ to M_ii and y x to b_i, so that r_i grows by x (y - xᵀθ_i): the
  prediction error.
* Pushing v solves its own block, δ = V_v⁻¹ r_v, and passes the rest on to its neighbours:
  θ_v += δ, r_v = 0, r_w += alpha P_wv δ.
* A change of the edge (i, j) changes rows i and j of P, so only r_i and r_j: `recompute_residuals`
  computes them afresh and pushes.
* A mean may fall. s stays until it is twice the mean; then it becomes the mean, and all users are
  looked at. A mean of T terms halves when T has doubled, or later: that is rare.

So the work of a round depends on the prediction error, not on the number of users. At the user with
the largest error e = θ - θ*, ‖r_v‖ >= e_vᵀ(M e)_v / ‖e_v‖ >= ridge ‖e_v‖, hence
‖θ_v - θ*_v‖₂ <= sqrt(d) · tolerance · s / ridge for all v. Measured errors are far smaller: residuals
of either sign cancel, and data add to the ridge.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..compute.adjacency import Links
from ..compute.arrays import Flags, Floats, Indices, Ints
from ..compute.compiler import compiled
from ..compute.growable import growable_rows, growable_zeros
from ..compute.linalg import dot, euclidean_norm, follow_gram, multiply
from ..compute.observations import Observations

SCALE, TOTAL, COUNT = range(3)  # of `Push.scale`: s, Σ |y - xᵀθ_i| ‖x‖ and the number of its terms


class Push(NamedTuple):
    """State of the push solver."""

    theta: Floats  # (n, d)
    residual: Floats  # (n, d), b - M θ
    inverse: Floats  # (n, d, d), V_i⁻¹
    queue: Indices  # (n,), ring buffer of users whose residual is too large; a user is in it at most once
    waiting: Flags  # (n,), who is in it
    work: Ints  # (1,), pushes done so far
    alpha: float
    shift: float  # ridge + alpha
    tolerance: float
    scale: Floats  # (3,), or (0,) from files of 0.1.0, where the tolerance is absolute: s = 1


def push(n: int, dim: int, *, alpha: float, ridge: float, tolerance: float) -> Push:
    """The solver of n users before the first observation: θ = 0 solves M θ = 0."""
    shift = ridge + alpha
    return Push(
        theta=growable_zeros(n, dim),
        residual=growable_zeros(n, dim),
        inverse=growable_rows(np.eye(dim) / shift, n),
        queue=growable_rows(0, n, np.int32),
        waiting=growable_rows(False, n, np.bool_),
        work=np.zeros(1, dtype=np.int64),
        alpha=alpha,
        shift=shift,
        tolerance=tolerance,
        scale=np.zeros(3),
    )


def push_rows(name: str, solver: Push) -> dict[str, Any]:
    """The rows of a user without data or edges, for the solver under this name in the state."""
    own = np.eye(solver.theta.shape[1]) / solver.shift
    rows = {"theta": 0.0, "residual": 0.0, "inverse": own, "queue": 0, "waiting": False}
    return {f"{name}.{part}": row for part, row in rows.items()}


@compiled
def observe_push(solver: Push, links: Links, seen: Observations, user: int, x: Floats, reward: float) -> None:
    """Learn an observation that `seen` already counts, and push until the invariant holds again."""
    error = reward - dot(x, solver.theta[user])
    follow_gram(solver.inverse[user], seen.gram[user], solver.shift, x, seen.visits[user])
    for k in range(x.shape[0]):
        solver.residual[user, k] += error * x[k]
    if solver.scale.shape[0] > 0 and follow_scale(solver.scale, abs(error) * euclidean_norm(x)):
        for other in range(solver.theta.shape[0]):
            drain(solver, links, seen, other)
    else:
        drain(solver, links, seen, user)


@compiled
def follow_scale(scale: Floats, size: float) -> bool:
    """Count what an observation has changed. Returns whether s has fallen, so that any residual may be too large."""
    scale[TOTAL] += size
    scale[COUNT] += 1.0
    mean = scale[TOTAL] / scale[COUNT]
    fallen = bool(mean < 0.5 * scale[SCALE])
    if fallen or mean > scale[SCALE]:
        scale[SCALE] = mean
    return fallen


@compiled
def largest_residual(solver: Push) -> float:
    """The bound on |r_vk|, tolerance · s."""
    return solver.tolerance * solver.scale[SCALE] if solver.scale.shape[0] > 0 else solver.tolerance


@compiled
def recompute_residuals(solver: Push, links: Links, seen: Observations, users: Ints) -> None:
    """Compute r = b - M θ of these users, whose data or edges have changed, and push."""
    dim = solver.theta.shape[1]
    product = np.empty(dim)
    for user in users:
        multiply(seen.gram[user], solver.theta[user], product)
        for k in range(dim):
            own = seen.bias[user, k] - product[k] - solver.shift * solver.theta[user, k]
            solver.residual[user, k] = own
        for edge in range(links.start[user], links.start[user] + links.filled[user]):
            other = links.neighbour[edge]
            share = solver.alpha * (links.weight[edge] / links.degree[user])
            for k in range(dim):
                solver.residual[user, k] += share * solver.theta[other, k]
    for user in users:
        drain(solver, links, seen, user)


@compiled
def drain(solver: Push, links: Links, seen: Observations, user: int) -> None:
    """Push `user`, if its residual is too large, and then everybody whose residual becomes so."""
    n, dim = solver.theta.shape
    step, bound = np.empty(dim), largest_residual(solver)
    head, length = 0, 0
    for k in range(dim):
        if abs(solver.residual[user, k]) > bound and length == 0:
            solver.queue[0] = user
            length = 1
    while length > 0:
        v = solver.queue[head]
        head = head + 1 if head + 1 < n else 0
        length -= 1
        solver.waiting[v] = False
        solver.work[0] += 1
        if seen.visits[v] == 0:  # V_v = shift I: most users of a large graph are like this for long
            for k in range(dim):
                step[k] = solver.residual[v, k] / solver.shift
        else:
            multiply(solver.inverse[v], solver.residual[v], step)
        for k in range(dim):
            solver.theta[v, k] += step[k]
            solver.residual[v, k] = 0.0
        for edge in range(links.start[v], links.start[v] + links.filled[v]):
            w = links.neighbour[edge]
            share = solver.alpha * (links.weight[edge] / links.degree[w])  # P_wv
            large = False
            for k in range(dim):
                residual = solver.residual[w, k] + share * step[k]
                solver.residual[w, k] = residual
                large |= abs(residual) > bound
            if large and not solver.waiting[w]:
                tail = head + length
                solver.queue[tail if tail < n else tail - n] = w
                solver.waiting[w] = True
                length += 1
