"""Environments: seeded streams of rounds over a catalogue of arms, in which policies act.

| module | what is in it |
|---|---|
| `rounds` | the protocol `Environment`, a block of `Rounds`, independent random `streams` |
| `linear` | `Linear`: rewards x·θ plus Gaussian noise |
| `drifting` | `Drifting`: `Linear` with users who change |
| `hits` | `Hits`: one of the items on offer is one that the user consumed |
| `recorded` | `Recorded`: rounds that were recorded or made elsewhere, with contexts in every round |
| `dataset_worlds` | `latent_world`, `lastfm_world` and `split_hits`: environments made from data sets |
"""

from __future__ import annotations

from .dataset_worlds import lastfm_world, latent_world, split_hits, tag_features
from .drifting import Drifting
from .hits import Hits
from .linear import Linear
from .recorded import Recorded
from .rounds import Environment, Rounds, streams

__all__ = [
    "Drifting",
    "Environment",
    "Hits",
    "Linear",
    "Recorded",
    "Rounds",
    "lastfm_world",
    "latent_world",
    "split_hits",
    "streams",
    "tag_features",
]


def __dir__() -> list[str]:
    return __all__
