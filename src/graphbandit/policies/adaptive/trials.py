"""Should the models with a common vector take part in decisions? Rewards decide, not evidence.

Evidence judges how well the rewards of what was shown were predicted. That is not choosing well: a
model that believes in a common taste shows everybody the same, predicts that well, and never sees
what would refute it. So there are two voices, the mixture of all models and the mixture without
`everyone`, and each decides in a part of the rounds. Which one does depends only on what the user
was shown before, as if it were drawn. So the two have like rounds, and their mean rewards can be
compared. With z their difference in standard errors, the voice without `everyone` decides in a
share Φ(z) of the rounds: the probability that it earns more. The first round of a user has all
models and counts for neither: there is nothing yet that sets the user apart.

Where the models explain the rewards, evidence is right and trials only cost. So the share is at
most twice the part of the variance of the rewards that is noise to the models.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np

from ...compute.arrays import Floats
from ...compute.compiler import compiled
from ...compute.linalg import normal_cdf

LEAST_SHARE = 0.02  # of the rounds, for each voice: the users' models learn, and the other may become the better one
LEAST_ROUNDS = 10.0  # of each voice, before they are compared
FIRST_MEMORY = 500.0  # rounds; later half of all rounds are remembered
WEYL = (0.7548776662466927, 0.5698402909980532)  # irrational: multiples modulo 1 are spread evenly


class Trials(NamedTuple):
    """What each voice has earned: 0 has all models, 1 has all but `everyone`."""

    rounds: Floats  # (2,), in which it decided; old ones fade
    rewards: Floats  # (2,), their sum
    spread: Floats  # (3,), of all rewards: number, mean, Σ (reward - mean)²
    usable: Floats  # (kinds,), what decisions of voice 1 may use, as in `Evidence`
    enabled: bool


def no_trials(usable: Floats, enabled: bool) -> Trials:
    """Before the first round; `usable` says which kinds voice 1 has."""
    return Trials(np.zeros(2), np.zeros(2), np.zeros(3), usable, bool(enabled))


@compiled
def share_of_second(trials: Trials, noise: float) -> float:
    """The share of the rounds in which voice 1 decides; `noise` is the variance that the models do not explain."""
    if not trials.enabled:
        return 0.0
    share, variance = 0.5, trials.spread[2] / max(1.0, trials.spread[0])
    if trials.rounds[0] >= LEAST_ROUNDS and trials.rounds[1] >= LEAST_ROUNDS and variance > 0.0:
        difference = trials.rewards[1] / trials.rounds[1] - trials.rewards[0] / trials.rounds[0]
        error = sqrt(variance / trials.rounds[0] + variance / trials.rounds[1])
        share = min(1.0 - LEAST_SHARE, max(LEAST_SHARE, normal_cdf(difference / error)))
    return share * min(1.0, 2.0 * noise / variance) if variance > 0.0 else 0.0


@compiled
def second_decides(trials: Trials, noise: float, gram: Floats, visits: int) -> bool:
    """Whether voice 1 decides in the next round of a user with this Gram matrix and so many rounds."""
    if visits == 0 or not trials.enabled:
        return False
    total = 0.0
    for i in range(gram.shape[0]):
        for j in range(i + 1):
            total += (i + 1) * gram[i, j]
    place = 1000.0 * total * WEYL[0] + visits * WEYL[1]
    return bool(place - np.floor(place) < share_of_second(trials, noise))


@compiled
def count_trial(trials: Trials, second: bool, reward: float) -> None:
    """Add the reward of a round, not a user's first, to the voice that decided in it."""
    trials.spread[0] += 1.0
    step = reward - trials.spread[1]
    trials.spread[1] += step / trials.spread[0]
    trials.spread[2] += step * (reward - trials.spread[1])
    keep = 1.0 - 1.0 / (FIRST_MEMORY + 0.5 * trials.spread[0])
    for voice in range(2):
        trials.rounds[voice] *= keep
        trials.rewards[voice] *= keep
    trials.rounds[int(second)] += 1.0
    trials.rewards[int(second)] += reward
