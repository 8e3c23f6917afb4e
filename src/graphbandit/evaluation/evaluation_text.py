"""An evaluation as text, as `graphbandit evaluate` prints it."""

from __future__ import annotations

from .policy_estimates import Evaluation, PolicyEstimates


def as_text(found: Evaluation) -> str:
    """Return two tables, one sentence for each policy, and notes."""
    size = f"{found.rounds:,} rounds, {found.users:,} users, {found.arms:,} arms"
    lines = [f"{size}. What each policy would earn a round, with 95 % intervals:", ""]
    lines.append(f"From now on, as trained on the first {found.trained:,} rounds; judged on {found.evaluated:,} later ones")
    lines.append(f"{'':20}{'doubly robust':>26}{'SNIPS':>26}{'IPS':>26}{'rounds’ worth':>15}{'matched':>9}{'max weight':>12}")
    lines.append(f"{'what was logged':20}{found.logged!s:>26}")
    lines += [_trained_row(one) for one in found.policies]
    lines += [
        "",
        "While it learns online from nothing (replay)",
        f"{'':20}{'mean reward':>26}{'accepted rounds':>26}{'share':>10}",
    ]
    lines += [_replay_row(one) for one in found.policies]
    lines += ["", *(one.finding() for one in found.policies)]
    return "\n".join([*lines, "", *(f"note: {warning}" for warning in found.warnings)] if found.warnings else lines)


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
