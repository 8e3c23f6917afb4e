"""Answers of several shards as one: statistics, time series, metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

ADDED = ("decisions", "rewards", "duplicates", "decisions_per_second", "users", "edges", "events")
ADDED_TOO = ("total_decisions", "total_rewards")
SAME = ("policy", "shadow", "example", "evidence")
"""Taken from the first shard that says something: the evidence is made of sums that all shards have."""
MEANS = ("mean_reward", "regret_proxy")


def weighted_mean(values: Sequence[float | None], weights: Sequence[float]) -> float | None:
    """The mean of the values that there are; None if all weights are 0.

    Examples
    --------
    >>> weighted_mean([1.0, None, 4.0], [2, 0, 1])
    2.0
    """
    known = [(value, weight) for value, weight in zip(values, weights, strict=True) if value is not None and weight]
    total = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / total if total else None


def merge_stats(tables: Sequence[Mapping[str, Any]], own: Mapping[str, Any]) -> dict[str, Any]:
    """The statistics of all shards together. Latencies are those that clients of this ingress have seen.

    Parameters
    ----------
    tables : sequence of mappings
        What `/v1/stats` of each shard says.
    own : mapping
        The statistics of the ingress itself.
    """
    merged: dict[str, Any] = {"uptime": own["uptime"], "latency_ms": own["latency_ms"]}
    rewards = [table["rewards"] for table in tables]
    for name in (*ADDED, *ADDED_TOO):
        merged[name] = sum(table.get(name) or 0 for table in tables)
    for name in MEANS:
        merged[name] = weighted_mean([table[name] for table in tables], rewards)
    merged["arms"] = max((table.get("arms", 0) for table in tables), default=0)
    for name in SAME:
        merged[name] = next((table[name] for table in tables if table.get(name) is not None), None)
    for name in ("seconds", "minutes"):
        if name in own:
            merged[name] = merge_series([table[name] for table in tables if name in table], own[name])
    return merged


def merge_series(series: Sequence[Mapping[str, Any]], own: Mapping[str, Any]) -> dict[str, Any]:
    """Time series of shards as one, in the widest of their steps; latencies are those of `own`.

    Examples
    --------
    >>> def made(step, time, rewards, mean):
    ...     return dict(step=step, time=time, decisions=rewards, rewards=rewards, mean_reward=mean, regret_proxy=mean,
    ...                 latency_p50_ms=[1.0] * len(time), latency_p99_ms=[2.0] * len(time))
    >>> merged = merge_series([made(1, [7, 8], [1, 2], [4.0, 1.0]), made(1, [8], [2], [2.0])], made(1, [8], [0], [None]))
    >>> merged["time"], merged["rewards"], merged["mean_reward"], merged["latency_p99_ms"]
    ([7, 8], [1, 4], [4.0, 1.5], [None, 2.0])
    """
    step = max(table["step"] for table in (*series, own))
    places: dict[int, list[tuple[Mapping[str, Any], int]]] = {}
    for table in series:
        for place, time in enumerate(table["time"]):
            places.setdefault(time - time % step, []).append((table, place))
    latencies = {time - time % step: place for place, time in enumerate(own["time"])}
    times = sorted({*places, *latencies})

    def column(name: str, time: int) -> list[Any]:
        return [table[name][place] for table, place in places.get(time, ())]

    merged: dict[str, Any] = {"step": step, "time": times}
    for name in ("decisions", "rewards"):
        merged[name] = [sum(column(name, time)) for time in times]
    for name in MEANS:
        merged[name] = [weighted_mean(column(name, time), column("rewards", time)) for time in times]
    for name in ("latency_p50_ms", "latency_p99_ms"):
        merged[name] = [own[name][latencies[time]] if time in latencies else None for time in times]
    return merged


def merge_metrics(texts: Mapping[str, str], up: Mapping[str, bool]) -> bytes:
    """Metrics of several processes as one page for Prometheus: each sample gets the label `shard`.

    Parameters
    ----------
    texts : mapping
        Value of the label: a page of metrics.
    up : mapping
        Value of the label: whether that shard answers.

    Examples
    --------
    >>> page = "# HELP a Help." + chr(10) + "# TYPE a gauge" + chr(10) + "a 1.0" + chr(10)
    >>> print(merge_metrics({"0": page, "1": page}, {"0": True, "1": True}).decode().splitlines()[-2])
    a{shard="0"} 1.0
    """
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.core import GaugeMetricFamily, Metric
    from prometheus_client.parser import text_string_to_metric_families
    from prometheus_client.registry import Collector

    families: dict[str, Metric] = {}
    answering = GaugeMetricFamily("graphbandit_shard_up", "Whether a shard answers, 1 or 0.", labels=["shard"])
    for label, is_up in up.items():
        answering.add_metric([label], float(is_up))
    families[answering.name] = answering
    for label, text in texts.items():
        for found in text_string_to_metric_families(text):
            family = families.setdefault(found.name, Metric(found.name, found.documentation, found.type))
            family.samples += [sample._replace(labels={"shard": label, **sample.labels}) for sample in found.samples]

    class Merged(Collector):
        def collect(self) -> Iterator[Metric]:
            yield from families.values()

    registry = CollectorRegistry()
    registry.register(Merged())
    return generate_latest(registry)
