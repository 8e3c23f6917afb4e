"""What is tuned: for every policy at most nine combinations, so that all get the same effort.

The values cover noise of 0.01 and of 0.3 and rewards of 0 and 1: a regulariser wants about the variance of the noise, a
bonus about its standard deviation. Mostly the grid is exploration times one setting of the structure: the strength of the
graph, the size or number of clusters, the width at which users part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

from .. import graphs
from ..graph import UserGraph
from ..jit import Ints
from ..policies import POLICIES, GobLinBlock, GobLinMacro

BONUS = [0.01, 0.1, 1.0]
MOST = 9


@dataclass(frozen=True)
class Grid:
    """Settings that are tuned, and settings that stay."""

    tuned: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    make: Callable[..., Any] | None = None  # in place of the policy's class

    def policy(self, name: str) -> Callable[..., Any]:
        """`function(graph, dim, **tuned)` with the fixed settings in it."""
        return partial(self.make or POLICIES[name], **self.fixed)


@lru_cache(maxsize=64)
def cut(graph: UserGraph, n_clusters: int) -> Ints:
    """`graphs.partition`, remembered: on a data set it takes seconds, and every run begins with it."""
    return graphs.partition(graph, n_clusters)


def goblin_block(graph: UserGraph, dim: int, *, group: int, seed: Any = 0, **settings: Any) -> GobLinBlock:
    """Gob.Lin in clusters of about `group` users: a fixed number of clusters would be huge on a large graph."""
    clusters = cut(graph, max(1, graph.n_users // group))
    return GobLinBlock(graph, dim, clusters=clusters, seed=seed, **settings)


def goblin_macro(graph: UserGraph, dim: int, *, clusters: int, seed: Any = 0, **settings: Any) -> GobLinMacro:
    """Gob.Lin on the graph of so many clusters, which are remembered."""
    return GobLinMacro(graph, dim, clusters=cut(graph, min(clusters, graph.n_users)), seed=seed, **settings)


GRIDS: dict[str, Grid] = {
    "random": Grid(),
    "linucb": Grid({"shared": [False, True], "ridge": [0.01, 0.1], "exploration": [0.01, 0.1]}, {"radius": "log"}),
    "lints": Grid({"shared": [False, True], "ridge": [0.01, 0.1], "scale": [0.01, 0.1]}),
    "oful": Grid({"ridge": [0.01, 0.1, 1.0], "exploration": [0.1, 0.3, 1.0]}),
    "adaptive": Grid({"exploration": [0.3, 1.0, 2.0]}),  # nothing else to tune
    # The form that works: Λ_i = V_i, and for the local rule gauss-seidel in place of the printed lemma.
    "graphucb": Grid({"alpha": [0.003, 0.03, 0.3, 3.0], "exploration": [0.1, 0.3]}, {"preset": "recommended"}),
    "graphucb-local": Grid({"alpha": [0.003, 0.03, 0.3, 3.0], "exploration": [0.1, 0.3]}, {"preset": "recommended"}),
    "goblin": Grid({"scale": [0.001, 0.01, 0.1], "exploration": [0.01, 0.1, 0.3]}),
    "goblin-block": Grid({"group": [5, 10], "scale": [0.01, 0.1], "exploration": [0.01, 0.1]}, make=goblin_block),
    "goblin-macro": Grid({"clusters": [2, 10], "scale": [0.01, 0.1], "exploration": [0.01, 0.1]}, make=goblin_macro),
    "club": Grid({"alpha2": [0.1, 0.2, 1.0], "exploration": [0.01, 0.1, 0.3]}),
    "sclub": Grid({"alpha_theta": [0.1, 0.3, 1.0], "exploration": BONUS}),
    "dynucb": Grid({"clusters": [2, 4, 16], "exploration": [0.01, 0.1, 0.3]}),
    "cofiba": Grid({"alpha2": [0.1, 0.3, 1.0], "exploration": [0.01, 0.1, 0.3]}),
    "community-ucb": Grid({"neighbours": [3, 5, 10], "exploration": [0.01, 0.1, 0.3]}),
    "dccb": Grid({"alpha2": [0.1, 0.3, 1.0], "exploration": [0.01, 0.1, 0.3]}),
    "dcb": Grid({"lag": [0, 4, 16], "exploration": [0.01, 0.1, 0.3]}),
    "colin": Grid({"ridge": [0.01, 0.1, 1.0], "exploration": [0.01, 0.1, 0.3]}),
    # Strength 1 at these sigmas is Gob.Lin's scale of 0.001, 0.01 and 0.1.
    "horde-ts": Grid({"sigma": [0.03, 0.1, 0.3], "scale": [0.1, 0.3, 1.0]}, {"strength": 1.0}),
    "horde-eg": Grid({"sigma": [0.03, 0.1, 0.3], "rate": [0.01, 0.1, 1.0]}, {"strength": 1.0}),
    "spectral-ucb": Grid({"ridge": [0.01, 0.1, 1.0], "exploration": BONUS}),
    "spectral-ts": Grid({"ridge": [0.01, 0.1, 1.0], "scale": BONUS}),
}
