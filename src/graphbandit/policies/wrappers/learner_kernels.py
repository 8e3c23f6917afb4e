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
from ...compute.linalg import dot, invert_positive, multiply, quadratic_form
from ...compute.observations import Observations
from ..core import kernels

TEMPER = 0.1  # power of the evidence, as in AdaptiveGraphUCB
NEGLIGIBLE = 1e-9  # share of the data across a direction that may be rounding


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
    weighs: bool  # whether the policy inside learns effects of items, which gives observations weights


class Sums(NamedTuple):
    """Numbers of a user's statistics from which `learned_part` tells what was added to them."""

    trace: float  # tr A
    form: float  # xᵀA x
    along: float  # bᵀx


@compiled
def scores(state: LearnerState, user: int, arms: Floats, items: Ints, mean: Floats, bonus: Floats) -> None:
    """Write the scores of the policy inside."""
    kernels.scores(state.inner, user, arms, items, mean, bonus)


@compiled
def draw(state: LearnerState, user: int, arms: Floats, items: Ints, normals: Floats, values: Floats) -> None:
    """Write the values of the policy inside."""
    kernels.draw(state.inner, user, arms, items, normals, values)


@compiled
def update(state: LearnerState, user: int, x: Floats, item: int, reward: float) -> None:
    """Let the policy inside learn, and count the prediction errors of both graphs.

    The errors are those before the update, which changes nothing of what the neighbours predict.
    """
    gram, bias = state.seen.gram[user], state.seen.bias[user]
    before = Sums(matrix_trace(gram), quadratic_form(gram, x), dot(bias, x))
    kernels.learn_item(state.inner, user, x, item, reward)
    kept, weight, net = 1.0, 1.0, reward
    if state.weighs and item >= 0:
        kept, weight, net = learned_part(before, Sums(matrix_trace(gram), quadratic_form(gram, x), dot(bias, x)), x, reward)
    elif before.trace > 0.0:
        kept = min(max((matrix_trace(gram) - dot(x, x)) / before.trace, 0.0), 1.0)
    state.rewards[user, 0] = kept * state.rewards[user, 0] + weight
    state.rewards[user, 1] = kept * state.rewards[user, 1] + weight * net * net
    if state.blends and state.strength > 0.0:
        count_errors(state, user, x, net)
        update_centre(state, user)


@compiled
def learned_part(before: Sums, after: Sums, x: Floats, reward: float) -> tuple[float, float, float]:
    """What the policy inside made of an observation: A ← k A + w x xᵀ and b ← k b + w y' x; returns k, w and y'.

    k discounts earlier rounds. An item whose effect is learned has a weight w below 1, and y' is the reward without the effect.
    If all data lie in the direction of x, k and w cannot be told apart, and k is taken to be 1.
    """
    square = dot(x, x)
    if square == 0.0:
        return 1.0, 1.0, reward
    across = before.trace * square - before.form
    kept = 1.0
    if across > NEGLIGIBLE * before.trace * square:
        kept = min(max((after.trace * square - after.form) / across, 0.0), 1.0)
    weight = (after.trace - kept * before.trace) / square
    if weight <= 0.0:  # lost in rounding
        return kept, 1.0, reward
    return kept, weight, (after.along - kept * before.along) / (square * weight)


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


kernels.register(LearnerState, scores=scores, update=update, draw=draw)
