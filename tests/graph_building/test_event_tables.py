"""Input of `build`: users have one number in all tables."""

from __future__ import annotations

import numpy as np
import pytest

from graphbandit import graphs
from graphbandit.graph_building.events import column_vectors, read_inputs
from graphbandit.tables import USERS, read_table
from made_up_events import grouped_events, people, ring


def test_users_of_all_tables_have_one_number() -> None:
    events = {"user": ["b", "a", "b"], "item": ["x", "y", "z"]}
    found = read_inputs(
        events,
        {"user": ["c", "a"], "age": [1, 3]},
        {"user": ["d"], "friend": ["b"]},
        {"item": ["y"], "size": [1]} | {"item": ["y", "z"], "size": [1, 2]},
    )
    assert found.user_ids == ["b", "a", "d", "c"] and found.events.reward is None
    assert found.given is not None and np.argwhere(found.given.toarray()).tolist() == [[0, 2], [2, 0]]
    assert found.attributes is not None and np.isnan(found.attributes).ravel().tolist() == [True, False, True, False]
    assert found.items is not None and found.items.ravel().tolist() == [0.0, -1.0, 1.0]


def test_a_user_graph_may_be_given() -> None:
    graph = graphs.from_edges([("u0", "u2"), ("u2", "new")])
    found = read_inputs(grouped_events(n=50), None, graph, None)
    assert found.user_ids[-1] == "new" and found.given is not None and found.given.nnz == 4


def test_columns_become_standardised_numbers_and_frequent_levels() -> None:
    table = read_table(
        {"user": list("abcdef"), "age": [1, 1, 1, 3, 3, None], "town": ["x", "x", "y", "y", "z", None], "k": [7] * 6}, USERS
    )
    vectors = column_vectors(table)
    assert vectors.shape == (6, 3)  # age, x, y: z is the level of one user, and k tells nobody apart
    assert vectors[5].tolist() == [0.0, 0.0, 0.0] and vectors[:, 1].tolist() == [1, 1, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(attributes={"user": ["zoe"], "age": [1]}), "no column of numbers or of categories"),
        (dict(attributes={"user": ["u1", "u1"], "age": [1, 2]}), "'u1' is there already"),
        (dict(items={"item": ["p", "q"], "size": [1, 2]}), "none of its items is in the events; are these the same ids"),
        (dict(given={"user": ["p"], "friend": ["q"]}), "none of its users is in the log"),
    ],
)
def test_errors_name_the_table(arguments: dict[str, object], message: str) -> None:
    options: dict[str, object] = dict(attributes=None, given=None, items=None) | arguments
    with pytest.raises(ValueError, match=message):
        read_inputs(grouped_events(n=200), **options)


def test_made_up_tables_can_be_read() -> None:
    found = read_inputs(grouped_events(), people(40), ring(40), None)
    assert len(found.user_ids) == 40 and found.attributes is not None and found.attributes.shape == (40, 3)
