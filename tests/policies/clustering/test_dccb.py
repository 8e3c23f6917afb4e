"""DCCB and DCB against a NumPy version of the whole algorithm, and their limits."""

from __future__ import annotations

from math import ceil, log2
from typing import Any

import numpy as np
import pytest

from graphbandit import DCB, DCCB, LinUCB, graphs, signals
from graphbandit.compute.arrays import Floats
from oracles import History, random_history

ARMS = signals.unit_arms(9, 3, seed=0)


def fed(policy: Any, history: History) -> Any:
    for user, x, reward in history:
        policy.update(user, x, reward)
    return policy


def same_scores(first: Any, second: Any, atol: float = 1e-8) -> None:
    for user in range(first.graph.n_users):
        np.testing.assert_allclose(first.scores(user, ARMS), second.scores(user, ARMS), atol=atol)


class SlowDCCB:
    """Straight from the description: sets of believed peers, and a dictionary from epochs to entries as buffers."""

    def __init__(self, n: int, alpha2: float, lag: int | None, max_lag: int, ridge: float, seed: int) -> None:
        self.n, self.alpha2, self.fixed, self.max_lag, self.ridge = n, alpha2, lag, max_lag, ridge
        self.rng = np.random.default_rng(seed)
        self.local, self.active = np.zeros((2, n, 3, 4))
        self.visits, self.rounds, self.epoch = [0] * n, 0, 1
        self.believed = [set(range(n)) for _ in range(n)]
        self.buffers: list[dict[int, Floats]] = [{} for _ in range(n)]
        self.partings = 0

    @property
    def lag(self) -> int:
        return min(self.max_lag, ceil(4 * log2(self.epoch))) if self.fixed is None else self.fixed

    def update(self, user: int, x: Floats, reward: float) -> None:
        entry = np.outer(x, [*x, reward])
        self.local[user] += entry
        self.visits[user] += 1
        self.rounds += 1
        if self.lag == 0:
            self.active[user] += entry
        else:
            self.buffers[user][self.epoch] = self.buffers[user].get(self.epoch, np.zeros((3, 4))) + entry
        if self.rounds % self.n == 0:
            self.gossip(self.rng.permutation(self.n).tolist())

    def gossip(self, peer: list[int]) -> None:
        vectors = [np.linalg.solve(s[:, :3] + self.ridge * np.eye(3), s[:, 3]) for s in self.local]
        width = [self.alpha2 * np.sqrt((1 + np.log(1 + t)) / (1 + t)) for t in self.visits]
        before, beliefs = [dict(b) for b in self.buffers], [set(b) for b in self.believed]
        for i, j in enumerate(peer):
            far = np.linalg.norm(vectors[i] - vectors[j]) > width[i] + width[j]
            if j in beliefs[i] and far and min(self.visits[i], self.visits[j]) >= 3:
                self.believed[i].discard(j)
                self.believed[j].discard(i)
                self.partings += 1
            elif beliefs[i] == beliefs[j]:
                zero = np.zeros((3, 4))
                epochs = before[i].keys() | before[j].keys()
                self.buffers[i] = {e: (before[i].get(e, zero) + before[j].get(e, zero)) / 2 for e in epochs}
        for i in range(self.n):
            if self.believed[i] != beliefs[i]:
                self.active[i], self.buffers[i] = self.local[i], {}
        self.epoch += 1
        for i in range(self.n):
            for e in sorted(e for e in self.buffers[i] if e <= self.epoch - self.lag):
                self.active[i] += self.buffers[i].pop(e)

    def scores(self, user: int, arms: Floats) -> tuple[Floats, Floats]:
        m = len(self.believed[user])
        precision = m * self.active[user][:, :3] + self.ridge * np.eye(3)
        width = np.sqrt(np.einsum("ai,ij,aj->a", arms, np.linalg.inv(precision), arms))
        return arms @ np.linalg.solve(precision, m * self.active[user][:, 3]), width


@pytest.mark.parametrize("lag", [None, 0, 1, 3])
@pytest.mark.parametrize(("max_lag", "ridge", "seed"), [(40, 1.0, 0), (5, 0.3, 1), (0, 7.0, 2)])
def test_every_round_is_that_of_the_slow_version(lag: int | None, max_lag: int, ridge: float, seed: int) -> None:
    n = 7
    rng = np.random.default_rng(seed)
    taste = 2 * signals.unit_rows(rng.standard_normal((3, 3)))[rng.integers(3, size=n)]
    history = [(u, x, float(x @ taste[u]) + 0.1 * y) for u, x, y in random_history(n, 3, 60 * n, seed=seed)]
    settings: Any = dict(lag=lag, max_lag=max_lag, ridge=ridge)
    policy = DCCB(graphs.empty(n), 3, alpha2=0.6, radius="constant", exploration=0.5, seed=seed, **settings)
    slow = SlowDCCB(n, 0.6, seed=seed, **settings)
    for t, (user, x, reward) in enumerate(history):
        policy.update(user, x, reward)
        slow.update(user, x, reward)
        if t % 5 == 0 or t % n == n - 1:
            for agent in range(n):
                mean, width = slow.scores(agent, ARMS)
                found = policy.scores(agent, ARMS)
                np.testing.assert_allclose(found.mean, mean, atol=1e-8)
                np.testing.assert_allclose(found.bonus, 0.5 * width, atol=1e-8)
                assert set(np.flatnonzero(policy.state.network.believed[agent]).tolist()) == slow.believed[agent]
    assert slow.partings > 3
    assert policy.n_clusters == len({frozenset(b) for b in slow.believed}) > 1
    assert len({(int(c), frozenset(b)) for c, b in zip(policy.clusters, slow.believed, strict=True)}) == policy.n_clusters


@pytest.mark.parametrize("cls", [DCCB, DCB])
@pytest.mark.parametrize("ridge", [0.2, 1.0])
def test_one_agent_without_lag_is_linucb(cls: Any, ridge: float) -> None:
    graph, history = graphs.empty(1), random_history(1, 3, 700, seed=3)
    for radius in ("log", "constant"):
        common: Any = dict(radius=radius, exploration=0.3, ridge=ridge)
        same_scores(fed(cls(graph, 3, lag=0, **common), history), fed(LinUCB(graph, 3, **common), history))
    late = fed(cls(graph, 3, lag=2, radius="constant", ridge=ridge), history)
    same_scores(late, fed(LinUCB(graph, 3, radius="constant", exploration=0.1, ridge=ridge), history[:-1]))


def test_the_theoretical_radius_follows_its_formula() -> None:
    history = random_history(4, 3, 50, seed=4)
    policy = fed(DCB(graphs.empty(4), 3, lag=2, radius="theory", exploration=0.7, sigma=0.2, delta=0.05, ridge=0.5), history)
    constant = fed(DCB(graphs.empty(4), 3, lag=2, radius="constant", exploration=1.0, ridge=0.5), history)
    for user in range(4):
        own = sum(u == user for u, _, _ in history)
        beta = 0.7 * (0.2 * np.sqrt(np.log((1 + 4 * own / (3 * 0.5)) ** 3 / 0.05)) + np.sqrt(0.5))
        np.testing.assert_allclose(policy.scores(user, ARMS).bonus, beta * constant.scores(user, ARMS).bonus, rtol=1e-10)


@pytest.mark.parametrize("lag", [None, 0, 4])
def test_agents_who_never_part_are_dcb(lag: int | None) -> None:
    history = random_history(9, 3, 400, seed=5)
    clustered = fed(DCCB(graphs.empty(9), 3, alpha2=float("inf"), lag=lag, seed=7), history)
    plain = fed(DCB(graphs.empty(9), 3, lag=lag, seed=7), history)
    for user in range(9):
        assert np.array_equal(clustered.scores(user, ARMS), plain.scores(user, ARMS))
    assert clustered.n_clusters == 1


@pytest.mark.parametrize("lag", [None, 0, 1, 6])
@pytest.mark.parametrize("make", [DCB, lambda *a, **k: DCCB(*a, alpha2=1e9, **k)])
def test_weight_is_conserved(make: Any, lag: int | None) -> None:
    policy, total = make(graphs.empty(11), 3, lag=lag, max_lag=9), np.zeros((3, 4))
    for user, x, reward in random_history(11, 3, 500, seed=6):
        policy.update(user, x, reward)
        total += np.outer(x, [*x, reward])
        net = policy.state.network
        held = net.waiting.sum(axis=(0, 1))
        held[:, :3] += net.active.gram.sum(axis=0)
        held[:, 3] += net.active.bias.sum(axis=0)
        np.testing.assert_allclose(held, total, atol=1e-10)


@pytest.mark.compiled
def test_averages_come_together() -> None:
    """n = 20: about 1.0, 0.25, 0.018 and 2e-5 of the average after 8, 12, 20 and 40 exchanges."""
    deviations = []
    for seed in range(20):
        policy = DCB(graphs.empty(20), 20, lag=50, seed=seed)
        for agent, x in enumerate(np.eye(20)[:-1]):  # one less than an epoch: the weight of agent k is entry (k, k)
            policy.update(agent, x, 0.0)
        row = []
        for exchange in range(1, 41):
            policy.refresh()
            if exchange in (8, 12, 20, 40):
                weights = np.diagonal(policy.state.network.waiting[:, 1], axis1=1, axis2=2)[:, :-1]
                row.append(np.max(np.abs(20 * weights - 1)))
        deviations.append(row)
    typical = np.median(deviations, axis=0)
    np.testing.assert_array_less(np.abs(np.log(typical / [1.0, 0.25, 0.018, 2e-5])), np.log(2), err_msg=f"{typical}")


def test_after_enough_gossip_dcb_is_one_linucb() -> None:
    graph, history = graphs.empty(20), random_history(20, 3, 100, seed=8)
    policy = fed(DCB(graph, 3, lag=60, radius="constant", exploration=0.4), history)
    shared = fed(LinUCB(graph, 3, ridge=1.0, shared=True, radius="constant", exploration=0.4), history)
    np.testing.assert_array_equal(policy.theta, 0)  # nothing is in use yet
    for _ in range(60):
        policy.refresh()
    same_scores(policy, shared, atol=1e-5)
    with pytest.raises(AssertionError):
        same_scores(fed(DCB(graph, 3, lag=2, radius="constant", exploration=0.4), history), shared, atol=1e-2)


@pytest.mark.compiled
def test_agents_of_planted_groups_part() -> None:
    rng = np.random.default_rng(9)
    taste = np.array([[1.0, 0, 0], [0, 1.0, 0]])[np.arange(10) % 2]
    policy = DCCB(graphs.empty(10), 3, alpha2=0.7, max_lag=8)
    for user, x, _ in random_history(10, 3, 4000, seed=9):
        policy.update(user, x, float(x @ taste[user]) + 0.05 * rng.standard_normal())
    assert policy.n_clusters == 2
    assert np.array_equal(policy.clusters == policy.clusters[0], np.arange(10) % 2 == 0)
    np.testing.assert_allclose(policy.theta, taste, atol=0.02)


def test_too_many_agents_are_refused() -> None:
    with pytest.raises(
        ValueError, match=r"the buffers and believed clusters of 150000 agents in dimension 1 need 23 GB of memory"
    ):
        DCCB(graphs.empty(150_000), 1, lag=0)
    assert DCB(graphs.empty(150_000), 1, lag=0).theta.shape == (150_000, 1)
