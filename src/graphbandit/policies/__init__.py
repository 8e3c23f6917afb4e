"""The policies, each in a short file of its own, and `POLICIES`: their names in files and on the command line."""

from __future__ import annotations

from .base import Policy, Scores
from .club import CLUB
from .goblin import GobLin, GobLinBlock, GobLinMacro
from .graphucb import GraphUCB
from .graphucb_local import GraphUCBLocal
from .lints import LinTS
from .linucb import LinUCB
from .oful import OFUL
from .spectral import SpectralTS, SpectralUCB
from .uniform import Random

POLICIES: dict[str, type[Policy]] = {
    "random": Random,
    "linucb": LinUCB,
    "lints": LinTS,
    "graphucb": GraphUCB,
    "graphucb-local": GraphUCBLocal,
    "goblin": GobLin,
    "goblin-block": GobLinBlock,
    "goblin-macro": GobLinMacro,
    "club": CLUB,
    "oful": OFUL,
    "spectral-ucb": SpectralUCB,
    "spectral-ts": SpectralTS,
}

__all__ = [
    "CLUB",
    "OFUL",
    "POLICIES",
    "GobLin",
    "GobLinBlock",
    "GobLinMacro",
    "GraphUCB",
    "GraphUCBLocal",
    "LinTS",
    "LinUCB",
    "Policy",
    "Random",
    "Scores",
    "SpectralTS",
    "SpectralUCB",
]
