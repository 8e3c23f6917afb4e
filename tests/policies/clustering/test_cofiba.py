"""COFIBA against a slow version of the whole algorithm, and in the limits where it is another policy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphbandit import COFIBA, LinUCB, graphs, signals
from graphbandit.compute.arrays import Floats
from graphbandit.policies.clustering.cofiba import column_widths, frobenius_norm
from oracles import History, components, random_history

DIM, USERS = 3, 9
ITEMS = signals.unit_arms(8, DIM, seed=3)


class Cofiba:
    """The algorithm with adjacency matrices, sets and everything recomputed in each round."""

    def __init__(self, users: Floats, items: Floats, features: Floats, **settings: Any) -> None:
        self.features, self.alpha2, self.tolerance = features, settings["alpha2"], settings.get("tolerance", 0.0)
        self.room, self.inherit = settings.get("item_clusters", 16), settings.get("inherit", False)
        self.first, self.item_edges = users.astype(bool), items.astype(bool)
        n, d = len(users), features.shape[1]
        self.precision, self.bias = np.tile(np.eye(d), (n, 1, 1)), np.zeros((n, d))
        self.clusters = [(part, self.first.copy()) for part in components(self.item_edges)]  # items, graph of users
        self.rounds = 0

    def theta(self, user: int) -> Floats:
        return np.asarray(np.linalg.solve(self.precision[user], self.bias[user]))

    def apart(self, i: int, j: int, x: Floats) -> bool:
        width = sum(np.sqrt(x @ np.linalg.solve(self.precision[u], x) * np.log(1 + self.rounds)) for u in (i, j))
        return bool(abs((self.theta(i) - self.theta(j)) @ x) > self.alpha2 * width)

    def place(self, item: int) -> int:
        return next(k for k, (part, _) in enumerate(self.clusters) if item in part)

    def score(self, user: int, item: int) -> tuple[float, float]:
        x = self.features[item]
        part = next(part for part in components(self.clusters[self.place(item)][1]) if user in part)
        pooled = np.eye(len(x)) + sum(self.precision[u] - np.eye(len(x)) for u in part)
        mean = x @ np.linalg.solve(pooled, sum(self.bias[u] for u in part))
        return float(mean), float(np.sqrt(x @ np.linalg.solve(pooled, x) * np.log(2 + self.rounds)))

    def update(self, user: int, item: int, reward: float) -> None:
        x = self.features[item]
        self.precision[user] += np.outer(x, x)
        self.bias[user] += reward * x
        self.rounds += 1
        _, edges = self.clusters[self.place(item)]
        candidates = np.flatnonzero(edges[user]).tolist()
        stay = {j for j in candidates if not self.apart(user, j, x)}
        for j in set(candidates) - stay:
            edges[user, j] = edges[j, user] = False
        if len(self.clusters) >= self.room:
            return
        for other in np.flatnonzero(self.item_edges[item]).tolist():
            would_stay = {j for j in candidates if not self.apart(user, j, self.features[other])}
            if len(stay ^ would_stay) > self.tolerance * len(candidates) and len(self.clusters) < self.room:
                self.cut_items(item, other, edges)

    def cut_items(self, item: int, other: int, edges: Any) -> None:
        self.item_edges[item, other] = self.item_edges[other, item] = False
        place = self.place(item)
        mine = next(part for part in components(self.item_edges) if item in part)
        rest = self.clusters[place][0] - mine
        if rest:
            self.clusters[place] = (mine, edges)
            self.clusters.append((rest, edges.copy() if self.inherit else self.first.copy()))


def shown(n_users: int, items: Floats, length: int, seed: int, noise: float = 0.1) -> list[tuple[int, int, float]]:
    """User, item, reward: three tastes that agree on some features and differ on others."""
    rng = np.random.default_rng(seed)
    taste = 2.0 * rng.standard_normal((3, items.shape[1]))[rng.integers(3, size=n_users)]
    taste[:, 0] = 0.5
    users, chosen = rng.integers(n_users, size=length), rng.integers(len(items), size=length)
    return [
        (int(u), int(a), float(items[a] @ taste[u] + noise * rng.standard_normal())) for u, a in zip(users, chosen, strict=True)
    ]


def partition(labels: Any) -> set[frozenset[int]]:
    return {frozenset(np.flatnonzero(labels == label).tolist()) for label in np.unique(labels)}


def agree(policy: COFIBA, oracle: Cofiba, exploration: float) -> None:
    """Clusters of items, clusters of users for each, estimates and widths."""
    assert partition(policy.item_clusters) == {frozenset(part) for part, _ in oracle.clusters}
    assert policy.n_item_clusters == len(oracle.clusters)
    for part, edges in oracle.clusters:
        h = policy.item_clusters[min(part)]
        assert partition(policy.user_clusters(int(h))) == {frozenset(users) for users in components(edges)}
    for user in range(policy.graph.n_users):
        expected = np.array([oracle.score(user, item) for item in range(len(oracle.features))]).T
        expected[1] *= exploration
        np.testing.assert_allclose(policy.scores(user, oracle.features), expected, atol=1e-8)


def full(n: int) -> Floats:
    return np.asarray(np.ones((n, n)) - np.eye(n))


CASES: list[dict[str, Any]] = [
    {"alpha2": 0.4},
    {"alpha2": 0.4, "inherit": True},
    {"alpha2": 0.3, "tolerance": 0.2},
    {"alpha2": 0.4, "item_clusters": 3},
    {"alpha2": 0.3, "start": "graph", "tolerance": 0.4, "inherit": True},
    {"alpha2": 0.2, "start": "graph"},
    {"alpha2": 0.5, "start": "random", "item_start": "random", "tolerance": 0.1},
]


@pytest.mark.parametrize("seed", [0, 9])  # in which items and users split in every case
@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_round_is_that_of_the_slow_version(case: dict[str, Any], seed: int) -> None:
    graph = graphs.from_edges([(0, 1), (1, 2), (2, 3), (3, 0), (3, 4), (5, 6), (6, 7), (7, 5), (1, 4)], n_users=USERS)
    policy = COFIBA(graph, DIM, items=ITEMS, exploration=0.3, seed=seed, **case)
    first = graph.adjacency.toarray() if case.get("start") == "graph" else full(USERS)
    joined = full(len(ITEMS))
    if case.get("start") == "random":  # both graphs from the policy's seed, users first
        rng = np.random.default_rng(seed)
        first, joined = (
            graphs.erdos_renyi(n, min(1, 3 * np.log(n) / n), seed=rng).adjacency.toarray() for n in (USERS, len(ITEMS))
        )
    oracle = Cofiba(first, joined, ITEMS, **case)
    began = [len(oracle.clusters), len(components(oracle.first))]
    for user, item, reward in shown(USERS, ITEMS, 150, seed):
        policy.update(user, ITEMS[item], reward)
        oracle.update(user, item, reward)
        agree(policy, oracle, 0.3)
    assert policy.n_item_clusters > began[0]  # both kinds of splits were seen
    assert any(len(components(edges)) > began[1] for _, edges in oracle.clusters)
    np.testing.assert_array_equal(policy.theta.shape, (USERS, DIM))
    here = int(np.flatnonzero(policy.item_clusters == 0)[0])
    np.testing.assert_allclose(policy.theta @ ITEMS[here], [oracle.score(u, here)[0] for u in range(USERS)], atol=1e-8)


def test_shortcuts_of_the_tests_change_nothing_with_larger_features_and_many_columns() -> None:
    """Items of unequal length in more dimensions, a sparse graph of users: every shortcut of the tests is taken, and not."""
    rng = np.random.default_rng(0)
    items = rng.standard_normal((14, 5)) * rng.uniform(0.1, 3.0, size=(14, 1))
    graph = graphs.erdos_renyi(20, 0.4, seed=1)
    policy = COFIBA(graph, 5, items=items, alpha2=0.25, start="graph", tolerance=0.15, exploration=1.0)
    oracle = Cofiba(graph.adjacency.toarray(), full(14), items, alpha2=0.25, tolerance=0.15)
    for t, (user, item, reward) in enumerate(shown(20, items, 600, seed=2)):
        policy.update(user, items[item], reward)
        oracle.update(user, item, reward)
        if t % 50 == 49:
            agree(policy, oracle, 1.0)
    assert policy.n_item_clusters > 1 and policy.user_clusters(0).max() > 0


def fed(policy: Any, history: History) -> Any:
    for user, x, reward in history:
        policy.update(user, x, reward)
    return policy


@pytest.mark.parametrize("features", ["catalogue", "others"])
def test_cofiba_that_never_cuts_is_one_model_for_all(features: str) -> None:
    history = random_history(USERS, DIM, 700, seed=1)
    if features == "catalogue":
        history = [(u, ITEMS[k % len(ITEMS)], y) for k, (u, _, y) in enumerate(history)]
    policy = fed(COFIBA(graphs.empty(USERS), DIM, items=ITEMS, alpha2=np.inf, exploration=0.3), history)
    shared = fed(LinUCB(graphs.empty(USERS), DIM, ridge=1.0, shared=True, radius="log", exploration=0.3), history)
    assert policy.n_item_clusters == 1 and policy.user_clusters(0).max() == 0
    for user in range(USERS):
        np.testing.assert_allclose(policy.scores(user, ITEMS), shared.scores(user, ITEMS), atol=1e-8)
    np.testing.assert_allclose(policy.theta, shared.theta, atol=1e-8)


def test_cofiba_that_always_cuts_ends_with_single_users() -> None:
    history = [(u, ITEMS[k % len(ITEMS)], y) for k, (u, _, y) in enumerate(random_history(USERS, DIM, 700, seed=1))]
    policy = fed(COFIBA(graphs.empty(USERS), DIM, items=ITEMS, alpha2=0.0, radius="constant", exploration=0.3), history)
    alone = fed(LinUCB(graphs.empty(USERS), DIM, ridge=1.0, radius="constant", exploration=0.3), history)
    assert len(partition(policy.user_clusters(0))) == USERS
    for user in range(USERS):
        np.testing.assert_allclose(policy.scores(user, ITEMS), alone.scores(user, ITEMS), atol=1e-8)


def club_that_asks_about_x(first: Floats, history: History, alpha2: float) -> tuple[list[set[int]], Floats]:
    """CLUB that deletes (i, j) if |w_i·x - w_j·x| > CB_i(x) + CB_j(x): clusters, and the vector of every user's cluster."""
    edges, n, d = first.astype(bool), len(first), len(history[0][1])
    precision, bias = np.tile(np.eye(d), (n, 1, 1)), np.zeros((n, d))
    for t, (user, x, reward) in enumerate(history, start=1):
        precision[user] += np.outer(x, x)
        bias[user] += reward * x
        guess = [x @ np.linalg.solve(v, b) for v, b in zip(precision, bias, strict=True)]
        width = [alpha2 * np.sqrt(x @ np.linalg.inv(v) @ x * np.log(1 + t)) for v in precision]
        for j in range(n):
            if abs(guess[user] - guess[j]) > width[user] + width[j]:
                edges[user, j] = edges[j, user] = False
    vectors = np.empty((n, d))
    for part in components(edges):
        members = sorted(part)
        pooled = np.eye(d) + (precision[members] - np.eye(d)).sum(axis=0)
        vectors[members] = np.linalg.solve(pooled, bias[members].sum(axis=0))
    return components(edges), vectors


@pytest.mark.parametrize("case", [{"item_clusters": 1}, {"tolerance": 1.0}, {"items": ITEMS[:1]}], ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_while_items_stay_together_it_is_club_with_another_test(case: dict[str, Any], seed: int) -> None:
    items = case.get("items", ITEMS)
    history = [(u, items[a], y) for u, a, y in shown(USERS, items, 250, seed)]
    policy = fed(COFIBA(graphs.empty(USERS), DIM, **{"items": ITEMS, "alpha2": 0.3, **case}), history)
    clusters, vectors = club_that_asks_about_x(full(USERS), history, 0.3)
    assert policy.n_item_clusters == 1
    assert partition(policy.user_clusters(0)) == {frozenset(part) for part in clusters}
    assert 1 < len(clusters) < USERS or len(items) == 1
    np.testing.assert_allclose(policy.theta, vectors, atol=1e-8)


def test_widths_of_all_columns_are_exact_and_not_below_their_lower_bound() -> None:
    rng = np.random.default_rng(0)
    half = rng.standard_normal((4, 6))
    gram, columns = half @ half.T, rng.standard_normal((4, 7))
    inverse, out = np.linalg.inv(gram + np.eye(4)).astype(np.float64), np.empty(7)
    column_widths(inverse, columns, 0.7, np.empty(7), out)
    np.testing.assert_allclose(out, 0.7 * np.sqrt(np.einsum("ik,ij,jk->k", columns, inverse, columns)), rtol=1e-12)
    assert np.all(0.7 * np.linalg.norm(columns, axis=0) / np.sqrt(1 + frobenius_norm(gram)) <= out)
    assert frobenius_norm(gram) == pytest.approx(np.linalg.norm(gram))


def test_estimates_stay_exact_for_long() -> None:
    """Ten thousand rank-one updates with features of changing size, then a fresh solution."""
    history = [(u, x * (30.0 if k % 7 else 0.01), y) for k, (u, x, y) in enumerate(random_history(3, DIM, 10_000, seed=4))]
    policy = fed(COFIBA(graphs.empty(3), DIM, items=ITEMS, alpha2=np.inf), history)
    gram = sum(np.outer(x, x) for _, x, _ in history)
    expected = np.linalg.solve(np.eye(DIM) + gram, sum(y * x for _, x, y in history))
    np.testing.assert_allclose(policy.theta[0], expected, atol=1e-8)


@pytest.mark.parametrize("size", [1e3, 2e5])
def test_large_features_do_not_spoil_what_follows(size: float) -> None:
    """With them the inverse and the vector are computed afresh, not by a rank-one update; afterwards the truth is found."""
    rng = np.random.default_rng(0)
    policy = COFIBA(graphs.empty(3), DIM, items=ITEMS, alpha2=np.inf)
    for t in range(360):
        x = rng.standard_normal(DIM) * (size if t < 60 else 1.0)
        policy.update(t % 3, x, float(x.sum()))
    np.testing.assert_allclose(policy.theta, 1.0, atol=1e-5)


def test_settings_and_questions_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="items must be the catalogue of arms"):
        COFIBA(graphs.empty(3), DIM)
    policy = COFIBA(graphs.empty(3), DIM, items=ITEMS)
    for item_cluster in (1, -1, "first"):
        with pytest.raises(ValueError, match="item_cluster must be one of 0 to 0"):
            policy.user_clusters(item_cluster)  # type: ignore[arg-type]
    assert "items='8 items, " in repr(policy)
