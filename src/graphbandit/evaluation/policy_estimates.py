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
FEWEST_OUTCOMES = 10  # least number of the rarer of two rewards, by weight


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
    warnings: tuple[str, ...]  # reasons not to trust the estimates of the trained policy

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
    trained: int  # the number of first rounds, from which policies learned
    evaluated: int  # number of later rounds with a propensity, on which policies were judged
    users: int
    arms: int
    logged: Estimate  # mean reward of the evaluated rounds in the log
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
    warnings, off = [], average.value - 1.0
    if abs(off) > 3 * average.error + 1e-9:
        why = "much of what it would do was never or hardly ever done" if off < 0 else "the propensities cannot be right"
        warnings.append(f"{name}: the weights average {average.value:.2g}, where 1 is due; {why}.")
    if effective < FEWEST_ROUNDS:
        warnings.append(f"{name}: it rests on {effective:.3g} rounds' worth of weight; a longer log is needed.")
    elif outcomes == 0:
        warnings.append(
            f"{name}: all rounds that count had the same reward, so that there is no interval; a longer log is needed."
        )
    elif outcomes < FEWEST_OUTCOMES:
        seen = f"the rarer reward was seen {outcomes:.1f} times, by weight"
        warnings.append(f"{name}: {seen}, too few for a normal interval; a longer log is needed.")
    return tuple(warnings)


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


def as_text(evaluation: Evaluation) -> str:
    """Return an evaluation as text: two tables, one sentence for each policy, and notes."""
    size = f"{evaluation.rounds:,} rounds, {evaluation.users:,} users, {evaluation.arms:,} arms"
    lines = [f"{size}. What each policy would earn a round, with 95 % intervals:", ""]
    lines.append(
        f"From now on, as trained on the first {evaluation.trained:,} rounds; judged on {evaluation.evaluated:,} later ones"
    )
    lines.append(f"{'':20}{'doubly robust':>26}{'SNIPS':>26}{'IPS':>26}{'rounds’ worth':>15}{'matched':>9}{'max weight':>12}")
    lines.append(f"{'what was logged':20}{evaluation.logged!s:>26}")
    lines += [_trained_row(one) for one in evaluation.policies]
    lines += [
        "",
        "While it learns online from nothing (replay)",
        f"{'':20}{'mean reward':>26}{'accepted rounds':>26}{'share':>10}",
    ]
    lines += [_replay_row(one) for one in evaluation.policies]
    lines += ["", *(one.finding() for one in evaluation.policies)]
    return "\n".join([*lines, "", *(f"note: {warning}" for warning in evaluation.warnings)] if evaluation.warnings else lines)


def _trained_row(one: PolicyEstimates) -> str:
    cells = "".join(f"{estimate or '–'!s:>26}" for estimate in (one.dr, one.snips, one.ips))
    seen = one.overlap
    rest = "" if seen is None else f"{seen.effective:>15,.1f}{seen.matched:>9.1%}{seen.largest:>12.3g}"
    return f"{one.policy:20}{cells}{rest}"


def _replay_row(one: PolicyEstimates) -> str:
    if one.replay is None:
        return f"{one.policy:20}{'–':>26}"
    online = one.replay
    return f"{one.policy:20}{online.estimate!s:>26}{online.rounds:>26,}{online.share:>10.2%}"
