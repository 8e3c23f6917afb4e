"""Feedback that comes late, in batches, in any order, twice or never."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphbandit import (
    CLUB,
    COFIBA,
    DCB,
    DCCB,
    OFUL,
    SCLUB,
    TCB,
    AdaptiveGraphUCB,
    CoLin,
    CommunityUCB,
    DynUCB,
    GobLin,
    GobLinBlock,
    GobLinMacro,
    GraphUCB,
    GraphUCBLocal,
    HordeEpochGreedy,
    HordeTS,
    LinTS,
    LinUCB,
    Pending,
    Policy,
    Random,
    SpectralTS,
    SpectralUCB,
    Stochastic,
    environments,
    graphs,
    signals,
    simulate,
    simulate_delayed,
)
from graphbandit.experiments import DelayedTrace, geometric
from graphbandit.experiments.delayed import NEVER
from graphbandit.experiments.testbeds import make_world
from graphbandit.policies.core.policy_file import grams
from graphbandit.policies.wrappers.pending import probabilities_given_pending, scores_given_pending
from graphbandit.storage.archive import ArchiveError

GRAPH = graphs.from_edges([(0, 1), (1, 2), (2, 0), (2, 3), (4, 5), (5, 6)], n_users=8)
ARMS = signals.unit_arms(12, 3, seed=5)
INF = float("inf")
Make = Callable[[], Policy]


def history(rounds: int = 60, seed: int = 0) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    return rng.integers(8, size=rounds), ARMS[rng.integers(12, size=rounds)], rng.standard_normal(rounds)


# The same numbers in whatever order rewards come.
ANY_ORDER: dict[str, Make] = {
    "LinUCB": lambda: LinUCB(GRAPH, 3),
    "LinUCB shared": lambda: LinUCB(GRAPH, 3, shared=True),
    "LinTS": lambda: LinTS(GRAPH, 3),
    "GraphUCB": lambda: GraphUCB(GRAPH, 3),
    "GraphUCB push": lambda: GraphUCB(GRAPH, 3, solver="push", tolerance=1e-12),
    "GraphUCB-Local": lambda: GraphUCBLocal(GRAPH, 3),
    "GraphUCB-Local jacobi": lambda: GraphUCBLocal(GRAPH, 3, rule="jacobi"),
    "GobLin": lambda: GobLin(GRAPH, 3),
    "GobLinBlock": lambda: GobLinBlock(GRAPH, 3, clusters=3),
    "GobLinMacro": lambda: GobLinMacro(GRAPH, 3, clusters=3),
    "CoLin": lambda: CoLin(GRAPH, 3),
    "TCB": lambda: TCB(GRAPH, 3),
    "HordeTS": lambda: HordeTS(GRAPH, 3),
    "HordeEpochGreedy": lambda: HordeEpochGreedy(GRAPH, 3),
    "SpectralUCB": lambda: SpectralUCB(GRAPH, 3, items=ARMS),
    "SpectralTS": lambda: SpectralTS(GRAPH, 3, items=ARMS),
    "OFUL every round": lambda: OFUL(GRAPH, 3, switch=0.0),
    "Adaptive, one model, known noise": lambda: AdaptiveGraphUCB(
        GRAPH, 3, alphas=[0.1], slack=0.3, models=["graph"], sigma=0.1
    ),
}
# What they decide with depends on the order in which they learned, and why.
IN_ORDER: dict[str, Make] = {
    "GraphUCB-Local gauss-seidel": lambda: GraphUCBLocal(GRAPH, 3, preset="recommended"),  # a neighbour's last estimate
    "GraphUCB-Local section-5": lambda: GraphUCBLocal(GRAPH, 3, preset="paper"),  # the user's own last estimate
    "OFUL": lambda: OFUL(GRAPH, 3),  # when it switched
    "Adaptive": lambda: AdaptiveGraphUCB(GRAPH, 3),  # evidence: predictions made before what came later
    "Adaptive, forgetting": lambda: AdaptiveGraphUCB(GRAPH, 3, half_life=20.0),  # the newest counts most
    "CLUB": lambda: CLUB(GRAPH, 3, alpha2=1.0),  # cuts are for good
    "SCLUB": lambda: SCLUB(GRAPH, 3, alpha_theta=1.0),
    "DynUCB": lambda: DynUCB(GRAPH, 3),  # users moved
    "COFIBA": lambda: COFIBA(GRAPH, 3, items=ARMS, alpha2=0.2),
    "CommunityUCB": lambda: CommunityUCB(GRAPH, 3, period=7, neighbours=3, kernel=0.1),  # found a while ago
    "HordeTS cg": lambda: HordeTS(GRAPH, 3, solver="cg", period=7, scale=0.0),  # the last refresh
    "DCCB": lambda: DCCB(GRAPH, 3, lag=3),
    "DCB": lambda: DCB(GRAPH, 3, lag=3),  # who gossiped what
}


def learned(policy: Policy, order: Any) -> Policy:
    users, X, rewards = history()
    policy.update_many(users[order], X[order], rewards[order])
    return policy


def opinions(policy: Policy) -> Any:
    return np.array([np.stack(policy.scores(user, ARMS)) for user in range(8)])


@pytest.mark.compiled
@pytest.mark.parametrize("make", ANY_ORDER.values(), ids=ANY_ORDER)
def test_any_order_gives_the_same_state(make: Make) -> None:
    first, second = learned(make(), np.arange(60)), learned(make(), np.random.default_rng(1).permutation(60))
    assert np.allclose(first.theta, second.theta, rtol=0, atol=1e-8)
    assert np.allclose(opinions(first), opinions(second), rtol=0, atol=1e-7)  # a bonus is a root of what agrees to 1e-8


@pytest.mark.compiled
@pytest.mark.parametrize("make", IN_ORDER.values(), ids=IN_ORDER)
def test_where_order_matters_only_the_statistics_agree(make: Make) -> None:
    first, second = learned(make(), np.arange(60)), learned(make(), np.random.default_rng(1).permutation(60))
    assert not np.allclose(opinions(first), opinions(second), rtol=0, atol=1e-8)
    if first.params.get("half_life") is None and not isinstance(first, DCB | DCCB):
        one, two = (next(grams(policy.state)) for policy in (first, second))
        assert one.any() and np.allclose(one, two, rtol=0, atol=1e-8)


def test_a_batch_is_checked_as_a_whole() -> None:
    policy = LinUCB(GRAPH, 3)
    policy.update_many([], np.empty((0, 3)), [])
    for batch, message in (
        (([0, 1], ARMS[:2], [1.0]), r"users, X and rewards must have shapes \(k,\), \(k, 3\) and \(k,\)"),
        (([0, 1], ARMS[:2, :2], [1.0, 1.0]), "users, X and rewards must have shapes"),
        (([0, 8], ARMS[:2], [1.0, 1.0]), r"users\[1\] is wrong: user must be an integer from 0 to 7, but it is 8"),
        (([0, 1.5], ARMS[:2], [1.0, 1.0]), r"users\[1\] is wrong|users\[0\] is wrong"),
        (([0, 1], [ARMS[0], [0.0, np.inf, 0.0]], [1.0, 1.0]), r"X\[1\] must be finite"),
        (([0, 1], ARMS[:2], [np.nan, 1.0]), r"rewards\[0\] must be finite"),
        (([0, 1], ARMS[:2], ["good", 1.0]), "rewards must be an array of numbers"),
    ):
        with pytest.raises(ValueError, match=message):
            policy.update_many(*batch)
    assert not policy.observations.visits.any()


def test_a_policy_with_its_own_update_learns_a_batch_in_its_own_way() -> None:
    class Twice(LinUCB):
        def update(self, user: int, x: Any, reward: float, **known: Any) -> None:
            super().update(user, x, reward, **known)
            super().update(user, x, reward, **known)

    policy = Twice(GRAPH, 3)
    policy.update_many([0, 1], ARMS[:2], [1.0, 1.0])
    assert policy.observations.visits[:2].tolist() == [2, 2]


# The bonus given pending decisions is that after the real update: exactly where the radius is
# constant, else up to its growth.
EXACT: dict[str, Make] = {
    "LinUCB": lambda: LinUCB(GRAPH, 3, radius="constant"),
    "LinTS": lambda: LinTS(GRAPH, 3, scale=0.3),
    "GobLin": lambda: GobLin(GRAPH, 3, radius="constant"),
    "CoLin": lambda: CoLin(GRAPH, 3, radius="constant"),
    "TCB without translation": lambda: TCB(GRAPH, 3, sweeps=0),
    "HordeTS": lambda: HordeTS(GRAPH, 3),
    "CLUB": lambda: CLUB(GRAPH, 3, alpha2=1e9, radius="constant"),
    "SCLUB": lambda: SCLUB(GRAPH, 3, alpha_theta=INF, alpha_p=INF, radius="constant"),
    "DynUCB": lambda: DynUCB(GRAPH, 3, clusters=1, radius="constant"),
    "CommunityUCB": lambda: CommunityUCB(GRAPH, 3, period=10_000, radius="constant"),
    "DCCB": lambda: DCCB(GRAPH, 3, lag=0, alpha2=INF, radius="constant"),
    "Random": lambda: Random(GRAPH, 3),
}
RATIO: dict[str, Make] = {
    "LinUCB theory": lambda: LinUCB(GRAPH, 3),
    "OFUL every round": lambda: OFUL(GRAPH, 3, switch=0.0),
    "GraphUCB recommended": lambda: GraphUCB(GRAPH, 3, preset="recommended"),
    "GraphUCB-Local recommended": lambda: GraphUCBLocal(GRAPH, 3, preset="recommended"),
    "Stochastic": lambda: Stochastic(LinUCB(GRAPH, 3), epsilon=0.1),
}
NEAR: dict[str, Make] = {
    "GraphUCB paper": lambda: GraphUCB(GRAPH, 3),
    "TCB": lambda: TCB(GRAPH, 3),
    "Adaptive alone": lambda: AdaptiveGraphUCB(GRAPH, 3, alphas=[0.1], models=["alone"], sigma=0.2, exploration=0.5),
    "Adaptive graph": lambda: AdaptiveGraphUCB(GRAPH, 3, alphas=[0.1], slack=0.3, models=["graph"], sigma=0.2),
    "Adaptive": lambda: AdaptiveGraphUCB(GRAPH, 3),
    "Adaptive local": lambda: AdaptiveGraphUCB(GRAPH, 3, solver="local"),
}


def before_and_after(make: Make) -> tuple[Any, Any]:
    """The bonus given pending decisions of every arm, and that after the rewards turned out as
    expected.
    """
    policy, shown = learned(make(), np.arange(60)), ARMS[[3, 3, 7]]
    shrunk = scores_given_pending(policy, 2, ARMS, shown)
    assert np.array_equal(shrunk.mean, policy.scores(2, ARMS).mean)
    for x in shown:
        policy.update(2, x, float(policy.scores(2, x[None, :]).mean[0]))
    return shrunk.bonus, policy.scores(2, ARMS).bonus


@pytest.mark.compiled
@pytest.mark.parametrize("make", EXACT.values(), ids=EXACT)
def test_the_bonus_given_pending_is_that_after_the_update(make: Make) -> None:
    shrunk, real = before_and_after(make)
    assert np.allclose(shrunk, real, rtol=1e-6, atol=1e-12)


@pytest.mark.compiled
@pytest.mark.parametrize("make", RATIO.values(), ids=RATIO)
def test_the_bonus_given_pending_is_right_but_for_the_radius(make: Make) -> None:
    shrunk, real = before_and_after(make)
    ratio = real / shrunk
    assert np.allclose(ratio, ratio[0], rtol=1e-6) and 0.8 < ratio[0] < 1.25


@pytest.mark.compiled
@pytest.mark.parametrize("make", NEAR.values(), ids=NEAR)
def test_the_bonus_given_pending_is_near_where_the_width_is_no_inverse(make: Make) -> None:
    shrunk, real = before_and_after(make)
    ratio = real / shrunk
    assert np.all(np.abs(ratio / np.median(ratio) - 1.0) < 0.2)


@pytest.mark.compiled
@pytest.mark.parametrize(
    "policy", [SpectralUCB(GRAPH, 3, items=ARMS), COFIBA(GRAPH, 3, items=ARMS)], ids=lambda policy: type(policy).__name__
)
def test_without_a_common_form_a_decision_tells_about_its_own_arm(policy: Policy) -> None:
    before, after = policy.scores(2, ARMS).bonus, scores_given_pending(policy, 2, ARMS, ARMS[[3, 3]]).bonus
    others = np.arange(12) != 3
    assert np.array_equal(after[others], before[others])
    assert np.isclose(after[3], before[3] / np.sqrt(1.0 + 2.0 * (before[3] / policy.beta(2)) ** 2))


def test_chances_of_an_optimist_a_sampler_and_a_mixture() -> None:
    shown, none = ARMS[[3, 7]], np.empty((1, 0))
    optimist = LinUCB(GRAPH, 3)
    values = np.add(*scores_given_pending(optimist, 0, ARMS, shown))
    chances = probabilities_given_pending(optimist, 0, ARMS, shown, none)
    assert np.flatnonzero(chances).tolist() == np.flatnonzero(values == values.max()).tolist()
    mixed = probabilities_given_pending(Stochastic(optimist, epsilon=0.3), 0, ARMS, shown, np.zeros((1, 2)))
    assert np.allclose(mixed, 0.7 * chances + 0.3 / 12)
    soft = probabilities_given_pending(Stochastic(optimist, temperature=0.01), 0, ARMS, shown, np.zeros((1, 2)))
    assert np.allclose(np.log(soft / soft[0]), (values - values[0]) / 0.01)
    # A draw after `shown` is a draw of a sampler that has seen it with the rewards that it expected: none, at the start.
    noise = np.random.default_rng(0).standard_normal((20_000, 3))
    sampler = LinTS(GRAPH, 3)
    sampler.update_many([0, 0], shown, [0.0, 0.0])
    assert np.allclose(
        probabilities_given_pending(LinTS(GRAPH, 3), 0, ARMS, shown, noise),
        sampler.propensities(0, ARMS, draws=20_000),
        atol=0.02,
    )


@pytest.mark.parametrize("policy", [HordeEpochGreedy(GRAPH, 3), Random(GRAPH, 3), LinUCB(GRAPH, 3, exploration=0.0)], ids=repr)
def test_without_a_bonus_nothing_is_shrunk(policy: Policy) -> None:
    pending = Pending(policy)
    assert {pending.recommend(0, ARMS).arm for _ in range(200)} == set(range(12))  # all tie


def test_pending_decisions_spread_over_the_arms() -> None:
    pending, plain = Pending(LinUCB(GRAPH, 3, norm=1.0)), Pending(LinUCB(GRAPH, 3, norm=1.0), condition=False)
    for one in (pending, plain):
        one.policy.update(0, ARMS[0], 0.0)
    counts = [np.bincount([one.recommend(0, ARMS).arm for _ in range(40)], minlength=12) for one in (pending, plain)]
    assert counts[1].max() == 40  # deterministic: always the same
    assert counts[0].max() <= 20 and np.count_nonzero(counts[0]) >= 3
    assert len(pending) == 40 and len(pending.shown(0)) == 40 and len(pending.shown(1)) == 0
    assert np.array_equal(pending.policy.theta, plain.policy.theta)  # deciding has taught nothing


def test_rewards_late_twice_unknown_and_given_up() -> None:
    pending = Pending(LinUCB(GRAPH, 3))
    first, second, third = pending.recommend(0, ARMS), pending.recommend(1, ARMS, id="b"), pending.recommend(0, ARMS)
    assert (first.id, second.id, third.id) == (0, "b", 2) and pending.ids == [0, "b", 2]
    with pytest.raises(ValueError, match="reward must be finite"):
        pending.reward("b", float("nan"))
    assert "b" in pending
    assert pending.reward("b", 1.0) == "learned" and pending.reward("b", 5.0) == "duplicate"
    assert pending.expire(0) is True and pending.expire(0) is False and pending.reward(0, 1.0) == "expired"
    with pytest.raises(ValueError, match="id must be that of a decision made here, but 17 is none"):
        pending.reward(17, 1.0)
    with pytest.raises(ValueError, match="id must be new, but 'b' is that of an earlier decision"):
        pending.recommend(0, ARMS, id="b")
    with pytest.raises(ValueError, match="id must be a string or an integer"):
        pending.recommend(0, ARMS, id=1.5)  # type: ignore[arg-type]
    twin = LinUCB(GRAPH, 3)
    twin.update(1, ARMS[second.arm], 1.0)
    assert np.array_equal(pending.policy.theta, twin.theta) and len(pending) == 1


def test_a_batch_of_rewards() -> None:
    pending = Pending(LinUCB(GRAPH, 3))
    made = [pending.recommend(user, ARMS) for user in (0, 1, 2, 0)]
    pending.expire(2)
    with pytest.raises(ValueError, match="id must be that of a decision"):
        pending.reward_many([0, 99], [1.0, 1.0])
    with pytest.raises(ValueError, match=r"rewards\[1\] must be finite"):
        pending.reward_many([0, 1], [1.0, np.nan])
    with pytest.raises(ValueError, match="values must have one reward for each of 2 ids"):
        pending.reward_many([0, 1], [1.0])
    assert not pending.policy.theta.any() and len(pending) == 3
    assert pending.reward_many([3, 0, 2, 3], [1.0, 2.0, 3.0, 4.0]) == ["learned", "learned", "expired", "duplicate"]
    twin = LinUCB(GRAPH, 3)
    twin.update(0, ARMS[made[3].arm], 1.0)
    twin.update(0, ARMS[made[0].arm], 2.0)
    assert np.array_equal(pending.policy.theta, twin.theta) and pending.ids == [1]


def test_the_old_are_given_up() -> None:
    pending = Pending(LinUCB(GRAPH, 3), max_age=3)
    for _ in range(10):
        pending.recommend(0, ARMS)
        assert len(pending) <= 4
    assert pending.ids == [6, 7, 8, 9] and pending.reward(5, 1.0) == "expired" and pending.reward(6, 1.0) == "learned"
    with pytest.raises(ValueError, match="max_age must be an integer of at least 1"):
        Pending(LinUCB(GRAPH, 3), max_age=0)


def test_only_policies_that_decide_by_kernels() -> None:
    class Own(LinUCB):
        def recommend(self, user: int, arms: Any, **_: Any) -> Any:
            return 0

    with pytest.raises(ValueError, match="Own has a `recommend` of its own; condition=False"):
        Pending(Own(GRAPH, 3))
    assert Pending(Own(GRAPH, 3), condition=False).recommend(0, ARMS).arm == 0
    with pytest.raises(ValueError, match="policy must be a Policy, but it is a str"):
        Pending("LinUCB")  # type: ignore[arg-type]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 7), st.integers(0, 30)), max_size=60))
def test_whatever_happens_the_policy_knows_what_was_answered(events: list[tuple[int, int, int]]) -> None:
    pending, twin = Pending(LinUCB(GRAPH, 3)), LinUCB(GRAPH, 3)
    made: dict[Any, Any] = {}
    for kind, user, pick in events:
        waiting = pending.ids
        if kind <= 1 or not waiting:
            decision = pending.recommend(user, ARMS)
            made[decision.id] = decision
        elif kind == 2:
            decision = made[waiting[pick % len(waiting)]]
            assert pending.reward(decision.id, float(pick)) == "learned"
            assert pending.reward(decision.id, -1.0) == "duplicate"
            twin.update(decision.user, ARMS[decision.arm], float(pick))
        else:
            assert pending.expire(waiting[pick % len(waiting)])
    assert np.array_equal(pending.policy.theta, twin.theta)
    for user in range(8):
        assert np.array_equal(
            pending.shown(user), [ARMS[made[i].arm] for i in pending.ids if made[i].user == user] or np.empty((0, 3))
        )


@pytest.mark.parametrize(
    "make",
    [lambda: LinUCB(GRAPH, 3, norm=1.0), lambda: LinTS(GRAPH, 3), lambda: Stochastic(LinUCB(GRAPH, 3), epsilon=0.2)],
    ids=["LinUCB", "LinTS", "Stochastic"],
)
def test_saved_decisions_continue_bit_for_bit(make: Make, tmp_path: Path) -> None:
    pending = Pending(make(), max_age=30)
    for t in range(40):
        pending.recommend(t % 8, ARMS, id=f"d{t}" if t % 2 else None)
    pending.reward("d39", 0.3)
    pending.expire("d37")
    pending.save(tmp_path / "pending.npz")
    loaded = Pending.load(tmp_path / "pending.npz")
    assert loaded.ids == pending.ids and loaded.reward("d39", 1.0) == "duplicate" and loaded.reward("d37", 1.0) == "expired"
    for t in range(40):
        one, two = pending.recommend(t % 8, ARMS, propensity=True), loaded.recommend(t % 8, ARMS, propensity=True)
        assert one == two and one.propensity is not None and 0 < one.propensity <= 1
        assert pending.reward(one.id, 1.0) == loaded.reward(two.id, 1.0)
    assert np.array_equal(pending.policy.theta, loaded.policy.theta)


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    LinUCB(GRAPH, 3).save(tmp_path / "policy.npz")
    with pytest.raises(ArchiveError, match="holds a policy, not a pending"):
        Pending.load(tmp_path / "policy.npz")


def world(pool: int | None = 6) -> environments.Linear:
    return environments.Linear(GRAPH, signals.smooth(GRAPH, 3, gamma=5.0, seed=4), ARMS, sigma=0.1, pool=pool)


@pytest.mark.compiled
@pytest.mark.parametrize("make", [lambda: LinUCB(GRAPH, 3), lambda: LinTS(GRAPH, 3), lambda: GraphUCB(GRAPH, 3)])
@pytest.mark.parametrize("seed", [3, "generator"])
def test_no_delay_is_simulate_bit_for_bit(make: Make, seed: Any) -> None:
    first, second = (np.random.default_rng(1) if seed == "generator" else seed for _ in range(2))
    trace, late = simulate(make(), world(), 80, first), simulate_delayed(make(), world(), 80, seed=second)
    assert all(np.array_equal(getattr(trace, name), getattr(late, name)) for name in trace._fields)
    assert np.isnan(late.concentration())


def test_rounds_are_the_same_at_every_delay_and_rewards_come_when_they_should() -> None:
    traces = [simulate_delayed(LinUCB(GRAPH, 3), world(), 80, delay=d, seed=3) for d in (0, 7, geometric(10))]
    for trace in traces:
        assert np.array_equal(trace.user, traces[0].user)
    assert np.array_equal(traces[1].known, np.arange(80) + 7)
    policy = LinUCB(GRAPH, 3)
    trace = simulate_delayed(policy, world(), 80, delay=geometric(10), missing=0.3, seed=3)
    seen = trace.known < 80
    assert 0.1 < np.mean(trace.known == NEVER) < 0.5
    twin = LinUCB(GRAPH, 3)
    order = np.argsort(trace.known[seen], kind="stable")
    twin.update_many(trace.user[seen][order], ARMS[trace.arm[seen][order]], trace.reward[seen][order])
    assert np.array_equal(policy.theta, twin.theta)


@pytest.mark.compiled
def test_a_policy_does_not_collapse_while_it_waits() -> None:
    concentration, regret = np.empty((2, 3)), np.empty((2, 3))
    for seed in range(3):
        env = make_world("er", seed, fixed=True)
        for mode in (0, 1):
            trace = simulate_delayed(LinUCB(env.graph, 5), env, 1500, delay=300, condition=mode == 1, seed=seed)
            concentration[mode, seed], regret[mode, seed] = trace.concentration(), trace.regret[-1]
    assert np.all(concentration[1] < concentration[0] - 0.1) and regret[1].sum() < 0.9 * regret[0].sum()


def test_crowding_by_hand() -> None:
    users, arms = np.zeros(6, np.int32), np.array([1, 1, 2, 1, 1, 1], np.int32)
    trace = DelayedTrace(users, arms, np.zeros(6), np.zeros(6), np.arange(6) + 2)
    # unanswered after the decisions of rounds 2, 3, 4, 5, the current one included: 1 1 2, 1 2 1, 2 1 1, 1 1 1
    assert np.isclose(trace.concentration(least=3), (2 / 3 * 3 + 1.0) / 4)
    assert np.isnan(trace.concentration(least=4))


def test_geometric_delays() -> None:
    drawn = geometric(20)(np.random.default_rng(0), 20_000)
    assert drawn.min() == 0 and abs(drawn.mean() - 20) < 1
    assert not geometric(0)(np.random.default_rng(0), 5).any()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"delay": -1}, "delay must be an integer of at least 0, but it is -1"),
        ({"delay": lambda rng, size: np.zeros(3)}, "delay must draw 10 integers of at least 0"),
        ({"missing": 1.5}, "missing must be a share from 0 to 1, but it is 1.5"),
        ({"max_age": 0}, "max_age must be an integer of at least 1"),
    ],
)
def test_bad_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        simulate_delayed(LinUCB(GRAPH, 3), world(), 10, **settings)
    with pytest.raises(ValueError, match="mean must be zero or a positive number"):
        geometric(-1)
    with pytest.raises(ValueError, match="policy is for 3 users"):
        simulate_delayed(LinUCB(graphs.empty(3), 3), world(), 10)
