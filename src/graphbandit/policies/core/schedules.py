"""The three published confidence radii: how fast exploration grows with the rounds."""

from __future__ import annotations

from math import log, sqrt
from typing import Literal

from ...compute.compiler import compiled

Radius = Literal["theory", "log", "constant"]
RADII = ("theory", "log", "constant")
THEORY, LOG, CONSTANT = range(3)


@compiled
def self_normalised(log_ratio: float, sigma: float, delta: float) -> float:
    """The noise part of the theoretical radius: sigma sqrt(log det V / det V_0 + 2 log 1/delta)."""
    return sigma * sqrt(max(0.0, log_ratio - 2.0 * log(delta)))


@compiled
def practical(schedule: int, rounds: int) -> float:
    """The radius without constants: sqrt(log(1 + t)) in round t = rounds + 1, or 1."""
    return sqrt(log(2.0 + rounds)) if schedule == LOG else 1.0
