"""Helpers of the figures that look inside an algorithm."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import environments
from ..experiments.parallel import spread
from .figure import Settings

ALPHA, RIDGE = 1.0, 0.01  # the paper's


def over_runs(settings: Settings, function: Any, *arguments: Any) -> list[Any]:
    """`function(seed, *arguments)` for every run, in parallel, in order."""
    from joblib import delayed

    seeds = range(settings.runs)
    calls = (delayed(function)(seed, *arguments) for seed in seeds)
    return list(spread(calls, min(settings.workers, settings.runs), ordered=True))


def checkpoints(horizon: int, count: int = 40) -> Any:
    """Rounds at which slow quantities are computed, denser at the start."""
    return np.unique(np.geomspace(5, horizon, count).astype(int))


def random_rounds(env: environments.Linear, horizon: int, seed: int) -> Any:
    """User, features, reward and noise of rounds in which the first arm of the pool, a random one, is always shown."""
    for rounds in env.rounds(horizon, seed):
        for t, user in enumerate(rounds.user.tolist()):
            yield user, env.arms[rounds.pool[t, 0]], rounds.mean[t, 0] + rounds.noise[t], float(rounds.noise[t])
