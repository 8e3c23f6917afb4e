"""COFIBA: items are clustered too, and users are clustered anew for each cluster of items."""

from __future__ import annotations

from math import inf, log, sqrt
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from ...compute.arrays import Floats, Ints
from ...compute.compiler import compiled
from ...compute.growable import growable_zeros
from ...compute.linalg import CANCELLATION, REFRESH_PERIOD, dot, invert_positive, multiply, quadratic_form
from ...compute.observations import Observations, no_observations, record
from ...graph import UserGraph
from ...graphs import empty
from ..core.catalogue import Catalogue, catalogue, digest, item_of
from ..core.graph_changes import Changes
from ..core.kernels import register
from ..core.policy import Policy, Seed, check_choice, check_dim, check_not_negative, check_positive
from ..core.schedules import RADII, Radius, practical
from .club import starting_graph
from .panels import frobenius, gaps, norms, widths
from .pools import Pools, pool, solve_pool, transfer
from .shrinking import Shrinking, cut, shrinking, split_part

COMPLETE_ITEMS = 50  # a complete graph tests a chosen item against all others


class COFIBAState(NamedTuple):
    """g = room for item clusters. What belongs to item cluster h is the h-th of g equal parts: slots h n ... h n + n - 1."""

    items: Catalogue
    item_edges: Shrinking
    item_cluster: Ints  # (N,)
    item_clusters: Ints  # (1,), in use; the rest of g is room
    pools: Pools  # `cluster` is (g n,), one slot for each item cluster and user; the slots are (g n,)
    inverse: Floats  # (n, d, d), V_u⁻¹ of a user alone
    reach: Floats  # (n,), ‖x‖ in the metric V_u⁻¹ is at least this times ‖x‖
    user_edges: Shrinking  # `alive` is (g E,): one graph of users for each item cluster, all with the same first edges
    user_clusters: Ints  # (g,), slots in use in each part
    first: Ints  # (n,), components of the starting graph of users
    rounds: Ints  # (1,), observations so far
    schedule: int
    alpha2: float
    exploration: float
    tolerance: float
    inherit: bool


@compiled
def users_for(state: COFIBAState, h: int) -> Pools:
    """The users as they are clustered for item cluster h: a view."""
    p, n = state.pools, state.first.shape[0]
    return Pools(p.seen, p.theta, p.cluster[h * n : (h + 1) * n], p.pooled, p.inverse, p.centre, p.members, p.ridge)


@compiled
def edges_for(state: COFIBAState, h: int) -> Shrinking:
    """The graph of users of item cluster h: a view."""
    e, m = state.user_edges, state.user_edges.neighbour.shape[0]
    return Shrinking(e.start, e.neighbour, e.twin, e.alive[h * m : (h + 1) * m], e.visited, e.searches, e.found)


@compiled
def score(state: COFIBAState, user: int, arms: Floats, mean: Floats, bonus: Floats) -> None:
    """For each arm LinUCB with the pooled data of the user's cluster in the arm's item cluster."""
    p, n = state.pools, state.first.shape[0]
    beta = state.exploration * practical(state.schedule, state.rounds[0])
    several = state.item_clusters[0] > 1  # if not, no need to recognise the arms
    for a in range(arms.shape[0]):
        h = state.item_cluster[item_of(state.items, arms[a])] if several else 0
        c = p.cluster[h * n + user]
        mean[a] = dot(arms[a], p.centre[c])
        bonus[a] = beta * sqrt(max(0.0, quadratic_form(p.inverse[c], arms[a])))


@compiled
def observe(seen: Observations, inverse: Floats, theta: Floats, ridge: float, x: Floats, reward: float, block: int) -> None:
    """Learn in one ridge regression, of a user or of a cluster.

    What `follow_gram` and `multiply` do, in half the passes: up to g of these are done in a round.
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
def update(state: COFIBAState, user: int, x: Floats, reward: float) -> None:
    """Learn in the user and in its cluster for each item cluster; then cut users, then items, that are seen to differ."""
    p, n = state.pools, state.first.shape[0]
    observe(p.seen, state.inverse, p.theta, p.ridge, x, reward, user)
    state.reach[user] = 1.0 / sqrt(p.ridge + frobenius(p.seen.gram[user]))
    for h in range(state.item_clusters[0]):
        observe(p.pooled, p.inverse, p.centre, p.ridge, x, reward, p.cluster[h * n + user])
    state.rounds[0] += 1
    item = item_of(state.items, x)
    panel, tested = panel_of(state, item, x)
    differing, candidates = cut_users(state, state.item_cluster[item], user, panel)
    for k in range(tested.shape[0]):
        if differing[k + 1] > state.tolerance * candidates:
            cut_items(state, item, tested[k])


@compiled
def panel_of(state: COFIBAState, item: int, x: Floats) -> tuple[Floats, Ints]:
    """Features to test users with, as columns: x, then the items still joined to it; and the edges to the latter."""
    edges, m = state.item_edges, 0
    tested = np.empty(edges.start[item + 1] - edges.start[item], dtype=np.int64)
    if state.item_clusters[0] < state.user_clusters.shape[0]:  # no room: no item edge is cut any more
        for edge in range(edges.start[item], edges.start[item + 1]):
            if edges.alive[edge]:
                tested[m] = edge
                m += 1
    panel = np.empty((x.shape[0], m + 1))
    for i in range(x.shape[0]):
        panel[i, 0] = x[i]
    for k in range(m):
        item = edges.neighbour[tested[k]]
        for i in range(x.shape[0]):
            panel[i, k + 1] = state.items.features[item, i]
    return panel, tested[:m]


@compiled
def cut_users(state: COFIBAState, h: int, user: int, panel: Floats) -> tuple[Ints, int]:
    """Delete every edge (user, j) of graph h with |w·x - w_j·x| > CB(x) + CB_j(x), where x is the first column.

    Returns how many of the neighbours so far another column would judge otherwise, and how many neighbours there were.
    """
    edges, theta, columns = edges_for(state, h), state.pools.theta, panel.shape[1]
    scale = state.alpha2 * sqrt(log(1.0 + state.rounds[0]))
    own, other_width, gap, row = np.empty(columns), np.empty(columns), np.empty(columns), np.empty(columns)
    widths(state.inverse[user], panel, scale, row, own)
    norm = norms(panel, scale)
    differing, candidates = np.zeros(columns, dtype=np.int64), 0
    for edge in range(edges.start[user], edges.start[user + 1]):
        if not edges.alive[edge]:
            continue
        candidates += 1
        other = edges.neighbour[edge]
        gaps(theta[user], theta[other], panel, gap)
        settled, reach = True, state.reach[other]  # near even by the least width that the other can have: leave it at that
        for c in range(columns):
            settled &= gap[c] <= own[c] + reach * norm[c]
        if settled:
            continue
        widths(state.inverse[other], panel, scale, row, other_width)
        apart = gap[0] > own[0] + other_width[0]
        for c in range(1, columns):
            differing[c] += (gap[c] > own[c] + other_width[c]) != apart
        if apart:
            cut(edges, edge)
            side, size = split_part(edges, user, other)
            if size > 0:
                move(state, h, edges.found[side, :size])
    return differing, candidates


@compiled
def move(state: COFIBAState, h: int, part: Ints) -> None:
    """Take these users out of their cluster for item cluster h into a new one."""
    users = users_for(state, h)
    old, new = users.cluster[part[0]], h * state.first.shape[0] + state.user_clusters[h]
    state.user_clusters[h] += 1
    for k in range(part.shape[0]):
        transfer(users, part[k], new)
    solve_pool(users, old)
    solve_pool(users, new)


@compiled
def cut_items(state: COFIBAState, item: int, edge: int) -> None:
    """Delete an edge of the item; if its cluster splits, the item's part keeps the graph of users, the other gets a new one."""
    h, new = state.item_cluster[item], state.item_clusters[0]
    if new == state.user_clusters.shape[0]:
        return
    edges = state.item_edges
    cut(edges, edge)
    side, size = split_part(edges, item, edges.neighbour[edge])
    if size == 0:
        return
    if side == 0:  # found the item's own part: all others leave
        for i in range(state.item_cluster.shape[0]):
            if state.item_cluster[i] == h:
                state.item_cluster[i] = new
    for k in range(size):
        state.item_cluster[edges.found[side, k]] = new if side else h
    open_cluster(state, new, h)


@compiled
def open_cluster(state: COFIBAState, new: int, parent: int) -> None:
    """Users for a new item cluster: joined as at the start, or as they are for the parent; their data pooled accordingly."""
    n = state.first.shape[0]
    state.item_clusters[0] = new + 1
    edges, old, users = edges_for(state, new), edges_for(state, parent), users_for(state, new)
    for edge in range(edges.alive.shape[0]):
        edges.alive[edge] = old.alive[edge] or not state.inherit
    for user in range(n):
        c = state.pools.cluster[parent * n + user] - parent * n if state.inherit else state.first[user]
        users.cluster[user] = new * n + c
        users.members[new * n + c] += 1
        pool(users.pooled, new * n + c, users.seen, user, 1.0)
        state.user_clusters[new] = max(state.user_clusters[new], c + 1)
    for c in range(state.user_clusters[new]):
        solve_pool(users, new * n + c)


class COFIBA(Policy):
    """Collaborative filtering bandits: items are clustered, and for each cluster of items the users are clustered separately.

    An arm x of item cluster h is scored with the pooled data of the user's cluster for h. After a round with user i and item x
    of cluster h, with CB_u(x) = alpha2 sqrt(xᵀV_u⁻¹x log(1 + t)) and w_u from the user's own data,

    * graph h of users loses (i, j) if |w_i·x - w_j·x| > CB_i(x) + CB_j(x); clusters of users are its components;
    * the graph of items loses (x, l) if another set of neighbours of i would have stayed, had l been chosen; clusters of items
      are its components. Both sets are judged by the same inequality among the same users, those who were neighbours of i in
      graph h before this round, so that in a sparse graph nobody counts as different for never having been joined.

    When an item cluster splits, the part of the chosen item keeps its graph of users. How the others begin is reconstructed
    from memory of the article and two public codes, which disagree: a fresh connected graph, or a copy (`inherit`).

    Parameters
    ----------
    items : (N, dim) array
        The catalogue. An arm is recognised by its features; a vector that is no row of it counts as the nearest item.
    alpha2 : float
        Multiplies the widths of both tests. 0 cuts every served user off; infinity never cuts.
    start : {"auto", "complete", "random", "graph"}
        The graph of users to begin with, as in `CLUB`.
    item_start : {"auto", "complete", "random"}
        The graph of items to begin with: all pairs, or Erdős-Rényi with p = 3 log N / N. `auto` is `complete` up to 50 items.
    item_clusters : int
        Room for so many clusters of items (or as many as the starting graph has): memory is reserved for them. Once they are
        all in use the graph of items stays as it is; graphs of users go on losing edges.
    inherit : bool
        Whether a new item cluster begins with a copy of its parent's graph of users instead of the starting graph.
    tolerance : float
        Share of users by which two neighbourhoods may differ and still count as equal. 0 in the article, where one borderline
        user splits a cluster.
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
    >>> policy.update(0, [1.0, 0.0], 1.0)  # 0 is cut off for the first item, of which alone it knows something
    >>> policy.item_clusters.tolist(), policy.user_clusters(0).tolist(), policy.user_clusters(1).tolist()
    ([0, 1], [1, 0, 0], [0, 0, 0])
    >>> policy.scores(1, [[1.0, 0.0], [0.0, 1.0]]).mean.tolist()
    [0.0, 0.0]
    """

    State = COFIBAState
    has_quadratic_bonus = False  # every cluster of items has a form of its own

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
        dim, n = check_dim(graph, dim), graph.n_users
        known = catalogue(items, dim)
        check_positive(ridge=ridge)
        check_not_negative(alpha2=0.0 if alpha2 == inf else alpha2, tolerance=tolerance, exploration=exploration)
        check_choice("item_start", item_start, ("auto", "complete", "random"))
        check_choice("radius", radius, RADII[1:])
        if not isinstance(item_clusters, int | np.integer) or item_clusters < 1:
            raise ValueError(f"item_clusters must be at least 1, but it is {item_clusters!r}.")
        rng = np.random.default_rng(seed)
        users = starting_graph(graph, start, rng)
        n_items = len(known.features)
        all_pairs = item_start == "complete" or (item_start == "auto" and n_items <= COMPLETE_ITEMS)
        joined = starting_graph(empty(n_items), "complete" if all_pairs else "random", rng)
        in_use = int(joined.components.max()) + 1
        room = max(in_use, min(int(item_clusters), n_items))
        edges = shrinking(users)
        state = COFIBAState(
            items=known,
            item_edges=shrinking(joined),
            item_cluster=joined.components.astype(np.int64),
            item_clusters=np.zeros(1, dtype=np.int64),
            pools=_room(n, dim, room, ridge),
            inverse=np.tile(np.eye(dim) / ridge, (n, 1, 1)),
            reach=np.full(n, 1.0 / sqrt(ridge)),
            user_edges=edges._replace(alive=np.zeros(room * len(edges.alive), dtype=np.bool_)),
            user_clusters=np.zeros(room, dtype=np.int64),
            first=users.components.astype(np.int64),
            rounds=np.zeros(1, dtype=np.int64),
            schedule=RADII.index(radius),
            alpha2=float(alpha2),
            exploration=float(exploration),
            tolerance=float(tolerance),
            inherit=bool(inherit),
        )
        for h in range(in_use):
            open_cluster(state._replace(inherit=False), h, h)
        params = dict(
            items=digest(known), alpha2=alpha2, ridge=ridge, start=start, item_start=item_start, item_clusters=item_clusters
        )
        super().__init__(
            graph,
            dim,
            state,
            dict(**params, inherit=inherit, tolerance=tolerance, radius=radius, exploration=exploration),
            rng,
        )

    def bonus_scale(self, user: int) -> float:
        """The radius, as bonus per width."""
        self.check_user(user)
        return float(self.state.exploration * practical(self.state.schedule, self.state.rounds[0]))

    @property
    def theta(self) -> Floats:
        """(n_users, dim) the vector of every user's cluster for item cluster 0, as a copy; other item clusters have others."""
        users = self.state.pools
        return np.asarray(users.centre[users.cluster[: self.n_users]])

    @property
    def item_clusters(self) -> Ints:
        """(N,) the cluster that each item belongs to now, as a copy."""
        return self.state.item_cluster.copy()  # type: ignore[no-any-return]

    @property
    def n_item_clusters(self) -> int:
        """Number of clusters of items now."""
        return int(self.state.item_clusters[0])

    def user_clusters(self, item_cluster: int) -> Ints:
        """(n_users,) the cluster that each user belongs to now in the eyes of an item cluster, as a copy."""
        if not isinstance(item_cluster, int | np.integer) or not 0 <= item_cluster < self.n_item_clusters:
            raise ValueError(f"item_cluster must be one of 0 to {self.n_item_clusters - 1}, but it is {item_cluster!r}.")
        begin = int(item_cluster) * self.n_users
        return self.state.pools.cluster[begin : begin + self.n_users] - begin  # type: ignore[no-any-return]

    def follow_graph(self, users: Ints, changes: Changes) -> None:
        if self.params["start"] == "graph":
            raise ValueError("COFIBA cannot follow changes of the graph that it started from: it has cut edges of it for good.")


def _room(n: int, dim: int, parts: int, ridge: float) -> Pools:
    """Users without data and slots for all clusters there can be; `np.zeros` takes memory only when a slot is first used."""
    slots = parts * n
    return Pools(
        seen=no_observations(n, dim),
        theta=growable_zeros(n, dim),
        cluster=np.zeros(slots, dtype=np.int64),
        pooled=Observations(np.zeros((slots, dim, dim)), np.zeros((slots, dim)), np.zeros(slots, dtype=np.int64)),
        inverse=np.zeros((slots, dim, dim)),
        centre=np.zeros((slots, dim)),
        members=np.zeros(slots, dtype=np.int64),
        ridge=float(ridge),
    )


register(COFIBAState, score=score, update=update)
