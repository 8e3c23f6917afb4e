"""The results of an evaluation: a `PolicyEstimates` for each policy, together an `Evaluation`, and warnings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..display import as_html
from .decision_log import DecisionLog
from .estimators import Estimate, Overlap
from .replay import Replay

FEWEST_ROUNDS = 30  # effective sample size below which there is no verdict
FEWEST_OUTCOMES = 10  # of the rarer of two rewards, by weight


@dataclass(frozen=True)
class PolicyEstimates:
    """The estimates for one policy; None where the log has no information."""

    policy: str
    dr: Estimate | None
    snips: Estimate | None
    ips: Estimate | None
    gain: Estimate | None  # doubly robust estimate minus the logged reward, paired by round
    overlap: Overlap | None
    replay: Replay | None
    warnings: tuple[str, ...]  # why the estimates of the trained policy cannot be trusted

    def __repr__(self) -> str:
        return f"PolicyEstimates({self.policy!r}, doubly robust {self.dr or '–'})"

    @property
    def replay_warnings(self) -> tuple[str, ...]:
        """Reasons not to trust the result of the replay."""
        if self.replay is None:
            return ()
        return trust_warnings(f"{self.policy}, replay", self.replay.average, self.replay.rounds, self.replay.outcomes)

    def finding(self) -> str:
        """Summarise the trained policy in one sentence."""
        if self.dr is None or self.gain is None or self.warnings:
            return f"The log cannot tell what {self.policy} would earn."
        what = f"{self.policy} would earn {self.dr.value:.4g} a round ({self.dr.low:.4g} to {self.dr.high:.4g})"
        more = f"({self.gain.low:+.4g} to {self.gain.high:+.4g})"
        if self.gain.low > 0:
            return f"{what}, more than what was logged, by {self.gain.value:.4g} {more}."
        if self.gain.high < 0:
            return f"{what}, less than what was logged, by {-self.gain.value:.4g} {more}."
        return f"{what}; whether that is more than what was logged cannot be told {more}."

    def as_table(self) -> dict[str, Any]:
        """Return plain JSON values."""
        seen = self.overlap
        return {
            "policy": self.policy,
            **{name: getattr(self, name) and getattr(self, name).as_table() for name in ("dr", "snips", "ips", "gain")},
            "overlap": seen and {**seen._asdict(), "average": seen.average.as_table()},
            "replay": self.replay and self.replay.as_table(),
            "sentence": self.finding(),
            "warnings": [*self.warnings, *self.replay_warnings],
        }


@dataclass(frozen=True)
class Evaluation:
    """The estimates for several policies, from one log."""

    rounds: int  # of the log, with a reward
    trained: int  # the first so many rounds, from which policies learned
    evaluated: int  # later rounds, with a propensity, on which they were judged
    users: int
    arms: int
    logged: Estimate  # mean reward of the evaluated rounds, as they were
    policies: tuple[PolicyEstimates, ...]
    notes: tuple[str, ...]  # about the log

    def __repr__(self) -> str:
        sizes = f"{self.rounds:,} rounds, {self.users:,} users, {self.arms:,} arms"
        return f"Evaluation({len(self.policies)} policies, {sizes})"

    def _repr_html_(self) -> str:
        return as_html(repr(self), *self.estimate_table(), [*(one.finding() for one in self.policies), *self.warnings])

    def estimate_table(self) -> tuple[list[str], list[tuple[object, ...]]]:
        """Return headings and rows of a table: the estimated reward per round of each policy, by each estimator."""
        rows: list[tuple[object, ...]] = [("what was logged", self.logged, "", "", "")]
        for one in self.policies:
            worth = "" if one.overlap is None else f"{one.overlap.effective:,.1f}"
            rows.append((one.policy, one.dr or "–", one.snips or "–", one.ips or "–", worth))
        return ["policy", "doubly robust", "SNIPS", "IPS", "rounds’ worth"], rows

    @property
    def warnings(self) -> list[str]:
        """Return sentences on what limits the log, and why some numbers cannot be trusted."""
        return [*self.notes, *(text for one in self.policies for text in (*one.warnings, *one.replay_warnings))]

    def __getitem__(self, policy: str) -> PolicyEstimates:
        return {one.policy: one for one in self.policies}[policy]

    def as_table(self) -> dict[str, Any]:
        """Return everything as plain JSON values."""
        counts = {name: getattr(self, name) for name in ("rounds", "trained", "evaluated", "users", "arms")}
        tables = [one.as_table() for one in self.policies]
        return {**counts, "logged": self.logged.as_table(), "policies": tables, "notes": list(self.notes)}


def trust_warnings(name: str, average: Estimate, effective: float, outcomes: float) -> tuple[str, ...]:
    """Return sentences that say why the numbers of this policy cannot be trusted; empty if they can.

    `average` is the mean of the importance weights, `effective` the effective sample size and
    `outcomes` that of the rounds with the rarer reward.
    """
    found, off = [], average.value - 1.0
    if abs(off) > 3 * average.error + 1e-9:
        why = "much of what it would do was never or hardly ever done" if off < 0 else "the propensities cannot be right"
        found.append(f"{name}: the weights average {average.value:.2g}, where 1 is due; {why}.")
    if effective < FEWEST_ROUNDS:
        found.append(f"{name}: it rests on {effective:.3g} rounds' worth of weight; a longer log is needed.")
    elif outcomes == 0:
        found.append(
            f"{name}: all rounds that count had the same reward, so that there is no interval; a longer log is needed."
        )
    elif outcomes < FEWEST_OUTCOMES:
        seen = f"the rarer reward was seen {outcomes:.1f} times, by weight"
        found.append(f"{name}: {seen}, too few for a normal interval; a longer log is needed.")
    return tuple(found)


def log_notes(log: DecisionLog, first: int, known: npt.NDArray[np.bool_]) -> list[str]:
    """Return notes on what limits an evaluation on the rounds from `first` on.

    `known` marks the rounds that have a propensity.
    """
    notes, rest = [], len(log) - first
    lost = rest - int(known.sum())
    if lost == rest:
        notes.append(
            "No evaluated round has a propensity above 0: IPS, SNIPS and doubly robust need them. "
            "If the log was made by uniformly random choices, say so (uniform)."
        )
    elif lost:
        notes.append(f"{lost:,} of {rest:,} evaluated rounds have no propensity above 0 and are left out.")
    certain = known & (log.propensity == 1) & (log.sizes > 1)
    if certain.any():
        notes.append(
            f"In {certain.sum() / known.sum():.0%} of the evaluated rounds the choice was certain (propensity 1) though other "
            "arms were on offer: the log cannot tell what those would have earned. Let the logging policy randomise."
        )
    return notes
