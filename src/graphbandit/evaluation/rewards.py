"""The reward model of the doubly robust estimate: AdaptiveGraphUCB's estimate, which weighs the graph by evidence."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ..compute.arrays import Floats, Ints
from ..graph import UserGraph
from ..policies import AdaptiveGraphUCB
from ..policies.adaptive.evidence import KINDS
from .logs import DecisionLog

BLOCKS = 10


def with_constant(arms: Floats) -> Floats:
    """A column of ones, and features of mean square norm 1, for which the policy's grid of strengths is made."""
    scale = float(np.sqrt((arms**2).sum(axis=1).mean())) or 1.0
    return np.column_stack([np.ones(len(arms)), arms / scale])


def predictors(log: DecisionLog, graph: UserGraph, user: Ints, first: int) -> Floats:
    """(rounds from `first` on, 1 + dim) the vector whose product with a row of `with_constant(arms)` predicts its reward.

    The model is learned in order of time and renewed ten times on the way: every prediction relies on earlier rounds only,
    so that it is independent of what it is compared with, even if the logging policy learned.
    """
    model = AdaptiveGraphUCB(graph, 1 + log.dim, models=KINDS)
    shown = with_constant(log.arms)[log.arm]
    found, done = np.empty((len(log) - first, 1 + log.dim)), 0
    stops = np.linspace(first, len(log), min(BLOCKS, len(log) - first) + 1).round().astype(int).tolist()
    for begin, end in pairwise(stops):
        for t in range(done, begin):
            model.update(int(user[t]), shown[t], float(log.reward[t]))
        done = begin
        theta = {who: model.moments(who)[0] for who in np.unique(user[begin:end]).tolist()}
        for t in range(begin, end):
            found[t - first] = theta[int(user[t])]
    return found
