"""The algorithms of the paper, in the printed and in the released form, with tuned baselines."""

from __future__ import annotations

from functools import partial
from typing import Any

from ..experiments import TUNING_SEEDS, Result, compare, tune
from ..experiments.compare import MakeEnvironment
from ..policies import CLUB, GobLin, GraphUCB, GraphUCBLocal, LinUCB
from .figure_parts import ReproduceSettings

GOBLIN_GRID = [round(0.1 * k, 1) for k in range(11)]
CLUB_GRID = [0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0]


def algorithms(preset: str, tuned: dict[str, float]) -> dict[str, Any]:
    """The five algorithms of the paper, with the tuned settings of Gob.Lin and CLUB.

    In the printed form GraphUCB-Local uses Lemma 1, which fails, so a rule that works is added.
    """
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


def tuned_baselines(make: MakeEnvironment, settings: ReproduceSettings) -> dict[str, float]:
    """The values of Gob.Lin's λ and CLUB's α₂ with the least mean regret on the tuning seeds."""
    seeds = TUNING_SEEDS[:2] if settings.quick else TUNING_SEEDS
    preset: Any = settings.preset
    best = {}
    for name, policy, argument, values in (
        ("Gob.Lin", GobLin, "exploration", GOBLIN_GRID),
        ("CLUB", CLUB, "alpha2", CLUB_GRID),
    ):
        make_policy = partial(policy, preset=preset)
        grid = {argument: settings.few(values)}
        tuned = tune(make_policy, grid, make, settings.horizon, seeds=seeds, **settings.spreading)
        best[name] = tuned.best[argument]
    return best


def run_lineup(
    make: MakeEnvironment, settings: ReproduceSettings, *, extra: dict[str, Any] | None = None
) -> tuple[Result, dict[str, float]]:
    """Tune on the tuning seeds, then compare on the reported ones."""
    tuned = tuned_baselines(make, settings)
    policies = algorithms(settings.preset, tuned) | (extra or {})
    return compare(policies, make, settings.horizon, seeds=range(settings.runs), **settings.spreading), tuned
