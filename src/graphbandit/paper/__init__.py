"""The paper, figure by figure: what each measures, shows and claims, and the report of all of them.

| file | content |
|---|---|
| `figures.toml` | every figure, with its texts, in the order of the report |
| `quotes.toml` | the words of the paper that claims refer to |
| `figure` | `Figure` and `ReproduceSettings` |
| `claims` | `Claim`, and how it is judged |
| `synthetic` | the environments of the text and of the authors' scripts |
| `algorithms` | the five algorithms, with tuned baselines |
| `regret` | Figures 2 and 7, and the topology of the graph |
| `theory` | Figure 1 and Theorem 1 |
| `sweeps` | Figures 3, 8, 9 and 10 |
| `real_data` | Figures 4 and 11 |
| `estimation` | Figures 5 and 6, and Appendix D |
| `coverage` | Lemma 2 and the cases after it |
| `laplacians` | Remark 1 |
| `growth` | regret and time against the number of users |
| `variants` | figures of ours: presets of the algorithms, parts of the environment, α |
| `chart` | the content of a figure as data, and its drawing |
| `reproduce` | runs figures, judges claims, writes the report |
| `report`, `page/` | the report as one HTML page |
"""

from __future__ import annotations

import tomllib
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from .claims import Claim
from .figure import Figure, ReproduceSettings

__all__ = ["FIGURES", "Claim", "Figure", "ReproduceSettings"]


def _figures() -> dict[str, Figure]:
    """Return the figures of `figures.toml`."""
    table: dict[str, dict[str, Any]] = tomllib.loads((Path(__file__).parent / "figures.toml").read_text(encoding="utf-8"))
    out = {}
    for name, given in table.items():
        entry = dict(given)
        while "like" in entry:
            entry = table[entry.pop("like")] | entry
        module, _, part = entry.pop("make").partition(".")
        run, chart, claims = (
            getattr(import_module(f".{module}", __name__), f"{verb}_{part}" if part else verb)
            for verb in ("run", "chart", "claims")
        )
        out[name] = Figure(name, run=partial(run, **entry.get("arguments", {})), chart=chart, claims=claims, **entry)
    return out


FIGURES = _figures()
"""All figures, in the order of the report."""
