"""The report as one page: the regret figures, the table of claims, then every figure; the pictures lie beside it."""

from __future__ import annotations

import platform
import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jinja2 import Environment, PackageLoader
from markupsafe import Markup, escape

from .. import datasets
from ..experiments.testbeds import N_USERS
from ..storage.atomic import write_text
from . import FIGURES
from .algorithms import LITERAL_LOCAL, RELEASED_GOBLIN
from .claims import EQUAL, ERRATA, Claim, mean_interval
from .figure import SETTINGS, Data, Figure, ReproduceSettings

SUFFIXES: tuple[Literal["png", "pdf"], ...] = ("png", "pdf")
"""Formats of the pictures, which lie beside the page in the folder `figures`."""
WORDS = {
    "holds": ("yes", "✓", "reproduced"),
    "does not hold": ("no", "✗", "not reproduced"),
    "equal": ("same", "=", f"equal within {EQUAL:.0%}"),
    "more runs needed": ("open", "?", "more runs needed"),
}
"""Verdict → style, sign and words: a verdict can be read without its colour."""
BEYOND, CONTROLS = "Beyond the paper", (LITERAL_LOCAL, RELEASED_GOBLIN)
FIRST = tuple(f"regret-{family}" for family in ("rbf", "er", "ba", "ws"))


@dataclass
class Outcome:
    """A figure in one environment, with data and claims, or with sentences on the missing data sets."""

    figure: Figure
    setting: str
    data: Data | None = None
    claims: list[Claim] = field(default_factory=list)
    seconds: float = 0.0
    missing: str = ""
    needs: list[str] = field(default_factory=list)  # names of the data sets that are missing

    def __repr__(self) -> str:
        held = sum(claim.verdict == "holds" for claim in self.claims)
        return f"Outcome({self.figure.name!r}, {self.setting!r}, {held} of {len(self.claims)} claims hold)"

    def picture(self, suffix: str) -> str:
        """Return the path of the picture in the folder of the report."""
        return f"figures/{self.figure.name}{f'-{self.setting}' if self.figure.both else ''}.{suffix}"

    def anchored(self) -> list[tuple[str, Claim]]:
        """Return the claims with the anchors of their boxes on the page."""
        return [(f"{self.figure.name}-{self.setting}-{k}", claim) for k, claim in enumerate(self.claims, start=1)]

    @property
    def whose(self) -> str:
        """Return whose environment it is, in words; nothing for a figure that is the same in both."""
        return SETTINGS[self.setting] if self.figure.both else ""  # type: ignore[index]


def write_report(path: Path, outcomes: list[Outcome], settings: ReproduceSettings) -> None:
    """Fill the template and write it."""
    page = Environment(loader=PackageLoader("graphbandit.paper", "page"), autoescape=True, trim_blocks=True, lstrip_blocks=True)
    page.filters |= {"plain": plain, "marked": marked}
    by_figure: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        by_figure[outcome.figure.name].append(outcome)
    beyond = [part for part in by_figure.values() if part[0].figure.part == BEYOND]
    shared = {"words": WORDS, "settings": SETTINGS, "command": partial(command, settings), "errata": ERRATA, "finding": finding}
    shared |= {"about": about(outcomes, settings), "absent": absent_figures(outcomes, settings), "margin": f"{EQUAL:.0%}"}
    first = {
        "counts": [(whose, tally(outcomes, setting)) for setting, whose in SETTINGS.items()],
        "few": settings.runs if settings.quick or settings.runs < 10 else 0,
        "first": [by_figure[name] for name in FIRST if name in by_figure],
        "table": claim_table(outcomes),
        "regrets": regret_table(outcomes),
        "figures": [part for part in by_figure.values() if part not in beyond],
        "beyond": beyond,
    }
    template = page.get_template("report.html")
    write_text(path, template.render(shared | first))
    write_text(path.with_name("beyond.html"), template.render(shared | {"figures": beyond, "second": True}))


def claim_table(outcomes: Iterable[Outcome]) -> Rows:
    """Return part → quotation and section → statement → environment → verdicts with their labels and anchors."""
    parts: Rows = {}
    for outcome in outcomes:
        for anchor, claim in outcome.anchored():
            if not claim.beyond:
                quotes = parts.setdefault(outcome.figure.part, {}).setdefault(claim.quote, {})
                cells = quotes.setdefault(claim.claim, defaultdict(list))
                cells[outcome.setting if outcome.figure.both else ""].append((outcome.figure.label, anchor, claim))
    return parts


Rows = dict[str, dict[tuple[str, str], dict[str, dict[str, list[Any]]]]]


def tally(outcomes: Iterable[Outcome], setting: str) -> Counter[str]:
    """Count the paper's claims by verdict in one environment, without the repetitions at more noise and for other forms."""
    return Counter(
        claim.verdict
        for outcome in outcomes
        for claim in outcome.claims
        if not claim.beyond and not any(form in claim.claim for form in CONTROLS) and not outcome.figure.name.endswith("-noise")
        if outcome.setting == setting or not outcome.figure.both
    )


def finding(regret: dict[str, Any], form: str = "") -> str:
    """Return the algorithms of one form, from the lowest regret of a user to the highest."""
    ends = {name: runs if form else runs[:, -1] for name, runs in regret.items() if name.endswith(form)}
    last = {name.removesuffix(form): np.mean(runs) / N_USERS for name, runs in ends.items()}
    names = sorted((name for name in last if ", " not in name), key=last.__getitem__)
    return listed(f"{name} ({last[name]:.2f})" for name in names)


def regret_table(outcomes: Iterable[Outcome]) -> dict[str, dict[str, dict[str, str]]]:
    """Return noise and environment → algorithm → family → regret of all users at the horizon, with its interval."""
    tables: dict[str, dict[str, dict[str, str]]] = defaultdict(lambda: defaultdict(dict))
    for outcome in outcomes:
        if outcome.figure.name.startswith("regret-") and outcome.data:
            noise = "0.1" if outcome.figure.name.endswith("-noise") else "0.01"
            for name, runs in outcome.data["regret"].items():
                mean, low, high = mean_interval(np.asarray(runs)[:, -1])
                caption = f"{outcome.whose[0].upper()}{outcome.whose[1:]}, noise of standard deviation {noise}"
                tables[caption][name][outcome.figure.label] = f"{mean:.1f} ({low:.1f} to {high:.1f})"
    return tables


def absent_figures(outcomes: list[Outcome], settings: ReproduceSettings) -> str:
    """Say which figures of the paper the report lacks and how to get them, with commands between backticks."""
    found = {outcome.figure.name: outcome for outcome in outcomes}
    ways: dict[str, list[str]] = defaultdict(list)  # what to do → numbers of the absent figures
    for number, name in paper_numbers().items():
        for way in ways_to_get(found.get(name), settings):
            ways[way].append(number)
    if not ways:
        return f"All {len({number.rstrip('abcdef') for number in paper_numbers()})} figures of the paper are here."
    numbers = [number for number in paper_numbers() if any(number in part for part in ways.values())]
    figures = f"Figure {numbers[0]} of the paper is" if len(numbers) == 1 else f"Figures {listed(numbers)} of the paper are"
    several = [f"for {listed(part)}, {way}" for way, part in ways.items()]
    return f"{figures} absent: {'; '.join(several) if len(ways) > 1 else next(iter(ways))}."


def paper_numbers() -> dict[str, str]:
    """Return the number of every figure of the paper and the name of ours, in the order of the paper."""
    found = {number: figure.name for figure in FIGURES.values() for number in figure.numbers}
    return dict(sorted(found.items(), key=lambda pair: (int(pair[0].rstrip("abcdef")), pair[0])))


def listed(names: Iterable[str]) -> str:
    """Join names by commas, and the last one by "and"."""
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def ways_to_get(outcome: Outcome | None, settings: ReproduceSettings) -> list[str]:
    """Return what to do about each missing data set of a figure; nothing if the figure is there."""
    if outcome is None:  # neither asked for nor stored
        return [f"run `{command(settings)}`"]
    if not outcome.needs:
        return [outcome.missing[0].lower() + outcome.missing[1:].rstrip(".")] if outcome.missing else []
    ways = []
    for source in map(datasets.describe, outcome.needs):
        if source.url is not None:
            ways.append(f"run `{command(settings)}` with a network, which downloads {source.short_title}")
        else:
            add = "" if settings.data else " --data DIR"
            ways.append(f"put {source.archives[0]} from {source.page} into a folder DIR and run `{command(settings)}{add}`")
    return ways


def command(settings: ReproduceSettings, figure: str = "") -> str:
    """Return the command that makes this figure, or all of them, with these settings."""
    words = ["graphbandit reproduce"] + [figure] * bool(figure) + ["--quick"] * settings.quick
    words += [f"--runs {settings.runs}"] * (settings.runs != (3 if settings.quick else 20))
    return " ".join(words + ["--data DIR"] * bool(settings.data))


def marked(text: str) -> Markup:
    """Return text as HTML, with commands between backticks, addresses and entries of the errata marked as such."""
    html = re.sub("`(.+?)`", r"<code>\1</code>", str(escape(text)))
    html = re.sub(r"https://[^\s<]+", r'<a href="\g<0>">\g<0></a>', html)
    return Markup(re.sub(rf"\b({'|'.join(ERRATA)})\b", r'<a href="#\1">\1</a>', html))


def plain(value: Any) -> str:
    """Return a value of the evidence as text; a mean with its interval on one line."""
    if isinstance(value, dict) and set(value) == {"mean", "low", "high"}:
        return f"{value['mean']:.3g} ({value['low']:.3g} to {value['high']:.3g})"
    if isinstance(value, dict):
        return "; ".join(f"{name}: {plain(part)}" for name, part in value.items())
    if isinstance(value, list):
        return ", ".join(plain(part) for part in value)
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def about(outcomes: list[Outcome], settings: ReproduceSettings) -> dict[str, str]:
    """Return parameters, seeds, versions and time."""
    libraries = ", ".join(f"{n} {version(n)}" for n in ("graphbandit", "numpy", "scipy", "numba", "matplotlib"))
    return {
        "scale": f"{settings.runs} runs, {settings.horizon} rounds"
        + (", quick look: fewer values in sweeps and tuning" if settings.quick else ""),
        "seeds": f"0 to {settings.runs - 1} reported; from 10000 on for tuning only ({2 if settings.quick else 10} of them)",
        "bands": "95 % interval of the mean over runs (Student's); the intervals of claims are wider where runs are skewed",
        "verdicts": "95 % intervals over runs, paired over seeds; “equal” is an equivalence test at 5 % with a margin of "
        f"{EQUAL:.0%}",
        "time": f"{sum(outcome.seconds for outcome in outcomes):.0f} s of computation for the figures",
        "versions": f"{libraries}, Python {platform.python_version()}",
        "made": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
    }
