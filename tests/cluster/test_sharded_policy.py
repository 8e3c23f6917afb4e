"""One policy over Ray actors: the numbers of one machine, also when a process is killed in the middle."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphbandit import POLICIES, graphs
from graphbandit.cluster import ShardedPolicy
from graphbandit.cluster.shard_handle import SNAPSHOT_CALLS
from graphbandit.policies.core.decisions import Requests
from graphbandit.sharding import check_shardable
from graphbandit.storage.archive import ArchiveError

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # Ray's own
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.usefixtures("ray_cluster"),
]

DIM, N, LENGTH = 4, 60, 600
GRAPH = graphs.watts_strogatz(N, 6, 0.2, seed=1)
RNG = np.random.default_rng(2)
USERS, X = RNG.integers(N, size=LENGTH), RNG.standard_normal((LENGTH, DIM))
REWARDS = (X * RNG.standard_normal((N, DIM))[USERS]).sum(axis=1) + 0.1 * RNG.standard_normal(LENGTH)


def one_machine(name: str) -> Any:
    return POLICIES[name](GRAPH, DIM, **check_shardable(name, {}))


def learn(policy: Any, first: int = 0, last: int = LENGTH, batch: int = 50) -> None:
    for start in range(first, last, batch):
        here = slice(start, min(last, start + batch))
        policy.update_many(USERS[here], X[here], REWARDS[here])


def kill(policy: ShardedPolicy, number: int) -> None:
    import ray

    os.kill(ray.get(policy.actors[number].process.remote()), signal.SIGKILL)


def test_linucb_decides_and_learns_as_on_one_machine_bit_for_bit() -> None:
    one = one_machine("linucb")
    with ShardedPolicy("linucb", GRAPH, DIM, shards=3, exchange_every=100) as policy:
        learn(one)
        learn(policy)
        assert np.array_equal(policy.theta, one.theta)
        assert np.array_equal(policy.estimates([5, 3]), one.theta[[5, 3]])
        users = np.arange(N)
        requests = Requests(users, X[:40], np.tile(np.arange(20), N), 20 * np.arange(N + 1), np.full(N, 3))
        left, right = (each.decide_many(requests, np.random.default_rng(0)) for each in (policy, one))
        for mine, other in zip(left, right, strict=True):
            assert np.array_equal(mine, other)
        assert policy.recommend(0, X[:20]) == int(one.rank(0, X[:20], 1)[0])


@pytest.mark.parametrize("name", ["graphucb", "adaptive"])
def test_a_killed_shard_is_restored_and_the_result_is_the_same(name: str) -> None:
    found = []
    for is_killed in (False, True):
        with ShardedPolicy(name, GRAPH, DIM, shards=2, exchange_every=100) as policy:
            learn(policy, 0, 300)
            if is_killed:
                kill(policy, 1)
            learn(policy, 300)
            policy.settle()
            found.append(policy.theta)
            assert [shard.restarts for shard in policy.shards] == [0, int(is_killed)]
    assert np.array_equal(found[0], found[1])
    if name == "graphucb":
        one = one_machine(name)
        learn(one)
        np.testing.assert_allclose(found[0], one.theta, atol=0.02)


def test_a_shard_is_restored_from_its_snapshot_and_the_calls_since() -> None:
    one = one_machine("linucb")
    with ShardedPolicy("linucb", GRAPH, DIM, shards=2, exchange_every=10_000) as policy:
        for number in range(SNAPSHOT_CALLS + 5):
            here = slice(7 * number, 7 * number + 7)
            for each in (policy, one):
                each.update_many(USERS[here], X[here], REWARDS[here])
        kill(policy, 0)
        kill(policy, 1)
        assert np.array_equal(policy.theta, one.theta)


def test_users_and_edges_come_and_go_also_when_a_shard_is_killed_in_between() -> None:
    one = one_machine("graphucb")
    with ShardedPolicy("graphucb", GRAPH, DIM, shards=3) as policy:
        for each in (policy, one):
            learn(each, 0, 300)
        a = 0
        b = next(
            user for user in range(N) if policy.shard_of[user] != policy.shard_of[a] and not one.live_graph.weight(a, user)
        )
        for each in (policy, one):
            each.add_edge(a, b, 2.0)
        kill(policy, int(policy.shard_of[b]))
        for each in (policy, one):
            assert each.add_user({a: 1.0, b: 0.5}) == N
            each.set_weight(a, b, 0.3)
            each.remove_edge(N, a)
            each.remove_user(7)
            learn(each, 300)
        policy.settle()
        assert policy.graph.n_edges == one.graph.n_edges
        np.testing.assert_allclose(policy.theta, one.theta, atol=0.05)
        with pytest.raises(ValueError, match="are joined already"):
            policy.add_edge(a, b)


@pytest.mark.parametrize("shards", [1, 3])
def test_a_saved_policy_goes_on_where_it_stopped(shards: int, tmp_path: Path) -> None:
    with ShardedPolicy("graphucb", GRAPH, DIM, shards=shards, exchange_every=100) as policy:
        learn(policy, 0, 300)
        policy.save(tmp_path / "model")
        learn(policy, 300)
        policy.settle()
        expected = policy.theta
    with ShardedPolicy.load(tmp_path / "model") as again:
        again.save(tmp_path / "model")  # over what is there
        learn(again, 300)
        again.settle()
        np.testing.assert_allclose(again.theta, expected, atol=1e-12 if shards == 1 else 0.01)
    if shards == 1:
        opened = POLICIES["graphucb"].load(tmp_path / "model" / "policy.gb")
        assert opened.n_users == N
    assert len(list((tmp_path / "model").iterdir())) == shards + 2


def test_a_folder_without_a_policy_is_named(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="holds no sharded policy"):
        ShardedPolicy.load(tmp_path)


def test_a_folder_of_an_unknown_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text(json.dumps({"graphbandit": "cluster", "format": 99}))
    with pytest.raises(ArchiveError, match=r"cluster\.json has format 99, but this version of graphbandit reads only format 1"):
        ShardedPolicy.load(tmp_path)


def test_a_policy_that_cannot_be_divided_is_refused_before_ray_is_started() -> None:
    with pytest.raises(ValueError, match="to be divided among shards, but it is 'club'"):
        ShardedPolicy("club", GRAPH, DIM, shards=2)


def test_without_ray_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ValueError, match=r"needs Ray: .* pip install '\.\[ray\]'"):
        ShardedPolicy("linucb", GRAPH, DIM, shards=2)
