"""Users and edges that come and go: any sequence of changes and observations equals a fresh policy on what is left of them."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from graphbandit import (
    CLUB,
    OFUL,
    TCB,
    AdaptiveGraphUCB,
    CoLin,
    GobLin,
    GobLinBlock,
    GobLinMacro,
    GraphUCB,
    GraphUCBLocal,
    HordeEpochGreedy,
    HordeTS,
    LinTS,
    LinUCB,
    Policy,
    Random,
    SpectralUCB,
    Stochastic,
    UserGraph,
    environments,
    graphs,
    signals,
    simulate,
)
from graphbandit.checks import check_policy
from graphbandit.compute.adjacency import Links, change_links, links_of
from graphbandit.compute.growable import append_rows, growable_rows
from graphbandit.live_graph import LiveGraph
from graphbandit.solvers.dense import Dense
from graphbandit.solvers.push import Push
from oracles import random_walk

DIM = 3
ARMS = np.random.default_rng(0).standard_normal((5, DIM))
START = graphs.from_edges([(0, 1), (1, 2), (2, 0), (3, 4)], n_users=6, weights=[1.0, 0.5, 2.0, 1.0])
Make = Callable[[UserGraph], Any]

POLICIES: dict[str, tuple[Make, float]] = {
    "GraphUCB, dense": (lambda g: GraphUCB(g, DIM, solver="dense"), 1e-8),
    "GraphUCB, dense, released": (lambda g: GraphUCB(g, DIM, solver="dense", preset="released", metric="exact"), 1e-8),
    "GraphUCB, push": (lambda g: GraphUCB(g, DIM, solver="push", ridge=0.1, tolerance=1e-10), 1e-7),
    "GraphUCB-Local, jacobi": (lambda g: GraphUCBLocal(g, DIM, rule="jacobi"), 1e-8),
    "GraphUCB-Local, released": (lambda g: GraphUCBLocal(g, DIM), 1e-8),
    "Gob.Lin": (lambda g: GobLin(g, DIM, radius="theory"), 1e-8),
    "TCB": (lambda g: TCB(g, DIM), 1e-8),
    "LinUCB": (lambda g: LinUCB(g, DIM, radius="log"), 1e-12),
    "LinUCB, shared": (lambda g: LinUCB(g, DIM, shared=True), 1e-12),
    "LinTS": (lambda g: LinTS(g, DIM), 1e-12),
    "OFUL": (lambda g: OFUL(g, DIM), 1e-12),
    "SpectralUCB": (lambda g: SpectralUCB(g, DIM, items=ARMS, radius="log"), 1e-12),
    "Random": (lambda g: Random(g, DIM), 0.0),
    "Stochastic": (lambda g: Stochastic(GraphUCB(g, DIM, solver="dense"), epsilon=0.1), 1e-8),
}

ADAPTIVE: dict[str, Make] = {
    "dense": lambda g: AdaptiveGraphUCB(g, DIM, solver="dense", alphas=[0.1, 1.0], slack=0.1),
    "local": lambda g: AdaptiveGraphUCB(g, DIM, solver="local", alphas=[0.1, 1.0], slack=0.1),
}
STORY = [(kind, a * 37, a * 91) for a, kind in enumerate(["see", "come", "see", "join", "see", "weigh", "part", "see"] * 4)]
events = st.tuples(
    st.sampled_from(["see", "see", "see", "join", "part", "weigh", "come", "go"]), st.integers(0, 999), st.integers(0, 999)
)


class World:
    """Reference state of a policy: weights by pair, and a list of observations."""

    def __init__(self, graph: UserGraph) -> None:
        pairs = graph.adjacency.tocoo()
        self.n_users = graph.n_users
        self.weights = {(int(i), int(j)): float(w) for i, j, w in zip(*pairs.coords, pairs.data, strict=True) if i < j}
        self.history: list[tuple[int, np.ndarray, float]] = []

    def graph(self) -> UserGraph:
        adjacency = np.zeros((self.n_users, self.n_users))
        for (i, j), weight in self.weights.items():
            adjacency[i, j] = adjacency[j, i] = weight
        return UserGraph(adjacency)

    def happen(self, policy: Any, kind: str, a: int, b: int) -> None:
        """Let one event happen here and in the policy, if it can."""
        i, j, weight = a % self.n_users, b % self.n_users, 0.1 + (a * 7 + b) % 30 / 10
        pair = (min(i, j), max(i, j))
        if kind == "see":
            x = np.random.default_rng([a, b]).standard_normal(DIM)
            self.history.append((i, x, weight))
            policy.update(i, x, weight)
        elif kind == "come":
            friends = {i: weight, j: 1.0} if b % 3 else {}
            assert policy.add_user(friends) == self.n_users
            self.weights |= {(friend, self.n_users): w for friend, w in friends.items()}
            self.n_users += 1
        elif kind == "go":
            self.leave(policy, i)
        elif i != j and (pair in self.weights) == (kind != "join"):
            if kind == "part":
                policy.remove_edge(i, j)
                del self.weights[pair]
            else:
                (policy.add_edge if kind == "join" else policy.set_weight)(i, j, weight)
                self.weights[pair] = weight

    def leave(self, policy: Any, user: int) -> None:
        friends = sorted({*(j for i, j in self.weights if i == user), *(i for i, j in self.weights if j == user)})
        seen = sum(who == user for who, _, _ in self.history)
        before = policy.theta
        removal = policy.remove_user(user)
        moved = np.linalg.norm(policy.theta - before, axis=1)[friends]
        np.testing.assert_array_equal(removal.neighbours, friends)
        np.testing.assert_allclose(removal.moved, moved, atol=1e-12)
        assert removal.largest == (max(removal.moved) if friends else 0.0)
        assert type(policy) is Random or removal.observations == seen
        self.weights = {pair: weight for pair, weight in self.weights.items() if user not in pair}
        self.history = [event for event in self.history if event[0] != user]

    def fresh(self, make: Make) -> Any:
        policy = make(self.graph())
        for event in self.history:
            policy.update(*event)
        return policy


def opinions(policy: Any) -> np.ndarray:
    return np.array([np.stack(policy.scores(user, ARMS)) for user in range(policy.n_users)])


def lived(make: Make, story: list[tuple[str, int, int]]) -> tuple[Any, World]:
    policy, world = make(START), World(START)
    for kind, a, b in story:
        if kind == "go" and getattr(policy.state, "shared", False):
            continue
        world.happen(policy, kind, a, b)
    return policy, world


def assert_alike(policy: Any, other: Any, tolerance: float) -> None:
    np.testing.assert_allclose(policy.theta, other.theta, atol=tolerance)
    np.testing.assert_allclose(opinions(policy), opinions(other), atol=10 * tolerance)
    assert (policy.graph.adjacency != other.graph.adjacency).nnz == 0


@pytest.mark.parametrize("name", POLICIES)
@settings(max_examples=20)
@given(story=st.lists(events, max_size=40))
def test_any_sequence_of_changes_equals_a_fresh_policy(name: str, story: list[tuple[str, int, int]]) -> None:
    make, tolerance = POLICIES[name]
    policy, world = lived(make, story)
    other = world.fresh(make)
    assert_alike(policy, other, tolerance)


@settings(max_examples=50)
@given(story=st.lists(events, max_size=60))
def test_the_residual_of_the_push_stays_that_of_its_estimate(story: list[tuple[str, int, int]]) -> None:
    policy, world = lived(lambda g: GraphUCB(g, DIM, solver="push", ridge=0.2, alpha=0.7, tolerance=1e-3), story)
    state, theta, walk = policy.state, policy.theta, random_walk(world.graph())
    own = np.einsum("nij,nj->ni", state.seen.gram, theta) + 0.2 * theta
    np.testing.assert_allclose(state.solver.residual, state.seen.bias - own - 0.7 * walk @ theta, atol=1e-9)
    assert np.linalg.norm(state.solver.residual, axis=1).max() <= 1e-3 * state.solver.scale[0]
    assert not state.solver.waiting.any()
    assert_links(state.links, world.graph())


def assert_links(edges: Links, graph: UserGraph) -> None:
    """Rows that do not overlap, hold the graph, and make P a stochastic matrix."""
    walk, taken = np.zeros(graph.adjacency.shape), np.zeros(len(edges.neighbour))
    assert len(edges.start) == graph.n_users and (edges.filled <= edges.room).all()
    for i in range(graph.n_users):
        row = slice(edges.start[i], edges.start[i] + edges.filled[i])
        taken[edges.start[i] : edges.start[i] + edges.room[i]] += 1
        assert len(set(edges.neighbour[row].tolist())) == edges.filled[i]
        walk[i, edges.neighbour[row]] = edges.weight[row] / edges.degree[i]
        for j, weight in zip(edges.neighbour[row], edges.weight[row], strict=True):
            assert graph.adjacency[i, j] == weight
    assert taken.max(initial=0) <= 1
    np.testing.assert_allclose(edges.degree, graph.positive_degrees)
    np.testing.assert_allclose(walk.sum(axis=1), (graph.degrees > 0).astype(float))


def test_full_rows_move_and_double() -> None:
    edges, live = links_of(graphs.empty(40)), LiveGraph(graphs.empty(40))
    for other in range(1, 40):
        edges = change_links(edges, [(0, other, float(other))])
        live.put(0, other, float(other))
        assert_links(edges, live.frozen())
    assert edges.room[0] == 64 and len(edges.neighbour) == 4 * 39 + 4 + 8 + 16 + 32 + 64


def test_a_longer_array_moves_only_when_its_room_is_used_up() -> None:
    rows = growable_rows([1.0, 2.0], 3)
    moves = 0
    for n in range(3, 1000):
        grown = append_rows(rows, n)
        moves += not np.shares_memory(grown, rows)
        rows = grown
    assert moves <= 8
    np.testing.assert_array_equal(rows[:4], [[1, 2]] * 3 + [[3, 3]])
    mine = np.arange(10)
    np.testing.assert_array_equal(append_rows(mine[:5], 0), [0, 1, 2, 3, 4, 0])  # what lies behind a slice is not ours
    assert mine[5] == 5


@pytest.mark.parametrize("rule", ["gauss-seidel", "section-5", "algorithm-2"])
def test_local_estimates_after_changes(rule: str) -> None:
    """Stored estimates depend on who was served when, so a fresh policy has others; statistics and edges are the same,
    and serving everybody often enough leads to the same fixed point."""
    story = [(kind, a * 37, a * 91) for a, kind in enumerate(["see", "come", "see", "join", "see", "go", "see", "weigh"] * 8)]
    make: Make = lambda g: GraphUCBLocal(g, DIM, rule=rule)  # noqa: E731
    policy, world = lived(make, story)
    other = world.fresh(make)
    np.testing.assert_array_equal(policy.state.seen.gram, other.state.seen.gram)
    np.testing.assert_allclose(policy.state.inverse, other.state.inverse, atol=1e-12)
    for _ in range(300):
        for user in range(world.n_users):
            for each in (policy, other):
                each.update(user, np.zeros(DIM), 0.0)
    np.testing.assert_allclose(policy.theta, other.theta, atol=1e-8)


def test_no_message_of_a_removed_user_is_left() -> None:
    policy = GraphUCBLocal(graphs.from_edges([(0, 1)]), DIM, rule="gauss-seidel")
    policy.update(0, ARMS[0], 5.0)
    policy.update(1, ARMS[1], 0.0)
    assert np.abs(policy.theta[1]).max() > 0.01
    policy.remove_user(0)
    np.testing.assert_array_equal(policy.theta, 0.0)


@pytest.mark.parametrize("name", [*POLICIES, *ADAPTIVE])
def test_saved_after_changes_it_continues_bit_for_bit(name: str, tmp_path: Path) -> None:
    policy, world = lived(ADAPTIVE[name] if name in ADAPTIVE else POLICIES[name][0], STORY)
    policy.save(tmp_path / "policy.npz")
    loaded = type(policy).load(tmp_path / "policy.npz")
    copies = (world, copy.deepcopy(world))
    for kind, a, b in [
        ("come", 5, 4),
        ("see", 8, 1),
        ("join", 3, 9),
        ("see", 2, 6),
        ("weigh", 3, 9),
        ("part", 3, 9),
        ("see", 3, 3),
    ]:
        for each, place in zip((policy, loaded), copies, strict=True):
            place.happen(each, kind, a, b)
    np.testing.assert_array_equal(opinions(policy), opinions(loaded))
    assert [policy.recommend(0, ARMS) for _ in range(9)] == [loaded.recommend(0, ARMS) for _ in range(9)]


GROWN: dict[str, Callable[[UserGraph, int], Policy]] = {
    "push": lambda g, d: GraphUCB(g, d, solver="push", tolerance=1e-12),
    "dense": lambda g, d: GraphUCB(g, d, solver="dense"),
    "local": lambda g, d: GraphUCBLocal(g, d),
}


@pytest.mark.compiled
@pytest.mark.parametrize("name", GROWN)
def test_a_policy_that_has_grown_passes_every_check(name: str) -> None:
    """From one user to the whole graph, user by user."""

    def grown(graph: UserGraph, dim: int) -> Policy:
        policy = GROWN[name](graphs.empty(1), dim)
        for user in range(1, graph.n_users):
            friends = [j for j in graph.neighbours(user).tolist() if j < user]
            policy.add_user([(j, float(graph.adjacency[user, j])) for j in friends])
        return policy

    check_policy(grown)


def test_simulate_sees_the_new_users() -> None:
    policy = GraphUCB(graphs.empty(5), DIM)
    policy.add_user([0, 1])
    policy.add_edge(2, 3, 0.5)
    graph = policy.graph
    world = environments.Linear(graph, signals.smooth(graph, DIM, gamma=5, seed=1), ARMS, pool=None)
    trace = simulate(policy, world, 300, seed=0)
    assert (trace.user == 5).any() and trace.regret[-1] < 300


@pytest.mark.compiled
def test_auto_goes_over_to_push_when_the_graph_grows() -> None:
    """100 users in pairs are 50 small systems; in one ring they are too many rows for the dense solver."""
    n = 100
    policy = GraphUCB(graphs.from_edges([(i, i + 1) for i in range(0, n, 2)], n_users=n), DIM, ridge=0.1, tolerance=1e-9)
    world = World(policy.graph)
    for a in range(200):
        world.happen(policy, "see", a * 7, a)
    assert isinstance(policy.state.solver, Dense)
    for i in range(1, n, 2):
        policy.add_edge(i, (i + 1) % n)
        world.weights[tuple(sorted((i, (i + 1) % n)))] = 1.0  # type: ignore[index]
    assert isinstance(policy.state.solver, Push)
    assert_alike(policy, world.fresh(lambda g: GraphUCB(g, DIM, ridge=0.1, solver="dense")), 1e-6)


@pytest.mark.parametrize("name", ADAPTIVE)
@settings(max_examples=20)
@given(story=st.lists(events, max_size=40))
def test_adaptive_models_equal_fresh_ones(name: str, story: list[tuple[str, int, int]]) -> None:
    """All that the models know of users; evidence is a record of predictions, which were made with the graph of their time."""
    policy, world = lived(ADAPTIVE[name], story)
    other = world.fresh(ADAPTIVE[name])
    mine, fresh = policy.state, other.state
    assume(policy.level == other.level)  # it is that of the first rounds, some of which may have been removed
    np.testing.assert_allclose(mine.seen.gram, fresh.seen.gram, atol=1e-9)
    k = len(mine.strength)  # with the graph, a common vector depends on what the neighbours had told when a reward came
    np.testing.assert_allclose(mine.common.mean[:k], fresh.common.mean[:k], atol=1e-8)
    np.testing.assert_allclose(mine.common.inverse, fresh.common.inverse, atol=1e-8)
    if name == "dense":
        np.testing.assert_allclose(mine.joint.theta, fresh.joint.theta, atol=1e-8)
        np.testing.assert_allclose(mine.joint.joint_inverse, fresh.joint.joint_inverse, atol=1e-8)
        return
    np.testing.assert_array_equal(mine.message[mine.seen.visits == 0], 0.0)
    assert_links(mine.links, world.graph())


def test_adaptive_local_means_tend_to_those_of_a_fresh_policy() -> None:
    """They are last estimates, so they depend on who was served when; serving everybody again and again makes them equal."""
    policy, world = lived(ADAPTIVE["local"], [*STORY, ("go", 1, 0), ("go", 5, 0)])
    other = world.fresh(ADAPTIVE["local"])
    for _ in range(200):
        for user in range(world.n_users):
            for each in (policy, other):
                each.update(user, np.zeros(DIM), 0.0)
    np.testing.assert_allclose(policy.state.message[:, :2], other.state.message[:, :2], atol=1e-6)


def test_adaptive_goes_over_to_local() -> None:
    policy = AdaptiveGraphUCB(graphs.complete(85), DIM, alphas=[1.0], slack=0.1)
    for a in range(40):
        policy.update(a, ARMS[a % 5], 1.0)
    before = policy.theta[0]
    for _ in range(3):
        policy.add_user([0, 1])
    assert not len(policy.state.joint.theta) and policy.theta.shape == (88, DIM)
    assert np.linalg.norm(policy.theta[0] - before) < 0.1
    policy.update(87, ARMS[0], 1.0)


def test_too_large_a_component_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    policy, world = lived(POLICIES["GraphUCB, dense"][0], STORY)
    before = opinions(policy), policy.graph
    monkeypatch.setattr(sys.modules[Dense.__module__], "MEMORY_LIMIT", 8)
    changes: list[Callable[[Any], object]] = [
        lambda p: p.add_edge(0, 5),
        lambda p: p.add_user([0]),
        lambda p: p.set_graph(graphs.complete(40)),
    ]
    for change in changes:
        with pytest.raises(ValueError, match="GB of memory"):
            change(policy)
        np.testing.assert_array_equal(opinions(policy), before[0])
        assert policy.n_users == world.n_users and (policy.graph.adjacency != before[1].adjacency).nnz == 0


def test_ids_of_newcomers() -> None:
    policy = LinUCB(UserGraph([[0, 1], [1, 0]], ids=["ann", "bob"]), DIM)
    assert policy.add_user([0], id="eve") == 2
    assert policy.graph.index("eve") == 2 and policy.graph.ids == ("ann", "bob", "eve")
    wrongs: list[tuple[Any, str]] = [
        (None, "id must be given"),
        ("bob", "id must be new"),
        ("eve", "id must be new"),
        ([], "id must be hash"),
    ]
    for wrong, sentence in wrongs:
        with pytest.raises(ValueError, match=sentence):
            policy.add_user(id=wrong)
    with pytest.raises(ValueError, match="id must be left out"):
        LinUCB(START, DIM).add_user(id="zoe")


WRONG: list[tuple[Callable[[Any], object], str]] = [
    (lambda p: p.add_edge(0, 0), "a user must not be its own neighbour"),
    (lambda p: p.add_edge(0, 1), "users 0 and 1 are joined already"),
    (lambda p: p.add_edge(0, 99), "user must be an integer from 0 to 5, but it is 99"),
    (lambda p: p.add_edge(0, 5, 0.0), "weight must be a positive finite number, but it is 0.0"),
    (lambda p: p.add_edge(0, 5, np.inf), "weight must be a positive finite number"),
    (lambda p: p.set_weight(0, 1, np.nan), "weight must be a positive finite number"),
    (lambda p: p.set_weight(0, 5, 1.0), "users 0 and 5 are not joined"),
    (lambda p: p.remove_edge(0, 5), "users 0 and 5 are not joined"),
    (lambda p: p.remove_user(-1), "user must be an integer from 0 to 5, but it is -1"),
    (lambda p: p.add_user([6]), "user must be an integer from 0 to 5, but it is 6"),
    (lambda p: p.add_user([0, 0]), "edges must name a user once, but 0 occurs twice"),
    (lambda p: p.add_user({0: -1.0}), "weight must be a positive finite number, but it is -1.0"),
    (lambda p: p.add_user([(0, 1.0, 2)]), "edges must be users or pairs"),
    (lambda p: p.set_graph(graphs.empty(5)), "graph must have at least the 6 users of the policy, but it has 5"),
    (lambda p: p.set_graph("friends"), "graph must be a UserGraph"),
]


@pytest.mark.parametrize("name", ["GraphUCB, dense", "GraphUCB, push", "LinUCB"])
def test_wrong_changes_are_refused_and_change_nothing(name: str) -> None:
    policy = POLICIES[name][0](START)
    policy.update(0, ARMS[0], 1.0)
    before, graph = opinions(policy), policy.graph
    for change, sentence in WRONG:
        with pytest.raises(ValueError, match=sentence):
            change(policy)
    np.testing.assert_array_equal(opinions(policy), before)
    assert policy.n_users == 6 and policy.graph is graph


WRONG_FOR_FIXED: list[tuple[Callable[[Any], object], str]] = [
    (lambda p: p.add_edge(0, 5), "follow changes of the graph"),
    (lambda p: p.set_graph(graphs.empty(6)), "follow changes of the graph"),
    (lambda p: p.add_user(), "take in or remove users"),
    (lambda p: p.remove_user(0), "take in or remove users"),
]


def test_policies_that_cannot_follow_say_so() -> None:
    with pytest.raises(ValueError, match="LinUCB cannot remove a user's data from the one model"):
        LinUCB(START, DIM, shared=True).remove_user(0)
    policy = CLUB(START, DIM)
    policy.add_edge(0, 5)
    assert policy.graph.n_edges == START.n_edges + 1
    for change in (lambda: policy.add_user(), lambda: policy.remove_user(0)):
        with pytest.raises(ValueError, match="CLUB cannot take in or remove users"):
            change()
    with pytest.raises(ValueError, match="CLUB cannot follow changes of the graph that it started from"):
        CLUB(START, DIM, start="graph").add_edge(0, 5)
    for kind in (CoLin, GobLinBlock, GobLinMacro, HordeTS, HordeEpochGreedy):
        fixed = kind(START, DIM)
        for wrong, why in WRONG_FOR_FIXED:
            with pytest.raises(ValueError, match=f"{kind.__name__} cannot {why}"):
                wrong(fixed)
        assert fixed.n_users == 6 and (fixed.graph.adjacency != START.adjacency).nnz == 0
    assert policy.n_users == 6
