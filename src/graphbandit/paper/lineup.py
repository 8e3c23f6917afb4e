"""The algorithms of the paper, in the printed and in the released form, with tuned baselines."""

from __future__ import annotations

from functools import partial
from typing import Any

from ..experiments import TUNING_SEEDS, Result, compare, tune
from ..experiments.testbeds import World
from ..policies import CLUB, GobLin, GraphUCB, GraphUCBLocal, LinUCB
from .figure import Settings

GOBLIN_GRID = [round(0.1 * k, 1) for k in range(11)]
CLUB_GRID = [0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0]


def algorithms(preset: str, tuned: dict[str, float]) -> dict[str, Any]:
    """The five algorithms. In the printed form Lemma 1 stands in GraphUCB-Local, so a rule that works is shown beside it."""
    lam, alpha2 = tuned["Gob.Lin"], tuned["CLUB"]
    if preset == "released":
        return {
            "GraphUCB": lambda g, d: GraphUCB(g, d, preset="released"),
            "GraphUCB-Local": lambda g, d: GraphUCBLocal(g, d, preset="released"),
            "Gob.Lin": lambda g, d: GobLin(g, d, preset="released", exploration=lam),
            "CLUB": lambda g, d: CLUB(g, d, preset="released", alpha2=alpha2),
            "LinUCB": LinUCB,
        }
    return {
        "GraphUCB": GraphUCB,
        "GraphUCB-Local": lambda g, d: GraphUCBLocal(g, d, preset="paper"),
        "Gob.Lin": lambda g, d: GobLin(g, d, exploration=lam),
        "CLUB": lambda g, d: CLUB(g, d, alpha2=alpha2),
        "LinUCB": LinUCB,
        "GraphUCB-Local, gauss-seidel": lambda g, d: GraphUCBLocal(g, d, preset="recommended"),
    }


def tuned_baselines(make: World, settings: Settings) -> dict[str, float]:
    """Gob.Lin's λ over [0, 1] and CLUB's α₂ over a grid: the values with the least mean regret on the tuning seeds."""
    seeds = TUNING_SEEDS[:2] if settings.quick else TUNING_SEEDS
    preset: Any = settings.preset
    best = {}
    for name, policy, argument, values in (
        ("Gob.Lin", GobLin, "exploration", GOBLIN_GRID),
        ("CLUB", CLUB, "alpha2", CLUB_GRID),
    ):
        make_policy = partial(policy, preset=preset)
        grid = {argument: settings.few(values)}
        tuned = tune(make_policy, grid, make, settings.horizon, seeds=seeds, workers=settings.workers)
        best[name] = tuned.best[argument]
    return best


def run_lineup(make: World, settings: Settings, *, extra: dict[str, Any] | None = None) -> tuple[Result, dict[str, float]]:
    """Tune on the tuning seeds, then compare on the reported ones."""
    tuned = tuned_baselines(make, settings)
    policies = algorithms(settings.preset, tuned) | (extra or {})
    return compare(policies, make, settings.horizon, seeds=range(settings.runs), workers=settings.workers), tuned
