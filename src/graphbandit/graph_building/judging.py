"""How much a graph helps to predict later events, once the earlier ones were learned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..compute.arrays import Floats, Ints
from ..diagnose import RewardLog
from ..diagnose.diagnosis import strengths
from ..diagnose.shuffle_test import TIE
from ..graph import UserGraph
from ..policies import AdaptiveGraphUCB
from ..policies.adaptive.evidence import GRAPH, KINDS, write_log_evidence


class HeldOut(NamedTuple):
    """Log evidence of the later events, given the earlier ones, in nats."""

    with_graph: float  # of the best model with the graph
    without: float  # of the best model without it; -inf if it was not asked for
    n_models: int  # with the graph: so many strengths and slacks were tried


def held_out_evidence(log: RewardLog, graph: UserGraph, n_earlier: int, place: Ints | None = None) -> HeldOut:
    """Let AdaptiveGraphUCB learn the log, and count only the evidence of the rows from `n_earlier` on.

    Parameters
    ----------
    log : RewardLog
        Its users are rows of the graph.
    graph : UserGraph
    n_earlier : int
        The rows before this one are learned first, and not counted.
    place : (n_users,) int array, optional
        For a shuffle: the row of the graph that each user takes. The models without a graph are
        then left out, because they do not change.
    """
    user = log.user if place is None else place[log.user]
    kinds = KINDS if place is None else ("alone", "graph")
    policy = AdaptiveGraphUCB(graph, log.dim, alphas=strengths(log), models=kinds, item_effects=False, trials=False)
    policy.update_many(user[:n_earlier], log.features[:n_earlier], log.reward[:n_earlier])
    before = np.empty_like(policy.state.evidence.squares)
    after = np.empty_like(before)
    write_log_evidence(policy.state.evidence, before)
    policy.update_many(user[n_earlier:], log.features[n_earlier:], log.reward[n_earlier:])
    write_log_evidence(policy.state.evidence, after)
    if place is not None:
        before[:GRAPH] = 0.0  # models that are left out have -inf before and after
    gained = after - before
    return HeldOut(float(gained[GRAPH:].max()), float(gained[:GRAPH].max()), int(gained[GRAPH:].size))
