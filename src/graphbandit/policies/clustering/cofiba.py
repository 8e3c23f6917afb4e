"""COFIBA: items are clustered too, and users are clustered anew for each cluster of items.

Every cluster of items has a graph of users of its own, and clusters of users are its components.
Memory for g clusters of items is reserved at the start. What belongs to item cluster h is the h-th
of g equal parts of an array: users and slots h n ... h n + n - 1, edges h E ... h E + E - 1.
"""

from __future__ import annotations

from math import log, sqrt
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from ...compute.arrays import Floats, Ints
from ...compute.compiler import compiled
from ...compute.growable import growable_zeros
from ...compute.linalg import CANCELLATION, REFRESH_PERIOD, dot, invert_positive, multiply, symmetric_form
from ...compute.observations import Observations, no_observations, record
from ...graph import UserGraph
from ...graphs import empty
from ...validate import NOT_NEGATIVE, NOT_NEGATIVE_OR_INFINITE, Range, count, is_integer, one_of
from ..core.catalogue import Catalogue, catalogue, digest, item_of
from ..core.kernels import register
from ..core.live_users import Changes
from ..core.policy import Policy, Seed
from ..core.ridge import RADII, Radius, practical
from .clusters import ClusterModels, add_statistics, move_users, solve_cluster
from .decremental_graph import STARTS, DecrementalGraph, check_start_is_not_graph, cut_edge, decremental_graph, starting_graph


@compiled
def column_norms(columns: Floats, scale: float) -> Floats:
    """(m,) scale · ‖x‖ of every column x."""
    out = np.zeros(columns.shape[1])
    for i in range(columns.shape[0]):
        for c in range(columns.shape[1]):
            out[c] += columns[i, c] ** 2
    for c in range(columns.shape[1]):
        out[c] = scale * sqrt(out[c])
    return out


@compiled
def column_gaps(first: Floats, second: Floats, columns: Floats, out: Floats) -> None:
    """Write |first·x - second·x| of every column x."""
    for c in range(columns.shape[1]):
        out[c] = 0.0
    for i in range(columns.shape[0]):
        step = first[i] - second[i]
        for c in range(columns.shape[1]):
            out[c] += step * columns[i, c]
    for c in range(columns.shape[1]):
        out[c] = abs(out[c])


@compiled
def column_widths(inverse: Floats, columns: Floats, scale: float, row: Floats, out: Floats) -> None:
    """Write scale · sqrt(xᵀV⁻¹x) of every column x; `row`, (m,), is scratch.

    Only the lower half of the inverse is read, because it is symmetric.
    """
    m = columns.shape[1]
    for c in range(m):
        out[c] = 0.0
    for i in range(columns.shape[0]):
        for c in range(m):
            row[c] = 0.5 * inverse[i, i] * columns[i, c]
        for j in range(i):
            entry = inverse[i, j]
            for c in range(m):
                row[c] += entry * columns[j, c]
        for c in range(m):
            out[c] += columns[i, c] * row[c]
    for c in range(m):
        out[c] = scale * sqrt(max(0.0, 2.0 * out[c]))


@compiled
def frobenius_norm(matrix: Floats) -> float:
    """sqrt(Σ entries²), which is at least the largest eigenvalue of a symmetric matrix."""
    total = 0.0
    for i in range(matrix.shape[0]):
        total += dot(matrix[i], matrix[i])
    return sqrt(total)


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
    """Return the parts of a state without observations; `open_item_cluster` is still to be called."""
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
    """Return the models of the users as they are clustered for item cluster h: a view."""
    m, n = state.models, state.first_cluster.shape[0]
    return ClusterModels(m.seen, m.theta, m.cluster[h * n : (h + 1) * n], m.pooled, m.inverse, m.centre, m.members, m.ridge)


@compiled
def edges_for(state: COFIBAState, h: int) -> DecrementalGraph:
    """Return the graph of users of item cluster h: a view."""
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


COMPLETE_ITEMS = 50  # a complete graph tests a chosen item against all others


@compiled
def radius(state: COFIBAState) -> float:
    """Return beta = exploration times sqrt(log(1 + t)) or 1."""
    return state.exploration * practical(state.schedule, state.rounds[0])


@compiled
def scores(state: COFIBAState, user: int, arms: Floats, items: Ints, mean: Floats, bonus: Floats) -> None:
    """Write for each arm the scores by the pooled data of the user's cluster in the arm's item cluster."""
    models, n = state.models, state.first_cluster.shape[0]
    beta = radius(state)
    for a in range(arms.shape[0]):
        h = 0 if state.n_item_clusters[0] == 1 else state.item_cluster[item_of(state.items, arms[a])]
        c = models.cluster[h * n + user]
        mean[a] = dot(arms[a], models.centre[c])
        bonus[a] = beta * sqrt(max(0.0, symmetric_form(models.inverse[c], arms[a])))


@compiled
def observe(seen: Observations, inverse: Floats, theta: Floats, ridge: float, x: Floats, reward: float, block: int) -> None:
    """Learn in one ridge regression, of a user or of a cluster.

    The same as `follow_gram` and `multiply` in half the passes: a round does up to g of these.
    """
    dim, gain, matrix, vector = x.shape[0], np.zeros(x.shape[0]), inverse[block], theta[block]
    record(seen, block, x, reward)
    for j in range(dim):
        for i in range(dim):
            gain[i] += matrix[j, i] * x[j]  # V⁻¹x, by symmetry
    q = 1.0 + dot(x, gain)
    if seen.visits[block] % REFRESH_PERIOD == 0 or q > CANCELLATION:
        invert_positive(seen.gram[block], ridge, matrix)
        multiply(matrix, seen.bias[block], vector)
        return
    error = (reward - dot(x, vector)) / q
    for i in range(dim):
        vector[i] += error * gain[i]
        part = gain[i] / q
        for j in range(dim):
            matrix[i, j] -= part * gain[j]


@compiled
def update(state: COFIBAState, user: int, x: Floats, item: int, reward: float) -> None:
    """Learn in the user and in its cluster for each item cluster.

    Then cut the edges to users who are seen to differ, and after them to items.
    """
    m, n = state.models, state.first_cluster.shape[0]
    observe(m.seen, state.inverse, m.theta, m.ridge, x, reward, user)
    state.width_floor[user] = 1.0 / sqrt(m.ridge + frobenius_norm(m.seen.gram[user]))
    for h in range(state.n_item_clusters[0]):
        observe(m.pooled, m.inverse, m.centre, m.ridge, x, reward, m.cluster[h * n + user])
    state.rounds[0] += 1
    item = item_of(state.items, x)
    columns, tested = tested_features(state, item, x)
    differing, neighbours = cut_users(state, state.item_cluster[item], user, columns)
    for k in range(tested.shape[0]):
        if differing[k + 1] > state.tolerance * neighbours:
            cut_items(state, item, tested[k])


@compiled
def tested_features(state: COFIBAState, item: int, x: Floats) -> tuple[Floats, Ints]:
    """The features to test users with, as columns: x, then every item still joined to it.

    Also returns the edges to these items.
    """
    edges, m = state.item_edges, 0
    tested = np.empty(edges.start[item + 1] - edges.start[item], dtype=np.int64)
    if state.n_item_clusters[0] < state.n_user_clusters.shape[0]:  # no room: no item edge is cut any more
        for edge in range(edges.start[item], edges.start[item + 1]):
            if edges.alive[edge]:
                tested[m] = edge
                m += 1
    columns = np.empty((x.shape[0], m + 1))
    for i in range(x.shape[0]):
        columns[i, 0] = x[i]
    for k in range(m):
        item = edges.neighbour[tested[k]]
        for i in range(x.shape[0]):
            columns[i, k + 1] = state.items.features[item, i]
    return columns, tested[:m]


class COFIBA(Policy):
    """Collaborative filtering bandits: items are clustered, and users separately for each cluster.

    An arm x of item cluster h is scored with the pooled data of the user's cluster for h. After a
    round with user i and item x of cluster h, with CB_u(x) = alpha2 sqrt(xᵀV_u⁻¹x log(1 + t)) and
    w_u from the user's own data,

    * graph h of users loses (i, j) if |w_i·x - w_j·x| > CB_i(x) + CB_j(x); clusters of users are
      its components;
    * the graph of items loses (x, l) if another set of neighbours of i would have stayed, had l
      been chosen; clusters of items are its components. Both sets are judged by the same inequality
      among the same users, those who were neighbours of i in graph h before this round. So in a
      sparse graph nobody counts as different for never having been joined.

    When an item cluster splits, the part of the chosen item keeps its graph of users. How the
    others begin is reconstructed from memory of the article and two public codes, which disagree: a
    fresh connected graph, or a copy (`inherit`).

    Parameters
    ----------
    items : (N, dim) array
        The catalogue. An arm is recognised by its features; a vector that is no row of it counts as
        the nearest item.
    alpha2 : float
        Multiplies the widths of both tests. 0 cuts every served user off; infinity never cuts.
    start : {"auto", "complete", "random", "graph"}
        The graph of users to begin with, as in `CLUB`.
    item_start : {"auto", "complete", "random"}
        The graph of items to begin with: all pairs, or Erdős-Rényi with p = 3 log N / N. `auto` is
        `complete` up to 50 items.
    item_clusters : int
        Room for so many clusters of items (or as many as the starting graph has): memory is
        reserved for them. Once they are all in use the graph of items stays as it is; graphs of
        users go on losing edges.
    inherit : bool
        Whether a new item cluster begins with a copy of its parent's graph of users instead of the
        starting graph.
    tolerance : float
        Share of users by which two neighbourhoods may differ and still count as equal. 0 in the
        article, where one borderline user splits a cluster.
    ridge : float
        Regulariser of every block; 1 in the article. In low noise a smaller one is much better.
    radius : {"log", "constant"}
        beta / exploration: `sqrt(log(1 + t))`, or 1.
    exploration : float
        Multiplies the radius; 0 is the greedy control.
    seed
        Also draws the random starting graphs.

    References
    ----------
    Li, Karatzoglou & Gentile 2016, "Collaborative filtering bandits".

    Examples
    --------
    >>> from graphbandit import graphs
    >>> policy = COFIBA(graphs.empty(3), 2, items=[[1.0, 0.0], [0.0, 1.0]], alpha2=0.1)
    >>> policy.update(0, [1.0, 0.0], 1.0)  # user 0 knows only the first item, and is cut off for it
    >>> policy.item_clusters.tolist()
    [0, 1]
    >>> policy.user_clusters(0).tolist(), policy.user_clusters(1).tolist()
    ([1, 0, 0], [0, 0, 0])
    >>> policy.scores(1, [[1.0, 0.0], [0.0, 1.0]]).mean.tolist()
    [0.0, 0.0]
    """

    State = COFIBAState
    ranges = Policy.ranges | {
        "alpha2": NOT_NEGATIVE_OR_INFINITE,
        "start": one_of(STARTS),
        "item_start": one_of(("auto", "complete", "random")),
        "item_clusters": Range("at least 1", count().holds),
        "tolerance": NOT_NEGATIVE,
        "radius": one_of(RADII[1:]),
    }

    def __init__(
        self,
        graph: UserGraph,
        dim: int,
        *,
        items: npt.ArrayLike | None = None,
        alpha2: float = 0.2,
        ridge: float = 1.0,
        start: Literal["auto", "complete", "random", "graph"] = "auto",
        item_start: Literal["auto", "complete", "random"] = "auto",
        item_clusters: int = 16,
        inherit: bool = False,
        tolerance: float = 0.0,
        radius: Radius = "log",
        exploration: float = 0.1,
        seed: Seed = 0,
    ) -> None:
        super().__init__(graph, dim, locals())
        known = catalogue(items, self.dim)
        self.params["items"] = digest(known)
        user_graph = starting_graph(graph, start, self.rng)
        item_graph = starting_item_graph(len(known.features), item_start, self.rng)
        in_use = int(item_graph.components.max()) + 1
        room = max(in_use, min(int(item_clusters), len(known.features)))
        parts = state_parts(known, user_graph, item_graph, room, ridge)
        self.state = self.build_state(**parts, schedule=RADII.index(radius))
        for h in range(in_use):
            open_item_cluster(self.state._replace(inherit=False), h, h)

    def beta(self, user: int) -> float:
        """Return the radius of confidence for this user now."""
        return float(radius(self.state))

    @property
    def theta(self) -> Floats:
        """(n_users, dim) the vector of every user's cluster for item cluster 0, as a copy.

        A user has another vector for each item cluster.
        """
        models = self.state.models
        return np.asarray(models.centre[models.cluster[: self.n_users]])

    @property
    def item_clusters(self) -> Ints:
        """(N,) the cluster that each item belongs to now, as a copy."""
        return self.state.item_cluster.copy()  # type: ignore[no-any-return]

    @property
    def n_item_clusters(self) -> int:
        """Number of clusters of items now."""
        return int(self.state.n_item_clusters[0])

    def user_clusters(self, item_cluster: int) -> Ints:
        """(n_users,) the cluster that each user belongs to now for an item cluster, as a copy."""
        if not is_integer(item_cluster) or not 0 <= item_cluster < self.n_item_clusters:
            raise ValueError(f"item_cluster must be one of 0 to {self.n_item_clusters - 1}, but it is {item_cluster!r}.")
        begin = int(item_cluster) * self.n_users
        return self.state.models.cluster[begin : begin + self.n_users] - begin  # type: ignore[no-any-return]

    def follow_graph(self, users: Ints, changes: Changes) -> None:
        """Update the state after a change of the graph."""
        check_start_is_not_graph(self)


def starting_item_graph(n_items: int, start: str, rng: np.random.Generator) -> UserGraph:
    """Return the graph of items whose components are the first clusters of items."""
    if start == "auto":
        start = "complete" if n_items <= COMPLETE_ITEMS else "random"
    return starting_graph(empty(n_items), start, rng)


register(COFIBAState, scores=scores, update=update)
