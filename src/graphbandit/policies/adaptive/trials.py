"""Should an ingredient take part in decisions? Where it is on trial, rewards decide and not evidence.

Evidence judges how well the rewards of what was shown were predicted. That is not choosing well.
Models that believe in a common taste show everybody the same, predict that well, and never see what
would refute them. Effects of items explain what popular items earn, and where all candidates are
popular they only add noise to a ranking. So both ingredients are on trial: one voice has the
ingredient, the other does without, and each decides in a part of the rounds. Which one does depends
only on what the user was shown before, as if it were drawn. So the two have like rounds, and their
mean rewards can be compared. With z their difference in standard errors, the voice without decides
in a share Φ(z) of the rounds: the probability that it earns more. The first round of a user has all
ingredients and counts for neither voice: there is nothing yet that sets the user apart.

Where the models explain the rewards, evidence is right and trials only cost. So the share is at
most twice the part of the variance of the rewards that is noise to the models.
"""

from __future__ import annotations

from math import floor, sqrt
from typing import NamedTuple

import numpy as np

from ...compute.arrays import Floats
from ...compute.compiler import compiled
from ...compute.linalg import normal_cdf

LEAST_SHARE = 0.02  # of the rounds, for each voice: users' models learn, and the other may become the better one
SETTLING = 1000.0  # rounds; then the least share falls like 1/sqrt(rounds), so that it costs sublinear regret
LEAST_ROUNDS = 10.0  # of each voice, before they are compared
FIRST_MEMORY = 500.0  # rounds; later half of all rounds are remembered
WEYL = (0.7548776662466927, 0.5698402909980532)  # irrational: multiples modulo 1 are spread evenly
SCATTER = 618.0339887498949  # for a second trial, whose turns must not follow those of the first


class Trials(NamedTuple):
    """What each voice has earned: 0 has the ingredient, 1 does without."""

    rounds: Floats  # (2,), in which it decided; old ones fade
    rewards: Floats  # (2,), their sum
    spread: Floats  # (3,), of all rewards: number, mean, Σ (reward - mean)²
    usable: Floats  # (kinds,), what decisions of voice 1 may use, as in `Evidence`; empty if no models are on trial
    enabled: bool


def no_trials(usable: Floats, enabled: bool) -> Trials:
    """Before the first round; `usable` says which kinds voice 1 has."""
    return Trials(np.zeros(2), np.zeros(2), np.zeros(3), usable, bool(enabled))


@compiled
def share_without(trials: Trials, noise: float) -> float:
    """The share of the rounds in which voice 1 decides; `noise` is the variance that the models do not explain."""
    if not trials.enabled:
        return 0.0
    share, variance = 0.5, trials.spread[2] / max(1.0, trials.spread[0])
    if trials.rounds[0] >= LEAST_ROUNDS and trials.rounds[1] >= LEAST_ROUNDS and variance > 0.0:
        difference = trials.rewards[1] / trials.rounds[1] - trials.rewards[0] / trials.rounds[0]
        error = sqrt(variance / trials.rounds[0] + variance / trials.rounds[1])
        least = LEAST_SHARE * sqrt(SETTLING / max(SETTLING, trials.spread[0]))
        share = min(1.0 - least, max(least, normal_cdf(difference / error)))
    return share * min(1.0, 2.0 * noise / variance) if variance > 0.0 else 0.0


@compiled
def turn_of(gram: Floats, visits: int) -> float:
    """In [0, 1), as if drawn, for the next round of a user with this Gram matrix and so many rounds; 1 for its first."""
    if visits == 0:
        return 1.0
    total = 0.0
    for i in range(gram.shape[0]):
        for j in range(i + 1):
            total += (i + 1) * gram[i, j]
    place = 1000.0 * total * WEYL[0] + visits * WEYL[1]
    return float(place - floor(place))


@compiled
def second_turn(turn: float) -> float:
    """The same for another trial."""
    return 1.0 if turn == 1.0 else SCATTER * turn - floor(SCATTER * turn)


@compiled
def count_trial(trials: Trials, without: bool, reward: float) -> None:
    """Add the reward of a round, not a user's first, to the voice that decided in it."""
    trials.spread[0] += 1.0
    step = reward - trials.spread[1]
    trials.spread[1] += step / trials.spread[0]
    trials.spread[2] += step * (reward - trials.spread[1])
    keep = 1.0 - 1.0 / (FIRST_MEMORY + 0.5 * trials.spread[0])
    for voice in range(2):
        trials.rounds[voice] *= keep
        trials.rewards[voice] *= keep
    trials.rounds[int(without)] += 1.0
    trials.rewards[int(without)] += reward
