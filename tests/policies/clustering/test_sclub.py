"""SCLUB against a slow version of itself, and in the limits where it must be LinUCB."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphbandit import SCLUB, LinUCB, graphs, signals
from graphbandit.compute.arrays import Floats
from oracles import History, observations, random_history

ARMS = signals.unit_arms(9, 3, seed=0)
PHASE_STARTS = {2**s - 2 for s in range(1, 20)}  # after 0, 2, 2 + 4, 2 + 4 + 8, ... rounds


def width(visits: int) -> float:
    return float(np.sqrt((1 + np.log(1 + visits)) / (1 + visits)))


class Cluster:
    def __init__(self, members: set[int]) -> None:
        self.members = members
        self.pivot, self.pivot_visits = np.zeros(3), 0


class SlowSCLUB:
    """The rules as they are written: sets of users, everything computed afresh from the users' sums."""

    def __init__(self, n: int, alpha_theta: float, alpha_p: float) -> None:
        self.n, self.alpha_theta, self.alpha_p = n, alpha_theta, alpha_p
        self.gram, self.bias, self.visits = np.zeros((n, 3, 3)), np.zeros((n, 3)), [0] * n
        self.clusters, self.checked, self.rounds = [Cluster(set(range(n)))], set[int](), 0
        self.by_vector = self.by_frequency = self.merges = 0

    def fit(self, members: set[int]) -> tuple[Floats, Floats, int]:
        users = sorted(members)
        precision = np.eye(3) + self.gram[users].sum(axis=0)
        return np.linalg.solve(precision, self.bias[users].sum(axis=0)), precision, sum(self.visits[u] for u in users)

    def freeze(self, cluster: Cluster) -> None:
        cluster.pivot, _, cluster.pivot_visits = self.fit(cluster.members)

    def of(self, user: int) -> Cluster:
        return next(c for c in self.clusters if user in c.members)

    def update(self, user: int, x: Floats, reward: float) -> None:
        if self.rounds in PHASE_STARTS:
            self.checked.clear()
            for c in self.clusters:
                self.freeze(c)
        self.gram[user] += np.outer(x, x)
        self.bias[user] += reward * x
        self.visits[user] += 1
        self.rounds += 1
        mine = self.of(user)
        checked_before = mine.members <= self.checked
        self.checked.add(user)
        new = None
        if len(mine.members) > 1 and self.differs(user, mine):
            mine.members.remove(user)
            new = Cluster({user})
            self.freeze(new)
            self.clusters.append(new)
            self.merge(new)
        if mine.members <= self.checked and not checked_before and mine in self.clusters:
            self.merge(mine)

    def differs(self, user: int, cluster: Cluster) -> bool:
        apart = np.linalg.norm(self.fit({user})[0] - cluster.pivot)
        vector = apart > self.alpha_theta * (width(self.visits[user]) + width(cluster.pivot_visits))
        limit = 2 * self.alpha_p * width(self.rounds)
        frequency = any(abs(self.visits[user] - self.visits[u]) / self.rounds > limit for u in cluster.members)
        self.by_vector += bool(vector)
        self.by_frequency += bool(frequency and not vector)
        return bool(vector or frequency)

    def merge(self, cluster: Cluster) -> None:
        while True:
            alike = [(self.apart(cluster, c), k) for k, c in enumerate(self.clusters) if self.alike(cluster, c)]
            if not alike:
                return
            other = self.clusters.pop(min(alike)[1])
            if len(other.members) > len(cluster.members):  # which object survives matters to the caller only
                other.members |= cluster.members
                self.clusters.remove(cluster)
                self.clusters.append(other)
                cluster = other
            else:
                cluster.members |= other.members
            self.freeze(cluster)
            self.merges += 1

    def apart(self, a: Cluster, b: Cluster) -> float:
        return float(np.linalg.norm(self.fit(a.members)[0] - self.fit(b.members)[0]))

    def alike(self, a: Cluster, b: Cluster) -> bool:
        if a is b or not (a.members <= self.checked and b.members <= self.checked):
            return False
        visits = [self.fit(c.members)[2] for c in (a, b)]
        often = [t / (len(c.members) * self.rounds) for t, c in zip(visits, (a, b), strict=True)]
        close = self.apart(a, b) < self.alpha_theta / 2 * (width(visits[0]) + width(visits[1]))
        return close and abs(often[0] - often[1]) < self.alpha_p * width(self.rounds)

    def partition(self) -> list[list[int]]:
        return sorted(sorted(c.members) for c in self.clusters)


def partition(labels: Any) -> list[list[int]]:
    return sorted(np.flatnonzero(labels == c).tolist() for c in set(labels.tolist()))


def tasteful(n: int, length: int, seed: int, skew: float = 0.0) -> History:
    """Users of three tastes; with skew, the first users come more often."""
    rng = np.random.default_rng(seed)
    taste = signals.unit_arms(3, 3, seed=seed)[np.arange(n) % 3]
    shares = np.arange(1.0, n + 1) ** -skew
    users = rng.choice(n, size=length, p=shares / shares.sum())
    return [
        (int(u), x, float(x @ taste[u]) + 0.3 * y)
        for u, (_, x, y) in zip(users, random_history(n, 3, length, seed), strict=True)
    ]


def check_ranges(policy: SCLUB) -> None:
    """What is kept of every cluster, by counting."""
    models, lists = policy.state.models, policy.state.lists
    for c in set(models.cluster.tolist()):
        visits = models.seen.visits[models.cluster == c]
        assert (lists.least_visits[c], lists.most_visits[c]) == (visits.min(), visits.max())
        assert lists.n_least[c] == np.sum(visits == visits.min())
        members, user = [], int(lists.first[c])
        for _ in range(len(visits)):
            members.append(user)
            user = int(lists.after[user])
            assert lists.before[user] == members[-1]
        assert sorted(members) == np.flatnonzero(models.cluster == c).tolist() and user == members[0]


@pytest.mark.parametrize("ridge", [0.01, 20.0])
def test_the_theoretical_radius_has_the_ridge(ridge: float) -> None:
    policy = SCLUB(graphs.empty(2), 3, alpha_theta=np.inf, alpha_p=np.inf, radius="theory", exploration=1.0, ridge=ridge)
    for user, x, reward in tasteful(2, 40, 0, 0.0):
        policy.update(user, x, reward)
    beta = np.sqrt(3 * np.log(1 + 40 / (3 * ridge)) + 4 * np.log(41) + np.log(2)) + np.sqrt(ridge)
    assert policy.beta(0) == pytest.approx(beta)


@pytest.mark.parametrize("radius", ["log", "theory", "constant"])
@pytest.mark.parametrize(
    ("seed", "alpha_theta", "alpha_p", "skew"),
    [(0, 0.8, 9.0, 0.0), (0, 0.6, 0.4, 1.0), (1, 0.5, 0.25, 0.5), (1, np.inf, 0.15, 1.0)],
)
def test_every_round_is_that_of_the_slow_version(
    seed: int, alpha_theta: float, alpha_p: float, skew: float, radius: Any
) -> None:
    n, history = 10, tasteful(10, 500, seed, skew)
    slow = SlowSCLUB(n, alpha_theta, alpha_p)
    policy = SCLUB(graphs.empty(n), 3, alpha_theta=alpha_theta, alpha_p=alpha_p, radius=radius, exploration=0.4)
    for t, (user, x, reward) in enumerate(history, start=1):
        cluster = slow.of(user).members
        theta, precision, visits = slow.fit(cluster)
        betas = {"log": np.sqrt(np.log(1 + t)), "constant": 1.0}
        betas["theory"] = np.sqrt(3 * np.log(1 + visits / 3) + 4 * np.log(t) + np.log(2)) + 1
        bonus = 0.4 * betas[radius] * np.sqrt(np.einsum("ai,ij,aj->a", ARMS, np.linalg.inv(precision), ARMS))
        np.testing.assert_allclose(policy.scores(user, ARMS), [ARMS @ theta, bonus], atol=1e-8)
        slow.update(user, x, reward)
        policy.update(user, x, reward)
        assert partition(policy.clusters) == slow.partition(), f"round {t}"
        assert policy.n_clusters == len(slow.clusters) == policy.clusters.max() + 1
        check_ranges(policy)
    for user in range(n):
        np.testing.assert_allclose(policy.theta[user], slow.fit(slow.of(user).members)[0], atol=1e-8)
    assert slow.merges > 3
    assert slow.by_vector > 3 or alpha_theta == np.inf
    assert slow.by_frequency > 0 or skew == 0.0
    assert policy.state.used[0] < 1 + slow.by_vector + slow.by_frequency  # slots are used again


def test_no_threshold_is_one_shared_model() -> None:
    graph, history = graphs.empty(8), random_history(8, 3, 1200, seed=15)
    policy = SCLUB(graph, 3, alpha_theta=np.inf, alpha_p=np.inf, exploration=0.3)
    shared = LinUCB(graph, 3, shared=True, ridge=1.0, radius="log", exploration=0.3)
    for user, x, reward in history:
        np.testing.assert_allclose(policy.scores(user, ARMS), shared.scores(user, ARMS), atol=1e-8)
        policy.update(user, x, reward)
        shared.update(user, x, reward)
    assert policy.n_clusters == 1 and not policy.clusters.any()


def test_thresholds_of_zero_are_a_model_for_each_user() -> None:
    """Everybody is alone from the first observation on; users 6 and 7 have none, and share nothing."""
    graph, history = graphs.empty(8), random_history(6, 3, 1200, seed=16)
    policy = SCLUB(graph, 3, alpha_theta=0.0, alpha_p=0.0, exploration=0.3)
    each = LinUCB(graph, 3, ridge=1.0, radius="log", exploration=0.3)
    for user, x, reward in history:
        policy.update(user, x, reward)
        each.update(user, x, reward)
        for other in range(8):
            np.testing.assert_allclose(policy.scores(other, ARMS), each.scores(other, ARMS), atol=1e-8)
    assert partition(policy.clusters) == [[0], [1], [2], [3], [4], [5], [6, 7]]


def test_sums_do_not_drift() -> None:
    """Many splits and merges later the pooled sums are still those of the members."""
    n, history = 12, tasteful(12, 6000, seed=5, skew=0.5)
    policy = SCLUB(graphs.empty(n), 3, alpha_theta=0.5, alpha_p=0.5)
    sizes = set()
    for user, x, reward in history:
        policy.update(user, x, reward)
        sizes.add(policy.n_clusters)
    assert len(sizes) > 3
    gram, bias = observations(history, n, 3)
    for members in partition(policy.clusters):
        pooled = np.linalg.solve(np.eye(3) + gram[members].sum(axis=0), bias[members].sum(axis=0))
        np.testing.assert_allclose(policy.theta[members], np.tile(pooled, (len(members), 1)), atol=1e-10)


def test_a_phase_removes_what_rounding_left() -> None:
    history = random_history(4, 3, 15, seed=7)
    policy = SCLUB(graphs.empty(4), 3, alpha_theta=np.inf, alpha_p=np.inf)
    for t, observation in enumerate(history):
        if t == 14:  # phases begin after 0, 2, 6, 14 rounds
            policy.state.models.pooled.gram[:] += 1e-3
        policy.update(*observation)
    gram, _ = observations(history, 4, 3)
    np.testing.assert_allclose(policy.state.models.pooled.gram[0], gram.sum(axis=0), atol=1e-12)


def test_like_users_end_together() -> None:
    """With little noise the clusters are the three tastes, though users split off on the way."""
    taste = np.eye(3)[np.arange(12) % 3]
    policy, most = SCLUB(graphs.empty(12), 3, alpha_theta=0.7, alpha_p=9.0), 0
    for user, x, noise in random_history(12, 3, 3000, seed=6):
        policy.update(user, x, float(x @ taste[user]) + 0.05 * noise)
        most = max(most, policy.n_clusters)
    assert most > 3
    assert partition(policy.clusters) == [[0, 3, 6, 9], [1, 4, 7, 10], [2, 5, 8, 11]]
