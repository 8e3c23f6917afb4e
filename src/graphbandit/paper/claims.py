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
from ..experiments.result import interval

Verdict = Literal["holds", "does not hold", "undecided"]
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

    @property
    def holds(self) -> bool:
        """Whether the data support it; if not, they refute it or say too little."""
        return self.verdict == "holds"

    @property
    def explanation(self) -> str:
        """The sentence beside the verdict; the reason explains a failure, not a lack of evidence."""
        return {"holds": "", "does not hold": self.reason, "undecided": UNDECIDED}[self.verdict]


def estimate(values: Floats) -> dict[str, float]:
    """The mean over runs and its 95 % interval, as evidence."""
    mean, half = interval(np.asarray(values, dtype=np.float64))
    return {"mean": round(float(mean), 4), "low": round(float(mean - half), 4), "high": round(float(mean + half), 4)}


def observed(fact: bool) -> Verdict:
    """The verdict on a statement about every run, which one counterexample refutes."""
    return "holds" if fact else "does not hold"


def below(values: Floats, limit: float = 0.0, *, comparisons: int = 1) -> Verdict:
    """Whether the mean over runs is below a limit.

    A claim about all of several comparisons fails with any of them: to refute it by chance with
    probability 5 %, each has an interval of level 1 − 0.05 / comparisons.
    """
    values = np.asarray(values, dtype=np.float64)
    mean, half = interval(values)
    if mean + half < limit:
        return "holds"
    mean, half = interval(values, level=1 - 0.05 / comparisons)
    return "does not hold" if mean - half >= limit else "undecided"  # NaN, of one run, is undecided


def above(values: Floats, limit: float = 0.0, *, comparisons: int = 1) -> Verdict:
    """Whether the mean over runs is above a limit; otherwise as `below`."""
    return below(-np.asarray(values), -limit, comparisons=comparisons)


def lower(first: Floats, second: Floats) -> tuple[Verdict, dict[str, float]]:
    """Whether `first` is lower than `second`, and the difference, paired over runs."""
    difference = np.asarray(first) - np.asarray(second)
    return below(difference), estimate(difference)


def alike(first: Floats, second: Floats, *, comparisons: int = 1) -> tuple[Verdict, dict[str, float]]:
    """Whether two regrets differ by at most a quarter of the second mean, and the difference."""
    difference, room = np.asarray(first) - np.asarray(second), QUARTER * float(np.mean(second))
    sides = (below(difference, room, comparisons=2 * comparisons), above(difference, -room, comparisons=2 * comparisons))
    return all_hold(sides), estimate(difference)


def all_hold(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict on several statements together: one that does not hold refutes all."""
    found = set(verdicts)
    return "does not hold" if "does not hold" in found else "undecided" if "undecided" in found else "holds"
