"""Published confidence radii: how fast exploration grows with the rounds."""

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


@compiled
def confidence_ball(dim: int, rounds: int, delta: float) -> float:
    """sqrt(beta_t) of ConfidenceBall₂ in round t = rounds + 1, which is above 0 from t = 1 on.

    beta_t = max(128 d log t log(t²/delta), (8/3 log(t²/delta))²), Dani, Hayes & Kakade 2008, Algorithm 3.1.
    """
    log_t = log(1.0 + rounds)
    tail = 2.0 * log_t - log(delta)
    return sqrt(max(128.0 * dim * log_t * tail, (8.0 / 3.0 * tail) ** 2))
