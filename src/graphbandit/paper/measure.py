"""Measurements that several figures share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import environments, signals
from ..experiments import compare
from ..experiments.compare import MakeEnvironment
from ..experiments.parallel import Engine, spread
from ..experiments.testbeds import DIM, with_arms
from ..graph import UserGraph
from .figure_parts import Data, ReproduceSettings

ALPHA, RIDGE = 1.0, 0.01  # the paper's


def over_runs(settings: ReproduceSettings, function: Any, *arguments: Any) -> list[Any]:
    """The results of `function(seed, *arguments)` for every run, in order, computed in parallel."""
    from joblib import delayed

    seeds = range(settings.runs)
    calls = (delayed(function)(seed, *arguments) for seed in seeds)
    engine = Engine(settings.engine, settings.address, min(settings.workers, settings.runs))
    return list(spread(calls, engine, ordered=True))


def equally_smooth(users: UserGraph, seed: int, smoothness: float) -> environments.Linear:
    """The world of one seed whose users have this tr(ΘᵀRΘ): γ is what gives it.

    Users without friends count 1 each, whatever γ; if these alone are too many, γ is the largest.
    """
    from scipy.optimize import brentq

    def truth(log_gamma: float) -> Any:
        (theta,) = environments.streams(seed, "theta")  # a fresh stream: every γ smooths the same draw
        return signals.smooth(users, DIM, gamma=float(np.exp(log_gamma)), seed=theta)

    def too_rough(log_gamma: float) -> float:
        return signals.smoothness(users, truth(log_gamma)) - smoothness

    low, high = np.log(1e-3), np.log(1e4)
    return with_arms(users, truth(high if too_rough(high) > 0 else brentq(too_rough, low, high)), seed)


def regret_by_policy(policies: Mapping[str, Any], make: MakeEnvironment, settings: ReproduceSettings) -> Data:
    """Cumulative regret of every policy in one world: `rounds`, and `regret` by policy."""
    result = compare(policies, make, settings.horizon, seeds=range(settings.runs), **settings.spreading)
    return {"rounds": result.rounds, "regret": dict(result.regret)}


def checkpoints(horizon: int, count: int = 40) -> Any:
    """Rounds at which slow quantities are computed, more of them at the start."""
    return np.unique(np.geomspace(5, horizon, count).astype(int))


def random_rounds(env: environments.Linear, horizon: int, seed: int) -> Any:
    """Yield user, features, reward and noise of rounds in which a random arm is shown."""
    for rounds in env.rounds(horizon, seed):
        for t, user in enumerate(rounds.user.tolist()):
            yield user, env.arms[rounds.pool[t, 0]], rounds.mean[t, 0] + rounds.noise[t], float(rounds.noise[t])
