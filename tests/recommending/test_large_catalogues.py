"""In a large catalogue the best arms are searched for: the decisions are those of a full scan, to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphbandit import POLICIES, AdaptiveGraphUCB, GraphUCB, GraphUCBLocal, LinUCB, Policy, Stochastic, graphs
from graphbandit.policies.core import top_arms
from graphbandit.recommending import named_policy
from graphbandit.recommending.named_policy import NamedPolicy, Ranking
from graphbandit.recommending.requests import Request

N, DIM, ARMS = 6, 3, 300
WITH_BELIEF = ["linucb", "oful", "colin", "graphucb", "graphucb-local", "goblin", "goblin-block", "goblin-macro"]
WITH_BELIEF += ["club", "sclub", "dynucb", "community-ucb", "dccb", "dcb"]


@pytest.fixture(autouse=True)
def few_arms_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(top_arms, "LEAST_ARMS", 20)
    monkeypatch.setattr(top_arms, "LEAST_SHARE", 3)


def features(rng: np.random.Generator, kind: str, n: int = ARMS) -> np.ndarray[Any, Any]:
    x = rng.standard_normal((n, DIM))
    match kind:
        case "unit":
            return np.asarray(x / np.linalg.norm(x, axis=1)[:, None])
        case "duplicates":
            return x[rng.integers(n // 10, size=n)]
        case "grid":  # many exact ties
            return np.round(x)
        case "zeros":
            return np.asarray(x * (rng.random(n) < 0.5)[:, None])
        case "sizes":
            return np.asarray(x * 10.0 ** rng.uniform(-6, 3, size=(n, 1)))
        case _:
            return np.column_stack([np.ones(n), x[:, 1:]])


def world(policy: Policy, kind: str, seed: int, rewards: int = 150) -> NamedPolicy:
    rng = np.random.default_rng(seed)
    named = NamedPolicy(policy, [str(user) for user in range(N)])
    for arm, x in enumerate(features(rng, kind)):
        named.put_arm(str(arm), x, {"colour": "red" if arm % 3 else "blue"})
    if rewards:
        versions = rng.integers(ARMS, size=rewards)
        named.learn(rng.integers(N, size=rewards), versions, named.features[versions] @ np.arange(DIM) + rng.random(rewards))
    return named


def rankings(named: NamedPolicy, requests: list[Request], seed: int, search: bool) -> tuple[list[Ranking], float]:
    """Return the rankings, and the next number of the generator: both ways move it as far."""
    with pytest.MonkeyPatch.context() as patch:
        if not search:
            patch.setattr(named_policy, "is_worth_searching", lambda *args: False)
        draws = np.random.default_rng(seed)
        found = named.rank([named.resolve(request) for request in requests], draws)
    return found, draws.random()


def check(named: NamedPolicy, requests: list[Request], seed: int = 0) -> None:
    searched, scanned = (rankings(named, requests, seed, search) for search in (True, False))
    assert searched == scanned  # arms, means, bonuses, propensity and the largest mean, to the bit


def some_requests(rng: np.random.Generator) -> list[Request]:
    def user() -> str:
        return str(rng.integers(N))

    return [
        Request(user(), k=1),
        Request(user(), k=10, exclude=[str(arm) for arm in rng.integers(ARMS, size=5)]),
        Request(user(), [str(arm) for arm in range(30)], k=3),
        Request(user(), where={"colour": ["red"]}, k=7),
        Request(user(), where={"colour": ["red"]}, k=2, exclude=["1", "nobody"]),
        Request(user(), k=100),
    ]


@pytest.mark.parametrize("name", WITH_BELIEF)
@pytest.mark.parametrize("kind", ["unit", "grid", "duplicates"])
def test_every_policy_with_a_belief_decides_as_in_a_full_scan(name: str, kind: str) -> None:
    policy = POLICIES[name](graphs.erdos_renyi(N, 0.5, seed=0), DIM, seed=0)  # type: ignore[call-arg]
    assert policy.belief(0) is not None
    named = world(policy, kind, 1)
    check(named, some_requests(np.random.default_rng(2)))


def test_other_policies_are_scanned() -> None:
    graph = graphs.erdos_renyi(N, 0.5, seed=0)
    for name in ("lints", "horde-ts", "horde-eg"):  # drawn, or of another form than a belief
        assert POLICIES[name](graph, DIM).search_belief(0) is None, name  # type: ignore[call-arg]
    assert Stochastic(LinUCB(graph, DIM), temperature=0.1).search_belief(0) is None
    assert Stochastic(LinUCB(graph, DIM), epsilon=0.1).search_belief(0) is not None


def policies(name: str, epsilon: float, exploration: float) -> Policy:
    graph = graphs.erdos_renyi(N, 0.5, seed=0)
    made: Policy
    match name:
        case "linucb":
            made = LinUCB(graph, DIM, exploration=exploration, sigma=0.5)
        case "items":
            made = LinUCB(graph, DIM, exploration=exploration, item_effects=True, item_ridge=2.0)
        case "local":
            made = GraphUCBLocal(graph, DIM, exploration=exploration, item_effects=True, item_ridge=0.5)
        case "adaptive":
            made = AdaptiveGraphUCB(graph, DIM, exploration=exploration)
        case _:
            made = GraphUCB(graph, DIM, exploration=exploration)
    return Stochastic(made, epsilon=epsilon) if epsilon else made


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    name=st.sampled_from(["linucb", "items", "local", "graphucb", "adaptive"]),
    kind=st.sampled_from(["unit", "duplicates", "grid", "zeros", "sizes", "constant"]),
    epsilon=st.sampled_from([0.0, 0.5]),
    exploration=st.sampled_from([0.0, 0.1, 1.0, 10.0]),
    rewards=st.sampled_from([0, 1, 20, 300]),
    seed=st.integers(0, 10_000),
)
def test_random_worlds(name: str, kind: str, epsilon: float, exploration: float, rewards: int, seed: int) -> None:
    named = world(policies(name, epsilon, exploration), kind, seed, rewards)
    rng = np.random.default_rng(seed + 1)
    check(named, some_requests(rng), seed)
    for _ in range(3):  # arms come, change and go, and rewards are learned, between decisions
        for arm in rng.integers(2 * ARMS, size=rng.integers(40)):
            if rng.random() < 0.4:
                named.delete_arm(str(arm))
            else:
                named.put_arm(str(arm), features(rng, kind, 10)[0], {"colour": "red"})
        versions = np.array(list(named.arms.values()))[rng.integers(len(named.arms), size=10)]
        named.learn(rng.integers(N, size=10), versions, 10.0 * rng.random(10))
        left = list(named.arms)[:30]
        check(named, [Request("0", k=5), Request("1", k=1), Request("2", left, k=2), Request("3", exclude=left, k=20)], seed)


def test_rewards_that_the_recommender_was_not_told_of_count() -> None:
    policy = LinUCB(graphs.empty(N), DIM, item_effects=True, item_ridge=1.0)
    named = world(policy, "unit", 0)
    check(named, [Request("0", k=3)])
    for _ in range(20):
        policy.update(0, named.features[17], 100.0, item=17)
    check(named, [Request("0", k=3)])
    policy.remove_item(17)
    check(named, [Request("0", k=3)])


def test_a_search_leaves_few_arms_to_score() -> None:
    named = world(LinUCB(graphs.empty(N), DIM, sigma=0.1), "unit", 0, 300)
    pool, belief = named.resolve(Request("0", k=1)).pool, named.policy.belief(0)
    assert pool is not None and belief is not None
    found = named.contenders(belief, named.eligible(pool), 1)
    assert found is not None and len(found) <= 2  # the best, and the one with the largest mean


def test_versions_of_a_request_are_an_array_that_is_not_made_anew() -> None:
    named = world(LinUCB(graphs.empty(N), DIM), "unit", 0, 0)
    first, second = (named.resolve(Request("0")).versions for _ in range(2))
    assert first is second and first.tolist() == list(range(ARMS))
    named.put_arm("5", np.ones(DIM), {})
    named.delete_arm("0")
    assert named.resolve(Request("0")).versions.tolist() == list(named.arms.values()) == [1, 2, 3, 4, ARMS, *range(6, ARMS)]


def test_all_arms_in_order_are_those_of_a_ranking() -> None:
    named = world(LinUCB(graphs.empty(N), DIM), "grid", 0)
    [ranking] = named.rank([named.resolve(Request("2", k=ARMS))], np.random.default_rng(0))
    shown = [(named.versions[v], mean, bonus) for v, mean, bonus in zip(*ranking[:3], strict=True)]
    assert named.ranked(2) == shown
