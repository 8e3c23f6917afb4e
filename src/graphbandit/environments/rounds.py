"""Rounds, which environments draw up front, so that all policies meet the same ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

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
    noise: Floats  # (t,), added to the reward of the chosen arm

    def __repr__(self) -> str:
        return f"Rounds({len(self.user):,} rounds, {self.pool.shape[1]:,} arms on offer in each)"


class Environment(Protocol):
    """A seeded stream of rounds over a fixed catalogue of arms."""

    graph: UserGraph
    arms: Floats  # (m, d)

    def rounds(self, horizon: int, seed: int | np.random.Generator) -> Iterator[Rounds]:
        """Yield the first `horizon` rounds of the stream with this seed, in blocks."""
        ...


def streams(seed: int | np.random.Generator, *names: str) -> list[np.random.Generator]:
    """Return one independent generator for each name, so that drawing more from one does not affect the others.

    If the seed is a generator, one integer is drawn from it and serves as the seed.
    """
    if isinstance(seed, np.random.Generator):
        seed = int(seed.integers(2**62))
    if not is_integer(seed) or seed < 0:
        raise ValueError(f"seed must be a non-negative integer or a NumPy generator, but it is {seed!r}.")
    return [np.random.default_rng([seed, *name.encode()]) for name in names]


def checked_rounds(environment: Environment, horizon: int, seed: int | np.random.Generator) -> Iterator[Rounds]:
    """Yield the blocks of `environment.rounds`, or raise a ValueError if a block is unusable or rounds are missing.

    Compiled code does not check bounds: a wrong row would read memory that belongs to something else.
    """
    done = 0
    for block in environment.rounds(horizon, seed):
        rounds = _checked_block(block, environment.graph.n_users, len(environment.arms), done)
        done += len(rounds.user)
        if done > horizon:
            break
        yield rounds
    if done != horizon:
        raise ValueError(
            f"environment must yield {horizon:,} rounds, as many as the horizon, but it yielded {done:,}"
            + (" or more; cut its last block." if done > horizon else f"; use a horizon of at most {done:,}.")
        )


def _checked_block(block: Rounds, n_users: int, n_arms: int, begin: int) -> Rounds:
    """Return the block as contiguous arrays of the types of `Rounds`; `begin` is the number of rounds before it."""
    if not isinstance(block, tuple) or len(block) != len(Rounds._fields):
        raise ValueError(
            f"environment must yield Rounds(user, pool, mean, noise), but it yielded a {type(block).__name__}; see Rounds."
        )
    given = Rounds(*block)
    n, k = (*getattr(given.pool, "shape", ()), 0, 0)[:2]
    columns: dict[str, Any] = {}
    for name, shape, end in (("pool", (n, k), n_arms), ("user", (n,), n_users), ("mean", (n, k), 0), ("noise", (n,), 0)):
        column: Any = getattr(given, name)
        kinds, dtype = ("iu", np.int32) if end else ("f", np.float64)
        if not isinstance(column, np.ndarray) or column.dtype.kind not in kinds or column.shape != shape or not k:
            found = (
                f"{column.dtype} of shape {column.shape}" if isinstance(column, np.ndarray) else f"a {type(column).__name__}"
            )
            raise ValueError(
                f"{name} of Rounds must be a NumPy array of {'integers' if end else 'floats'} of shape "
                f"{'(rounds, arms on offer)' if len(shape) == 2 else '(rounds,)'}, but it is {found}; see Rounds."
            )
        if n and not (column.min() >= 0 and column.max() < end if end else np.isfinite(column.sum())):
            wrong = ~((column >= 0) & (column < end) if end else np.isfinite(column)).reshape(n, -1).all(axis=1)
            if wrong.any():
                raise ValueError(
                    f"{name} of Rounds must hold {f'rows from 0 to {end - 1}' if end else 'finite numbers'}, but in round "
                    f"{begin + int(wrong.argmax())} it is {column[wrong.argmax()]}; correct what `rounds` yields."
                )
        columns[name] = np.require(column, dtype, ["C", "W"])  # for another type, compiled code would be compiled again
    return Rounds(**columns)


def checked_graph(graph: UserGraph) -> UserGraph:
    """Return `graph`, or raise a ValueError if it is not a UserGraph."""
    if not isinstance(graph, UserGraph):
        raise ValueError(f"graph must be a UserGraph, but it is a {type(graph).__name__}.")
    return graph


def finite_matrix(values: npt.ArrayLike, name: str) -> Floats:
    """Return a copy of `values` as a matrix of finite numbers, or raise a ValueError that names the argument."""
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
