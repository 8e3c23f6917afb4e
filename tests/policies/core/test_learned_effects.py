"""How strong the effects of items are is learned, and what is known of each is told with its uncertainty."""

from __future__ import annotations

import numpy as np
import pytest

from graphbandit import LinUCB, Policy, Stochastic, graphs, signals
from graphbandit.compute.arrays import Floats
from graphbandit.policies.core import item_effects
from graphbandit.policies.core.item_effects import item_effect, no_items, with_room


def learned_table(effects: Floats, rounds: int, seed: int, sigma: float = 0.3) -> item_effects.ItemEffects:
    """What a table has learned from residuals of random items, at a level of 1."""
    rng = np.random.default_rng(seed)
    table = with_room(no_items(enabled=True), len(effects))
    for item, user in rng.integers((len(effects), 50), size=(rounds, 2)).tolist():
        item_effects.observe_item(table, item, user, 1.0 + effects[item] + sigma * rng.standard_normal(), 1.0)
    return table


@pytest.mark.parametrize("deviation", [0.3, 0.1])
def test_the_ridge_is_about_that_of_the_effects(deviation: float) -> None:
    table = learned_table(deviation * np.random.default_rng(0).standard_normal(100), 4000, seed=1)
    assert (0.3 / deviation) ** 2 / 2 <= table.learned[0] <= 4 * (0.3 / deviation) ** 2


def test_that_one_user_likes_an_item_again_is_no_effect_of_the_item() -> None:
    """Every user has items of its own that it always likes, and others do not: nothing is learned for everybody."""
    rng = np.random.default_rng(0)
    likes = rng.random((50, 100)) < 0.1
    table = with_room(no_items(enabled=True), 100)
    for user, item in rng.integers((50, 100), size=(6000, 2)).tolist():
        for _ in range(2):
            item_effects.observe_item(table, item, user, float(likes[user, item]), 1.0)
    assert table.learned[0] >= 20.0
    lonely = with_room(no_items(enabled=True), 100)
    for item in rng.integers(100, size=4000).tolist():
        item_effects.observe_item(lonely, item, 0, float(likes[0, item]), 1.0)
    assert lonely.learned[0] < 2.0  # a single user's items are everybody's


def test_few_showings_are_taken_with_caution() -> None:
    table = learned_table(0.3 * np.random.default_rng(0).standard_normal(100), 4000, seed=1)
    table.mass[:2], table.total[:2] = (1.0, 200.0), (1.0, 200.0)
    few, many = (item_effect(table, item)[0] for item in (0, 1))
    mean, deviation = item_effects.effect_intervals(table, np.array([0, 1, 400]))
    kappa = float(table.learned[0])
    assert mean == pytest.approx([1 / (1 + kappa), 200 / (200 + kappa), 0.0])
    assert few == pytest.approx(1 / (1 + 5 * kappa)) and many == pytest.approx(mean[1], rel=0.01)
    assert deviation[1] < deviation[0] < deviation[2]
    careful = item_effects.effect_intervals(table, np.array([0, 1, 400]), cautious=True)
    decided = np.array([item_effect(table, item) for item in (0, 1, 400)])
    assert careful.mean == pytest.approx(decided[:, 0])
    assert careful.deviation / careful.deviation[1] == pytest.approx(np.sqrt(decided[:, 1] / decided[1, 1]))


def test_intervals_of_learned_effects_hold_what_they_should() -> None:
    inside = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        graph, effects = graphs.erdos_renyi(20, 0.2, seed=seed), 0.3 * rng.standard_normal(200)
        arms, theta = signals.unit_arms(200, 3, seed=seed), signals.smooth(graph, 3, gamma=5, seed=seed)
        policy = LinUCB(graph, 3, item_effects=True)
        for user, item in rng.integers((20, 200), size=(3000, 2)).tolist():
            reward = arms[item] @ theta[user] + effects[item] + 0.3 * rng.standard_normal()
            policy.update(user, arms[item], reward, item=item)
        mean, deviation = policy.effects_of(np.arange(200))
        inside.append(np.mean(np.abs(effects - effects.mean() - mean) <= 2.576 * deviation))
    assert np.mean(inside) >= 0.95


def test_no_effects_are_found_where_there_are_none() -> None:
    for seed in range(10):
        table = learned_table(np.zeros(100), 4000, seed)
        assert table.learned[0] >= 160.0, seed
        assert abs(table.level[0] - 1.0) < 0.05


def test_rare_hits_are_not_effects() -> None:
    """Noise that is far from Gaussian: one in twenty rounds is a hit, whatever the item."""
    rng, table = np.random.default_rng(0), with_room(no_items(enabled=True), 2000)
    for item, user in rng.integers((2000, 50), size=(6000, 2)).tolist():
        item_effects.observe_item(table, item, user, float(rng.random() < 0.05), 1.0)
    assert table.learned[0] >= 160.0


def test_gains_are_those_of_predictions_one_step_ahead() -> None:
    rng, table = np.random.default_rng(3), with_room(no_items(enabled=True), 7)
    effects, ridges = rng.standard_normal(7), np.array(item_effects.RIDGES)
    seen: list[list[tuple[float, float]]] = [[] for _ in range(7)]
    gains, squares = np.zeros(len(ridges)), 0.0
    for t in range(500):
        item, q = int(rng.integers(7)), float(rng.uniform(1, 3))
        residual = effects[item] + 0.5 * rng.standard_normal()
        item_effects.observe_item(table, item, 0, residual, q)
        centred = residual - table.level[0]
        squares += centred**2 / q
        if seen[item] and t >= item_effects.FIRST_ROUNDS:
            total, mass = (sum(part) for part in zip(*((r / p, 1 / p) for r, p in seen[item]), strict=True))
            guess = total / (mass + ridges)
            gains += (centred**2 - (centred - guess) ** 2) / (2 * squares / (t + 1) * q)
        seen[item].append((centred, q))
    assert np.allclose(table.gain, gains)
    assert table.learned[0] == ridges[gains.argmax()]


def test_effects_are_told_by_id_and_through_a_wrapper() -> None:
    inner = LinUCB(graphs.empty(2), 1, item_effects=True, item_ridge=1.0)
    for _ in range(50):
        inner.update(0, [1.0], 1.0, item=3)
        inner.update(1, [1.0], 0.0, item=4)
    wrapped: Policy = Stochastic(inner, epsilon=0.1)
    for policy in (inner, wrapped):
        mean, deviation = policy.effects_of([3, 4, -1, 99])
        assert mean[0] > mean[1] and mean[2] == mean[3] == 0.0
        assert deviation[3] > deviation[0] > deviation[2] == 0.0
    assert not np.any(LinUCB(graphs.empty(2), 1).effects_of([3, -1]))
    with pytest.raises(ValueError, match="items must be integers, but they are of type float64"):
        inner.effects_of([0.5])
    with pytest.raises(ValueError, match=r"items\[1\] must be an integer from 0"):
        inner.effects_of([0, -2])
