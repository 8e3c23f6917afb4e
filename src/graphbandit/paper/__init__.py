"""The paper, figure by figure: what each measures, shows and claims."""

from __future__ import annotations

from . import controls, coverage, estimation, late, learned, newcomers, real, regret, sweeps, theory
from .figure import Claim, Figure, Settings

ORDER = (
    "delta-smoothness",
    "psi-time",
    "regret-rbf",
    "regret-er",
    "regret-ba",
    "regret-ws",
    "smoothness-rbf",
    "sparsity-rbf",
    "sweep-er-p",
    "sweep-ba-m",
    "sweep-ws-p",
    "sweep-ws-m",
    "smoothness-graphs",
    "approximation",
    "noise-term",
    "graphs",
    "movielens",
    "netflix",
    "histograms",
    "coverage",
    "fixed-arms",
    "alpha",
    "controls",
    "delays",
    "bound",
    "lastfm",
    "newcomers",
    "newcomers-lastfm",
    "learned-graph",
    "learned-graph-lastfm",
)
_MODULES = (regret, sweeps, theory, estimation, coverage, controls, late, real, newcomers, learned)
_ALL = {figure.name: figure for module in _MODULES for figure in module.FIGURES}
FIGURES: dict[str, Figure] = {name: _ALL[name] for name in ORDER if name in _ALL}

__all__ = ["FIGURES", "Claim", "Figure", "Settings"]
