"""The estimators: calculations by hand, and exactness where there is any."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphbandit.evaluation.estimators import NORMAL, doubly_robust, ips, mean, outcomes, overlap, snips, student_width

# Three rounds, two arms, by hand: weights 0.5 / 0.25 = 2, 1 / 0.5 = 2, 0 / 0.8 = 0.
TARGET, PROPENSITY, REWARD = np.array([0.5, 1.0, 0.0]), np.array([0.25, 0.5, 0.8]), np.array([1.0, 0.0, 1.0])


def test_by_hand() -> None:
    weight = TARGET / PROPENSITY
    assert mean(ips(weight, REWARD))[:2] == pytest.approx((2 / 3, 2 / 3))  # 2, 0, 0: sd 1.1547 over √3
    assert mean(snips(weight, REWARD)).value == pytest.approx(2 / 4)
    # Delta method: Σ w² (r - V)² / (Σ w)², with n / (n - 1).
    assert mean(snips(weight, REWARD)).error == pytest.approx(np.sqrt((4 * 0.25 + 4 * 0.25) * 3 / 2) / 4)
    predicted, expected = np.array([0.5, 0.5, 0.0]), np.array([0.75, 0.5, 0.25])
    assert doubly_robust(weight, REWARD, predicted, expected).tolist() == [0.75 + 2 * 0.5, 0.5 - 2 * 0.5, 0.25]
    seen = overlap(weight, TARGET, REWARD)
    assert (seen.effective, seen.matched, seen.largest, seen.outcomes) == (2.0, 0.5, 2.0, 1.0)
    assert np.isnan(mean(snips(np.zeros(3), REWARD)).value)
    assert outcomes(np.ones(3), np.ones(3)) == 0


def test_groups_make_rounds_of_a_user_count_together() -> None:
    psi = np.array([1.0, 1.0, 3.0, 3.0])
    assert mean(psi, np.arange(4)) == mean(psi)
    # Two users, 1 and 3: as if there were two rounds.
    assert mean(psi, np.array([0, 0, 1, 1])) == pytest.approx(tuple(mean(np.array([1.0, 3.0]))))


def test_the_width_is_students_with_as_many_rounds_as_count() -> None:
    from scipy.stats import kurtosis, t

    few = np.array([4.0, -1.0, -1.0, -1.0, -1.0, 0.0, 0.0, 0.0])
    assert student_width(few) == pytest.approx(t.ppf(0.975, 2 * 8 / (kurtosis(few, fisher=False) - 1)))
    assert student_width(np.array([1.0, -1.0])) == pytest.approx(t.ppf(0.975, 1))  # at most k - 1
    normal = np.random.default_rng(0).standard_normal(100_000)
    assert student_width(normal - normal.mean()) == pytest.approx(NORMAL, abs=1e-3)
    clicks = np.zeros(750)
    clicks[:6] = 33.0  # six rounds of 750 carry the weight
    assert 2.1 < student_width(clicks - clicks.mean()) < 2.3
    assert student_width(np.zeros(5)) == student_width(np.ones(1)) == NORMAL  # no error to speak of


@given(st.integers(0, 2**32 - 1), st.integers(2, 40))
def test_doubly_robust_is_exact_with_an_exact_model(seed: int, rounds: int) -> None:
    """Even with propensities that are wrong: what is left of a reward without noise is 0."""
    rng = np.random.default_rng(seed)
    rewards, chances = rng.standard_normal((rounds, 4)), rng.dirichlet(np.ones(4), size=rounds)
    shown = rng.integers(4, size=rounds)
    rows = np.arange(rounds)
    weight = chances[rows, shown] / rng.uniform(0.01, 1, rounds)
    value = (chances * rewards).sum(axis=1)
    psi = doubly_robust(weight, rewards[rows, shown], rewards[rows, shown], value)
    assert np.array_equal(psi, value)


@given(st.integers(0, 2**32 - 1))
def test_right_on_average_with_a_wrong_model(seed: int) -> None:
    """The exact expectation is the true value, for IPS, and for DR with any model."""
    rng = np.random.default_rng(seed)
    rewards, chances, propensity = rng.standard_normal(4), rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(4)) * 0.9 + 0.025
    model = 10 * rng.standard_normal(4)
    weight = chances / propensity
    expected = np.full(4, chances @ model)
    assert propensity @ ips(weight, rewards) == pytest.approx(chances @ rewards)
    assert propensity @ doubly_robust(weight, rewards, model, expected) == pytest.approx(chances @ rewards)
    assert propensity @ weight == pytest.approx(1.0)
