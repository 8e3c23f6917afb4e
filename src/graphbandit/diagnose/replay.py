"""A log through a policy, in one compiled loop."""

from __future__ import annotations

from typing import Any

from ..jit import Floats, Ints, compiled
from ..policies import Policy, kernels
from .logs import Log


@compiled
def learn_all(state: Any, user: Ints, features: Floats, reward: Floats) -> None:
    """Learn from all rows, in order."""
    for t in range(user.shape[0]):
        kernels.learn(state, user[t], features[t], reward[t])


def replay(policy: Policy, log: Log) -> None:
    """Let a policy learn a whole log; equals, bit for bit, calling `policy.update` row by row."""
    if policy.dim != log.dim:
        raise ValueError(f"policy is for {policy.dim} features, but log has {log.dim}.")
    feed(policy, log.rows_of(policy.graph), log.features, log.reward)


def feed(policy: Policy, user: Ints, features: Floats, reward: Floats) -> None:
    """The same for rows that are known to be right."""
    done = 0
    while done < len(user):  # in one go, unless the policy wants to be refreshed in between
        now = slice(done, min(len(user), done + policy.until_refresh))
        learn_all(policy._state, user[now], features[now], reward[now])
        policy.count_rounds(now.stop - done)
        done = now.stop
