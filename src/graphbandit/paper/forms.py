"""The printed, the released and the recommended form of GraphUCB and GraphUCB-Local, side by side."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..experiments import compare
from ..experiments.testbeds import FAMILIES, world
from ..plots.palette import colour
from ..policies import GraphUCB, GraphUCBLocal, LinUCB
from .chart import Chart, ChartSeries, Panel
from .claims import FORMS, REVERSED, Claim, all_hold, below, estimate
from .figure_parts import Data, Figure, ReproduceSettings
from .regret_curves import LEMMA

PRESETS = {"printed": "paper", "released": "released", "recommended": "recommended"}
ALGORITHMS: dict[str, Any] = {"GraphUCB": GraphUCB, "GraphUCB-Local": GraphUCBLocal}
ORDERS = (("GraphUCB", "LinUCB"), ("GraphUCB-Local", "LinUCB"), ("GraphUCB", "GraphUCB-Local"))
SHORT = {"rbf": "RBF", "er": "Erdős-Rényi", "ba": "Barabási-Albert", "ws": "Watts-Strogatz"}


def policies() -> dict[str, Any]:
    """Both algorithms in all forms, and LinUCB."""
    made = {
        f"{name}, {form}": partial(algorithm, preset=PRESETS[form]) for name, algorithm in ALGORITHMS.items() for form in FORMS
    }
    return made | {"LinUCB": LinUCB}


def run(settings: ReproduceSettings) -> Data:
    """Final regret in the worlds of the regret figures: (runs, families) by policy."""
    results = [
        compare(policies(), world(family), settings.horizon, seeds=range(settings.runs), **settings.spreading)
        for family in FAMILIES
    ]
    return {"regret": {name: np.array([result.regret[name][:, -1] for result in results]).T for name in policies()}}


def chart(data: Data) -> Chart:
    """A panel for each algorithm: regret on the four families, a curve for each form."""
    places = list(range(len(FAMILIES)))
    panels = []
    for name in ALGORITHMS:
        series = []
        for position, form in enumerate((*FORMS, "")):
            label = f"{name}, {form}" if form else "LinUCB"
            found = [estimate(runs) for runs in np.asarray(data["regret"][label]).T]
            mean, low, high = np.nan_to_num([[round(one[end], 2) for one in found] for end in ("mean", "low", "high")]).tolist()
            series.append(ChartSeries(label, places, mean, low, high, colour=colour(label, position)))
        families = ", ".join(f"{k} {SHORT[family]}" for k, family in enumerate(FAMILIES))
        panels.append(Panel(f"Final regret of {name}", families, "regret (log scale)", series, log_y=True))
    return Chart(panels)


def reason_of(name: str, form: str) -> str:
    """Why a form does not do what the paper says."""
    return LEMMA if (name, form) == ("GraphUCB-Local", "printed") else REVERSED


def claims(data: Data) -> list[Claim]:
    """The orders of the paper, on all four families at once, in every form."""
    regret, out = data["regret"], []
    for first, second in ORDERS:
        for form in FORMS:
            one = np.asarray(regret[f"{first}, {form}"])
            other = np.asarray(regret[second if second == "LinUCB" else f"{second}, {form}"])
            verdict = all_hold(below(gap, comparisons=len(FAMILIES)) for gap in (one - other).T)
            evidence = {
                f"{first} − {second}, {family}": estimate(gap) for family, gap in zip(FAMILIES, (one - other).T, strict=True)
            }
            statement = f"{first} has lower regret than {second} on all four families of graphs"
            out.append(
                Claim(
                    f"{statement}, {form} form",
                    verdict,
                    evidence,
                    reason_of(first, form),
                    form=form,
                    statement=statement,
                    brief=f"{one.mean():.3g} against {other.mean():.3g}",
                )
            )
    return out


FORMS_FIGURE = Figure(
    "forms",
    "Three forms of the same algorithms",
    "printed: the formulas of the paper; released: what the published code computes; recommended: what we would use. "
    "The worlds are those of the regret figures.",
    run,
    chart,
    claims,
    beyond=True,
)
