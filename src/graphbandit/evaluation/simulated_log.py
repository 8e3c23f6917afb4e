"""`record`: a log from a simulation, where the truth is known."""

from __future__ import annotations

import numpy as np

from ..environments import Environment
from ..policies import Policy
from .decision_log import DecisionLog


def record(policy: Policy, environment: Environment, horizon: int, seed: int = 0, *, learn: bool = True) -> DecisionLog:
    """Return the log of `policy` acting for `horizon` rounds, with propensities.

    With `learn=False` the policy stays unchanged.

    >>> from graphbandit import Random, environments, graphs, signals
    >>> graph = graphs.erdos_renyi(5, 0.5, seed=0)
    >>> env = environments.Linear(graph, signals.smooth(graph, 2, gamma=7, seed=1), signals.unit_arms(4, 2, seed=2))
    >>> record(Random(graph, 2), env, 3).propensity.tolist()
    [0.25, 0.25, 0.25]
    """
    user, arm, propensity, reward, offered = [], [], [], [], []
    for rounds in environment.rounds(horizon, seed):
        for t, who in enumerate(rounds.user.tolist()):
            pool = rounds.pool[t]
            features = environment.arms[pool]
            choice = policy.recommend(who, features, items=pool, propensity=True)
            earned = float(rounds.mean[t, choice.arm] + rounds.noise[t])
            if learn:
                policy.update(who, features[choice.arm], earned, item=int(pool[choice.arm]))
            user.append(who)
            arm.append(int(pool[choice.arm]))
            propensity.append(choice.propensity)
            reward.append(earned)
        offered.append(rounds.pool.astype(np.int64))
    pools = np.concatenate(offered)
    parts = (np.array(user), np.array(arm), np.array(propensity), np.array(reward), environment.arms)
    if pools.shape[1] == len(environment.arms):
        return DecisionLog(*parts)
    return DecisionLog(*parts, pools.ravel(), np.arange(0, pools.size + 1, pools.shape[1]))
