"""What AdaptiveGraphUCB sums over all users, so that shards can add it up: evidence, trials, the common vectors."""

from __future__ import annotations

import numpy as np

from ...compute.arrays import Floats
from ...compute.linalg import invert_positive, multiply
from .mixture import AdaptiveState
from .trials import Trials

EVIDENCE = ("squares", "growth", "errors", "precision", "mass")
COMMON = ("information", "target")
TRIALS = ("trials", "item_trials")


def adaptive_sums(state: AdaptiveState) -> dict[str, Floats]:
    """The sums, as copies."""
    found = {f"evidence.{name}": getattr(state.evidence, name) for name in EVIDENCE}
    found |= {f"common.{name}": getattr(state.common, name) for name in COMMON}
    found |= {"rounds": state.rounds, "inside": state.inside}
    for name in TRIALS:
        found[name] = trial_sums(getattr(state, name))
    return {name: np.array(part, dtype=np.float64) for name, part in found.items()}


def take_adaptive_sums(state: AdaptiveState, totals: dict[str, Floats]) -> None:
    """Replace the sums by totals, and what follows from them: the posterior of the common vectors."""
    for name in EVIDENCE:
        getattr(state.evidence, name)[:] = totals[f"evidence.{name}"]
    for name in COMMON:
        getattr(state.common, name)[:] = totals[f"common.{name}"]
    state.rounds[:], state.inside[:] = totals["rounds"], totals["inside"]
    for name in TRIALS:
        take_trial_sums(getattr(state, name), totals[name])
    common = state.common
    for k in range(len(common.mean)):
        invert_positive(common.information[k], common.ridge[k], common.inverse[k])
        multiply(common.inverse[k], common.target[k], common.mean[k])


def trial_sums(trials: Trials) -> Floats:
    """(7,) rounds and rewards of both voices; number, sum and sum of squares of all rewards."""
    number, mean, squares = trials.spread
    return np.array([*trials.rounds, *trials.rewards, number, number * mean, squares + number * mean * mean])


def take_trial_sums(trials: Trials, totals: Floats) -> None:
    """Replace them by totals."""
    trials.rounds[:], trials.rewards[:] = np.maximum(totals[:2], 0.0), totals[2:4]
    number, total, squares = totals[4:]
    mean = total / number if number > 0.0 else 0.0
    trials.spread[:] = number, mean, max(0.0, squares - number * mean * mean)
