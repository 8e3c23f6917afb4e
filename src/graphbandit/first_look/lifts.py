"""Differences of mean rewards, paired by round, with intervals that take the rounds of a user as one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compute.arrays import Flags, Floats, Ints

FEWEST_USERS = 20  # for an interval
NEWCOMER_EVENTS = 10  # at most, before the first round
HEAVY_SHARE = 0.2  # of users with the most events


class LiftInterval(NamedTuple):
    """A mean and its 95 % interval; NaN ends if there are too few users."""

    value: float
    low: float
    high: float
    rounds: int
    users: int

    @property
    def verdict(self) -> str:
        """ "more", "less", "not told apart" or "too few"."""
        if np.isnan(self.low):
            return "too few"
        return "more" if self.low > 0 else "less" if self.high < 0 else "not told apart"


class UserGroup(NamedTuple):
    """Users for whom the lift is looked at."""

    name: str
    who: Flags  # (rounds,)


def clustered_interval(values: Floats, user: Ints) -> LiftInterval:
    """The mean of rounds that come in clusters, users: the sum of a user's deviations is what varies.

    >>> found = clustered_interval(np.ones(40) + np.tile([0.1, -0.1], 20), np.arange(40) // 2)
    >>> found.value, found.low, found.users
    (1.0, 1.0, 20)
    """
    n_users = len(np.unique(user))
    if not len(values):
        return LiftInterval(float("nan"), float("nan"), float("nan"), 0, 0)
    mean = float(values.mean())
    if n_users < FEWEST_USERS:
        return LiftInterval(mean, float("nan"), float("nan"), len(values), n_users)
    from scipy.special import stdtrit

    sums = np.bincount(user, weights=values - mean)
    error = float(np.sqrt((sums**2).sum() * n_users / (n_users - 1)) / len(values))
    width = float(stdtrit(n_users - 1, 0.975)) * error
    return LiftInterval(mean, mean - width, mean + width, len(values), n_users)


def groups(round_user: Ints, learned: Ints, n_users: int) -> list[UserGroup]:
    """Newcomers, heavy users, and those between, by the events that were learned of them."""
    events = np.bincount(learned, minlength=n_users)
    playing = np.unique(round_user)
    heavy = max(NEWCOMER_EVENTS + 1, float(np.quantile(events[playing], 1.0 - HEAVY_SHARE)))
    own = events[round_user]
    return [
        UserGroup(f"newcomers (at most {NEWCOMER_EVENTS} events before)", own <= NEWCOMER_EVENTS),
        UserGroup("users between", (own > NEWCOMER_EVENTS) & (own < heavy)),
        UserGroup(f"heavy users ({heavy:,.0f} events and more)", own >= heavy),
    ]
