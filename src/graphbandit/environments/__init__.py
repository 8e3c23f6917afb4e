"""Environments: seeded streams of rounds over a catalogue of arms, in which policies act.

| module | what is in it |
|---|---|
| `rounds` | the protocol `Environment`, a block of `Rounds`, independent random `streams` |
| `linear` | `Linear`: rewards x·θ plus Gaussian noise |
| `drifting` | `Drifting`: `Linear` with users who change |
| `hits` | `Hits`: one of the items on offer is one that the user consumed |
| `recorded` | `Recorded`: rounds that were recorded or made elsewhere, with contexts in every round |
| `from_datasets` | environments made from data sets: `linear_from_factors`, `hits_from_tags`, `hits_from_ratings` |
"""

from __future__ import annotations

from .drifting import Drifting
from .from_datasets import hits_from_ratings, hits_from_tags, linear_from_factors, tag_features
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
    "hits_from_ratings",
    "hits_from_tags",
    "linear_from_factors",
    "streams",
    "tag_features",
]


def __dir__() -> list[str]:
    return __all__
