"""Plots: one function a plot, each returns a Matplotlib figure that the caller shows or saves.

| module | what is in it |
|---|---|
| `palette` | colours that colour-blind people can tell apart; a policy has the same one everywhere |
| `drawing` | figures, files, curves with bands, and labels at the ends of curves |
| `graph_layout` | `layout`: where the users of a graph are drawn |
| `user_graphs` | `tastes` and `uncertainty`: the graph with its users coloured |
| `regret_plot` | `regret`: curves of a comparison with bands |
| `evidence_plot` | `evidence`: the weights of AdaptiveGraphUCB's models |
| `coverage_plot` | `coverage`: how many rewards were inside intervals, against the nominal share |
| `learning_plot` | `who_learns_from_whom`, and `influence`, its numbers |
| `interval_plot` | `intervals`: means with intervals, best first |
| `candidate_plot` | `candidates`: graphs that were judged, against their shuffles |

Matplotlib, of the extra `plots`, is imported when a plot is drawn.
"""

from __future__ import annotations

from .candidate_plot import JudgedGraph, candidates
from .coverage_plot import coverage
from .drawing import picture, save
from .evidence_plot import evidence
from .graph_layout import layout
from .interval_plot import intervals
from .learning_plot import influence, who_learns_from_whom
from .palette import colour
from .regret_plot import regret
from .user_graphs import tastes, uncertainty, user_uncertainty

__all__ = [
    "JudgedGraph",
    "candidates",
    "colour",
    "coverage",
    "evidence",
    "influence",
    "intervals",
    "layout",
    "picture",
    "regret",
    "save",
    "tastes",
    "uncertainty",
    "user_uncertainty",
    "who_learns_from_whom",
]


def __dir__() -> list[str]:
    return __all__
