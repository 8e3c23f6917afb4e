"""The Laplacian-regularised estimate kept up to date by pushing residuals along edges.

With P = D⁻¹W, V_i = A_i + (ridge + alpha) I and M = blockdiag(V_i) - alpha P ⊗ I, the estimate
solves M θ = b. The state holds a θ together with its residual r = b - M θ, and one invariant:
‖r_v‖ <= tolerance · s for every user v. The scale s is the mean of |y - xᵀθ_i| ‖x‖ over the
observations so far, by how much one of them changes a residual: so c times the rewards give c times
the estimate, for any c.

* An observation (i, x, y) adds x xᵀ to M_ii and y x to b_i, so that r_i grows by x (y - xᵀθ_i): the
  prediction error.
* Pushing v solves its own block, δ = ω V_v⁻¹ r_v, and passes the rest on to its neighbours:
  θ_v += δ, r_v -= ω r_v, r_w += alpha P_wv δ. This is successive over-relaxation with the users in
  the order in which their residuals become too large.
* Pushing spreads what all users have in common only slowly: with θ_v = c for all v, M θ is
  (A_v + ridge) c, in which alpha does not occur. So from time to time `balance` computes the mean
  residual and, if it is not small, moves all users by the same vector. It takes no more time than the
  pushes since the last test.
* A change of the edge (i, j) changes rows i and j of P, so only r_i and r_j: `recompute_residuals`
  computes them again and pushes.
* The mean may decrease. s stays until it is twice the mean; then it becomes the mean, and all
  residuals are checked. That is rare: a mean of T terms halves when T has doubled, or later.

D M is symmetric and positive definite. A push with 0 < ω < 2 and a balance both lower the energy
½ θᵀ(D M)θ - θᵀD b, a push by ½ ω (2 - ω) D_v r_vᵀ V_v⁻¹ r_v: every residual gets small enough.

The work of a round depends on the prediction error, not on the number of users. At the user with
the largest error e = θ - θ*, ‖r_v‖ >= e_vᵀ(M e)_v / ‖e_v‖ >= ridge ‖e_v‖, hence
‖θ_v - θ*_v‖ <= tolerance · s / ridge for all v. It is attained where all residuals point the same
way, which `balance` prevents on the whole: measured errors are 3 to 500 times smaller.
"""

from __future__ import annotations

from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from ..compute.adjacency import Links
from ..compute.arrays import Flags, Floats, Indices, Ints
from ..compute.compiler import compiled
from ..compute.growable import growable_rows, growable_zeros
from ..compute.linalg import cholesky, dot, euclidean_norm, follow_gram, multiply, solve_cholesky
from ..compute.observations import Observations

SCALE, TOTAL, COUNT = range(3)  # of `Push.scale`: s, Σ |y - xᵀθ_i| ‖x‖ and the number of its terms
PUSHES, LOOKED = range(2)  # of `Push.work`: pushes so far, and pushes before the last test of `balance`

LEAST_MEAN_RESIDUAL = 0.03
"""`balance` moves all users if the mean residual is above this part of `tolerance · s`."""

SLOWEST_DECAY = 0.9
"""Squared decay of the slowest error that pushes remove, apart from the ridge; `balance` removes slower errors."""


class Push(NamedTuple):
    """State of the push solver."""

    theta: Floats  # (n, d)
    residual: Floats  # (n, d), b - M θ
    inverse: Floats  # (n, d, d), V_i⁻¹
    queue: Indices  # (n,), ring buffer of users whose residual is too large; a user is in it at most once
    waiting: Flags  # (n,), who is in it
    work: Ints  # (2,), see above
    alpha: float
    shift: float  # ridge + alpha
    tolerance: float
    scale: Floats  # (3,), see above


def push(n: int, dim: int, *, alpha: float, ridge: float, tolerance: float) -> Push:
    """Return the solver of n users before the first observation: θ = 0 solves M θ = 0."""
    shift = ridge + alpha
    return Push(
        theta=growable_zeros(n, dim),
        residual=growable_zeros(n, dim),
        inverse=growable_rows(np.eye(dim) / shift, n),
        queue=growable_rows(0, n, np.int32),
        waiting=growable_rows(False, n, np.bool_),
        work=np.zeros(2, dtype=np.int64),
        alpha=alpha,
        shift=shift,
        tolerance=tolerance,
        scale=np.zeros(3),
    )


def push_rows(name: str, solver: Push) -> dict[str, Any]:
    """Return the initial rows of a user without data or edges, under the names that they have in the state."""
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
    if update_scale(solver.scale, abs(error) * euclidean_norm(x)):
        push_queue(solver, links, seen, 0, enqueue_large(solver, 0, 0))
    else:
        push_from(solver, links, seen, user)


@compiled
def update_scale(scale: Floats, size: float) -> bool:
    """Count the change by an observation and set s. Return whether s has fallen, so that any residual may be too large."""
    scale[TOTAL] += size
    scale[COUNT] += 1.0
    mean = scale[TOTAL] / scale[COUNT]
    fallen = bool(mean < 0.5 * scale[SCALE])
    if fallen or mean > scale[SCALE]:
        scale[SCALE] = mean
    return fallen


@compiled
def squared_limit(solver: Push) -> float:
    """Return the largest ‖r_v‖² that need not be pushed."""
    return float((solver.tolerance * solver.scale[SCALE]) ** 2)


@compiled
def relaxation(solver: Push) -> float:
    """Return ω = 2 / (1 + sqrt(1 - ρ²)), the best one where a Jacobi iteration shrinks the error by ρ."""
    walk = solver.alpha / solver.shift
    return 2.0 / (1.0 + sqrt(1.0 - SLOWEST_DECAY * walk * walk))


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
        push_from(solver, links, seen, user)


@compiled
def push_from(solver: Push, links: Links, seen: Observations, user: int) -> None:
    """Push `user` if its residual is too large, and then every user whose residual becomes too large."""
    if is_large(solver, user):
        solver.queue[0] = user
        solver.waiting[user] = True
        push_queue(solver, links, seen, 0, 1)


@compiled
def is_large(solver: Push, user: int) -> bool:
    """Return whether the residual of this user has to be pushed."""
    size = 0.0
    for k in range(solver.theta.shape[1]):
        size += solver.residual[user, k] ** 2
    return size > squared_limit(solver)


@compiled
def enqueue_large(solver: Push, head: int, length: int) -> int:
    """Queue every user whose residual is too large and who is not queued; return the queue's new length."""
    n = solver.theta.shape[0]
    for v in range(n):
        if not solver.waiting[v] and is_large(solver, v):
            tail = head + length
            solver.queue[tail if tail < n else tail - n] = v
            solver.waiting[v] = True
            length += 1
    return length


@compiled
def push_queue(solver: Push, links: Links, seen: Observations, head: int, length: int) -> None:
    """Push every user in the queue, and then every user whose residual becomes too large."""
    n, dim = solver.theta.shape
    step, omega = np.empty(dim), relaxation(solver)
    squared = squared_limit(solver)
    due = next_balance(solver)
    while length > 0:
        v = solver.queue[head]
        head = head + 1 if head + 1 < n else 0
        length -= 1
        solver.waiting[v] = False
        solver.work[PUSHES] += 1
        own = omega if links.filled[v] > 0 else 1.0  # an isolated user has no neighbours to push to
        if seen.visits[v] == 0:  # V_v = shift I, as for most users of a large graph
            for k in range(dim):
                step[k] = solver.residual[v, k] / solver.shift
        else:
            multiply(solver.inverse[v], solver.residual[v], step)
        size = 0.0
        for k in range(dim):
            step[k] *= own
            solver.theta[v, k] += step[k]
            left = (1.0 - own) * solver.residual[v, k]
            solver.residual[v, k] = left
            size += left * left
        if size > squared:
            tail = head + length
            solver.queue[tail if tail < n else tail - n] = v
            solver.waiting[v] = True
            length += 1
        for edge in range(links.start[v], links.start[v] + links.filled[v]):
            w = links.neighbour[edge]
            share = solver.alpha * (links.weight[edge] / links.degree[w])  # P_wv
            size = 0.0
            for k in range(dim):
                residual = solver.residual[w, k] + share * step[k]
                solver.residual[w, k] = residual
                size += residual * residual
            if size > squared and not solver.waiting[w]:
                tail = head + length
                solver.queue[tail if tail < n else tail - n] = w
                solver.waiting[w] = True
                length += 1
        if solver.work[PUSHES] >= due:
            solver.work[LOOKED] = solver.work[PUSHES]
            if balance(solver, links, seen):
                length = enqueue_large(solver, head, length)
            due = next_balance(solver)


@compiled
def next_balance(solver: Push) -> float:
    """Return the number of pushes at which `balance` is due, so that it takes no more time than the pushes.

    It reads n residuals in order, ten times as fast as a push reads its neighbours', and the Gram matrices of those who have
    data twice, which takes as long as pushing them.
    """
    n = solver.theta.shape[0]
    return float(solver.work[LOOKED] + n / 4 + 2.0 * min(float(n), solver.scale[COUNT]))


@compiled
def balance(solver: Push, links: Links, seen: Observations) -> bool:
    """Move all users by the vector c after which Σ D_v r_v = 0, if it is large enough; return whether they moved.

    The sums are over users who have neighbours, to whom adding c to all adds (A_v + ridge) c in M θ: no change of θ by a
    constant lowers the energy more than the solution of Σ D_v (A_v + ridge) c = Σ D_v r_v.
    """
    n, dim = solver.theta.shape
    total, weight = np.zeros(dim), 0.0
    for v in range(n):
        if links.filled[v] > 0:
            weight += links.degree[v]
            for k in range(dim):
                total[k] += links.degree[v] * solver.residual[v, k]
    if not euclidean_norm(total) > LEAST_MEAN_RESIDUAL * sqrt(squared_limit(solver)) * weight:  # NaN too
        return False
    system, factor, ridge = np.zeros((dim, dim)), np.zeros((dim, dim)), solver.shift - solver.alpha
    for v in range(n):
        if links.filled[v] > 0 and seen.visits[v] > 0:
            for i in range(dim):
                for j in range(dim):
                    system[i, j] += links.degree[v] * seen.gram[v, i, j]
    cholesky(system, ridge * weight, factor)
    solve_cholesky(factor, total)  # now c
    image = np.empty(dim)
    for v in range(n):
        if links.filled[v] > 0:
            for k in range(dim):
                solver.theta[v, k] += total[k]
                solver.residual[v, k] -= ridge * total[k]
            if seen.visits[v] > 0:
                multiply(seen.gram[v], total, image)
                for k in range(dim):
                    solver.residual[v, k] -= image[k]
    return True
