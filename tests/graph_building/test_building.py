"""`gb.graphs.build`: it finds what is there, says so when nothing is, and does not look ahead."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from graphbandit import graphs
from graphbandit.graph_building import BuiltGraph, user_sample
from graphbandit.graph_building.judging import Candidate, holm
from graphbandit.tables.edges import read_edge_list
from made_up_events import grouped_events, named, people, ring, unrelated_events

pytestmark = pytest.mark.compiled


@cache
def grouped() -> BuiltGraph:
    return graphs.build(grouped_events(), attributes=people(40), given=ring(40), neighbours=5)


@cache
def unrelated() -> BuiltGraph:
    events, items = unrelated_events(seed=1)
    return graphs.build(events, items=items, given=ring(40), attributes=people(40))


def test_groups_are_found() -> None:
    found = grouped()
    assert found.helps and found.chosen is not None and found.chosen is found.candidates[0]
    assert found.verdict.startswith(f"A graph helps here: {found.chosen.name} (") and "2,500" not in found.verdict
    edges = found.graph.adjacency.tocoo()
    group = np.array([int(str(name)[1:]) % 2 for name in found.graph.ids or ()])
    assert (group[edges.row] == group[edges.col]).mean() > 0.9
    assert {part.name for part in found.candidates} >= {"co-consumption", "behaviour", "tastes", "attributes", "given"}
    assert found.chosen.passes and found.chosen.p < 0.01 and len(found.chosen.shuffled) == 19


def test_who_took_what_says_nothing_about_these_groups() -> None:
    by_name = {candidate.name: candidate for candidate in grouped().candidates}
    assert by_name["given"].difference > by_name["co-consumption"].difference
    assert by_name["tastes"].difference > by_name["behaviour"].difference


def test_unrelated_users_get_no_graph() -> None:
    found = unrelated()
    assert not found.helps and found.chosen is None and found.graph.n_edges == 0 and found.graph.n_users == 40
    assert found.verdict.startswith("No graph helps here: the best of 6 candidates is ")


def test_later_events_change_no_candidate() -> None:
    columns = grouped_events(n=1200)
    rng = np.random.default_rng(5)
    late = slice(720, None)
    changed = dict(columns, item=list(columns["item"]), reward=columns["reward"].copy())
    changed["item"][late] = rng.permutation(changed["item"][late]).tolist()
    changed["reward"][late] = -3.0 * changed["reward"][late] + 9.0
    one, other = (graphs.build(events, attributes=people(40)) for events in (columns, changed))
    graph = {candidate.name: candidate.graph for candidate in other.candidates}
    assert [candidate.difference for candidate in one.candidates] != [candidate.difference for candidate in other.candidates]
    for candidate in one.candidates:
        if " + " not in candidate.name:  # which two are blended is decided by the later events
            assert abs(candidate.graph.adjacency - graph[candidate.name].adjacency).max() == 0


def test_the_same_seed_gives_the_same_answer() -> None:
    one, other = (graphs.build(grouped_events(n=800), neighbours=5) for _ in range(2))
    assert one.as_table() == other.as_table() and abs(one.graph.adjacency - other.graph.adjacency).max() == 0


def test_many_events_are_judged_on_a_sample_of_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_sample, "MOST_EVENTS", 1000)
    found = graphs.build(grouped_events(), given=ring(40), neighbours=5)
    assert 10 < len(found.judged_users) < 25 and found.graph.n_users == 40
    assert found.candidates[0].graph.n_users == len(found.judged_users)
    assert found.said[-1].startswith(f"Judged on {len(found.judged_users)} of 40 users, with all their events")


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
        title = "A graph helps here" if built.helps else "No graph helps here"
        assert title in (tmp_path / "graph.svg").read_text()


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
    assert not found.helps and "24 later events are too few to judge by" in found.verdict


def test_users_with_nothing_in_common() -> None:
    events = named(np.arange(90) % 3, np.arange(90) % 3, np.tile([0.0, 1.0, 2.0], 30), np.arange(90))
    assert not graphs.build(events).helps


def test_two_users_are_too_few() -> None:
    with pytest.raises(ValueError, match="three or more users, but there are 2"):
        graphs.build(grouped_events(n_users=2))
    with pytest.raises(ValueError, match="neighbours must be"):
        graphs.build(grouped_events(), neighbours=0)


def test_a_candidate_must_beat_both_none_and_its_shuffles() -> None:
    graph, shuffled = graphs.complete(3), tuple(float(k % 5) for k in range(19))
    assert Candidate("a", graph, 100, 18, 40.0, shuffled).p < 1e-6
    assert Candidate("a", graph, 100, 18, 3.0, tuple(value - 50 for value in shuffled)).p > 0.5  # 18 models, e^-3
    assert Candidate("a", graph, 100, 18, 40.0, tuple(value + 38 for value in shuffled)).p > 0.3
    assert Candidate("a", graph, 100, 18, 40.0).p == 1.0


def test_holm_corrects_for_the_number_of_candidates() -> None:
    assert holm({"a": 0.03, "b": 0.9, "c": 0.8}) == set()
    assert holm({"a": 0.01, "b": 0.02, "c": 0.8}) == {"a", "b"}
