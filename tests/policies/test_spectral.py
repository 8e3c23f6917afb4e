"""Spectral bandits against regression on the nodes themselves, without eigenvectors, and in their limits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphbandit import LinTS, LinUCB, SpectralTS, SpectralUCB, UserGraph, graphs, signals
from graphbandit.compute.arrays import Floats
from graphbandit.policies import spectral
from graphbandit.policies.core import kernels
from graphbandit.policies.spectral import effective_dimension, smoothest
from graphbandit.validate import NO_ITEMS
from oracles import random_history

ITEMS = signals.unit_arms(14, 3, seed=0)
USERS = graphs.empty(3)
Pulls = list[tuple[int, int, float]]


def random_pulls(n_users: int, n_items: int, length: int, seed: int) -> Pulls:
    rng = np.random.default_rng(seed)
    users, items = rng.integers(n_users, size=length).tolist(), rng.integers(n_items, size=length).tolist()
    return list(zip(users, items, rng.standard_normal(length).tolist(), strict=True))


def fed(policy: Any, pulls: Pulls, items: Floats = ITEMS) -> Any:
    for user, item, reward in pulls:
        policy.update(user, items[item], reward)
    return policy


def laplacian(items: Floats, neighbours: int) -> Floats:
    """D - W of the nearest-neighbour graph, by sorting all distances."""
    distance = np.linalg.norm(items[:, None] - items[None], axis=2)
    np.fill_diagonal(distance, np.inf)
    weights = np.zeros(distance.shape)
    for v, row in enumerate(distance):
        weights[v, np.argsort(row)[:neighbours]] = 1
    weights = np.maximum(weights, weights.T)
    return np.asarray(np.diag(weights.sum(axis=1)) - weights)


def node_posterior(pulls: Pulls, user: int | None, prior: Floats) -> tuple[Floats, Floats]:
    """(S + prior)⁻¹ y and (S + prior)⁻¹ with S the pulls and y the sum of rewards of each item; user None: of all."""
    pulled, earned = np.zeros(len(prior)), np.zeros(len(prior))
    for who, item, reward in pulls:
        if user is None or who == user:
            pulled[item] += 1
            earned[item] += reward
    covariance = np.asarray(np.linalg.inv(np.diag(pulled) + prior), dtype=np.float64)
    return covariance @ earned, covariance


@pytest.mark.parametrize("cls", [SpectralUCB, SpectralTS])
@pytest.mark.parametrize("ridge", [0.01, 1.0])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("neighbours", [1, 4, 99])
def test_full_rank_is_regression_on_the_nodes(cls: Any, ridge: float, shared: bool, neighbours: int) -> None:
    """The textbook: c_t = 2 R sqrt(d log(1 + t/λ) + 2 log 1/δ) + C and v = R sqrt(6 d log((λ + T)/(δ λ))) + C."""
    pulls = random_pulls(3, 14, 900, seed=1)
    policy = fed(cls(USERS, 3, items=ITEMS, neighbours=neighbours, ridge=ridge, shared=shared, sigma=0.2), pulls)
    lap = laplacian(ITEMS, neighbours)
    d = effective_dimension(np.linalg.eigvalsh(lap), ridge, 1000)
    for user in range(3):
        mean, covariance = node_posterior(pulls, None if shared else user, lap + ridge * np.eye(14))
        t = 1 + sum(shared or who == user for who, *_ in pulls)
        if cls is SpectralUCB:
            beta = 2 * 0.2 * np.sqrt(d * np.log(1 + t / ridge) + 2 * np.log(1000)) + np.log(1 + t)
        else:
            beta = 0.2 * np.sqrt(6 * d * np.log((ridge + 1000) / (0.001 * ridge))) + np.log(1 + t)
        scores = policy.scores(user, ITEMS)
        np.testing.assert_allclose(scores.mean, mean, atol=1e-8)
        np.testing.assert_allclose(scores.bonus / beta, np.sqrt(np.diag(covariance)), atol=1e-8)
        np.testing.assert_allclose(policy.payoffs(user), mean, atol=1e-8)
        np.testing.assert_allclose(policy.theta[user], np.linalg.lstsq(ITEMS, mean)[0], atol=1e-8)


@pytest.mark.parametrize("cls", [SpectralUCB, SpectralTS])
@pytest.mark.parametrize("rank", [1, 5, 13])
def test_truncated_rank_is_regression_on_the_first_eigenvectors(cls: Any, rank: int) -> None:
    pulls = random_pulls(3, 14, 300, seed=2)
    strength = {"scale": 0.3} if cls is SpectralTS else {"exploration": 0.3}
    policy = fed(cls(USERS, 3, items=ITEMS, neighbours=4, rank=rank, ridge=0.1, norm=2.0, sigma=0.0, **strength), pulls)
    values, vectors = np.linalg.eigh(laplacian(ITEMS, 4))
    q = vectors[:, :rank]
    for user in range(3):
        precision, bias = np.diag(values[:rank] + 0.1), np.zeros(rank)
        for who, item, reward in pulls:
            if who == user:
                precision += np.outer(q[item], q[item])
                bias += reward * q[item]
        scores = policy.scores(user, ITEMS)
        np.testing.assert_allclose(scores.mean, q @ np.linalg.solve(precision, bias), atol=1e-8)
        width = np.sqrt(np.einsum("vi,ij,vj->v", q, np.linalg.inv(precision), q))
        np.testing.assert_allclose(scores.bonus, 0.3 * 2.0 * width, atol=1e-8)


@pytest.mark.parametrize("radius", ["log", "constant"])
@pytest.mark.parametrize("shared", [False, True])
def test_without_edges_it_is_linucb_on_one_hot_items(radius: Any, shared: bool) -> None:
    pulls = random_pulls(3, 14, 700, seed=3)
    common: Any = dict(ridge=0.3, radius=radius, exploration=0.4, shared=shared)
    policy = fed(SpectralUCB(USERS, 3, items=ITEMS, neighbours=0, **common), pulls)
    linucb = fed(LinUCB(USERS, 14, **common), pulls, np.eye(14))
    for user in range(3):
        np.testing.assert_allclose(policy.scores(user, ITEMS), linucb.scores(user, np.eye(14)), atol=1e-8)


def test_draws_have_the_moments_of_the_posterior() -> None:
    pulls = random_pulls(3, 14, 60, seed=4)
    policy = fed(SpectralTS(USERS, 3, items=ITEMS, neighbours=4, ridge=0.5, norm=2.0, sigma=0.0, scale=0.3), pulls)
    mean, covariance = node_posterior(pulls, 1, laplacian(ITEMS, 4) + 0.5 * np.eye(14))
    noise = np.random.default_rng(0).standard_normal((40_000, 14))
    draws = np.empty(noise.shape)
    for k, z in enumerate(noise):
        kernels.draw(policy.state, 1, ITEMS, NO_ITEMS, z, draws[k])
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=0.01)
    np.testing.assert_allclose(np.cov(draws.T), 0.36 * covariance, atol=0.03 * 0.36 * covariance.max())
    bare = fed(SpectralTS(USERS, 3, items=ITEMS, neighbours=0, ridge=0.5, norm=2.0, sigma=0.0, scale=0.3), pulls)
    lints = fed(LinTS(USERS, 14, ridge=0.5, scale=0.6), pulls, np.eye(14))
    np.testing.assert_allclose(bare.scores(1, ITEMS), lints.scores(1, np.eye(14)), atol=1e-8)


def test_many_updates_do_not_drift() -> None:
    pulls = random_pulls(1, 14, 10_000, seed=5)
    policy = fed(SpectralUCB(graphs.empty(1), 3, items=ITEMS, neighbours=4, radius="constant"), pulls)
    mean, covariance = node_posterior(pulls, 0, laplacian(ITEMS, 4) + 0.01 * np.eye(14))
    np.testing.assert_allclose(policy.scores(0, ITEMS), (mean, np.sqrt(np.diag(covariance))), atol=1e-10)


def test_what_is_known_of_an_item_is_known_of_its_neighbours() -> None:
    """And an arm that is not in the catalogue counts as the nearest item."""
    items = np.array([[0.0], [1.0], [2.0], [10.0], [11.0], [12.0]])
    policy = SpectralUCB(graphs.empty(1), 1, items=items, neighbours=2, exploration=0.0)
    policy.update(0, [0.1], 1.0)
    payoffs = policy.payoffs(0)
    assert payoffs[0] > payoffs[1] > 0.5 and payoffs[1] == pytest.approx(payoffs[2]) and np.all(np.abs(payoffs[3:]) < 1e-12)
    assert policy.recommend(0, [[10.2], [1.2]]) == 1


def test_effective_dimension() -> None:
    """Numbers computed apart from this code, for ridge 0.01; the formula by counting."""
    line = graphs.from_edges([(k, k + 1) for k in range(15)]).laplacian("combinatorial").toarray()
    grid = np.linalg.eigvalsh(np.kron(line, np.eye(16)) + np.kron(np.eye(16), line))
    assert [effective_dimension(grid, 0.01, t) for t in (100, 250, 1000)] == [18, 27, 49]
    ba = np.linalg.eigvalsh(graphs.barabasi_albert(250, 3, seed=0).laplacian("combinatorial").toarray())
    assert [effective_dimension(ba, 0.01, t) for t in (100, 250, 1000)] == [8, 15, 40]
    assert effective_dimension([0.0], 0.01, 1) == 1 and effective_dimension(np.zeros(50), 1e-9, 1e6) == 50
    rng = np.random.default_rng(0)
    for _ in range(50):
        values, ridge, t = np.sort(rng.exponential(3, size=20)), rng.exponential(), int(rng.integers(1, 2000))
        kept = [k for k in range(1, 21) if (k - 1) * (values[k - 1] + ridge) <= t / np.log(1 + t / ridge)]
        assert effective_dimension(values, ridge, t) == max(kept)


def test_lanczos_finds_what_a_full_decomposition_finds() -> None:
    """In four parts, so that eigenvalue 0 is there four times."""
    rng = np.random.default_rng(0)
    graph = graphs.knn(20 * rng.standard_normal((4, 3))[rng.integers(4, size=600)] + rng.standard_normal((600, 3)), 5)
    parts = int(graph.components.max()) + 1
    assert parts >= 4
    matrix = graph.laplacian("combinatorial").toarray()
    exact = np.linalg.eigh(matrix)
    for rank in (parts, parts + 12):
        values, vectors = smoothest(graph, rank)
        np.testing.assert_allclose(values, exact[0][:rank], atol=1e-8)
        np.testing.assert_allclose(vectors.T @ vectors, np.eye(rank), atol=1e-10)
        np.testing.assert_allclose(matrix @ vectors, vectors * values, atol=1e-7)


def test_the_basis_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def counted(features: Floats, k: int) -> UserGraph:
        calls.append(k)
        return graphs.knn(features, k)

    monkeypatch.setattr(spectral, "knn", counted)
    items = signals.unit_arms(30, 3, seed=77)
    first = [cls(USERS, 3, items=items.tolist(), neighbours=4) for cls in (SpectralUCB, SpectralTS)]
    second = SpectralUCB(USERS, 3, items=items.copy(), neighbours=4, ridge=3.0)
    assert len(calls) == 1
    fed(first[0], random_pulls(3, 30, 50, seed=0), items)
    assert not second.theta.any() and not first[1].theta.any()
    assert spectral.spectrum.cache_info().maxsize == spectral.item_graph.cache_info().maxsize == spectral.REMEMBERED


def test_a_state_that_does_not_fit_is_refused() -> None:
    many: UserGraph = graphs.empty(1_000_000)
    items = signals.unit_arms(60, 3, seed=1)
    with pytest.raises(ValueError, match=r"rank = 50 needs 20 GB for 1,000,000 users, more than 4; 22 would fit"):
        SpectralUCB(many, 3, items=items)
    assert SpectralUCB(many, 3, items=items, shared=True).params["rank"] == 50


def test_a_single_item_and_equal_items() -> None:
    policy = SpectralUCB(graphs.empty(1), 2, items=[[1.0, 2.0]], ridge=1.0)
    policy.update(0, [1.0, 2.0], 1.0)
    assert policy.payoffs(0) == pytest.approx([0.5])
    same = SpectralUCB(graphs.empty(1), 2, items=np.ones((12, 2)), ridge=1.0, neighbours=3)
    same.update(0, [1.0, 1.0], 1.0)
    assert same.scores(0, [[1.0, 1.0]]).mean[0] == pytest.approx(same.payoffs(0)[0])


def test_equal_items_are_one_node() -> None:
    items = signals.unit_arms(9, 3, seed=0)
    twice = np.vstack([items, items[:4]])
    one, two = (SpectralUCB(graphs.empty(2), 3, items=rows, neighbours=3) for rows in (items, twice))
    for user, x, reward in random_history(2, 3, 60, seed=1):
        shown = items[np.argmax(items @ x)]
        one.update(user, shown, reward)
        two.update(user, shown, reward)
    np.testing.assert_allclose(two.payoffs(1), np.concatenate([one.payoffs(1), one.payoffs(1)[:4]]), atol=1e-9)
