"""Small graphs with names, for tests that must hold on all of them."""

from __future__ import annotations

import numpy as np

from graphbandit import UserGraph, graphs

GRAPHS: dict[str, UserGraph] = {
    "er": graphs.erdos_renyi(12, 0.4, seed=1),
    "ba": graphs.barabasi_albert(12, 3, seed=2),
    "ws": graphs.watts_strogatz(12, 4, 0.3, seed=3),
    "rbf": graphs.rbf(np.random.default_rng(4).standard_normal((12, 3)), rho=0.2, threshold=0.3),
    "star": graphs.from_edges([(0, k) for k in range(1, 8)]),
    "path": graphs.from_edges([(k, k + 1) for k in range(7)]),
    "disconnected": graphs.from_edges([(0, 1), (1, 2), (4, 5), (5, 6), (6, 4)], n_users=9, weights=[1, 2, 0.5, 3, 0.1]),
    "empty": graphs.empty(5),
    "single": graphs.empty(1),
}
