"""The reward model of the doubly robust estimate: AdaptiveGraphUCB, which learns how far to trust the graph."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ..compute.arrays import Floats, Ints
from ..graph import UserGraph
from ..policies import AdaptiveGraphUCB
from .decision_log import DecisionLog

RENEWALS = 10


def with_constant(arms: Floats) -> Floats:
    """Return (m, 1 + dim): a column of ones, and the features scaled to mean square norm 1.

    The model's priors assume that scale.
    """
    scale = float(np.sqrt((arms**2).sum(axis=1).mean())) or 1.0
    return np.column_stack([np.ones(len(arms)), arms / scale])


def predictors(log: DecisionLog, graph: UserGraph, user: Ints, first: int) -> Floats:
    """Return vectors whose product with a row of `with_constant(arms)` predicts its reward.

    The shape is (rounds from `first` on, 1 + dim).

    The model learns in order of time, and the vectors are renewed ten times on the way. Every
    prediction relies on earlier rounds only. It is therefore independent of the reward that it is
    compared with, even if the logging policy learned.
    """
    model = AdaptiveGraphUCB(graph, 1 + log.dim, item_effects=False)  # a vector for each user is all it gives
    shown = with_constant(log.arms)[log.arm]
    found, done = np.empty((len(log) - first, 1 + log.dim)), 0
    stops = np.linspace(first, len(log), min(RENEWALS, len(log) - first) + 1).round().astype(int).tolist()
    for begin, end in pairwise(stops):
        model.update_many(user[done:begin], shown[done:begin], log.reward[done:begin])
        done = begin
        constant = np.concatenate([[model.level], np.zeros(log.dim)])
        theta = {who: model.moments(who).mean + constant for who in np.unique(user[begin:end]).tolist()}
        for t in range(begin, end):
            found[t - first] = theta[int(user[t])]
    return found
