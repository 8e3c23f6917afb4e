"""How claims are judged: intervals, what is alike, shares; each against a rule of its own."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, t

from graphbandit.paper import FIGURES, Claim, sweeps
from graphbandit.paper.claims import alike, below, mean_interval, share_at_least, share_interval, within
from graphbandit.paper.report_page import FigureOutcome, summary, verdict


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
    assert below(np.array([1.0]), 5.0) == "undecided" and below(np.array([1.0, 1.0]), 5.0) == "holds"


def test_within_two_numbers() -> None:
    values = np.linspace(0.45, 0.55, 20)
    assert within(values, 0.4, 0.6) == "holds" and within(values + 0.3, 0.4, 0.6) == "does not hold"
    assert within(values - 0.3, 0.4, 0.6) == "does not hold" and within(values + 0.1, 0.4, 0.6) == "undecided"


def test_the_error_of_the_second_mean_counts_in_what_is_alike() -> None:
    """The first is known exactly, and a quarter above the second's sample mean less a little."""
    second = 20 + np.array([-8.0, 8.0] * 10)
    assert alike(np.full(20, 24.9), second)[0] == "undecided"
    assert alike(np.full(20, 24.9), np.full(20, 20.0))[0] == "holds"


def test_shares_of_runs_have_the_exact_interval() -> None:
    for hits, runs in ((0, 20), (20, 20), (7, 20), (399, 400)):
        low, high = share_interval((np.arange(runs) < hits).astype(float))
        if hits > 0:
            assert binom.sf(hits - 1, runs, low) == pytest.approx(0.025)
        if hits < runs:
            assert binom.cdf(hits, runs, high) == pytest.approx(0.025)


def test_twenty_runs_without_a_failure_do_not_show_99_percent() -> None:
    assert share_at_least(np.ones(20), 0.99)[0] == "undecided"
    assert share_at_least(np.ones(400), 0.99)[0] == "holds" and share_at_least(np.ones(367), 0.99)[0] == "undecided"
    assert share_at_least(np.linspace(0.93, 0.97, 20), 0.99)[0] == "does not hold"
    assert share_at_least(np.array([0.5]), 0.99)[0] == "undecided"


def test_only_what_the_text_says_counts_as_the_papers_claim() -> None:
    x = np.linspace(0, 1, 5)
    runs = {name: 10 - 5 * x + np.random.default_rng(1).normal(scale=0.01, size=(20, 1)) for name in sweeps.GRAPH_POLICIES}
    data = {"values": x, "regret": runs, "sparsity": x, "smoothness": 1 - x}
    ours = {name: {claim.beyond for claim in sweeps.claims(data, name=name)} for name in sweeps.SWEEPS}
    assert ours == {name: {name not in ("smoothness-rbf", "sparsity-rbf", "sweep-er-p")} for name in sweeps.SWEEPS}
    claims = [Claim("a", "holds", {}), Claim("b", "holds", {}, beyond=True)]
    entry = FigureOutcome(FIGURES["sweep-ba-m"], {}, claims)
    assert "reproduced" in verdict(entry, claims[0]) and "reproduced" not in verdict(entry, claims[1])
    from graphbandit.paper import ReproduceSettings

    text = summary([entry], ReproduceSettings())
    assert "Of 1 claims of the paper, <b>1 were reproduced" in text and "Beyond the paper, 1 of 1" in text
