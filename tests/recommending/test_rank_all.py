"""`rank_all` writes what each user would be recommended, one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyarrow import parquet

from graphbandit import AdaptiveGraphUCB, LinTS, LinUCB, Policy, Recommender, Stochastic, graphs
from graphbandit.policies.core import top_arms
from graphbandit.recommending import rank_everybody
from graphbandit.recommending.errors import UnknownName
from graphbandit.recommending.named_policy import NamedPolicy
from graphbandit.recommending.rank_everybody import rank_all
from graphbandit.recommending.requests import Request

N, DIM, ARMS = 12, 3, 200


def world(policy: Policy) -> NamedPolicy:
    rng = np.random.default_rng(0)
    named = NamedPolicy(policy, [f"u{user}" for user in range(N)])
    for arm, x in enumerate(rng.standard_normal((ARMS, DIM))):
        named.put_arm(f"a{arm}", x, {"colour": "red" if arm % 2 else "blue"})
    versions = rng.integers(ARMS, size=200)
    named.learn(rng.integers(N, size=200), versions, named.features[versions] @ np.arange(DIM) + rng.random(200))
    named.put_arm("a3", np.ones(DIM), {"colour": "red"})
    named.delete_arm("a4")
    return named


def table(path: Path) -> dict[str, list[Any]]:
    rows: dict[str, list[Any]] = parquet.read_table(path).to_pydict()
    return rows


@pytest.mark.parametrize("is_large", [True, False])
@pytest.mark.parametrize("epsilon", [0.0, 0.3])
def test_it_is_what_each_user_would_be_recommended(
    is_large: bool, epsilon: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(top_arms, "LEAST_ARMS", 20 if is_large else 10**6)
    monkeypatch.setattr(rank_everybody, "CHUNK", 5)
    inner = AdaptiveGraphUCB(graphs.erdos_renyi(N, 0.3, seed=0), DIM)
    named = world(Stochastic(inner, epsilon=epsilon) if epsilon else inner)
    shares: list[float] = []
    where, seen = {"colour": ["red"]}, {"u7": ["a1", "a3", "nobody"], "u2": ["a9"]}
    n = rank_all(named, 4, tmp_path / "top", where=where, exclude=seen, workers=2, progress=shares.append)
    found = table(tmp_path / "top")
    assert n == len(found["user"]) == 4 * N and shares == sorted(shares) and shares[-1] == 1.0
    assert found["user"] == [name for name in named.rows for _ in range(4)] and found["rank"] == [1, 2, 3, 4] * N
    plain = world(AdaptiveGraphUCB(graphs.erdos_renyi(N, 0.3, seed=0), DIM))
    for i, user in enumerate(named.rows):
        request = plain.resolve(Request(user, where=where, k=4, exclude=seen.get(user)))
        [ranking] = plain.rank([request], np.random.default_rng(1))
        own = slice(4 * i, 4 * i + 4)
        assert found["item"][own] == [plain.versions[version] for version in ranking.arms]
        assert found["mean"][own] == ranking.mean and found["bonus"][own] == ranking.bonus  # to the bit


def test_of_equal_items_the_first_comes_first_and_users_get_fewer_if_there_are_not_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(top_arms, "LEAST_ARMS", 2)
    monkeypatch.setattr(top_arms, "LEAST_SHARE", 1)
    named = NamedPolicy(LinUCB(graphs.empty(2), 2), ["ann", "bob"])
    for name in ("one", "two", "three"):
        named.put_arm(name, np.ones(2), {})
    named.put_arm("one", np.ones(2), {})  # a new version keeps its place
    rank_all(named, 5, tmp_path / "top", exclude={"ann": ["two"]}, users=["bob", "ann"])
    found = table(tmp_path / "top")
    assert found["item"] == ["one", "two", "three", "one", "three"]
    assert found["user"] == ["bob"] * 3 + ["ann"] * 2 and found["rank"] == [1, 2, 3, 1, 2]


def test_policies_that_draw_are_ranked_by_the_mean(tmp_path: Path) -> None:
    named = world(LinTS(graphs.empty(N), DIM))
    rank_all(named, 1, tmp_path / "top")
    scores = named.policy.scores(0, named.features[list(named.arms.values())])
    assert table(tmp_path / "top")["mean"][0] == scores.mean.max()


def test_a_recommender_gives_back_ids_as_they_came(tmp_path: Path) -> None:
    items = {"item": [10, 20, 30], "kind": ["hot", "cold", "cold"]}
    recommender = Recommender({"user": [1], "friend": [2]}, items, policy="linucb", params={"exploration": 0.0})
    recommender.fit({"user": [1, 2], "item": [10, 20], "reward": [1.0, 0.0]})
    assert recommender.rank_all(2, tmp_path / "top", where={"kind": "cold"}) == 4
    found = table(tmp_path / "top")
    assert found["user"] == [user for user in recommender.users for _ in range(2)] and set(found["item"]) == {20, 30}
    assert found["item"][0] == recommender.recommend(1, where={"kind": "cold"}).items[0]


def test_mistakes_are_named(tmp_path: Path) -> None:
    named = world(LinUCB(graphs.empty(N), DIM))
    with pytest.raises(ValueError, match="k must be"):
        rank_all(named, 0, tmp_path / "top")
    with pytest.raises(UnknownName, match="there is no user 'zoe'"):
        rank_all(named, 1, tmp_path / "top", users=["zoe"])
    with pytest.raises(ValueError, match="where leaves no item"):
        rank_all(named, 1, tmp_path / "top", where={"colour": "green"})
    with pytest.raises(TypeError, match="no option 'user'"):
        rank_all(named, 1, tmp_path / "top", user=["u1"])  # type: ignore[call-arg]
