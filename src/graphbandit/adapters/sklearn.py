"""`GraphBanditRegressor`: a policy as a scikit-learn regressor, which predicts the mean reward of a row."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from math import isfinite
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_array, check_is_fitted, check_X_y, validate_data

from .. import graphs
from ..compute.arrays import Floats, Ints
from ..graph import UserGraph
from ..policies import Policy, policy_class
from ..validate import is_integer

NO_TARGET = "no_validation"
"""Placeholder for y in scikit-learn's `validate_data` if there is no y to check; None would be a missing y."""
UNKNOWN = -1
"""The row of an unknown user."""


class GraphBanditRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A regressor of mean rewards: one column names the user, the others are features of the item shown.

    Rows are learned in their order, which is that of time. `partial_fit` continues: the same rows in several calls give the
    same model as one `fit`, if the users of later calls are in the graph or the policy can take in users.

    Parameters
    ----------
    graph : UserGraph, optional
        Who resembles whom. Users of the data who are not in it join without edges; that it knows none of them is an error.
        None: a graph without edges.
    policy : str or subclass of Policy
        A name in `graphbandit.POLICIES`, or a class. The policy of the fitted model is `policy_`.
    params : dict, optional
        Settings of the policy.
    user_column : int, str or None
        Where X has the user: a position, or the name of a column of a DataFrame. With a graph, users are its ids, or its row
        numbers if it has none. Without one they may be anything that can be a key. None: X has features only, of one user.
    intercept : bool
        Whether to add a feature that is always 1. Without it the estimate of a row of zeros is 0.

    Attributes
    ----------
    policy_ : Policy
    rows_ : dict
        The row of each user in the policy, by name.
    n_seen_ : array
        How many rows of each user were learned, a number for each.
    n_features_in_, feature_names_in_
        The columns of X, the user's included.

    Notes
    -----
    A user who is in neither the graph nor the data is predicted as the average user: the mean of all users' parameters,
    each weighted by how many rows of it were learned. It is not an error.

    Examples
    --------
    >>> import numpy as np
    >>> from graphbandit import graphs
    >>> friends = graphs.from_edges([("ann", "bob"), ("bob", "eve")])
    >>> X = np.array([["ann", 1.0], ["ann", 2.0], ["bob", 1.0]], dtype=object)
    >>> model = GraphBanditRegressor(friends, policy="graphucb").fit(X, [2.0, 3.0, 2.0])
    >>> ann, eve, zoe = model.predict(np.array([["ann", 3.0], ["eve", 3.0], ["zoe", 3.0]], dtype=object))
    >>> bool(abs(ann - 4) < 0.5), bool(abs(eve - 4) < 0.5), bool(abs(zoe - 4) < 0.5)  # zoe is unknown
    (True, True, True)
    """

    def __init__(
        self,
        graph: UserGraph | None = None,
        *,
        policy: str | type[Policy] = "adaptive",
        params: Mapping[str, Any] | None = None,
        user_column: int | str | None = 0,
        intercept: bool = True,
    ) -> None:
        self.graph = graph
        self.policy = policy
        self.params = params
        self.user_column = user_column
        self.intercept = intercept

    def fit(self, X: Any, y: npt.ArrayLike) -> Self:
        """Learn from an untrained state; forget what was learned before."""
        names, features, rewards = self._split(X, y, reset=True)
        self._start(names, features)
        return self._learn(names, features, rewards)

    def partial_fit(self, X: Any, y: npt.ArrayLike) -> Self:
        """Learn further rows, which are later in time than the rows learned so far; the first call is `fit`."""
        started = hasattr(self, "policy_")
        names, features, rewards = self._split(X, y, reset=not started)
        if not started:
            self._start(names, features)
        return self._learn(names, features, rewards)

    def predict(self, X: Any) -> Floats:
        """Return the (n,) estimated mean reward of each row."""
        check_is_fitted(self)
        names, features, _ = self._split(X, reset=False)
        users = self._rows(names)
        means = np.empty(len(users))
        order = np.argsort(users, kind="stable")
        firsts = np.flatnonzero(np.diff(users[order], prepend=UNKNOWN - 1))
        for place in np.split(order, firsts[1:]):
            user = int(users[place[0]])
            if user == UNKNOWN:
                means[place] = features[place] @ self._average_user()
            else:
                means[place] = self.policy_.scores(user, features[place]).mean
        return means

    def _start(self, names: Sequence[Hashable], features: Floats) -> None:
        """Make the policy, for the users of the graph and those of the data."""
        chosen = policy_class(self.policy) if isinstance(self.policy, str) else self.policy
        graph = self.graph
        if graph is not None and not isinstance(graph, UserGraph):
            raise ValueError(f"graph must be a UserGraph or None, but it is a {type(graph).__name__}; see graphbandit.graphs.")
        if graph is not None and self.user_column is None:
            raise ValueError("graph must be None if user_column is None, which means a single user.")
        given = () if graph is None else range(graph.n_users) if graph.ids is None else graph.ids
        if given and not set(names) & set(given):  # "7" is not 7: an error is better than learning without the graph
            raise ValueError(f"graph must contain a user of X, but it has users like {given[0]!r}, and X has {names[0]!r}.")
        self.rows_: dict[Hashable, int] = {name: row for row, name in enumerate(dict.fromkeys((*given, *names)))}
        self.n_seen_: Ints = np.zeros(len(self.rows_), np.int64)
        self.policy_: Policy = chosen(_with_users(graph, len(self.rows_)), features.shape[1], **(self.params or {}))

    def _learn(self, names: Sequence[Hashable], features: Floats, rewards: Floats) -> Self:
        for name in dict.fromkeys(names):
            if name not in self.rows_:
                self.rows_[name] = self.policy_.add_user()
                self.n_seen_ = np.append(self.n_seen_, 0)
        users = self._rows(names)
        self.policy_.update_many(users, features, rewards)
        self.n_seen_ = self.n_seen_ + np.bincount(users, minlength=len(self.rows_))
        return self

    def _rows(self, names: Sequence[Hashable]) -> Ints:
        return np.fromiter((self.rows_.get(name, UNKNOWN) for name in names), np.int64, len(names))

    def _average_user(self) -> Floats:
        """Return the (dim,) mean parameters of the users, weighted by how many rows of each were learned."""
        return np.asarray(np.average(self.policy_.theta, axis=0, weights=self.n_seen_))

    def _split(self, X: Any, y: Any = NO_TARGET, *, reset: bool) -> tuple[Sequence[Hashable], Floats, Floats]:
        """Return users, features and rewards, or raise scikit-learn's own errors."""
        names: Sequence[Hashable]
        if self.user_column is None:
            checked = validate_data(self, X, y, reset=reset, dtype=np.float64)
            columns, rewards = (checked, ()) if isinstance(y, str) else checked
            names = [0] * len(columns)
        else:
            table = _as_table(X)
            validate_data(self, table, reset=reset, skip_check_array=True)  # notes or compares the columns' names and number
            users, others = _user_and_features(table, self.user_column)
            names = _names(users)
            options: dict[str, Any] = {
                "dtype": np.float64,
                "ensure_min_features": 0 if self.intercept else 1,
                "estimator": self,
            }
            if isinstance(y, str):
                columns, rewards = check_array(others, **options), ()
            else:
                columns, rewards = check_X_y(others, y, y_numeric=True, **options)
        features = np.hstack([columns, np.ones((len(columns), 1))]) if self.intercept else columns
        return names, np.ascontiguousarray(features), np.asarray(rewards, np.float64)


def _with_users(graph: UserGraph | None, n: int) -> UserGraph:
    """Return the graph without its ids, extended to `n` users, of whom the new ones have no edges."""
    if graph is None:
        return graphs.empty(n)
    adjacency = graph.adjacency.copy()
    adjacency.resize((n, n))
    return UserGraph(adjacency)


def _as_table(X: Any) -> Any:
    """Return a DataFrame unchanged, and anything else as a two-dimensional array, which may contain names."""
    if hasattr(X, "columns"):
        return X
    array = X if hasattr(X, "dtype") else np.asarray(X, dtype=object)  # a list of names and numbers would become text
    return check_array(array, dtype=None, ensure_all_finite=False)


def _user_and_features(table: Any, user_column: int | str) -> tuple[Any, Any]:
    """Return the column of the users and a table of the other columns."""
    heads = list(table.columns) if hasattr(table, "columns") else list(range(table.shape[1]))
    at: Any = heads.index(user_column) if user_column in heads else user_column
    if not is_integer(at) or not -len(heads) <= at < len(heads):
        raise ValueError(f"user_column must be a column of X, {heads}, but it is {user_column!r}.")
    if not hasattr(table, "columns"):
        return table[:, at], np.delete(table, at, axis=1)
    others = [np.asarray(table[head]) for head in heads if head != heads[at]]
    return table[heads[at]], np.column_stack(others) if others else np.empty((len(table), 0))


def _names(column: Any) -> list[Hashable]:
    """Return the users of a column, or raise an error that names the first row without a user."""
    names: list[Any] = np.asarray(column).tolist()
    for row, name in enumerate(names):
        if name is None or (isinstance(name, float) and not isfinite(name)):
            raise ValueError(f"X must name a user in every row, but row {row} has {name} there; Input contains NaN or inf.")
        if not isinstance(name, Hashable):
            raise TypeError(
                f"a user argument must be hashable, such as a string or a number, but the one in row {row} is {name!r}."
            )
    return names
