"""The comparison of logs with propensities: off-policy estimates in place of rounds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..compute.arrays import Floats
from ..diagnose.judge import EARLIER
from ..evaluation import DecisionLog, Evaluation, evaluate
from ..graph import UserGraph
from ..graphs import empty
from ..policies import AdaptiveGraphUCB, GraphUCBLocal, LinUCB, Policy
from ..tables import Table
from .contenders import ADAPTIVE, ALONE, NO_GRAPH, SHARED

Make = Callable[..., Policy]
MOST_DECISIONS = 50_000


def off_policy(table: Table, features: Floats, item_ids: list[str], graph: UserGraph | None) -> Evaluation:
    """Estimate the rewards of other policies from the propensities in a table, whose rows are in order of time."""
    order = table.order()[-MOST_DECISIONS:]
    user, names = table.codes("user")
    item = table.codes("item", item_ids)[0]
    propensity = table.numbers("propensity", empty=True)
    log = DecisionLog(user[order], item[order], propensity[order], table.numbers("reward")[order], features, ids=tuple(names))
    joined = _over(graph, names)
    return evaluate(log, joined, contenders(joined), share=EARLIER, by_user=True)


def contenders(graph: UserGraph) -> dict[str, Make]:
    """The policies; those that need a graph if there is one."""
    bare = UserGraph(empty(graph.n_users).adjacency, graph.ids)
    found: dict[str, Make] = {
        ALONE: LinUCB,
        SHARED: lambda graph, dim, seed=0: LinUCB(graph, dim, shared=True, seed=seed),
        NO_GRAPH: lambda graph, dim, seed=0: AdaptiveGraphUCB(bare, dim, seed=seed),
    }
    if graph.n_edges:
        found["GraphUCB-Local"] = lambda graph, dim, seed=0: GraphUCBLocal(graph, dim, preset="recommended", seed=seed)
        found[ADAPTIVE] = AdaptiveGraphUCB
    return found


def _over(graph: UserGraph | None, names: list[str]) -> UserGraph:
    """The graph with all users of the log in it."""
    if graph is None:
        return UserGraph(empty(len(names)).adjacency, names)
    missing = [name for name in names if name not in graph.rows_by_id]
    if not missing:
        return graph
    n = graph.n_users + len(missing)
    bigger = graph.adjacency.copy()
    bigger.resize((n, n))
    return UserGraph(bigger, [*(graph.ids or map(str, np.arange(graph.n_users))), *missing])
