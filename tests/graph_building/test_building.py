"""`gb.graphs.build`: it finds what is there, says so when nothing is, and does not look ahead."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from graphbandit import graphs
from graphbandit.diagnose import judge
from graphbandit.graph_building import BuiltGraph, building
from graphbandit.tables.edges import read_edge_list
from made_up_events import grouped_events, named, people, ring, unrelated_events

pytestmark = pytest.mark.compiled


@cache
def grouped() -> BuiltGraph:
    return graphs.build(grouped_events(n=600), attributes=people(40), given=ring(40), neighbours=5)


@cache
def unrelated() -> BuiltGraph:
    events, items = unrelated_events(seed=1)
    return graphs.build(events, items=items, given=ring(40), attributes=people(40))


def test_groups_are_found() -> None:
    found = grouped()
    assert found.helps and found.chosen is not None and found.chosen is found.candidates[0]
    assert found.sentence.startswith("Yes, the graph helps") and repr(found.chosen.name) in found.sentence
    edges = found.graph.adjacency.tocoo()
    group = np.array([int(str(name)[1:]) % 2 for name in found.graph.ids or ()])
    assert (group[edges.row] == group[edges.col]).mean() > 0.9
    assert {part.name for part in found.candidates} >= {"co-consumption", "behaviour", "tastes", "attributes", "given"}
    assert found.verdict.low > 0 and len(found.verdict.shuffled) == 19 and found.verdict.n_tried == 6


def test_who_took_what_says_nothing_about_these_groups() -> None:
    by_name = {candidate.name: candidate for candidate in grouped().candidates}
    assert by_name["given"].gain > by_name["co-consumption"].gain
    assert by_name["tastes"].gain > by_name["behaviour"].gain


def test_unrelated_users_get_no_graph() -> None:
    found = unrelated()
    assert not found.helps and found.chosen is None and found.graph.n_edges == 0 and found.graph.n_users == 40
    assert found.verdict.answer in ("no", "not clear") and "(6 graphs were tried)" in found.sentence


def test_later_events_change_no_candidate() -> None:
    columns = grouped_events(n=1200)
    rng = np.random.default_rng(5)
    late = slice(720, None)
    changed = dict(columns, item=list(columns["item"]), reward=columns["reward"].copy())
    changed["item"][late] = rng.permutation(changed["item"][late]).tolist()
    changed["reward"][late] = -3.0 * changed["reward"][late] + 9.0
    one, other = (graphs.build(events, attributes=people(40)) for events in (columns, changed))
    graph = {candidate.name: candidate.graph for candidate in other.candidates}
    assert [candidate.gain for candidate in one.candidates] != [candidate.gain for candidate in other.candidates]
    for candidate in one.candidates:
        if " + " not in candidate.name:  # which two are blended is decided by the later events
            assert abs(candidate.graph.adjacency - graph[candidate.name].adjacency).max() == 0


def test_the_same_seed_gives_the_same_answer() -> None:
    one, other = (graphs.build(grouped_events(n=800), neighbours=5) for _ in range(2))
    assert one.as_table() == other.as_table() and abs(one.graph.adjacency - other.graph.adjacency).max() == 0


def test_many_users_are_judged_by_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "users_to_judge", lambda given, n, seed: judge.users_to_judge(given, n, seed, 16))
    found = graphs.build(grouped_events(), given=ring(40), neighbours=5)
    assert len(found.judged_users) == found.candidates[0].graph.n_users == 16 and found.graph.n_users == 40
    assert found.said[-1].startswith("Judged on 16 of 40 users, with all their events")


def test_what_is_written_can_be_read(tmp_path: Path) -> None:
    found = grouped()
    found.write(tmp_path / "edges.parquet")
    edges = read_edge_list(tmp_path / "edges.parquet")
    assert len(edges.pairs) == found.graph.n_edges and set(edges.ids) <= set(found.graph.ids or ())
    json.dumps(found.as_table(), allow_nan=False)


def test_the_picture_is_written_in_both_formats(tmp_path: Path) -> None:
    for built in (grouped(), unrelated()):
        built.picture(tmp_path / "graph.png")
        built.picture(tmp_path / "graph.svg")
        assert (tmp_path / "graph.png").read_bytes()[:4] == b"\x89PNG"
        assert built.verdict.title in (tmp_path / "graph.svg").read_text()


def test_the_text_lists_all_candidates() -> None:
    text = str(grouped())
    assert all(candidate.name in text for candidate in grouped().candidates) and " *" in text
    assert "Split in order of time" in text


def test_progress_goes_from_0_to_1() -> None:
    seen: list[float] = []
    graphs.build(grouped_events(n=400), progress=lambda done, note: seen.append(done))
    assert seen[0] == 0.0 and seen[-1] == 1.0 and seen == sorted(seen)


def test_few_events_are_too_few() -> None:
    found = graphs.build(grouped_events(n=60, n_users=5))
    assert not found.helps and "24 later rewards of 5 users are too few to judge" in found.sentence


def test_users_with_nothing_in_common() -> None:
    events = named(np.arange(90) % 3, np.arange(90) % 3, np.tile([0.0, 1.0, 2.0], 30), np.arange(90))
    assert not graphs.build(events).helps


def test_two_users_are_too_few() -> None:
    with pytest.raises(ValueError, match="three or more users, but there are 2"):
        graphs.build(grouped_events(n_users=2))
    with pytest.raises(ValueError, match="neighbours must be"):
        graphs.build(grouped_events(), neighbours=0)
