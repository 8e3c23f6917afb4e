"""A graph from behaviour: candidates are built from earlier events and judged on later ones.

| module | what is in it |
|---|---|
| `event_tables` | what is given, as arrays: events, attributes, features of items, a graph |
| `event_split` | earlier and later events; what rewards mean |
| `user_sample` | whose events are judged, where there are many |
| `item_vectors` | features of items, latent ones by a truncated decomposition |
| `common_taste` | what everybody likes, and how much tastes vary around it |
| `candidate_graphs` | co-consumption, nearest behaviour, tastes and attributes, blends |
| `judging` | held-out evidence of a graph, against none and against shuffled ones |
| `building` | `build_graph`, all of this in order |
| `built_graph` | `BuiltGraph`: the graph, its candidates, the verdict in words |
| `built_picture` | the candidates as a picture |
"""

from __future__ import annotations

from .building import build_graph
from .built_graph import BuiltGraph
from .judging import Candidate

__all__ = ["BuiltGraph", "Candidate", "build_graph"]
