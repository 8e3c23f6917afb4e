"""States go to compiled code by pointer, and come out as they should."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple, cast

import numpy as np
import pytest

from graphbandit.compute.arrays import Floats, Ints
from graphbandit.compute.compiler import compiled
from graphbandit.compute.dispatch import generic


class Inner(NamedTuple):
    grid: Floats
    places: Ints
    flag: bool


class Outer(NamedTuple):
    first: Inner
    scale: float
    cube: Floats
    shift: int
    second: Inner


@generic
def total(state: Outer, weights: Floats) -> float:
    """A sum over everything."""
    raise NotImplementedError


@compiled
def total_of_outer(state: Outer, weights: Floats) -> float:
    result = state.scale * float(state.cube[state.shift, 0, 1])
    for part in range(2):
        inner = state.first if part == 0 else state.second
        if inner.flag:
            result += row_sum(inner, weights)
    return result


@compiled
def row_sum(inner: Inner, weights: Floats) -> float:
    result = 0.0
    for k in range(inner.places.shape[0]):
        row = inner.grid[inner.places[k]]
        for j in range(row.shape[0]):
            result += row[j] * weights[j]
            row[j] += 1.0
    return result


total.register(Outer, total_of_outer)


def outer(seed: int, transpose: bool = False) -> Outer:
    rng = np.random.default_rng(seed)

    def inner(flag: bool, n: int) -> Inner:
        grid = rng.standard_normal((4, 4))
        return Inner(grid.T if transpose else grid, rng.integers(4, size=n), flag)

    return Outer(inner(True, 3), 2.5, rng.standard_normal((2, 3, 4)), 1, inner(seed % 2 == 0, 0 if seed == 2 else 2))


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_fields_of_every_kind_are_read_and_arrays_written(seed: int, transpose: bool) -> None:
    here, there, weights = outer(seed, transpose), outer(seed, transpose), np.arange(4.0)
    assert total(here, weights) == getattr(total_of_outer, "py_func", total_of_outer)(there, weights)
    assert [field.tolist() for field in here.first[:2]] == [field.tolist() for field in there.first[:2]]


@pytest.mark.compiled
def test_a_state_is_one_pointer_and_its_arrays_are_given_back() -> None:
    state, weights, dispatcher = outer(0), np.ones(4), cast(Any, total_of_outer)
    total(state, weights)
    assert {type(kinds[0]).__name__ for kinds in dispatcher.entry.signatures} == {"StatePointer"}
    arrays = [state.cube, state.first.grid, state.second.places]
    before = [sys.getrefcount(array) for array in arrays]
    for _ in range(100):
        total(state, weights)
    assert [sys.getrefcount(array) for array in arrays] == before
