"""`Luck`: a random number for each of many arms, drawn only where one is needed to break a tie."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...compute.arrays import Floats, Ints

FEW = 64
JUMPING = ("PCG64", "PCG64DXSM")
"""Generators that make one number at each step and can jump ahead."""


class Luck:
    """The same numbers as `rng.random(n)`, which moves `rng` as far, but made when they are asked for.

    >>> rng, other = np.random.default_rng(0), np.random.default_rng(0)
    >>> luck, all_of_them = Luck(rng, 1000), other.random(1000)
    >>> bool(luck.some(np.array([7]))[0] == all_of_them[7]), rng.random() == other.random()
    (True, True)
    """

    def __init__(self, rng: np.random.Generator, n: int) -> None:
        bits: Any = rng.bit_generator
        self._drawn: Floats | None = None
        self._n = n
        if type(bits).__name__ not in JUMPING:
            self._drawn = rng.random(n)
            return
        self._kind, self._start = type(bits), bits.state
        bits.advance(n)
        if self._start["has_uint32"]:  # half a number that is left over; jumping has dropped it
            bits.state = bits.state | {name: self._start[name] for name in ("has_uint32", "uinteger")}

    def span(self, first: int, end: int) -> Floats:
        """The numbers from one place to another."""
        return self._drawn[first:end] if self._drawn is not None else self._from(first).random(end - first)

    def some(self, places: Ints) -> Floats:
        """The numbers at these places."""
        if self._drawn is None and len(places) > FEW:
            self._drawn = self._from(0).random(self._n)
        if self._drawn is not None:
            return self._drawn[places]
        return np.array([self._from(place).random() for place in places.tolist()])

    def _from(self, place: int) -> np.random.Generator:
        bits = self._kind(0)
        bits.state = self._start
        bits.advance(place)
        return np.random.Generator(bits)
