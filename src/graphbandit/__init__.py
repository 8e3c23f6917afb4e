"""graphbandit: recommendations for many users who are joined by a graph."""

from __future__ import annotations

from . import datasets, environments, graphs, signals
from .experiments import Result, Trace, compare, simulate
from .graph import UserGraph
from .policies import (
    CLUB,
    COFIBA,
    DCB,
    DCCB,
    OFUL,
    POLICIES,
    SCLUB,
    AdaptiveGraphUCB,
    CoLin,
    CommunityUCB,
    DynUCB,
    GobLin,
    GobLinBlock,
    GobLinMacro,
    GraphUCB,
    GraphUCBLocal,
    HordeEpochGreedy,
    HordeTS,
    LinTS,
    LinUCB,
    Policy,
    Random,
    Scores,
    SpectralTS,
    SpectralUCB,
)

__version__ = "0.1.0"

__all__ = [
    "CLUB",
    "COFIBA",
    "DCB",
    "DCCB",
    "OFUL",
    "POLICIES",
    "SCLUB",
    "AdaptiveGraphUCB",
    "CoLin",
    "CommunityUCB",
    "DynUCB",
    "GobLin",
    "GobLinBlock",
    "GobLinMacro",
    "GraphUCB",
    "GraphUCBLocal",
    "HordeEpochGreedy",
    "HordeTS",
    "LinTS",
    "LinUCB",
    "Policy",
    "Random",
    "Result",
    "Scores",
    "SpectralTS",
    "SpectralUCB",
    "Trace",
    "UserGraph",
    "compare",
    "datasets",
    "environments",
    "graphs",
    "signals",
    "simulate",
]
