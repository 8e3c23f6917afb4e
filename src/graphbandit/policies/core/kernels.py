"""The compiled side of a policy: a state (a NamedTuple of arrays and numbers) and functions of it.

A policy is

* `score(state, user, arms, mean, bonus)`: write the estimate and the exploration bonus of every arm; changes nothing;
* `update(state, user, x, reward)`: learn from one observation, in place;
* optionally `sample(state, user, arms, normals, values)`: write the values to maximise, given standard normal draws
  (Thompson sampling). Without it they are mean + bonus.

A policy that tells items apart has `score_items`, `update_item` and, if it samples, `sample_items` in their place. They are
also given the ids of the items: `items` has one for each arm, -1 if it is not known, or is empty if none is known.

A policy whose scores are linear in the features but for a quadratic bonus may say so by `outline`: large catalogues are then
searched without scoring all arms (`top_arms`).

`register` connects the functions with the type of the state. The generic kernels below then work on any registered state, from
Python and from compiled code. Kernels never draw random numbers: the caller hands them over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...compute.arrays import Floats, Ints
from ...compute.compiler import call_by_name, compiled, without_lock
from ...compute.dispatch import generic
from ...compute.second_process import compile_beside
from ...validate import LARGEST_FEATURE, LARGEST_REWARD
from .decisions import Rankings, Requests

Kernel = Callable[..., None]


@generic
def score(state: Any, user: int, arms: Floats, mean: Floats, bonus: Floats) -> None:
    """Write the estimate and the exploration bonus of every arm."""


@generic
def score_items(state: Any, user: int, arms: Floats, items: Ints, mean: Floats, bonus: Floats) -> None:
    """Write the estimate and the exploration bonus of every arm, given their items."""


@generic
def update(state: Any, user: int, x: Floats, reward: float) -> None:
    """Learn from one observation, in place."""


@generic
def update_item(state: Any, user: int, x: Floats, item: int, reward: float) -> None:
    """Learn from one observation of an item, in place."""


@generic
def sample(state: Any, user: int, arms: Floats, normals: Floats, values: Floats) -> None:
    """Write the values that the policy maximises."""


@generic
def sample_items(state: Any, user: int, arms: Floats, items: Ints, normals: Floats, values: Floats) -> None:
    """Write the values that the policy maximises, given the items of the arms."""


@generic
def outline(state: Any, user: int, theta: Floats, metric: Floats, form: Floats) -> None:
    """Write θ, M and five numbers that say what the scores of a user are: xᵀθ and scale √φ(xᵀMx + σ² v).

    The numbers are the scale of the bonus, σ², R, g, and 1 if the effects of items count.
    """


@compiled
def optimistic_values(state: Any, user: int, arms: Floats, items: Ints, normals: Floats, values: Floats) -> None:
    """Optimism in the face of uncertainty, eq. (12): values = mean + bonus."""
    bonus = np.empty(arms.shape[0])
    score_items(state, user, arms, items, values, bonus)
    for a in range(arms.shape[0]):
        values[a] += bonus[a]


# One form of a kernel by the other. They are too small to be compiled on their own, and become part of their callers.


def score_any_items(state: Any, user: int, arms: Floats, items: Ints, mean: Floats, bonus: Floats) -> None:
    """`score_items` of a policy that does not tell items apart."""
    score(state, user, arms, mean, bonus)


def update_any_item(state: Any, user: int, x: Floats, item: int, reward: float) -> None:
    """`update_item` of a policy that does not tell items apart."""
    update(state, user, x, reward)


def sample_any_items(state: Any, user: int, arms: Floats, items: Ints, normals: Floats, values: Floats) -> None:
    """`sample_items` of a policy that does not tell items apart."""
    sample(state, user, arms, normals, values)


def score_no_items(state: Any, user: int, arms: Floats, mean: Floats, bonus: Floats) -> None:
    """`score` of a policy that tells items apart, if none is known."""
    score_items(state, user, arms, np.empty(0, np.int64), mean, bonus)


def update_no_item(state: Any, user: int, x: Floats, reward: float) -> None:
    """`update` of a policy that tells items apart, if none is known."""
    update_item(state, user, x, -1, reward)


def sample_no_items(state: Any, user: int, arms: Floats, normals: Floats, values: Floats) -> None:
    """`sample` of a policy that tells items apart, if none is known."""
    sample_items(state, user, arms, np.empty(0, np.int64), normals, values)


GENERIC = {
    "score": score,
    "score_items": score_items,
    "update": update,
    "update_item": update_item,
    "sample": sample,
    "sample_items": sample_items,
    "outline": outline,
}
OUTLINED: set[type] = set()
"""Types of states that have an outline."""


def register(
    state: type,
    *,
    score: Kernel = score_no_items,
    update: Kernel = update_no_item,
    sample: Kernel = sample_no_items,
    score_items: Kernel = score_any_items,
    update_item: Kernel = update_any_item,
    sample_items: Kernel | None = None,
    outline: Kernel | None = None,
) -> None:
    """Say which compiled functions belong to this type of state: one form of each is enough; without samples, none."""
    kernels: dict[str, Kernel] = {"score": score, "score_items": score_items, "update": update, "update_item": update_item}
    if (score, score_items) == (score_no_items, score_any_items) or (update, update_item) == (update_no_item, update_any_item):
        raise ValueError(f"{state.__name__} must have kernels that score and update, but it lacks one of them.")
    if sample_items is None:
        sample_items = optimistic_values if sample is sample_no_items else sample_any_items
    for name, kernel in {**kernels, "sample": sample, "sample_items": sample_items}.items():
        GENERIC[name].register(state, kernel)
        call_by_name(kernel)  # the kernels of a policy from outside the package change without those of the package
    if outline is not None:
        OUTLINED.add(state)
        GENERIC["outline"].register(state, outline)
        call_by_name(outline)


def updates(state: Any, *others: Any) -> tuple[Any, ...]:
    """The kernel that updates this state, and arguments of the types that it is called with."""
    kernel, x = update_item.implementation(type(state)), np.empty(0)
    if kernel is update_any_item:
        return update.implementation(type(state)), state, 0, x, 0.0
    return kernel, state, 0, x, 0, 0.0


@compiled
def choose(values: Floats, tie: float) -> int:
    """Index of the largest value; `tie`, uniform on [0, 1), picks one of several."""
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
def decide(state: Any, user: int, arms: Floats, items: Ints, normals: Floats, tie: float) -> int:
    """One decision: the values of all arms, then the best."""
    values = np.empty(arms.shape[0])
    sample_items(state, user, arms, items, normals, values)
    return choose(values, tie)


@compiled
def count_wins(state: Any, user: int, arms: Floats, items: Ints, normals: Floats, wins: Floats) -> None:
    """Add to `wins` one decision for every row of `normals`, in equal parts to the arms that `choose` would choose from."""
    values = np.empty(arms.shape[0])
    for draw in range(normals.shape[0]):
        sample_items(state, user, arms, items, normals[draw], values)
        best, ties = values[0], 0
        for a in range(values.shape[0]):
            best = max(best, values[a])
        for a in range(values.shape[0]):
            ties += values[a] == best
        for a in range(values.shape[0]):
            if values[a] == best:
                wins[a] += 1.0 / ties


@compiled
def learn(state: Any, user: int, x: Floats, item: int, reward: float) -> bool:
    """`update_item` if the observation is finite and not too large; otherwise leave the state alone and return False."""
    if not abs(reward) <= LARGEST_REWARD:  # NaN fails too
        return False
    for k in range(x.shape[0]):
        if not abs(x[k]) <= LARGEST_FEATURE:
            return False
    update_item(state, user, x, item, reward)
    return True


@compiled
def learn_many(state: Any, users: Ints, features: Floats, items: Ints, rewards: Floats) -> None:
    """Learn one observation after the other; the caller has checked that each is usable."""
    for row in range(users.shape[0]):
        item = items[row] if items.shape[0] > 0 else -1
        learn(state, users[row], features[row], item, rewards[row])  # not `update_item`: it would be compiled a second time


@compiled
def rank_many(state: Any, requests: Requests, luck: Floats, rankings: Rankings) -> None:
    """`Policy.decide_many` for optimistic policies: of arms with the same value, the one with the most luck is first."""
    table, mean, bonus = requests.table, rankings.mean, rankings.bonus
    for i in range(requests.users.shape[0]):
        first, end = requests.start[i], requests.start[i + 1]
        arms = np.empty((end - first, table.shape[1]))
        items = np.empty(end - first if requests.items.shape[0] > 0 else 0, np.int64)
        for a in range(items.shape[0]):
            items[a] = requests.items[requests.rows[first + a]]
        for a in range(end - first):
            for j in range(table.shape[1]):
                arms[a, j] = table[requests.rows[first + a], j]
        score_items(state, requests.users[i], arms, items, mean[first:end], bonus[first:end])
        values = np.empty(end - first)
        for a in range(end - first):
            values[a] = mean[first + a] + bonus[first + a]
        order = rankings.order[first:end]
        rankings.propensity[i] = best_first(values, luck[first:end], requests.places[i], order)


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


LONG_SCAN = 20_000  # arms: some milliseconds
rank_many_aside = without_lock(rank_many)
"""`rank_many` for so many arms that other threads should go on meanwhile."""

for decisions in (decide, rank_many):
    compile_beside(decisions, updates)
