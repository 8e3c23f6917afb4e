"""Users nobody has seen: served from what everybody likes, without more curiosity than known users are."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from graphbandit import CLUB, GobLinMacro, LinUCB, Random, graphs
from graphbandit.recommending.unknown_users import PRIOR, UnknownUsers

ARMS, IDS = np.ones((3, 1)), np.array([0, 1, 2])


def experienced(exploration: float) -> LinUCB:
    """Return a policy that has learned of two items, one of them good; a third was never shown."""
    policy = LinUCB(graphs.empty(5), 1, item_effects=True, exploration=exploration, radius="constant")
    rng = np.random.default_rng(0)
    for user in rng.integers(5, size=2000).tolist():
        item = int(rng.integers(2))
        policy.update(user, [1.0], float(item == 0) + 0.3 * rng.standard_normal(), item=item)
    return policy


def test_a_newcomer_is_shown_what_everybody_likes_not_what_was_shown_least() -> None:
    policy, unknown = experienced(1.0), UnknownUsers()
    mean, bonus = unknown.scores(policy, "zoe", ARMS, IDS)
    assert mean[0] > mean[2] > mean[1] and bonus[2] > bonus[0]
    assert np.argmax(mean + bonus) == 0
    effects = policy.effects_of(IDS)
    assert bonus[2] < 0.5 * effects.deviation[2]  # as cautious as decisions for known users


def test_without_exploration_a_newcomer_is_not_explored_with_either() -> None:
    assert UnknownUsers().scores(experienced(0.0), "zoe", ARMS, IDS).bonus == pytest.approx(np.zeros(3))


def test_the_rewards_of_those_alike_move_the_average_user() -> None:
    policy, unknown = LinUCB(graphs.empty(3), 2), UnknownUsers()
    rng = np.random.default_rng(0)
    users, x = rng.integers(3, size=300), rng.standard_normal((300, 2))
    rewards = np.where(users == 2, -x[:, 0], x[:, 1])
    policy.update_many(users, x, rewards)
    unknown.near = lambda name: {0: 1.0, 1: 0.5} if name == "zoe" else {}
    average, w = unknown.average(policy).theta, np.array([1.0, 0.5, 0.0])[users]
    taste = unknown.scores(policy, "zoe", np.eye(2), np.full(2, -1)).mean
    moved = np.linalg.solve((x.T * w) @ x + PRIOR * np.eye(2), (x.T * w) @ (rewards - x @ average))
    assert taste == pytest.approx(average + moved)
    assert abs(taste[0]) < abs(average[0]) and taste[1] > average[1]
    assert unknown.scores(policy, "somebody", np.eye(2), np.full(2, -1)).mean == pytest.approx(average)


def test_those_alike_without_rewards_change_nothing() -> None:
    policy, unknown = LinUCB(graphs.empty(3), 2), UnknownUsers()
    policy.update(0, [1.0, 0.0], 1.0)
    unknown.near = lambda name: {1: 1.0, 2: 0.9}
    assert unknown.scores(policy, "zoe", np.eye(2), np.full(2, -1)).mean == pytest.approx(unknown.average(policy).theta)


@pytest.mark.parametrize("make", [GobLinMacro, partial(LinUCB, shared=True), CLUB, Random])
def test_where_users_have_no_statistics_of_their_own_their_estimates_count(make: Any) -> None:
    policy, unknown = make(graphs.complete(6), 2), UnknownUsers()
    for user in range(6):
        policy.update(user, [1.0, 0.0], 1.0)
    unknown.near = lambda name: {4: 1.0, 5: 1.0}
    taste = unknown.scores(policy, "zoe", np.eye(2), np.full(2, -1)).mean
    assert taste == pytest.approx(policy.estimates(np.array([4, 5])).mean(axis=0))
