"""The five algorithms of the paper, with Gob.Lin and CLUB tuned on separate seeds."""

from __future__ import annotations

from functools import partial
from typing import Any

from ..experiments import TUNING_SEEDS, Result, compare, tune
from ..experiments.compare import MakeEnvironment
from ..experiments.testbeds import SIGMA
from ..policies import CLUB, GobLin, GraphUCB, GraphUCBLocal, LinUCB
from .figure import ReproduceSettings
from .synthetic import existing

LITERAL_LOCAL = "GraphUCB-Local, Algorithm 2"
"""The control: Algorithm 2 taken literally. "GraphUCB-Local" itself is what Section 5 describes."""
PRINTED_POLICIES: dict[str, Any] = {
    "GraphUCB": partial(GraphUCB),
    "GraphUCB-Local": partial(GraphUCBLocal, preset="paper"),
    LITERAL_LOCAL: partial(GraphUCBLocal, preset="paper", rule="algorithm-2"),
}
"""The algorithms of the paper as printed."""
COMPETITORS = ("Gob.Lin", "CLUB", "LinUCB")
RELEASED_GOBLIN = "Gob.Lin, scripts' form"
"""The control: Gob.Lin with the prior of the authors' scripts. "Gob.Lin" itself has the combinatorial Laplacian of the text."""
GOBLIN_GRID = [round(0.1 * k, 1) for k in range(11)]
CLUB_GRID = [0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0]
Tuned = dict[str, float]


def algorithms(tuned: Tuned, *, alpha: float = 1.0, sigma: float = SIGMA, preset: str = "paper") -> dict[str, Any]:
    """Return the five algorithms in one of their forms; the printed form has the controls beside them."""
    shared: dict[str, Any] = {"alpha": alpha, "sigma": sigma, "preset": preset}
    old: Any = "released" if preset == "released" else "paper"
    out: dict[str, Any] = {
        "GraphUCB": partial(GraphUCB, **shared),
        "GraphUCB-Local": partial(GraphUCBLocal, **shared),
        "Gob.Lin": partial(GobLin, preset=old, exploration=tuned["Gob.Lin"]),
        "CLUB": partial(CLUB, preset=old, alpha2=tuned["CLUB"]),
        "LinUCB": partial(LinUCB, ridge=alpha, sigma=sigma),
    }
    if preset == "paper":
        out[LITERAL_LOCAL] = partial(GraphUCBLocal, rule="algorithm-2", **shared)
    if RELEASED_GOBLIN in tuned:
        out[RELEASED_GOBLIN] = partial(GobLin, preset="released", exploration=tuned[RELEASED_GOBLIN])
    return out


def tuned_baselines(make: MakeEnvironment, settings: ReproduceSettings, preset: Any = "paper", *, both: bool = False) -> Tuned:
    """Return the values of Gob.Lin's λ and CLUB's α₂ with the least mean regret on the tuning seeds.

    With `both`, the λ of the other form of Gob.Lin is tuned, too.
    """
    seeds = existing(make, TUNING_SEEDS[:2] if settings.quick else TUNING_SEEDS)
    grids: dict[str, Any] = {"Gob.Lin": (partial(GobLin, preset=preset), "exploration", GOBLIN_GRID)}
    grids["CLUB"] = (partial(CLUB, preset=preset), "alpha2", CLUB_GRID)
    if both:
        grids[RELEASED_GOBLIN] = (partial(GobLin, preset="released"), "exploration", GOBLIN_GRID)
    best: Tuned = {}
    for name, (policy, argument, values) in grids.items():
        grid = {argument: settings.few(values)}
        found = tune(policy, grid, make, settings.horizon, seeds=seeds, **settings.spreading)
        best[name] = found.best[argument]
    return best


def compare_algorithms(
    make: MakeEnvironment, settings: ReproduceSettings, *, extra: dict[str, Any] | None = None, **choices: Any
) -> tuple[Result, Tuned]:
    """Tune on the tuning seeds, then compare on the reported ones, as far as their environments exist."""
    tuned = tuned_baselines(make, settings, both=True)
    policies = algorithms(tuned, **choices) | (extra or {})
    seeds = existing(make, range(settings.runs))
    return compare(policies, make, settings.horizon, seeds=seeds, **settings.spreading), tuned
