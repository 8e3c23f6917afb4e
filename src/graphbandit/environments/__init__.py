"""Worlds that policies act in: a seeded stream of rounds over a catalogue of arms."""

from __future__ import annotations

from .linear import Linear
from .rounds import Environment, Rounds, streams

__all__ = ["Environment", "Linear", "Rounds", "streams"]
