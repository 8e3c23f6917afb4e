"""Columns are found by the names that people use, or said; doubt is an error that lists the choices."""

from __future__ import annotations

import pytest

from graphbandit.tables.columns import EDGES, EVENTS, ITEMS, PAIRS, USERS, find_roles, parse_columns


@pytest.mark.parametrize(
    ("head", "found"),
    [
        (["user", "arm", "reward"], ["user", "arm", "reward"]),
        (["UserID", "Artist-ID", "weight"], ["UserID", "Artist-ID", "weight"]),
        (["userId", "movieId", "movie", "rating", "timestamp"], ["userId", "movieId", "rating"]),
        (["customer", "SKU", "clicked", "click time"], ["customer", "SKU", "clicked"]),
        (["member", "article", "y"], ["member", "article", "y"]),
        (["user", "user_id", "item", "action", "reward", "rating"], ["user", "item", "reward"]),
        (["visitor_id", "product", "value", "count"], ["visitor_id", "product", "value"]),
    ],
)
def test_columns_of_events_are_found(head: list[str], found: list[str]) -> None:
    positions = find_roles("log.csv", head, EVENTS, None).positions
    assert [head[positions[role]] for role in ("user", "item", "reward")] == found


@pytest.mark.parametrize("pair", PAIRS)
def test_ends_of_edges_are_found(pair: tuple[str, str]) -> None:
    head = ["since", pair[1].upper(), "Weight", pair[0].title()]
    positions = find_roles("edges.csv", head, EDGES, None).positions
    assert positions == {"user": 3, "friend": 1, "weight": 2}


def test_ids_of_users_and_items_are_found() -> None:
    assert find_roles("items.csv", ["title", "id"], ITEMS, None).positions == {"item": 1}
    assert find_roles("users.csv", ["id", "age"], USERS, None).positions == {"user": 0}


@pytest.mark.parametrize(
    ("head", "choices"),
    [
        (["customer", "member", "item", "reward"], "several columns could be user: customer, member;"),
        (["user", "item", "rating", "click"], "several columns could be reward: rating, click;"),
        (["user", "item", "arm", "reward"], "several columns could be item: item, arm;"),
    ],
)
def test_doubt_is_an_error_that_lists_the_choices(head: list[str], choices: str) -> None:
    with pytest.raises(ValueError) as error:
        find_roles("log.csv, line 1", head, EVENTS, None)
    role = choices.split(":")[0].split()[-1]
    assert f"log.csv, line 1: {choices} say which one it is: --columns {role}=NAME" in str(error.value)
    said = {role: head[1] if role != "reward" else head[3]}
    assert head[find_roles("log.csv", head, EVENTS, said).positions[role]] == said[role]


def test_two_pairs_are_doubtful_unless_they_are_user_and_friend() -> None:
    with pytest.raises(ValueError, match="several columns could be user and friend: source and target, from and to;"):
        find_roles("edges.csv", ["from", "to", "source", "target"], EDGES, None)
    assert find_roles("edges.csv", ["from", "to", "user", "friend"], EDGES, None).positions == {"user": 2, "friend": 3}
    said = {"user": "from", "friend": "to"}
    assert find_roles("edges.csv", ["from", "to", "source", "target"], EDGES, said).positions == {"user": 0, "friend": 1}


def test_what_is_said_about_columns_must_be_true() -> None:
    head = ["uid", "sku", "win", "x0"]
    said = {"user": "uid", "arm": "sku", "reward": "win"}
    assert find_roles("log.csv", head, EVENTS, said).positions == {"user": 0, "item": 1, "reward": 2}
    assert find_roles("log.csv", head, EVENTS, said).said == ()
    for columns, message in (
        ({"user": "nobody"}, "log.csv: the column nobody, which columns names, is missing; there are uid, sku, win, x0."),
        ({"friend": "uid"}, "columns names the role 'friend', which events do not have; there are user, item, reward"),
        (
            {},
            "the column reward is missing; there are uid, sku, win, x0. If it is there, say which one it is: --columns reward=",
        ),
    ):
        with pytest.raises(ValueError) as error:
            find_roles("log.csv", head, EVENTS, columns)
        assert message in str(error.value)


def test_the_option_columns() -> None:
    assert parse_columns(" user = uid, arm=sku ,") == {"user": "uid", "item": "sku"} and parse_columns(None) == {}
    assert parse_columns("item=sku,user=uid,arm=url") == {"item": ("sku", "url"), "user": "uid"}
    for text in ("user", "user=", "=uid", "wife=uid"):
        with pytest.raises(ValueError, match="must be ROLE=COLUMN, as in user=uid,item=sku; roles are user, friend, item"):
            parse_columns(text)


def test_a_reward_may_be_optional() -> None:
    assert find_roles("log.csv", ["user", "item"], EVENTS.allow_missing("reward"), None).positions == {"user": 0, "item": 1}
