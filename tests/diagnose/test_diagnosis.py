"""Verdicts on made-up logs whose answer is known."""

from __future__ import annotations

import dataclasses
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphbandit import AdaptiveGraphUCB, graphs
from graphbandit.diagnose import Diagnosis, RewardLog, as_text, diagnose, learn_log, read_edges, read_log
from graphbandit.diagnose.diagnosis import strengths
from graphbandit.diagnose.diagnosis_output import picture, write_diagnosis
from graphbandit.diagnose.shuffle_test import shuffle_test
from graphbandit.policies.adaptive.graph_report import times
from graphbandit.tables import write_table
from made_up_logs import DIM, RING, N, edge_columns, log_columns, made

COUNTS = (3, 10, 20, 30, 40)  # of shuffles


@cache
def diagnosed(kind: str) -> Diagnosis:
    return diagnose(made(kind, 2500 if kind == "one against" else 1500), RING, shuffles=4)


def test_smooth_users() -> None:
    found = diagnosed("smooth")
    assert found.verdict == "helps" and found.beats_shuffled and found.difference[-1] > 20
    assert str(found).startswith("Your graph helps: after 1,500 rounds the rewards are e^") and "shuffled" in str(found)
    assert found.report.verdict == "helps" and "The graph helps: after 1,500 rounds" in str(found.report)
    assert found.report.weights["graph"] > 0.9 and found.report.sigma == pytest.approx(0.3, abs=0.05)
    assert [abs(share - level) < 0.05 for level, share in found.report.coverage.items()] == [True] * 3
    assert not found.report.misled


def test_unrelated_users() -> None:
    found = diagnosed("unrelated")
    assert found.verdict == "hurts" and found.report.verdict == "hurts" and not found.beats_shuffled
    assert "Your graph hurts" in str(found) and "not clearly better with it than with its users shuffled" in str(found)
    assert "as likely without it as with it" in str(found.report)


def test_users_who_are_all_alike() -> None:
    found = diagnosed("alike")
    assert found.verdict != "helps" and not found.beats_shuffled
    assert "shuffled" in found.finding() and "Users are alike" in found.finding()


def test_misled_user_is_found() -> None:
    found = diagnosed("one against")
    assert [entry.user for entry in found.report.misled] == [7] and found.report.misled[0].gain < -7
    assert "One user is misled by its neighbours: 7" in str(found) and "1 of 60\n  7 " in as_text(found)


def test_curves_end_at_the_report_and_need_no_graph_to_compare_with() -> None:
    log, found = made("smooth", 900), diagnose(made("smooth", 900), RING, shuffles=2, seed=4)
    assert found.difference[-1] == found.report.difference and found.strength[-1] == found.report.strength
    assert found.rounds[-1] == 900 and len(found.rounds) == 400 and found.shuffled.shape == (2, 400)
    policy = AdaptiveGraphUCB(RING, DIM, alphas=strengths(log))
    learn_log(policy, log)
    assert policy.report() == found.report
    # All users are in the log, so a shuffle is that of graphs.shuffled.
    other = AdaptiveGraphUCB(graphs.shuffled(RING, seed=4), DIM, alphas=strengths(log))
    learn_log(other, log)
    assert found.shuffled[0, -1] == pytest.approx(other.report().difference, abs=1e-6)
    assert other.report().without == pytest.approx(found.report.without, abs=1e-9)


def test_only_users_of_the_log_change_places() -> None:
    """A graph of two: shuffled, it is the same one, however many others there are."""
    graph = graphs.from_edges([(0, 1), *((k, k + 1) for k in range(2, 30))], n_users=31)
    rng = np.random.default_rng(0)
    log = RewardLog(rng.integers(2, size=100), rng.standard_normal((100, 2)), rng.standard_normal(100))
    found = diagnose(log, graph, shuffles=4)
    np.testing.assert_allclose(found.shuffled[:, -1], found.difference[-1], atol=1e-8)
    assert found.n_users == 2


def test_units_of_features_do_not_matter() -> None:
    small, large = (diagnose(made("smooth", 600, scale), RING, shuffles=1) for scale in (1.0, 100.0))
    np.testing.assert_allclose(small.difference, large.difference, atol=1e-5)
    assert large.report.strength == pytest.approx(1e4 * small.report.strength, rel=1e-6)


def test_drift() -> None:
    found = diagnose(made("smooth", 900), RING, half_life=10, shuffles=1)
    assert found.report.counted < 880 and found.report.per_round == found.report.difference / found.report.counted


@pytest.mark.parametrize("rounds", [0, 1, 5])
def test_report_of_few_rounds(rounds: int) -> None:
    policy = AdaptiveGraphUCB(RING, DIM)
    log = made("smooth", 5)
    for t in range(rounds):
        policy.update(int(log.user[t]), log.features[t], float(log.reward[t]))
    report = policy.report()
    assert report.verdict == "too few" and ("Nothing is known yet" if rounds == 0 else "too early") in str(report)
    table = json.loads(json.dumps(report.as_table(), allow_nan=False))
    assert table["rounds"] == rounds and (table["sigma"] is None) == (rounds == 0)
    if rounds:
        assert diagnose(RewardLog(log.user[:rounds], log.features[:rounds], log.reward[:rounds]), RING).verdict == "too few"


def test_report_knows_its_parts() -> None:
    report = diagnosed("smooth").report
    table = json.loads(json.dumps(report.as_table(), allow_nan=False))
    assert report.with_graph - max(report.everyone, report.alone) == report.difference == table["difference"]
    assert report.per_round == report.difference / 1500
    assert [step["round"] for step in table["trail"]] == [2**k for k in range(11)]
    assert table["verdict"] == "helps" and set(table["coverage"]) == {"0.5", "0.9", "0.99"}
    assert sum(table["weights"].values()) == pytest.approx(1)


def test_no_difference() -> None:
    """Users without edges: the models with and without the graph are the same."""
    log = made("unrelated", 300)
    found = diagnose(log, graphs.empty(N), shuffles=1)
    assert found.verdict == "no difference" and "Your graph does not help" in str(found)
    assert "makes no difference yet" in str(found.report)


def test_times() -> None:
    assert times(np.log(20)) == "20 times" and times(123.4) == "e^123 times" and times(1234) == "e^1,234 times"


def made_up(curves: list[float], difference: float) -> Diagnosis:
    """The ends of a diagnosis, whatever led there."""
    base = diagnosed("alike")
    fields: dict[str, Any] = {name: getattr(base, name) for name in base.__dataclass_fields__}
    report = {name: getattr(base.report, name) for name in base.report.__dataclass_fields__}
    report["with_graph"] = base.report.without + difference
    ends = dict(
        report=type(base.report)(**report), difference=np.full(400, difference), shuffled=np.array([[c] * 400 for c in curves])
    )
    return Diagnosis(**(fields | ends))


@pytest.mark.parametrize(
    ("difference", "shuffled", "verdict"),
    [
        (50.0, [5.0, 9.0, 7.0], "helps"),
        (50.0, [47.5, 40.0, 45.0], "no better than shuffled"),  # by less than their spread allows
        (50.0, [10.0, 44.0, 20.0], "no better than shuffled"),
        (50.0, [48.0] * 19, "no better than shuffled"),  # by less than 3 nats
        (50.0, [5.0, 44.0], "no better than shuffled"),  # two shuffles say little about their spread
        (50.0, [5.0], "too few shuffles"),  # one says nothing
        (50.0, [*range(20, 38), 49.0], "helps"),  # the best of 19, by however little
        (50.0, [*range(20, 38), 51.0], "no better than shuffled"),  # the second of 19: p = 0.1
        (50.0, [51.0, *range(1, 40)], "helps"),  # the second of 39: p = 2 / 40
        (2.9, [-40.0, -40.0, -40.0], "no difference"),
        (-3.1, [-40.0, -40.0, -40.0], "hurts"),
    ],
)
def test_verdicts(difference: float, shuffled: list[float], verdict: str) -> None:
    found = made_up(shuffled, difference)
    assert found.verdict == verdict and found.as_table()["verdict"] == verdict
    assert ("no more than a shuffled one" in str(found)) == (verdict == "no better than shuffled")
    assert ("It does say something" in str(found)) == (difference < 3)
    assert len(picture(found)) > 10_000


def test_more_shuffles_do_not_make_the_test_weaker() -> None:
    """Shuffles that are standard normal; a graph that is 3 standard deviations better, and one
    that is not.
    """
    rng = np.random.default_rng(0)
    shuffled, chance = rng.standard_normal((2000, 40)), rng.standard_normal(2000)
    passed = {n: np.array([shuffle_test(v + 3, s[:n]).passes for v, s in zip(chance, shuffled, strict=True)]) for n in COUNTS}
    power = [passed[n].mean() for n in COUNTS]
    assert power == sorted(power) and power[0] > 0.3 and power[-1] > 0.85, power
    for n in COUNTS:
        by_chance = np.mean([shuffle_test(v, s[:n]).passes for v, s in zip(chance, shuffled, strict=True)])
        assert 0.03 < by_chance < 0.065, (n, by_chance)


def test_equal_graphs_tie() -> None:
    """A shuffle may rebuild the graph; its evidence then differs by rounding only."""
    assert shuffle_test(5.0, np.full(19, 5.0 - 1e-9)) == (1.0, "rank") and not shuffle_test(5.0, np.full(3, 5.0)).passes


def test_power_on_logs_does_not_fall_with_shuffles() -> None:
    """With the first 10 and with all 19 shuffles of the same log of 200 rounds."""
    found = diagnose(made("smooth", 200), RING)
    few = dataclasses.replace(found, shuffled=found.shuffled[:10])
    assert found.verdict == few.verdict == "helps"
    assert (found.shuffle_test.basis, few.shuffle_test.basis) == ("rank", "t") and found.shuffle_test.p == 0.05


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    write_table(tmp_path / "log.csv", log_columns(made("smooth", 700)))
    write_table(tmp_path / "edges.csv", edge_columns(RING))
    return tmp_path / "log.csv", tmp_path / "edges.csv"


def test_ids_may_be_in_any_order(files: tuple[Path, Path]) -> None:
    log = read_log(files[0])
    first = diagnose(log, read_edges(files[1], log.ids or ()), shuffles=1)
    second = diagnose(log, read_edges(files[1]), shuffles=1)
    plain = diagnose(made("smooth", 700), RING, shuffles=1)
    assert first.difference[-1] == pytest.approx(second.difference[-1], abs=1e-6)
    assert first.difference[-1] == pytest.approx(plain.difference[-1], abs=1e-6)


def test_wrong_arguments() -> None:
    log = made("smooth", 5)
    for call, message in (
        (lambda: RewardLog(np.zeros(2, dtype=int), np.ones((3, 2)), np.ones(3)), "must have one entry for each row"),
        (lambda: RewardLog(np.zeros(3, dtype=int), np.ones(3), np.ones(3)), "features must have 2 dimensions"),
        (lambda: RewardLog(np.zeros(1, dtype=int), np.full((1, 1), 1e7), np.ones(1)), "column features"),
        (lambda: diagnose(log, graphs.empty(3)), "user must name rows of the graph, 0 to 2"),
        (lambda: diagnose(log, RING, shuffles=0), "shuffles must be"),
        (lambda: diagnose(log, RING, half_life=0), "half_life must be"),
        (lambda: diagnose(RewardLog(log.user[:0], log.features[:0], log.reward[:0]), RING), "log has no rows"),
        (lambda: learn_log(AdaptiveGraphUCB(RING, 2), log), "policy is for 2 features, but log has 4"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_without_matplotlib_there_is_still_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphbandit.plots.drawing.find_spec", lambda name: None)
    assert "pip install '.[plots]'" in write_diagnosis(diagnosed("smooth"), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["diagnosis.json"]
