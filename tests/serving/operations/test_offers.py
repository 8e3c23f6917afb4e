"""Decisions by a filter: short in the log, whole again when they are read."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from pyarrow import parquet

from graphbandit import graphs
from graphbandit.evaluation import read_export
from graphbandit.serving import EventStore, InitialState, RecommendationService, Request, replay_from_zero
from graphbandit.serving.domain import proposals
from graphbandit.serving.domain.events import DecisionRecord, encode, encode_record, parse_decisions
from graphbandit.serving.operations import export
from graphbandit.serving.operations.export import LoggedOffers
from serving_zoo import fingerprint, recommend, reward, running, small_initial_state


def opened(folder: Path, initial: InitialState | None = None) -> RecommendationService:
    return RecommendationService.open(EventStore(f"sqlite:///{folder}/state.db"), folder / "snapshots", initial)


def logged(service: RecommendationService) -> list[DecisionRecord]:
    bodies = [event.body for page in service.store.read() for event in page if event.kind == 1]
    return [decision for body in bodies for decision in parse_decisions(body)]


def offered(offers: LoggedOffers, decision: DecisionRecord) -> list[int]:
    found = offers.of(decision)
    return [] if found is None else [int(version) for version in found]


def test_a_decision_by_a_filter_takes_few_bytes_of_the_log_however_many_arms_match(tmp_path: Path) -> None:
    n = 20_000
    names = [f"arm-{k}" for k in range(n)]
    initial = InitialState(graphs.empty(2), names, np.ones((n, 2)), [{"topic": "news"}] * n, policy="linucb")
    service = opened(tmp_path, initial)
    service.recommend([Request("0", where={"topic": ["news"]}, exclude=["arm-7", "unheard-of"])])
    service.recommend([Request("0", exclude=["arm-3"])])
    sizes = [len(event.body) for page in service.store.read() for event in page]
    assert max(sizes) < 300
    first, second = logged(service)
    assert first.candidates is None and first.filter == {"where": {"topic": ["news"]}, "exclude": [7], "catalogue": 0}
    offers = LoggedOffers(service.state)
    for decision, left_out in ((first, 7), (second, 3)):
        np.testing.assert_array_equal(offers.of(decision), [k for k in range(n) if k != left_out])
    service.close()


def test_a_list_of_candidates_stays_a_list_and_all_arms_stay_nothing(tmp_path: Path) -> None:
    service = opened(tmp_path, small_initial_state())
    service.recommend(
        [Request("ann", ["tea", "50%"]), Request("ann"), Request("ann", ["tea", "50%"], where={"topic": ["hot"]})]
    )
    found = logged(service)
    assert [decision.candidates for decision in found] == [[0, 3], None, [0]]
    assert all(decision.filter is None for decision in found)
    service.close()


def test_the_arms_of_a_filter_are_those_of_its_time(tmp_path: Path) -> None:
    """Arms come, change and go between decisions; a snapshot and a replay in between change nothing."""
    service = opened(tmp_path, small_initial_state())
    expected: list[list[str]] = []
    hot = Request("ann", where={"topic": ["hot"]})

    def decide() -> None:
        state = service.state
        service.recommend([hot])
        expected.append(sorted(state.versions[v] + str(v) for v in state.resolve(hot).versions))

    decide()
    service.change(proposals.put_arm(service.state, "cocoa", [1.0, 1.0], {"topic": "hot"}))
    decide()
    service.change(proposals.delete_arm(service.state, "tea"))
    decide()
    service.close()  # writes a snapshot
    service = opened(tmp_path)
    service.change(proposals.put_arm(service.state, "tea", [0.0, 1.0], {"topic": "odd"}))
    decide()
    service.change(proposals.put_arm(service.state, "cocoa", [2.0, 1.0], {"topic": "hot"}))
    decide()
    for state in (service.state, replay_from_zero(service.store)):
        offers = LoggedOffers(state)
        found = [sorted(state.versions[v] + str(v) for v in offered(offers, decision)) for decision in logged(service)]
        assert found == expected
    assert fingerprint(service.state) == fingerprint(replay_from_zero(service.store))
    service.close()


def test_exports_and_evaluation_see_the_arms_of_a_filter(tmp_path: Path) -> None:
    with running(tmp_path, small_initial_state()) as server:
        reward(server, decision=recommend(server, where={"topic": ["hot"]})["decision"], value=1.0)
        server.http.put("/v1/arms/mint", json={"features": [1.0, 0.0], "attributes": {"topic": "hot"}}).raise_for_status()
        reward(server, decision=recommend(server, where={"topic": ["hot"]}, exclude=["coffee"])["decision"], value=1.0)
        for name in ("decisions", "rewards", "arms"):
            (tmp_path / f"{name}.parquet").write_bytes(server.http.get(f"/v1/export/{name}.parquet").content)
    candidates = parquet.read_table(tmp_path / "decisions.parquet").column("candidates").to_pylist()
    assert candidates == [[0, 1, 2], [0, 2, 5]]
    log = read_export(tmp_path)
    assert [log.offer(t).tolist() for t in range(2)] == candidates


def test_the_last_fields_of_a_record_that_are_none_are_not_written() -> None:
    short = [3, [1, 2], [1], [0.5], [0.25], 1.0, 0.5]
    [record] = parse_decisions(json.dumps([short]))
    assert encode([encode_record(record)]) == json.dumps([short], separators=(",", ":"))
    assert len(encode_record(record._replace(newcomer="zoe"))) == 8
    whole = record._replace(filter={"where": {}, "exclude": [], "catalogue": 3}, candidates=None)
    assert parse_decisions(encode([encode_record(whole)])) == [whole]


def test_a_page_of_decisions_by_filters_is_expanded(tmp_path: Path) -> None:
    service = opened(tmp_path, small_initial_state())
    service.recommend([Request("ann", where={"topic": ["odd"]}), Request("bob")])
    [page] = service.store.read()
    columns = export.decision_columns(service, LoggedOffers(service.state), export.decisions_of(page))
    one, everything = columns["candidates"]
    assert one.tolist() == [3, 4] and everything is None
    service.close()
