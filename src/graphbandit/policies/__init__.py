"""The policies, each in a short file of its own, and `POLICIES`: their names in files and on the command line."""

from __future__ import annotations

from .adaptive.policy import AdaptiveGraphUCB
from .clustering.club import CLUB
from .clustering.cofiba import COFIBA
from .clustering.community import CommunityUCB
from .clustering.dccb import DCB, DCCB
from .clustering.dynucb import DynUCB
from .clustering.sclub import SCLUB
from .colin import CoLin
from .core.graph_changes import Removal
from .core.policy import Choice, Policy, Scores
from .goblin.block import GobLinBlock
from .goblin.macro import GobLinMacro
from .goblin.policy import GobLin
from .graphucb import GraphUCB
from .graphucb_local import GraphUCBLocal
from .horde.epoch_greedy import HordeEpochGreedy
from .horde.thompson import HordeTS
from .items.spectral_ts import SpectralTS
from .items.spectral_ucb import SpectralUCB
from .lints import LinTS
from .linucb import LinUCB
from .oful import OFUL
from .random import Random
from .wrappers.learner import GraphLearner
from .wrappers.pending import Decision, Pending
from .wrappers.stochastic import Stochastic

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
