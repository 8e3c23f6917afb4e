"""Ids of items reach every policy, and every policy with a belief learns an effect of each item from them if asked to."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from graphbandit import (
    POLICIES,
    GraphUCBLocal,
    LinTS,
    LinUCB,
    Pending,
    Policy,
    Stochastic,
    UserGraph,
    environments,
    graphs,
    signals,
    simulate,
)
from graphbandit.compute.arrays import Floats
from graphbandit.experiments import simulate_delayed
from graphbandit.policies.core import item_effects, kernels
from graphbandit.policies.core.item_effects import ItemEffects, item_effect, no_items, reset_item, with_room
from graphbandit.policies.core.kernels import Belief, Requests
from graphbandit.validate import LARGEST_ITEM, check_items

N, DIM, M = 6, 3, 9
GRAPH = graphs.erdos_renyi(N, 0.5, seed=0)
ARMS = signals.unit_arms(M, DIM, seed=1)
IDS = np.arange(M)
WORLD = environments.Linear(GRAPH, signals.smooth(GRAPH, DIM, gamma=5.0, seed=2), ARMS, sigma=0.1, pool=5)
EFFECTS: dict[str, Any] = {
    "LinUCB": lambda: LinUCB(GRAPH, DIM, item_effects=True, item_ridge=1.0, sigma=0.3),
    "LinUCB, shared": lambda: LinUCB(GRAPH, DIM, item_effects=True, item_ridge=1.0, shared=True),
    "GraphUCBLocal": lambda: GraphUCBLocal(GRAPH, DIM, item_effects=True, item_ridge=1.0, preset="recommended"),
    "Stochastic": lambda: Stochastic(LinUCB(GRAPH, DIM, item_effects=True, item_ridge=1.0), epsilon=0.3),
    "Stochastic, softmax": lambda: Stochastic(LinUCB(GRAPH, DIM, item_effects=True, item_ridge=1.0), temperature=0.2),
}


def observations(rounds: int = 40, seed: int = 3) -> tuple[Any, Floats, Any, Floats]:
    """Users, features, items and rewards with an effect of each item."""
    rng = np.random.default_rng(seed)
    users, items = rng.integers(N, size=rounds), rng.integers(M, size=rounds)
    return users, ARMS[items], items, np.sin(items) + 0.1 * rng.standard_normal(rounds)


def trained(make: Any) -> Policy:
    policy: Policy = make()
    users, X, items, rewards = observations()
    policy.update_many(users, X, rewards, items=items)
    return policy


# A slow, readable version.


class SlowLinUCB:
    """Ridge regression of each user and the mean of each item, by turns; every sum is computed anew."""

    def __init__(self, ridge: float = 1.0, kappa: float = 1.0) -> None:
        self.ridge, self.kappa = ridge, kappa
        self.rows: dict[int, list[tuple[Floats, float]]] = {}
        self.residuals: dict[int, list[tuple[float, float]]] = {}  # without level, with their q
        self.level = self.level_weight = 0.0

    def user(self, user: int) -> tuple[Floats, Floats]:
        rows = self.rows.get(user, [])
        V = self.ridge * np.eye(DIM) + sum((np.outer(x, x) for x, _ in rows), np.zeros((DIM, DIM)))
        inverse = np.asarray(np.linalg.inv(V), dtype=np.float64)
        return inverse @ sum((y * x for x, y in rows), np.zeros(DIM)), inverse

    def item(self, item: int) -> tuple[float, float]:
        if item < 0:
            return 0.0, 0.0
        seen = self.residuals.get(item, [])
        precision = self.kappa + sum(1 / q for _, q in seen)
        return sum(r / q for r, q in seen) / precision, 1 / precision

    def update(self, user: int, x: Floats, item: int, reward: float) -> None:
        (theta, inverse), (effect, variance) = self.user(user), self.item(item)
        w = 1 / (1 + variance)
        self.rows.setdefault(user, []).append((x * np.sqrt(w), (reward - effect) * np.sqrt(w)))
        if item >= 0:
            residual, q = float(reward - x @ theta), float(1 + x @ inverse @ x)
            self.level_weight = 0.999 * self.level_weight + 1 / q
            self.level += (residual - effect - self.level) / (q * self.level_weight)
            self.residuals.setdefault(item, []).append((residual - self.level, q))


def test_linucb_agrees_with_a_slow_version() -> None:
    policy, slow = LinUCB(GRAPH, DIM, item_effects=True, item_ridge=1.0, radius="constant", exploration=0.7), SlowLinUCB()
    users, X, items, rewards = observations(60)
    items[::7] = -1
    for user, x, item, reward in zip(users.tolist(), X, items.tolist(), rewards, strict=True):
        policy.update(user, x, reward, item=item)
        slow.update(user, x, item, reward)
    offered = np.array([*IDS[:-2], -1, 5000])
    for user in range(N):
        theta, inverse = slow.user(user)
        effect, variance = np.array([slow.item(item) for item in offered.tolist()]).T
        mean, bonus = policy.scores(user, ARMS, items=offered)
        assert np.allclose(policy.theta[user], theta)
        assert np.allclose(mean, ARMS @ theta + effect)
        assert np.allclose(bonus, 0.7 * np.sqrt((ARMS @ inverse * ARMS).sum(axis=1) + variance))


def test_local_scores_have_the_effects_of_the_items() -> None:
    policy = trained(EFFECTS["GraphUCBLocal"])
    for user in range(N):
        without, (mean, bonus) = policy.scores(user, ARMS), policy.scores(user, ARMS, items=IDS)
        effect, variance = np.array([item_effect(policy.state.items, item) for item in range(M)]).T
        assert np.allclose(mean, without.mean + effect)
        assert np.allclose(bonus**2, without.bonus**2 + policy.beta(user) ** 2 * variance)
    x, theta, before = ARMS[0], policy.theta[2], policy.state.items
    mass, total, q = before.mass[4], before.total[4], 1 + x @ policy.belief(2).S @ x
    _, v = item_effect(before, 4)
    gram = policy.state.seen.gram[2].copy()
    policy.update(2, x, 1.5, item=4)
    assert policy.state.items.mass[4] == pytest.approx(mass + 1 / q)
    assert policy.state.items.total[4] == pytest.approx(total + (1.5 - x @ theta - before.level[0]) / q)
    assert np.allclose(policy.state.seen.gram[2], gram + np.outer(x, x) / (1 + v))


LEARNERS = {
    name: kind for name, kind in POLICIES.items() if "item_effects" in inspect.signature(kind).parameters and name != "adaptive"
}


def test_every_policy_with_a_belief_may_learn_them() -> None:
    own = {"item-mean", "friends-ridge", "adaptive", "spectral-ucb", "spectral-ts", "cofiba"}
    assert set(POLICIES) - set(LEARNERS) == {"random", *own}


@pytest.mark.parametrize("make", LEARNERS.values(), ids=LEARNERS)
def test_effects_are_found(make: Any) -> None:
    """Items that differ in nothing but their effects are told apart, and only with ids."""
    policy = make(graphs.empty(1), 1, item_effects=True, item_ridge=1.0)
    rng = np.random.default_rng(0)
    for _ in range(200):
        item = int(rng.integers(3))
        policy.update(0, [1.0], (-0.5, 0.0, 0.5)[item] + 0.1 * rng.standard_normal(), item=item)
    mean = policy.scores(0, np.ones((3, 1)), items=[0, 1, 2]).mean
    assert np.diff(mean) == pytest.approx(0.5, abs=0.1)
    assert np.ptp(policy.scores(0, np.ones((3, 1))).mean) == 0.0


class PlainState(NamedTuple):
    gram: Floats
    response: Floats
    items: ItemEffects


class Plain(Policy):
    """LinUCB with a constant radius, in plain NumPy."""

    State = PlainState

    def __init__(self, graph: UserGraph, dim: int, *, item_effects: bool = False, item_ridge: float | None = None) -> None:
        super().__init__(graph, dim, locals())
        self.state = self.build_state(gram=np.zeros((N, dim, dim)), response=np.zeros((N, dim)))

    def belief(self, user: int) -> Belief:
        S = np.linalg.inv(self.state.gram[user] + np.eye(self.dim))
        return Belief(S @ self.state.response[user], S, 1.0)

    def learn(self, user: int, x: Floats, item: int, reward: float) -> None:
        self.state.gram[user] += np.outer(x, x)
        self.state.response[user] += reward * x


def test_a_policy_in_plain_numpy_has_the_same_effects() -> None:
    settings: dict[str, Any] = dict(item_effects=True, item_ridge=1.0)
    policy, other = Plain(GRAPH, DIM, **settings), LinUCB(GRAPH, DIM, **settings, radius="constant")
    users, X, items, rewards = observations()
    items[::7] = -1
    policy.update_many(users, X, rewards, items=items)
    other.update_many(users, X, rewards, items=items)
    np.testing.assert_allclose(policy.effects_of(IDS), other.effects_of(IDS), atol=1e-12)
    for user in range(N):
        np.testing.assert_allclose(policy.scores(user, ARMS, items=IDS), other.scores(user, ARMS, items=IDS), atol=1e-12)


# The table of items.


def test_an_item_beyond_the_table_is_a_new_one() -> None:
    table = with_room(no_items(enabled=True, ridge=4.0), 2)
    table.mass[1], table.total[1] = 0.5, 1.5
    assert item_effect(table, 1) == (1.5 / 4.5, 1 / 4.5)
    assert item_effect(table, 0) == item_effect(table, 2) == item_effect(table, LARGEST_ITEM) == (0.0, 0.25)
    assert item_effect(table, -1) == item_effect(no_items(), 3) == (0.0, 0.0)
    reset_item(table, 1)
    reset_item(table, 7)
    assert item_effect(table, 1) == (0.0, 0.25)


def test_the_table_grows_seldom() -> None:
    policy, moved, before = LinUCB(GRAPH, DIM, item_effects=True, item_ridge=1.0), 0, None
    for item in range(2000):
        policy.update(0, ARMS[0], 1.0, item=item)
        moved += policy.state.items.mass.base is not before
        before = policy.state.items.mass.base
    assert policy.item_room == 2000 and moved < 12
    assert np.all(policy.state.items.mass > 0)


def test_a_policy_without_effects_has_no_table() -> None:
    policy = trained(lambda: LinUCB(GRAPH, DIM))
    assert item_effects.n_rows(policy.state.items) == 0 and policy.item_room > LARGEST_ITEM
    policy.remove_item(3)
    trained(lambda: LinTS(GRAPH, DIM)).remove_item(3)


@pytest.mark.parametrize("make", EFFECTS.values(), ids=EFFECTS)
def test_a_removed_item_is_a_new_one(make: Any) -> None:
    policy = trained(make)
    before = policy.scores(0, ARMS, items=IDS)
    policy.remove_item(4)
    policy.remove_item(10**6)
    after, new = policy.scores(0, ARMS, items=IDS), policy.scores(0, ARMS, items=IDS + 1000)
    others = IDS != 4
    assert np.array_equal(after.mean[others], before.mean[others]) and after.mean[4] == new.mean[4] != before.mean[4]
    assert after.bonus[4] == new.bonus[4] > before.bonus[4]
    for bad in (-1, 1.0, True, "tea"):
        with pytest.raises(ValueError, match="item must be an integer of at least 0"):
            policy.remove_item(bad)  # type: ignore[arg-type]


# Ids reach the kernels, everywhere.


def same_scores(one: Policy, other: Policy) -> bool:
    pairs = ((p.scores(user, ARMS, items=IDS) for p in (one, other)) for user in range(N))
    return all(np.array_equal(np.stack(a), np.stack(b)) for a, b in pairs)


@pytest.mark.parametrize("make", EFFECTS.values(), ids=EFFECTS)
def test_a_batch_learns_as_calls_do(make: Any) -> None:
    policy, (users, X, items, rewards) = make(), observations()
    for row, user in enumerate(users.tolist()):
        policy.update(user, X[row], rewards[row], item=int(items[row]))
    batch = trained(make)
    assert same_scores(policy, batch)
    assert not same_scores(policy, _without_ids(make))


def _without_ids(make: Any) -> Policy:
    policy: Policy = make()
    users, X, _, rewards = observations()
    policy.update_many(users, X, rewards)
    return policy


@pytest.mark.parametrize("make", EFFECTS.values(), ids=EFFECTS)
def test_unknown_items_are_as_none(make: Any) -> None:
    policy, twin = _without_ids(make), make()
    users, X, items, rewards = observations()
    twin.update_many(users, X, rewards, items=np.full_like(items, -1))
    assert same_scores(policy, twin)
    unknown = np.full(M, -1)
    assert np.array_equal(np.stack(policy.scores(1, ARMS)), np.stack(twin.scores(1, ARMS, items=unknown)))
    assert [policy.recommend(1, ARMS) for _ in range(9)] == [twin.recommend(1, ARMS, items=unknown) for _ in range(9)]


@pytest.mark.parametrize("make", EFFECTS.values(), ids=EFFECTS)
def test_a_simulation_plays_as_calls_do(make: Any) -> None:
    policy, looped = make(), make()
    trace = simulate(policy, WORLD, 80, seed=4)
    (rounds,) = WORLD.rounds(80, seed=4)
    for t, user in enumerate(rounds.user.tolist()):
        items = rounds.pool[t]
        choice = looped.recommend(user, ARMS[items], items=items)
        assert items[choice] == trace.arm[t]
        looped.update(user, ARMS[items[choice]], rounds.mean[t, choice] + rounds.noise[t], item=int(items[choice]))
    assert same_scores(policy, looped)
    late = make()
    assert np.array_equal(simulate_delayed(late, WORLD, 80, delay=0, seed=4).arm, trace.arm) and same_scores(policy, late)


@pytest.mark.parametrize("make", EFFECTS.values(), ids=EFFECTS)
def test_a_saved_policy_goes_on(make: Any, tmp_path: Path) -> None:
    policy = trained(make)
    policy.save(tmp_path / "policy.npz")
    loaded = type(policy).load(tmp_path / "policy.npz")
    assert same_scores(policy, loaded)
    more = observations(30, seed=9)
    for one in (policy, loaded):
        one.update_many(more[0], more[1], more[3], items=more[2] + 20)
    assert same_scores(policy, loaded) and policy.item_room == loaded.item_room > 20
    assert np.array_equal(simulate(policy, WORLD, 40, seed=1).arm, simulate(loaded, WORLD, 40, seed=1).arm)


@pytest.mark.parametrize("make", EFFECTS.values(), ids=EFFECTS)
def test_many_decisions_at_once_know_the_items(make: Any) -> None:
    policy = trained(make)
    table, items = ARMS[[3, 3, 1, 0]], np.array([3, 700, -1, 0])
    users, rows, start, places = np.array([0, 4]), np.array([1, 0, 3, 2, 1]), np.array([0, 2, 5]), np.array([2, 3])
    ranked = policy.decide_many(Requests(users, table, rows, start, places, items), np.random.default_rng(0))
    for i, user in enumerate(users.tolist()):
        own = slice(start[i], start[i + 1])
        mean, bonus = policy.scores(user, table[rows[own]], items=items[rows[own]])
        assert np.array_equal(ranked.mean[own], mean) and np.array_equal(ranked.bonus[own], bonus)
        chances = policy.propensities(user, table[rows[own]], items=items[rows[own]])
        assert ranked.propensity[i] == pytest.approx(chances[ranked.order[own][0]])


def test_probabilities_know_the_items() -> None:
    policy = LinUCB(GRAPH, DIM, item_effects=True, item_ridge=1.0, exploration=0.0)
    for _ in range(20):
        policy.update(0, ARMS[0], 1.0, item=2)
        policy.update(0, ARMS[0], 0.0, item=5)
    same, ids = ARMS[[0, 0, 0]], [1, 2, 5]
    assert policy.propensities(0, same, items=ids).tolist() == [0.0, 1.0, 0.0]
    assert policy.recommend(0, same, items=ids, propensity=True) == (1, 1.0)
    assert policy.rank(0, same, 1, items=ids).tolist() == [1]
    for random in (Stochastic(policy, epsilon=0.3), Stochastic(policy, temperature=0.1)):
        assert random.propensities(0, same, items=ids).argmax() == 1
        assert sorted(random.rank(0, same, 3, items=ids).tolist()) == [0, 1, 2]
    assert np.allclose(Stochastic(policy, epsilon=0.3).propensities(0, same, items=ids), [0.1, 0.8, 0.1])


def test_the_table_grows_in_the_policy_inside_too() -> None:
    wrapper = EFFECTS["Stochastic"]()
    wrapper.update(0, ARMS[0], 1.0, item=50)
    assert wrapper.item_room == wrapper.policy.item_room == 51
    assert wrapper.item_table.mass is wrapper.policy.state.items.mass


# Decisions whose rewards come late.


def test_pending_decisions_keep_their_items(tmp_path: Path) -> None:
    direct, pending = EFFECTS["LinUCB"](), Pending(EFFECTS["LinUCB"](), condition=False)
    shown = []
    for user in range(N):
        arm = direct.recommend(user, ARMS, items=IDS + 3)
        decision = pending.recommend(user, ARMS, items=IDS + 3, propensity=user % 2 == 0)
        assert decision.arm == arm
        shown.append((decision, arm))
    pending.save(tmp_path / "pending.npz")
    loaded = Pending.load(tmp_path / "pending.npz")
    for decision, arm in shown[:3]:
        direct.update(decision.user, ARMS[arm], 1.0, item=arm + 3)
        pending.reward(decision.id, 1.0)
    direct.update_many(
        [d.user for d, _ in shown[3:]], ARMS[[a for _, a in shown[3:]]], [2.0] * 3, items=[a + 3 for _, a in shown[3:]]
    )
    pending.reward_many([decision.id for decision, _ in shown[3:]], [2.0] * 3)
    loaded.reward_many([decision.id for decision, _ in shown], [1.0] * 3 + [2.0] * 3)
    assert same_scores(direct, pending.policy) and same_scores(direct, loaded.policy)
    assert direct.state.items.mass.any()


def test_pending_decisions_about_an_item_shrink_its_part_of_the_bonus() -> None:
    """Arms of the same features: the next decision is about an item that is not pending."""
    pending = Pending(LinUCB(GRAPH, DIM, item_effects=True, item_ridge=1.0, radius="constant"))
    same = ARMS[[0, 0, 0, 0]]
    found = [pending.recommend(0, same, items=[4, 5, 6, -1]).arm for _ in range(3)]
    assert sorted(found) == [0, 1, 2]


def test_ids_do_not_matter_to_pending_decisions_of_a_policy_without_effects() -> None:
    for make in (lambda: LinUCB(GRAPH, DIM), lambda: LinTS(GRAPH, DIM), lambda: Stochastic(LinUCB(GRAPH, DIM), epsilon=0.1)):
        one, other = Pending(make()), Pending(make())
        for _ in range(12):
            first, second = one.recommend(1, ARMS, propensity=True), other.recommend(1, ARMS, items=IDS, propensity=True)
            assert first == second


# Bad ids.

BAD: list[tuple[Any, str]] = [
    ([0, 1], r"items must have one id for each of 9 rows, but its shape is \(2,\)"),
    (np.zeros((M, 1), int), r"items must have one id for each of 9 rows, but its shape is \(9, 1\)"),
    (3, r"items must have one id for each of 9 rows, but its shape is \(\)"),
    (IDS.astype(float), "items must be integers, but they are of type float64"),
    (IDS > 2, "items must be integers, but they are of type bool"),
    (["tea"] * M, "items must be integers, but they are of type <U3; number items 0, 1, 2, …"),
    (IDS - 2, r"items\[0\] must be an integer from 0 to 99999999, or -1 if not known, but it is -2"),
    (IDS + LARGEST_ITEM, r"items\[1\] must be an integer from 0 to 99999999, or -1 if not known, but it is 100000000"),
]


@pytest.mark.parametrize(("items", "message"), BAD)
def test_bad_ids_are_refused(items: Any, message: str) -> None:
    policy, twin = trained(EFFECTS["LinUCB"]), trained(EFFECTS["LinUCB"])
    for call in (policy.recommend, policy.scores, policy.propensities, Pending(policy).recommend, Stochastic(policy).recommend):
        with pytest.raises(ValueError, match=message):
            call(0, ARMS, items=items)
    with pytest.raises(ValueError, match=message):
        policy.rank(0, ARMS, 2, items=items)
    with pytest.raises(ValueError, match=message):
        policy.update_many(np.zeros(M, int), ARMS, np.ones(M), items=items)
    assert same_scores(policy, twin) and policy.recommend(0, ARMS) == twin.recommend(0, ARMS)


def test_a_bad_observation_leaves_the_table_as_it_is() -> None:
    policy = trained(EFFECTS["LinUCB"])
    before = policy.item_room
    for item in (-2, 1.5, True, LARGEST_ITEM + 1, "tea"):
        with pytest.raises(ValueError, match="item must be an integer from 0 to 99999999, or -1 if not known"):
            policy.update(0, ARMS[0], 1.0, item=item)  # type: ignore[arg-type]
    for x, reward in ((ARMS[0], np.nan), (np.full(DIM, np.inf), 1.0), (ARMS[0], "good"), (ARMS, 1.0)):
        with pytest.raises(ValueError):
            policy.update(0, x, reward, item=500)  # type: ignore[arg-type]
    with pytest.raises(ValueError):
        policy.update_many([0], ARMS[:1], [np.nan], items=[500])
    assert policy.item_room == before and same_scores(policy, trained(EFFECTS["LinUCB"]))


def test_ids_may_be_of_any_integer_type() -> None:
    for kind in (np.int8, np.int32, np.uint64):
        ids = check_items(IDS.astype(kind), M)
        assert ids.dtype == np.int64 and ids.tolist() == IDS.tolist()
    assert check_items(None, M).shape == check_items([], 0).shape == (0,)


def test_a_state_needs_a_belief_or_scores() -> None:
    with pytest.raises(ValueError, match="LinUCBState must have a belief or scores of its own"):
        kernels.register(LinUCB.State, update=kernels.learn_with_items)


# Against the exact posterior.


def joint_posterior(rows: list[tuple[int, Floats, int, float]], ridge: float, kappa: float, sigma: float) -> tuple[Any, Any]:
    """Mean and covariance of all users' vectors and all items' effects, users first: one Gaussian regression."""
    design = np.zeros((len(rows), N * DIM + M))
    for row, (user, x, item, _) in enumerate(rows):
        design[row, user * DIM : (user + 1) * DIM] = x
        design[row, N * DIM + item] = 1.0
    precision = design.T @ design + np.diag([ridge] * (N * DIM) + [kappa] * M)
    inverse = np.linalg.inv(precision)
    return inverse @ design.T @ np.array([row[3] for row in rows]), sigma**2 * inverse


def test_learning_by_turns_is_near_the_exact_posterior() -> None:
    """Users and items by turns: the mean reward of every user and item, against the joint regression."""
    sigma, kappa, inside, gaps, spreads = 0.3, 2.0, [], [], []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        theta, effect = sigma * rng.standard_normal((N, DIM)), sigma / np.sqrt(kappa) * rng.standard_normal(M)
        effect -= effect.mean()
        policy = LinUCB(GRAPH, DIM, item_effects=True, item_ridge=kappa, radius="constant", exploration=sigma)
        rows = []
        for _ in range(400):
            user, item = int(rng.integers(N)), int(rng.integers(M))
            reward = float(ARMS[item] @ theta[user] + effect[item] + sigma * rng.standard_normal())
            policy.update(user, ARMS[item], reward, item=item)
            rows.append((user, ARMS[item], item, reward))
        mean, covariance = joint_posterior(rows, 1.0, kappa, sigma)
        for user in range(N):
            ours = policy.scores(user, ARMS, items=IDS)
            design = np.zeros((M, N * DIM + M))
            design[:, user * DIM : (user + 1) * DIM], design[IDS, N * DIM + IDS] = ARMS, 1.0
            exact, spread = design @ mean, np.sqrt((design @ covariance * design).sum(axis=1))
            gaps += list(np.abs(ours.mean - exact) / spread)
            spreads += list(ours.bonus / spread)
            inside += list(np.abs(ours.mean - (ARMS @ theta[user] + effect)) < 2.576 * ours.bonus)
    assert np.mean(gaps) < 0.7 and 0.7 < np.median(spreads) < 1.3
    assert np.mean(inside) > 0.95
