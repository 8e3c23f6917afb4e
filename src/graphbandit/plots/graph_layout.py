"""Positions at which to draw the users of a graph: neighbours close together, others apart."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from ..compute.arrays import Floats
from ..graph import UserGraph

MOST_USERS = 2000
"""All pairs of users repel each other: more users would take minutes, and could not be distinguished."""
STEPS, STEPS_OF_MANY, MANY = 300, 90, 300
GRAVITY, PULL = 0.8, 2.0


def layout(graph: UserGraph, *, seed: int = 0) -> Floats:
    """Return the (n, 2) position of every user, from -1 to 1 in both directions.

    Users start at the second and third eigenvector of the Laplacian; then edges pull and all pairs
    push (Fruchterman & Reingold 1991), until the picture is still. A weak pull to the centre keeps
    components and users without edges in sight.

    Parameters
    ----------
    graph : UserGraph
        At most 2,000 users.
    seed : int
        Of the small displacements that separate users with the same neighbours.

    Examples
    --------
    >>> from graphbandit import graphs
    >>> place = layout(graphs.from_edges([(0, 1), (1, 2), (2, 3)], n_users=4))
    >>> place.shape, bool(np.linalg.norm(place[0] - place[3]) > np.linalg.norm(place[0] - place[1]))
    ((4, 2), True)
    """
    n = graph.n_users
    if n > MOST_USERS:
        raise ValueError(f"graph must have at most {MOST_USERS:,} users to be drawn, but it has {n:,}: draw a part of it.")
    if n == 1:
        return np.zeros((1, 2))
    joined = (graph.adjacency.toarray() > 0).astype(np.float32)
    degree = np.sqrt(np.maximum(joined.sum(axis=1), 1.0))
    joined *= PULL / (degree[:, None] * degree)  # else users with many edges would fall on each other
    place = _spectral_start(graph, np.random.default_rng(seed)).astype(np.float32)
    distance = np.float32(1.0 / np.sqrt(n))  # of users side by side
    steps = STEPS if n <= MANY else STEPS_OF_MANY
    for step in range(steps):
        lengths = (place**2).sum(axis=1)
        squares = np.maximum(lengths[:, None] + lengths - 2.0 * place @ place.T, np.float32(1e-6))
        force = distance**2 / squares - joined * np.sqrt(squares) / distance
        # Σ_j force_ij (place_i - place_j), less a pull to the centre
        move = force.sum(axis=1, keepdims=True) * place - force @ place - GRAVITY * place
        length = np.linalg.norm(move, axis=1, keepdims=True) + 1e-9
        largest = 0.12 * (1.0 - step / steps) ** 1.5 + 1e-4
        place = place + move / length * np.minimum(length, largest)
    return _centred(place.astype(np.float64))


def _spectral_start(graph: UserGraph, rng: np.random.Generator) -> Floats:
    from scipy.sparse.linalg import eigsh

    n, laplacian = graph.n_users, graph.laplacian("normalized")
    if n <= MANY:
        vectors = np.linalg.eigh(laplacian.toarray())[1][:, 1:3]
    else:  # the smallest eigenvalues of L, as the largest of 2 I - L; only a start, so that it need not be exact
        vectors = eigsh(2.0 * sparse.eye_array(n) - laplacian, k=3, which="LA", v0=np.ones(n), tol=1e-2)[1][:, 1::-1]
    if vectors.shape[1] < 2:
        vectors = np.column_stack([vectors, np.zeros(n)])
    vectors = vectors * np.sign(vectors[np.abs(vectors).argmax(axis=0), [0, 1]] + 1e-300)  # eigenvectors have no sign
    size = np.abs(vectors).max(axis=0)
    return np.asarray(0.5 * vectors / np.where(size > 0, size, 1.0) + 0.05 * rng.standard_normal(vectors.shape))


def _centred(place: Floats) -> Floats:
    """Centre the positions and scale the largest distance from the centre to 1."""
    centred = place - (place.max(axis=0) + place.min(axis=0)) / 2
    return np.asarray(centred / (np.abs(centred).max() or 1.0))
