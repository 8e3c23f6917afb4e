"""Users nobody has seen: served from what everybody likes, without more curiosity than known users are."""

from __future__ import annotations

import numpy as np
import pytest

from graphbandit import LinUCB, graphs
from graphbandit.recommending.unknown_users import UnknownUsers

ARMS, IDS = np.ones((3, 1)), np.array([0, 1, 2])


def experienced(exploration: float) -> LinUCB:
    """A policy that has learned of two items, one of them good; a third was never shown."""
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


def test_a_newcomer_is_the_weighted_mean_of_those_alike() -> None:
    policy, unknown = LinUCB(graphs.empty(3), 2), UnknownUsers()
    policy.update_many([0, 1, 2], [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [1.0, 1.0, -5.0])
    unknown.near = lambda name: {0: 3.0, 1: 1.0} if name == "zoe" else {}
    taste = unknown.scores(policy, "zoe", np.eye(2), np.full(2, -1)).mean
    assert taste == pytest.approx(0.75 * policy.theta[0] + 0.25 * policy.theta[1])
    nobody = unknown.scores(policy, "somebody", np.eye(2), np.full(2, -1)).mean
    assert nobody == pytest.approx(unknown.average(policy).theta)
