"""`build`: a graph from what users did, which is used only if it predicts what they did later."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..graph import UserGraph

if TYPE_CHECKING:
    from ..graph_building import BuiltGraph
    from ..tables import Source


def build(
    events: Source,
    *,
    attributes: Source | None = None,
    given: Source | UserGraph | None = None,
    items: Source | None = None,
    neighbours: int = 10,
    seed: int = 0,
    progress: Callable[[float, str], None] | None = None,
) -> BuiltGraph:
    """Build graphs from the earlier events, judge each on the later ones, and keep the best or none.

    Candidates are the graphs of co-consumption, of nearest factorised behaviour, of nearest learned
    tastes, of nearest attributes if there are any, the given graph, and the blend of the best two.
    Each is judged by the likelihood of later events, against no graph and against the same graph with
    its users shuffled, as in `diagnose`. Details: docs/howto/graph_building.md.

    Parameters
    ----------
    events : path, frame, mapping of names to columns, or Table
        The columns user, item and, optionally, reward and time.
    attributes : the same, optional
        A row for each user, with any columns of numbers and categories.
    given : the same, or UserGraph, optional
        A graph that you have: the columns user, friend and, optionally, weight.
    items : path, frame or mapping, optional
        A row for each item, with any columns of numbers and categories. Without it, features of
        items come from their users.
    neighbours : int
        Number of users with whom every user is joined.
    seed : int
        Of the shuffles, and of the sample of users if there are more than 30,000 events.
    progress : function of a share and a note, optional

    Returns
    -------
    BuiltGraph
        `graph`, `helps`, `verdict`, `candidates`; `str` says it in words, `write(path)` writes the
        edges and `picture(path)` a picture.

    Examples
    --------
    Users of two teams like opposite kinds of items:

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> user, item = rng.integers(60, size=900), rng.integers(8, size=900)
    >>> reward = np.where(user % 2 == item % 2, 1.0, -1.0) + rng.standard_normal(900)
    >>> events = {"user": user, "item": item, "reward": reward, "time": np.arange(900)}
    >>> items = {"item": np.arange(8), "kind": ["even", "odd"] * 4}
    >>> built = build(events, items=items, attributes={"user": np.arange(60), "team": ["a", "b"] * 30})
    >>> built.helps, built.chosen.name, built.graph.n_users
    (True, 'attributes', 60)
    """
    # The only import from a package above: `gb.graphs.build` is where one looks for it.
    from ..graph_building import build_graph

    return build_graph(
        events, attributes=attributes, given=given, items=items, neighbours=neighbours, seed=seed, progress=progress
    )
