"""How claims are judged: intervals, what is alike, shares; each against a rule of its own."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, t

from graphbandit.paper.claims import (
    VERDICTS,
    Claim,
    Verdict,
    alike,
    all_hold,
    below,
    lower,
    mean_interval,
    share_at_least,
    share_interval,
    within,
)


def test_the_interval_is_students_where_values_are_symmetric() -> None:
    values = np.array([-2.0, -1.0, 0.0, 1.0, 2.0]) + 3
    half = t.ppf(0.975, 4) * values.std(ddof=1) / np.sqrt(5)
    assert mean_interval(values) == pytest.approx((3.0, 3 - half, 3 + half))


def test_a_long_tail_moves_the_end_on_its_side_only() -> None:
    values = np.random.default_rng(0).standard_exponential(20)
    mean, low, high = mean_interval(values)
    half = t.ppf(0.975, 19) * values.std(ddof=1) / np.sqrt(20)
    assert low == pytest.approx(mean - half) and high > mean + half + 0.01
    mirrored = mean_interval(-values)
    assert mirrored == pytest.approx((-mean, -high, -low))
    # Hall's polynomial, at the end that was found, is the quantile that it was inverted at.
    skew = np.mean(((values - mean) / values.std()) ** 3) / np.sqrt(20)
    at = (mean - high) / (values.std(ddof=1) / np.sqrt(20))
    assert at + skew * at**2 / 3 + skew**2 * at**3 / 27 + skew / 6 == pytest.approx(-t.ppf(0.975, 19))


def test_one_run_or_equal_runs() -> None:
    assert np.isnan(mean_interval(np.array([1.0]))[1:]).all()
    assert mean_interval(np.array([2.0, 2.0, 2.0])) == (2.0, 2.0, 2.0)
    assert below(np.array([1.0]), 5.0) == "more runs needed" and below(np.array([1.0, 1.0]), 5.0) == "holds"


def test_within_two_numbers() -> None:
    values = np.linspace(0.45, 0.55, 20)
    assert within(values, 0.4, 0.6) == "holds" and within(values + 0.3, 0.4, 0.6) == "does not hold"
    assert within(values - 0.3, 0.4, 0.6) == "does not hold" and within(values + 0.1, 0.4, 0.6) == "more runs needed"


def test_the_error_of_the_second_mean_counts_in_what_is_alike() -> None:
    """The first is known exactly, and a quarter above the second's sample mean less a little."""
    second = 20 + np.array([-8.0, 8.0] * 10)
    assert alike(np.full(20, 24.9), second)[0] == "more runs needed"
    assert alike(np.full(20, 24.9), np.full(20, 20.0))[0] == "holds"


def test_shares_of_runs_have_the_exact_interval() -> None:
    for hits, runs in ((0, 20), (20, 20), (7, 20), (399, 400)):
        low, high = share_interval((np.arange(runs) < hits).astype(float))
        if hits > 0:
            assert binom.sf(hits - 1, runs, low) == pytest.approx(0.025)
        if hits < runs:
            assert binom.cdf(hits, runs, high) == pytest.approx(0.025)


def test_twenty_runs_without_a_failure_do_not_show_99_percent() -> None:
    assert share_at_least(np.ones(20), 0.99)[0] == "more runs needed"
    assert share_at_least(np.ones(400), 0.99)[0] == "holds" and share_at_least(np.ones(367), 0.99)[0] == "more runs needed"
    assert share_at_least(np.linspace(0.93, 0.97, 20), 0.99)[0] == "does not hold"
    assert share_at_least(np.array([0.5]), 0.99)[0] == "more runs needed"


def test_lower_distinguishes_equal_from_unknown() -> None:
    """The margin is a tenth of the second: TOST by hand, with Student's 90 % intervals."""
    noise = np.random.default_rng(0).normal(size=20)
    noise -= noise.mean()
    second = np.full(20, 100.0)
    assert lower(101 + 5 * noise, second)[0] == "equal"
    assert lower(101 + 50 * noise, second)[0] == "more runs needed"
    assert lower(103 + noise, second)[0] == "does not hold" and lower(97 + noise, second)[0] == "holds"
    assert lower(second[:1], second[:1])[0] == "more runs needed"
    assert lower(second, second)[0] == "equal"  # the same choices in every run decide nothing
    half = t.ppf(0.95, 19) * (5 * noise).std(ddof=1) / np.sqrt(20)
    assert 101 + half < 110 and 101 - half > 90  # both one-sided tests at 5 %


def test_the_worst_of_several_verdicts_decides() -> None:
    order: list[Verdict] = ["holds", "equal", "more runs needed", "does not hold"]
    for k, worst in enumerate(order):
        assert all_hold(order[: k + 1]) == worst


def test_explanations_fit_the_verdict() -> None:
    texts = {verdict: Claim("a", verdict, {}, "because").explanation for verdict in VERDICTS}
    assert texts["holds"] == "" and texts["does not hold"] == "because"
    assert "at most 10%" in texts["equal"] and "both answers" in texts["more runs needed"]
    assert Claim("a", "holds", {}).beyond and not Claim("a", "holds", {}, said="best").beyond
    assert Claim("a", "holds", {}, said="similar").quote == ("They show similar performance.", "Appendix K")
