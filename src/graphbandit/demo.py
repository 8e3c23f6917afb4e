"""`graphbandit demo`: six algorithms on random graphs, as a table and a picture."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from .experiments import Result, compare, testbeds
from .plots.drawing import require_matplotlib, save
from .plots.regret_plot import regret
from .policies import CLUB, AdaptiveGraphUCB, GobLin, GraphUCB, GraphUCBLocal, LinUCB

# Gob.Lin has the prior of the paper's authors and the best exploration of [0, 1]; CLUB has the
# rule of its article.
POLICIES: dict[str, Any] = {
    "AdaptiveGraphUCB": AdaptiveGraphUCB,
    "GraphUCB": GraphUCB,
    "GraphUCB-Local": GraphUCBLocal,
    "CLUB": CLUB,
    "Gob.Lin": lambda graph, dim: GobLin(graph, dim, preset="released", exploration=0.5),
    "LinUCB": LinUCB,
}
world = testbeds.world("er")  # 20 users on an Erdős-Rényi graph, 5 features, 50 of 500 arms on offer


def run(*, runs: int, horizon: int, workers: int, progress: Callable[[int, int], None]) -> Result:
    """Compare the algorithms."""
    return compare(POLICIES, world, horizon, seeds=range(runs), workers=workers, progress=progress)


def show(result: Result, picture: Path) -> None:
    """Print the table and write the picture."""
    Console().print(table(result))
    plot(result, picture)


def check_picture(picture: Path) -> None:
    """Raise a ValueError, before any work is done, if the picture cannot be drawn."""
    require_matplotlib()
    if picture.suffix not in (".png", ".pdf", ".svg"):
        raise ValueError(f"out must end in .png, .pdf or .svg, but it is {picture}.")


def table(result: Result) -> Table:
    """Return a table of final regret with intervals, best policy first."""
    horizon, runs = result.provenance["horizon"], len(result.seeds)
    view = Table(title=f"Regret after {horizon} rounds, {runs} runs, 20 users on an Erdős-Rényi graph", title_justify="left")
    view.add_column("policy")
    for heading in ("regret", "95 % interval", "less than LinUCB by", "µs a round"):
        view.add_column(heading, justify="right")
    for name in sorted(result.names, key=lambda name: result.final(name).mean):
        mean, low, high = result.final(name)
        saved = result.difference("LinUCB", name)
        micros = 1e6 * float(np.median(result.seconds[name])) / horizon
        gain = "" if name == "LinUCB" else f"{saved.mean:.1f} ± {saved.high - saved.mean:.1f}"
        view.add_row(name, f"{mean:.1f}", f"{low:.1f} – {high:.1f}", gain, f"{micros:.1f}")
    return view


def plot(result: Result, path: Path) -> None:
    """Plot regret over time with 95 % bands."""
    path.parent.mkdir(parents=True, exist_ok=True)
    save(regret(result, title="What one user teaches helps its neighbours"), path)
