"""DCCB and DCB: agents without a centre, who meet in pairs and average what they have seen. DCB has no clusters.

Every user is an agent, and an epoch is n rounds. What an agent sees in an epoch is one entry of its
buffer, Σ x (x, y)ᵀ, zero if it did not act. At the end of the epoch agent i meets peer[i] and takes
over half of its entries. `peer` is a permutation, so that every agent's entries are taken over as
often as it takes over others'. An entry that went through enough epochs is close to the network's
mean and comes into use.
"""

from __future__ import annotations

from math import ceil, inf, log, log2, sqrt
from typing import Any, NamedTuple

import numpy as np

from ...compute.arrays import Flags, Floats, Ints
from ...compute.compiler import compiled
from ...compute.growable import growable_zeros
from ...compute.linalg import cholesky, follow_gram, invert_positive, multiply, solve_cholesky
from ...compute.observations import Observations, no_observations, record
from ...graph import UserGraph
from ...validate import NOT_NEGATIVE_OR_INFINITE, count, optional
from ..core.item_effects import ItemEffects
from ..core.kernels import register
from ..core.policy import Policy, Seed
from ..core.ridge import RADII, THEORY, Radius, practical
from .clusters import distance, width

ARTICLE = -1  # the lag 4 log2(epoch)
MEMORY_LIMIT = 8 * 2**30  # bytes; larger buffers and believed clusters are refused


class Network(NamedTuple):
    """What the agents know. A buffer is circular, with an entry for each epoch not in use yet."""

    seen: Observations  # what each agent has observed itself, never shared: A_loc, b_loc
    active: Observations  # what each agent acts on: A~, b~
    waiting: Floats  # (n, slots, d, d + 1), the buffers; epoch e is in slot e modulo slots
    believed: Flags  # (n, n), row i: whom agent i believes in its cluster; (0, 0) if everybody for good
    size: Ints  # (n,), m, the size of the believed cluster
    epoch: Ints  # (1,), the current one, from 1
    oldest: Ints  # (1,), the first epoch not in use yet; epoch + 1 when observations are used at once
    lag: int  # epochs that an entry is averaged for, or ARTICLE
    alpha2: float
    ridge: float


def network(n: int, dim: int, *, lag: int | None, max_lag: int, alpha2: float, ridge: float, clustered: bool) -> Network:
    """Return a network that has seen nothing, with everybody in everybody's cluster."""
    slots = (max_lag if lag is None else lag) + 1
    needed = 8 * n * slots * dim * (dim + 1) + (n * n if clustered else 0)
    if needed > MEMORY_LIMIT:
        raise ValueError(
            f"the buffers and believed clusters of {n} agents in dimension {dim} need {needed / 1e9:.0f} GB of memory; "
            "use a smaller lag or max_lag, or a policy with a centre, such as CLUB."
        )
    return Network(
        seen=no_observations(n, dim),
        active=no_observations(n, dim),
        waiting=growable_zeros(n, slots, dim, dim + 1),
        believed=np.ones((n, n) if clustered else (0, 0), dtype=np.bool_),
        size=np.full(n, n, dtype=np.int64),
        epoch=np.ones(1, dtype=np.int64),
        oldest=np.array([1 if lag else 2], dtype=np.int64),  # the article's lag is 0 in the first epoch
        lag=ARTICLE if lag is None else int(lag),
        alpha2=float(alpha2),
        ridge=float(ridge),
    )


@compiled
def has_no_lag(net: Network) -> bool:
    """Whether the lag of the current epoch is 0."""
    return bool(net.oldest[0] > net.epoch[0])


@compiled
def observe(net: Network, agent: int, x: Floats, reward: float) -> None:
    """Record an observation as the agent's own, and in its buffer, or in use if there is no lag."""
    record(net.seen, agent, x, reward)
    if has_no_lag(net):
        record(net.active, agent, x, reward)
        return
    entry = net.waiting[agent, net.epoch[0] % net.waiting.shape[1]]
    for i in range(x.shape[0]):
        for j in range(x.shape[0]):
            entry[i, j] += x[i] * x[j]
        entry[i, x.shape[0]] += reward * x[i]


@compiled
def gossip(net: Network, peer: Ints) -> None:
    """End an epoch: every agent i meets peer[i], then the oldest entries come into use."""
    meet(net, peer)
    net.epoch[0] += 1
    while net.oldest[0] <= net.epoch[0] - current_lag(net):
        mature(net)
        net.oldest[0] += 1


@compiled
def current_lag(net: Network) -> int:
    """How many epochs' gossip an entry must have gone through before it comes into use."""
    if net.lag != ARTICLE:
        return net.lag
    return int(min(net.waiting.shape[1] - 1, ceil(4.0 * log2(net.epoch[0]))))


@compiled
def meet(net: Network, peer: Ints) -> None:
    """Decide all meetings by the beliefs before them; then average, then part those who differ."""
    n = peer.shape[0]
    clustered = net.believed.shape[0] > 0
    alike, apart = np.ones(n, dtype=np.bool_), np.zeros(n, dtype=np.bool_)
    if clustered:
        local = local_vectors(net)
        for i in range(n):
            apart[i] = differ(net, local, i, peer[i])
            alike[i] = not apart[i] and same_beliefs(net, i, peer[i])
    average(net, peer, alike)
    for i in range(n):
        if apart[i] and net.believed[i, peer[i]]:  # False if the peer met this agent too, and they have parted
            net.believed[i, peer[i]] = False
            net.believed[peer[i], i] = False
            net.size[i] -= 1
            net.size[peer[i]] -= 1
    for i in range(n):
        if apart[i]:
            start_over(net, i)
            start_over(net, peer[i])


@compiled
def local_vectors(net: Network) -> Floats:
    """(n, d) every agent's ridge regression on what it has observed itself."""
    local = net.seen.bias.copy()
    factor = np.empty(net.seen.gram[0].shape)
    for agent in range(local.shape[0]):
        cholesky(net.seen.gram[agent], net.ridge, factor)
        solve_cholesky(factor, local[agent])
    return local


@compiled
def differ(net: Network, local: Floats, i: int, j: int) -> bool:
    """Whether agents who believe in each other differ: ‖w_i - w_j‖ > alpha2 (width_i + width_j).

    False until both have seen d rounds.
    """
    seen = net.seen.visits
    if not net.believed[i, j] or min(seen[i], seen[j]) < local.shape[1]:
        return False
    return bool(distance(local[i], local[j]) > net.alpha2 * (width(seen[i]) + width(seen[j])))


@compiled
def same_beliefs(net: Network, i: int, j: int) -> bool:
    """Whether two agents believe in the same cluster."""
    if net.size[i] != net.size[j]:
        return False
    k, n = 0, net.size.shape[0]
    while k < n and net.believed[i, k] == net.believed[j, k]:
        k += 1
    return bool(k == n)


@compiled
def average(net: Network, peer: Ints, alike: Flags) -> None:
    """B_i = (B_i + B_peer) / 2 for all agents that are alike, from the buffers before.

    Along a cycle of the permutation only the first buffer is read after it was overwritten.
    """
    done = np.zeros(peer.shape[0], dtype=np.bool_)
    for start in range(peer.shape[0]):
        if done[start]:
            continue
        first = net.waiting[start].copy()
        i = start
        while not done[i]:
            done[i] = True
            if alike[i]:
                average_entries(net, i, first if peer[i] == start else net.waiting[peer[i]])
            i = peer[i]


@compiled
def average_entries(net: Network, agent: int, other: Floats) -> None:
    """Replace the agent's buffer by its mean with another, epoch by epoch."""
    for epoch in range(net.oldest[0], net.epoch[0] + 1):
        slot = epoch % net.waiting.shape[1]
        mine, theirs = net.waiting[agent, slot], other[slot]
        for i in range(mine.shape[0]):
            for j in range(mine.shape[1]):
                mine[i, j] = 0.5 * (mine[i, j] + theirs[i, j])


@compiled
def start_over(net: Network, agent: int) -> None:
    """After a parting: put into use what the agent has observed itself, and empty its buffer."""
    dim = net.seen.bias.shape[1]
    for i in range(dim):
        net.active.bias[agent, i] = net.seen.bias[agent, i]
        for j in range(dim):
            net.active.gram[agent, i, j] = net.seen.gram[agent, i, j]
    for slot in range(net.waiting.shape[1]):
        for i in range(dim):
            for j in range(dim + 1):
                net.waiting[agent, slot, i, j] = 0.0


@compiled
def mature(net: Network) -> None:
    """Move every agent's oldest entry from its buffer into use."""
    slot, dim = net.oldest[0] % net.waiting.shape[1], net.seen.bias.shape[1]
    for agent in range(net.seen.bias.shape[0]):
        entry = net.waiting[agent, slot]
        for i in range(dim):
            for j in range(dim):
                net.active.gram[agent, i, j] += entry[i, j]
                entry[i, j] = 0.0
            net.active.bias[agent, i] += entry[i, dim]
            entry[i, dim] = 0.0


class DCCBState(NamedTuple):
    """What the agents know, and what each of them acts on."""

    network: Network
    inverse: Floats  # (n, d, d), (A~ + ridge/m I)⁻¹ with m the size of the believed cluster
    theta: Floats  # (n, d), (m A~ + ridge I)⁻¹ m b~
    rounds: Ints  # (1,), observations of all agents
    schedule: int
    sigma: float
    delta: float
    exploration: float
    items: ItemEffects


@compiled
def radius(state: DCCBState, agent: int) -> float:
    """Return the radius of confidence: exploration · sqrt(log(1 + t)) or 1.

    In theory it is exploration times sigma sqrt(d log(1 + m T / (d ridge)) + log 1/delta) + sqrt(ridge).
    """
    if state.schedule != THEORY:
        return state.exploration * practical(state.schedule, state.rounds[0])
    net, dim = state.network, state.theta.shape[1]
    noise = dim * log(1.0 + net.size[agent] * net.seen.visits[agent] / (dim * net.ridge)) - log(state.delta)
    return state.exploration * (state.sigma * sqrt(noise) + sqrt(net.ridge))


@compiled
def belief(state: DCCBState, user: int) -> tuple[Floats, Floats, float]:
    """Return LinUCB's estimate with m A~ and m b~, averages times the number of agents, which are sums.

    (m A~ + ridge I)⁻¹ is the stored inverse over m. An agent's own observation counts for all m agents until they gossip, so
    that the stored inverse is in units of observations, and the radius is divided by sqrt(m).
    """
    return state.theta[user], state.inverse[user], radius(state, user) / sqrt(state.network.size[user])


@compiled
def update(state: DCCBState, user: int, x: Floats, item: int, reward: float) -> None:
    """Record the observation in the network; use it at once if there is no lag."""
    net = state.network
    observe(net, user, x, reward)
    state.rounds[0] += 1
    if has_no_lag(net):
        follow_gram(state.inverse[user], net.active.gram[user], net.ridge / net.size[user], x, net.active.visits[user])
        multiply(state.inverse[user], net.active.bias[user], state.theta[user])


@compiled
def end_epoch(state: DCCBState, peer: Ints) -> None:
    """Gossip, and solve every agent's estimate afresh from what is in use now."""
    net = state.network
    gossip(net, peer)
    for agent in range(peer.shape[0]):
        invert_positive(net.active.gram[agent], net.ridge / net.size[agent], state.inverse[agent])
        multiply(state.inverse[agent], net.active.bias[agent], state.theta[agent])


# What DCCB and DCB share

RANGES = Policy.ranges | {"lag": optional(count(0)), "max_lag": count(0)}


def state_parts(policy: Policy, alpha2: float, *, clustered: bool) -> dict[str, Any]:
    """Return the parts of a state in which nobody has seen anything yet."""
    n, dim, settings = policy.n_users, policy.dim, policy.params
    lags = {"lag": settings["lag"], "max_lag": settings["max_lag"]}
    return dict(
        network=network(n, dim, **lags, alpha2=alpha2, ridge=settings["ridge"], clustered=clustered),
        inverse=np.tile(np.eye(dim) * (n / settings["ridge"]), (n, 1, 1)),
        theta=growable_zeros(n, dim),
        rounds=np.zeros(1, dtype=np.int64),
        schedule=RADII.index(settings["radius"]),
    )


def epoch_length(policy: Policy) -> int:
    """Return the number of rounds of an epoch."""
    return policy.n_users


def gossip_once(policy: Policy) -> None:
    """Gossip at the end of an epoch, with peers from a random permutation."""
    end_epoch(policy.state, policy.rng.permutation(policy.n_users))


class DCCB(Policy):
    """Distributed clustering of confidence-ball bandits: users are agents that learn by gossip.

    An epoch is n rounds. What an agent sees in an epoch is one entry of its buffer, a pair
    (Σ x xᵀ, Σ y x), zero if it did not act. At the end of the epoch a random permutation gives
    every agent a peer. If both believe in the same cluster, the agent's buffer becomes the mean of
    the two, entry by entry. If their own vectors are too far apart,

        ‖w_i - w_j‖ > alpha2 (width_i + width_j),  width = sqrt((1 + log(1 + T)) / (1 + T)),

    each strikes the other off its cluster and starts over from its own data. An entry that went
    through `lag` epochs' gossip is added to (A~, b~), and the agent acts as LinUCB on
    (m A~ + ridge I, m b~), m being the size of its cluster: entries are close to the network's
    averages by then, and m times an average is a sum.

    Parameters
    ----------
    graph, dim
        Only the number of users is taken from the graph.
    alpha2 : float
        Multiplies the width by which agents part. With `inf` they never part, as in `DCB`.
    lag : int, optional
        Epochs that an entry is averaged for. By default as in the article, ceil(4 log2 epoch), but
        at most `max_lag`. With 0 an observation is used at once, by the agent that made it and by
        nobody else; so it is, by default, in the first epoch.
    max_lag : int
        Bounds the default lag and so the buffers, (max_lag + 1) n d (d + 1) numbers. After 40
        exchanges the averages of 20 agents are within 2e-5 of each other. Not used when `lag` is
        given.
    ridge : float
        Regulariser of the agents' own vectors and of the pooled ones.
    radius : {"log", "theory", "constant"}
        beta / exploration: `sqrt(log(1 + t))` in round t of all agents; or
        `sigma sqrt(d log(1 + m T / (d ridge)) + log 1/delta) + sqrt(ridge)`, T being the agent's
        own rounds and 1 the bound on ‖θ‖; or 1.
    exploration : float
        Multiplies the radius; 0 is greedy.
    item_effects, item_ridge
        Effects of items, as in `LinUCB`.
    seed
        Also draws the peers.

    Notes
    -----
    In the article all agents act at the same time. Here one user appears in a round, so agents have
    clocks of their own, gossip takes place every n rounds, and the lag counts epochs. There is no
    public code. Reconstructed, and still to be compared with the article, are: the reset after a
    parting; the factor m, also on an agent's own data after a reset; the radius. Ours are: CLUB's
    practical width in place of the theoretical one, which parts nobody for tens of thousands of
    rounds; that agents can part only while they believe in each other, and when both have seen d
    rounds; and that all meetings of an epoch are decided by the beliefs before it.

    Averaging along a permutation keeps the total weight of every observation: exactly while nobody
    has parted, and on average afterwards, since an agent whose peer is of another cluster keeps all
    of its buffer although a third may take half of it.

    References
    ----------
    Korda, Szörényi & Li 2016, "Distributed clustering of linear bandits in peer to peer networks".

    Examples
    --------
    >>> from graphbandit import graphs
    >>> policy = DCCB(graphs.empty(2), 1, alpha2=0.5, lag=0)
    >>> for _ in range(10):
    ...     policy.update(0, [1.0], 1.0)
    ...     policy.update(1, [1.0], -1.0)
    >>> policy.clusters.tolist(), policy.theta.ravel().round(3).tolist()
    ([1, 0], [0.909, -0.909])
    """

    State = DCCBState
    ranges = RANGES | {"alpha2": NOT_NEGATIVE_OR_INFINITE}
    period = property(epoch_length)
    refresh = gossip_once

    def __init__(
        self,
        graph: UserGraph,
        dim: int,
        *,
        alpha2: float = 0.2,
        lag: int | None = None,
        max_lag: int = 40,
        ridge: float = 1.0,
        radius: Radius = "log",
        exploration: float = 0.1,
        sigma: float = 0.01,
        delta: float = 0.01,
        item_effects: bool = False,
        item_ridge: float | None = None,
        seed: Seed = 0,
    ) -> None:
        super().__init__(graph, dim, locals())
        self.state = self.build_state(**state_parts(self, alpha2, clustered=True))

    @property
    def clusters(self) -> Ints:
        """(n_users,) a number for each agent, the same if they believe in the same cluster."""
        return np.unique(self.state.network.believed, axis=0, return_inverse=True)[1].ravel().astype(np.int64)

    @property
    def n_clusters(self) -> int:
        """Number of different clusters that agents believe in."""
        return int(self.clusters.max()) + 1


class DCB(Policy):
    """Distributed confidence ball: `DCCB` for users who are all alike.

    There is one cluster, for good, so that believed clusters take no memory.

    Parameters
    ----------
    lag, max_lag, ridge, radius, exploration, sigma, delta, item_effects, item_ridge, seed
        As in `DCCB`, which also describes the algorithm.

    References
    ----------
    Korda, Szörényi & Li 2016, "Distributed clustering of linear bandits in peer to peer networks".

    Examples
    --------
    >>> from graphbandit import graphs
    >>> policy = DCB(graphs.empty(2), 1, lag=20)
    >>> for user in (0, 1):
    ...     policy.update(user, [1.0], 1.0)
    >>> for _ in range(19):
    ...     policy.refresh()  # gossip without news; two observations in all: θ = 2 / (2 + 1)
    >>> policy.theta.round(3).tolist()
    [[0.667], [0.667]]
    """

    State = DCCBState
    ranges = RANGES
    period = property(epoch_length)
    refresh = gossip_once

    def __init__(
        self,
        graph: UserGraph,
        dim: int,
        *,
        lag: int | None = None,
        max_lag: int = 40,
        ridge: float = 1.0,
        radius: Radius = "log",
        exploration: float = 0.1,
        sigma: float = 0.01,
        delta: float = 0.01,
        item_effects: bool = False,
        item_ridge: float | None = None,
        seed: Seed = 0,
    ) -> None:
        super().__init__(graph, dim, locals())
        self.state = self.build_state(**state_parts(self, inf, clustered=False))


register(DCCBState, belief=belief, update=update)
