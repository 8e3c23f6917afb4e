"""Is a graph better than the same graph with its users shuffled? A permutation test."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from ..compute.arrays import Floats

LEVEL = 0.05
"""Nominal level: the share of graphs unrelated to tastes that pass by chance, at most."""
ENOUGH_SHUFFLES = 19
"""The least number of shuffles whose smallest p-value of a rank, 1 / (1 + n), is `LEVEL`."""
TIE = 1e-6  # nats; graphs that are the same up to names differ by rounding only


class ShuffleTest(NamedTuple):
    """The p-value of "who is joined to whom does not matter", and what it rests on."""

    p: float
    basis: Literal["rank", "t", "none"]  # "none": one shuffle has no spread to compare with

    @property
    def passes(self) -> bool:
        """Whether the graph is better than shuffled ones at the nominal level."""
        return self.basis != "none" and self.p <= LEVEL

    def __str__(self) -> str:
        how = {"rank": "permutation test", "t": "t test: too few shuffles for a rank", "none": "one shuffle"}
        return f"p = {self.p:.2g}, {how[self.basis]}"


def shuffle_test(value: float, shuffled: Floats) -> ShuffleTest:
    """Test whether `value`, the evidence for the graph, is larger than those of shuffled graphs.

    If who is joined to whom does not matter, the graph and its n shuffles are exchangeable, so
    p = (1 + number of shuffles at least as good) / (1 + n) is at most `LEVEL` with probability
    `LEVEL`, whatever the distribution. Ranks are taken among the first 19, 39, 59, … shuffles: with
    30 only the best rank has p ≤ 5 %, which chance reaches in 3 %, and power would fall.

    With fewer than `ENOUGH_SHUFFLES` no rank is so small. Then the shuffles, of mean m and standard
    deviation s, are taken as normal, and (value − m) / (s √(1 + 1/n)) has Student's t distribution
    with n − 1 degrees of freedom.

    >>> shuffle_test(9.0, np.arange(19.0))
    ShuffleTest(p=0.55, basis='rank')
    """
    n = len(shuffled)
    if n == 1 or n >= ENOUGH_SHUFFLES:
        used = n if n == 1 else n - (n + 1) % (ENOUGH_SHUFFLES + 1)
        rank = (1 + int((shuffled[:used] >= value - TIE).sum())) / (1 + used)
        return ShuffleTest(rank, "none" if n == 1 else "rank")
    from scipy.special import stdtr  # slow to import

    lead, spread = value - shuffled.mean(), max(float(shuffled.std(ddof=1)), TIE)
    return ShuffleTest(float(stdtr(n - 1, -lead / (spread * np.sqrt(1 + 1 / n)))), "t")
