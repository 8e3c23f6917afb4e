"""A joint ridge estimate over all users, by rank-one updates of its dense inverse.

The system is (A + K ⊗ I) u = c·b with a symmetric positive definite prior K over users, stored as
its sparse matrix, and a scale c_i per user: θ_i = u_i / c_i. The inverse is zero between users of
different connected components, so each component has its own block, and n isolated users cost n
small ridge regressions.

* Gob.Lin: K = I + L, c = 1.
* GraphUCB: M = A + ridge I + alpha R ⊗ I is not symmetric, but
  D^½ M D^-½ = A + (ridge I + alpha L_sym) ⊗ I is. So K = ridge I + alpha L_sym and c_i = D_i^½. The
  diagonal blocks of M⁻¹ and of the symmetric inverse are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import NamedTuple

import numpy as np
from scipy import sparse

from ..compute.arrays import Flags, Floats, Indices, Ints
from ..compute.compiler import compiled
from ..compute.linalg import CANCELLATION, REFRESH_PERIOD, dot, invert_positive
from ..compute.observations import Observations

MEMORY_LIMIT = 4 * 2**30  # largest joint inverse in bytes: a round would take a second
ROUNDING = 1e-15  # of a pivot, in units of its diagonal entry


class Dense(NamedTuple):
    """State of the dense solver. Component c has k = size[c] · d rows."""

    theta: Floats  # (n, d)
    joint_inverse: Floats  # (Σ k²,), the inverse of each component, row by row, one after the other
    offset: Ints  # (n_components,), where that of component c starts
    first: Ints  # (n_components + 1,), where the users of component c start in `members`
    members: Ints  # (n,), users by component
    component: Ints  # (n,), the component of a user
    position: Ints  # (n,), its place among the members of the component
    scale: Floats  # (n,), c_i
    start: Ints  # (n + 1,), K in CSR form, diagonal included (CoLin, whose K need not exist, has its weights here)
    neighbour: Indices
    prior: Floats
    updates: Ints  # (n_components,), observations since the start


def dense(prior: sparse.csr_array, scale: Floats, dim: int) -> Dense:
    """Return the solver before the first observation: its inverse is K⁻¹ ⊗ I."""
    solver = dense_layout(prior, scale, dim)
    fill_inverse(solver, 1 / prior.diagonal(), lambda users: np.linalg.inv(prior[users][:, users].toarray()))
    return solver


def dense_after_change(old: Dense, prior: sparse.csr_array, scale: Floats, seen: Observations, users: Ints) -> Dense:
    """Return the solver after a change of K, or of the statistics, at these users.

    Their components are solved again, all others are copied. New users, which come at the end,
    must be among them.
    """
    new = dense_layout(prior, scale, old.theta.shape[1])
    changed = np.zeros(prior.shape[0], dtype=np.bool_)
    changed[users] = True
    copy_or_rebuild(old, new, seen, changed)
    return new


@compiled
def copy_or_rebuild(old: Dense, new: Dense, seen: Observations, changed: Flags) -> None:
    """Fill the blocks of `new`: copy the components without a changed user, compute the others."""
    dim = new.theta.shape[1]
    for c in range(new.offset.shape[0]):
        users = new.members[new.first[c] : new.first[c + 1]]
        same = True
        for user in users:
            same &= not changed[user]
        if not same:
            rebuild(new, seen, c)
            continue
        before = old.component[users[0]]  # its users are the same, in the same order
        new.updates[c] = old.updates[before]
        size = users.shape[0] * dim
        for cell in range(size * size):
            new.joint_inverse[new.offset[c] + cell] = old.joint_inverse[old.offset[before] + cell]
        for user in users:
            for k in range(dim):
                new.theta[user, k] = old.theta[user, k]


def dense_layout(prior: sparse.csr_array, scale: Floats, dim: int) -> Dense:
    """Return a solver whose inverse is still zero: one block for each connected component of K."""
    n = prior.shape[0]
    n_components, component = sparse.csgraph.connected_components(prior, directed=False)
    members = np.argsort(component, kind="stable").astype(np.int64)
    sizes = np.bincount(component, minlength=n_components)
    first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    cells = (sizes.astype(np.int64) * dim) ** 2
    if 8 * cells.sum() > MEMORY_LIMIT:
        raise ValueError(
            f"the exact joint inverse of {n} users in dimension {dim} needs {8 * cells.sum() / 1e9:.0f} GB of memory; "
            "use a policy or solver whose cost does not grow with the square of the number of users "
            "(GraphUCB with solver='push', GraphUCBLocal, GobLinBlock, GobLinMacro)."
        )
    return Dense(
        theta=np.zeros((n, dim)),
        joint_inverse=np.zeros(cells.sum()),
        offset=np.concatenate([[0], np.cumsum(cells)[:-1]]).astype(np.int64),
        first=first,
        members=members,
        component=component.astype(np.int64),
        position=(np.argsort(members) - first[component]).astype(np.int64),
        scale=np.array(scale, dtype=np.float64),
        start=prior.indptr.astype(np.int64),
        neighbour=prior.indices.astype(np.int32),
        prior=prior.data.astype(np.float64),
        updates=np.zeros(n_components, dtype=np.int64),
    )


def fill_inverse(solver: Dense, diagonal: Floats, block: Callable[[Ints], Floats]) -> None:
    """Set the inverse of each component to C ⊗ I: C is the `block` of its users.

    For a user alone, C is its entry of `diagonal`.
    """
    dim, sizes = solver.theta.shape[1], np.diff(solver.first)
    alone = np.flatnonzero(sizes == 1)  # there may be very many of them
    places = solver.offset[alone][:, None] + (dim + 1) * np.arange(dim)
    solver.joint_inverse[places] = diagonal[solver.members[solver.first[alone]]][:, None]
    for c in np.flatnonzero(sizes > 1):
        users, begin = solver.members[solver.first[c] : solver.first[c + 1]], solver.offset[c]
        covariance = block(users)
        cube = solver.joint_inverse[begin : begin + (len(users) * dim) ** 2].reshape(len(users), dim, len(users), dim)
        for k in range(dim):
            cube[:, k, :, k] = (covariance + covariance.T) / 2


@compiled
def component_inverse(solver: Dense, c: int) -> Floats:
    """Return the (k, k) inverse of component c, as a view."""
    k = (solver.first[c + 1] - solver.first[c]) * solver.theta.shape[1]
    return solver.joint_inverse[solver.offset[c] : solver.offset[c] + k * k].reshape((k, k))


@compiled
def marginal(solver: Dense, user: int) -> Floats:
    """Return the (d, d) diagonal block of the joint inverse that belongs to `user`, as a view."""
    dim = solver.theta.shape[1]
    row = solver.position[user] * dim
    return component_inverse(solver, solver.component[user])[row : row + dim, row : row + dim]


@compiled
def observe_dense(solver: Dense, seen: Observations, user: int, x: Floats, reward: float) -> float:
    """Learn an observation that `seen` already counts.

    Returns q = 1 + xᵀ(joint inverse)_ii x, the factor by which the determinant has grown.
    """
    q = rank_one(solver, user, x, reward)
    c = solver.component[user]
    if is_stale(solver, c, q):
        rebuild(solver, seen, c)
    return max(q, 1.0)


@compiled
def is_stale(solver: Dense, c: int, q: float) -> bool:
    """Return whether to rebuild component c.

    It is due when the k³ operations of a rebuild average no more than k² per update, or when rounding has
    destroyed too many digits: q is large, or below 1.

    After so many updates that its k³ operations are no more than k² a round; or if too many digits
    have just been lost: q is large, or below 1, which is rounding.
    """
    size = (solver.first[c + 1] - solver.first[c]) * solver.theta.shape[1]
    return solver.updates[c] % max(REFRESH_PERIOD, 2 * size) == 0 or not 1.0 <= q <= CANCELLATION**2


@compiled
def rank_one(solver: Dense, user: int, x: Floats, reward: float) -> float:
    """Update inverse and estimate by Sherman-Morrison and return q; if q < 1 nothing is changed."""
    dim = x.shape[0]
    c = solver.component[user]
    inverse = component_inverse(solver, c)
    size = inverse.shape[0]
    row = solver.position[user] * dim
    gain = np.zeros(size)  # (joint inverse) φ, with φ = x in the block of the user
    for k in range(dim):
        for j in range(size):
            gain[j] += x[k] * inverse[row + k, j]
    q = 1.0 + dot(x, gain[row : row + dim])
    if not q >= 1.0:
        return q
    step = solver.scale[user] * (reward - dot(x, solver.theta[user])) / q
    for place in range(size // dim):
        member = solver.members[solver.first[c] + place]
        for k in range(dim):
            solver.theta[member, k] += gain[place * dim + k] * step / solver.scale[member]
    root = sqrt(q)
    for i in range(size):
        gain[i] /= root  # so that the product below is symmetric to the last bit
    for i in range(size):
        for j in range(size):
            inverse[i, j] -= gain[i] * gain[j]
    solver.updates[c] += 1
    return q


@compiled
def rebuild(solver: Dense, seen: Observations, c: int) -> None:
    """Compute component c from the statistics: its inverse by rank-one updates drifts."""
    dim = solver.theta.shape[1]
    users = solver.members[solver.first[c] : solver.first[c + 1]]
    size = users.shape[0] * dim
    system = np.zeros((size, size))
    target = np.empty(size)
    for place in range(users.shape[0]):
        user, row = users[place], place * dim
        for i in range(dim):
            target[row + i] = solver.scale[user] * seen.bias[user, i]
            for j in range(dim):
                system[row + i, row + j] = seen.gram[user, i, j]
        for entry in range(solver.start[user], solver.start[user + 1]):
            column = solver.position[solver.neighbour[entry]] * dim
            for k in range(dim):
                system[row + k, column + k] += solver.prior[entry]
    inverse = component_inverse(solver, c)
    invert_scaled(system, inverse)
    for place in range(users.shape[0]):
        for k in range(dim):
            solver.theta[users[place], k] = dot(inverse[place * dim + k], target) / solver.scale[users[place]]


@compiled
def invert_scaled(system: Floats, out: Floats) -> None:
    """Write the inverse of a positive definite matrix, which is overwritten, into `out`.

    With S = D^-½ system D^-½, whose diagonal is 1, the inverse is D^-½ S⁻¹ D^-½. Rounding may make a
    pivot of S negative after features of very different sizes. It errs by about `ROUNDING`, whatever
    the sizes in `system`: only smaller pivots are noise, and are raised to that.
    """
    size = system.shape[0]
    root = np.empty(size)
    for i in range(size):
        root[i] = sqrt(system[i, i])
    for i in range(size):
        for j in range(size):
            system[i, j] /= root[i] * root[j]
        system[i, i] = 1.0 - ROUNDING
    invert_positive(system, ROUNDING, out)
    for i in range(size):
        for j in range(size):
            out[i, j] /= root[i] * root[j]
