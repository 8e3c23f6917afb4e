"""The state of GraphLearner, and the evidence for the given graph against the learned one.

In every round both graphs predict the reward from the user's neighbours, before it is learned.
Their squared errors decide how the graphs are blended at the next refresh.
"""

from __future__ import annotations

from math import exp, log
from typing import Any, NamedTuple

import numpy as np

from ...compute.adjacency import Links
from ...compute.arrays import Floats, Ints
from ...compute.compiler import compiled
from ...compute.linalg import dot, invert_positive, multiply
from ...compute.observations import Observations
from ..core import kernels

TEMPER = 0.1  # power of the evidence, as in AdaptiveGraphUCB


class LearnerState(NamedTuple):
    """The state of the policy inside, and statistics to compare the given and learned graphs."""

    inner: Any
    seen: Observations  # the policy's own, not a copy
    rewards: Floats  # (n, 2), Σ 1 and Σ y² of each user, discounted as the policy discounts
    centre: Floats  # (n, d), the posterior mean by a user's own data: V_i⁻¹ (b_i + τ μ)
    mean: Floats  # (d,), μ
    given: Links
    learned: Links
    errors: Floats  # (2, 2), Σ (y - p)² and Σ (y - p) by the given graph, and by the learned one
    rounds: Floats  # (1,), how many predictions these are, discounted at refreshes
    strength: float  # τ; 0 before the first refresh
    blends: bool  # whether the given graph takes part


@compiled
def score_items(state: LearnerState, user: int, arms: Floats, items: Ints, mean: Floats, bonus: Floats) -> None:
    """The scores of the policy inside."""
    kernels.score_items(state.inner, user, arms, items, mean, bonus)


@compiled
def sample_items(state: LearnerState, user: int, arms: Floats, items: Ints, normals: Floats, values: Floats) -> None:
    """The values of the policy inside."""
    kernels.sample_items(state.inner, user, arms, items, normals, values)


@compiled
def update_item(state: LearnerState, user: int, x: Floats, item: int, reward: float) -> None:
    """Count the prediction errors of both graphs, then let the policy inside learn.

    Effects of items are those of the policy inside: the comparison of the graphs does not know them.
    """
    comparing = state.blends and state.strength > 0.0
    if comparing:
        count_errors(state, user, x, reward)
    before = matrix_trace(state.seen.gram[user])
    kernels.update_item(state.inner, user, x, item, reward)
    kept = 1.0  # the factor by which the policy inside has discounted the user's earlier rounds
    if before > 0.0:
        kept = min(max((matrix_trace(state.seen.gram[user]) - dot(x, x)) / before, 0.0), 1.0)
    state.rewards[user, 0] = kept * state.rewards[user, 0] + 1.0
    state.rewards[user, 1] = kept * state.rewards[user, 1] + reward * reward
    if comparing:
        update_centre(state, user)


@compiled
def matrix_trace(matrix: Floats) -> float:
    """Σ_k M_kk."""
    total = 0.0
    for k in range(matrix.shape[0]):
        total += matrix[k, k]
    return total


@compiled
def count_errors(state: LearnerState, user: int, x: Floats, reward: float) -> None:
    """Add each graph's error of xᵀ Σ_j P_ij m_j, the prediction from neighbours; xᵀμ without any.

    The user's own data take no part: they would soon predict so well that the graphs could no
    longer be told apart.
    """
    for graph in range(2):
        links = state.given if graph == 0 else state.learned
        predicted = dot(x, state.mean) if links.filled[user] == 0 else 0.0
        for edge in range(links.start[user], links.start[user] + links.filled[user]):
            share = links.weight[edge] / links.degree[user]  # P_ij
            predicted += share * dot(x, state.centre[links.neighbour[edge]])
        state.errors[graph, 0] += (reward - predicted) ** 2
        state.errors[graph, 1] += reward - predicted
    state.rounds[0] += 1.0


@compiled
def update_centre(state: LearnerState, user: int) -> None:
    """Compute the user's centre from its statistics."""
    dim = state.mean.shape[0]
    inverse, target = np.empty((dim, dim)), np.empty(dim)
    invert_positive(state.seen.gram[user], state.strength, inverse)
    for k in range(dim):
        target[k] = state.seen.bias[user, k] + state.strength * state.mean[k]
    multiply(inverse, target, state.centre[user])


def given_share(state: LearnerState) -> float:
    """The weight of the given graph, between 0 and 1, by the evidence of the rounds so far.

    Errors count around their own level, because a constant error ranks no arm
    (adaptive/evidence.py).
    """
    if not state.blends:
        return 0.0
    squares, total = state.errors.T
    given, learned = np.maximum(squares - total**2 / max(state.rounds[0], 1e-300), 1e-300)
    odds = 0.5 * TEMPER * state.rounds[0] * (log(given) - log(learned))
    return 1.0 / (1.0 + exp(min(odds, 700.0)))


kernels.register(LearnerState, score_items=score_items, update_item=update_item, sample_items=sample_items)
