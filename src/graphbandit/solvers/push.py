"""The Laplacian-regularised estimate kept up to date by pushing residuals along edges.

With P = D⁻¹W, V_i = A_i + (ridge + alpha) I and M = blockdiag(V_i) - alpha P ⊗ I, the estimate solves M θ = b. The state
holds a θ together with its residual r = b - M θ, and one invariant: |r_vk| <= tolerance for every user v and feature k.

* An observation (i, x, y) adds x xᵀ to M_ii and y x to b_i, so r_i grows by x (y - xᵀθ_i): the prediction error.
* Pushing v solves its own block, δ = V_v⁻¹ r_v, and hands the rest on: θ_v += δ, r_v = 0, r_w += alpha P_wv δ.

So the work of a round is set by how surprising it was, not by the number of users. At the user with the largest error
e = θ - θ*, ‖r_v‖ >= e_vᵀ(M e)_v / ‖e_v‖ >= ridge ‖e_v‖, hence ‖θ_v - θ*_v‖₂ <= sqrt(d) · tolerance / ridge for all v. (Measured
errors are far below: residuals of either sign cancel, and data add to the ridge.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..graph import UserGraph
from ..jit import Flags, Floats, Indices, Ints, compiled
from ..linalg import dot, follow_gram, multiply
from ..observations import Observations, touched


class Push(NamedTuple):
    """State of the push solver."""

    theta: Floats  # (n, d)
    residual: Floats  # (n, d), b - M θ
    inverse: Floats  # (n, d, d), V_i⁻¹
    start: Ints  # (n + 1,), where the neighbours of a user begin
    neighbour: Indices  # (2 n_edges,), w
    outward: Floats  # (2 n_edges,), P_wv for v's neighbour w
    queue: Indices  # (n,), ring buffer of users whose residual is too large; a user is in it at most once
    waiting: Flags  # (n,), who is in it
    work: Ints  # (1,), pushes done so far
    alpha: float
    shift: float  # ridge + alpha
    tolerance: float


def push(graph: UserGraph, dim: int, *, alpha: float, ridge: float, tolerance: float) -> Push:
    """The solver before the first observation: θ = 0 solves M θ = 0."""
    n = graph.n_users
    start, neighbour, _, outward = graph.transitions()
    shift = ridge + alpha
    return Push(
        theta=touched(n, dim),
        residual=touched(n, dim),
        inverse=np.tile(np.eye(dim) / shift, (n, 1, 1)),
        start=start,
        neighbour=neighbour,
        outward=outward,
        queue=np.zeros(n, dtype=np.int32),
        waiting=np.zeros(n, dtype=np.bool_),
        work=np.zeros(1, dtype=np.int64),
        alpha=alpha,
        shift=shift,
        tolerance=tolerance,
    )


@compiled
def observe_push(solver: Push, seen: Observations, user: int, x: Floats, reward: float) -> None:
    """Take in an observation that `seen` already counts, and push until the invariant holds again."""
    error = reward - dot(x, solver.theta[user])
    follow_gram(solver.inverse[user], seen.gram[user], solver.shift, x, seen.visits[user])
    for k in range(x.shape[0]):
        solver.residual[user, k] += error * x[k]
    drain(solver, seen, user)


@compiled
def drain(solver: Push, seen: Observations, user: int) -> None:
    """Push, first come first served, from `user` until no residual exceeds the tolerance."""
    n, dim = solver.theta.shape
    step = np.empty(dim)
    head, length = 0, 0
    for k in range(dim):
        if abs(solver.residual[user, k]) > solver.tolerance and length == 0:
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
        for edge in range(solver.start[v], solver.start[v + 1]):
            w = solver.neighbour[edge]
            share = solver.alpha * solver.outward[edge]
            large = False
            for k in range(dim):
                residual = solver.residual[w, k] + share * step[k]
                solver.residual[w, k] = residual
                large |= abs(residual) > solver.tolerance
            if large and not solver.waiting[w]:
                tail = head + length
                solver.queue[tail if tail < n else tail - n] = w
                solver.waiting[w] = True
                length += 1
