"""graphbandit: recommendations for many users who are joined by a graph.

| room | what is in it |
|---|---|
| `graph`, `live_graph`, `graphs`, `signals` | the user graph, one that changes, ways to build one, smooth vectors on it |
| `policies` | the algorithms, by family, and `POLICIES`, their names |
| `environments` | seeded streams of rounds to act in |
| `experiments` | `simulate`, `compare`, experiment files, tuning |
| `datasets` | MovieLens, Netflix, Last.fm, Delicious in one form |
| `paper`, `leaderboard` | every figure of the paper; every policy in every world |
| `diagnose`, `evaluation` | does my graph help? what would another policy earn? |
| `graph_building` | a graph from behaviour, judged on later events |
| `serving` | recommendations and rewards over HTTP, with a durable log |
| `checks` | generic checks for any policy, ours or yours |
| `cli`, `demo` | the command `graphbandit` |
| `solvers` | the Laplacian-regularised estimate, dense, by pushing residuals, by conjugate gradients |
| `storage`, `validate`, `compute` | files; checks of arguments; compiled arithmetic |
"""

from __future__ import annotations

from . import datasets, environments, graphs, policies, signals
from .experiments import LateTrace, Result, Trace, compare, simulate, simulate_delayed
from .graph import UserGraph
from .policies import *  # noqa: F403  # the policies are listed once, in `policies/__init__.py`

__version__ = "0.2.0"

__all__ = [
    "LateTrace",
    "Result",
    "Trace",
    "UserGraph",
    "compare",
    "datasets",
    "environments",
    "graphs",
    "policies",
    "signals",
    "simulate",
    "simulate_delayed",
]
__all__ += policies.__all__
