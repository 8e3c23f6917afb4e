"""The states of shards without processes: events, deliveries in any order, clocks that differ, replays at any moment."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from graphbandit.serving.domain import shard_proposals
from graphbandit.serving.domain.correspondence import Correspondence, Origin, Stamp
from graphbandit.serving.domain.events import Draft, Event, EventKind, encode
from graphbandit.serving.domain.initial_state import InitialState
from graphbandit.serving.domain.packing import digest
from graphbandit.serving.domain.shard_initial import divided
from graphbandit.serving.domain.shard_recommender import ShardRecommender, new_state, unpacked_state
from graphbandit.sharding import decode_values, encode_values
from shard_service_zoo import PEOPLE, home_of, whole_state


class Log:
    """A shard without a service: a log and the state that it leads to. Its clock is wrong by `skew`."""

    def __init__(self, initial: InitialState, skew: int) -> None:
        self.initial, self.skew = initial, skew
        self.events: list[Event] = []
        self.state = self._new()

    def _new(self) -> ShardRecommender:
        found = new_state(self.initial)
        assert isinstance(found, ShardRecommender)
        return found

    def write(self, draft: Draft, now: int) -> None:
        """Log an event and apply it."""
        if draft.key is not None and any(event.key == draft.key for event in self.events):
            return
        event = Event(len(self.events) + 1, draft.kind, now + self.skew, draft.body, draft.key)
        self.events.append(event)
        self.state.apply([event])

    def replayed(self, page: int) -> ShardRecommender:
        """The state that the log leads to, applied in pages."""
        fresh = self._new()
        for start in range(0, len(self.events), page):
            fresh.apply(self.events[start : start + page])
        return fresh

    def crash(self, page: int) -> None:
        """Go on from a snapshot of a replay."""
        header, arrays = self.replayed(page).pack()
        found = unpacked_state(self.initial.policy_class, header, arrays)
        assert isinstance(found, ShardRecommender)
        assert digest(*found.pack()) == digest(*self.state.pack())
        found.begin_epoch(self.state.shard.epoch + 1)
        self.state = found

    @property
    def hash(self) -> str:
        return digest(*self.state.pack())


def deliver(logs: list[Log], origin: int, to: int, number: int, change: dict[str, Any], now: int) -> list[str]:
    where = Origin(origin, "e", number)
    if logs[to].state.correspondence.is_new(where):
        logs[to].write(shard_proposals.received(where, change).draft, now)
    return logs[to].state.correspondence.refused(where)


def flush(logs: list[Log], now: int) -> None:
    """Deliver everything."""
    while any(log.state.correspondence.outbox for log in logs):
        for origin, log in enumerate(logs):
            for to in range(len(logs)):
                for number, change in log.state.correspondence.undelivered(to)[:1]:
                    refused = deliver(logs, origin, to, number, change, now)
                    log.write(shard_proposals.delivered(number, to, refused).draft, now)


def agreed_edges(logs: list[Log]) -> dict[tuple[str, str], float]:
    found: dict[tuple[str, str], dict[str, float]] = {}
    for log in logs:
        state = log.state
        for name, row in state.rows.items():
            for other, weight in state.edges(row):
                pair = (min(name, state.names[other]), max(name, state.names[other]))
                found.setdefault(pair, {})[name] = weight
    for pair, weights in found.items():
        assert set(weights) == set(pair) and len(set(weights.values())) == 1, (pair, weights)
    return {pair: min(weights.values()) for pair, weights in found.items()}


def request(state: ShardRecommender, draws: random.Random, names: list[str]) -> Draft | None:
    """A change that somebody asks a shard for."""
    mine = [name for name in names if home_of(name) == state.number]
    a, b = draws.choice(mine), draws.choice(names)
    home, kind = home_of(b), draws.random()
    if kind < 0.2 and a in state.rows:
        return Draft(EventKind.USER_DELETED, 0, encode({"user": a}))
    if kind < 0.4:
        other = {} if a == b or home == state.number else {b: 2.0}
        return shard_proposals.put_user_across(state, a, other, {name: home for name in other}).draft
    if a == b or home == state.number or a not in state.rows:
        return None
    if kind < 0.85:
        return shard_proposals.put_edge_across(state, a, b, float(draws.randint(1, 9)), home).draft
    return Draft(EventKind.EDGE_DELETED, 0, encode({"a": a, "b": b, "to": home}))


@pytest.mark.parametrize("seed", range(40))
def test_shards_agree_about_every_edge_whatever_order_they_hear_of_changes(seed: int) -> None:
    draws = random.Random(seed)
    logs = [Log(initial, draws.choice([-50, 0, 50])) for initial in shards()]
    names, late = [*PEOPLE[:3], "new"], list[tuple[int, int, int, dict[str, Any]]]()
    for now in range(100, 220):
        number = draws.randrange(3)
        state, chance = logs[number].state, draws.random()
        if chance < 0.5:
            draft = request(state, draws, names)
            if draft is not None:
                logs[number].write(draft, now)
        elif chance < 0.9:  # something of the outbox arrives; perhaps nobody hears of that
            to = draws.randrange(3)
            for event, change in state.correspondence.undelivered(to)[:1]:
                refused = deliver(logs, number, to, event, change, now)
                late.append((number, to, event, change))
                if draws.random() < 0.7:
                    logs[number].write(shard_proposals.delivered(event, to, refused).draft, now)
        elif chance < 0.95 and late:
            origin, to, event, change = draws.choice(late)
            deliver(logs, origin, to, event, change, now)
        else:
            logs[number].crash(draws.randint(1, 20))
    flush(logs, 300)
    agreed_edges(logs)
    for log in logs:
        assert digest(*log.replayed(draws.randint(1, 50)).pack()) == log.hash


def shards() -> list[InitialState]:
    return divided(whole_state("linucb"), np.array([home_of(name) for name in PEOPLE]), 3)


def test_of_two_changes_of_an_edge_at_the_same_time_both_shards_keep_the_same_one() -> None:
    logs = [Log(initial, skew) for initial, skew in zip(shards(), (0, 0, 40), strict=True)]
    logs[0].write(shard_proposals.put_edge_across(logs[0].state, "ann", "eve", 2.0, 2).draft, 100)
    logs[2].write(shard_proposals.put_edge_across(logs[2].state, "eve", "ann", 5.0, 0).draft, 90)
    flush(logs, 200)
    assert agreed_edges(logs)["ann", "eve"] == 5.0
    logs[0].write(shard_proposals.put_edge_across(logs[0].state, "ann", "eve", 3.0, 2).draft, 101)  # later, by an early clock
    flush(logs, 200)
    assert agreed_edges(logs)["ann", "eve"] == 3.0


def test_an_edge_to_somebody_who_was_deleted_and_came_back_is_in_both_or_in_neither() -> None:
    for skew in (-1000, 1000):
        logs = [Log(initial, made) for initial, made in zip(shards(), (skew, 0, 0), strict=True)]
        logs[0].write(shard_proposals.put_edge_across(logs[0].state, "ann", "eve", 2.0, 2).draft, 2000)
        logs[2].write(Draft(EventKind.USER_DELETED, 0, encode({"user": "eve"})), 2001)
        logs[2].write(Draft(EventKind.USER_PUT, 0, encode({"user": "eve", "edges": {}})), 2002)
        flush(logs, 2100)
        assert (("ann", "eve") in agreed_edges(logs)) == (skew > 0)


def test_values_of_somebody_who_becomes_a_neighbour_a_moment_later_are_told_again() -> None:
    whole = whole_state("graphucb-local")
    logs = [Log(initial, 0) for initial in divided(whole, np.array([home_of(name) for name in PEOPLE]), 3)]
    logs[2].write(Draft(EventKind.USER_PUT, 0, encode({"user": "bbb", "edges": {}})), 0)
    logs[2].write(Draft(EventKind.REWARDED, 0, encode([5, 0, 0, 3.0, logs[2].state.rows["bbb"], 0]), "r5.0.0"), 1)
    logs[2].write(shard_proposals.put_edge_across(logs[2].state, "bbb", "ann", 1.0, 0).draft, 2)

    def exchange() -> None:
        asked = logs[0].state.shard.asks(2)
        values = logs[2].state.shard.values_for(0, *asked)
        logs[0].write(shard_proposals.values_taken(encode_values(values)).draft, 3)

    exchange()  # before it has the edge
    flush(logs, 4)
    assert not logs[0].state.inner.estimates(np.array([0])).any()
    exchange()
    assert logs[0].state.inner.estimates(np.array([0])).any()
    assert digest(*logs[0].replayed(1).pack()) == logs[0].hash
    assert decode_values(logs[0].events[-1].body).source == 2


def test_a_correspondence_survives_its_table() -> None:
    found = Correspondence(1)
    found.send(7, 2, {"kind": "gone", "user": "ann", "stamp": [3, 1]})
    found.edges["ann", "bob"], found.deleted["eve"] = Stamp(5, 0), Stamp(6, 1)
    found.receive(Origin(0, "abc", 9), ["joe"])
    again = Correspondence.from_table(1, found.table())
    assert again.table() == found.table()
    assert again.refused(Origin(0, "abc", 9)) == ["joe"] and again.refused(Origin(0, "abd", 9)) == []
    assert not again.is_new(Origin(0, "abc", 9)) and again.is_new(Origin(0, "abd", 3))
    assert again.settle(7, 2) is not None and again.settle(7, 2) is None and again.outbox == {}
