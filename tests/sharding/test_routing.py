from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphbandit.sharding import routing
from graphbandit.sharding.routing import Router, name_hash


def test_the_hash_of_a_name_never_changes() -> None:
    assert name_hash("ann") == 10176691957563388837
    assert name_hash("zoë") % 7 == Router({}, 7).shard_of("zoë")


@given(st.dictionaries(st.text(), st.integers(0, 4)), st.text())
def test_a_router_says_what_the_partition_says_and_is_the_same_after_a_file(placed: dict[str, int], other: str) -> None:
    router = Router(placed, 5)
    again = Router.from_table(json.loads(json.dumps(router.as_table())))
    for name in [*placed, other]:
        assert router.shard_of(name) == again.shard_of(name) == placed.get(name, name_hash(name) % 5)


def test_names_with_the_same_hash_are_kept_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "name_hash", lambda name: len(name))
    router = Router({"ann": 0, "bob": 1, "zoë": 1, "carl": 1}, 2)
    again = Router.from_table(router.as_table())
    assert [again.shard_of(name) for name in ("ann", "bob", "zoë", "carl", "eve", "five")] == [0, 1, 1, 1, 1, 1]


def test_a_shard_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="'bob' is in shard 2"):
        Router({"ann": 0, "bob": 2}, 2)
    with pytest.raises(ValueError, match="n_shards"):
        Router({}, 0)
