"""The printed, the released and the recommended form of GraphUCB and GraphUCB-Local, side by side."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..experiments import compare
from ..experiments.testbeds import FAMILIES, world
from ..policies import GraphUCB, GraphUCBLocal, LinUCB
from .chart import Chart, Panel, curve
from .claims import FORMS, REVERSED, Claim, all_hold, below, estimate
from .figure_parts import Data, Figure, ReproduceSettings
from .regret_curves import LEMMA

PRESETS = {"printed": "paper", "released": "released", "recommended": "recommended"}
ALGORITHMS: dict[str, Any] = {"GraphUCB": GraphUCB, "GraphUCB-Local": GraphUCBLocal}
ORDERS = (("GraphUCB", "LinUCB"), ("GraphUCB-Local", "LinUCB"), ("GraphUCB", "GraphUCB-Local"))


def policies() -> dict[str, Any]:
    """Both algorithms in all forms, and LinUCB."""
    made = {
        f"{name}, {form}": partial(algorithm, preset=PRESETS[form]) for name, algorithm in ALGORITHMS.items() for form in FORMS
    }
    return made | {"LinUCB": LinUCB}


def run(settings: ReproduceSettings) -> Data:
    """In the worlds of the regret figures: curves (runs, rounds), on average over the families; final regret by family."""
    results = [
        compare(policies(), world(family), settings.horizon, seeds=range(settings.runs), **settings.spreading)
        for family in FAMILIES
    ]
    return {
        "rounds": results[0].rounds,
        "curves": {name: np.mean([result.regret[name] for result in results], axis=0) for name in policies()},
        "regret": {name: np.array([result.regret[name][:, -1] for result in results]).T for name in policies()},
    }


def chart(data: Data) -> Chart:
    """A panel for each algorithm: a curve for each form, and LinUCB."""
    panels = []
    for name in ALGORITHMS:
        shown = (*(f"{name}, {form}" for form in FORMS), "LinUCB")
        series = [curve(label, data["rounds"], data["curves"][label]) for label in shown]
        panels.append(Panel(f"{name}, mean of four families", "round", "cumulative regret", series))
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
