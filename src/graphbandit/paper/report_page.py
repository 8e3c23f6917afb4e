"""The report as one page: what is absent, verdicts, then interactive figures; the pictures lie beside it."""

from __future__ import annotations

import html
import json
import platform
import re
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib.metadata import version
from importlib.resources import files as package_files
from pathlib import Path
from typing import Any, Literal

from .. import datasets
from ..storage.atomic import write_text
from .chart import Chart, as_json
from .claims import Claim
from .figure_list import PAPER_FIGURES
from .figure_parts import Data, Figure, ReproduceSettings
from .verdict_matrix import forms_table, in_words, listed, matrix

SUFFIXES: tuple[Literal["png", "pdf"], ...] = ("png", "pdf")
"""Formats of the pictures, which lie beside the page in the folder `figures`."""


@dataclass
class FigureOutcome:
    """A figure with data and claims, or with sentences on the missing data sets."""

    figure: Figure
    data: Data | None = None
    claims: list[Claim] = field(default_factory=list)
    seconds: float = 0.0
    chart: Chart | None = None
    missing: str = ""
    needs: list[str] = field(default_factory=list)  # names of the data sets that are missing

    def __repr__(self) -> str:
        held = sum(claim.holds for claim in self.claims)
        return f"FigureOutcome({self.figure.name!r}, {held} of {len(self.claims)} claims hold)"


def write_report(path: Path, entries: list[FigureOutcome], settings: ReproduceSettings) -> None:
    """Fill the template and write it."""
    page = package_files(__package__) / "page"
    parts = {
        "style": (page / "page.css").read_text(encoding="utf-8"),
        "script": (page / "page.js").read_text(encoding="utf-8"),
        "absent": marked(absent_figures(entries, settings)),
        "summary": summary(entries, settings),
        "matrix": matrix(entries),
        "words": in_words(entries),
        "forms": forms_table(entries),
        "verdicts": "\n".join(verdict_rows(entries)),
        "figures": "\n".join(section(entry, settings) for entry in entries),
        "about": about(entries, settings),
        "charts": json.dumps({e.figure.name: as_json(e.chart) for e in entries if e.chart}, separators=(",", ":")).replace(
            "</", "<\\/"
        ),
    }
    text = (page / "template.html").read_text(encoding="utf-8")
    for name, part in parts.items():
        text = text.replace(f"{{{{{name}}}}}", part)
    write_text(path, text)


def absent_figures(entries: list[FigureOutcome], settings: ReproduceSettings) -> str:
    """Say which figures of the paper the report lacks and how to get them, with commands between backticks.

    A second sentence names the figures beyond the paper whose data sets are missing.
    """
    outcomes = {entry.figure.name: entry for entry in entries}
    paper: dict[str, list[str]] = defaultdict(list)  # what to do → numbers of the absent figures
    for number, name in PAPER_FIGURES.items():
        for way in ways_to_get(outcomes.get(name), settings):
            paper[way].append(number)
    numbers = merged(number for part in paper.values() for number in part)
    if paper:
        figures = f"Figure {numbers[0]} of the paper is" if len(numbers) == 1 else f"Figures {listed(numbers)} of the paper are"
        text = f"{figures} absent: {in_one({way: merged(part) for way, part in paper.items()})}."
    else:
        text = f"All {len(merged(PAPER_FIGURES))} figures of the paper are here."
    beyond: dict[str, list[str]] = defaultdict(list)
    for name, entry in outcomes.items():
        for way in ways_to_get(entry, settings) if entry.figure.beyond else []:
            beyond[way].append(name)
    if beyond:
        names = dict.fromkeys(name for part in beyond.values() for name in part)
        text += f" Absent beyond the paper: {listed(names)}; {in_one(beyond)}."
    return text


def marked(text: str) -> str:
    """Return text as HTML, with commands between backticks and addresses marked as such."""
    text = re.sub("`(.+?)`", r"<code>\1</code>", html.escape(text))
    return re.sub(r"https://\S+", r'<a href="\g<0>">\g<0></a>', text)


def ways_to_get(entry: FigureOutcome | None, settings: ReproduceSettings) -> list[str]:
    """Return what to do about each missing data set of a figure; nothing if the figure is there."""
    if entry is None:  # neither asked for nor stored
        return [f"run `{command(settings)}`"]
    if not entry.needs:
        return [entry.missing[0].lower() + entry.missing[1:].rstrip(".")] if entry.missing else []
    ways = []
    for source in map(datasets.describe, entry.needs):
        if source.url is not None:
            ways.append(f"run `{command(settings)}` with a network, which downloads {source.short_title}")
        else:
            add = "" if settings.data else " --data DIR"
            ways.append(f"put {source.archives[0]} from {source.page} into a folder DIR and run `{command(settings)}{add}`")
    return ways


def in_one(ways: dict[str, list[str]]) -> str:
    """Join what to do with what it is for; the latter is left out if there is one thing to do."""
    return "; ".join(f"for {listed(names)}, {way}" for way, names in ways.items()) if len(ways) > 1 else next(iter(ways))


def merged(numbers: Iterable[str]) -> list[str]:
    """Return numbers of figures in the order of the paper; 4a and 4b become 4 if these are all parts of figure 4."""
    wanted = set(numbers)
    parts: dict[str, list[str]] = defaultdict(list)
    for number in PAPER_FIGURES:
        parts[number.rstrip("abcdef")].append(number)
    out = []
    for whole, part in parts.items():
        out += [whole] if wanted.issuperset(part) else [number for number in part if number in wanted]
    return out


def summary(entries: list[FigureOutcome], settings: ReproduceSettings) -> str:
    """How many claims of the paper were reproduced, and how many statements beyond it hold."""
    sentences = []
    for beyond, text in (
        (False, "Of {total} claims of the paper, <b>{held} were reproduced</b>, {failed} were not, and {open} are undecided."),
        (True, "Beyond the paper, {held} of {total} statements hold, {failed} do not, and {open} are undecided."),
    ):
        verdicts = [c.verdict for e in entries for c in e.claims if is_beyond(e, c) == beyond]
        if verdicts:
            held, failed, open_ = (verdicts.count(word) for word in ("holds", "does not hold", "undecided"))
            sentences.append(text.format(total=len(verdicts), held=held, failed=failed, open=open_))
    if settings.quick or settings.runs < 10:
        few = f"This is a quick look with {settings.runs} runs: many differences are smaller than their intervals."
        sentences.append(f"<b>{few}</b>")
    return " ".join(sentences)


def verdict_rows(entries: list[FigureOutcome]) -> list[str]:
    """One table row for each claim, with a link to its figure."""
    rows = []
    for entry in entries:
        for claim in entry.claims:
            rows.append(
                f'<tr><td><a href="#{entry.figure.name}">{entry.figure.name}</a></td><td>{html.escape(claim.claim)}</td>'
                f"<td>{verdict(entry, claim)}</td></tr>"
            )
    return rows


def is_beyond(entry: FigureOutcome, claim: Claim) -> bool:
    """Whether the paper does not say it: it has no such figure, or nothing in its text about it."""
    return entry.figure.beyond or claim.beyond


def verdict(entry: FigureOutcome, claim: Claim) -> str:
    """The verdict in words: only a claim of the paper can be "reproduced"."""
    style = {"holds": "yes", "does not hold": "no", "undecided": "open"}[claim.verdict]
    paper = {"holds": "reproduced", "does not hold": "not reproduced", "undecided": "undecided"}
    return f'<span class="{style}">{claim.verdict if is_beyond(entry, claim) else paper[claim.verdict]}</span>'


def section(entry: FigureOutcome, settings: ReproduceSettings) -> str:
    """A figure with its caption, downloads and claims."""
    figure = entry.figure
    numbers = [number for number, name in PAPER_FIGURES.items() if name == figure.name]
    title = f"Figure{'s' * (len(numbers) > 1)} {listed(numbers)}: {figure.title}" if numbers else figure.title
    head = f'<section id="{figure.name}"><h2>{html.escape(title)}</h2><p class="caption">{html.escape(figure.caption)}</p>'
    if entry.missing:
        return f'{head}<p class="missing">{marked(entry.missing)}</p></section>'
    links = " ".join(f'<a href="figures/{figure.name}.{suffix}">{suffix.upper()}</a>' for suffix in SUFFIXES)
    picture = f'<img alt="{html.escape(figure.title)}" src="figures/{figure.name}.png">'
    drawing = f'<div class="chart" data-chart="{figure.name}"><noscript>{picture}</noscript></div>'
    tools = f'<p class="tools">{links} <span>{entry.seconds:.1f} s</span> <code>{command(settings, figure.name)}</code></p>'
    return f"{head}{drawing}{tools}{tuned(entry)}{claim_boxes(entry)}</section>"


def command(settings: ReproduceSettings, figure: str = "") -> str:
    """Return the command that makes this figure, or all of them, with these settings."""
    words = ["graphbandit reproduce"] + [figure] * bool(figure)
    words += ["--quick"] * settings.quick + [f"--preset {settings.preset}"] * (settings.preset != "paper")
    words += [f"--runs {settings.runs}"] * (settings.runs != (3 if settings.quick else 20)) + ["--data DIR"] * bool(
        settings.data
    )
    return " ".join(words)


def tuned(entry: FigureOutcome) -> str:
    """The values that tuning chose."""
    values = (entry.data or {}).get("tuned")
    if not values:
        return ""
    symbols = {"Gob.Lin": "λ = ", "CLUB": "α₂ = "}
    chosen = "; ".join(f"{name}: {symbols.get(name, '')}{plain(value)}" for name, value in values.items())
    return f'<p class="tuned">Tuned on separate seeds: {html.escape(chosen)}.</p>'


def claim_boxes(entry: FigureOutcome) -> str:
    """The boxes of all claims of a figure."""
    return "".join(claim_box(entry, claim, f"{entry.figure.name}-{k}") for k, claim in enumerate(entry.claims, start=1))


def claim_box(entry: FigureOutcome, claim: Claim, name: str) -> str:
    """Verdict, sentence, reason, and the numbers on request; the matrix links to its name."""
    reason = f"<p>{html.escape(claim.explanation)}</p>" if claim.explanation else ""
    return (
        f'<details class="claim" id="{name}"><summary>{verdict(entry, claim)} {html.escape(claim.claim)}</summary>'
        f"{reason}{evidence(claim.evidence)}</details>"
    )


def evidence(numbers: dict[str, Any]) -> str:
    """The numbers behind a verdict as a small table; means with their intervals on one line."""
    rows = "".join(
        f"<tr><th>{html.escape(str(name))}</th><td>{html.escape(plain(value))}</td></tr>" for name, value in numbers.items()
    )
    return f'<table class="evidence">{rows}</table>'


def plain(value: Any) -> str:
    """A value as text."""
    if isinstance(value, dict) and set(value) == {"mean", "low", "high"}:
        return f"{value['mean']:g} ({value['low']:g} to {value['high']:g})"
    if isinstance(value, dict):
        return "; ".join(f"{name}: {plain(part)}" for name, part in value.items())
    if isinstance(value, list):
        return ", ".join(plain(part) for part in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def about(entries: list[FigureOutcome], settings: ReproduceSettings) -> str:
    """Parameters, seeds, versions, time."""
    rows = {
        "algorithms": f"{settings.preset} form (paper: the printed formulas; released: what the published code computes)",
        "scale": f"{settings.runs} runs, {settings.horizon} rounds"
        + (", quick look: fewer values in sweeps and tuning" if settings.quick else ""),
        "seeds": f"0 to {settings.runs - 1} reported; from 10000 on for tuning only ({2 if settings.quick else 10} of them)",
        "worlds": "20 users, 5 features, 50 of 500 unit arms, γ = 7, σ = δ = 0.01, α = 1, unless a figure says otherwise",
        "regret": "summed over users; the paper shows it per user, which is this divided by 20",
        "intervals": "95 %, Student's t over runs; comparisons are paired over seeds; what it leaves open is undecided",
        "time": f"{sum(e.seconds for e in entries):.0f} s of computation for the figures",
        "versions": ", ".join(f"{n} {version(n)}" for n in ("graphbandit", "numpy", "scipy", "numba", "matplotlib"))
        + f", Python {platform.python_version()}",
        "made": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
    }
    return "".join(f"<tr><th>{name}</th><td>{html.escape(text)}</td></tr>" for name, text in rows.items())
