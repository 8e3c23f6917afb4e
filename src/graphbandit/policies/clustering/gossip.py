"""A gossiping network: agents without a centre, who meet in pairs and average what they have seen.

Every user is an agent, and an epoch is n rounds. What an agent sees in an epoch is one entry of its
buffer, Σ x (x, y)ᵀ, zero if it did not act. At the end of the epoch agent i meets peer[i] and takes
over half of its entries. `peer` is a permutation, so that every agent's entries are taken over as
often as it takes over others'. An entry that went through enough epochs is close to the network's
mean and comes into use.
"""

from __future__ import annotations

from math import ceil, log2
from typing import NamedTuple

import numpy as np

from ...compute.arrays import Flags, Floats, Ints
from ...compute.compiler import compiled
from ...compute.growable import growable_zeros
from ...compute.linalg import cholesky, solve_cholesky
from ...compute.observations import Observations, no_observations, record
from .separation import distance, width

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
    """A network that has seen nothing, with everybody in everybody's cluster."""
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
