"""A graph from behaviour: candidates are built from earlier events and judged on later ones.

| module | what is in it |
|---|---|
| `events` | the tables as arrays; earlier and later events, and what rewards mean |
| `candidate_graphs` | features of items; co-consumption, nearest behaviour, tastes and attributes, blends |
| `building` | `build_graph`, and `BuiltGraph`: the graph, its candidates and the verdict |
"""

from __future__ import annotations

from .building import BuiltGraph, Candidate, build_graph

__all__ = ["BuiltGraph", "Candidate", "build_graph"]
