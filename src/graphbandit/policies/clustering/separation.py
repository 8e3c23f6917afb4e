"""When two users count as different: their vectors are farther apart than the widths of both."""

from __future__ import annotations

from math import log, sqrt

from ...compute.arrays import Floats
from ...compute.compiler import compiled
from ...compute.linalg import squared_distance


@compiled
def width(visits: int) -> float:
    """F(T) = sqrt((1 + log(1 + T)) / (1 + T)): how far a vector from T observations may be off.

    This is CLUB's practical width, without its factor alpha2.
    """
    return sqrt((1.0 + log(1.0 + visits)) / (1.0 + visits))


@compiled
def distance(a: Floats, b: Floats) -> float:
    """‖a - b‖."""
    return sqrt(squared_distance(a, b))
