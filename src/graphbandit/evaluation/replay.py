"""Replay: a policy learns online from the rounds of a log in which it chooses the arm that was shown."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..compute.arrays import Floats
from ..policies import Policy
from ..validate import PROBABILITY, check
from .decision_log import DecisionLog
from .estimators import Estimate, mean, outcomes, student_width

BELOW_FLOOR = 0.05  # share of rounds whose propensity may lie below the floor


class Replay(NamedTuple):
    """Mean reward of a policy while it learned online."""

    estimate: Estimate
    rounds: int  # accepted
    outcomes: float  # as in `estimators.Overlap`
    share: float  # accepted rounds
    floor: float
    average: Estimate  # mean weight of the tried rounds; 1 if the log covers all choices of the policy

    def __repr__(self) -> str:
        return f"Replay({self.estimate}, {self.rounds:,} rounds, {self.share:.1%} of those tried)"

    def as_table(self) -> dict[str, Any]:
        """Return plain JSON values."""
        counts = {name: value for name, value in self._asdict().items() if name not in ("estimate", "average")}
        return {**self.estimate.as_table(), **counts, "average": self.average.as_table()}


def replay(
    policy: Policy, log: DecisionLog, *, floor: float | None = None, horizon: int | None = None, seed: int = 0
) -> Replay:
    """Let `policy` decide in every round of the log, and learn where it agrees with the log.

    If the log was made by uniform choices, the accepted rounds are distributed as if the policy had
    acted (Li, Chu, Langford & Wang 2011). Otherwise arms that the log favours would be accepted too
    often: a round with propensity p is accepted with probability min(1, c / p), where c is the
    floor, and has the weight max(1, c / p). That is exact if no propensity is below the floor. A
    larger floor accepts more rounds. The weighted mean stays unbiased, but the policy then learns too
    rarely from rare arms.

    Parameters
    ----------
    policy : Policy
        A fresh one; it is changed.
    log : DecisionLog
        With propensities above 0 and rewards.
    floor : float, optional
        By default the 5 % quantile of the propensities.
    horizon : int, optional
        Stop after this many accepted rounds.
    seed : int
        Seed of the acceptances.

    Examples
    --------
    >>> from graphbandit import LinUCB, graphs
    >>> log = DecisionLog([0] * 4, [0, 1, 0, 1], [0.5] * 4, [1.0, 0.0, 1.0, 0.0], [[1.0, 0.0], [0.0, 1.0]])
    >>> replay(LinUCB(graphs.empty(1), 2, exploration=0.0, seed=1), log).rounds
    2
    """
    if floor is None:
        floor = float(np.quantile(log.propensity, BELOW_FLOOR, method="lower")) if len(log) else 1.0
    check("floor", floor, PROBABILITY)
    user, arm, lots = log.rows_of(policy.graph).tolist(), log.arm.tolist(), np.random.default_rng(seed).random(len(log))
    accepted: list[int] = []
    tried = 0
    for t in range(len(log)):
        if horizon is not None and len(accepted) >= horizon:
            break
        tried += 1
        offer = log.offer(t)
        choice = offer[policy.recommend(user[t], log.arms[offer], items=offer)]
        if choice == arm[t] and lots[t] * log.propensity[t] < floor:
            policy.update(user[t], log.arms[arm[t]], float(log.reward[t]), item=arm[t])
            accepted.append(t)
    weight, reward = np.maximum(1.0, floor / log.propensity[accepted]), log.reward[accepted]
    found, due = _weighted_mean(weight, reward), np.zeros(tried)
    due[accepted] = weight / floor
    return Replay(found, len(accepted), outcomes(weight, reward), len(accepted) / max(tried, 1), floor, mean(due))


def _weighted_mean(weight: Floats, reward: Floats) -> Estimate:
    """Return the weighted mean of the rewards; its error is NaN if all rewards are equal.

    The growth of rewards while the policy learns counts as noise, so the error is rather too large.
    """
    if not len(weight):
        return Estimate(np.nan, np.nan)
    value = float(np.average(reward, weights=weight))
    if np.ptp(reward) == 0:
        return Estimate(value, np.nan)
    spread = float((weight**2 * (reward - value) ** 2).sum()) * len(weight) / (len(weight) - 1)
    return Estimate(value, float(np.sqrt(spread) / weight.sum()), student_width(weight * (reward - value)))
