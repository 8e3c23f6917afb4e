"""DCCB and DCB: agents without a centre, who gossip about what they have seen and drop those who turn out different."""

from __future__ import annotations

from math import inf, log, sqrt
from typing import Any, NamedTuple

import numpy as np

from ...compute.arrays import Floats, Ints
from ...compute.compiler import compiled
from ...compute.growable import growable_zeros
from ...compute.linalg import dot, follow_gram, invert_positive, multiply, quadratic_form
from ...graph import UserGraph
from ..core.kernels import register
from ..core.policy import (
    Policy,
    Seed,
    check_choice,
    check_count,
    check_dim,
    check_not_negative,
    check_positive,
    check_probability,
)
from ..core.schedules import RADII, THEORY, Radius, practical
from .gossip import Network, gossip, network, observe, used_at_once


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


@compiled
def radius(state: DCCBState, agent: int) -> float:
    """exploration · sqrt(log(1 + t)), or · 1; or sigma sqrt(d log(1 + m T / (d ridge)) + log 1/delta) + sqrt(ridge)."""
    if state.schedule != THEORY:
        return state.exploration * practical(state.schedule, state.rounds[0])
    net, dim = state.network, state.theta.shape[1]
    noise = dim * log(1.0 + net.size[agent] * net.seen.visits[agent] / (dim * net.ridge)) - log(state.delta)
    return state.exploration * (state.sigma * sqrt(noise) + sqrt(net.ridge))


@compiled
def score(state: DCCBState, user: int, arms: Floats, mean: Floats, bonus: Floats) -> None:
    """LinUCB with m A~ and m b~: averages times the number of agents are sums."""
    beta = radius(state, user) / sqrt(state.network.size[user])  # (m A~ + ridge I)⁻¹ is the stored inverse over m
    for a in range(arms.shape[0]):
        mean[a] = dot(arms[a], state.theta[user])
        bonus[a] = beta * sqrt(max(0.0, quadratic_form(state.inverse[user], arms[a])))


@compiled
def update(state: DCCBState, user: int, x: Floats, reward: float) -> None:
    """Tell the network; act on it at once if there is no lag."""
    net = state.network
    observe(net, user, x, reward)
    state.rounds[0] += 1
    if used_at_once(net):
        follow_gram(state.inverse[user], net.active.gram[user], net.ridge / net.size[user], x, net.active.visits[user])
        multiply(state.inverse[user], net.active.bias[user], state.theta[user])


@compiled
def end_epoch(state: DCCBState, peer: Ints) -> None:
    """Gossip; what came into use changes every agent's estimate."""
    net = state.network
    gossip(net, peer)
    for agent in range(peer.shape[0]):
        invert_positive(net.active.gram[agent], net.ridge / net.size[agent], state.inverse[agent])
        multiply(state.inverse[agent], net.active.bias[agent], state.theta[agent])


class DCCB(Policy):
    """Distributed clustering of confidence-ball bandits: every user is an agent that learns by gossip with random peers.

    An epoch is n rounds. What an agent sees in an epoch is one entry of its buffer, a pair (Σ x xᵀ, Σ y x), zero if it did
    not act. At the end of the epoch a random permutation gives every agent a peer. If both believe in the same cluster, the
    agent's buffer becomes the mean of the two, entry by entry. If their own vectors are too far apart,

        ‖w_i - w_j‖ > alpha2 (width_i + width_j),  width = sqrt((1 + log(1 + T)) / (1 + T)),

    each strikes the other off its cluster and starts over from its own data. An entry that went through `lag` epochs' gossip
    is added to (A~, b~), and the agent acts as LinUCB on (m A~ + ridge I, m b~), m being the size of its cluster: entries are
    close to the network's averages by then, and m times an average is a sum.

    Parameters
    ----------
    graph, dim
        Only the number of users is taken from the graph.
    alpha2 : float
        Multiplies the width by which agents part. `inf` never parts: `DCB`.
    lag : int, optional
        Epochs that an entry is averaged for. By default as in the article, ceil(4 log2 epoch), but at most `max_lag`. With 0
        an observation is used at once, by the agent that made it and by nobody else; so it is, by default, in the first epoch.
    max_lag : int
        Bounds the default lag and so the buffers, (max_lag + 1) n d (d + 1) numbers. After 40 exchanges the averages of 20
        agents are within 2e-5 of each other. Not used when `lag` is given.
    ridge : float
        Regulariser of the agents' own vectors and of the pooled ones.
    radius : {"log", "theory", "constant"}
        beta / exploration: `sqrt(log(1 + t))` in round t of all agents; or
        `sigma sqrt(d log(1 + m T / (d ridge)) + log 1/delta) + sqrt(ridge)`, T being the agent's own rounds and 1 the bound on
        ‖θ‖; or 1.
    exploration : float
        Multiplies the radius; 0 is greedy.
    seed
        Also draws the peers.

    Notes
    -----
    In the article all agents act at the same time. Here one user appears in a round, so agents have clocks of their own,
    gossip takes place every n rounds, and the lag counts epochs. There is no public code. Reconstructed, and still to be
    compared with the article, are: the reset after a parting; the factor m, also on an agent's own data after a reset; the
    radius. Ours are: CLUB's practical width in place of the theoretical one, which parts nobody for tens of thousands of
    rounds; that agents can part only while they believe in each other, and when both have seen d rounds; and that all
    meetings of an epoch are decided by the beliefs before it.

    Averaging along a permutation keeps the total weight of every observation: exactly while nobody has parted, and on average
    afterwards, since an agent whose peer is of another cluster keeps all of its buffer although a third may take half of it.

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
        seed: Seed = 0,
    ) -> None:
        params: dict[str, Any] = dict(alpha2=alpha2, lag=lag, max_lag=max_lag, ridge=ridge, radius=radius)
        params |= dict(exploration=exploration, sigma=sigma, delta=delta)
        super().__init__(graph, dim, starting_state(graph, dim, clustered=True, **params), params, seed)

    @property
    def period(self) -> int:
        """Rounds of an epoch."""
        return self.n_users

    def refresh(self) -> None:
        """The gossip at the end of an epoch."""
        end_epoch(self.state, self.rng.permutation(self.n_users))

    def bonus_scale(self, user: int) -> float:
        """The radius over the root of the cluster's size: an agent's observation counts for all of them until they gossip."""
        user = self.check_user(user)
        return float(radius(self.state, user) / sqrt(self.state.network.size[user]))

    @property
    def theta(self) -> Floats:
        """(n_users, dim) the vector that each agent acts on, as a copy."""
        return self.state.theta.copy()  # type: ignore[no-any-return]

    @property
    def clusters(self) -> Ints:
        """(n_users,) agents with the same number believe in the same cluster."""
        return np.unique(self.state.network.believed, axis=0, return_inverse=True)[1].ravel().astype(np.int64)

    @property
    def n_clusters(self) -> int:
        """How many different clusters are believed in."""
        return int(self.clusters.max()) + 1


class DCB(Policy):
    """Distributed confidence ball: `DCCB` for users who are all alike, without clusters and without their memory.

    Parameters
    ----------
    lag, max_lag, ridge, radius, exploration, sigma, delta, seed
        As in `DCCB`, where the rest is written too.

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
        seed: Seed = 0,
    ) -> None:
        params: dict[str, Any] = dict(lag=lag, max_lag=max_lag, ridge=ridge, radius=radius)
        params |= dict(exploration=exploration, sigma=sigma, delta=delta)
        super().__init__(graph, dim, starting_state(graph, dim, clustered=False, alpha2=inf, **params), params, seed)

    @property
    def period(self) -> int:
        """Rounds of an epoch."""
        return self.n_users

    def refresh(self) -> None:
        """The gossip at the end of an epoch."""
        end_epoch(self.state, self.rng.permutation(self.n_users))

    def bonus_scale(self, user: int) -> float:
        """The radius over the root of the cluster's size: an agent's observation counts for all of them until they gossip."""
        user = self.check_user(user)
        return float(radius(self.state, user) / sqrt(self.state.network.size[user]))

    @property
    def theta(self) -> Floats:
        """(n_users, dim) the vector that each agent acts on, as a copy."""
        return self.state.theta.copy()  # type: ignore[no-any-return]


def starting_state(
    graph: UserGraph,
    dim: int,
    *,
    radius: Radius,
    exploration: float,
    sigma: float,
    delta: float,
    lag: int | None,
    max_lag: int,
    alpha2: float,
    ridge: float,
    clustered: bool,
) -> DCCBState:
    """Check the settings that DCCB and DCB share, and begin."""
    dim, n = check_dim(graph, dim), graph.n_users
    check_not_negative(alpha2=0.0 if alpha2 == inf else alpha2, sigma=sigma, exploration=exploration)
    check_count(0, max_lag=max_lag, lag=0 if lag is None else lag)
    check_positive(ridge=ridge)
    check_probability(delta=delta)
    return DCCBState(
        network=network(n, dim, lag=lag, max_lag=max_lag, alpha2=alpha2, ridge=ridge, clustered=clustered),
        inverse=np.tile(np.eye(dim) * (n / ridge), (n, 1, 1)),
        theta=growable_zeros(n, dim),
        rounds=np.zeros(1, dtype=np.int64),
        schedule=check_choice("radius", radius, RADII),
        sigma=float(sigma),
        delta=float(delta),
        exploration=float(exploration),
    )


register(DCCBState, score=score, update=update)
