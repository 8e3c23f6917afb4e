"""Claims of the paper's text: each measured quantity against plain NumPy, each verdict both ways."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphbandit import GraphUCB, LinUCB, environments, graphs, signals, simulate
from graphbandit.experiments.testbeds import DIM, FAMILIES, make_world
from graphbandit.paper import ReproduceSettings, cost, coverage, growth, inequalities, laplacians, theory, topology
from graphbandit.paper.figure_parts import Data

SMALL = ReproduceSettings(runs=2, horizon=40, quick=True)


def verdicts(claims: Any) -> list[bool | None]:
    return [{"holds": True, "does not hold": False, "undecided": None}[claim.verdict] for claim in claims]


def test_delta_by_hand_on_two_friends() -> None:
    """Opposite friends: Δ_1 = θ_1 - θ_2 = 2 θ_1; equal ones: 0; alone: θ itself."""
    graph = graphs.from_edges([(0, 1)], n_users=3)
    opposite = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]])
    assert inequalities.delta_ratios(graph.laplacian(), opposite).tolist() == [2.0, 2.0, 1.0]
    assert inequalities.delta_ratios(graph.laplacian(), np.ones((3, 2))).tolist() == [0.0, 0.0, 1.0]


def test_delta_norm_claims_both_ways() -> None:
    for largest, expected in ((0.9, [True, True]), (1.5, [False, True]), (2.5, [False, False])):
        ratio = np.full((3, 5, 20), 0.5)
        ratio[1, 2, 3] = largest  # one user in one run
        data = {"gammas": np.arange(5.0), "ratios": {family: ratio for family in FAMILIES}}
        assert verdicts(inequalities.claims_delta_norm(data)) == expected


def test_ratios_of_norms_are_those_of_all_vectors() -> None:
    rng = np.random.default_rng(0)
    roots = rng.standard_normal((2, 3, 3))
    above, under = (root @ root.T + np.eye(3) for root in roots)
    least, largest = inequalities.ratio_range(above, under)
    vectors = rng.standard_normal((20_000, 3))
    ratios = np.sqrt(np.einsum("ki,ij,kj->k", vectors, above, vectors) / np.einsum("ki,ij,kj->k", vectors, under, vectors))
    assert least <= ratios.min() <= least * 1.01 and largest * 0.99 <= ratios.max() <= largest
    assert inequalities.norm_ratio(above, under, vectors[0]) == pytest.approx(ratios[0])


def test_both_steps_of_the_appendix_are_reversed_on_a_tiny_case() -> None:
    """A_i ≤ V_i and A_i ≤ Λ_i as matrices: by hand with A = diag(1, 4) and α = 1."""
    gram = np.diag([1.0, 4.0])
    wide, step, last = (
        np.linalg.inv(gram) @ (gram + 2 * np.eye(2)) @ np.linalg.inv(gram),
        np.diag([1.0, 0.25]),
        np.diag([0.5, 0.2]),
    )
    assert inequalities.ratio_range(wide, step) == pytest.approx((np.sqrt(1.5), np.sqrt(3.0)))
    assert inequalities.ratio_range(step, last) == pytest.approx((np.sqrt(1.25), np.sqrt(2.0)))
    found = inequalities.run_appendix(SMALL)
    assert verdicts(inequalities.claims_appendix(found)) == [False, True, False, True]
    upside_down = found | {name: 1 / found[name][..., [0, 2, 1]] for name in inequalities.STEPS}
    assert verdicts(inequalities.claims_appendix(upside_down)) == [True, False, True, False]


def test_psi_of_one_user_by_hand() -> None:
    """Ψ of the first user served: one arm, A = λI + xxᵀ, and nobody else has data."""
    env = make_world("er", 0)
    trace = simulate(GraphUCB(env.graph, DIM), env, 1, 0)
    user, x = int(trace.user[0]), env.arms[trace.arm[0]]
    row = env.graph.laplacian().toarray()[user] ** 2
    own = 0.01 * np.eye(DIM) + np.outer(x, x)
    precision = own + 2 * np.eye(DIM) + row[user] * np.linalg.inv(own) + (row.sum() - row[user]) / 0.01 * np.eye(DIM)
    expected = (x @ np.linalg.solve(precision, x)) / (x @ np.linalg.solve(own + np.eye(DIM), x))
    found = theory.psi_run(0, ReproduceSettings(runs=1, horizon=1), np.array([1]))
    assert found["psi"][0, user] == pytest.approx(expected) and np.isnan(np.delete(found["psi"][0], user)).all()
    assert np.isnan(found["printed"]).all()  # log 1 = 0: no bound yet


def test_bounds_per_user_add_up() -> None:
    found = theory.psi_run(3, ReproduceSettings(runs=1, horizon=200), np.array([200]))
    env = make_world("er", 3)
    trace = simulate(GraphUCB(env.graph, DIM), env, 200, 3)
    assert found["regret"].sum() == pytest.approx(trace.regret[-1])
    count = np.bincount(trace.user, minlength=20)
    user = int(count.argmax())
    logs = np.log(count[user])
    rate = (np.sqrt(5 * logs) + 1) * np.sqrt(5 * count[user] * logs)  # ‖θ_i‖ = 1
    assert found["linucb"][0, user] == pytest.approx(rate)
    assert growth.linucb_bound(env, trace) == pytest.approx(np.nansum(found["linucb"]))
    assert growth.largest_psi(env, trace) == pytest.approx(np.nanmax(found["psi"]))


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
        density = {kind: 20 + noise + rising for kind in laplacians.KINDS}
        density["random-walk"] = 10 * (2 - sign) + noise[::-1] - rising
        data: Data = {"density": density, "similarity": {kind: 20 + noise + falling for kind in laplacians.KINDS}}
        data["delta"] = {kind: np.full((10, 4), 1.5 - 0.6 * sign) + noise for kind in laplacians.KINDS}
        assert verdicts(laplacians.claims(data)) == [holds] * 9
        assert len(laplacians.chart(data).panels) == 2


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
    assert growth.grams(env, trace)[1].tolist() == np.diag([0.0, 1, 0, 0, 0]).tolist()


def test_growth_claims_both_ways() -> None:
    users = np.array([10.0, 20.0, 40.0, 80.0])
    noise = np.exp(np.random.default_rng(2).normal(scale=0.01, size=(10, 4)))
    assert growth.exponents(3 * users[None] ** 0.7, users) == pytest.approx([0.7])

    def data(graph: float, linear: float, gob: float, room: float) -> Data:
        regret = {"GraphUCB": users**graph * noise, "LinUCB": users**linear * noise, "Gob.Lin": users**gob * noise[::-1]}
        return {
            "users": users,
            "horizon": 10,
            "regret": regret,
            "bound": {name: room * runs / noise for name, runs in regret.items()},
        }

    assert verdicts(growth.claims(data(0.3, 1.0, 0.8, 2.0))) == [True, True, True, False, True, True, True]
    assert verdicts(growth.claims(data(0.8, 0.5, 0.6, 0.5))) == [False, False, False, True, False, False, False]
    assert len(growth.chart(data(0.3, 1.0, 0.8, 2.0)).panels) == 2


def test_cost_claims_both_ways() -> None:
    noise = np.exp(np.random.default_rng(3).normal(scale=0.01, size=(6, 4)))
    for local, expected in ((1.0, [True, True]), (2.5, [False, False])):
        users = {name: np.array(values, float) for name, values in cost.USERS.items()}
        seconds = {"GraphUCB": users["GraphUCB"] ** 2 * noise, "GraphUCB-Local": users["GraphUCB-Local"] ** local * noise}
        found = cost.claims({"users": users, "seconds": seconds})
        assert verdicts(found) == expected and "GraphUCB / GraphUCB-Local, 400 users" in found[0].evidence


def test_all_topologies_have_as_many_edges_and_are_as_smooth() -> None:
    for family in FAMILIES:
        for seed in range(5):
            env = topology.equal_world(family, seed)
            assert env.graph.n_edges == topology.EDGES == 75
            assert signals.smoothness(env.graph, env.truth) == pytest.approx(topology.SMOOTHNESS)
            assert np.allclose(np.linalg.norm(env.truth, axis=1), 1)
    weights = topology.equal_world("rbf", 0).graph.adjacency.data
    every = np.sort(graph_weights(0))[::-1]
    assert np.allclose(np.sort(weights)[::-1][::2], every[:75])  # the heaviest of the kernel


def graph_weights(seed: int) -> Any:
    """All weights of the kernel graph before it is thinned."""
    (shape,) = environments.streams(seed, "graph")
    kernel = graphs.rbf(shape.standard_normal((20, DIM)), rho=0.05).adjacency.toarray()
    return kernel[np.triu_indices(20, 1)]


def test_topology_claims_both_ways() -> None:
    noise = np.random.default_rng(4).normal(scale=0.1, size=(20, 1))
    for far, verdict in ((21.0, True), (28.0, False)):
        level = {"rbf": 20.0, "er": 20.0, "ba": far, "ws": 20.0}
        parts = {
            name: {
                "rounds": np.array([1.0]),
                "regret": {"GraphUCB": mean + noise, "LinUCB": 60 + noise},
                "edges": np.array([75]),
            }
            | {"smoothness": np.array([4.0])}
            for name, mean in level.items()
        }
        assert verdicts(topology.claims({"families": parts})) == [verdict]
        assert len(topology.chart({"families": parts}).panels[0].series) == 4


def test_first_exit_is_the_first() -> None:
    """Against a walk through all rounds, for a region that is left and one that is not."""
    env = make_world("er", 1)
    makers: list[Any] = [lambda g: LinUCB(g, DIM, norm=0.3), lambda g: LinUCB(g, DIM, norm=1.0)]
    for make in makers:
        trace, policy, outside = simulate(make(env.graph), env, 120, 1), make(env.graph), []
        for t in range(120):
            user = int(trace.user[t])
            error = policy.theta[user] - env.truth[user]
            outside.append(bool(error @ policy.user_precision(user) @ error > policy.beta(user) ** 2))
            policy.update(user, env.arms[trace.arm[t]], float(trace.reward[t]))
        expected = outside.index(True) + 1 if any(outside) else 0
        assert coverage.first_exit(make, env, 120, 1) == expected
    assert coverage.first_exit(lambda g: LinUCB(g, DIM, norm=1.0), env, 120, 1) == 0


def test_coverage_claims_both_ways() -> None:
    counts, exits = np.full((4, 1, 7, 2), 100.0), np.zeros((400, 1))
    data = {"counts": counts, "exits": exits, "regions": ["a"]}
    assert verdicts(coverage.claims_coverage(data)) == [True, True]
    few = data | {"exits": exits[:40]}  # too few runs to see one in a hundred
    assert verdicts(coverage.claims_coverage(few)) == [None, None]
    left = exits.copy()
    left[:40] = 7  # left in a tenth of the runs, in few rounds
    assert verdicts(coverage.claims_coverage(data | {"exits": left})) == [None, False]
    counts[..., 0] = 50
    assert verdicts(coverage.claims_coverage(data | {"exits": left})) == [False, False]
