"""All solvers against a direct solve, the invariants of the push, and the push against conjugate gradients at 2,000 users."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from graph_zoo import GRAPHS
from graphbandit import GraphUCB, UserGraph, graphs
from graphbandit.compute.observations import Observations, no_observations, record
from graphbandit.solvers.cg import CG, cg, solve
from graphbandit.solvers.dense import rebuild
from graphbandit.solvers.push import Push, balance
from graphbandit.solvers.selection import graphucb_prior, laplacian_solver, observe
from oracles import History, block_diagonal, laplacian_estimate, observations, random_history, random_walk


def fed(policy: GraphUCB, history: History) -> GraphUCB:
    for user, x, reward in history:
        policy.update(user, x, reward)
    return policy


def exact(graph: UserGraph, dim: int, history: History, alpha: float, ridge: float) -> np.ndarray:
    return laplacian_estimate(graph, *observations(history, graph.n_users, dim), alpha, ridge)


@pytest.mark.compiled
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize(("dim", "alpha", "ridge"), [(1, 1.0, 0.01), (5, 1e-3, 0.01), (5, 10.0, 0.1), (25, 0.3, 1.0)])
def test_dense_equals_a_direct_solve(name: str, dim: int, alpha: float, ridge: float) -> None:
    graph = GRAPHS[name]
    history = random_history(graph.n_users, dim, 3000 if dim < 25 else 1200, seed=7)
    policy = fed(GraphUCB(graph, dim, alpha=alpha, ridge=ridge, solver="dense"), history)
    np.testing.assert_allclose(policy.theta, exact(graph, dim, history, alpha, ridge), atol=1e-8)


@pytest.mark.compiled
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize(("dim", "alpha", "ridge"), [(1, 1.0, 0.01), (5, 1e-3, 0.01), (5, 10.0, 0.1), (25, 0.3, 1.0)])
@pytest.mark.parametrize("tolerance", [1e-3, 1e-9])
def test_push_holds_its_tolerance(name: str, dim: int, alpha: float, ridge: float, tolerance: float) -> None:
    graph = GRAPHS[name]
    history = random_history(graph.n_users, dim, 2000 if dim < 25 else 600, seed=8)
    policy = fed(GraphUCB(graph, dim, alpha=alpha, ridge=ridge, solver="push", tolerance=tolerance), history)
    truth = exact(graph, dim, history, alpha, ridge)
    error = np.linalg.norm(policy.theta - truth, axis=1).max()
    assert error <= tolerance * error_scale(policy) / ridge
    if tolerance == 1e-9:  # what is measured is far below the bound
        assert error <= 1e-8


def error_scale(policy: GraphUCB) -> float:
    """Return s, to which the tolerance is relative."""
    return float(policy.state.solver.scale[0])


def residual(policy: GraphUCB, history: History, alpha: float, ridge: float) -> np.ndarray:
    """Compute b - M θ from scratch."""
    graph, theta = policy.graph, policy.theta
    gram, bias = observations(history, graph.n_users, policy.dim)
    own = np.einsum("nij,nj->ni", gram, theta) + ridge * theta
    return np.asarray(bias - own - alpha * random_walk(graph) @ theta)


@given(st.sampled_from(sorted(GRAPHS)), st.integers(1, 6), st.floats(1e-3, 10), st.floats(0.01, 2), st.integers(0, 10**6))
def test_push_invariant_for_any_order_of_arrivals(name: str, dim: int, alpha: float, ridge: float, seed: int) -> None:
    graph = GRAPHS[name]
    history = random_history(graph.n_users, dim, 60, seed)
    policy = fed(GraphUCB(graph, dim, alpha=alpha, ridge=ridge, solver="push", tolerance=1e-4), history)
    truth = residual(policy, history, alpha, ridge)
    kept = policy.state.solver.residual
    np.testing.assert_allclose(kept, truth, atol=1e-10)
    assert np.linalg.norm(kept, axis=1).max() <= 1e-4 * error_scale(policy)
    assert not policy.state.solver.waiting.any()  # nobody is left in the queue
    shuffled = [history[k] for k in np.random.default_rng(seed).permutation(len(history))]
    other = fed(GraphUCB(graph, dim, alpha=alpha, ridge=ridge, solver="push", tolerance=1e-4), shuffled)
    gap = np.linalg.norm(other.theta - policy.theta, axis=1).max()
    assert gap <= 1e-4 * (error_scale(policy) + error_scale(other)) / ridge


def test_the_scale_follows_the_mean_prediction_error() -> None:
    """At most twice the mean of |y - xᵀθ| ‖x‖, at least the mean: errors of 1,000, then of 1, then of 1,000 again."""
    graph, total = GRAPHS["er"], 0.0
    policy = GraphUCB(graph, 2, ridge=0.1, solver="push")
    history: History = []
    for t, (user, x, reward) in enumerate(random_history(graph.n_users, 2, 600, seed=4)):
        history.append((user, 3.0 * x, reward * (1.0 if 20 < t < 400 else 1000.0)))
        user, x, reward = history[-1]
        total += abs(reward - x @ policy.theta[user]) * np.linalg.norm(x)
        policy.update(user, x, reward)
        assert 1 - 1e-9 <= error_scale(policy) / (total / (t + 1)) <= 2 + 1e-9
        sizes = np.linalg.norm(residual(policy, history, 1.0, 0.1), axis=1)  # of all users, always
        assert sizes.max() <= 0.01 * error_scale(policy) + 1e-9 * t


def shared_history(graph: UserGraph, dim: int, rounds: int, seed: int) -> History:
    """Return observations of users whose vectors are one common vector plus an individual part of the same size."""
    rng = np.random.default_rng(seed)
    truth = rng.standard_normal(dim) + rng.standard_normal((graph.n_users, dim))
    users, x = rng.integers(graph.n_users, size=rounds), rng.standard_normal((rounds, dim))
    return [(int(i), row, float(row @ truth[i] + 0.1 * rng.standard_normal())) for i, row in zip(users, x, strict=True)]


@pytest.mark.parametrize("alpha", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("rounds", [3, 60, 600])
def test_the_bound_at_the_defaults_and_how_far_below_it_errors_are(alpha: float, rounds: int) -> None:
    """The promise of the docstring is tolerance · s / ridge = s. Errors are below a tenth, or a third where alpha is small."""
    for seed in range(2):
        users = graphs.barabasi_albert(60, 3, seed=seed) if seed else graphs.watts_strogatz(60, 6, 0.1, seed=seed)
        for history in (random_history(60, 3, rounds, seed), shared_history(users, 3, rounds, seed)):
            policy = fed(GraphUCB(users, 3, alpha=alpha, solver="push"), history)
            error = np.linalg.norm(policy.theta - exact(users, 3, history, alpha, 0.01), axis=1).max()
            assert error <= error_scale(policy)
            assert error <= {0.1: 0.3, 1.0: 0.1, 10.0: 0.1}[alpha] * error_scale(policy)


def test_what_all_users_share_is_learned_without_pushing_it_to_everybody() -> None:
    """With alpha / ridge = 1,000: without `balance` it takes 173,250 pushes."""
    graph = graphs.watts_strogatz(200, 6, 0.1, seed=1)
    history = shared_history(graph, 3, 100, seed=2)
    policy = fed(GraphUCB(graph, 3, alpha=10.0, solver="push"), history)
    assert policy.state.solver.work[0] < 30_000
    truth = exact(graph, 3, history, 10.0, 0.01)
    assert np.linalg.norm(policy.theta - truth) <= 0.02 * np.linalg.norm(truth)


def test_balance_leaves_no_mean_residual_and_isolated_users_alone() -> None:
    graph = graphs.from_edges([(0, 1), (1, 2), (3, 4)], n_users=6, weights=[1.0, 0.5, 2.0])
    policy = GraphUCB(graph, 2, alpha=2.0, ridge=0.1, solver="push")
    state, history = policy.state, random_history(6, 2, 20, seed=1)
    for user, x, reward in history:
        record(state.seen, user, x, reward)
    state.solver.residual[:] = state.seen.bias  # of θ = 0
    state.solver.scale[0] = 1.0
    assert balance(state.solver, state.links, state.seen)
    moved = policy.theta
    assert (moved[:5] == moved[0]).all() and (moved[5] == 0.0).all() and moved[0].any()
    np.testing.assert_allclose(state.solver.residual, residual(policy, history, 2.0, 0.1), atol=1e-12)
    np.testing.assert_allclose(graph.positive_degrees[:5] @ state.solver.residual[:5], 0.0, atol=1e-12)
    assert not balance(state.solver, state.links, state.seen)


@pytest.mark.parametrize("exponent", [-6, -4, -2, 2, 6])
def test_push_does_not_depend_on_the_scale_of_rewards(exponent: int) -> None:
    """Rewards and noise times c give the estimate times c, and the same choices."""
    graph, dim, c = graphs.watts_strogatz(30, 4, 0.1, seed=1), 3, 10.0**exponent
    one, other = (GraphUCB(graph, dim, sigma=0.01 * by, solver="push") for by in (1.0, c))
    rng, history = np.random.default_rng(2), random_history(30, dim, 150, seed=3)
    for user, _, reward in history:
        arms = rng.standard_normal((5, dim))
        arm = one.recommend(user, arms)
        assert other.recommend(user, arms) == arm
        one.update(user, arms[arm], reward)
        other.update(user, arms[arm], c * reward)
    np.testing.assert_allclose(other.theta / c, one.theta, rtol=1e-6, atol=1e-9)
    assert np.abs(one.theta).max() > 0.1


@pytest.mark.parametrize("by", [1e-3, 1e-2, 1e2])
def test_push_does_not_depend_on_the_scale_of_features(by: float) -> None:
    """Features times `by`, with ridge and alpha times by², give the estimate divided by `by`."""
    graph = graphs.watts_strogatz(30, 4, 0.1, seed=1)
    history = random_history(30, 3, 150, seed=3)
    one = fed(GraphUCB(graph, 3, solver="push"), history)
    other = fed(GraphUCB(graph, 3, alpha=by**2, ridge=0.01 * by**2, solver="push"), [(i, by * x, y) for i, x, y in history])
    np.testing.assert_allclose(by * other.theta, one.theta, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("rewards", "features"), [(1e-4, 1.0), (1e-2, 1.0), (1.0, 0.01), (1e5, 1.0)])
def test_push_is_near_a_direct_solve_at_any_scale(rewards: float, features: float) -> None:
    graph = graphs.watts_strogatz(30, 4, 0.1, seed=1)
    history = [(i, features * x, rewards * y) for i, x, y in random_history(30, 3, 300, seed=5)]
    truth = exact(graph, 3, history, 1.0, 0.01)
    found = fed(GraphUCB(graph, 3, solver="push"), history).theta
    assert np.linalg.norm(found - truth) <= 0.01 * np.linalg.norm(truth)


def test_the_queue_never_exceeds_the_number_of_users() -> None:
    """The ring buffer has n places and an entry is written only for a user that is not in it: no place can overflow.

    With everybody adjacent and a hair's breadth of tolerance, every push wakes everybody else; the buffer wraps constantly.
    """
    graph = graphs.complete(6)
    history = random_history(6, 2, 200, seed=1)
    policy = fed(GraphUCB(graph, 2, alpha=5.0, ridge=0.05, solver="push", tolerance=1e-12), history)
    assert len(policy.state.solver.queue) == 6
    assert policy.state.solver.work[0] > 50 * len(history)
    np.testing.assert_allclose(policy.theta, exact(graph, 2, history, 5.0, 0.05), atol=1e-9)


@pytest.mark.compiled
def test_solvers_agree_and_auto_chooses_by_size() -> None:
    graph = graphs.erdos_renyi(30, 0.2, seed=3)
    history = random_history(30, 4, 1000, seed=3)
    dense, push = (fed(GraphUCB(graph, 4, solver=s, tolerance=1e-10), history) for s in ("dense", "push"))
    np.testing.assert_allclose(dense.theta, push.theta, atol=1e-7)
    arms = np.random.default_rng(0).standard_normal((5, 4))
    np.testing.assert_allclose(dense.scores(3, arms), push.scores(3, arms), atol=1e-7)
    small = laplacian_solver(graph, 4, alpha=1.0, ridge=0.1, solver="auto", tolerance=1e-3)
    large = laplacian_solver(graphs.watts_strogatz(500, 4, 0.1), 4, alpha=1.0, ridge=0.1, solver="auto", tolerance=1e-3)
    assert not isinstance(small, Push) and isinstance(large, Push)


def test_many_components_stay_small() -> None:
    """A thousand isolated users cost a thousand small ridge regressions, not one of a thousand times the size."""
    lonely = laplacian_solver(graphs.empty(1000), 3, alpha=1.0, ridge=0.1, solver="auto", tolerance=1e-3)
    assert not isinstance(lonely, Push)
    assert lonely.joint_inverse.size == 9000
    np.testing.assert_allclose(lonely.joint_inverse.reshape(1000, 3, 3), np.tile(np.eye(3) / 1.1, (1000, 1, 1)))


@pytest.mark.compiled
def test_dense_rebuild_keeps_the_inverse_right() -> None:
    graph = GRAPHS["path"]
    history = random_history(graph.n_users, 2, 20_000, seed=11)
    policy = fed(GraphUCB(graph, 2, alpha=0.5, ridge=0.02, solver="dense"), history)
    gram, _ = observations(history, graph.n_users, 2)
    root = np.sqrt(graph.positive_degrees)
    system = np.kron(root[:, None] * random_walk(graph) / root, np.eye(2)) * 0.5 + 0.02 * np.eye(16)
    for i in range(8):
        system[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] += gram[i]
    np.testing.assert_allclose(policy.state.solver.joint_inverse.reshape(16, 16), np.linalg.inv(system), atol=1e-10)


@pytest.mark.parametrize(("alpha", "ridge"), [(1e6, 0.01), (1e8, 1.0), (1e4, 1e-8), (1.0, 1e-10)])
@pytest.mark.parametrize("length", [3, 30])
def test_dense_rebuild_with_a_strong_graph(alpha: float, ridge: float, length: int) -> None:
    """With alpha ≫ ridge the last pivots of a component are about ridge, far below its diagonal: they are no rounding."""
    graph = GRAPHS["er"]
    history = random_history(graph.n_users, 3, length, seed=1)
    policy = fed(GraphUCB(graph, 3, alpha=alpha, ridge=ridge, solver="dense"), history)
    for c in range(len(policy.state.solver.offset)):
        rebuild(policy.state.solver, policy.state.seen, c)
    truth = exact(graph, 3, history, alpha, ridge)
    assert np.linalg.norm(policy.theta - truth) <= 1e-6 * np.linalg.norm(truth)


def test_dense_rebuild_with_features_of_very_different_sizes() -> None:
    """Features of 1e6 of one user are no reason to call the pivots of others rounding; nothing becomes NaN."""
    graph = graphs.from_edges([(0, 1), (1, 2)])
    history = [(0, np.array([1e6, 1.0]), 1.0), (0, np.array([1e6, 0.0]), 2.0), *random_history(1, 2, 2, seed=2)]
    policy = fed(GraphUCB(graph, 2, alpha=1e-4, ridge=1e-5, solver="dense"), history)
    rebuild(policy.state.solver, policy.state.seen, 0)
    gram, bias = observations(history, 3, 2)
    scaled = [m * np.outer(s, s) for m, s in zip(gram, ([1e-6, 1.0], [1.0, 1.0], [1.0, 1.0]), strict=True)]
    by = np.array([1e-6, 1.0, 1.0, 1.0, 1.0, 1.0])  # the same system in units in which it is well conditioned
    prior = np.kron(1e-4 * random_walk(graph) + 1e-5 * np.eye(3), np.eye(2))
    system = block_diagonal(np.array(scaled)) + by[:, None] * prior * by
    truth = by * np.linalg.solve(system, by * bias.ravel())
    np.testing.assert_allclose(policy.theta.ravel(), truth, rtol=1e-5, atol=1e-12)


def test_too_large_for_dense() -> None:
    with pytest.raises(ValueError, match=r"needs 80 GB of memory; .*solver='push'"):
        GraphUCB(graphs.watts_strogatz(10_000, 4, 0.1), 10, solver="dense")
    with pytest.raises(ValueError, match="solver must be one of auto, dense, push, but it is 'magic'"):
        GraphUCB(GRAPHS["er"], 2, solver="magic")  # type: ignore[arg-type]


def fed_cg(prior: Any, dim: int, history: History) -> tuple[CG, Observations]:
    """Return the solver and its observations after a history, one at a time."""
    solver, seen = cg(prior, dim), no_observations(prior.shape[0], dim)
    for user, x, reward in history:
        record(seen, user, x, reward)
        observe(solver, seen, user, x, reward)
    return solver, seen


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize(("alpha", "ridge"), [(1.0, 0.01), (1e-3, 0.01), (10.0, 1.0)])
def test_conjugate_gradients_equal_a_direct_solve(name: str, alpha: float, ridge: float) -> None:
    graph, dim = GRAPHS[name], 3
    prior, _ = graphucb_prior(graph, alpha=alpha, ridge=ridge)
    solver, seen = fed_cg(prior, dim, random_history(graph.n_users, dim, 8 * graph.n_users, seed=12))
    system = block_diagonal(seen.gram) + np.kron(prior.toarray(), np.eye(dim))
    rhs = np.random.default_rng(13).standard_normal(seen.bias.shape)
    truth = np.linalg.solve(system, rhs.ravel()).reshape(rhs.shape)
    z = np.zeros_like(rhs)
    iterations = solve(solver, seen, rhs, z, 1e-11)
    assert 0 < iterations <= 2 * rhs.size
    np.testing.assert_allclose(z, truth, atol=1e-8)
    assert solve(solver, seen, rhs, z, 1e-9) == 0  # a warm start has nothing to do
    assert solve(solver, seen, np.zeros_like(rhs), np.zeros_like(rhs), 1e-8) == 0


@pytest.mark.compiled
def test_the_preconditioner_makes_the_data_harmless() -> None:
    """Iterations do not grow with the amount of data, nor with how unequally users are observed."""
    graph, dim = graphs.watts_strogatz(200, 6, 0.1, seed=1), 4
    prior = sparse.csr_array(sparse.eye_array(200) + graph.laplacian("combinatorial"))
    rhs = np.random.default_rng(0).standard_normal((200, dim))
    counts = []
    for length in (0, 3000):
        solver, seen = fed_cg(prior, dim, random_history(20, dim, length, seed=2))  # users 20 to 199 are never seen
        z = np.zeros_like(rhs)
        counts.append(solve(solver, seen, rhs, z, 1e-8))
        assert solve(solver, seen, 1.001 * rhs, z, 1e-8) < 0.7 * counts[-1]  # a warm start
    assert max(counts) <= 0.5 * np.sqrt(2 * (1 + graph.degrees.max())) * np.log(2e8) + 1
    assert counts[1] <= 1.3 * counts[0]


def test_as_many_iterations_as_distinct_eigenvalues() -> None:
    """Conjugate directions solve a system with two eigenvalues, I + L of a complete graph, in two steps."""
    prior = sparse.csr_array(sparse.eye_array(10) + graphs.complete(10).laplacian("combinatorial"))
    rhs = np.random.default_rng(3).standard_normal((10, 2))
    solver, seen = fed_cg(prior, 2, [])
    assert solve(solver, seen, rhs, np.zeros_like(rhs), 1e-10) == 2


@pytest.mark.compiled
@pytest.mark.parametrize("alpha", [0.1, 1.0])
def test_push_equals_conjugate_gradients_for_many_users(alpha: float) -> None:
    """600 users × 5 features, on a graph of unequal degrees."""
    graph, dim, ridge = graphs.barabasi_albert(600, 4, seed=5), 5, 0.05
    history = random_history(graph.n_users, dim, 1_200, seed=6)
    prior, scale = graphucb_prior(graph, alpha=alpha, ridge=ridge)
    solver, seen = fed_cg(prior, dim, history)
    solve(solver, seen, scale[:, None] * seen.bias, solver.theta, 1e-12)
    truth = solver.theta / scale[:, None]
    for tolerance in (1e-3, 1e-10):
        policy = fed(GraphUCB(graph, dim, alpha=alpha, ridge=ridge, solver="push", tolerance=tolerance), history)
        error = np.linalg.norm(policy.theta - truth, axis=1).max()
        assert error <= max(tolerance * error_scale(policy) / ridge, 1e-8)
