"""Regret over time on the four families of graphs, and with a fixed set of arms."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from .. import signals
from ..experiments.testbeds import FAMILIES, make_world, world
from .chart import Chart, Panel, curve
from .claims import REVERSED, Claim, estimate, lower
from .figure_parts import Data, Figure, ReproduceSettings
from .lineup import run_lineup

PRINTED = ("GraphUCB", "GraphUCB-Local", "Gob.Lin", "CLUB", "LinUCB")
LEMMA = (
    "Lemma 1 as printed multiplies by (A + 0.01 I)⁻¹, which explodes in directions that a user has not explored (errata E11); "
    "the dashed curve is the gauss-seidel rule with Λ = V, which works."
)
STRONG_PRIOR = (
    "With the combinatorial Laplacian, as printed, Gob.Lin's prior grows with the degree and over-smooths; the authors' code "
    "used a weaker one (errata E46, E47; --preset released)."
)


def run(settings: ReproduceSettings, *, family: str, fixed: bool = False) -> Data:
    """The five algorithms in one world, with baselines tuned on separate seeds."""
    result, tuned = run_lineup(world(family, fixed=fixed), settings)
    worlds = [make_world(family, seed, fixed=fixed) for seed in range(settings.runs)]
    return {
        "rounds": result.rounds,
        "regret": {name: result.regret[name] for name in result.names},
        "sparsity": np.array([signals.sparsity(env.graph) for env in worlds]),
        "smoothness": np.array([signals.smoothness(env.graph, env.truth) for env in worlds]),
        "tuned": tuned,
        "preset": settings.preset,
    }


def chart(data: Data, *, title: str) -> Chart:
    """Mean regret with bands; without GraphUCB-Local too, if its regret dwarfs the others."""
    series = [
        curve(name, data["rounds"], runs, style="line" if name in PRINTED else "dashed")
        for name, runs in data["regret"].items()
    ]
    panels = [Panel(title, "round", "cumulative regret", series)]
    highest = {one.name: max(one.y) for one in series}
    local = highest.pop("GraphUCB-Local", 0.0)
    # Lemma 1 can be so bad that the other curves cannot be told apart.
    if local > 3 * max(highest.values(), default=local):
        rest = [one for one in series if one.name != "GraphUCB-Local"]
        panels.append(Panel(f"{title}, without GraphUCB-Local as printed", "round", "cumulative regret", rest))
    return Chart(panels, columns=2)


def final(data: Data) -> dict[str, Any]:
    """Regret at the horizon, by algorithm and run."""
    return {name: np.asarray(runs)[:, -1] for name, runs in data["regret"].items()}


def claims(data: Data) -> list[Claim]:
    """GraphUCB < GraphUCB-Local < each of Gob.Lin and CLUB < LinUCB, pair by pair."""
    last = final(data)
    pairs = [("GraphUCB", "GraphUCB-Local")]
    pairs += [("GraphUCB-Local", other) for other in ("Gob.Lin", "CLUB")]
    pairs += [(other, "LinUCB") for other in ("Gob.Lin", "CLUB")]
    pairs += [("GraphUCB", other) for other in ("Gob.Lin", "CLUB", "LinUCB")]
    out = []
    for first, second in pairs:
        verdict, difference = lower(last[first], last[second])
        evidence = {
            first: estimate(last[first]),
            second: estimate(last[second]),
            "difference": difference,
            "tuned": data["tuned"],
        }
        reason = REVERSED
        if data["preset"] == "paper" and first == "GraphUCB-Local":
            reason = LEMMA
        elif data["preset"] == "paper" and first == "Gob.Lin":
            reason = STRONG_PRIOR
        out.append(Claim(f"{first} has lower regret than {second}", verdict, evidence, reason))
    return out


def fixed_claims(data: Data) -> list[Claim]:
    """GraphUCB against LinUCB. The paper describes this protocol but has no figure of it."""
    last = final(data)
    verdict, difference = lower(last["GraphUCB"], last["LinUCB"])
    evidence = {"GraphUCB": estimate(last["GraphUCB"]), "LinUCB": estimate(last["LinUCB"]), "difference": difference}
    reason = "Its radius is far too small at the start, so it stops exploring (errata E27, E28); pools explore by themselves."
    return [
        Claim(
            "GraphUCB has lower regret than LinUCB when every arm is available every round",
            verdict,
            evidence,
            reason,
        )
    ]


FAMILY_FIGURES = [
    Figure(
        f"regret-{family}",
        f"Regret on {label}",
        "Cumulative regret of the five algorithms; 20 users, 5 features, 50 of 500 arms on offer, γ = 7, σ = 0.01, α = 1.",
        partial(run, family=family),
        partial(chart, title=label),
        claims,
    )
    for family, label in FAMILIES.items()
]
FIXED_ARMS_FIGURE = Figure(
    "fixed-arms",
    "When every arm is always available",
    "The protocol of the paper's text: one fixed set of arms, here 100. Its experiments drew a fresh pool in every round.",
    partial(run, family="er", fixed=True),
    partial(chart, title="100 fixed arms, Erdős-Rényi"),
    fixed_claims,
    beyond=True,
)
