"""The compiled side of a policy: a state (a NamedTuple of arrays and numbers) and functions of it.

A policy is

* `score(state, user, arms, mean, bonus)`: write the estimate and the exploration bonus of every arm; changes nothing;
* `update(state, user, x, reward)`: learn from one observation, in place;
* optionally `sample(state, user, arms, noise, values)`: write the values to maximise, given standard normal `noise`
  (Thompson sampling). Without it they are mean + bonus.

`register` connects the functions with the type of the state. The generic functions below then work on any registered
state, from Python and from compiled code; a compiled loop that calls them is specialised to one policy and cached on disk.
Kernels never draw random numbers: the caller hands them over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..jit import Floats, Ints, compiled, compiles, python_function


class Kernels(NamedTuple):
    """The functions of one policy."""

    score: Callable[..., None]
    update: Callable[..., None]
    sample: Callable[..., None] | None


KERNELS: dict[type, Kernels] = {}
LARGEST_FEATURE = 1e6
"""Above, the square of a feature drowns a ridge of 0.01 in rounding, and one user's data those of a whole cluster."""
LARGEST_REWARD = 1e15


def register(
    state: type, *, score: Callable[..., None], update: Callable[..., None], sample: Callable[..., None] | None = None
) -> None:
    """Say which compiled functions belong to this type of state."""
    KERNELS[state] = Kernels(score, update, sample)


def score(state: Any, user: int, arms: Floats, mean: Floats, bonus: Floats) -> None:
    """Write the estimate and the exploration bonus of every arm."""
    KERNELS[type(state)].score(state, user, arms, mean, bonus)


@compiles(score)
def _score(state: Any, user: Any, arms: Any, mean: Any, bonus: Any) -> Any:
    return python_function(KERNELS[state.instance_class].score)


def update(state: Any, user: int, x: Floats, reward: float) -> None:
    """Learn from one observation, in place."""
    KERNELS[type(state)].update(state, user, x, reward)


@compiles(update)
def _update(state: Any, user: Any, x: Any, reward: Any) -> Any:
    return python_function(KERNELS[state.instance_class].update)


def sample(state: Any, user: int, arms: Floats, noise: Floats, values: Floats) -> None:
    """Write the values that the policy maximises."""
    kernel = KERNELS[type(state)].sample or optimistic_values
    kernel(state, user, arms, noise, values)


@compiles(sample)
def _sample(state: Any, user: Any, arms: Any, noise: Any, values: Any) -> Any:
    return python_function(KERNELS[state.instance_class].sample or optimistic_values)


@compiled
def optimistic_values(state: Any, user: int, arms: Floats, noise: Floats, values: Floats) -> None:
    """Optimism in the face of uncertainty, eq. (12): values = mean + bonus."""
    bonus = np.empty(arms.shape[0])
    score(state, user, arms, values, bonus)
    for a in range(arms.shape[0]):
        values[a] += bonus[a]


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
def decide(state: Any, user: int, arms: Floats, noise: Floats, tie: float) -> int:
    """One decision: the values of all arms, then the best."""
    values = np.empty(arms.shape[0])
    sample(state, user, arms, noise, values)
    return choose(values, tie)


@compiled
def all_scores(state: Any, user: int, arms: Floats, mean: Floats, bonus: Floats) -> None:
    """`score`, to be called from Python."""
    score(state, user, arms, mean, bonus)


@compiled
def all_values(state: Any, user: int, arms: Floats, noise: Floats, values: Floats) -> None:
    """`sample`, to be called from Python."""
    sample(state, user, arms, noise, values)


@compiled
def count_wins(state: Any, user: int, arms: Floats, noise: Floats, wins: Floats) -> None:
    """Add to `wins` one decision for every row of `noise`, in equal parts to the arms that `choose` would choose from."""
    values = np.empty(arms.shape[0])
    for draw in range(noise.shape[0]):
        sample(state, user, arms, noise[draw], values)
        best, ties = values[0], 0
        for a in range(values.shape[0]):
            best = max(best, values[a])
        for a in range(values.shape[0]):
            ties += values[a] == best
        for a in range(values.shape[0]):
            if values[a] == best:
                wins[a] += 1.0 / ties


@compiled
def learn(state: Any, user: int, x: Floats, reward: float) -> bool:
    """`update` if the observation is one that finite arithmetic can hold; otherwise leave the state alone and say False."""
    if not abs(reward) <= LARGEST_REWARD:  # NaN fails too
        return False
    for k in range(x.shape[0]):
        if not abs(x[k]) <= LARGEST_FEATURE:
            return False
    update(state, user, x, reward)
    return True


@compiled
def learn_many(state: Any, users: Ints, features: Floats, rewards: Floats) -> None:
    """Learn one observation after the other; the caller has checked that each is usable."""
    for row in range(users.shape[0]):
        learn(state, users[row], features[row], rewards[row])  # not `update`, which would be compiled a second time


@compiled
def rank_many(
    state: Any,
    users: Ints,
    table: Floats,
    rows: Ints,
    start: Ints,
    places: Ints,
    luck: Floats,
    order: Ints,
    mean: Floats,
    bonus: Floats,
    propensity: Floats,
) -> None:
    """`Policy.decide_many` for optimistic policies: of arms with the same value, the one with the most luck is first."""
    for i in range(users.shape[0]):
        first, end = start[i], start[i + 1]
        arms = np.empty((end - first, table.shape[1]))
        for a in range(end - first):
            for j in range(table.shape[1]):
                arms[a, j] = table[rows[first + a], j]
        score(state, users[i], arms, mean[first:end], bonus[first:end])
        values = np.empty(end - first)
        for a in range(end - first):
            values[a] = mean[first + a] + bonus[first + a]
        propensity[i] = best_first(values, luck[first:end], places[i], order[first:end])


@compiled
def best_first(values: Floats, luck: Floats, places: int, order: Ints) -> float:
    """Write the positions of the largest values, and return the chance of the first; `values` are used up."""
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


@compiled
def all_usable(matrix: Floats) -> bool:
    """Whether every entry of a matrix is a number of reasonable size."""
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[1]):
            if not abs(matrix[i, j]) <= LARGEST_FEATURE:
                return False
    return True
