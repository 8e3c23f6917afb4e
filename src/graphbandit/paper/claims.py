"""Claims and how they are judged: a claim holds, does not hold, is refuted by equality, or needs more runs.

A claim holds where the 95 % interval over runs lies on its side of the limit, and does not hold where the interval lies on
the other side. If "lower" is in doubt, an equivalence test decides whether the two are equal within a stated margin.
Everything else needs more runs.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ..compute.arrays import Floats
from ..display import shorten
from ..experiments.result import interval

Verdict = Literal["holds", "does not hold", "equal", "more runs needed"]
VERDICTS: tuple[Verdict, ...] = ("holds", "does not hold", "equal", "more runs needed")
QUARTER = 0.25
"""Regrets that differ by at most this share are alike: the margin of "similar", "slightly" and "close"."""
EQUAL = 0.1
"""Margin of the equivalence test that follows an undecided comparison, as a share of the second regret."""
ERRATA: dict[str, str] = tomllib.loads((Path(__file__).parent / "errata.toml").read_text(encoding="utf-8"))
QUOTES: dict[str, dict[str, str]] = tomllib.loads((Path(__file__).parent / "quotes.toml").read_text(encoding="utf-8"))
REVERSED = "In these runs the order is the other way round."


@dataclass(frozen=True)
class Claim:
    """A statement, the paper's words for it, and what the data say about it."""

    claim: str
    verdict: Verdict
    evidence: dict[str, Any]
    reason: str = ""  # the likely reason, if the claim does not hold
    said: str = ""  # key of the paper's words in `QUOTES`; empty for an observation of ours

    def __repr__(self) -> str:
        return f"Claim({shorten(self.claim, 80)!r}, {self.verdict!r})"

    @property
    def beyond(self) -> bool:
        """Whether the statement is an observation of ours, not a claim of the paper."""
        return not self.said

    @property
    def quote(self) -> tuple[str, str]:
        """Return the words of the paper and their section; empty for an observation of ours."""
        return (QUOTES[self.said]["words"], QUOTES[self.said]["where"]) if self.said else ("", "")

    @property
    def explanation(self) -> str:
        """Return the sentence beside the verdict."""
        if self.verdict == "equal":
            return f"The two differ by at most {EQUAL:.0%} of the second (equivalence test at 5 %)."
        doubt = "The interval contains both answers."
        return {"holds": "", "does not hold": self.reason, "more runs needed": doubt}[self.verdict]


def mean_interval(values: Floats, level: float = 0.95) -> tuple[float, float, float]:
    """Return the mean over runs and its interval: Student's, or wider on the side of a long tail.

    For 20 values with a long tail, Student's 95 % interval is on the wrong side of the mean in up to
    8 % of cases on one side alone. Hall's transformation (1992) corrects for the skewness; the farther
    end of both intervals counts, so that a doubt about the shape decides nothing.
    """
    values = np.asarray(values, dtype=np.float64)
    mean, half = (float(part) for part in interval(values, level=level))
    spread, count = float(values.std()), len(values)
    c = float(np.mean(((values - mean) / spread) ** 3)) / np.sqrt(count) if count > 2 and spread else 0.0
    if abs(c) < 1e-6:
        return mean, mean - half, mean + half
    error = float(values.std(ddof=1)) / np.sqrt(count)
    down, up = (3 / c * float(np.cbrt(1 + c * (t - c / 6)) - 1) for t in (half / error, -half / error))
    return mean, min(mean - half, mean - error * down), max(mean + half, mean - error * up)


def estimate(values: Floats) -> dict[str, float]:
    """Return the mean over runs and its 95 % interval, as evidence."""
    return dict(zip(("mean", "low", "high"), (round(part, 4) for part in mean_interval(values)), strict=True))


def observed(fact: bool) -> Verdict:
    """Return the verdict on a statement about every case, which one counterexample refutes."""
    return "holds" if fact else "does not hold"


def below(values: Floats, limit: float = 0.0, *, comparisons: int = 1) -> Verdict:
    """Judge whether the mean over runs is below a limit.

    A claim about all of several comparisons fails with any of them: to refute it by chance with
    probability 5 %, each has an interval of level 1 − 0.05 / comparisons.
    """
    if mean_interval(values)[2] < limit:
        return "holds"
    low = mean_interval(values, level=1 - 0.05 / comparisons)[1]
    return "does not hold" if low >= limit else "more runs needed"  # also for one run, whose interval is NaN


def above(values: Floats, limit: float = 0.0, *, comparisons: int = 1) -> Verdict:
    """Judge whether the mean over runs is above a limit, as `below` does."""
    return below(-np.asarray(values), -limit, comparisons=comparisons)


def lower(first: Floats, second: Floats, *, comparisons: int = 1) -> tuple[Verdict, dict[str, float]]:
    """Judge whether `first` is lower than `second`, paired over runs; return the difference, too."""
    one, other = np.asarray(first), np.asarray(second)
    verdict = below(one - other, comparisons=comparisons) if len(one) < 2 or (one != other).any() else "equal"
    if verdict == "more runs needed":
        under = mean_interval(one - (1 + EQUAL) * other, level=0.9)[2] < 0
        over = mean_interval(one - (1 - EQUAL) * other, level=0.9)[1] > 0
        verdict = "equal" if under and over else verdict
    return verdict, estimate(one - other)


def within(values: Floats, low: float, high: float, *, comparisons: int = 1) -> Verdict:
    """Judge whether the mean over runs lies between two limits, as `below` does.

    The two limits count as one comparison, because both cannot be exceeded.
    """
    return all_hold((above(values, low, comparisons=comparisons), below(values, high, comparisons=comparisons)))


def alike(first: Floats, second: Floats, *, comparisons: int = 1) -> tuple[Verdict, dict[str, float]]:
    """Judge whether two mean regrets differ by at most a quarter of the second; return the difference, too.

    The quarter is taken run by run: the second mean is estimated, and its error counts. As in `within`, the two limits
    count as one comparison.
    """
    one, other = np.asarray(first), np.asarray(second)
    over, under = one - (1 + QUARTER) * other, one - (1 - QUARTER) * other
    return all_hold((below(over, comparisons=comparisons), above(under, comparisons=comparisons))), estimate(one - other)


def share_interval(shares: Floats) -> tuple[float, float]:
    """Return a 95 % interval of the mean of shares between 0 and 1, one for each run.

    Student's interval has no width where all runs agree: 20 runs without a failure would show that there is none. The
    lower end is therefore that of Clopper & Pearson (1934), as if every run were a success or a failure, whose spread no
    distribution of shares with this mean exceeds. So is the upper end if the runs are that, and else it is that of a mean.
    """
    from scipy.special import betaincinv  # slow to import

    values = np.asarray(shares, dtype=np.float64)
    runs, hits = len(values), float(values.sum())
    low = float(betaincinv(hits, runs - hits + 1, 0.025)) if hits > 0 else 0.0
    if np.isin(values, (0.0, 1.0)).all():
        return low, float(betaincinv(hits + 1, runs - hits, 0.975)) if hits < runs else 1.0
    return low, min(mean_interval(values)[2], 1.0) if runs > 1 else 1.0


def share_at_least(shares: Floats, limit: float) -> tuple[Verdict, dict[str, float]]:
    """Judge whether the mean of shares between 0 and 1 is at least a limit; return its interval, too."""
    low, high = share_interval(shares)
    verdict: Verdict = "holds" if low >= limit else "does not hold" if high < limit else "more runs needed"
    return verdict, {"mean": round(float(np.mean(shares)), 4), "low": round(low, 4), "high": round(high, 4)}


def all_hold(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the verdict on several statements together: the worst of them decides."""
    found = set(verdicts)
    worst: tuple[Verdict, ...] = ("does not hold", "more runs needed", "equal")
    return next((verdict for verdict in worst if verdict in found), "holds")
