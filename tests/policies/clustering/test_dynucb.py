"""DynUCB against a slow version of itself, and in the limits where it must be LinUCB."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphbandit import DynUCB, LinUCB, graphs, signals
from graphbandit.compute.arrays import Floats
from oracles import History, observations, random_history

ARMS = signals.unit_arms(9, 3, seed=0)


class SlowDynUCB:
    """The rules as they are written, everything computed afresh from the users' sums; None is no cluster yet."""

    def __init__(self, n: int, clusters: int, centroid: str, start: str, seed: int) -> None:
        self.n, self.m, self.mean, self.first = n, clusters, centroid == "mean", start == "first"
        self.drawn = np.random.default_rng(seed).integers(clusters, size=n).tolist()
        self.gram, self.bias = np.zeros((n, 3, 3)), np.zeros((n, 3))
        self.label: list[int | None] = [None] * n if self.first else list(self.drawn)
        self.centroid = {c: np.zeros(3) for c in self.label if c is not None}
        self.moves = self.emptied = 0

    def members(self, cluster: int) -> list[int]:
        return [u for u in range(self.n) if self.label[u] == cluster]

    def fit(self, users: list[int]) -> tuple[Floats, Floats]:
        precision = np.eye(3) + self.gram[users].sum(axis=0)
        return np.linalg.solve(precision, self.bias[users].sum(axis=0)), precision

    def home(self, user: int) -> int:
        label = self.label[user]
        if label is None:
            return len(self.centroid) if len(self.centroid) < self.m else int(self.drawn[user])
        return label

    def update(self, user: int, x: Floats, reward: float) -> None:
        newcomer, old = self.label[user] is None, self.home(user)
        self.label[user] = to = old
        self.gram[user] += np.outer(x, x)
        self.bias[user] += reward * x
        if not newcomer:
            centroids = self.centroid
            if not self.mean:
                centroids = {c: self.fit(self.members(c))[0] for c in self.centroid}
            own = self.fit([user])[0]
            to = min(centroids, key=lambda c: (round(float(np.linalg.norm(own - centroids[c])), 12), c != old, c))
            self.label[user] = to
            self.moves += to != old
            self.emptied += not self.members(old)
        vectors = [self.fit([u])[0] for u in self.members(to)]
        self.centroid[to] = np.mean(vectors, axis=0)


def fed(policy: Any, history: History) -> Any:
    for user, x, reward in history:
        policy.update(user, x, reward)
    return policy


def groups(labels: list[Any]) -> list[list[int]]:
    return sorted([u for u, c in enumerate(labels) if c == label] for label in set(labels))


def tasteful(n: int, length: int, seed: int) -> History:
    taste = signals.unit_arms(3, 3, seed=seed)[np.arange(n) % 3]
    return [(u, x, float(x @ taste[u]) + 0.3 * y) for u, x, y in random_history(n, 3, length, seed)]


@pytest.mark.parametrize("radius", ["log", "constant"])
@pytest.mark.parametrize("centroid", ["pooled", "mean"])
@pytest.mark.parametrize("start", ["random", "first"])
@pytest.mark.parametrize("clusters", [2, 5, 30])
def test_every_round_is_that_of_the_slow_version(clusters: int, start: Any, centroid: Any, radius: Any) -> None:
    n, seed = 12, 10 * clusters
    slow = SlowDynUCB(n, clusters, centroid, start, seed)
    policy = DynUCB(
        graphs.empty(n), 3, clusters=clusters, centroid=centroid, start=start, radius=radius, exploration=0.4, seed=seed
    )
    for t, (user, x, reward) in enumerate(tasteful(n, 700, seed), start=1):  # long enough for the sums to be rebuilt once
        theta, precision = slow.fit(slow.members(slow.home(user)))
        beta = 0.4 * (np.sqrt(np.log(1 + t)) if radius == "log" else 1.0)
        bonus = beta * np.sqrt(np.einsum("ai,ij,aj->a", ARMS, np.linalg.inv(precision), ARMS))
        np.testing.assert_allclose(policy.scores(user, ARMS), [ARMS @ theta, bonus], atol=1e-8)
        slow.update(user, x, reward)
        policy.update(user, x, reward)
        assert groups(policy.clusters.tolist()) == groups([slow.home(u) for u in range(n)]), f"round {t}"
        assert policy.n_clusters == len(set(slow.label) - {None})
    expected = [slow.fit(slow.members(slow.home(u)))[0] for u in range(n)]
    np.testing.assert_allclose(policy.theta, expected, atol=1e-8)
    if (clusters, start) != (30, "first"):  # where everybody opens a cluster
        assert slow.moves > 5
    assert not slow.emptied or centroid == "mean"


def test_means_can_empty_a_cluster_and_fill_it_again() -> None:
    """Alone, a user meets its own centroid as it was a round ago, so it can leave; the cluster remains a target."""
    policy = DynUCB(graphs.empty(2), 1, clusters=2, preset="released")
    policy.update(0, [1.0], 1.0)  # w = 0.5
    policy.update(1, [1.0], -1.0)  # w = -0.5
    policy.update(0, [1.0], -2.0)  # w = -1/3, nearer to -0.5 than to 0.5
    assert policy.clusters.tolist() == [1, 1] and policy.n_clusters == 1
    np.testing.assert_allclose(policy.theta, -2 / 4)
    np.testing.assert_allclose(policy.state.centroid.ravel(), [0.5, (-1 / 2 - 1 / 3) / 2])
    policy.update(0, [2.0], 2.0)  # w = (-1 + 4) / 7, nearer to 0.5, which the empty cluster kept
    assert policy.clusters.tolist() == [0, 1] and policy.n_clusters == 2
    np.testing.assert_allclose(policy.theta.ravel(), [3 / 7, -1 / 2])
    alone = DynUCB(graphs.empty(2), 1, clusters=2, centroid="pooled", start="first")
    for user, reward in ((0, 1.0), (1, -1.0), (0, -2.0)):
        alone.update(user, [1.0], reward)
    assert alone.clusters.tolist() == [0, 1]


def test_one_cluster_is_one_shared_model() -> None:
    graph, history = graphs.empty(8), random_history(8, 3, 1200, seed=15)
    shared = fed(LinUCB(graph, 3, shared=True, ridge=1.0, radius="log", exploration=0.3), history)
    for preset in ("paper", "released"):
        policy = fed(DynUCB(graph, 3, clusters=1, preset=preset, exploration=0.3), history)
        for user in range(8):
            np.testing.assert_allclose(policy.scores(user, ARMS), shared.scores(user, ARMS), atol=1e-8)


def test_a_cluster_for_everybody_is_a_model_for_each_user() -> None:
    """Users open clusters of their own, and one that is alone is at distance 0 from its cluster; users 6 and 7 never come."""
    graph, history = graphs.empty(8), random_history(6, 3, 1200, seed=16)
    policy = DynUCB(graph, 3, clusters=8, start="first", exploration=0.3)
    each = LinUCB(graph, 3, ridge=1.0, radius="log", exploration=0.3)
    for user, x, reward in history:
        policy.update(user, x, reward)
        each.update(user, x, reward)
        for other in range(8):
            np.testing.assert_allclose(policy.scores(other, ARMS), each.scores(other, ARMS), atol=1e-8)
    assert policy.n_clusters == 6


def test_sums_do_not_drift() -> None:
    """Rebuilt often enough: after many moves the sums are still those of the members."""
    n, history = 12, random_history(12, 3, 6001, seed=3)
    policy = fed(DynUCB(graphs.empty(n), 3, clusters=4, centroid="mean"), history)
    gram, bias = observations(history, n, 3)
    for c in set(policy.clusters.tolist()):
        users = np.flatnonzero(policy.clusters == c)
        np.testing.assert_allclose(policy.state.models.pooled.gram[c], gram[users].sum(axis=0), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(policy.state.total[c], policy.state.models.theta[users].sum(axis=0), atol=1e-13)
        np.testing.assert_allclose(
            policy.theta[users[0]], np.linalg.solve(np.eye(3) + gram[users].sum(axis=0), bias[users].sum(axis=0)), atol=1e-10
        )


def test_rebuilding_removes_what_rounding_left() -> None:
    history = random_history(4, 3, 512, seed=7)
    policy = fed(DynUCB(graphs.empty(4), 3, clusters=2, centroid="mean"), history[:-1])
    policy.state.models.pooled.gram[:] += 1e-3  # as if many moves had left this
    policy.state.total[:] += 1e-3
    fed(policy, history[-1:])
    gram, _ = observations(history, 4, 3)
    for c in set(policy.clusters.tolist()):
        users = np.flatnonzero(policy.clusters == c)
        np.testing.assert_allclose(policy.state.models.pooled.gram[c], gram[users].sum(axis=0), atol=1e-12)
        np.testing.assert_allclose(policy.state.total[c], policy.state.models.theta[users].sum(axis=0), atol=1e-12)


def test_presets_choose_centroid_and_start() -> None:
    paper, released = (DynUCB(graphs.empty(3), 2, preset=p) for p in ("paper", "released"))
    assert (paper.params["centroid"], paper.params["start"]) == ("pooled", "random")
    assert (released.params["centroid"], released.params["start"]) == ("mean", "first")
    assert paper.n_clusters >= 1 and released.n_clusters == 0
