"""A diagnosis as text, as JSON and as a picture."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import fill

from ..plots.drawing import has_matplotlib
from ..plots.drawing import picture as png
from ..plots.evidence_plot import evidence_against_shuffled
from ..storage.atomic import write_bytes, write_text
from ..validate import missing_package
from .diagnosis import Diagnosis

MOST_LISTED = 10  # misled users in the text; JSON has all


def as_text(diagnosis: Diagnosis) -> str:
    """The verdict and its evidence, as `graphbandit diagnose` prints them."""
    report, (headings, rows) = diagnosis.report, diagnosis.evidence_table()
    lines = [fill(diagnosis.finding(), 100), ""]
    lines += [f"{name:28}{total:>14}{more:>16}{rate:>12}" for name, total, more, rate in (headings, *rows)]
    lines += ["", f"{'round':>10}{'strength':>12}{'graph':>9}{'everyone':>10}{'alone':>8}   what decisions relied on"]
    now = (report.rounds, report.strength, *(report.weights[kind] for kind in ("alone", "everyone", "graph")))
    steps = [tuple(step) for step in report.trail if step.round < report.rounds]
    for at, strength, alone, everyone, joined in [*steps, now]:
        lines.append(f"{at:>10,}{strength:>12.3g}{joined:>9.0%}{everyone:>10.0%}{alone:>8.0%}")
    lines += ["", "held-out rewards inside their predictive interval: " + _coverage(diagnosis), *_misled(diagnosis)]
    return "\n".join(lines)


def _coverage(diagnosis: Diagnosis) -> str:
    shares = (f"{share:.1%} of the {level:.0%} ones" for level, share in diagnosis.report.coverage.items())
    return f"{', '.join(shares)} (noise about {diagnosis.report.sigma:.3g})"


def _misled(diagnosis: Diagnosis) -> list[str]:
    misled = diagnosis.report.misled
    if not misled:
        return ["users misled by their neighbours: none"]
    lines = [f"users misled by their neighbours: {len(misled)} of {diagnosis.n_users:,}"]
    for user, gain, rounds in misled[:MOST_LISTED]:
        lines.append(f"  {user!s:24}{gain:>10.1f} nats in {rounds:,} rounds")
    return [*lines, f"  and {len(misled) - MOST_LISTED:,} more"] if len(misled) > MOST_LISTED else lines


def write_diagnosis(diagnosis: Diagnosis, out: Path) -> str:
    """Write `diagnosis.json` and `diagnosis.png` into the folder `out`; return a sentence that says
    so.
    """
    out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(diagnosis.as_table(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    write_text(out / "diagnosis.json", text)
    if not has_matplotlib():
        return f"written to {out / 'diagnosis.json'}; {missing_package('the picture', 'matplotlib', 'plots')}"
    write_bytes(out / "diagnosis.png", picture(diagnosis))
    return f"written to {out / 'diagnosis.json'} and {out / 'diagnosis.png'}"


TITLES = {
    "helps": "The graph helps: it matters who is joined to whom",
    "no better than shuffled": "The graph helps no more than a shuffled one: users are alike",
    "too few shuffles": "The graph helps; whether more than a shuffled one takes more shuffles",
    "no difference": "The graph makes no difference",
    "hurts": "The graph hurts: rewards are better predicted without it",
    "too few": "Too early to say whether the graph helps",
}


def picture(diagnosis: Diagnosis) -> bytes:
    """A PNG: the evidence for the graph and for its shuffles over time; what decisions relied on; coverage."""
    size = f"{diagnosis.report.rounds:,} rounds, {diagnosis.n_users:,} users, {diagnosis.n_edges:,} edges"
    figure = evidence_against_shuffled(
        diagnosis.rounds,
        diagnosis.difference,
        diagnosis.shuffled,
        report=diagnosis.report,
        title=TITLES[diagnosis.verdict],
        note=f"{size}; grey band: no difference",
    )
    return png(figure)
