"""A diagnosis as text, as JSON and as a picture."""

from __future__ import annotations

import json
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np

from ..compute.arrays import Floats
from ..policies.adaptive.graph_report import CLEAR
from ..storage.atomic import write_bytes, write_text
from .diagnosis import Diagnosis

MOST_LISTED = 10  # misled users in the text; JSON has all
WITH, SHUFFLED, INK = "#d1495b", "#7d8597", "#30343f"


def as_text(diagnosis: Diagnosis) -> str:
    """The verdict and its evidence, as `graphbandit diagnose` prints them."""
    report, ends = diagnosis.report, diagnosis.shuffled[:, -1]
    counted = max(report.counted, 1.0)
    rows = [
        ("with the graph", report.with_graph),
        *((f"shuffled, {name} of {len(ends)}", report.without + end) for name, end in _shuffled(ends)),
        ("without: everyone alike", report.everyone),
        ("without: everyone alone", report.alone),
    ]
    lines = [fill(diagnosis.finding(), 100), ""]
    lines.append(f"{'log evidence, in nats':28}{'total':>14}{'against none':>16}{'a round':>12}")
    for name, value in rows:
        more = value - report.without
        lines.append(f"{name:28}{value:>14,.1f}{more:>+16,.1f}{more / counted:>+12.4f}")
    lines += ["", f"{'round':>10}{'strength':>12}{'graph':>9}{'everyone':>10}{'alone':>8}   what decisions relied on"]
    now = (report.rounds, report.strength, *(report.weights[kind] for kind in ("alone", "everyone", "graph")))
    steps = [tuple(step) for step in report.trail if step.round < report.rounds]
    for at, strength, alone, everyone, joined in [*steps, now]:
        lines.append(f"{at:>10,}{strength:>12.3g}{joined:>9.0%}{everyone:>10.0%}{alone:>8.0%}")
    lines += ["", "held-out rewards inside their predictive interval: " + _coverage(diagnosis), *_misled(diagnosis)]
    return "\n".join(lines)


def _shuffled(ends: Floats) -> list[tuple[str, float]]:
    summary = {"best": ends.max(), "median": np.median(ends), "worst": ends.min()}
    return [(name, float(end)) for name, end in summary.items()]


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
    if find_spec("matplotlib") is None:
        return f"written to {out / 'diagnosis.json'}; the picture needs matplotlib: pip install 'graphbandit[plots]'."
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
    """A PNG: the evidence for the graph and for its shuffles over time, and below it the effective
    strength.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, (top, low) = plt.subplots(
        2, 1, figsize=(7.6, 5.6), sharex=True, height_ratios=(2.2, 1), layout="constrained", facecolor="white"
    )
    _draw_evidence(top, diagnosis)
    low.plot(diagnosis.rounds, diagnosis.strength, color=WITH, lw=2)
    low.set_yscale("log")
    low.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    low.set(xlabel="round", ylabel="effective\nstrength")
    low.set_ylim(diagnosis.strength.min() / 3, diagnosis.strength.max() * 3)
    end = (1.01, float(diagnosis.strength[-1]))
    low.annotate(f"{end[1]:.2g}", end, xycoords=("axes fraction", "data"), color=WITH, va="center", annotation_clip=False)
    for axes in (top, low):
        axes.spines[["top", "right"]].set_visible(False)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.grid(axis="y", color="#e6e8eb", lw=0.8)
        axes.set_axisbelow(True)
    low.set_xlim(0, diagnosis.rounds[-1])
    figure.align_ylabels()
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=150, metadata={"Software": None})
    plt.close(figure)
    return buffer.getvalue()


def _draw_evidence(axes: Any, diagnosis: Diagnosis) -> None:
    rounds, ends = diagnosis.rounds, diagnosis.shuffled[:, -1]
    axes.axhspan(-CLEAR, CLEAR, color="#eef0f3", lw=0)  # no difference
    axes.axhline(0, color=INK, lw=1.2)
    for curve in diagnosis.shuffled:
        axes.plot(rounds, curve, color=SHUFFLED, lw=1.2, alpha=0.8)
    axes.plot(rounds, diagnosis.difference, color=WITH, lw=2.4)
    axes.set_ylabel("log evidence, nats more\nthan without the graph")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:+,.6g}" if value else "0")
    axes.set_title(TITLES[diagnosis.verdict], loc="left", fontweight="bold", fontsize=12, color=INK, pad=24)
    size = f"{diagnosis.report.rounds:,} rounds, {diagnosis.n_users:,} users, {diagnosis.n_edges:,} edges"
    note = f"{size}; inside the grey band there is no difference"
    axes.annotate(note, (0, 1), (0, 8), xycoords="axes fraction", textcoords="offset points", color=SHUFFLED, fontsize=9)
    bottom, top = axes.get_ylim()
    axes.set_ylim(min(bottom, -10), max(top, 10))  # a few nats must not look like a mountain
    labels = [
        (float(diagnosis.difference[-1]), "with the graph", WITH),
        (float(np.mean(ends)), "users shuffled", SHUFFLED),
        (0.0, "without", INK),
    ]
    low, high = axes.get_ylim()
    gap = 0.075 * (high - low)
    height = -np.inf
    for value, text, colour in sorted(labels):  # pushed apart where they would overlap
        height = max(value, height + gap)
        place = (1.01, height)
        axes.annotate(text, place, xycoords=("axes fraction", "data"), color=colour, va="center", annotation_clip=False)
