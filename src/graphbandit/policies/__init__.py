"""The policies, one a file, by family; and `POLICIES`: their names in files and on the command line.

| module | what is in it |
|---|---|
| `random` | Random, the control that every policy must beat |
| `baselines` | ItemMean and FriendsRidge, plain baselines |
| `linucb` | LinUCB, per user or shared |
| `lints` | LinTS, linear Thompson sampling |
| `oful` | OFUL, LinUCB that seldom switches its estimate |
| `graphucb` | GraphUCB, the paper's exact algorithm |
| `confidence` | the confidence region of a user in GraphUCB and GraphUCB-Local: metric and radius |
| `graphucb_local` | GraphUCB-Local, the paper's scalable algorithm |
| `goblin` | Gob.Lin, Gob.Lin BLOCK and Gob.Lin MACRO |
| `colin` | CoLin, users who mix each other's tastes |
| `tcb` | TCB, neighbours as the source domain of a transfer |
| `horde` | Horde of bandits, Thompson sampling and epoch-greedy |
| `adaptive` | AdaptiveGraphUCB, the default: the strength of the graph by evidence |
| `clustering` | CLUB, SCLUB, DynUCB, COFIBA, CommunityUCB, DCCB, DCB |
| `spectral` | SpectralUCB and SpectralTS, on a graph of items |
| `wrappers` | policies around a policy: Stochastic, Pending |
| `core` | what all of them are built from; no policy is in it |
"""

from __future__ import annotations

import os
import sys
from importlib import import_module

from .adaptive.policy import AdaptiveGraphUCB
from .baselines import FriendsRidge, ItemMean
from .clustering.club import CLUB
from .clustering.cofiba import COFIBA
from .clustering.community import CommunityUCB
from .clustering.dccb import DCB, DCCB
from .clustering.dynucb import DynUCB
from .clustering.sclub import SCLUB
from .colin import CoLin
from .core.kernels import Choice, Scores
from .core.live_users import Removal
from .core.policy import Policy
from .goblin import GobLin, GobLinBlock, GobLinMacro
from .graphucb import GraphUCB
from .graphucb_local import GraphUCBLocal
from .horde import HordeEpochGreedy, HordeTS
from .lints import LinTS
from .linucb import LinUCB
from .oful import OFUL
from .random import Random
from .spectral import SpectralTS, SpectralUCB
from .tcb import TCB
from .wrappers.pending import Decision, Pending
from .wrappers.stochastic import Stochastic

POLICIES: dict[str, type[Policy]] = {
    "random": Random,
    "item-mean": ItemMean,
    "friends-ridge": FriendsRidge,
    "linucb": LinUCB,
    "lints": LinTS,
    "graphucb": GraphUCB,
    "graphucb-local": GraphUCBLocal,
    "adaptive": AdaptiveGraphUCB,
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
    "tcb": TCB,
    "horde-ts": HordeTS,
    "horde-eg": HordeEpochGreedy,
}


def policy_class(name: str) -> type[Policy]:
    """Return the policy of this name in `POLICIES`, or the class that "module:Class" names; its module is imported.

    Modules are looked for in the current folder too.

    >>> policy_class("graphbandit.policies:LinUCB") is policy_class("linucb")
    True
    """
    if isinstance(name, str) and name in POLICIES:
        return POLICIES[name]
    module, colon, kind = name.partition(":") if isinstance(name, str) else ("", "", "")
    if not colon:
        raise ValueError(
            f"policy must be one of {', '.join(POLICIES)}, or module:Class for one of your own, but it is {name!r}."
        )
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.append(os.getcwd())
    try:
        found = getattr(import_module(module), kind)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"policy {name!r} cannot be imported: {error}.") from None
    if not (isinstance(found, type) and issubclass(found, Policy)):
        raise ValueError(f"policy {name!r} must be a class derived from graphbandit.Policy, but it is {found!r}.")
    return found


def policy_name(kind: type[Policy]) -> str:
    """Return the name by which `policy_class` finds a class.

    >>> policy_name(LinUCB)
    'linucb'
    """
    return next((name for name, known in POLICIES.items() if known is kind), f"{kind.__module__}:{kind.__qualname__}")


__all__ = [
    "CLUB",
    "COFIBA",
    "DCB",
    "DCCB",
    "OFUL",
    "POLICIES",
    "SCLUB",
    "TCB",
    "AdaptiveGraphUCB",
    "Choice",
    "CoLin",
    "CommunityUCB",
    "Decision",
    "DynUCB",
    "FriendsRidge",
    "GobLin",
    "GobLinBlock",
    "GobLinMacro",
    "GraphUCB",
    "GraphUCBLocal",
    "HordeEpochGreedy",
    "HordeTS",
    "ItemMean",
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


def __dir__() -> list[str]:
    return __all__
