"""Checks that every policy must pass: `check_policy(lambda graph, dim: MyPolicy(graph, dim))`.

They use the public interface only. `yield_checks` yields them one by one, so that a test suite can
name each of them. A check that has nothing to say about a policy raises `DoesNotApply` with the
reason, which a test suite can report as a skipped test:

    try:
        check(make_policy)
    except DoesNotApply as reason:
        pytest.skip(str(reason))
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from . import environments, graphs, signals
from .compute.arrays import Floats
from .experiments import Trace, simulate
from .graph import UserGraph

MakePolicy = Callable[[UserGraph, int], Any]
Check = Callable[[MakePolicy], None]
ROUNDS = 60


class DoesNotApply(Exception):
    """A check is not applicable to this policy; the message is the reason."""


def check_policy(make_policy: MakePolicy, *, skip: Collection[str] = ()) -> dict[str, str]:
    """Run every check on policies of `make_policy(graph, dim)`; errors name the check that failed.

    Parameters
    ----------
    make_policy : function
        Makes a fresh policy. It is called many times, also with graphs that have isolated users.
    skip : names
        Checks to leave out, e.g. "check_user_order" for a policy that starts from a random graph.

    Returns
    -------
    name → reason
        The checks that do not apply to this policy.

    Examples
    --------
    >>> from graphbandit import LinTS, LinUCB
    >>> check_policy(lambda graph, dim: LinUCB(graph, dim, ridge=0.5))
    {}
    >>> check_policy(lambda graph, dim: LinTS(graph, dim, scale=0.1))
    {'check_best_first': 'its rankings are random.'}
    """
    inapplicable = {}
    for check in yield_checks(skip=skip):
        try:
            check(make_policy)
        except DoesNotApply as reason:
            inapplicable[check.__name__] = str(reason)
        except Exception as error:
            error.add_note(f"{check.__name__}: {check.__doc__}")
            raise
    return inapplicable


def yield_checks(*, skip: Collection[str] = ()) -> Iterator[Check]:
    """Yield the checks, in order, without those named in `skip`."""
    unknown = set(skip) - {check.__name__ for check in CHECKS}
    if unknown:
        raise ValueError(f"skip must name existing checks, but these do not exist: {', '.join(sorted(unknown))}.")
    yield from (check for check in CHECKS if check.__name__ not in skip)


def check_valid_choices(make_policy: MakePolicy) -> None:
    """Check that `recommend` and `rank` return rows that exist, `rank` without repetition."""
    world = _world()
    policy = _trained(make_policy, world)
    for user in range(world.graph.n_users):
        assert 0 <= policy.recommend(user, world.arms) < len(world.arms)
        assert policy.recommend(user, world.arms[:1]) == 0
        order = policy.rank(user, world.arms, len(world.arms))
        assert sorted(order) == list(range(len(world.arms)))
        assert len(policy.rank(user, world.arms, 3)) == 3


def check_best_first(make_policy: MakePolicy) -> None:
    """Check that `rank` orders arms by mean + bonus, best first, unless choices are random draws."""
    world = _world()
    policy = _trained(make_policy, world)
    if _is_sampling(copy.deepcopy(policy), world.arms):
        raise DoesNotApply("its rankings are random.")
    for user in range(world.graph.n_users):
        order = policy.rank(user, world.arms, len(world.arms))
        assert np.all(np.diff(sum(policy.scores(user, world.arms))[order]) <= 0)


def check_scores_change_nothing(make_policy: MakePolicy) -> None:
    """Check that `scores` leaves policy and generator unchanged, and no call writes to its input."""
    world = _world()
    policy, twin = _trained(make_policy, world), _trained(make_policy, world)
    arms, x = world.arms.copy(), world.arms[0].copy()
    for user in range(world.graph.n_users):
        policy.scores(user, arms)
        assert policy.recommend(user, arms) == twin.recommend(user, arms)
    policy.update(0, x, 1.0)
    assert np.array_equal(arms, world.arms) and np.array_equal(x, world.arms[0])


def check_same_seed_same_trace(make_policy: MakePolicy) -> None:
    """Check that two equal policies act alike: they share no state."""
    world = _world()
    first, second = (simulate(make_policy(world.graph, world.dim), world, ROUNDS, seed=3) for _ in range(2))
    assert _same(first, second)


def check_loop_equals_calls(make_policy: MakePolicy) -> None:
    """Check that the simulation equals, bit for bit, calls of `recommend` and `update`."""
    world = _world()
    trace = simulate(make_policy(world.graph, world.dim), world, ROUNDS, seed=5)
    policy = make_policy(world.graph, world.dim)
    (rounds,) = world.rounds(ROUNDS, seed=5)
    for t, user in enumerate(rounds.user.tolist()):
        items = rounds.pool[t]
        offered = world.arms[items]
        choice = policy.recommend(user, offered, items=items)
        assert items[choice] == trace.arm[t], f"round {t}"
        policy.update(user, offered[choice], rounds.mean[t, choice] + rounds.noise[t], item=int(items[choice]))


def check_batch_equals_calls(make_policy: MakePolicy) -> None:
    """Check that `update_many` equals calls of `update`, bit for bit, and learns nothing if one row is bad."""
    world = _world()
    policy, twin = _trained(make_policy, world), make_policy(world.graph, world.dim)
    users, X, rewards, _ = _columns(world)
    cut = len(users) // 3
    twin.update_many(users[:cut], X[:cut], rewards[:cut])
    bad = [float("nan") if row == 5 else reward for row, reward in enumerate(rewards)]
    for name, batch in (("rewards[5]", (users, X, bad)), ("users[1]", ([0, world.graph.n_users], X[:2], rewards[:2]))):
        try:
            twin.update_many(*batch)
        except ValueError as error:
            assert str(error).startswith(name), f"the message does not begin with {name}: {error}"
        else:
            raise AssertionError(f"bad {name} was accepted")
    twin.update_many(users[cut:], X[cut:], rewards[cut:])
    assert np.array_equal(_all_scores(policy, world.arms), _all_scores(twin, world.arms))
    assert policy.recommend(0, world.arms) == twin.recommend(0, world.arms)


def check_items(make_policy: MakePolicy) -> None:
    """Check that ids of items are accepted, -1 for all equals none, and a batch with ids equals calls."""
    world = _world()
    arms, unknown, new = world.arms, np.full(len(world.arms), -1), np.arange(len(world.arms)) + 1000
    policy, twin = _trained(make_policy, world), make_policy(world.graph, world.dim)
    for user, x, reward in _history(world):
        twin.update(user, x, reward, item=-1)
    for user in range(world.graph.n_users):
        assert np.array_equal(np.stack(policy.scores(user, arms)), np.stack(twin.scores(user, arms, items=unknown)))
        assert np.array_equal(policy.propensities(user, arms), twin.propensities(user, arms, items=unknown))
        assert policy.recommend(user, arms) == twin.recommend(user, arms, items=unknown)
        assert np.array_equal(policy.rank(user, arms, 3), twin.rank(user, arms, 3, items=unknown))
        assert np.all(np.isfinite(policy.scores(user, arms, items=new)))  # without data
    policy, twin = make_policy(world.graph, world.dim), make_policy(world.graph, world.dim)
    users, X, rewards, items = _columns(world)
    for row, item in enumerate(items):
        policy.update(users[row], X[row], rewards[row], item=item)
    twin.update_many(users, X, rewards, items=items)
    for user in range(world.graph.n_users):
        assert all(map(np.array_equal, *(p.scores(user, arms, items=np.arange(len(arms))) for p in (policy, twin))))
    policy.remove_item(0)
    policy.remove_item(1000)


def check_continues_after_load(make_policy: MakePolicy) -> None:
    """Check that a saved and loaded policy continues, bit for bit, like the original."""
    world = _world()
    policy = _trained(make_policy, world)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "policy.npz"
        policy.save(path)
        loaded = type(policy).load(path)
    assert np.array_equal(loaded.theta, policy.theta)
    ahead, resumed = (simulate(p, world, ROUNDS, seed=8) for p in (policy, loaded))
    assert _same(ahead, resumed)
    assert np.array_equal(_all_scores(policy, world.arms), _all_scores(loaded, world.arms))


def check_arm_order(make_policy: MakePolicy) -> None:
    """Check that reordering the arms reorders the scores and nothing else."""
    world = _world()
    policy = _trained(make_policy, world)
    order = np.random.default_rng(1).permutation(len(world.arms))
    for user in range(world.graph.n_users):
        scores, reordered = policy.scores(user, world.arms), policy.scores(user, world.arms[order])
        assert np.array_equal(scores.mean[order], reordered.mean) and np.array_equal(scores.bonus[order], reordered.bonus)


def check_user_order(make_policy: MakePolicy) -> None:
    """Check that renumbering the users, in graph and data alike, renumbers the results."""
    world = _world()
    n = world.graph.n_users
    order = np.random.default_rng(2).permutation(n)  # renumbered user u is the former user order[u]
    renumbered = UserGraph(world.graph.adjacency[order][:, order])
    policy, other = make_policy(world.graph, world.dim), make_policy(renumbered, world.dim)
    place = np.argsort(order)
    for user, x, reward in _history(world):
        policy.update(user, x, reward)
        other.update(int(place[user]), x, reward)
    assert np.allclose(_all_scores(policy, world.arms)[order], _all_scores(other, world.arms), rtol=1e-7, atol=1e-9)


def check_bounded_memory(make_policy: MakePolicy) -> None:
    """Check that a policy is no larger on disk after more rounds."""
    world = _world()
    policy = make_policy(world.graph, world.dim)
    sizes = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(2):
            simulate(policy, world, 4 * ROUNDS, seed=seed)
            policy.save(Path(folder) / "policy.npz")
            sizes.append((Path(folder) / "policy.npz").stat().st_size)
    assert abs(sizes[1] - sizes[0]) < 512, f"{sizes[0]} bytes, then {sizes[1]}"


def check_errors(make_policy: MakePolicy) -> None:
    """Check that bad input raises a ValueError that names the argument and leaves the policy unchanged."""
    world = _world()
    policy, twin = _trained(make_policy, world), _trained(make_policy, world)
    n, d, arms = world.graph.n_users, world.dim, world.arms
    bad = arms.copy()
    bad[1, 0] = np.nan
    wrong: list[tuple[str, Callable[[], Any]]] = [
        ("user", lambda: policy.recommend(n, arms)),
        ("user", lambda: policy.recommend(-1, arms)),
        ("user", lambda: policy.scores("ann", arms)),
        ("user", lambda: policy.update(1.5, arms[0], 1.0)),
        ("arms", lambda: policy.recommend(0, np.empty((0, d)))),
        ("arms", lambda: policy.recommend(0, np.ones((3, d + 1)))),
        ("arms", lambda: policy.rank(0, np.ones(d + 1), 1)),
        ("arms", lambda: policy.recommend(0, bad)),
        ("k", lambda: policy.rank(0, arms, 0)),
        ("k", lambda: policy.rank(0, arms, len(arms) + 1)),
        ("items", lambda: policy.recommend(0, arms, items=[0])),
        ("items", lambda: policy.scores(0, arms, items=np.arange(len(arms)) - 2)),
        ("items", lambda: policy.rank(0, arms, 1, items=np.ones(len(arms)))),
        ("item", lambda: policy.update(0, arms[0], 1.0, item=-2)),
        ("item", lambda: policy.update(0, arms[0], 1.0, item=1.5)),
        ("item", lambda: policy.update(0, arms[0], 1.0, item=10**9)),
        ("x", lambda: policy.update(0, np.ones(d + 1), 1.0)),
        ("x", lambda: policy.update(0, np.full(d, np.inf), 1.0)),
        ("x", lambda: policy.update(0, np.full(d, 1e200), 1.0)),
        ("reward", lambda: policy.update(0, arms[0], float("nan"))),
        ("reward", lambda: policy.update(0, arms[0], float("inf"))),
        ("reward", lambda: policy.update(0, arms[0], "good")),
    ]
    for name, call in wrong:
        try:
            call()
        except ValueError as error:
            assert str(error).startswith(name), f"the message does not begin with {name}: {error}"
        else:
            raise AssertionError(f"bad {name} was accepted")
    assert np.array_equal(_all_scores(policy, arms), _all_scores(twin, arms))
    assert [policy.recommend(0, arms) for _ in range(5)] == [twin.recommend(0, arms) for _ in range(5)]


def check_odd_input(make_policy: MakePolicy) -> None:
    """Check that scores stay finite with zero, huge and tiny features, one feature, one or isolated users."""
    for graph, dim in ((graphs.empty(1), 1), (graphs.empty(3), 2), (graphs.from_edges([(0, 1), (1, 2)], n_users=5), 3)):
        policy = make_policy(graph, dim)
        for scale in (0.0, 1e-8, 1.0, 1e4, 1e6, 1.0):
            for user in range(graph.n_users):
                x = scale * np.linspace(0.5, 1.0, dim)
                policy.update(user, x, scale)
                policy.update(user, x.tolist(), 1)  # anything array-like
                scores = policy.scores(user, np.vstack([x, np.eye(dim)]))
                assert np.all(np.isfinite(scores.mean)) and np.all(np.isfinite(scores.bonus))
                assert np.all(scores.bonus >= 0)


def check_ties_are_random(make_policy: MakePolicy) -> None:
    """Check that each of several equal arms is chosen at some time."""
    policy = make_policy(graphs.empty(2), 2)
    chosen = {policy.recommend(0, np.ones((3, 2))) for _ in range(100)}
    assert chosen == {0, 1, 2}


def check_beats_random(make_policy: MakePolicy) -> None:
    """Check that the policy has clearly less regret than random choices in an easy environment."""
    world = _world(gamma=20.0, sigma=0.01)
    horizon = 1500
    trace = simulate(make_policy(world.graph, world.dim), world, horizon, seed=0)
    by_chance = sum(float((r.mean.max(axis=1) - r.mean.mean(axis=1)).sum()) for r in world.rounds(horizon, seed=0))
    assert trace.regret[-1] < 0.7 * by_chance, f"regret {trace.regret[-1]:.0f}, at random {by_chance:.0f}"


CHECKS: tuple[Check, ...] = (
    check_valid_choices,
    check_best_first,
    check_scores_change_nothing,
    check_same_seed_same_trace,
    check_loop_equals_calls,
    check_batch_equals_calls,
    check_items,
    check_continues_after_load,
    check_arm_order,
    check_user_order,
    check_bounded_memory,
    check_errors,
    check_odd_input,
    check_ties_are_random,
    check_beats_random,
)


def _world(gamma: float = 5.0, sigma: float = 0.1) -> environments.Linear:
    """Return an environment of eight users, one of them isolated, so that no policy can assume a connected graph."""
    graph = graphs.from_edges([(0, 1), (1, 2), (2, 0), (2, 3), (4, 5), (5, 6)], n_users=8)
    theta = signals.smooth(graph, 3, gamma=gamma, seed=4)
    return environments.Linear(graph, theta, signals.unit_arms(12, 3, seed=5), sigma=sigma, pool=6)


def _columns(world: environments.Linear) -> tuple[list[int], Floats, list[float], list[int]]:
    """Return users, features, rewards and items of observations that no policy has chosen."""
    (rounds,) = world.rounds(ROUNDS, seed=6)
    items = rounds.pool[:, 0]
    return rounds.user.tolist(), world.arms[items], (rounds.mean[:, 0] + rounds.noise).tolist(), items.tolist()


def _history(world: environments.Linear) -> list[tuple[int, Floats, float]]:
    """Return the same observations row by row, without items."""
    return list(zip(*_columns(world)[:3], strict=True))


def _trained(make_policy: MakePolicy, world: environments.Linear) -> Any:
    policy = make_policy(world.graph, world.dim)
    for user, x, reward in _history(world):
        policy.update(user, x, reward)
    return policy


def _same(first: Trace, second: Trace) -> bool:
    columns: Any = zip(first, second, strict=True)
    return all(np.array_equal(a, b) for a, b in columns)


def _all_scores(policy: Any, arms: Floats) -> Floats:
    """Return the (n_users, 2, n_arms) mean and bonus of every arm for every user."""
    return np.array([np.stack(policy.scores(user, arms)) for user in range(policy.graph.n_users)])


def _is_sampling(policy: Any, arms: Floats) -> bool:
    """Return whether rankings are random draws, as in Thompson sampling: two of the same arms differ."""
    for user in range(policy.graph.n_users):
        values = sum(policy.scores(user, arms))
        ranked = {tuple(values[policy.rank(user, arms, len(arms))]) for _ in range(20)}
        if len(ranked) > 1:
            return True
    return False
