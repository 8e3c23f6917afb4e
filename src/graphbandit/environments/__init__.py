"""Worlds that policies act in: a seeded stream of rounds over a catalogue of arms."""

from __future__ import annotations

from .drifting import Drifting
from .linear import Linear
from .ratings import Hits, lastfm_world, latent_world, tag_features
from .rounds import Environment, Rounds, streams

__all__ = ["Drifting", "Environment", "Hits", "Linear", "Rounds", "lastfm_world", "latent_world", "streams", "tag_features"]
