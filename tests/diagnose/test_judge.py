"""The judge of graphs: against slow formulas, and in worlds whose answer is known."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from graphbandit import AdaptiveGraphUCB, graphs
from graphbandit.diagnose import RewardLog, Verdict, diagnose, judge, read_edges, read_log
from graphbandit.tables import write_table
from made_up_logs import DIM, RING, N, edge_columns, log_columns, made

ANSWERS = {"smooth": "yes", "unrelated": "no", "alike": "no"}


@cache
def diagnosed(kind: str) -> Verdict:
    return diagnose(made(kind, 1000), RING)


@pytest.mark.compiled
@pytest.mark.parametrize("kind", ANSWERS)
def test_answers_that_are_known(kind: str) -> None:
    found = diagnosed(kind)
    assert found.answer == ANSWERS[kind], str(found)
    assert found.low <= found.gain <= found.high and found.n_users == N and found.n_rewards == 400 and len(found.shuffled) == 19
    assert "nats" not in str(found) and "shuffled" not in found.sentence
    assert json.loads(json.dumps(found.as_table(), allow_nan=False))["answer"] == found.answer


@pytest.mark.compiled
def test_the_report_of_a_policy_has_the_answer_of_the_log() -> None:
    for kind, answer in ANSWERS.items():
        log, policy = made(kind, 1000), AdaptiveGraphUCB(RING, DIM)
        policy.update_many(log.user, log.features, log.reward)
        report = policy.report()
        assert report.verdict.answer in (answer, "not clear" if answer == "no" else answer), (kind, str(report.verdict))
        assert policy.report().verdict is report.verdict  # it is not judged again without new rewards
        policy.update_many(log.user[:200], log.features[:200], log.reward[:200])
        assert policy.report().verdict is not report.verdict


def test_users_without_edges_and_few_rewards() -> None:
    assert diagnose(made("smooth"), graphs.empty(N)).answer == "no"
    few = diagnose(made("smooth", 40), RING)
    assert few.answer == "not clear" and "too few to judge" in few.sentence


def test_sums_and_the_error_that_they_give_are_those_of_the_rewards() -> None:
    rng = np.random.default_rng(0)
    user, x, y = rng.integers(5, size=60), rng.standard_normal((60, 3)), rng.standard_normal(60)
    sums, theta, out = judge.user_sums(user, x, y, 5), rng.standard_normal((5, 3)), np.empty(5)
    judge.predicted(sums.gram, sums.response, theta, out)
    for i in range(5):
        own, left = y[user == i], y[user == i] - x[user == i] @ theta[i]
        assert out[i] == pytest.approx((own**2).sum() - (left**2).sum())
    mean = rng.standard_normal(3)
    moved, direct = judge.shifted(sums, mean), judge.user_sums(user, x, y - x @ mean, 5)
    np.testing.assert_allclose(moved.response, direct.response)
    assert moved.squares == pytest.approx(direct.squares)


def test_sweeps_solve_the_system_of_all_users() -> None:
    rng = np.random.default_rng(1)
    graph, dim, tau, tie = graphs.watts_strogatz(12, 4, 0.2, seed=0), 2, 1.5, 0.9
    user, x, y = rng.integers(12, size=100), rng.standard_normal((100, dim)), rng.standard_normal(100)
    sums = judge.user_sums(user, x, y, 12)
    root = np.sqrt(graph.degrees)
    S = graph.adjacency.toarray() / np.outer(root, root)
    whole = np.kron(tau * (np.eye(12) - tie * S), np.eye(dim))
    for i in range(12):
        whole[i * dim : (i + 1) * dim, i * dim : (i + 1) * dim] += sums.gram[i]
    exact = np.linalg.solve(whole, sums.response.ravel()).reshape(12, dim)
    entries = sparse.csr_array(S)
    theta, inverse = np.zeros((12, dim)), np.asarray(np.linalg.inv(sums.gram + tau * np.eye(dim)), float)
    index = (entries.indptr.astype(np.int32), entries.indices.astype(np.int32), entries.data)
    judge.sweep_users(inverse, sums.response, *index, tau * tie, 200, theta)
    np.testing.assert_allclose(theta, exact, atol=1e-9)


@pytest.mark.compiled
def test_the_prior_is_that_of_the_users() -> None:
    rng = np.random.default_rng(2)
    user, x = rng.integers(300, size=20_000), rng.standard_normal((20_000, 2))
    tastes = np.array([1.0, 2.0]) + rng.standard_normal((300, 2)) @ np.array([[1.5, 0.5], [0.0, 0.2]])
    reward = (x * tastes[user]).sum(axis=1) + 0.7 * rng.standard_normal(20_000)
    prior = judge.fit_prior(judge.user_sums(user, x, reward, 300), 20_000)
    np.testing.assert_allclose(prior.mean, tastes.mean(axis=0), atol=0.1)
    np.testing.assert_allclose(prior.root @ prior.root.T, np.cov(tastes.T), atol=0.15)
    assert prior.noise == pytest.approx(0.7, abs=0.02)


def test_means_and_effects_of_items_are_taken_out_by_earlier_rewards_only() -> None:
    y, item = np.array([4.0, 4.0, 2.0, 2.0, 9.0]), np.array([0, 0, 1, 1, 0])
    left = judge.centred(y, 4, item)
    np.testing.assert_allclose(left, np.array([1, 1, -1, -1, 6]) - np.array([2, 2, -2, -2, 2]) / (2 + judge.PSEUDO_EVENTS))


def test_the_best_of_many_graphs_needs_a_clearer_lead() -> None:
    log = made("smooth", 300)
    one = judge.judge_rewards(log.user, log.features, log.reward, N, 180)
    alone, best = (one.verdict(RING.adjacency, n_tried=n) for n in (1, 20))
    assert best.low < alone.low and best.gain == alone.gain and "20 graphs were tried" in best.sentence


def test_only_users_of_the_log_change_places() -> None:
    """A graph of two: shuffled, it is the same one, however many others there are."""
    graph = graphs.from_edges([(0, 1), *((k, k + 1) for k in range(2, 30))], n_users=31)
    rng = np.random.default_rng(0)
    log = RewardLog(rng.integers(2, size=100), rng.standard_normal((100, 2)), rng.standard_normal(100))
    found = diagnose(log, graph, shuffles=4)
    assert np.ptp(found.shuffled) < 1e-12 and found.n_users == 2


def test_units_do_not_matter() -> None:
    log = made("smooth", 600)
    small, large = (diagnose(RewardLog(log.user, c * log.features, c * log.reward + c), RING) for c in (1.0, 100.0))
    assert small.gain == pytest.approx(large.gain, abs=0.02) and small.answer == large.answer == "yes"


def test_many_users_are_a_ball_in_the_graph() -> None:
    graph = graphs.watts_strogatz(500, 6, 0.0, seed=0)
    users = judge.users_to_judge(graph.adjacency, 500, 0, 60)
    assert len(users) == 60 and graph.adjacency[users][:, users].nnz > 0.9 * 6 * 60
    assert judge.users_to_judge(None, 50, 0, 60).tolist() == list(range(50))


def test_files_and_ids_in_any_order(tmp_path: Path) -> None:
    write_table(tmp_path / "log.csv", log_columns(made("smooth", 700)))
    write_table(tmp_path / "edges.csv", edge_columns(RING))
    log = read_log(tmp_path / "log.csv")
    first = diagnose(log, read_edges(tmp_path / "edges.csv", log.ids or ()))
    assert first.with_graph == pytest.approx(
        diagnose(made("smooth", 700), RING).with_graph, abs=1e-3
    )  # sweeps are of other orders


def test_wrong_arguments() -> None:
    log = made("smooth", 5)
    for call, message in (
        (lambda: RewardLog(np.zeros(2, dtype=int), np.ones((3, 2)), np.ones(3)), "must have one entry for each row"),
        (lambda: RewardLog(np.zeros(3, dtype=int), np.ones(3), np.ones(3)), "features must have 2 dimensions"),
        (lambda: RewardLog(np.zeros(1, dtype=int), np.full((1, 1), 1e7), np.ones(1)), "column features"),
        (lambda: diagnose(log, graphs.empty(3)), "user must name rows of the graph, 0 to 2"),
        (lambda: diagnose(log, RING, shuffles=1), "shuffles must be"),
        (lambda: diagnose(RewardLog(log.user[:0], log.features[:0], log.reward[:0]), RING), "log has no rows"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
