"""The settings that are tuned: for every policy at most twelve combinations, so that all get the same effort.

The values suit noise of 0.01 and of 0.3, and rewards of 0 and 1: a good regulariser is about the
variance of the noise, a good bonus about its standard deviation. Most grids combine exploration
with one structural setting: the strength of the graph, the number or size of clusters, or the
width of the test that splits them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

from .. import graphs
from ..compute.arrays import Ints
from ..graph import UserGraph
from ..policies import POLICIES, GobLinBlock, GobLinMacro, Policy

LARGEST_GRID = 12
"""Combinations that a policy may have."""


@dataclass(frozen=True)
class Grid:
    """Settings that are tuned, and settings that are fixed."""

    tuned: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    make: Callable[..., Any] | None = None  # called instead of the policy's class

    def policy(self, name: str) -> Callable[..., Any]:
        """Return the function `make(graph, dim, **tuned)`, with the fixed settings filled in."""
        return partial(self.make or POLICIES[name], **self.fixed)


@lru_cache(maxsize=64)
def clusters_of(graph: UserGraph, n_clusters: int) -> Ints:
    """Return `graphs.partition`, cached: on a data set it takes seconds, and every run begins with it."""
    return graphs.partition(graph, n_clusters)


def goblin_block(graph: UserGraph, dim: int, *, group: int, seed: Any = 0, **settings: Any) -> GobLinBlock:
    """Return GobLinBlock with clusters of about `group` users: they stay small on a large graph."""
    clusters = clusters_of(graph, max(1, graph.n_users // group))
    return GobLinBlock(graph, dim, clusters=clusters, seed=seed, **settings)


def goblin_macro(graph: UserGraph, dim: int, *, clusters: int, seed: Any = 0, **settings: Any) -> GobLinMacro:
    """Return GobLinMacro with this many clusters."""
    return GobLinMacro(graph, dim, clusters=clusters_of(graph, min(clusters, graph.n_users)), seed=seed, **settings)


def usual_grid(policy: type[Policy]) -> Grid:
    """Return the grid of a policy that has no line in `CHOSEN`: the settings of `USUAL` that it has."""
    return Grid({name: values for name, values in USUAL.items() if name in inspect.signature(policy).parameters})


SMALL = [0.01, 0.1, 0.3]
USUAL: dict[str, Sequence[Any]] = {"ridge": [0.01, 0.1], "exploration": SMALL}
RIDGES = [0.05, 1.0]  # width of the test in clustering policies; 1, as in their articles, is too much at noise 0.01
CHOSEN: dict[str, Grid] = {
    "random": Grid(),
    "friends-ridge": Grid({"ridge": [0.01, 0.1, 1.0, 5.0], "friends": [0.0, 0.25, 1.0]}),
    "linucb": Grid({"shared": [False, True], "ridge": [0.01, 0.1], "exploration": SMALL}, {"radius": "log"}),
    "lints": Grid({"shared": [False, True], "ridge": [0.01, 0.1], "scale": SMALL}),
    "adaptive": Grid({"exploration": [0.3, 1.0, 2.0]}),  # it has nothing else to tune
    "oful": Grid({"ridge": [0.01, 0.1, 1.0], "exploration": [0.03, 0.1, 0.3, 1.0]}),
    # The form that works: Λ_i = V_i, and the rule gauss-seidel in place of the printed lemma.
    "graphucb": Grid({"alpha": [0.003, 0.03, 0.3, 3.0], "exploration": [0.1, 0.3, 1.0]}, {"preset": "recommended"}),
    "graphucb-local": Grid({"alpha": [0.003, 0.03, 0.3, 3.0], "exploration": [0.1, 0.3, 1.0]}, {"preset": "recommended"}),
    "goblin": Grid({"scale": [0.001, 0.01, 0.1, 1.0], "exploration": SMALL}),
    "goblin-block": Grid({"group": [5, 10], "scale": [0.01, 0.1], "exploration": SMALL}, make=goblin_block),
    "goblin-macro": Grid({"clusters": [2, 10], "scale": [0.01, 0.1], "exploration": SMALL}, make=goblin_macro),
    "club": Grid({"alpha2": [0.1, 0.3], "ridge": RIDGES, "exploration": SMALL}),
    "sclub": Grid({"alpha_theta": [0.1, 0.3], "ridge": RIDGES, "exploration": SMALL}),
    "dynucb": Grid({"clusters": [3, 12], "ridge": RIDGES, "exploration": SMALL}),
    "cofiba": Grid({"alpha2": [0.01, 0.1], "ridge": RIDGES, "exploration": SMALL}),
    "community-ucb": Grid({"resolution": [1.0, 10.0], "ridge": RIDGES, "exploration": SMALL}),
    # A lag of 0 shares nothing; that of the article, 4 log2 t epochs, is longer than these runs.
    "dccb": Grid({"lag": [1, 3], "alpha2": [0.1, 0.5], "exploration": SMALL}),
    "dcb": Grid({"lag": [1, 3], "ridge": RIDGES, "exploration": SMALL}),
    "colin": Grid({"ridge": [0.001, 0.01, 0.1, 1.0], "exploration": SMALL}),
    "tcb": Grid({"transfer": [0.03, 0.1, 0.3, 1.0], "exploration": SMALL}),
    # Strength 1 at these sigmas is Gob.Lin's scale of 0.0001, 0.001, 0.01 and 0.1.
    "horde-ts": Grid({"sigma": [0.01, 0.03, 0.1, 0.3], "scale": [0.1, 0.3, 1.0]}, {"strength": 1.0}),
    "horde-eg": Grid({"sigma": [0.01, 0.03, 0.1, 0.3], "rate": [0.01, 0.1, 1.0]}, {"strength": 1.0}),
    "spectral-ucb": Grid({"shared": [False, True], "ridge": [0.001, 0.01], "exploration": [0.01, 0.1, 1.0]}),
    "spectral-ts": Grid({"shared": [False, True], "ridge": [0.001, 0.01], "scale": [0.01, 0.1, 1.0]}),
}
GRIDS: dict[str, Grid] = {name: CHOSEN.get(name) or usual_grid(policy) for name, policy in POLICIES.items()}
