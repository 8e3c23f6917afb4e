"""SCLUB: a user who differs from its cluster leaves it, and clusters that turn out alike merge."""

from __future__ import annotations

from math import log, sqrt
from typing import NamedTuple

import numpy as np

from ...compute.arrays import Floats, Ints
from ...compute.compiler import compiled
from ...compute.growable import growable_zeros
from ...graph import UserGraph
from ...validate import NOT_NEGATIVE_OR_INFINITE
from ..core.item_effects import ItemEffects
from ..core.kernels import register
from ..core.policy import Policy, Seed
from ..core.ridge import RADII, Radius
from .clusters import (
    ClusterModels,
    add_statistics,
    cluster_belief,
    cluster_count,
    cluster_labels,
    cluster_models,
    distance,
    move_user,
    observe_in_cluster,
    rebuild_clusters,
    solve_cluster,
    theoretical_radius,
    width,
)


class MemberLists(NamedTuple):
    """One list per slot; slots without members hold nothing of meaning. T_u: visits of user u."""

    after: Ints  # (n,), the next member of the same list
    before: Ints  # (n,), the previous one
    first: Ints  # (n,), any member of a list
    least_visits: Ints  # (n,), min T_u over the members
    n_least: Ints  # (n,), how many members have that minimum
    most_visits: Ints  # (n,), max T_u over the members


def single_list(n: int) -> MemberLists:
    """All n users in list 0, none visited yet."""
    users, zero = np.arange(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    n_least = zero.copy()
    n_least[0] = n
    return MemberLists((users + 1) % n, (users - 1) % n, zero.copy(), zero.copy(), n_least, zero.copy())


@compiled
def count_visit(lists: MemberLists, slot: int, user: int, visits: Ints, members: int) -> None:
    """Update the smallest and largest visit counts after one more visit of this member.

    All members are visited only when no member is left at the minimum. The minimum never exceeds
    the mean, so a list that stays together pays at most `mean · members` steps in all: amortised
    O(1) for each visit.
    """
    lists.most_visits[slot] = max(lists.most_visits[slot], visits[user])
    if visits[user] - 1 == lists.least_visits[slot]:
        lists.n_least[slot] -= 1
        if lists.n_least[slot] == 0:
            find_range(lists, slot, visits, members)


@compiled
def find_range(lists: MemberLists, slot: int, visits: Ints, members: int) -> None:
    """Compute the smallest and largest visit counts of a list from all of its members."""
    user = lists.first[slot]
    least, most, n_least = visits[user], visits[user], 0
    for _ in range(members):
        if visits[user] < least:
            least, n_least = visits[user], 0
        if visits[user] == least:
            n_least += 1
        most = max(most, visits[user])
        user = lists.after[user]
    lists.least_visits[slot] = least
    lists.n_least[slot] = n_least
    lists.most_visits[slot] = most


@compiled
def split_off(lists: MemberLists, user: int, old: int, new: int) -> None:
    """Move a user from a list with other members to an empty one; then `find_range` both."""
    left, right = lists.before[user], lists.after[user]
    lists.after[left] = right
    lists.before[right] = left
    lists.after[user] = user
    lists.before[user] = user
    lists.first[old] = left
    lists.first[new] = user


@compiled
def join(lists: MemberLists, slot: int, other: int) -> None:
    """Append the list `other` to the list `slot`."""
    a, b = lists.first[slot], lists.first[other]
    after_a, before_b = lists.after[a], lists.before[b]
    lists.after[a] = b
    lists.before[b] = a
    lists.after[before_b] = after_a
    lists.before[after_a] = before_b
    if lists.least_visits[other] < lists.least_visits[slot]:
        lists.least_visits[slot] = lists.least_visits[other]
        lists.n_least[slot] = lists.n_least[other]
    elif lists.least_visits[other] == lists.least_visits[slot]:
        lists.n_least[slot] += lists.n_least[other]
    lists.most_visits[slot] = max(lists.most_visits[slot], lists.most_visits[other])


class SCLUBState(NamedTuple):
    """Clusters live in slots; one that merged into another leaves a spare slot."""

    models: ClusterModels
    lists: MemberLists
    pivot: Floats  # (slots, d), a cluster's vector when the phase began
    pivot_visits: Ints  # (slots,), its number of observations then
    checked: Ints  # (n,), the phase in which a user was last served
    unchecked: Ints  # (slots,), members not yet served in this phase
    ready: Ints  # (slots,), the checked clusters: ready[:n_ready]
    n_ready: Ints  # (1,)
    spare: Ints  # (slots,), slots to use again: spare[:n_spare]
    n_spare: Ints  # (1,)
    used: Ints  # (1,), slots that were ever used
    phase: Ints  # (1,)
    rounds: Ints  # (1,), observations so far
    schedule: int
    alpha_theta: float
    alpha_p: float
    exploration: float
    items: ItemEffects


@compiled
def theory_radius(state: SCLUBState, cluster: int) -> float:
    """sqrt(d log(1 + T / (d ridge)) + 4 log t + log 2) + sqrt(ridge): the article's, whose ridge is 1, for any."""
    dim, visits, ridge = state.pivot.shape[1], state.models.pooled.visits[cluster], state.models.ridge
    growth = dim * log(1.0 + visits / (dim * ridge)) + 4.0 * log(1.0 + state.rounds[0]) + log(2.0)
    return sqrt(growth) + sqrt(ridge)


@compiled
def update(state: SCLUBState, user: int, x: Floats, item: int, reward: float) -> None:
    """Learn; split the user off if it differs from its cluster; merge checked clusters."""
    if (state.rounds[0] + 2) & (state.rounds[0] + 1) == 0:  # phases of 2, 4, 8, ... rounds begin after 0, 2, 6, 14, ...
        begin_phase(state)
    observe_in_cluster(state.models, user, x, reward)
    state.rounds[0] += 1
    c, complete = state.models.cluster[user], False
    count_visit(state.lists, c, user, state.models.seen.visits, state.models.members[c])
    if state.checked[user] != state.phase[0]:
        state.checked[user] = state.phase[0]
        state.unchecked[c] -= 1
        complete = state.unchecked[c] == 0
    if complete:
        make_ready(state, c)
    if state.models.members[c] > 1 and differs(state, user):
        split(state, user)
        make_ready(state, state.models.cluster[user])
        merge(state, state.models.cluster[user])
    if complete and state.models.members[c] > 0:  # else it has just merged into another
        merge(state, c)


@compiled
def begin_phase(state: SCLUBState) -> None:
    """Freeze the pivots and uncheck everybody: O(n) a phase, and phases double in length."""
    state.phase[0] += 1
    state.n_ready[0] = 0
    rebuild_clusters(state.models, state.used[0])
    for c in range(state.used[0]):
        state.unchecked[c] = state.models.members[c]
        freeze(state, c)


@compiled
def freeze(state: SCLUBState, cluster: int) -> None:
    """Take the cluster's present vector and number of observations as its pivot."""
    state.pivot_visits[cluster] = state.models.pooled.visits[cluster]
    for k in range(state.pivot.shape[1]):
        state.pivot[cluster, k] = state.models.centre[cluster, k]


@compiled
def differs(state: SCLUBState, user: int) -> bool:
    """Return True if a user must leave its cluster, because of its vector or of how often it comes.

    ‖w_i - w~‖ > alpha_theta (F(T_i) + F(T~)), or |T_i - T_u| / t > 2 alpha_p F(t) for a member u.
    """
    c, visits, t = state.models.cluster[user], state.models.seen.visits[user], state.rounds[0]
    allowed = state.alpha_theta * (width(visits) + width(state.pivot_visits[c]))
    if distance(state.models.theta[user], state.pivot[c]) > allowed:
        return True
    gap = max(visits - state.lists.least_visits[c], state.lists.most_visits[c] - visits)
    return bool(gap / t > 2.0 * state.alpha_p * width(t))


@compiled
def split(state: SCLUBState, user: int) -> None:
    """Move a user into a new cluster of its own."""
    models = state.models
    old, new = models.cluster[user], take_slot(state)
    move_user(models, user, new)
    split_off(state.lists, user, old, new)
    for c in (old, new):
        find_range(state.lists, c, models.seen.visits, models.members[c])
    state.unchecked[new] = 0
    freeze(state, new)


@compiled
def take_slot(state: SCLUBState) -> int:
    """Return a slot for a new cluster; there are as many as users."""
    if state.n_spare[0] > 0:
        state.n_spare[0] -= 1
        return int(state.spare[state.n_spare[0]])
    state.used[0] += 1
    return int(state.used[0] - 1)


@compiled
def make_ready(state: SCLUBState, cluster: int) -> None:
    """Add a cluster whose members have all been served in this phase to those that may merge."""
    state.ready[state.n_ready[0]] = cluster
    state.n_ready[0] += 1


@compiled
def merge(state: SCLUBState, cluster: int) -> None:
    """Merge a checked cluster with the nearest checked one that is alike; go on with the result."""
    place = nearest_alike(state, cluster)
    while place >= 0:
        other = state.ready[place]
        if state.models.members[other] > state.models.members[cluster]:
            cluster, other = other, cluster
        absorb(state, cluster, other)
        place = nearest_alike(state, cluster)


@compiled
def nearest_alike(state: SCLUBState, cluster: int) -> int:
    """Return the place in `ready` of the nearest cluster b that passes both tests, or -1.

    ‖w_a - w_b‖ < alpha_theta / 2 (F(T_a) + F(T_b)) and |p_a - p_b| < alpha_p F(t),
    with p = T / (members · t).
    """
    models, t = state.models, state.rounds[0]
    visits, members = models.pooled.visits, models.members
    mine, often = width(visits[cluster]), visits[cluster] / members[cluster]
    allowed, best, nearest = state.alpha_p * width(t) * t, np.inf, -1
    for k in range(state.n_ready[0]):
        c = state.ready[k]
        if c == cluster or not abs(often - visits[c] / members[c]) < allowed:
            continue
        apart = distance(models.centre[cluster], models.centre[c])
        if apart < 0.5 * state.alpha_theta * (mine + width(visits[c])) and apart < best:
            best, nearest = apart, k
    return nearest


@compiled
def absorb(state: SCLUBState, cluster: int, other: int) -> None:
    """Put all members of `other`, the smaller one, into `cluster`; its slot becomes spare."""
    models = state.models
    user = state.lists.first[other]
    for _ in range(models.members[other]):
        models.cluster[user] = cluster
        user = state.lists.after[user]
    join(state.lists, cluster, other)
    add_statistics(models.pooled, cluster, models.pooled, other, 1.0)
    models.members[cluster] += models.members[other]
    models.members[other] = 0
    solve_cluster(models, cluster)
    solve_cluster(models, other)
    freeze(state, cluster)
    state.spare[state.n_spare[0]] = other
    state.n_spare[0] += 1
    for k in range(state.n_ready[0]):
        if state.ready[k] == other:
            state.n_ready[0] -= 1
            state.ready[k] = state.ready[state.n_ready[0]]
            break


class SCLUB(Policy):
    """Set-based clustering of bandits: users may leave their cluster, and clusters may merge again.

    All users start in one cluster and are served with its pooled ridge regression. With
    F(T) = sqrt((1 + log(1 + T)) / (1 + T)), the served user i leaves its cluster j for a new one of
    its own if

        ‖w_i - w~_j‖ > alpha_theta (F(T_i) + F(T~_j))   or
        |T_i - T_u| / t > 2 alpha_p F(t) for a member u,

    where the pivot w~_j, T~_j is the cluster's vector and number of observations at the start of
    the phase; phase s has 2^s rounds. A cluster is checked once all of its members were served in
    the phase, and checked clusters merge if

        ‖w_a - w_b‖ < alpha_theta / 2 (F(T_a) + F(T_b))   and
        |p_a - p_b| < alpha_p F(t),   p = T / (members · t).

    Parameters
    ----------
    alpha_theta : float
        Scale of the test of vectors: 0 splits every served user off, `inf` none. 1 in public code.
    alpha_p : float
        Scale of the test of frequencies, which matters if some users come far more often than
        others; `inf` leaves it out. Public code: 1, or sqrt(2) with a threshold of half this size.
    ridge : float
        Regulariser of every block; 1 in the article. In low noise a smaller one is much better.
    radius : {"log", "theory", "constant"}
        beta / exploration: `sqrt(log(1 + t))`,
        `sqrt(d log(1 + T_j / (d ridge)) + 4 log t + log 2) + sqrt(ridge)`, or 1.
    exploration : float
        Multiplies the radius; 0 is the greedy control.
    item_effects, item_ridge
        Effects of items, as in `LinUCB`.

    Notes
    -----
    The article lets any two checked clusters merge in every round and does not say in which order.
    Here a cluster is compared with the others when it becomes checked: because its last member was
    served, or because a user has just left it or formed it. Of several that are alike the nearest
    is merged first, then the result is compared again. A merged cluster takes its pooled values as
    its new pivot, as a split-off user does. So nothing depends on the numbers of users or clusters.

    References
    ----------
    Li, Chen, Li & Leung 2019, "Improved algorithm on online clustering of bandits".

    Examples
    --------
    >>> from graphbandit import graphs
    >>> policy = SCLUB(graphs.empty(3), 1, alpha_theta=0.2, alpha_p=10.0)
    >>> policy.update(0, [1.0], 1.0)
    >>> policy.theta.ravel().round(3).tolist(), policy.n_clusters
    ([0.5, 0.0, 0.0], 2)
    """

    State = SCLUBState
    clusters = property(cluster_labels)
    n_clusters = property(cluster_count)
    ranges = Policy.ranges | {"alpha_theta": NOT_NEGATIVE_OR_INFINITE, "alpha_p": NOT_NEGATIVE_OR_INFINITE}

    def __init__(
        self,
        graph: UserGraph,
        dim: int,
        *,
        alpha_theta: float = 1.0,
        alpha_p: float = 1.0,
        ridge: float = 1.0,
        radius: Radius = "log",
        exploration: float = 0.1,
        item_effects: bool = False,
        item_ridge: float | None = None,
        seed: Seed = 0,
    ) -> None:
        super().__init__(graph, dim, locals())
        n = graph.n_users
        counters = {name: np.zeros(1, dtype=np.int64) for name in ("n_ready", "n_spare", "phase", "rounds")}
        slots = {name: np.zeros(n, dtype=np.int64) for name in ("pivot_visits", "checked", "unchecked", "ready", "spare")}
        self.state = self.build_state(
            models=cluster_models(np.zeros(n, dtype=np.int64), self.dim, n, ridge),
            lists=single_list(n),
            pivot=growable_zeros(n, self.dim),
            used=np.ones(1, dtype=np.int64),
            **counters,
            **slots,
            schedule=RADII.index(radius),
        )


theoretical_radius.register(SCLUBState, theory_radius)
register(SCLUBState, belief=cluster_belief, update=update)
