"""The policies, each in a short file of its own, and `POLICIES`: their names in files and on the command line."""

from __future__ import annotations

from .adaptive import AdaptiveGraphUCB
from .base import Choice, Policy, Scores
from .club import CLUB
from .cofiba import COFIBA
from .colin import CoLin
from .community import CommunityUCB
from .dccb import DCB, DCCB
from .dynucb import DynUCB
from .goblin import GobLin, GobLinBlock, GobLinMacro
from .graphucb import GraphUCB
from .graphucb_local import GraphUCBLocal
from .horde import HordeEpochGreedy, HordeTS
from .learner import GraphLearner
from .lints import LinTS
from .linucb import LinUCB
from .live import Removal
from .oful import OFUL
from .pending import Decision, Pending
from .sclub import SCLUB
from .spectral import SpectralTS, SpectralUCB
from .stochastic import Stochastic
from .uniform import Random

POLICIES: dict[str, type[Policy]] = {
    "random": Random,
    "linucb": LinUCB,
    "lints": LinTS,
    "graphucb": GraphUCB,
    "graphucb-local": GraphUCBLocal,
    "adaptive": AdaptiveGraphUCB,
    "graph-learner": GraphLearner,
    "goblin": GobLin,
    "goblin-block": GobLinBlock,
    "goblin-macro": GobLinMacro,
    "club": CLUB,
    "sclub": SCLUB,
    "dynucb": DynUCB,
    "community-ucb": CommunityUCB,
    "dccb": DCCB,
    "dcb": DCB,
    "oful": OFUL,
    "spectral-ucb": SpectralUCB,
    "spectral-ts": SpectralTS,
    "cofiba": COFIBA,
    "colin": CoLin,
    "horde-ts": HordeTS,
    "horde-eg": HordeEpochGreedy,
}

__all__ = [
    "CLUB",
    "COFIBA",
    "DCB",
    "DCCB",
    "OFUL",
    "POLICIES",
    "SCLUB",
    "AdaptiveGraphUCB",
    "Choice",
    "CoLin",
    "CommunityUCB",
    "Decision",
    "DynUCB",
    "GobLin",
    "GobLinBlock",
    "GobLinMacro",
    "GraphLearner",
    "GraphUCB",
    "GraphUCBLocal",
    "HordeEpochGreedy",
    "HordeTS",
    "LinTS",
    "LinUCB",
    "Pending",
    "Policy",
    "Random",
    "Removal",
    "Scores",
    "SpectralTS",
    "SpectralUCB",
    "Stochastic",
]
