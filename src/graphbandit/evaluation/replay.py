"""Replay: a policy that learns online, shown only the rounds of the log in which it would have done the same."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..compute.arrays import Floats
from ..policies import Policy
from .estimators import Estimate, mean, outcomes
from .logs import DecisionLog

FLOOR = 0.05  # share of rounds whose propensity may lie below the floor


class Replay(NamedTuple):
    """Mean reward of a policy while it learned online for so many rounds."""

    estimate: Estimate
    rounds: int  # accepted
    outcomes: float  # as in `estimators.Overlap`
    share: float  # of the rounds looked at
    floor: float
    average: (
        Estimate  # of the weights that correct for what was accepted; 1 if all that the policy does can be found in the log
    )

    def as_table(self) -> dict[str, Any]:
        """Plain JSON values."""
        counts = {name: value for name, value in self._asdict().items() if name not in ("estimate", "average")}
        return {**self.estimate.as_table(), **counts, "average": self.average.as_table()}


def replay(
    policy: Policy, log: DecisionLog, *, floor: float | None = None, horizon: int | None = None, seed: int = 0
) -> Replay:
    """Let `policy` decide in every round of the log; where it agrees, the round is accepted and learned.

    Under uniform logging the accepted rounds are a fair sample of what would have happened (Li, Chu, Langford & Wang 2011).
    Otherwise likely arms would be accepted too often: a round with propensity p is accepted with probability min(1, c / p),
    c being the floor, and weighs max(1, c / p). If no propensity is below the floor, that is exact. A larger floor accepts more
    rounds; the mean is still weighted right, but rare arms are then learned from too seldom.

    Parameters
    ----------
    policy : Policy
        It learns.
    log : DecisionLog
        With propensities above 0 and rewards.
    floor : float, optional
        By default 5 % of the log's propensities lie below it.
    horizon : int, optional
        Stop after so many accepted rounds.
    seed : int
        Of the acceptances.

    Examples
    --------
    >>> from graphbandit import LinUCB, graphs
    >>> log = DecisionLog([0] * 4, [0, 1, 0, 1], [0.5] * 4, [1.0, 0.0, 1.0, 0.0], [[1.0, 0.0], [0.0, 1.0]])
    >>> replay(LinUCB(graphs.empty(1), 2, exploration=0.0, seed=1), log).rounds
    2
    """
    if floor is None:
        floor = float(np.quantile(log.propensity, FLOOR, method="lower")) if len(log) else 1.0
    if not 0 < floor <= 1:
        raise ValueError(f"floor must be a probability above 0, but it is {floor!r}.")
    user, arm, lots = log.rows_of(policy.graph).tolist(), log.arm.tolist(), np.random.default_rng(seed).random(len(log))
    accepted: list[int] = []
    looked = 0
    for t in range(len(log)):
        if horizon is not None and len(accepted) >= horizon:
            break
        looked += 1
        offer = log.offer(t)
        if offer[policy.recommend(user[t], log.arms[offer])] == arm[t] and lots[t] * log.propensity[t] < floor:
            policy.update(user[t], log.arms[arm[t]], float(log.reward[t]))
            accepted.append(t)
    weight, reward = np.maximum(1.0, floor / log.propensity[accepted]), log.reward[accepted]
    found, due = _weighted_mean(weight, reward), np.zeros(looked)
    due[accepted] = weight / floor
    return Replay(found, len(accepted), outcomes(weight, reward), len(accepted) / max(looked, 1), floor, mean(due))


def _weighted_mean(weight: Floats, reward: Floats) -> Estimate:
    """A reward that grows as the policy learns counts as noise: the error is rather too large. NaN if no two rewards differ."""
    if not len(weight):
        return Estimate(np.nan, np.nan)
    value = float(np.average(reward, weights=weight))
    if np.ptp(reward) == 0:
        return Estimate(value, np.nan)
    spread = float((weight**2 * (reward - value) ** 2).sum()) * len(weight) / (len(weight) - 1)
    return Estimate(value, float(np.sqrt(spread) / weight.sum()))
