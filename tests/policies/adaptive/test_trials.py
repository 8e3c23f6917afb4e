"""Two voices, with and without an ingredient: their mean rewards decide."""

from __future__ import annotations

from math import erf, sqrt

import numpy as np
import pytest

from graphbandit import AdaptiveGraphUCB, environments, graphs, signals, simulate
from graphbandit.policies.adaptive.trials import (
    LEAST_SHARE,
    Trials,
    count_trial,
    no_trials,
    second_turn,
    share_without,
    turn_of,
)

USABLE = np.array([1.0, 0.0, 1.0, 1.0])


def after(rewards: tuple[list[float], list[float]]) -> Trials:
    trials = no_trials(USABLE, True)
    for second, earned in enumerate(rewards):
        for reward in earned:
            count_trial(trials, bool(second), reward)
    return trials


def test_the_share_is_the_probability_of_earning_more() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.random(30), rng.random(20) + 0.05
    trials = after((first.tolist(), second.tolist()))
    fading = np.cumprod(1 - 1 / (500 + 0.5 * np.arange(50, 0, -1)))[::-1]  # what is left of each round after the later ones
    weights = np.append(fading[1:], 1.0)
    means = [np.average(first, weights=weights[:30]), np.average(second, weights=weights[30:])]
    error = sqrt(np.var(np.append(first, second)) * (1 / weights[:30].sum() + 1 / weights[30:].sum()))
    z = (means[1] - means[0]) / error
    assert share_without(trials, noise=100.0) == pytest.approx(0.5 * (1 + erf(z / sqrt(2))), abs=1e-9)


def test_no_trials_where_models_explain_the_rewards() -> None:
    trials = after(([0.0, 1.0] * 20, [0.0, 1.0] * 20))
    assert share_without(trials, noise=1e-6) < 1e-5
    assert share_without(trials, noise=0.25) == pytest.approx(0.5, abs=0.01)
    assert share_without(no_trials(USABLE, False), 1.0) == 0.0


def test_neither_voice_falls_silent() -> None:
    assert share_without(after(([0.0] * 50 + [1.0], [1.0] * 50)), 9.0) == 1 - LEAST_SHARE
    assert share_without(after(([1.0] * 50, [0.0] * 50 + [1.0])), 9.0) == LEAST_SHARE


def test_what_loses_is_asked_less_and_less() -> None:
    """The floor falls like 1/sqrt(rounds): always to ask in two rounds of a hundred would be linear regret."""
    lost = after(([1.0] * 16_000, [0.0] * 1_000))
    assert share_without(lost, 9.0) == pytest.approx(LEAST_SHARE * sqrt(1_000 / 17_000))


def test_effects_of_items_are_on_trial_once_they_are_found() -> None:
    rng, graph = np.random.default_rng(0), graphs.erdos_renyi(20, 0.3, seed=0)
    policy, effects = AdaptiveGraphUCB(graph, 2), rng.standard_normal(50)
    for t in range(1200):
        user, item = rng.integers((20, 50)).tolist()
        policy.update(user, [1.0, 0.0], effects[item] + rng.standard_normal(), item=item)
        if t == 200:
            assert policy.state.item_trials.rounds.sum() == 0.0
    assert policy.state.item_trials.rounds.min() > 50.0
    assert not AdaptiveGraphUCB(graph, 2, item_ridge=1.0).state.item_trials.enabled
    assert not AdaptiveGraphUCB(graph, 2, item_effects=False).state.item_trials.enabled


def test_rounds_are_shared_out_evenly_for_every_user() -> None:
    trials = after(([0.0, 1.0] * 20, [0.0, 1.0] * 20))
    grams = np.random.default_rng(0).random((50, 3, 3))
    turns = np.array([[turn_of(gram, visit) for visit in range(1, 101)] for gram in grams])
    others = np.array([[second_turn(turn) for turn in row] for row in turns.tolist()])
    for share in (share_without(trials, 9.0), 0.2):
        assert np.all(np.abs((turns < share).mean(axis=1) - share) < 0.05)
        assert np.all(np.abs((turns < share).mean(axis=0) - share) < 0.25)
        assert np.all(np.abs((others < share).mean(axis=1) - share) < 0.2)
    assert abs(np.corrcoef(turns.ravel(), others.ravel())[0, 1]) < 0.05


def test_the_first_round_of_a_user_is_no_trial() -> None:
    trials = after(([0.0, 1.0] * 20, [0.0, 1.0] * 20))
    assert turn_of(np.zeros((3, 3)), 0) == second_turn(1.0) == 1.0 > share_without(trials, 9.0)
    policy = AdaptiveGraphUCB(graphs.complete(5), 2)
    for user in range(5):
        policy.update(user, [1.0, 0.0], float(user))
    assert policy.state.trials.rounds.sum() == 0.0


def test_rewards_overrule_evidence_that_confirms_itself() -> None:
    """Voice 1 earns more although the evidence is for the common vector: it decides nearly always in the end."""
    graph = graphs.erdos_renyi(20, 0.3, seed=0)
    policy = AdaptiveGraphUCB(graph, 3)
    rng = np.random.default_rng(1)
    for _ in range(1500):
        user = int(rng.integers(20))
        seen = policy.state.seen
        second = turn_of(seen.gram[user], int(seen.visits[user])) < share_without(policy.state.trials, 1.0)
        policy.update(user, rng.standard_normal(3), float(rng.random() < (0.3 if second else 0.1)))
    assert share_without(policy.state.trials, 1.0) > 0.9


@pytest.mark.parametrize("models", [["alone", "graph"], ["everyone"]])
def test_there_is_nothing_to_try_with_one_voice(models: list[str]) -> None:
    assert not AdaptiveGraphUCB(graphs.complete(3), 2, models=models).state.trials.enabled


def test_low_noise_worlds_are_left_to_evidence() -> None:
    graph = graphs.erdos_renyi(20, 0.4, seed=0)
    arms = signals.unit_arms(100, 5, seed=2)
    env = environments.Linear(graph, signals.smooth(graph, 5, gamma=7, seed=1), arms, sigma=0.01, pool=50)
    policy = AdaptiveGraphUCB(graph, 5, item_effects=False)
    simulate(policy, env, 600, seed=0)
    assert policy.state.trials.rounds[1] < 0.2 * policy.state.trials.rounds.sum()
