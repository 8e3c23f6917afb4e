"""CommunityUCB against a NumPy version of the whole algorithm, and its limits."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest

from graphbandit import CommunityUCB, LinUCB, graphs, signals
from graphbandit.compute.arrays import Floats, Ints
from graphbandit.policies.clustering.community import communities, matching_slots
from oracles import History, observations, random_history

ARMS = signals.unit_arms(9, 3, seed=0)


def fed(policy: Any, history: History) -> Any:
    for user, x, reward in history:
        policy.update(user, x, reward)
    return policy


def same_scores(first: Any, second: Any) -> None:
    for user in range(first.graph.n_users):
        np.testing.assert_allclose(first.scores(user, ARMS), second.scores(user, ARMS), atol=1e-8)


def grouped_history(n: int, length: int, seed: int, groups: int = 3, noise: float = 0.1) -> tuple[History, Ints]:
    """Rewards by users of a few tastes."""
    rng = np.random.default_rng(seed)
    group = np.arange(n) % groups
    taste = signals.unit_rows(rng.standard_normal((groups, 3)))[group]
    return [(u, x, float(x @ taste[u]) + noise * y) for u, x, y in random_history(n, 3, length, seed=seed)], group


def ridge_vectors(history: History, n: int) -> Floats:
    gram, bias = observations(history, n, 3)
    return np.stack([np.linalg.solve(a + np.eye(3), b) for a, b in zip(gram, bias, strict=True)])


def partition(theta: Floats, neighbours: int, kernel: float, resolution: float, seed: int) -> list[list[int]]:
    """Communities of the dense similarity matrix, row by row, and the users of whom nothing is known."""
    known = [u for u in range(len(theta)) if theta[u].any()]
    similarity = np.exp(-kernel * ((theta[known][:, None] - theta[known][None]) ** 2).sum(axis=2))
    np.fill_diagonal(similarity, -1)
    kept = np.zeros_like(similarity)
    for i, row in enumerate(similarity):
        for j in np.argsort(-row)[: min(neighbours, len(row) - 1)]:
            kept[i, j] = kept[j, i] = row[j]
    found = nx.community.louvain_communities(nx.from_numpy_array(kept), resolution=resolution, seed=seed)
    parts = [sorted(known[k] for k in part) for part in found]
    return sorted([*parts, sorted(set(range(len(theta))) - set(known))] if len(known) < len(theta) else parts)


def groups_of(labels: Ints) -> list[list[int]]:
    return sorted(np.flatnonzero(labels == c).tolist() for c in np.unique(labels))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("options", [{}, {"neighbours": 2, "resolution": 2.0}, {"kernel": 4.0, "neighbours": 30}], ids=str)
def test_every_round_is_that_of_the_numpy_version(seed: int, options: dict[str, Any]) -> None:
    n, period = 18, 25
    history, _ = grouped_history(n, 160, seed)
    policy = CommunityUCB(graphs.empty(n), 3, period=period, radius="log", exploration=0.3, seed=seed, **options)
    rng = np.random.default_rng(seed)
    parts, counts = [[u] for u in range(n)], set()
    for t, (user, x, reward) in enumerate(history, start=1):
        policy.update(user, x, reward)
        if t % period == 0:
            theta = ridge_vectors(history[:t], n)
            settings = dict(neighbours=5, kernel=1 / 3, resolution=1.0) | options
            parts = partition(theta, **settings, seed=int(rng.integers(2**32)))
        if t % 10 == 0:
            assert groups_of(policy.clusters) == parts and policy.n_clusters == len(parts)
            counts.add(len(parts))
            gram, bias = observations(history[:t], n, 3)
            for members in parts:
                precision = np.eye(3) + gram[members].sum(axis=0)
                pooled = np.linalg.solve(precision, bias[members].sum(axis=0))
                width = np.sqrt(np.einsum("ai,ij,aj->a", ARMS, np.linalg.inv(precision), ARMS))
                for user in members:
                    np.testing.assert_allclose(policy.theta[user], pooled, atol=1e-8)
                    scores = policy.scores(user, ARMS)
                    np.testing.assert_allclose(scores.mean, ARMS @ pooled, atol=1e-8)
                    np.testing.assert_allclose(scores.bonus, 0.3 * np.sqrt(np.log(2 + t)) * width, atol=1e-8)
    assert len(counts) > 1


@pytest.mark.parametrize("ridge", [0.01, 1.0, 20.0])
@pytest.mark.parametrize("radius", ["log", "constant", "theory"])
def test_users_alone_are_linucb_and_users_together_are_one_linucb_for_all(radius: Any, ridge: float) -> None:
    graph = graphs.empty(8)
    history = [*zip(range(8), ARMS[:8], np.linspace(0.5, 1, 8).tolist(), strict=True), *random_history(8, 3, 300, seed=1)]
    common: Any = dict(radius=radius, exploration=0.3, sigma=0.2, delta=0.05, ridge=ridge)
    alone = fed(CommunityUCB(graph, 3, period=10_000, **common), history)
    assert alone.n_clusters == 8
    same_scores(alone, fed(LinUCB(graph, 3, norm=1.0, **common), history))
    together = fed(CommunityUCB(graph, 3, neighbours=7, kernel=0.0, resolution=0.0, **common), history)
    assert together.n_clusters == 1
    same_scores(together, fed(LinUCB(graph, 3, norm=1.0, shared=True, **common), history))


@pytest.mark.parametrize("seed", range(3))
def test_planted_groups_are_found(seed: int) -> None:
    history, group = grouped_history(60, 3000, seed, noise=0.05)
    policy = fed(CommunityUCB(graphs.empty(60), 3, kernel=10.0), history)
    labels = policy.clusters
    for c in np.unique(labels):
        assert len(set(group[labels == c].tolist())) == 1  # Louvain may cut a group in two, but never joins two
    assert policy.n_clusters < 20
    alone = ridge_vectors(history, 60)
    assert np.linalg.norm(policy.theta - policy.theta[group]) < np.linalg.norm(alone - alone[group])


def test_users_of_whom_nothing_is_known_stay_together() -> None:
    policy = CommunityUCB(graphs.empty(3000), 2, kernel=5.0, period=6)
    for user, reward in ((5, 1.0), (6, 1.1), (7, 0.0), (8, -1.0), (9, -1.1), (10, 0.9)):
        policy.update(user, [1.0, 0.0], reward)
    labels = policy.clusters
    assert len(set(labels[[0, 7, 11, 2999]].tolist())) == 1  # user 7 earned nothing: its vector is 0 too
    assert np.sum(labels == labels[0]) == 2995 and labels[5] == labels[6] == labels[10] != labels[8] == labels[9]


def test_few_users_change_slots() -> None:
    old = np.array([4, 4, 4, 2, 2, 2, 2, 0])
    new = matching_slots(np.array([1, 1, 1, 1, 0, 0, 0, 2]), old, 8)
    assert new.tolist() == [4, 4, 4, 4, 2, 2, 2, 0]
    split = matching_slots(np.array([0, 1, 2, 3, 3, 3, 3, 3]), old, 8)
    assert split[3:].tolist() == [2] * 5 and len(set(split.tolist())) == 4 and np.sum(split == 4) == 1


def test_equal_and_distant_users_do_not_stop_louvain() -> None:
    rng = np.random.default_rng(0)
    equal = communities(np.ones((40, 2)), 5, 1.0, 1.0, rng)
    assert len(equal) == 40
    far = 1e6 * np.repeat(np.arange(1.0, 5.0), 5)[:, None]  # exp(-1e12) is 0
    assert groups_of(communities(far, 4, 1.0, 1.0, rng)) == [list(range(k, k + 5)) for k in (0, 5, 10, 15)]
    lonely = communities(far[::5], 1, 1.0, 1.0, rng)
    assert len(lonely) == 4
    for nodes in range(1, 9):  # rings of equal weights are full of ties
        ring = np.column_stack([np.cos(np.arange(nodes) * 2 * np.pi / nodes), np.sin(np.arange(nodes) * 2 * np.pi / nodes)])
        assert len(communities(ring, 2, 0.0, 1.0, rng)) == nodes
