"""Claims and how they are judged: each holds, does not hold, or is undecided.

Both decisions need evidence: a claim holds where a 95 % interval over runs lies on its side of the
limit, and does not hold where it lies on the other side. An interval that contains the limit, or a
single run, decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..compute.arrays import Floats
from ..display import shorten
from ..experiments.result import interval

Verdict = Literal["holds", "does not hold", "undecided"]
FORMS = ("printed", "released", "recommended")
"""The formulas of the paper; what the published code computes; what we would use."""
QUARTER = 0.25
"""Regrets that differ by at most this share are alike."""
UNDECIDED = "The interval contains both answers: more runs are needed."
REVERSED = "In these runs the order is the other way round."


@dataclass(frozen=True)
class Claim:
    """A statement and what the data say about it."""

    claim: str
    verdict: Verdict
    evidence: dict[str, Any]
    reason: str = ""  # the likely reason why, should it not hold
    beyond: bool = False  # an observation of ours: the paper does not say it
    form: str = ""  # of `FORMS`, if the same statement is judged in several
    statement: str = ""  # the claim without its form
    brief: str = ""  # the numbers that decide, in a few words

    def __repr__(self) -> str:
        return f"Claim({shorten(self.claim, 80)!r}, {self.verdict!r})"

    @property
    def holds(self) -> bool:
        """Whether the data support it; if not, they refute it or say too little."""
        return self.verdict == "holds"

    @property
    def explanation(self) -> str:
        """The sentence beside the verdict; the reason explains a failure, not a lack of evidence."""
        return {"holds": "", "does not hold": self.reason, "undecided": UNDECIDED}[self.verdict]


def mean_interval(values: Floats, level: float = 0.95) -> tuple[float, float, float]:
    """The mean over runs and the ends of its interval: Student's, or farther out if values are skewed.

    Of 20 values with a long tail, Student's 95 % interval is on the wrong side of the mean in up to
    8 % of cases on one side alone. Hall's transformation (1992) corrects for the skewness; of both
    intervals the farther end counts, so that a doubt about the shape decides nothing.
    """
    values = np.asarray(values, dtype=np.float64)
    mean, half = (float(part) for part in interval(values, level=level))
    spread = float(values.std())
    if len(values) < 3 or spread == 0.0:
        return mean, mean - half, mean + half
    c = float(np.mean(((values - mean) / spread) ** 3)) / np.sqrt(len(values))
    if abs(c) < 1e-6:
        return mean, mean - half, mean + half
    error = float(values.std(ddof=1)) / np.sqrt(len(values))
    down, up = (3 / c * float(np.cbrt(1 + c * (t - c / 6)) - 1) for t in (half / error, -half / error))
    return mean, min(mean - half, mean - error * down), max(mean + half, mean - error * up)


def estimate(values: Floats) -> dict[str, float]:
    """The mean over runs and its 95 % interval, as evidence."""
    return dict(zip(("mean", "low", "high"), (round(part, 4) for part in mean_interval(values)), strict=True))


def observed(fact: bool) -> Verdict:
    """The verdict on a statement about every case, which one counterexample refutes.

    Without a counterexample it holds in these runs; only a proof says more.
    """
    return "holds" if fact else "does not hold"


def below(values: Floats, limit: float = 0.0, *, comparisons: int = 1) -> Verdict:
    """Whether the mean over runs is below a limit.

    A claim about all of several comparisons fails with any of them: to refute it by chance with
    probability 5 %, each has an interval of level 1 − 0.05 / comparisons.
    """
    _, _, high = mean_interval(values)
    if high < limit:
        return "holds"
    _, low, _ = mean_interval(values, level=1 - 0.05 / comparisons)
    return "does not hold" if low >= limit else "undecided"  # NaN, of one run, is undecided


def above(values: Floats, limit: float = 0.0, *, comparisons: int = 1) -> Verdict:
    """Whether the mean over runs is above a limit; otherwise as `below`."""
    return below(-np.asarray(values), -limit, comparisons=comparisons)


def lower(first: Floats, second: Floats) -> tuple[Verdict, dict[str, float]]:
    """Whether `first` is lower than `second`, and the difference, paired over runs."""
    difference = np.asarray(first) - np.asarray(second)
    return below(difference), estimate(difference)


def within(values: Floats, low: float, high: float, *, comparisons: int = 1) -> Verdict:
    """Whether the mean over runs lies between two limits; otherwise as `below`."""
    return all_hold((above(values, low, comparisons=2 * comparisons), below(values, high, comparisons=2 * comparisons)))


def alike(first: Floats, second: Floats, *, comparisons: int = 1) -> tuple[Verdict, dict[str, float]]:
    """Whether two mean regrets differ by at most a quarter of the second, and the difference.

    The quarter is taken run by run: the second mean is estimated too, and its error counts.
    """
    one, other = np.asarray(first), np.asarray(second)
    sides = (
        below(one - (1 + QUARTER) * other, comparisons=2 * comparisons),
        above(one - (1 - QUARTER) * other, comparisons=2 * comparisons),
    )
    return all_hold(sides), estimate(one - other)


def share_interval(shares: Floats) -> tuple[float, float]:
    """A 95 % interval of the mean of shares between 0 and 1, one for each run.

    Student's interval has no width where all runs agree, as they do near 1: of 20 runs without a
    failure it would conclude that there is none. The lower end is therefore that of Clopper &
    Pearson (1934), as if every run were a success or a failure, which no distribution of shares
    with this mean exceeds in spread. So is the upper end, if they are; else it is that of a mean.
    """
    from scipy.special import betaincinv  # slow to import

    values = np.asarray(shares, dtype=np.float64)
    runs, hits = len(values), float(values.sum())
    low = float(betaincinv(hits, runs - hits + 1, 0.025)) if hits > 0 else 0.0
    if np.isin(values, (0.0, 1.0)).all():
        return low, float(betaincinv(hits + 1, runs - hits, 0.975)) if hits < runs else 1.0
    return low, min(mean_interval(values)[2], 1.0) if runs > 1 else 1.0


def share_at_least(shares: Floats, limit: float) -> tuple[Verdict, dict[str, float]]:
    """Whether the mean of shares between 0 and 1 is at least a limit, and its interval."""
    low, high = share_interval(shares)
    verdict: Verdict = "holds" if low >= limit else "does not hold" if high < limit else "undecided"
    return verdict, {"mean": round(float(np.mean(shares)), 4), "low": round(low, 4), "high": round(high, 4)}


def all_hold(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict on several statements together: one that does not hold refutes all."""
    found = set(verdicts)
    return "does not hold" if "does not hold" in found else "undecided" if "undecided" in found else "holds"
