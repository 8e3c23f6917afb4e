"""Environments from data sets: known answers on made-up ratings, and the real Last.fm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from graphbandit import GraphUCBLocal, LinUCB, Random, datasets, environments, graphs, simulate
from graphbandit.datasets import Ratings, factorise
from graphbandit.environments import Hits, lastfm_world, latent_world, tag_features
from made_up import real


def ratings(n_users: int = 40, n_items: int = 30, **more: Any) -> Ratings:
    """Three of four pairs rated, rank 3 plus rounding."""
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


def test_latent_world_is_what_it_says() -> None:
    data = ratings()
    env = latent_world(data, n_users=15, n_items=20, active=25, dim=4, pool=10, rho=1.0, seed=3)
    assert env.graph.n_users == 15 and env.arms.shape == (20, 4) and env.pool == 10
    assert np.linalg.norm(env.truth, axis=1) == pytest.approx(np.ones(15))
    assert np.linalg.norm(env.arms, axis=1).max() == pytest.approx(1.0)
    gap = ((env.truth[0] - env.truth[1]) ** 2).sum()
    assert np.exp(-gap) < 0.5 or env.graph.adjacency[0, 1] == pytest.approx(np.exp(-gap))
    assert len(np.unique(env.truth.round(12), axis=0)) == 15  # without replacement
    again = latent_world(factorise(data.densest(25, 20), 4), n_users=15, pool=10, rho=1.0, seed=3)
    assert np.array_equal(env.truth, again.truth) and np.array_equal(env.arms, again.arms)
    other = latent_world(data, n_users=15, n_items=20, active=25, dim=4, pool=10, seed=4)
    assert np.array_equal(other.arms, env.arms) and not np.array_equal(other.truth, env.truth)


def test_latent_world_orders_items_as_the_ratings_do() -> None:
    data = ratings()
    env = latent_world(data, n_users=40, n_items=30, dim=3, pool=None)
    mean = np.bincount(data.item, data.value) / np.bincount(data.item)
    assert np.corrcoef((env.arms @ env.truth.T).mean(axis=1), mean)[0, 1] > 0.95
    with pytest.raises(ValueError, match="n_users must lie between 2 and the number of users with factors, 40, but it is 41"):
        latent_world(data, n_users=41)


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
    with pytest.raises(ValueError, match="nobody consumed anything"):
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
    with pytest.raises(ValueError, match="ratings has no item_tags"):
        tag_features(ratings())
    with pytest.raises(ValueError, match="dim must lie between 1 and one less than items and tags, 3, but it is 4"):
        tag_features(ratings(item_tags=np.ones((30, 4))), 4)
    with pytest.raises(ValueError, match="ratings has no graph"):
        lastfm_world(ratings(item_tags=np.ones((30, 4))), dim=2)


def test_a_small_social_world() -> None:
    tags = np.random.default_rng(0).integers(0, 3, (30, 9))
    env: environments.Environment = lastfm_world(ratings(graph=graphs.complete(40), item_tags=tags), dim=3, candidates=3)
    assert env.arms.shape == (30, 3) and env.graph.n_edges == 780


@pytest.mark.compiled
def test_friends_help_on_lastfm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The published order in a fifth of the rounds: random, LinUCB, shuffled friends, friends."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    data = datasets.load("lastfm", real("hetrec2011-lastfm-2k.zip"))
    env = lastfm_world(data)
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
    env = lastfm_world(data, dim=3, candidates=2, least_users=6)
    assert np.array_equal(env.arms, tag_features(data, 3)[popular])
    assert np.array_equal(env.positives.toarray() > 0, data.matrix().toarray()[:, popular] > 0)
