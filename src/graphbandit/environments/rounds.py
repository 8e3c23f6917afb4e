"""Rounds, which environments draw up front, so that all policies meet the same ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from ..compute.arrays import Floats, Indices
from ..compute.compiler import compiled
from ..graph import UserGraph
from ..validate import as_floats, is_integer

CELLS_PER_BLOCK = 2_000_000
"""Rounds come in blocks of about this many offered arms.

Memory stays bounded, and Ctrl-C takes effect between blocks.
"""


class Rounds(NamedTuple):
    """A block of consecutive rounds, with everything about them that is random."""

    user: Indices  # (t,), who appears
    pool: Indices  # (t, k), the arms on offer, as rows of `arms`
    mean: Floats  # (t, k), their expected rewards
    noise: Floats  # (t,), added to the reward of whichever is chosen

    def __repr__(self) -> str:
        return f"Rounds({len(self.user):,} rounds, {self.pool.shape[1]:,} arms on offer in each)"


class Environment(Protocol):
    """A seeded stream of rounds over a fixed catalogue of arms."""

    graph: UserGraph
    arms: Floats  # (m, d)

    def rounds(self, horizon: int, seed: int | np.random.Generator) -> Iterator[Rounds]:
        """The first `horizon` rounds of the stream with this seed, in blocks."""
        ...


def streams(seed: int | np.random.Generator, *names: str) -> list[np.random.Generator]:
    """One independent generator for each name: drawing more from one leaves the others alone.

    If the seed is a generator, one integer is drawn from it and serves as the seed.
    """
    if isinstance(seed, np.random.Generator):
        seed = int(seed.integers(2**62))
    if not is_integer(seed) or seed < 0:
        raise ValueError(f"seed must be a non-negative integer or a NumPy generator, but it is {seed!r}.")
    return [np.random.default_rng([seed, *name.encode()]) for name in names]


def checked_graph(graph: UserGraph) -> UserGraph:
    """`graph`, or a ValueError if it is not a UserGraph."""
    if not isinstance(graph, UserGraph):
        raise ValueError(f"graph must be a UserGraph, but it is a {type(graph).__name__}.")
    return graph


def finite_matrix(values: npt.ArrayLike, name: str) -> Floats:
    """A copy of `values` as a matrix of finite numbers, or a ValueError that names the argument."""
    matrix = as_floats(values, name).copy()
    if matrix.ndim != 2 or matrix.size == 0 or not np.isfinite(matrix).all():
        raise ValueError(f"{name} must be a finite, non-empty array of two dimensions, but its shape is {matrix.shape}.")
    return matrix


@compiled
def draw_pools(rng: np.random.Generator, deck: Indices, pools: Indices) -> None:
    """Fill each row of `pools` with distinct, uniformly drawn entries of `deck`.

    Each row takes the first steps of a Fisher-Yates shuffle of the deck.
    """
    for row in range(pools.shape[0]):
        for k in range(pools.shape[1]):
            other = k + int(rng.random() * (deck.shape[0] - k))
            deck[k], deck[other] = deck[other], deck[k]
            pools[row, k] = deck[k]


@compiled
def expected_rewards(user: Indices, pool: Indices, truth: Floats, arms: Floats, mean: Floats) -> None:
    """Write mean[t, k] = x · θ for the k-th arm on offer in round t."""
    for t in range(pool.shape[0]):
        for k in range(pool.shape[1]):
            total = 0.0
            for j in range(arms.shape[1]):
                total += truth[user[t], j] * arms[pool[t, k], j]
            mean[t, k] = total
