"""`decide_many` says what `scores`, `rank` and `propensities` say, for all users at once, and changes nothing."""

from __future__ import annotations

import numpy as np
import pytest

from graphbandit import POLICIES, LinUCB, Policy, Stochastic, graphs
from graphbandit.policies.core import kernels
from graphbandit.policies.core.kernels import Requests

N, DIM = 6, 3
NAMES = ("linucb", "graphucb", "club", "lints", "horde-ts", "random")


def trained(name: str) -> Policy:
    graph = graphs.erdos_renyi(N, 0.5, seed=0)
    kind: type = POLICIES[name.removeprefix("stochastic ")]
    made: Policy = kind(graph, DIM, seed=0)
    policy = Stochastic(made, epsilon=0.2) if name.startswith("stochastic") else made
    rng = np.random.default_rng(1)
    policy.update_many(rng.integers(N, size=40), rng.standard_normal((40, DIM)), rng.standard_normal(40))
    return policy


@pytest.mark.parametrize("name", [*NAMES, "stochastic linucb"])
def test_it_agrees_with_one_user_at_a_time(name: str) -> None:
    policy = trained(name)
    before = [array.tobytes() for array in policy.pack()[1].values()], str(policy.rng.bit_generator.state)
    rng = np.random.default_rng(2)
    table = rng.standard_normal((9, DIM))
    sizes = [1, 4, 9, 5]
    rows = np.concatenate([rng.choice(9, size, replace=False) for size in sizes])
    start, places, users = np.array([0, 1, 5, 14, 19]), np.array([1, 4, 3, 2]), np.array([0, 5, 2, 2])
    ranked = policy.decide_many(Requests(users, table, rows, start, places), np.random.default_rng(3))
    for i, user in enumerate(users.tolist()):
        own = slice(start[i], start[i + 1])
        arms, order = table[rows[own]], ranked.order[own][: places[i]]
        mean, bonus = policy.scores(user, arms)
        assert np.array_equal(ranked.mean[own], mean) and np.array_equal(ranked.bonus[own], bonus)
        assert len(set(order.tolist())) == places[i]
        chance = policy.propensities(user, arms)[order[0]]
        assert ranked.propensity[i] == pytest.approx(chance, abs=0.1 if policy.is_sampling else 1e-12)
        if policy.is_optimistic:
            assert np.array_equal((mean + bonus)[order], np.sort(mean + bonus)[::-1][: places[i]])
    assert ([array.tobytes() for array in policy.pack()[1].values()], str(policy.rng.bit_generator.state)) == before


def test_ties_are_broken_by_luck_in_equal_parts() -> None:
    policy, one = LinUCB(graphs.empty(1), 2), np.ones(1, dtype=np.int64)
    table, draws = np.array([[1.0, 0.0], [0.0, 1.0], [0.1, 0.0], [1.0, 0.0]]), np.random.default_rng(0)
    firsts = []
    for _ in range(900):
        ranked = policy.decide_many(Requests(0 * one, table, np.arange(4), np.array([0, 4]), 4 * one), draws)
        assert ranked.propensity.tolist() == [1 / 3] and ranked.order[3] == 2
        firsts.append(int(ranked.order[0]))
    assert np.bincount(firsts, minlength=4)[[0, 1, 3]] == pytest.approx(300, abs=60)


def test_best_first_uses_every_place() -> None:
    order = np.zeros(3, dtype=np.int64)
    assert kernels.best_first(np.array([1.0, 2.0, 1.0]), np.array([0.1, 0.2, 0.3]), 3, order) == 1.0
    assert order.tolist() == [1, 2, 0]
