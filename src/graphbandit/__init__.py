"""graphbandit: recommendations for many users who are joined by a graph.

| package | what is in it |
|---|---|
| `graph`, `live_graph`, `graphs`, `signals` | the user graph, one that changes, ways to build one, smooth vectors on it |
| `policies` | the algorithms, by family, and `POLICIES`, their names |
| `environments` | seeded streams of rounds to act in |
| `experiments` | `simulate`, `compare`, experiment files, tuning |
| `plots` | users by taste and uncertainty, regret, evidence, coverage, who learns from whom; imported when first used |
| `datasets` | MovieLens, Netflix, Last.fm, Delicious in one form |
| `paper`, `leaderboard` | every figure of the paper; every policy in every world |
| `recommending` | `Recommender`: your ids, your tables, around a policy |
| `first_look` | is it worth it on my data? one page answers |
| `diagnose`, `evaluation` | does my graph help? what would another policy earn? |
| `graph_building` | a graph from behaviour, judged on later events |
| `serving` | recommendations and rewards over HTTP, with a durable log |
| `adapters` | `sklearn`, `gymnasium`, `obp`: in the form that these libraries expect, imported when first used |
| `checks` | generic checks for any policy, ours or yours |
| `cli`, `demo` | the command `graphbandit` |
| `solvers` | the Laplacian-regularised estimate, dense, by pushing residuals, by conjugate gradients |
| `tables` | tables of any kind, read through DuckDB |
| `storage`, `validate`, `display`, `compute` | files; checks of arguments; reprs and HTML tables; compiled arithmetic |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import datasets, environments, graphs, policies, signals
from .experiments import DelayedTrace, Result, Trace, compare, simulate, simulate_delayed
from .graph import UserGraph
from .policies import *  # noqa: F403  # the policies are listed once, in `policies/__init__.py`

__version__ = "0.2.0"

__all__ = [
    "DelayedTrace",
    "Features",
    "Recommendation",
    "Recommender",
    "Result",
    "Trace",
    "UserGraph",
    "compare",
    "datasets",
    "environments",
    "graphs",
    "plots",
    "policies",
    "signals",
    "simulate",
    "simulate_delayed",
]
__all__ += policies.__all__

ADAPTERS = ("gymnasium", "obp", "sklearn")
"""Public too, but not in `__all__`: a star import would need their libraries."""

if TYPE_CHECKING:
    from . import plots as plots
    from .adapters import gymnasium as gymnasium
    from .adapters import obp as obp
    from .adapters import sklearn as sklearn
    from .recommending import Features as Features
    from .recommending import Recommendation as Recommendation
    from .recommending import Recommender as Recommender
else:

    def __getattr__(name: str) -> Any:
        """Import the recommender, the plots or an adapter on first use: a simulation needs none of them."""
        from importlib import import_module

        if name == "plots":
            return import_module(".plots", __name__)
        if name in ("Features", "Recommendation", "Recommender"):
            return getattr(import_module(".recommending", __name__), name)
        if name not in ADAPTERS:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            return import_module(f".adapters.{name}", __name__)
        except ModuleNotFoundError as error:
            from .validate import missing_package

            raise ImportError(missing_package(f"{__name__}.{name}", error.name, name)) from error


def __dir__() -> list[str]:
    return [*__all__, *ADAPTERS, "__version__"]
