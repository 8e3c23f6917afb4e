"""Metrics for Prometheus."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from graphbandit.serving.operations.stats import GAUGES, Histogram, Stats
from graphbandit.storage import archive
from serving_zoo import Running, new_database, recommend, reward, running, small_initial_state
from waiting import wait_until

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def scraped(server: Running) -> Samples:
    """All samples, after checks of the text format: HELP, TYPE, and histograms that add up."""
    answer = server.http.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return parsed(answer.text)


def parsed(text: str) -> Samples:
    samples: Samples = {}
    described = {line.split()[2] for line in text.splitlines() if line.startswith("# HELP ")}
    typed = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE ")]
    assert len(typed) == len(set(typed)) and set(typed) == described
    for family in text_string_to_metric_families(text):
        assert family.documentation.endswith(".") and family.type in ("counter", "gauge", "histogram"), family
        if family.type == "histogram":
            check_histogram(family)
        for sample in family.samples:
            key = sample.name, tuple(sorted(sample.labels.items()))
            assert key not in samples
            samples[key] = sample.value
    return samples


def check_histogram(family: Any) -> None:
    whole: dict[tuple[tuple[str, str], ...], dict[str, Any]] = {}
    for sample in family.samples:
        labels = tuple(sorted((name, value) for name, value in sample.labels.items() if name != "le"))
        entry = whole.setdefault(labels, {"bucket": []})
        part = sample.name.removeprefix(family.name + "_")
        if part == "bucket":
            entry["bucket"].append((float(sample.labels["le"]), sample.value))
        else:
            entry[part] = sample.value
    for entry in whole.values():
        bounds, counts = zip(*entry["bucket"], strict=True)
        assert list(bounds) == sorted(bounds) and list(counts) == sorted(counts) and bounds[-1] == float("inf")
        assert entry["count"] == counts[-1] and entry["sum"] >= 0


def test_metrics_say_what_an_operator_asks(tmp_path: Path) -> None:
    with running(tmp_path, small_initial_state(), snapshot_every=3) as server:
        for _ in range(4):
            reward(server, decision=recommend(server)["decision"], value=1.0)
        server.http.put("/v1/users/new").raise_for_status()
        server.http.get("/v1/users/ann").raise_for_status()
        stats = server.async_service.stats
        wait_until(lambda: stats.snapshots and sum(stats.loop_delay.counts))
        found = scraped(server)
        size = (tmp_path / "state.db").stat().st_size

    def of(name: str, **labels: str) -> float:
        return found[f"graphbandit_{name}", tuple(sorted(labels.items()))]

    assert of("logged_events_total", kind="decided") == of("logged_events_total", kind="rewarded") == 4
    assert of("logged_events_total", kind="user_put") == 1
    assert of("commit_seconds_count") >= 2 and of("commit_seconds_sum") > 0
    assert of("request_seconds_count", route="/v1/rewards") == 4 and of("request_seconds_count", route="/v1/users") == 2
    assert of("snapshots_total") >= 1 and of("snapshot_failures_total") == 0 and 0 <= of("snapshot_age_seconds") < 3600
    assert 3 <= of("snapshot_event") <= of("events") == 9
    assert of("queue_events") == of("heavy_work") == 0 and of("store_bytes") >= size > 0
    assert of("loop_delay_seconds_count") >= 1
    assert of("ready") == 1 and (of("users"), of("arms")) == (6, 5)
    assert found["process_resident_memory_bytes", ()] > 10**7
    with running(tmp_path) as again:  # the age is that of the file
        assert ("graphbandit_snapshot_age_seconds", ()) in scraped(again)


def test_a_snapshot_that_cannot_be_written_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(archive, "write", full)
    with running(tmp_path, small_initial_state(), snapshot_every=1) as server:
        recommend(server)
        wait_until(lambda: scraped(server)["graphbandit_snapshot_failures_total", ()])
        found = scraped(server)
        assert ("graphbandit_snapshot_age_seconds", ()) not in found


def test_the_size_of_a_postgresql_store_is_that_of_its_database(tmp_path: Path, postgres: str) -> None:
    with running(tmp_path, small_initial_state(), store=new_database(postgres)) as server:
        assert scraped(server)["graphbandit_store_bytes", ()] > 10**6


def test_a_metric_can_be_read_before_anything_happened() -> None:
    stats = Stats()
    stats.refused["no_token"] += 1
    found = parsed(stats.prometheus().decode())
    assert found["graphbandit_refused_total", (("reason", "no_token"),)] == 1
    assert all(text.endswith(".") for text in GAUGES.values())


def test_a_stall_of_the_event_loop_is_seen(tmp_path: Path) -> None:
    with running(tmp_path, small_initial_state()) as server:
        loop = server.async_service.group_commit.loop
        delays = server.async_service.stats.loop_delay
        before = sum(delays.counts[-4:])
        loop.call_soon_threadsafe(time.sleep, 0.4)
        wait_until(lambda: sum(delays.counts[-4:]) > before)
    assert delays.total > 0.15


def test_a_duration_on_a_bound_is_within_it() -> None:
    spent = Histogram()
    spent.add(0.001)
    assert spent.counts[:3] == [0, 1, 0]
