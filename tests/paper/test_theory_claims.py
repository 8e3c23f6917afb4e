"""Claims of the paper's text: each measured quantity against plain NumPy, each verdict both ways."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from graphbandit import GraphUCB, GraphUCBLocal, LinUCB, environments, graphs, signals, simulate
from graphbandit.experiments.testbeds import DIM, make_world
from graphbandit.paper import ReproduceSettings, coverage, estimation, growth, laplacians, theory
from graphbandit.paper.algorithms import LITERAL_LOCAL, PRINTED_POLICIES
from graphbandit.paper.figure import Data
from graphbandit.paper.synthetic import FAMILIES

SMALL = ReproduceSettings(runs=2, horizon=40, quick=True, setting="released")


def verdicts(claims: Any) -> list[bool | None]:
    """Return True for each claim that holds, False if it does not, None if the data decide nothing."""
    return [{"holds": True, "does not hold": False, "equal": None, "more runs needed": None}[claim.verdict] for claim in claims]


def test_delta_claims_both_ways() -> None:
    grid = np.tile(np.arange(6.0), (5, 1)) + np.random.default_rng(3).normal(scale=0.01, size=(5, 6))
    for sign, largest, expected in ((1.0, 0.9, [True, True]), (-1.0, 1.5, [False, False])):
        ratio = np.full((5, 6, 20), 0.5)
        ratio[1, 2, 3] = largest  # one user in one run
        delta = np.repeat(sign * grid[..., None], 20, axis=2)
        parts = {"ratio": ratio, "delta": delta, "smoothness": grid}
        data: Data = {name: dict.fromkeys(FAMILIES, part) for name, part in parts.items()}
        assert verdicts(theory.claims_delta(data | {"gammas": np.arange(6.0)})) == expected


def test_psi_claims_both_ways() -> None:
    rounds = np.arange(1.0, 21.0)
    rise = np.linspace(0.1, 0.6, 20)[None, :, None] + np.random.default_rng(4).normal(scale=1e-3, size=(5, 20, 4))
    data: Data = {"rounds": rounds, "psi": rise, "long_rounds": 50 * rounds, "long": rise + 0.35, "setting": "printed"}
    assert verdicts(theory.claims_psi(data)) == [True] * 4
    assert not any(claim.beyond for claim in theory.claims_psi(data))
    one_falls = rise.copy()
    one_falls[:, :, 2] = 1.2 - rise[:, :, 2]  # the mean over users rises, and is inside
    assert verdicts(theory.claims_psi(data | {"psi": one_falls, "long": rise - 0.3})) == [False] * 4
    late = rise.copy()
    late[:, :5, 1] = np.nan  # served late
    assert verdicts(theory.claims_psi(data | {"psi": late})) == [True] * 4


def test_bound_claims_both_ways() -> None:
    rise = 1 + np.random.default_rng(4).normal(scale=1e-3, size=(5, 3, 4))
    part = {"regret": rise, "printed": 2 * rise, "root": 0.5 * rise, "linucb": rise}
    data: Data = {"rounds": np.arange(3.0), "policies": dict.fromkeys(PRINTED_POLICIES, part), "setting": "printed"}
    found = theory.claims_bound(data)
    assert verdicts(found) == [True, False, False, True] * 3 and len(theory.chart_bound(data)) == 2
    remarks = ["Remark 2", "Section 6.2"] * 2
    assert [claim.quote[1] for claim in found if not claim.beyond] == ["Theorem 1", "Section 6.2", *remarks]


def test_the_empty_graph_has_another_metric_than_linucb() -> None:
    """On an empty graph Λ = V A⁻¹ V: the ratio of volumes by determinants, from the same observations."""
    rounds = np.array([30])
    beta, volume, delta, lower = coverage.extreme_run(0, "released", 30, rounds)[:, 0]
    env = make_world("er", 0)
    gram = np.tile(0.01 * np.eye(DIM), (20, 1, 1))
    from graphbandit.paper.synthetic import random_rounds

    for user, x, _, _ in random_rounds(env, 30, 0):
        gram[user] += np.outer(x, x)
    ridge = gram + np.eye(DIM)
    logs = np.linalg.slogdet(ridge)[1] - np.linalg.slogdet(ridge @ np.linalg.inv(gram) @ ridge)[1]
    assert volume / beta == pytest.approx(np.exp(logs.mean() / (2 * DIM)))
    assert beta == pytest.approx(1, abs=0.01) and delta < 1e-12 and lower < 1


def test_extreme_case_claims_both_ways() -> None:
    runs = np.ones((10, 4, 3)) * np.array([1.0, 1.0, 0.0, 0.3])[None, :, None]
    assert verdicts(coverage.claims_extremes({"runs": runs})) == [True] * 4
    assert verdicts(coverage.claims_extremes({"runs": runs + 0.5})) == [False] * 4


def test_estimates_are_those_of_the_policies() -> None:
    graph = graphs.erdos_renyi(20, 0.2, seed=5)
    rng, gram, response = np.random.default_rng(0), np.tile(0.01 * np.eye(DIM), (20, 1, 1)), np.zeros((20, DIM))
    policies = [GraphUCB(graph, DIM), GraphUCBLocal(graph, DIM, preset="paper", rule="jacobi"), LinUCB(graph, DIM, ridge=1.01)]
    for _ in range(100):
        user, x, reward = int(rng.integers(20)), rng.standard_normal(DIM), float(rng.standard_normal())
        gram[user] += np.outer(x, x)
        response[user] += reward * x
        for policy in policies:
            policy.update(user, x, reward)
    exact, section_5, lemma_1, _ = estimation.estimates(gram, response, graph.laplacian().toarray())
    assert np.allclose(exact, policies[0].theta, atol=1e-8)
    own, walk = np.linalg.solve(gram, response[..., None])[..., 0], graph.laplacian().toarray()
    outer = gram + np.eye(DIM)
    # Section 5 in its second form, V_i⁻¹ (b_i + α Σ_j P_ij l_j); Lemma 1 as eq. (7) is printed, user by user
    second = np.linalg.solve(outer, (response + (np.eye(20) - walk) @ own - np.diag(1 - np.diag(walk)) @ own)[..., None])[
        ..., 0
    ]
    assert np.allclose(section_5, second)
    literal = [own[i] - np.linalg.inv(gram[i]) @ sum(walk[i, j] * own[j] for j in range(20)) for i in range(20)]
    assert np.allclose(lemma_1, literal)


def test_ratios_of_norms_are_those_of_all_vectors() -> None:
    rng = np.random.default_rng(0)
    roots = rng.standard_normal((2, 3, 3))
    above, under = (root @ root.T + np.eye(3) for root in roots)
    least, largest = estimation.ratio_range(above, under)
    vectors = rng.standard_normal((20_000, 3))
    ratios = np.sqrt(np.einsum("ki,ij,kj->k", vectors, above, vectors) / np.einsum("ki,ij,kj->k", vectors, under, vectors))
    assert least <= ratios.min() <= least * 1.01 and largest * 0.99 <= ratios.max() <= largest


def test_both_steps_of_the_appendix_are_reversed_on_a_tiny_case() -> None:
    """A_i ≤ V_i and A_i ≤ Λ_i as matrices: by hand with A = diag(1, 4) and α = 1."""
    gram = np.diag([1.0, 4.0])
    wide, step, last = (
        np.linalg.inv(gram) @ (gram + 2 * np.eye(2)) @ np.linalg.inv(gram),
        np.diag([1.0, 0.25]),
        np.diag([0.5, 0.2]),
    )
    assert estimation.ratio_range(wide, step) == pytest.approx((np.sqrt(1.5), np.sqrt(3.0)))
    assert estimation.ratio_range(step, last) == pytest.approx((np.sqrt(1.25), np.sqrt(2.0)))
    found = estimation.run_appendix(SMALL)
    assert verdicts(estimation.claims_appendix(found)) == [False, False]
    upside_down = found | {name: 1 / found[name][..., [0, 2, 1]] for name in estimation.STEPS}
    assert verdicts(estimation.claims_appendix(upside_down)) == [True, True]


def test_psi_of_one_user_by_hand() -> None:
    """Ψ of the first user served: one arm, A = λI + xxᵀ, and nobody else has data."""
    env = make_world("er", 0)
    trace = simulate(GraphUCB(env.graph, DIM), env, 1, 0)
    user, x = int(trace.user[0]), env.arms[trace.arm[0]]
    row = env.graph.laplacian().toarray()[user] ** 2
    own = 0.01 * np.eye(DIM) + np.outer(x, x)
    precision = own + 2 * np.eye(DIM) + row[user] * np.linalg.inv(own) + (row.sum() - row[user]) / 0.01 * np.eye(DIM)
    expected = (x @ np.linalg.solve(precision, x)) / (x @ np.linalg.solve(own + np.eye(DIM), x))
    found = theory.psi_run(0, "released", 1, np.array([1]))
    assert found["psi"][0, user] == pytest.approx(expected) and np.isnan(np.delete(found["psi"][0], user)).all()
    assert np.isnan(found["printed"]).all()  # log 1 = 0: no bound yet


def test_bounds_per_user_add_up() -> None:
    found = theory.psi_run(3, "released", 200, np.array([200]))
    env = make_world("er", 3)
    trace = simulate(GraphUCB(env.graph, DIM), env, 200, 3)
    assert found["regret"].sum() == pytest.approx(trace.regret[-1])
    count = np.bincount(trace.user, minlength=20)
    user = int(count.argmax())
    logs = np.log(count[user])
    rate = (np.sqrt(5 * logs) + 1) * np.sqrt(5 * count[user] * logs)  # ‖θ_i‖ = 1
    assert found["linucb"][0, user] == pytest.approx(rate)
    assert growth.linucb_bound(env, trace) == pytest.approx(np.nansum(found["linucb"]))
    *_, (width, plain) = theory.widths(env, trace)
    assert width / plain == pytest.approx(found["psi"][0])


def test_graphucb_with_any_laplacian_is_graphucb_with_the_random_walk_one() -> None:
    """Arms of different lengths: unit arms tie in the first round, and rounding would decide."""
    graph = graphs.erdos_renyi(8, 0.4, seed=1)
    arms = signals.unit_arms(30, DIM, seed=2) * np.linspace(0.5, 1, 30)[:, None]
    env = environments.Linear(graph, signals.smooth(graph, DIM, gamma=7, seed=3), arms, sigma=0.01, pool=10)
    expected = simulate(GraphUCB(graph, DIM), env, 150, 4).regret[-1]
    assert laplacians.graph_ucb_regret(env, graph.laplacian().toarray(), 150, 4) == pytest.approx(expected)


def test_a_user_without_friends_has_one_on_the_diagonal() -> None:
    graph = graphs.from_edges([(0, 1), (0, 2)], n_users=4)
    env = environments.Linear(graph, np.ones((4, DIM)), np.ones((2, DIM)), pool=None)
    for kind, diagonal in (("combinatorial", [2, 1, 1, 1]), ("random-walk", [1, 1, 1, 1]), ("normalized", [1, 1, 1, 1])):
        assert np.diag(laplacians.laplacian_of(env, kind)).tolist() == diagonal


def test_remark_1_claims_both_ways() -> None:
    noise = np.random.default_rng(1).normal(scale=0.01, size=(10, 1))
    for sign, holds in ((1.0, True), (-1.0, False)):
        falling, rising = -sign * np.arange(3.0), sign * np.arange(4.0)
        density = dict.fromkeys(laplacians.KINDS, 20 + noise + rising)
        density["random-walk"] = 10 * (2 - sign) + noise[::-1] - rising
        data: Data = {"density": density, "similarity": dict.fromkeys(laplacians.KINDS, 20 + noise + falling)}
        data["delta"] = {kind: np.full((10, 4), 1.5 - 0.7 * sign) + noise for kind in laplacians.KINDS}
        data |= {"densities": laplacians.DENSITIES, "setting": "printed"}
        assert verdicts(laplacians.claims(data)) == [holds] * 5
        assert len(laplacians.chart(data)) == 2


def test_goblins_bound_by_hand() -> None:
    """Two friends with one round each: |M| = |(I + L) ⊗ I + A| / |(I + L) ⊗ I|."""
    graph = graphs.from_edges([(0, 1)])
    truth = np.zeros((2, DIM))
    truth[0, 0] = truth[1, 1] = 1.0
    env = environments.Linear(graph, truth, np.eye(DIM), sigma=0.01, pool=None)

    class Trace:
        user, arm = np.array([0, 1]), np.array([0, 1])

    prior = np.kron(np.array([[2.0, -1.0], [-1.0, 2.0]]), np.eye(DIM))
    filled = prior.copy()
    filled[0, 0] += 1
    filled[DIM + 1, DIM + 1] += 1
    logs = np.log(np.linalg.det(filled) / np.linalg.det(prior))
    rough = 1 + 1 + 2  # norms, and ‖θ_0 - θ_1‖² = 2
    expected = 4 * np.sqrt(2 * (1e-4 * (logs + np.log(100)) + rough) * logs)
    trace: Any = Trace()
    assert growth.goblin_bound(env, trace) == pytest.approx(expected)


def test_growth_claims_both_ways() -> None:
    users = np.array([10.0, 20.0, 40.0, 80.0])
    noise = np.exp(np.random.default_rng(2).normal(scale=0.01, size=(10, 4)))
    assert growth.exponents(3 * users[None] ** 0.7, users) == pytest.approx([0.7])

    def data(graph: float, linear: float, gob: float, room: float, root: float) -> Data:
        regret = {"GraphUCB": users**graph * noise, "LinUCB": users**root * noise, "Gob.Lin": users**gob * noise[::-1]}
        return {
            "users": users,
            "horizon": 10,
            "setting": "printed",
            "each": users**linear * noise,
            "regret": regret,
            "bound": {name: room * runs / noise for name, runs in regret.items()},
        }

    assert verdicts(growth.claims(data(0.3, 1.0, 0.8, 2.0, 0.5))) == [True] * 6
    assert verdicts(growth.claims(data(0.8, 0.5, 0.6, 0.5, 0.9))) == [False] * 6
    assert len(growth.chart(data(0.3, 1.0, 0.8, 2.0, 0.5))) == 2


def test_cost_claims_both_ways() -> None:
    noise = np.exp(np.random.default_rng(3).normal(scale=0.01, size=(6, 4)))
    users = {name: np.array(values, float) for name, values in growth.TIMED.items()}
    for local, literal, expected in (
        (1.0, 1.0, [True] * 4),
        (2.5, 1.0, [False] * 2 + [True] * 2),
        (1.0, 2.5, [True] * 2 + [False] * 2),
    ):
        powers = {"GraphUCB": 2.0, "GraphUCB-Local": local, LITERAL_LOCAL: literal}
        seconds = {name: users[name] ** power * noise for name, power in powers.items()}
        assert verdicts(growth.claims_cost({"users": users, "seconds": seconds})) == expected


def test_first_exit_is_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against a walk through all rounds, for a region that is left and one that is not."""
    env = make_world("er", 1)
    makers: dict[str, Any] = {"left": partial(LinUCB, norm=0.3), "kept": partial(LinUCB, norm=1.0)}
    monkeypatch.setattr(coverage, "REGIONS", makers)
    for name, make in makers.items():
        trace, policy, outside = simulate(make(env.graph, DIM), env, 120, 1), make(env.graph, DIM), []
        for t in range(120):
            user = int(trace.user[t])
            error = policy.theta[user] - env.truth[user]
            outside.append(bool(error @ policy.user_precision(user) @ error > policy.beta(user) ** 2))
            policy.update(user, env.arms[trace.arm[t]], float(trace.reward[t]))
        expected = outside.index(True) + 1 if any(outside) else 0
        assert coverage.first_exit(name, env, 120, 1) == expected
    assert coverage.first_exit("kept", env, 120, 1) == 0


def test_the_radius_of_lemma_2_has_the_true_roughness() -> None:
    env = make_world("er", 2)
    policy = GraphUCB(env.graph, DIM)
    rng, answers = np.random.default_rng(0), set()
    for _ in range(200):
        user, x = int(rng.integers(20)), env.arms[rng.integers(len(env.arms))]
        policy.update(user, x, float(x @ env.truth[user]))
        gram = policy.user_precision(user)
        visits = policy.state.seen.gram[user] + 1.01 * np.eye(DIM)
        logs = np.linalg.slogdet(visits)[1] - 2 * np.log(0.01)
        beta = 0.01 * np.sqrt(logs) + np.linalg.norm(env.graph.laplacian().toarray()[user] @ env.truth)
        error = policy.theta[user] - env.truth[user]
        expected = bool(error @ gram @ error <= beta**2)
        answers.add(expected)
        assert coverage.covers_truth("GraphUCB, true Δ_i", policy, env, user) == expected
    assert answers == {True, False}


def test_coverage_claims_both_ways() -> None:
    regions = len(coverage.REGIONS)
    counts, exits = np.full((4, regions, 7, 2), 100.0), np.zeros((400, regions))
    data = {"counts": counts, "exits": exits, "setting": "printed"}

    def first_two(found: Data) -> list[bool | None]:
        return verdicts(coverage.claims(found))[:2]

    assert verdicts(coverage.claims(data)) == [True] * 2 * regions
    assert first_two(data | {"exits": exits[:40]}) == [None, None]  # too few runs to see one in a hundred
    left = exits.copy()
    left[:40] = 7  # left in a tenth of the runs, in few rounds
    assert first_two(data | {"exits": left}) == [None, False]
    counts[..., 0] = 50
    assert first_two(data | {"exits": left}) == [False, False]
    found = coverage.claims(data)
    assert [claim.beyond for claim in found] == [False, True] * 3 + [True] * 12
    (panel,) = coverage.chart(data)
    assert all(series.low is not None for series in panel.series) and panel.ticks is not None


def test_coverage_is_counted_by_past_observations() -> None:
    counts = coverage.coverage_run(0, "released", 60)
    assert counts[..., 1].sum(axis=1).tolist() == [60.0] * len(coverage.REGIONS)
    trace = simulate(LinUCB(make_world("er", 0).graph, DIM), make_world("er", 0), 60, 0)
    assert counts[0, 0, 1] == len(np.unique(trace.user))  # every user has one round without past observations
