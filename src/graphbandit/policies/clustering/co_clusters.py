"""The state of COFIBA, and how its clusters of users and of items split.

Every cluster of items has a graph of users of its own, and clusters of users are its components.
Memory for g clusters of items is reserved at the start. What belongs to item cluster h is the h-th
of g equal parts of an array: users and slots h n ... h n + n - 1, edges h E ... h E + E - 1.
"""

from __future__ import annotations

from math import log, sqrt
from typing import Any, NamedTuple

import numpy as np

from ...compute.arrays import Floats, Ints
from ...compute.compiler import compiled
from ...compute.growable import growable_zeros
from ...compute.observations import Observations, no_observations
from ...graph import UserGraph
from ..items.catalogue import Catalogue
from .clusters import ClusterModels, add_statistics, move_users, solve_cluster
from .decremental_graph import DecrementalGraph, cut_edge, decremental_graph
from .feature_columns import column_gaps, column_norms, column_widths


class COFIBAState(NamedTuple):
    """n users, N items, E entries of the starting graph of users, room for g clusters of items."""

    items: Catalogue
    item_edges: DecrementalGraph
    item_cluster: Ints  # (N,)
    n_item_clusters: Ints  # (1,), in use; the rest of g is room
    models: ClusterModels  # `cluster` is (g n,), one slot for each item cluster and user; the slots are (g n,)
    inverse: Floats  # (n, d, d), V_u⁻¹ of a user alone
    width_floor: Floats  # (n,), lower bound of sqrt(xᵀV_u⁻¹x) / ‖x‖
    user_edges: DecrementalGraph  # `alive` is (g E,): a graph of users for each item cluster, all with the same first edges
    n_user_clusters: Ints  # (g,), slots in use in each part
    first_cluster: Ints  # (n,), components of the starting graph of users
    rounds: Ints  # (1,), observations so far
    schedule: int
    alpha2: float
    exploration: float
    tolerance: float
    inherit: bool


def state_parts(items: Catalogue, user_graph: UserGraph, item_graph: UserGraph, room: int, ridge: float) -> dict[str, Any]:
    """The parts of a state without observations; `open_item_cluster` is still to be called."""
    n, dim = user_graph.n_users, items.features.shape[1]
    user_edges = decremental_graph(user_graph)
    return dict(
        items=items,
        item_edges=decremental_graph(item_graph),
        item_cluster=item_graph.components.astype(np.int64),
        n_item_clusters=np.zeros(1, dtype=np.int64),
        models=unused_models(n, dim, room * n, ridge),
        inverse=np.tile(np.eye(dim) / ridge, (n, 1, 1)),
        width_floor=np.full(n, 1.0 / sqrt(ridge)),
        user_edges=user_edges._replace(alive=np.zeros(room * len(user_edges.alive), dtype=np.bool_)),
        n_user_clusters=np.zeros(room, dtype=np.int64),
        first_cluster=user_graph.components.astype(np.int64),
        rounds=np.zeros(1, dtype=np.int64),
    )


def unused_models(n: int, dim: int, slots: int, ridge: float) -> ClusterModels:
    """Models of n users and of empty slots; `np.zeros` takes no memory until a slot is used."""
    return ClusterModels(
        seen=no_observations(n, dim),
        theta=growable_zeros(n, dim),
        cluster=np.zeros(slots, dtype=np.int64),
        pooled=Observations(np.zeros((slots, dim, dim)), np.zeros((slots, dim)), np.zeros(slots, dtype=np.int64)),
        inverse=np.zeros((slots, dim, dim)),
        centre=np.zeros((slots, dim)),
        members=np.zeros(slots, dtype=np.int64),
        ridge=float(ridge),
    )


@compiled
def models_for(state: COFIBAState, h: int) -> ClusterModels:
    """The models of the users as they are clustered for item cluster h: a view."""
    m, n = state.models, state.first_cluster.shape[0]
    return ClusterModels(m.seen, m.theta, m.cluster[h * n : (h + 1) * n], m.pooled, m.inverse, m.centre, m.members, m.ridge)


@compiled
def edges_for(state: COFIBAState, h: int) -> DecrementalGraph:
    """The graph of users of item cluster h: a view."""
    e, m = state.user_edges, state.user_edges.neighbour.shape[0]
    return DecrementalGraph(e.start, e.neighbour, e.twin, e.alive[h * m : (h + 1) * m], e.visited, e.searches, e.found)


@compiled
def cut_users(state: COFIBAState, h: int, user: int, columns: Floats) -> tuple[Ints, int]:
    """Delete every edge (user, j) of graph h with |w·x - w_j·x| > CB(x) + CB_j(x).

    x is the first column. Returns for each column how many of the neighbours it would judge
    otherwise than the first, and how many neighbours there were.
    """
    edges, theta, m = edges_for(state, h), state.models.theta, columns.shape[1]
    scale = state.alpha2 * sqrt(log(1.0 + state.rounds[0]))
    own, other_width, gap, row = np.empty(m), np.empty(m), np.empty(m), np.empty(m)
    column_widths(state.inverse[user], columns, scale, row, own)
    norm = column_norms(columns, scale)
    differing, neighbours = np.zeros(m, dtype=np.int64), 0
    for edge in range(edges.start[user], edges.start[user + 1]):
        if not edges.alive[edge]:
            continue
        neighbours += 1
        other = edges.neighbour[edge]
        column_gaps(theta[user], theta[other], columns, gap)
        near, floor = True, state.width_floor[other]  # skips the width if its lower bound decides
        for c in range(m):
            near &= gap[c] <= own[c] + floor * norm[c]
        if near:
            continue
        column_widths(state.inverse[other], columns, scale, row, other_width)
        apart = gap[0] > own[0] + other_width[0]
        for c in range(1, m):
            differing[c] += (gap[c] > own[c] + other_width[c]) != apart
        if apart:
            part = cut_edge(edges, user, edge)
            if part.shape[0] > 0:
                move_users(models_for(state, h), part, h * theta.shape[0] + state.n_user_clusters[h])
                state.n_user_clusters[h] += 1
    return differing, neighbours


@compiled
def cut_items(state: COFIBAState, item: int, edge: int) -> None:
    """Delete an edge of the item, if there is room for one more cluster of items.

    If the item's cluster splits, its part keeps the graph of users and the other gets a new one.
    """
    h, new = state.item_cluster[item], state.n_item_clusters[0]
    if new == state.n_user_clusters.shape[0]:
        return
    part = cut_edge(state.item_edges, item, edge)
    if part.shape[0] == 0:
        return
    stays = part[0] == item  # the part found is the item's own: all others leave
    if stays:
        for i in range(state.item_cluster.shape[0]):
            if state.item_cluster[i] == h:
                state.item_cluster[i] = new
    for k in range(part.shape[0]):
        state.item_cluster[part[k]] = h if stays else new
    open_item_cluster(state, new, h)


@compiled
def open_item_cluster(state: COFIBAState, new: int, parent: int) -> None:
    """Set up graph, clusters and models of the users for a new item cluster.

    Users are joined as at the start, or with `inherit` as they are for the parent.
    """
    n = state.first_cluster.shape[0]
    state.n_item_clusters[0] = new + 1
    edges, old, models = edges_for(state, new), edges_for(state, parent), models_for(state, new)
    for edge in range(edges.alive.shape[0]):
        edges.alive[edge] = old.alive[edge] or not state.inherit
    for user in range(n):
        c = state.models.cluster[parent * n + user] - parent * n if state.inherit else state.first_cluster[user]
        models.cluster[user] = new * n + c
        models.members[new * n + c] += 1
        add_statistics(models.pooled, new * n + c, models.seen, user, 1.0)
        state.n_user_clusters[new] = max(state.n_user_clusters[new], c + 1)
    for c in range(state.n_user_clusters[new]):
        solve_cluster(models, new * n + c)
