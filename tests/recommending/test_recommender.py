"""The Recommender: names in, names out, the same numbers as the policy inside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphbandit as gb
from graphbandit import LinUCB, Recommender, graphs

FRIENDS = {"source": ["ann", "bob"], "target": ["bob", "eve"]}
ITEMS = {
    "item": ["tea", "cola", "milk", "mate"],
    "kind": ["hot", "cold", "cold", "hot"],
    "price": [2.0, 3.0, 1.0, 4.0],
}
EVENTS: dict[str, list[Any]] = {
    "uid": ["ann", "bob", "eve", "ann", "zoe"],
    "sku": ["tea", "cola", "tea", "milk", "tea"],
    "click": [1, 0, 1, 0, 1],
    "time": [1, 2, 3, 5, 4],
}


def small(**more: Any) -> Recommender:
    return Recommender(FRIENDS, ITEMS, policy="linucb", **({"params": {"exploration": 0.1}} | more))


def test_it_learns_what_direct_calls_of_the_policy_learn() -> None:
    recommender = small()
    recommender.fit(EVENTS)
    features = recommender.features
    x = features.combine(features.vectors(ITEMS), np.zeros((1, 0)))
    policy = LinUCB(graphs.empty(4), features.dim, exploration=0.1)
    order = [0, 1, 2, 4, 3]  # by time
    users, items = [0, 1, 2, 0, 3], [0, 1, 0, 2, 0]
    for row in order:
        policy.update(users[row], x[items[row]], float(EVENTS["click"][row]), item=items[row])
    assert np.array_equal(recommender.policy.theta, policy.theta)
    assert recommender.users == ["ann", "bob", "eve", "zoe"] and recommender.items == ITEMS["item"]
    assert recommender.policy.graph.n_edges == 2


def test_filters_candidates_and_exclusions_are_kept() -> None:
    recommender = small()
    recommender.fit(EVENTS)
    assert set(recommender.recommend("ann", 9, where={"kind": "cold"}).items) == {"cola", "milk"}
    assert set(recommender.recommend("ann", 9, where={"kind": ["hot"], "price": 2.0}).items) == {"tea"}
    assert set(recommender.recommend("ann", 9, exclude=["tea", "no such item"]).items) == {"cola", "milk", "mate"}
    assert recommender.recommend("ann", 9, candidates=["milk"]).items == ("milk",)
    with pytest.raises(ValueError, match="no arm is eligible"):
        recommender.recommend("ann", candidates=["milk"], exclude=["milk"])
    with pytest.raises(ValueError, match="exclude must be a list of ids"):
        recommender.recommend("ann", exclude="tea")


def test_rewards_are_learned_once_and_by_item() -> None:
    recommender = small()
    recommender.fit(EVENTS)
    found = recommender.recommend("eve", 2)
    before = recommender.policy.theta
    recommender.reward(found.id, 1.0, item=found.items[1])
    assert not np.array_equal(recommender.policy.theta, before)
    with pytest.raises(ValueError, match="has its reward already"):
        recommender.reward(found, 1.0, item=found.items[1])
    recommender.reward(found, 0.0)
    with pytest.raises(ValueError, match="did not show"):
        recommender.reward(found, 1.0, item="nothing")
    with pytest.raises(ValueError, match="there is no recommendation"):
        recommender.reward("r99", 1.0)
    for bad in (float("nan"), "1", None):
        with pytest.raises(ValueError, match="reward must be"):
            recommender.reward(found, bad)  # type: ignore[arg-type]


def test_a_user_that_nobody_knows_is_served_and_joins_with_its_first_reward_or_edge() -> None:
    recommender = small()
    recommender.fit({"user": ["ann", "bob"] * 20, "item": ["tea", "cola"] * 20, "reward": [1, 0] * 20})
    found = recommender.recommend("stranger", 4)
    assert found.user == "stranger" and found.items[int(np.argmax(found.mean))] == "tea"
    assert "stranger" not in recommender.users
    recommender.reward(found, 1.0)
    assert "stranger" in recommender.users
    recommender.add_friends("other", {"stranger": 2.0, "ann": 1.0})
    graph, rows = recommender.policy.graph, recommender.named.rows
    assert graph.adjacency[rows["other"], rows["stranger"]] == 2.0
    recommender.observe("third", "milk", 0.5)
    assert recommender.users[-1] == "third"
    recommender.remove_user("third")
    assert "third" not in recommender.users


def test_without_a_graph_and_items_everything_comes_from_the_events() -> None:
    rng = np.random.default_rng(0)
    user, item = rng.integers(30, size=2000), rng.integers(20, size=2000)
    reward = 3.0 + (user % 2 == item % 2)  # two tastes
    recommender = Recommender(policy="linucb", params={"exploration": 0.0})
    with pytest.raises(ValueError, match="items are not known"):
        recommender.recommend(0)
    recommender.fit({"user": user, "item": item, "reward": reward})
    for who in range(4):
        assert all(found % 2 == who % 2 for found in recommender.recommend(who, 5).items)  # type: ignore[operator]
    assert sorted(recommender.users) == sorted(set(user.tolist()))  # type: ignore[type-var]


def test_the_context_of_a_request_counts() -> None:
    rng = np.random.default_rng(1)
    item, evening = rng.integers(4, size=3000), rng.integers(2, size=3000)
    reward = np.where(evening == 1, item == 0, item == 1).astype(float)  # tea in the evening, cola by day
    recommender = small()
    names = np.array(ITEMS["item"])
    recommender.fit({"user": ["ann"] * 3000, "item": names[item], "reward": reward, "evening": evening})
    assert recommender.recommend("ann", context={"evening": 1}).items == ("tea",)
    assert recommender.recommend("ann", context={"evening": 0}).items == ("cola",)
    found = recommender.recommend("nobody", 4, context={"evening": 1})
    assert found.items[int(np.argmax(found.mean))] == "tea"
    recommender.reward(found, 1.0)
    with pytest.raises(ValueError, match="no feature uses"):
        recommender.recommend("ann", context={"weather": "dry"})
    plain = small().fit(EVENTS)
    with pytest.raises(ValueError, match="no events had context"):
        plain.recommend("ann", context={"evening": 1})


@pytest.mark.parametrize("epsilon", [0.0, 0.3])
def test_a_saved_recommender_goes_on_bit_for_bit(tmp_path: Path, epsilon: float) -> None:
    recommender = small(epsilon=epsilon, users={"user": ["ann", "bob", "new"], "age": [20, 60, 22], "job": ["a", "b", "a"]})
    recommender.fit(EVENTS | {"evening": [0, 1, 0, 1, 0]})
    opened = recommender.recommend("ann", 2, context={"evening": 1})
    recommender.save(tmp_path / "model.gb")
    again = Recommender.load(tmp_path / "model.gb")
    assert again.users == recommender.users and str(again.features) == str(recommender.features)
    for one in (recommender, again):
        one.reward(opened, 1.0)
        one.add_items({"item": ["chai"], "kind": ["hot"], "price": [2.5]})
    for user in ("ann", "new", "nobody"):
        where = {"kind": ["hot", "cold"]}
        first, second = (one.recommend(user, 3, where=where, context={"evening": 0}) for one in (recommender, again))
        assert first == second
        recommender.reward(first, 0.5)
        again.reward(second, 0.5)
    assert np.array_equal(recommender.policy.theta, again.policy.theta)


def test_attributes_speak_for_a_newcomer() -> None:
    names = [f"u{k}" for k in range(40)]
    users = {"user": [*names, "old", "young"], "age": [20] * 20 + [70] * 20 + [70, 20], "city": list("ab" * 21)}
    events = {"user": names * 4, "item": (["tea"] * 40 + ["cola"] * 40) * 2, "reward": ([1] * 20 + [0] * 40 + [1] * 20) * 2}
    recommender = Recommender(None, ITEMS, policy="linucb", users=users, params={"exploration": 0.0})
    recommender.fit(events)
    assert recommender.recommend("young", candidates=["tea", "cola"]).items == ("tea",)
    assert recommender.recommend("old", candidates=["tea", "cola"]).items == ("cola",)
    recommender.observe("old", "cola", 1.0)
    row = recommender.named.rows["old"]
    friends = np.flatnonzero(recommender.policy.graph.adjacency[[row]].toarray()[0])
    assert len(friends) == 10 and all(20 <= int(recommender.named.names[friend][1:]) < 40 for friend in friends)


def test_frames_files_and_mappings_are_the_same(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    pandas.DataFrame(EVENTS).to_csv(tmp_path / "events.csv", index=False)
    thetas = []
    for events in (EVENTS, pandas.DataFrame(EVENTS), polars.DataFrame(EVENTS), tmp_path / "events.csv"):
        recommender = Recommender(pandas.DataFrame(FRIENDS), polars.DataFrame(ITEMS), policy="linucb")
        recommender.fit(events)
        thetas.append(recommender.policy.theta)
    assert all(np.array_equal(theta, thetas[0]) for theta in thetas)


def test_a_transformer_of_scikit_learn_may_make_the_vectors(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("sklearn")
    from sklearn.compose import make_column_transformer
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    pipeline = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["kind"]), (StandardScaler(), ["price"]))
    recommender = Recommender(FRIENDS, pandas.DataFrame(ITEMS), policy="linucb", features=pipeline)
    recommender.fit(EVENTS)
    assert recommender.features.dim == 4
    recommender.save(tmp_path / "model.gb")
    again = Recommender.load(tmp_path / "model.gb", features=pipeline)
    again.add_items(pandas.DataFrame({"item": ["chai"], "kind": ["hot"], "price": [2.0]}))
    assert "chai" in again.items
    with pytest.raises(ValueError, match="fit and transform"):
        Recommender(FRIENDS, ITEMS, features=3)


def test_policies_take_ids_where_the_graph_has_them() -> None:
    policy = LinUCB(graphs.from_edges([("ann", "bob")]), 2)
    policy.update("ann", [1.0, 0.0], 1.0)  # type: ignore[arg-type]
    policy.update_many(["bob", "ann"], [[0.0, 1.0], [1.0, 0.0]], [1.0, 1.0])
    assert policy.recommend("ann", np.eye(2)) in (0, 1)  # type: ignore[call-overload]
    policy.add_user({0: 1.0}, id="eve")
    assert policy.scores("eve", np.eye(2)).mean.tolist() == [0.0, 0.0]  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no user has the id 'zoe'"):
        policy.recommend("zoe", np.eye(2))  # type: ignore[call-overload]
    with pytest.raises(ValueError, match=r"users\[1\] is wrong: no user has the id 'zoe'"):
        policy.update_many(["bob", "zoe"], np.eye(2), [1.0, 1.0])


@pytest.mark.parametrize("policy", sorted(set(gb.POLICIES) - {"cofiba", "spectral-ucb", "spectral-ts"}))
def test_every_policy_fits_in(policy: str) -> None:
    recommender = Recommender(FRIENDS, ITEMS, policy=policy)
    recommender.fit(EVENTS)
    found = recommender.recommend("ann", 2)
    recommender.reward(found, 1.0)
    assert len(found.items) == 2 and 0 < found.propensity <= 1


def test_ids_are_compared_as_tables_give_them() -> None:
    recommender = Recommender(policy="linucb")
    recommender.fit({"user": [7, 7, 8], "item": [1, 2, 1], "reward": [1.0, 0.0, 1.0]})
    assert (
        recommender.recommend(7.0, 2).mean == recommender.recommend("7", 2).mean == recommender.recommend(np.int64(7), 2).mean
    )
    assert recommender.recommend(7, 2, exclude=[1.0]).items == (2,)
    recommender.observe(8.0, 2.0, 1.0)
    assert recommender.users == [7, 8]
    nobody: Any
    for nobody in (None, float("nan"), "", []):
        with pytest.raises(ValueError, match="user must be an id"):
            recommender.recommend(nobody)
        with pytest.raises(ValueError, match="user must be an id"):
            recommender.observe(nobody, 1, 1.0)


def test_tags_are_filters_too_and_unknown_columns_are_named() -> None:
    items = {"item": ["a", "b", "c", "d"], "tags": [["x", "y"], ["y"], ["z"], ["x"]], "genres": ["p|q", "q", "p", "p|q"]}
    recommender = Recommender(None, items, policy="linucb")
    assert set(recommender.recommend("u", 4, where={"tags": "x"}).items) == {"a", "d"}
    assert set(recommender.recommend("u", 4, where={"genres": ["q"]}).items) == {"a", "b", "d"}
    with pytest.raises(ValueError, match="column 'colour', which items do not have; there are tags, genres"):
        recommender.recommend("u", where={"colour": "red"})


def test_columns_may_be_said_in_the_constructor() -> None:
    items = {"url": ["a", "b"], "size": [1, 2], "movie": ["m", "n"]}
    recommender = Recommender(
        {"who": ["u"], "whom": ["v"]}, items, policy="linucb", columns={"item": "url", "user": "who", "friend": "whom"}
    )
    assert recommender.items == ["a", "b"] and recommender.users == ["u", "v"]
    with pytest.raises(ValueError, match="no table that has a role item has a column nothing"):
        Recommender(None, items, columns={"item": "nothing"})


def test_settings_are_checked_at_once() -> None:
    with pytest.raises(ValueError, match="params names 'exploratoin', which linucb does not have; there are"):
        Recommender(policy="linucb", params={"exploratoin": 1})
    with pytest.raises(ValueError, match="epsilon must be"):
        Recommender(epsilon=2)


@pytest.mark.parametrize("reward", [None, 1.0])
def test_events_without_rewards_are_learned_beside_items_that_were_not_taken(reward: float | None, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    user = rng.integers(30, size=1500)
    item = 2 * rng.integers(10, size=1500) + user % 2  # everybody takes its own kind
    events: dict[str, Any] = {"user": user, "item": item} | ({} if reward is None else {"reward": np.full(1500, reward)})
    recommender = Recommender(policy="linucb", params={"exploration": 0.0})
    recommender.fit(events)
    for who in range(6):
        assert all(found % 2 == who % 2 for found in recommender.recommend(who, 5).items)  # type: ignore[operator]
    assert any("rewards are all equal" in note for note in recommender.notes)
    recommender.save(tmp_path / "model.gb")
    again = Recommender.load(tmp_path / "model.gb")
    again.fit({"user": [0, 1], "item": [0, 1], "reward": [1.0, 1.0]})  # what rewards mean is not forgotten
    assert any("rewards are all equal" in note for note in again.notes)


def test_ids_that_do_not_match_are_a_warning_with_an_example() -> None:
    items = {"item": [f"{k:04}" for k in range(1, 31)], "price": list(range(30))}
    events = {"user": ["ann", "bob"] * 30, "item": [k % 30 + 1 for k in range(60)], "reward": [k % 2 for k in range(60)]}
    recommender = Recommender(None, items, policy="linucb")
    with pytest.warns(UserWarning, match=r"30 of 30 items of the events are not in the table of items, such as '1' \(there is"):
        recommender.fit(events)
    assert any("were zeros lost when ids were read as numbers?" in note for note in recommender.notes)
    friends = {"user": ["01", "02"], "friend": ["02", "03"]}
    with pytest.warns(UserWarning, match="2 of 2 users of the events are not in the graph"):
        Recommender(friends, policy="linucb").fit(events)


# Any object is a policy


class Greedy:
    """Shows the first arm that a user liked before, else the first of all."""

    def __init__(self) -> None:
        self.liked: dict[int, list[float]] = {}

    def recommend(self, user: int, arms: Any) -> int:
        near = [row for row, arm in enumerate(arms) if arm.tolist() == self.liked.get(user)]
        return near[0] if near else 0

    def update(self, user: int, x: Any, reward: float) -> None:
        if reward > 0:
            self.liked[user] = list(x)


@pytest.mark.parametrize("give", ["object", "function"])
def test_any_object_with_recommend_and_update_is_a_policy(give: str) -> None:
    policy: Any = Greedy() if give == "object" else lambda graph, dim: Greedy()
    made = Recommender(FRIENDS, ITEMS, policy=policy, epsilon=0.0).fit(EVENTS)
    found = made.recommend("bob", k=3)
    assert found.items == ("tea", "cola", "milk") and np.isnan(found.mean).all()
    made.observe("bob", "mate", 1.0)
    assert made.recommend("bob", k=2).items == ("mate", "tea")
    made.reward(made.recommend("bob", candidates=["milk"]), 1.0)
    assert made.recommend("bob").items == ("milk",)
    made.observe("somebody new", "cola", 1.0)
    assert made.recommend("somebody new").items == ("cola",)


def test_a_policy_that_is_there_must_fit() -> None:
    policy = LinUCB(graphs.empty(3), 4)
    assert Recommender(FRIENDS, ITEMS, policy=policy).policy is policy
    with pytest.raises(ValueError, match="policy is for 3 users and 2 features, but there are 3 and 4"):
        Recommender(FRIENDS, ITEMS, policy=LinUCB(graphs.empty(3), 2)).recommend("ann")
    with pytest.raises(ValueError, match="params must be empty"):
        Recommender(FRIENDS, ITEMS, policy=policy, params={"ridge": 1.0})
    with pytest.raises(ValueError, match="policy must be a name, a function"):
        Recommender(FRIENDS, ITEMS, policy=7)


# Rewards far from zero


@pytest.mark.compiled
@pytest.mark.parametrize("kind", ["ratings", "clicks"])
def test_rewards_far_from_zero_need_no_setting(kind: str) -> None:
    """Ratings with a mean of 3.8, and clicks at 3 %: better than at random by a clear margin, for known users and newcomers."""
    rng = np.random.default_rng(5)
    n_users, n_items, n = 60, 40, 6000
    user, item = rng.integers(n_users, size=n), rng.integers(n_items, size=n)
    likes = user % 2 == item % 2
    best = np.arange(n_items) < 4  # of everybody
    if kind == "ratings":
        reward = np.clip(np.round(3.3 + 0.8 * likes + 0.8 * best[item] + 0.4 * rng.standard_normal(n)), 1, 5)
    else:
        reward = (rng.random(n) < 0.002 + 0.03 * likes + 0.1 * best[item]).astype(float)
    items = {"item": np.arange(n_items), "kind": ["even", "odd"] * (n_items // 2)}
    made = Recommender(items=items).fit({"user": user, "item": item, "reward": reward, "time": np.arange(n)})
    mean = 3.78 if kind == "ratings" else 0.027
    assert reward.mean() == pytest.approx(mean, rel=0.15)
    shown = [(who, made.recommend(who, k=4)) for who in range(n_users)]
    rows = [(who, np.array(found.items, dtype=np.int64)) for who, found in shown]
    good = np.mean([best[at].mean() + (at % 2 == who % 2).mean() for who, at in rows])
    assert good > (1.2 if kind == "ratings" else 1.0), good  # 0.6 at random
    means = np.concatenate([found.mean for _, found in shown])
    assert reward.min() - 0.3 < means.min() and means.max() < reward.max() + 0.3
    newcomer = made.recommend("newcomer", k=4)
    assert reward.mean() - 0.1 < np.mean(newcomer.mean) < reward.max() + 0.1
    assert best[np.array(newcomer.items, dtype=np.int64)].mean() >= 0.5


def test_attributes_of_a_newcomer_come_with_the_request() -> None:
    people = {"user": ["ann", "bob", "eve"], "age": [20, 70, 22], "job": ["chef", "poet", "chef"]}
    made = Recommender(FRIENDS, ITEMS, users=people, policy="linucb", params={"exploration": 0.0})
    taste = {"ann": "hot", "eve": "hot", "bob": "cold"}
    kind = dict(tea="hot", cola="cold", milk="cold", mate="hot")
    rows = [(user, item, float(taste[user] == kind[item])) for user in taste for item in kind] * 30
    made.fit({"user": [row[0] for row in rows], "item": [row[1] for row in rows], "reward": [row[2] for row in rows]})
    chef = made.recommend("zoe", attributes={"age": 21, "job": "chef"})
    assert kind[str(chef.items[0])] == "hot"
    poet = made.recommend("kim", attributes={"age": 71, "job": "poet"})
    assert kind[str(poet.items[0])] == "cold"
    made.reward(chef, 1.0)
    joined = {made.named.names[row] for row, _ in made.named.edges(made.named.rows["zoe"])}
    assert joined and joined <= {"ann", "eve"}
    with pytest.raises(ValueError, match="attributes have 'shoe', which no user has"):
        made.recommend("leo", attributes={"shoe": 44})
    with pytest.raises(ValueError, match="made without a table of users"):
        small().fit(EVENTS).recommend("leo", attributes={"age": 3})
