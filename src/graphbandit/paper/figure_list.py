"""The table of all figures, in the order of the paper and of the report, and their numbers in the paper."""

from __future__ import annotations

from . import (
    controls,
    cost,
    coverage,
    delays,
    estimation,
    forms,
    growth,
    inequalities,
    laplacians,
    learned_graphs,
    newcomers,
    real_data,
    regret_curves,
    sweeps,
    theory,
    topology,
)
from .figure_parts import Figure

FIGURES: dict[str, Figure] = {
    figure.name: figure
    for figure in (
        theory.DELTA_SMOOTHNESS_FIGURE,
        inequalities.DELTA_NORM_FIGURE,
        laplacians.LAPLACIANS_FIGURE,
        theory.PSI_TIME_FIGURE,
        theory.BOUND_FIGURE,
        growth.GROWTH_FIGURE,
        cost.COST_FIGURE,
        *regret_curves.FAMILY_FIGURES,
        *sweeps.SWEEP_FIGURES,
        sweeps.SMOOTHNESS_GRAPHS_FIGURE,
        estimation.APPROXIMATION_FIGURE,
        inequalities.APPENDIX_FIGURE,
        estimation.NOISE_TERM_FIGURE,
        topology.TOPOLOGY_FIGURE,
        sweeps.GRAPHS_FIGURE,
        *real_data.RATINGS_FIGURES,
        real_data.HISTOGRAMS_FIGURE,
        forms.FORMS_FIGURE,
        coverage.COVERAGE_FIGURE,
        regret_curves.FIXED_ARMS_FIGURE,
        controls.ALPHA_FIGURE,
        controls.CONTROLS_FIGURE,
        delays.DELAYS_FIGURE,
        real_data.LASTFM_FIGURE,
        newcomers.NEWCOMERS_FIGURE,
        newcomers.NEWCOMERS_LASTFM_FIGURE,
        learned_graphs.LEARNED_GRAPH_FIGURE,
        learned_graphs.LEARNED_GRAPH_LASTFM_FIGURE,
    )
}
PAPER_FIGURES = {
    "1a": "delta-smoothness",
    "1b": "psi-time",
    "2a": "regret-rbf",
    "2b": "regret-er",
    "3a": "smoothness-rbf",
    "3b": "sparsity-rbf",
    "4a": "movielens",
    "4b": "netflix",
    "5": "approximation",
    "6": "noise-term",
    "7a": "regret-rbf",
    "7b": "regret-er",
    "7c": "regret-ba",
    "7d": "regret-ws",
    "8": "smoothness-graphs",
    "9": "graphs",
    "10a": "smoothness-rbf",
    "10b": "sparsity-rbf",
    "10c": "sweep-er-p",
    "10d": "sweep-ba-m",
    "10e": "sweep-ws-p",
    "10f": "sweep-ws-m",
    "11": "histograms",
}
"""Number of a figure in the paper → name of ours. The other figures measure statements of its text, or go beyond it."""
