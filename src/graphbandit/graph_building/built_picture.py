"""The candidates as a picture: the evidence of each, against its shuffles and against no graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..plots.candidate_plot import JudgedGraph, candidates
from ..plots.drawing import picture
from .built_graph import BuiltGraph

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(built: BuiltGraph, name: str) -> bytes:
    """The picture as a PNG, or as an SVG if `name` ends in .svg."""
    return picture(figure_of(built), "svg" if name.endswith(".svg") else "png")


def figure_of(built: BuiltGraph) -> Figure:
    """All candidates, with the verdict as the title."""
    rows = [JudgedGraph(one.name, one.n_edges, one.difference, one.shuffled, one.chosen) for one in built.candidates]
    title = f"A graph helps here: {built.chosen.name}" if built.chosen else "No graph helps here"
    events = built.candidates[0].n_events if built.candidates else 0
    note = f"{events:,} later events of {len(built.judged_users):,} users; dots: the graph, grey: its users shuffled"
    return candidates(rows, title=title, note=note)
