"""The functions that a policy provides, and the kernels that are derived from them.

A policy has a state, a NamedTuple of arrays and numbers, and two compiled functions:

* `belief(state, user)` returns θ (dim,), S (dim, dim) and β: an arm x is worth xᵀθ, give or take β √(xᵀ S x). S is symmetric
  and in units of observations, the inverse of Σ x xᵀ plus a prior. It changes nothing.
* `update(state, user, x, item, reward)` learns one observation, in place. `item` is -1 if it is not known.

`register` connects them with the type of the state. Scores, rankings, Thompson draws and the compiled loop of a simulation
are derived from them here, once for all policies. A state with a field `items: ItemEffects` also learns what each item earns
beyond its features.

A policy whose values are not of that form registers `scores` (mean and bonus of every arm, items included) in place of
`belief` or beside it. One that draws its values in another way than from N(θ, β² S) registers `draw`. Kernels never draw
random numbers: the caller hands them over.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from ...compute.arrays import Floats, Ints
from ...compute.compiler import compiled
from ...compute.dispatch import generic
from ...compute.linalg import cholesky, dot, symmetric_form
from ...validate import LARGEST_FEATURE, LARGEST_REWARD, NO_ITEMS
from .item_effects import ItemEffects, add_item_effects, add_item_means, observe_item

Kernel = Callable[..., Any]


class Scores(NamedTuple):
    """Estimate and exploration bonus of each arm."""

    mean: Floats
    bonus: Floats


class Belief(NamedTuple):
    """Estimate and uncertainty of a user, or of several, one row each: an arm x is worth xᵀθ, give or take β √(xᵀ S x)."""

    theta: Floats  # (dim,)
    S: Floats  # (dim, dim), symmetric, in units of observations: (Σ x xᵀ + prior)⁻¹
    beta: Any  # float, or (n,)


class Choice(NamedTuple):
    """The chosen arm and the probability of that choice: a line of a log for off-policy evaluation."""

    arm: int
    propensity: float


class Requests(NamedTuple):
    """Decisions to be made about many users: user i is offered the arms `table[rows[start[i] : start[i + 1]]]`."""

    users: Ints  # (n,)
    table: Floats  # (m, d), features of all arms
    rows: Ints  # (candidates,), of all users one after the other
    start: Ints  # (n + 1,), where the candidates of each user begin
    places: Ints  # (n,), how many are to be ranked
    items: Ints = NO_ITEMS  # (m,), the id of each row of the table, -1 if it is not known; or (0,): none is known


class Rankings(NamedTuple):
    """Decisions about many users with everything that a log of them needs; candidates as in `Requests.rows`."""

    order: Ints  # (candidates,), for each user the positions of its candidates, best first, as many as there are places
    mean: Floats  # (candidates,)
    bonus: Floats  # (candidates,)
    propensity: Floats  # (n,), probability that the first arm is first


# What a policy registers


@generic
def belief(state: Any, user: int) -> Any:
    """Return θ, S and β of a user."""


@generic
def update(state: Any, user: int, x: Floats, item: int, reward: float) -> None:
    """Learn from one observation, in place."""


@generic
def scores(state: Any, user: int, arms: Floats, items: Ints, mean: Floats, bonus: Floats) -> None:
    """Write the estimate and the exploration bonus of every arm; `items` is empty if no item is known."""


@generic
def draw(state: Any, user: int, arms: Floats, items: Ints, normals: Floats, values: Floats) -> None:
    """Write the values that the policy maximises, given its standard normal draws."""


@generic
def learn_item(state: Any, user: int, x: Floats, item: int, reward: float) -> None:
    """Learn from one observation, and what is due to the item apart from what is due to the user."""


# Defaults


@compiled
def linear_scores(theta: Floats, S: Floats, beta: float, arms: Floats, mean: Floats, bonus: Floats) -> None:
    """Write xᵀθ and β √(xᵀ S x) for every arm."""
    for a in range(arms.shape[0]):
        mean[a] = dot(arms[a], theta)
        bonus[a] = beta * sqrt(max(0.0, symmetric_form(S, arms[a])))


@compiled
def scores_from_belief(state: Any, user: int, arms: Floats, items: Ints, mean: Floats, bonus: Floats) -> None:
    """Write the scores of a policy that does not tell items apart."""
    theta, S, beta = belief(state, user)
    linear_scores(theta, S, beta, arms, mean, bonus)


@compiled
def scores_with_items(state: Any, user: int, arms: Floats, items: Ints, mean: Floats, bonus: Floats) -> None:
    """Write the scores with the effects of items."""
    theta, S, beta = belief(state, user)
    linear_scores(theta, S, beta, arms, mean, bonus)
    add_item_effects(state.items, items, beta, mean, bonus)


@compiled
def optimistic_values(state: Any, user: int, arms: Floats, items: Ints, normals: Floats, values: Floats) -> None:
    """Write mean + bonus, eq. (12)."""
    bonus = np.empty(arms.shape[0])
    scores(state, user, arms, items, values, bonus)
    for a in range(arms.shape[0]):
        values[a] += bonus[a]


@compiled
def draw_from_belief(state: Any, user: int, arms: Floats, items: Ints, normals: Floats, values: Floats) -> None:
    """Write the rewards under one draw of the user's vector from N(θ, β² S)."""
    theta, S, beta = belief(state, user)
    drawn = np.empty(theta.shape[0])
    draw_vector(theta, S, beta, normals, drawn)
    for a in range(arms.shape[0]):
        values[a] = dot(arms[a], drawn)


@compiled
def draw_with_items(state: Any, user: int, arms: Floats, items: Ints, normals: Floats, values: Floats) -> None:
    """Write the same rewards, with the mean effects of items."""
    draw_from_belief(state, user, arms, items, normals, values)
    add_item_means(state.items, items, values)


@compiled
def draw_vector(theta: Floats, S: Floats, beta: float, normals: Floats, out: Floats) -> None:
    """Write θ + β C z with C Cᵀ = S, C lower triangular, and z the first of these normals."""
    dim = theta.shape[0]
    factor, largest = np.empty((dim, dim)), 1e-300
    for i in range(dim):
        largest = max(largest, S[i, i])
    cholesky(S, 1e-12 * largest, factor)
    for i in range(dim):
        total = 0.0
        for j in range(i + 1):
            total += factor[i, j] * normals[j]
        out[i] = theta[i] + beta * total


@compiled
def learn_with_items(state: Any, user: int, x: Floats, item: int, reward: float) -> None:
    """Let the user's model learn what is not the item's effect, and the item what is not the user's (`item_effects`)."""
    shown, net = x, reward
    if state.items.enabled and item >= 0:
        theta, S, _ = belief(state, user)
        q = 1.0 + max(0.0, symmetric_form(S, x))
        root, effect = observe_item(state.items, item, user, reward - dot(x, theta), q)
        shown, net = root * x, root * (reward - effect)
    update(state, user, shown, item, net)


GENERIC = {"belief": belief, "update": update, "scores": scores, "draw": draw, "learn_item": learn_item}
HAS_BELIEF: set[type] = set()
"""Types of states that have a belief."""
OWN_SCORES: set[type] = set()
"""Types of states whose scores are their own."""
OWN_DRAWS: set[type] = set()
"""Types of states whose draws are their own."""


def register(
    state: type,
    *,
    update: Kernel,
    belief: Kernel | None = None,
    scores: Kernel | None = None,
    draw: Kernel | None = None,
    learn_item: Kernel | None = None,
    thompson: bool = False,
) -> None:
    """Say which compiled functions belong to this type of state; `thompson` if it draws from its belief.

    `learn_item` is that of a policy that divides a reward between user and item by itself.
    """
    if belief is None and scores is None:
        raise ValueError(f"{state.__name__} must have a belief or scores of its own, but it has neither.")
    tells_items = scores is None and "items" in state._fields  # type: ignore[attr-defined]
    if belief is not None:
        HAS_BELIEF.add(state)
        GENERIC["belief"].register(state, belief)
    if scores is not None:
        OWN_SCORES.add(state)
    if draw is not None or scores is not None:
        OWN_DRAWS.add(state)
    if draw is None and thompson:
        draw = draw_with_items if tells_items else draw_from_belief
    GENERIC["update"].register(state, update)
    GENERIC["learn_item"].register(state, learn_item or (learn_with_items if tells_items else update))
    GENERIC["scores"].register(state, scores or (scores_with_items if tells_items else scores_from_belief))
    GENERIC["draw"].register(state, draw or optimistic_values)


# Compiled for each policy


@compiled
def learn(state: Any, user: int, x: Floats, item: int, reward: float) -> bool:
    """Learn if the observation is finite and not too large; otherwise leave the state alone and return False."""
    if not abs(reward) <= LARGEST_REWARD:  # NaN fails too
        return False
    for k in range(x.shape[0]):
        if not abs(x[k]) <= LARGEST_FEATURE:
            return False
    learn_item(state, user, x, item, reward)
    return True


@compiled
def learn_many(state: Any, users: Ints, features: Floats, items: Ints, rewards: Floats) -> None:
    """Learn one observation after the other; the caller has checked that each is usable."""
    for row in range(users.shape[0]):
        item = items[row] if items.shape[0] > 0 else -1
        learn(state, users[row], features[row], item, rewards[row])  # not `learn_item`: it would be compiled a second time


@compiled
def fill_beliefs(state: Any, users: Ints, out: Belief) -> None:
    """Write the beliefs of several users, one row each."""
    dim = out.theta.shape[1]
    for row in range(users.shape[0]):
        theta, S, beta = belief(state, users[row])
        out.beta[row] = beta
        for i in range(dim):
            out.theta[row, i] = theta[i]
            for j in range(dim):
                out.S[row, i, j] = S[i, j]


@compiled
def score_requests(state: Any, requests: Requests, mean: Floats, bonus: Floats) -> None:
    """Write the scores of all candidates, for a policy with scores of its own."""
    for i in range(requests.users.shape[0]):
        first, end = requests.start[i], requests.start[i + 1]
        arms, items = gather(requests, first, end)
        scores(state, requests.users[i], arms, items, mean[first:end], bonus[first:end])


@compiled
def draw_many(state: Any, user: int, arms: Floats, items: Ints, normals: Floats, values: Floats) -> None:
    """Write the values under each row of `normals`, for a policy with draws of its own."""
    for row in range(normals.shape[0]):
        draw(state, user, arms, items, normals[row], values[row])


# Compiled once for all policies


@compiled
def gather(requests: Requests, first: int, end: int) -> tuple[Floats, Ints]:
    """Return the features and the items of some candidates."""
    arms = np.empty((end - first, requests.table.shape[1]))
    items = np.empty(end - first if requests.items.shape[0] > 0 else 0, np.int64)
    for a in range(items.shape[0]):
        items[a] = requests.items[requests.rows[first + a]]
    for a in range(end - first):
        for j in range(arms.shape[1]):
            arms[a, j] = requests.table[requests.rows[first + a], j]
    return arms, items


@compiled
def score_beliefs(beliefs: Belief, effects: ItemEffects, requests: Requests, mean: Floats, bonus: Floats) -> None:
    """Write the scores of all candidates; row i of `beliefs` is that of request i."""
    for i in range(requests.users.shape[0]):
        first, end = requests.start[i], requests.start[i + 1]
        arms, items = gather(requests, first, end)
        linear_scores(beliefs.theta[i], beliefs.S[i], beliefs.beta[i], arms, mean[first:end], bonus[first:end])
        add_item_effects(effects, items, beliefs.beta[i], mean[first:end], bonus[first:end])


@compiled
def score_arms(beliefs: Belief, effects: ItemEffects, arms: Floats, items: Ints, mean: Floats, bonus: Floats) -> None:
    """Write the scores of these arms by the first belief."""
    linear_scores(beliefs.theta[0], beliefs.S[0], beliefs.beta[0], arms, mean, bonus)
    add_item_effects(effects, items, beliefs.beta[0], mean, bonus)


@compiled
def values_of(beliefs: Belief, effects: ItemEffects, arms: Floats, items: Ints, normals: Floats, values: Floats) -> None:
    """Write the values to maximise by the first belief, (draws, arms): mean + bonus, or one draw for each row of normals."""
    if normals.shape[1] == 0:
        bonus = np.empty(arms.shape[0])
        for row in range(normals.shape[0]):
            score_arms(beliefs, effects, arms, items, values[row], bonus)
            for a in range(arms.shape[0]):
                values[row, a] += bonus[a]
        return
    drawn = np.empty(arms.shape[1])
    for row in range(normals.shape[0]):
        draw_vector(beliefs.theta[0], beliefs.S[0], beliefs.beta[0], normals[row], drawn)
        for a in range(arms.shape[0]):
            values[row, a] = dot(arms[a], drawn)
        add_item_means(effects, items, values[row])


@compiled
def decide(beliefs: Belief, effects: ItemEffects, arms: Floats, items: Ints, normals: Floats, tie: float) -> int:
    """Return the best arm by the first belief and one row of normals."""
    values = np.empty((1, arms.shape[0]))
    values_of(beliefs, effects, arms, items, normals, values)
    return choose(values[0], tie)


@compiled
def choose(values: Floats, tie: float) -> int:
    """Return the index of the largest value; `tie`, uniform on [0, 1), picks one of several."""
    best, ties = values[0], 1
    for a in range(1, values.shape[0]):
        if values[a] > best:
            best, ties = values[a], 1
        elif values[a] == best:
            ties += 1
    wanted = int(tie * ties)
    for a in range(values.shape[0]):
        if values[a] == best:
            if wanted == 0:
                return a
            wanted -= 1
    return 0


@compiled
def rank_scored(requests: Requests, luck: Floats, rankings: Rankings) -> None:
    """Rank the candidates of each request by mean + bonus; of equal ones the one with the largest number in `luck` is first."""
    for i in range(requests.users.shape[0]):
        first, end = requests.start[i], requests.start[i + 1]
        values = np.empty(end - first)
        for a in range(end - first):  # compiles several times faster than a sum of arrays
            values[a] = rankings.mean[first + a] + rankings.bonus[first + a]
        rankings.propensity[i] = best_first(values, luck[first:end], requests.places[i], rankings.order[first:end])


@compiled
def best_first(values: Floats, luck: Floats, places: int, order: Ints) -> float:
    """Write the positions of the largest values, and return the probability of the first; overwrites `values`."""
    chance = 1.0
    for place in range(places):
        best, ties = 0, 0
        for a in range(values.shape[0]):
            if values[a] > values[best] or (values[a] == values[best] and luck[a] > luck[best]):
                best = a
        if place == 0:
            for a in range(values.shape[0]):
                ties += values[a] == values[best]
            chance = 1.0 / ties
        order[place] = best
        values[best] = -np.inf
    return chance
