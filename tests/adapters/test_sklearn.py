# the library must be there before what needs it is imported
from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="scikit-learn is not installed")

from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

from graphbandit import POLICIES, AdaptiveGraphUCB, LinUCB, Policy, UserGraph, graphs
from graphbandit.adapters.sklearn import GraphBanditRegressor

DO_NOT_APPLY: dict[str, str] = {}
"""Checks of scikit-learn that do not apply, and why: none. docs/howto/adapters.md says so."""
FRIENDS = graphs.from_edges([("ann", "bob"), ("bob", "eve")], ids=["ann", "bob", "eve", "zoe"])


@parametrize_with_checks(
    [GraphBanditRegressor(policy="linucb", user_column=None), GraphBanditRegressor(policy="linucb")],
    expected_failed_checks=lambda _: DO_NOT_APPLY,
)  # type: ignore[untyped-decorator]
def test_the_checks_of_scikit_learn_pass(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.compiled
def test_they_pass_with_the_default_policy() -> None:
    results = check_estimator(GraphBanditRegressor(user_column=None), on_skip=None, expected_failed_checks=DO_NOT_APPLY)
    assert {result["status"] for result in results} <= {"passed", "skipped"}


class Closed(LinUCB):
    """LinUCB that accepts no new users while it runs."""

    user_rows = Policy.user_rows


def events(n: int = 200, seed: int = 0) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return rows of user, x0, x1, and rewards 3 + x · θ, with the same θ for all but zoe."""
    rng = np.random.default_rng(seed)
    users = rng.choice(["ann", "bob", "eve", "zoe"], size=n)
    features = rng.normal(size=(n, 2))
    theta = np.where((users == "zoe")[:, None], [-1.0, 0.5], [1.0, 2.0])
    return np.column_stack([users.astype(object), features]), 3 + (features * theta).sum(axis=1)


@pytest.mark.parametrize("policy", ["linucb", "graphucb"])
def test_it_is_the_policy_with_an_intercept(policy: str) -> None:
    X, y = events()
    model = GraphBanditRegressor(FRIENDS, policy=policy).fit(X, y)
    maker: Any = POLICIES[policy]
    ours = maker(UserGraph(FRIENDS.adjacency), 3)
    for name, x0, x1, reward in zip(*X.T, y, strict=True):
        ours.update(FRIENDS.index(name), [x0, x1, 1.0], reward)
    for name in FRIENDS.ids or ():
        rows = X[X[:, 0] == name]
        features = np.column_stack([rows[:, 1:].astype(float), np.ones(len(rows))])
        assert np.array_equal(model.predict(rows), ours.scores(FRIENDS.index(name), features).mean)
    assert model.score(X, y) > 0.9


def test_row_numbers_and_ids_names_and_positions_are_the_same_model() -> None:
    pandas = pytest.importorskip("pandas")
    X, y = events()
    expected = GraphBanditRegressor(FRIENDS, policy="graphucb").fit(X, y).predict(X)
    numbers = X.copy()
    numbers[:, 0] = [FRIENDS.index(name) for name in X[:, 0]]
    model = GraphBanditRegressor(UserGraph(FRIENDS.adjacency), policy="graphucb")
    for as_numbers in (numbers, numbers.astype(float), numbers.tolist()):
        assert np.array_equal(model.fit(as_numbers, y).predict(as_numbers), expected)
    frame = pandas.DataFrame({"x0": X[:, 1].astype(float), "who": X[:, 0], "x1": X[:, 2].astype(float)})
    for column in ("who", 1, -2):
        named = GraphBanditRegressor(FRIENDS, policy="graphucb", user_column=column).fit(frame, y)
        assert np.array_equal(named.predict(frame), expected)
        assert named.feature_names_in_.tolist() == ["x0", "who", "x1"] and named.n_features_in_ == 3
    polars = pytest.importorskip("polars")
    named.set_params(user_column="who").fit(polars.from_pandas(frame), y)
    assert np.array_equal(named.predict(polars.from_pandas(frame)), expected)


@pytest.mark.parametrize("graph", [FRIENDS, None])
def test_partial_fit_continues_where_fit_stopped(graph: UserGraph | None) -> None:
    X, y = events()
    model = GraphBanditRegressor(graph, policy="linucb")
    whole = clone(model).fit(X, y)
    for rows in np.array_split(np.arange(len(X)), [1, 2, 50]):
        model.partial_fit(X[rows], y[rows])
    assert np.array_equal(model.predict(X), whole.predict(X))
    assert model.n_seen_.sum() == 200 and len(model.n_seen_) == 4
    assert np.array_equal(model.fit(X[:9], y[:9]).predict(X), clone(model).fit(X[:9], y[:9]).predict(X))  # fit forgets


def test_users_who_are_not_in_the_graph_join_without_edges() -> None:
    X, y = events()
    pair = graphs.from_edges([("ann", "bob")])
    model = GraphBanditRegressor(pair, policy="graphucb").fit(X, y)
    assert list(model.rows_)[:2] == ["ann", "bob"] and set(model.rows_) == {"ann", "bob", "eve", "zoe"}
    assert model.policy_.graph.n_edges == 1 and pair.n_users == 2
    model.partial_fit([["new", 1.0, 1.0]], [4.0])
    assert model.policy_.n_users == 5 and model.n_seen_[-1] == 1
    with pytest.raises(ValueError, match="Closed cannot take in"):
        GraphBanditRegressor(pair, policy=Closed).fit(X, y).partial_fit([["new", 1.0, 1.0]], [4.0])


def test_a_graph_that_knows_nobody_is_refused() -> None:
    _, y = events(2)
    texts = graphs.from_edges([("7", "8")])  # as they are read from a file of edges
    with pytest.raises(ValueError, match=r"graph must contain a user of X, but it has users like '7', and X has 7\.0"):
        GraphBanditRegressor(texts, policy="linucb").fit(np.array([[7.0, 1.0], [8.0, 2.0]]), y)


def test_rows_that_are_refused_change_no_prediction() -> None:
    X, y = events()
    model = GraphBanditRegressor(policy="linucb").fit(X, y)
    before = model.predict([["ann", 1.0, 1.0], ["stranger", 1.0, 1.0]])
    with pytest.raises(ValueError, match="must be finite and at most 1e"):
        model.partial_fit([["new", 1e9, 0.0]], [1.0])
    assert np.array_equal(model.predict([["ann", 1.0, 1.0], ["stranger", 1.0, 1.0]]), before)


def test_a_stranger_is_predicted_as_the_average_user() -> None:
    X, y = events()
    model = GraphBanditRegressor(FRIENDS, policy="linucb").fit(X, y)
    counts = np.array([(X[:, 0] == name).sum() for name in model.rows_])
    average = counts @ model.policy_.theta / counts.sum()
    strangers = model.predict([["somebody", 1.0, 0.0], ["else", 0.0, 0.0]])
    assert strangers == pytest.approx([average[0] + average[2], average[2]])
    assert strangers[1] == pytest.approx(3, abs=0.2)


def test_without_an_intercept_zeros_are_worth_nothing_and_users_alone_have_means() -> None:
    X, y = events()
    assert GraphBanditRegressor(policy="linucb", intercept=False).fit(X, y).predict([["ann", 0.0, 0.0]]) == 0.0
    means = GraphBanditRegressor(policy="linucb", params={"ridge": 1e-6}).fit(X[:, :1], y)
    assert means.predict([["ann"]])[0] == pytest.approx(y[X[:, 0] == "ann"].mean(), abs=1e-4)


def test_it_works_in_pipelines_searches_and_files() -> None:
    pandas = pytest.importorskip("pandas")
    X, y = events()
    frame = pandas.DataFrame({"who": X[:, 0], "x0": X[:, 1].astype(float), "x1": 100 * X[:, 2].astype(float)})
    columns = make_column_transformer(("passthrough", ["who"]), (StandardScaler(), ["x0", "x1"]))
    pipeline = make_pipeline(columns, GraphBanditRegressor(FRIENDS, policy="graphucb"))
    assert cross_val_score(pipeline, frame, y, cv=TimeSeriesSplit(3)).min() > 0.8
    grid = {"graphbanditregressor__params": [{"alpha": 0.1}, {"alpha": 1.0}], "graphbanditregressor__policy": ["graphucb"]}
    search = GridSearchCV(pipeline, grid, cv=TimeSeriesSplit(2)).fit(frame, y)
    assert search.best_score_ > 0.8
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    assert np.array_equal(again.predict(frame), search.predict(frame))
    copy = clone(pipeline[-1])
    assert copy.graph is not FRIENDS and copy.graph.ids == FRIENDS.ids
    assert "policy='graphucb'" in repr(copy)


def test_a_policy_may_be_a_class_and_the_default_is_adaptive() -> None:
    X, y = events(30)
    assert type(GraphBanditRegressor(policy=LinUCB, params={"ridge": 2.0}).fit(X, y).policy_) is LinUCB
    assert GraphBanditRegressor(policy=LinUCB, params={"ridge": 2.0}).fit(X, y).policy_.params["ridge"] == 2.0
    assert type(GraphBanditRegressor(FRIENDS).fit(X[:1], y[:1]).policy_) is AdaptiveGraphUCB


def test_errors_are_sentences() -> None:
    X, y = events(10)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"policy": "nothing"}, "policy must be one of random, "),
        ({"graph": 3}, "graph must be a UserGraph or None, but it is a int"),
        ({"graph": FRIENDS, "user_column": None}, "graph must be None if user_column is None, which means a single user"),
        ({"user_column": "who"}, r"user_column must be a column of X, \[0, 1, 2\], but it is 'who'"),
        ({"user_column": 3}, "user_column must be a column of X"),
        ({"policy": "linucb", "params": {"ridge": -1}}, "ridge must be a positive number"),
    ]
    for settings, words in wrong:
        rows = X[:, 1:].astype(float) if settings.get("user_column", 0) is None else X
        with pytest.raises(ValueError, match=words):
            GraphBanditRegressor(**settings).fit(rows, y)
    X[4, 0] = None
    with pytest.raises(ValueError, match="X must name a user in every row, but row 4 has None"):
        GraphBanditRegressor(policy="linucb").fit(X, y)
