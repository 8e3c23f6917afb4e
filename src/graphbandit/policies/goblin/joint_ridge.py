"""What the Gob.Lin policies share: one joint ridge regression over nodes, prior precision K.

A node is a user or, in the macro variant, a cluster of users. Nodes are divided into groups,
independent problems with a confidence radius each: the clusters of the block variant, else one.
"""

from __future__ import annotations

from math import log, sqrt
from typing import NamedTuple

import numpy as np
from scipy import sparse

from ...compute.arrays import Floats, Ints
from ...compute.compiler import compiled
from ...compute.linalg import dot
from ...compute.observations import Observations, no_observations, record
from ...solvers.dense import Dense, component_inverse, dense, dense_after_change, marginal, observe_dense
from ...validate import POSITIVE
from ..core.item_effects import ItemEffects
from ..core.kernels import register
from ..core.policy import Policy
from ..core.ridge import RADII, THEORY, practical, self_normalised

RANGES = Policy.ranges | {"scale": POSITIVE}


class GobLinState(NamedTuple):
    """The regression over nodes, and which node serves a user."""

    seen: Observations  # of nodes
    solver: Dense  # of nodes, with K = scale (I + L)
    node: Ints  # (n_users,), the node of a user
    group: Ints  # (n_nodes,), the independent problem that a node belongs to
    log_ratio: Floats  # (n_groups,), log det M of each
    rounds: Ints  # (1,), observations so far
    schedule: int
    sigma: float
    delta: float
    norm: float  # bound on sqrt(Uᵀ K U), or NaN: use the estimate's own
    exploration: float
    items: ItemEffects


@compiled
def prior_norm(state: GobLinState, group: int) -> float:
    """sqrt(Σ θ_iᵀ (K θ)_i) over the nodes of a group: the norm of the estimate under the prior."""
    solver, total = state.solver, 0.0
    for i in range(state.group.shape[0]):
        if state.group[i] == group:
            for entry in range(solver.start[i], solver.start[i + 1]):
                total += solver.prior[entry] * dot(solver.theta[i], solver.theta[solver.neighbour[entry]])
    return sqrt(max(0.0, total))


@compiled
def radius(state: GobLinState, node: int) -> float:
    """The confidence radius: exploration · sqrt(log(1 + t)), as in the article's experiments, or
    exploration · (sigma sqrt(log det M/delta) + ‖U‖_K), as in its theory."""
    if state.schedule != THEORY:
        return state.exploration * practical(state.schedule, state.rounds[0])
    group = state.group[node]
    norm = prior_norm(state, group) if np.isnan(state.norm) else state.norm
    # `self_normalised` has 2 log 1/delta where Gob.Lin has one.
    return state.exploration * (self_normalised(state.log_ratio[group], state.sigma, sqrt(state.delta)) + norm)


@compiled
def belief(state: GobLinState, user: int) -> tuple[Floats, Floats, float]:
    """Return θ_i, (Σ⁻¹)_ii with Σ = A + K ⊗ I, and the radius."""
    node = state.node[user]
    return state.solver.theta[node], marginal(state.solver, node), radius(state, node)


@compiled
def update(state: GobLinState, user: int, x: Floats, item: int, reward: float) -> None:
    """One rank-one update of the joint inverse."""
    node = state.node[user]
    record(state.seen, node, x, reward)
    growth = observe_dense(state.solver, state.seen, node, x, reward)
    state.log_ratio[state.group[node]] += log(growth)
    state.rounds[0] += 1


def first_state(policy: Policy, prior: sparse.csr_array, *, node: Ints | None = None, group: Ints | None = None) -> GobLinState:
    """The state before the first observation; by default a node per user, all in one group."""
    n_nodes = prior.shape[0]
    group = np.zeros(n_nodes, dtype=np.int64) if group is None else group
    state: GobLinState = policy.build_state(
        seen=no_observations(n_nodes, policy.dim),
        solver=dense(policy.params["scale"] * prior, np.ones(n_nodes), policy.dim),
        node=np.arange(n_nodes, dtype=np.int64) if node is None else node.copy(),
        group=group.copy(),
        log_ratio=np.zeros(group.max() + 1),
        rounds=np.zeros(1, dtype=np.int64),
        schedule=RADII.index(policy.params["radius"]),
    )
    return state


def follow_prior(policy: Policy, prior: sparse.csr_array, node: Ints, group: Ints, changed: Ints) -> None:
    """Give the policy a new prior, which differs from the old one at the nodes in `changed`."""
    state, prior = policy.state, policy.params["scale"] * prior
    solver = dense_after_change(state.solver, prior, np.ones(prior.shape[0]), state.seen, changed)
    ratios = log_ratios(solver, prior, state.seen, group)
    policy.state = state._replace(solver=solver, node=node, group=group, log_ratio=ratios)


def log_ratios(solver: Dense, prior: sparse.csr_array, seen: Observations, group: Ints) -> Floats:
    """log det M of each group, the sum over its components of log det Σ - log det K ⊗ I."""
    ratios, dim = np.zeros(group.max() + 1), solver.theta.shape[1]
    for c in range(len(solver.offset)):
        nodes = solver.members[solver.first[c] : solver.first[c + 1]]
        if seen.visits[nodes].any():
            prior_part = dim * np.linalg.slogdet(prior[nodes][:, nodes].toarray())[1]
            ratios[group[nodes[0]]] -= np.linalg.slogdet(component_inverse(solver, c))[1] + prior_part
    return ratios


register(GobLinState, belief=belief, update=update)
