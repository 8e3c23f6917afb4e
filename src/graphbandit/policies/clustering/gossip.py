"""Agents without a centre, who meet in pairs and average what they have seen: the state of a gossiping network.

Every user is an agent, and an epoch is n rounds. What an agent sees in an epoch is one entry of its buffer, Σ x (x, y)ᵀ, zero
if it did not act. At the end of the epoch agent i meets peer[i], given by a permutation, so that every agent's entry is taken
over as often as it is given up. One that went through enough epochs is close to the network's mean and comes into use.
"""

from __future__ import annotations

from math import ceil, log, log2, sqrt
from typing import NamedTuple

import numpy as np

from ...compute.arrays import Flags, Floats, Ints
from ...compute.compiler import compiled
from ...compute.growable import growable_zeros
from ...compute.linalg import cholesky, solve_cholesky
from ...compute.observations import Observations, no_observations, record

ARTICLE = -1  # the lag 4 log2(epoch)
MEMORY_LIMIT = 8 * 2**30  # bytes of buffers and believed sets above which we refuse


class Network(NamedTuple):
    """What the agents know; buffers are rings with one entry for each epoch that is not in use yet."""

    seen: Observations  # by the agents themselves, never shared: A_loc, b_loc
    active: Observations  # in use: A~, b~
    waiting: Floats  # (n, slots, d, d + 1), the buffers; epoch e is in slot e modulo slots
    believed: Flags  # (n, n), who is in whose cluster; (0, 0) if everybody is, for good
    size: Ints  # (n,), m, the size of the believed cluster
    epoch: Ints  # (1,), the current one, from 1
    oldest: Ints  # (1,), the first epoch not in use yet; epoch + 1 when observations are used at once
    lag: int  # epochs that an entry is averaged for, or ARTICLE
    alpha2: float
    ridge: float


def network(n: int, dim: int, *, lag: int | None, max_lag: int, alpha2: float, ridge: float, clustered: bool) -> Network:
    """Nothing seen, everybody in everybody's cluster."""
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
def used_at_once(state: Network) -> bool:
    """Whether the lag of the current epoch is 0."""
    return bool(state.oldest[0] > state.epoch[0])


@compiled
def observe(state: Network, agent: int, x: Floats, reward: float) -> None:
    """Remember for good, and put into the buffer, or into use if there is no lag."""
    record(state.seen, agent, x, reward)
    if used_at_once(state):
        record(state.active, agent, x, reward)
        return
    entry = state.waiting[agent, state.epoch[0] % state.waiting.shape[1]]
    for i in range(x.shape[0]):
        for j in range(x.shape[0]):
            entry[i, j] += x[i] * x[j]
        entry[i, x.shape[0]] += reward * x[i]


@compiled
def gossip(state: Network, peer: Ints) -> None:
    """The end of an epoch: agent i meets peer[i], all at the same time; then the oldest entries come into use."""
    meet(state, peer)
    state.epoch[0] += 1
    while state.oldest[0] <= state.epoch[0] - lag(state):
        mature(state)
        state.oldest[0] += 1


@compiled
def lag(state: Network) -> int:
    """How many epochs' gossip an entry must have gone through."""
    if state.lag != ARTICLE:
        return state.lag
    return int(min(state.waiting.shape[1] - 1, ceil(4.0 * log2(state.epoch[0]))))


@compiled
def meet(state: Network, peer: Ints) -> None:
    """Decide from how things were before the meetings; then average, then part."""
    n = peer.shape[0]
    clustered = state.believed.shape[0] > 0
    alike, apart = np.ones(n, dtype=np.bool_), np.zeros(n, dtype=np.bool_)
    if clustered:
        local = local_vectors(state)
        for i in range(n):
            apart[i] = differ(state, local, i, peer[i])
            alike[i] = not apart[i] and same_beliefs(state, i, peer[i])
    average(state, peer, alike)
    for i in range(n):
        if apart[i] and state.believed[i, peer[i]]:  # not if the peer, too, met this agent, and they have parted
            state.believed[i, peer[i]] = False
            state.believed[peer[i], i] = False
            state.size[i] -= 1
            state.size[peer[i]] -= 1
    for i in range(n):
        if apart[i]:
            start_over(state, i)
            start_over(state, peer[i])


@compiled
def local_vectors(state: Network) -> Floats:
    """(n, d) every agent's ridge regression on what it has seen itself."""
    local = state.seen.bias.copy()
    factor = np.empty(state.seen.gram[0].shape)
    for agent in range(local.shape[0]):
        cholesky(state.seen.gram[agent], state.ridge, factor)
        solve_cholesky(factor, local[agent])
    return local


@compiled
def differ(state: Network, local: Floats, i: int, j: int) -> bool:
    """Whether two agents who believe to be alike are not: ‖w_i - w_j‖ > width_i + width_j, once both have seen d rounds."""
    seen = state.seen.visits
    if not state.believed[i, j] or min(seen[i], seen[j]) < local.shape[1]:
        return False
    distance = 0.0
    for k in range(local.shape[1]):
        distance += (local[i, k] - local[j, k]) ** 2
    return bool(sqrt(distance) > state.alpha2 * (shrinking_width(seen[i]) + shrinking_width(seen[j])))


@compiled
def shrinking_width(count: int) -> float:
    """CLUB's width after so many rounds of an agent: sqrt((1 + log(1 + T)) / (1 + T))."""
    return sqrt((1.0 + log(1.0 + count)) / (1.0 + count))


@compiled
def same_beliefs(state: Network, i: int, j: int) -> bool:
    """Whether two agents believe in the same cluster."""
    if state.size[i] != state.size[j]:
        return False
    k, n = 0, state.size.shape[0]
    while k < n and state.believed[i, k] == state.believed[j, k]:
        k += 1
    return bool(k == n)


@compiled
def average(state: Network, peer: Ints, alike: Flags) -> None:
    """B_i = (B_i + B_peer) / 2 for all at once. Along a cycle of the permutation only the first buffer is needed again."""
    done = np.zeros(peer.shape[0], dtype=np.bool_)
    for start in range(peer.shape[0]):
        if done[start]:
            continue
        first = state.waiting[start].copy()
        i = start
        while not done[i]:
            done[i] = True
            if alike[i]:
                average_entries(state, i, first if peer[i] == start else state.waiting[peer[i]])
            i = peer[i]


@compiled
def average_entries(state: Network, agent: int, other: Floats) -> None:
    """The agent's buffer becomes its mean with another, entry by entry, that is epoch by epoch."""
    for epoch in range(state.oldest[0], state.epoch[0] + 1):
        slot = epoch % state.waiting.shape[1]
        mine, theirs = state.waiting[agent, slot], other[slot]
        for i in range(mine.shape[0]):
            for j in range(mine.shape[1]):
                mine[i, j] = 0.5 * (mine[i, j] + theirs[i, j])


@compiled
def start_over(state: Network, agent: int) -> None:
    """After a parting: in use is what the agent has seen itself, and the buffer is empty."""
    dim = state.seen.bias.shape[1]
    for i in range(dim):
        state.active.bias[agent, i] = state.seen.bias[agent, i]
        for j in range(dim):
            state.active.gram[agent, i, j] = state.seen.gram[agent, i, j]
    for slot in range(state.waiting.shape[1]):
        for i in range(dim):
            for j in range(dim + 1):
                state.waiting[agent, slot, i, j] = 0.0


@compiled
def mature(state: Network) -> None:
    """Every agent's oldest entry leaves its buffer and comes into use."""
    slot, dim = state.oldest[0] % state.waiting.shape[1], state.seen.bias.shape[1]
    for agent in range(state.seen.bias.shape[0]):
        entry = state.waiting[agent, slot]
        for i in range(dim):
            for j in range(dim):
                state.active.gram[agent, i, j] += entry[i, j]
                entry[i, j] = 0.0
            state.active.bias[agent, i] += entry[i, dim]
            entry[i, dim] = 0.0
