"""Environments from data sets: known answers on made-up ratings, and the real Last.fm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from graphbandit import GraphUCBLocal, LinUCB, Random, datasets, environments, graphs, simulate
from graphbandit.datasets import Ratings, factorise
from graphbandit.environments import Hits, hits_from_ratings, hits_from_tags, linear_from_factors, tag_features
from graphbandit.environments.from_datasets import halves
from made_up import real


def ratings(n_users: int = 40, n_items: int = 30, **more: Any) -> Ratings:
    """Return ratings of three of four pairs, of rank 3 plus rounding."""
    rng = np.random.default_rng(0)
    scores = rng.random((n_users, 3)) @ rng.random((3, n_items))
    user, item = np.nonzero(rng.random(scores.shape) < 0.75)
    stars = np.ceil(5 * scores[user, item] / scores.max())
    ids = {"user_ids": np.arange(n_users), "item_ids": np.arange(n_items)}
    return Ratings(user.astype(np.int32), item.astype(np.int32), stars, **ids | more)


def hits(**settings: Any) -> Hits:
    consumed = np.random.default_rng(0).random((6, 40)) < 0.3
    consumed[4] = False
    return Hits(graphs.complete(6), np.eye(40), consumed, **{"candidates": 5} | settings)


def test_linear_from_factors_is_what_it_says() -> None:
    data = ratings()
    env = linear_from_factors(factorise(data.densest(25, 20), 4), n_users=15, pool=10, rho=1.0, seed=3)
    assert env.graph.n_users == 15 and env.arms.shape == (20, 4) and env.pool == 10
    assert np.linalg.norm(env.truth, axis=1) == pytest.approx(np.ones(15))
    assert np.linalg.norm(env.arms, axis=1).max() == pytest.approx(1.0)
    gap = ((env.truth[0] - env.truth[1]) ** 2).sum()
    assert np.exp(-gap) < 0.5 or env.graph.adjacency[0, 1] == pytest.approx(np.exp(-gap))
    assert len(np.unique(env.truth.round(12), axis=0)) == 15  # without replacement
    again = linear_from_factors(factorise(data.densest(25, 20), 4), n_users=15, pool=10, rho=1.0, seed=3)
    assert np.array_equal(env.truth, again.truth) and np.array_equal(env.arms, again.arms)
    other = linear_from_factors(factorise(data.densest(25, 20), 4), n_users=15, pool=10, seed=4)
    assert np.array_equal(other.arms, env.arms) and not np.array_equal(other.truth, env.truth)


def test_linear_from_factors_orders_items_as_the_ratings_do() -> None:
    data = ratings()
    env = linear_from_factors(factorise(data.densest(40, 30), 3), n_users=40, pool=None)
    mean = np.bincount(data.item, data.value) / np.bincount(data.item)
    assert np.corrcoef((env.arms @ env.truth.T).mean(axis=1), mean)[0, 1] > 0.95
    with pytest.raises(ValueError, match="n_users must lie between 2 and the number of users with factors, 40, but it is 41"):
        linear_from_factors(factorise(data, 3), n_users=41)


def test_every_round_has_exactly_one_hit() -> None:
    env = hits()
    (block,) = env.rounds(2000, seed=1)
    consumed = env.positives.toarray().astype(bool)
    assert (block.mean.sum(axis=1) == 1).all() and not block.noise.any()
    assert np.array_equal(consumed[block.user[:, None], block.pool], block.mean == 1)
    assert all(len(set(row)) == 5 for row in block.pool.tolist())
    assert set(block.user.tolist()) == {0, 1, 2, 3, 5}  # user 4 consumed nothing
    places = np.bincount(block.mean.argmax(axis=1), minlength=5)
    assert places.min() > 330 and places.max() < 470  # 400 ± 4 standard deviations
    mine = block.user == 0
    shown = np.bincount(block.pool[mine].ravel(), minlength=40)
    wanted = np.where(consumed[0], mine.sum() / consumed[0].sum(), 4 * mine.sum() / (~consumed[0]).sum())
    assert (np.abs(shown - wanted) < 5 * np.sqrt(wanted)).all()


def test_streams_of_hits(monkeypatch: pytest.MonkeyPatch) -> None:
    env = hits()
    (long,), (short,) = env.rounds(50, seed=2), env.rounds(20, seed=2)
    assert np.array_equal(long.user[:20], short.user) and np.array_equal(long.pool[:20], short.pool)
    monkeypatch.setattr("graphbandit.environments.hits.CELLS_PER_BLOCK", 35)
    blocks = list(env.rounds(50, seed=2))
    assert len(blocks) == 8 and np.array_equal(np.concatenate([block.pool for block in blocks]), long.pool)
    assert not np.array_equal(next(iter(env.rounds(50, seed=3))).pool, long.pool)


def test_users_who_consumed_almost_everything() -> None:
    consumed = np.array([[1, 1, 1, 0], [1, 0, 0, 0]])
    (block,) = Hits(graphs.empty(2), np.eye(4), consumed, candidates=2).rounds(100, seed=0)
    assert (block.pool[block.user == 0].max(axis=1) == 3).all()
    with pytest.raises(ValueError, match="user 0 consumed 3 of 4 items, which leaves fewer than the 2 others"):
        Hits(graphs.empty(2), np.eye(4), consumed, candidates=3)


def test_hits_reject_bad_input() -> None:
    with pytest.raises(ValueError, match=r"must have the shape \(6, 40\), users and items, but its shape is \(6, 39\)"):
        Hits(graphs.empty(6), np.eye(40), np.ones((6, 39)))
    with pytest.raises(ValueError, match="candidates must lie between 2 and the number of items, 40, but it is 1"):
        hits(candidates=1)
    with pytest.raises(ValueError, match="no user consumed an item"):
        Hits(graphs.empty(6), np.eye(40), sparse.csr_array((6, 40)))
    with pytest.raises(ValueError, match="features must be a finite"):
        Hits(graphs.empty(1), np.array([[np.nan]]), np.ones((1, 1)))


def test_simulation_counts_hits() -> None:
    env = hits()
    assert repr(env) == "Hits(UserGraph(n_users=6, n_edges=15), 40 items, dim=40, candidates=5)"
    trace = simulate(LinUCB(env.graph, env.dim), env, 400)
    assert set(trace.reward.tolist()) == {0.0, 1.0}
    assert trace.regret[-1] == 400 - trace.reward.sum()
    assert trace.reward[200:].mean() > 0.5  # one feature an item: what a user consumed can be remembered


def test_tag_features() -> None:
    rng = np.random.default_rng(1)
    tags = np.zeros((30, 8))
    tags[:10, :4] = rng.integers(1, 4, (10, 4))
    tags[10:29, 4:] = rng.integers(1, 4, (19, 4))  # two kinds of items that share no tag; the last item has none
    features = tag_features(ratings(item_tags=tags), 2)
    assert np.linalg.norm(features[:29], axis=1) == pytest.approx(np.ones(29)) and not features[29].any()
    assert np.abs(features[:10] @ features[10:29].T).max() < 1e-8 and (features[:10] @ features[:10].T).min() > 0.99
    assert np.array_equal(features, tag_features(ratings(item_tags=tags), 2))
    # Two of the directions by hand: singular vectors of the TF-IDF matrix.
    counts = tags * np.log(29 / np.count_nonzero(tags, axis=0))
    left, strength, _ = np.linalg.svd(counts)
    plain = left[:29, :2] * strength[:2]
    assert np.abs(features[:29]) == pytest.approx(np.abs(plain / np.linalg.norm(plain, axis=1, keepdims=True)), abs=1e-8)


def test_worlds_say_what_is_missing() -> None:
    with pytest.raises(ValueError, match="ratings must contain item_tags"):
        tag_features(ratings())
    with pytest.raises(ValueError, match="dim must lie between 1 and one less than items and tags, 3, but it is 4"):
        tag_features(ratings(item_tags=np.ones((30, 4))), 4)
    with pytest.raises(ValueError, match="ratings must contain a graph"):
        hits_from_tags(ratings(item_tags=np.ones((30, 4))), dim=2)


def test_a_small_social_world() -> None:
    tags = np.random.default_rng(0).integers(0, 3, (30, 9))
    env: environments.Environment = hits_from_tags(ratings(graph=graphs.complete(40), item_tags=tags), dim=3, candidates=3)
    assert env.arms.shape == (30, 3) and env.graph.n_edges == 780


@pytest.mark.compiled
def test_friends_help_on_lastfm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The published order in a fifth of the rounds: random, LinUCB, shuffled friends, friends."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    data = datasets.load("lastfm", real("hetrec2011-lastfm-2k.zip"))
    env = hits_from_tags(data)
    graph, dim = env.graph, env.dim
    policies = {
        "random": Random(graph, dim, seed=0),
        "alone": LinUCB(graph, dim, ridge=1.0, exploration=0.1),
        "shuffled": GraphUCBLocal(graphs.shuffled(graph, seed=0), dim, preset="recommended", alpha=3.0, exploration=0.1),
        "friends": GraphUCBLocal(graph, dim, preset="recommended", alpha=3.0, exploration=0.1),
    }
    share = {name: simulate(policy, env, 10_000).reward.mean() for name, policy in policies.items()}
    assert share["random"] == pytest.approx(0.04, abs=0.01)
    assert share["random"] < share["alone"] < share["shuffled"] < share["friends"], share


def test_items_of_few_users_can_be_left_out() -> None:
    tags = np.random.default_rng(1).integers(0, 4, size=(30, 6))
    full = ratings(graph=graphs.complete(40), item_tags=tags)
    few = np.flatnonzero(np.random.default_rng(2).random(len(full.user)) < 0.2)
    ids: Any = {"user_ids": full.user_ids, "item_ids": full.item_ids, "graph": full.graph, "item_tags": full.item_tags}
    data = Ratings(full.user[few], full.item[few], full.value[few], **ids)
    popular = np.flatnonzero(np.bincount(data.item, minlength=30) >= 6)
    assert 10 < len(popular) < 30
    env = hits_from_tags(data, dim=3, candidates=2, least_users=6)
    assert np.array_equal(env.arms, tag_features(data, 3)[popular])
    assert np.array_equal(env.positives.toarray() > 0, data.matrix().toarray()[:, popular] > 0)


def sparse_ratings(n_users: int = 60, n_items: int = 50, **more: Any) -> Ratings:
    """Return ratings from 1 to 5 of a third of all pairs, in two groups of users with items of their own."""
    rng = np.random.default_rng(3)
    same = (np.arange(n_users)[:, None] % 2) == (np.arange(n_items) % 2)
    user, item = np.nonzero(rng.random(same.shape) < np.where(same, 0.6, 0.08))
    ids = {"user_ids": np.arange(n_users), "item_ids": np.arange(n_items)}
    stars = rng.integers(1, 6, len(user)).astype(np.float64)
    return Ratings(user.astype(np.int32), item.astype(np.int32), stars, **ids | more)


def test_halves_share_nothing_and_lose_nothing() -> None:
    data = sparse_ratings()
    first, second = halves(data, 1, -np.inf, seed=0)
    assert np.array_equal((first + second).toarray(), data.matrix().toarray() > 0)  # no pair is in both
    sizes = np.diff(first.indptr) - np.diff(second.indptr)
    assert set(sizes.tolist()) == {0, 1}
    assert not np.array_equal(halves(data, 1, -np.inf, seed=1)[0].toarray(), first.toarray())
    liked = data.value >= 4
    first, second = halves(data, 9, 4, seed=0)
    popular = np.flatnonzero(np.bincount(data.item[liked], minlength=50) >= 9)
    assert 5 < len(popular) < 45
    assert np.array_equal((first + second).toarray(), (data.matrix().toarray() >= 4)[:, popular])


def test_hits_from_ratings_are_what_they_say() -> None:
    data = sparse_ratings()
    env = hits_from_ratings(data, dim=4, candidates=5, least_hits=8, neighbours=3, seed=2)
    first, second = halves(data, 4, -np.inf, seed=2)
    users = np.flatnonzero(np.diff(second.indptr) >= 8)
    assert 10 < len(users) < 60 and env.graph.n_users == len(users)
    assert np.array_equal(env.positives.toarray(), second[users].toarray())
    assert env.arms.shape == (first.shape[1], 4) and np.linalg.norm(env.arms, axis=1) == pytest.approx(np.ones(len(env.arms)))
    _, strength, right = np.linalg.svd(first.toarray())
    plain = right[:4].T * strength[:4]
    assert np.abs(env.arms) == pytest.approx(np.abs(plain / np.linalg.norm(plain, axis=1, keepdims=True)), abs=1e-8)
    links = env.graph.adjacency
    assert (links != links.T).nnz == 0 and np.diff(links.indptr).min() >= 3
    row, column = links.nonzero()
    assert (users[row] % 2 == users[column] % 2).mean() > 0.9  # neighbours like the same items
    (block,) = env.rounds(500, seed=0)
    assert (block.mean.sum(axis=1) == 1).all()
    assert not first.toarray()[users[block.user][:, None], block.pool].any()  # what made the features is never offered


def test_hits_from_ratings_depend_on_the_seed_only() -> None:
    data = sparse_ratings()
    env, again, other = (hits_from_ratings(data, dim=4, candidates=5, seed=seed) for seed in (0, 0, 1))
    assert np.array_equal(env.arms, again.arms) and (env.positives != again.positives).nnz == 0
    assert (env.graph.adjacency != again.graph.adjacency).nnz == 0
    assert not np.array_equal(env.arms, other.arms)


def test_hits_do_not_leak_into_features() -> None:
    """Other items in the second half, as many of each: features and graph stay as they are."""
    data = sparse_ratings()
    first, second = halves(data, 1, -np.inf, seed=0)
    late = np.flatnonzero(second.toarray()[data.user, data.item])
    taken, item = set(zip(data.user.tolist(), data.item.tolist(), strict=True)), data.item.copy()
    rng, swaps = np.random.default_rng(0), 0
    for a, b in rng.choice(late, size=(4000, 2)).tolist():
        fresh = {(int(data.user[a]), int(item[b])), (int(data.user[b]), int(item[a]))}
        if len(fresh) == 2 and not fresh & taken:
            taken -= {(int(data.user[a]), int(item[a])), (int(data.user[b]), int(item[b]))}
            taken |= fresh
            item[a], item[b] = item[b], item[a]
            swaps += 1
    assert swaps > 200
    changed = Ratings(data.user, item, data.value, user_ids=data.user_ids, item_ids=data.item_ids)
    assert (halves(changed, 1, -np.inf, seed=0)[0] != first).nnz == 0
    settings: Any = {"dim": 4, "candidates": 5, "least_raters": 1}
    before, after = hits_from_ratings(data, **settings), hits_from_ratings(changed, **settings)
    assert (before.positives != after.positives).nnz > 100
    assert np.array_equal(before.arms, after.arms) and (before.graph.adjacency != after.graph.adjacency).nnz == 0


def test_hits_from_ratings_on_a_social_graph() -> None:
    pairs = [(u, u + 1) for u in range(0, 58, 2)]
    social = graphs.from_edges(np.array(pairs), n_users=60)  # couples; the last two users are single
    data = sparse_ratings(graph=social)
    hits_of = np.diff(halves(data, 4, -np.inf, seed=0)[1].indptr)
    users = [u for pair in pairs if min(hits_of[list(pair)]) >= 7 for u in pair]
    assert 10 < len(users) < 50
    env = hits_from_ratings(data, dim=4, candidates=5, least_hits=7)
    assert env.graph.n_users == len(users) and env.graph.n_edges == len(users) // 2
    given = hits_from_ratings(data, dim=4, candidates=5, least_hits=7, graph=graphs.complete(60))
    kept = given.graph.n_users
    assert kept == (hits_of >= 7).sum() and given.graph.n_edges == kept * (kept - 1) // 2


@pytest.mark.parametrize("negatives", ["uniform", "popular"])
def test_hits_from_ratings_drop_users_who_rated_nearly_everything(negatives: Any) -> None:
    rated = sparse_ratings().matrix().toarray() > 0
    rated[0], rated[1, :47] = True, True
    user, item = (rows.astype(np.int32) for rows in np.nonzero(rated))
    data = Ratings(user, item, np.ones(len(user)), user_ids=np.arange(60), item_ids=np.arange(50))
    first, second = halves(data, 4, -np.inf, seed=0)
    enough = np.diff(second.indptr) >= 6
    env = hits_from_ratings(data, dim=4, candidates=5, negatives=negatives)
    assert env.graph.n_users == enough.sum() - 2
    assert env.negatives == negatives and (env.known is not None and env.known.nnz == first[2:][enough[2:]].nnz)


def test_hits_from_ratings_say_what_is_wrong() -> None:
    data = sparse_ratings()
    with pytest.raises(
        ValueError, match="ratings leaves 0 of 60 users: it needs two or more with at least 40 hits and 4 other"
    ):
        hits_from_ratings(data, dim=4, candidates=5, least_hits=40)
    with pytest.raises(ValueError, match="graph has 3 users, but ratings has 60"):
        hits_from_ratings(data, graph=graphs.complete(3))
    with pytest.raises(
        ValueError, match="dim must lie between 1 and one less than users and items that are left, 49, but it is 50"
    ):
        hits_from_ratings(data, dim=50)
    with pytest.raises(ValueError, match="least_hits must be"):
        hits_from_ratings(data, least_hits=0)
