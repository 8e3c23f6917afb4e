"""Statistics since the start of the process: counters, time series and latencies, for the page and for Prometheus."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from operator import add
from typing import Any

import numpy as np
import numpy.typing as npt
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from ...compute.arrays import Floats, Ints
from ..domain.events import Event, EventKind

PROMETHEUS_BOUNDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0)
"""Upper bounds, in seconds."""
GAUGES = {
    "ready": "Whether requests are answered, 1 or 0.",
    "users": "Users that are known.",
    "arms": "Arms that are offered.",
    "events": "Number of the last event that has been applied.",
    "queue_events": "Events that wait to be written.",
    "backlog_events": "Events in the log that are known to this process and not applied yet.",
    "state_differs": "1 if the state was not that of most processes after the same event, at the last comparison; else 0.",
    "heavy_work": "Decisions times arms of large requests that wait.",
    "store_bytes": "Size of the store.",
    "snapshot_age_seconds": "Seconds since the newest snapshot.",
    "snapshot_event": "Number of the last event of the newest snapshot.",
    "experiment_difference": "Treatment less control in reward per decision.",
    "experiment_low": "Lower end of the interval for that difference, which holds at all times at once.",
    "experiment_high": "Upper end of the interval.",
}
"""Name: help."""
LATENCY_BOUNDS = sorted({*PROMETHEUS_BOUNDS, *np.geomspace(5e-5, 60.0, 78).tolist()})
"""Upper bounds of our own histogram: each at most a fifth above the one before, and those of
Prometheus among them."""
STEP_SECONDS = (1, 2, 5, 10, 30, 60, 120, 180, 300, 600, 1800, 3600, 7200, 14400, 28800)
"""Seconds that one point of a curve may stand for."""
DECISIONS, REWARDS, TOTAL, SHORTFALL = range(4)
Counts = npt.NDArray[np.int32]


class Histogram:
    """Counts of durations. Adding costs less than a microsecond.

    >>> spent = Histogram()
    >>> spent.add(0.003)
    >>> spent.add(7.0)
    >>> spent.total, spent.cumulative()[-2:]
    (7.003, [1, 2])
    """

    def __init__(self) -> None:
        self.counts = [0] * (len(PROMETHEUS_BOUNDS) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        """Count a duration."""
        self.counts[bisect_left(PROMETHEUS_BOUNDS, seconds)] += 1
        self.total += seconds

    def cumulative(self) -> list[int]:
        """Return the number of durations up to each bound; the last number counts all of them."""
        return list(accumulate(self.counts))


class TimeSeries:
    """Sums and latency histograms of the last `size` steps of `step` seconds, in a ring buffer."""

    def __init__(self, step: int, size: int) -> None:
        self.step, self.size = step, size
        self._sums = [[0.0] * 4 for _ in range(size)]
        self._times = np.zeros((size, len(LATENCY_BOUNDS) + 1), dtype=np.int32)  # histogram of latencies
        self._slot = [-1] * size  # which step of time a row is about

    def at(self, moment: float) -> list[float]:
        """Return the sums of the step of this moment, to which the caller adds."""
        slot = int(moment) // self.step
        place = slot % self.size
        if self._slot[place] != slot:
            self._slot[place], self._sums[place] = slot, [0.0] * 4
            self._times[place] = 0
        return self._sums[place]

    def add_latencies(self, moment: float, counts: Counts) -> None:
        """Add a histogram to the step of this moment, unless the step has left the buffer."""
        slot = int(moment) // self.step
        place = slot % self.size
        if self._slot[place] <= slot:
            self.at(moment)
            self._times[place] += counts

    def steps(self, at: float) -> tuple[Ints, Floats, Counts]:
        """Return the steps up to a moment, oldest first, with their sums and histograms."""
        now = int(at) // self.step
        held = np.array(self._slot)
        slots = np.arange(max(now - self.size + 1, int(held[held >= 0].min(initial=now))), now + 1)
        places = slots % self.size
        there = (held[places] == slots)[:, None]
        return slots, np.array(self._sums)[places] * there, self._times[places] * there

    def table(self, at: float, points: int | None = None) -> dict[str, Any]:
        """Return columns, oldest step first; means and percentiles are None where nothing was counted.

        With `points`, steps are merged until there are at most this many, and incomplete ones are left out.
        """
        (slots, sums, times), step = self.steps(at), self.step
        if points is not None:
            step = next((w for w in STEP_SECONDS if w % step == 0 and len(slots) * step <= w * points), STEP_SECONDS[-1])
            slots, starts, sizes = np.unique(slots * self.step // step, return_index=True, return_counts=True)
            whole = sizes * self.step == step
            whole[-1] = len(slots) == 1  # it has not ended
            slots, sums, times = slots[whole], np.add.reduceat(sums, starts)[whole], np.add.reduceat(times, starts)[whole]
        counts = sums[:, REWARDS]
        requests, (half, most) = times.sum(axis=1), percentiles(times, (50, 99)).round(3)
        return {
            "step": step,
            "time": (slots * step).tolist(),
            "decisions": sums[:, DECISIONS].astype(int).tolist(),
            "rewards": counts.astype(int).tolist(),
            "mean_reward": none_where_empty(sums[:, TOTAL] / np.maximum(counts, 1), counts),
            "regret_proxy": none_where_empty(sums[:, SHORTFALL] / np.maximum(counts, 1), counts),
            "latency_p50_ms": none_where_empty(half, requests),
            "latency_p99_ms": none_where_empty(most, requests),
        }


def percentiles(counts: Counts, shares: Sequence[int]) -> Floats:
    """Return (shares, rows) percentiles of the histogram in each row, in milliseconds, interpolated between two bounds.

    >>> counts = np.zeros((1, len(LATENCY_BOUNDS) + 1), dtype=np.int32)
    >>> counts[0, LATENCY_BOUNDS.index(0.002)] = 10  # ten requests that took 1.9 to 2 ms
    >>> percentiles(counts, (50, 100)).round(2)
    array([[1.95],
           [2.  ]])
    """
    below, rows = np.cumsum(counts, axis=1), np.arange(len(counts))
    lows = np.array([0.0, *LATENCY_BOUNDS])
    highs = np.array([*LATENCY_BOUNDS, LATENCY_BOUNDS[-1]])  # more than a minute counts as one
    found = np.empty((len(shares), len(counts)))
    for k, share in enumerate(shares):
        rank = share * below[:, -1]  # in hundredths of a request: integers, which are compared exactly
        place = (below < -(-rank // 100)[:, None]).sum(axis=1)
        part = 1 - (below[rows, place] - rank / 100) / np.maximum(counts[rows, place], 1)
        found[k] = 1e3 * (lows[place] + part * (highs[place] - lows[place]))
    return found


def none_where_empty(values: Floats, counts: npt.NDArray[Any]) -> list[float | None]:
    """Return the values, with None where nothing was counted."""
    return [value if n else None for value, n in zip(values.tolist(), counts.tolist(), strict=True)]


def counter_metric(name: str, text: str, labels: Sequence[str], counts: Iterable[Any]) -> CounterMetricFamily:
    """Return pairs (values of the labels, count) as one metric."""
    found = CounterMetricFamily(name, text, labels=labels)
    for values, n in counts:
        found.add_metric(values, n)
    return found


def histogram_metric(
    name: str, text: str, histograms: Mapping[str, Histogram], label: str | None = None
) -> HistogramMetricFamily:
    """Return histograms as one metric, with a value of the label for each, or without a label for a single one."""
    found = HistogramMetricFamily(name, text, labels=[] if label is None else [label])
    for value, histogram in histograms.items():
        counts = zip((*map(str, PROMETHEUS_BOUNDS), "+Inf"), histogram.cumulative(), strict=True)
        found.add_metric([] if label is None else [value], list(counts), histogram.total)
    return found


class Stats(Collector):
    """Statistics of a process; only the event loop counts, so there are no locks."""

    def __init__(self) -> None:
        self.started = time.time()
        self.requests: Counter[tuple[str, int]] = Counter()  # (route, status)
        self.refused: Counter[str] = Counter()  # why: tokens, connections
        self.decisions = self.rewards = self.duplicates = 0
        self.total = self.shortfall = 0.0
        self.seconds, self.minutes = TimeSeries(1, 600), TimeSeries(60, 1440)
        self._second = int(self.started)  # counted apart from the series, since this is done for every request
        self._times = [0] * (len(LATENCY_BOUNDS) + 1)
        self.routes: defaultdict[str, Histogram] = defaultdict(Histogram)  # latency of each
        self.commits, self.loop_delay = Histogram(), Histogram()
        self.events: Counter[EventKind] = Counter()
        self.snapshots = self.failed_snapshots = 0
        self.snapshot_at: float | None = None  # when the newest snapshot was written
        self.gauges: dict[str, float] = {}
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)  # memory, processor time, open files

    def count_request(self, route: str, status: int, seconds: float) -> None:
        """Count a request that has been answered."""
        second = int(time.time())
        if second != self._second:
            self._next_second(second)
        self.requests[route, status] += 1
        self._times[bisect_left(LATENCY_BOUNDS, seconds)] += 1
        self.routes[route].add(seconds)

    def _next_second(self, second: int) -> None:
        """Add the counts of the last second to the series, and begin this second."""
        counts = np.array(self._times, dtype=np.int32)
        for series in (self.seconds, self.minutes):
            series.add_latencies(self._second, counts)
        self._second, self._times = second, [0] * len(counts)

    def count_events(self, events: Sequence[Event]) -> None:
        """Count events that have been applied."""
        self.events.update([event.kind for event in events])

    def count_snapshot(self, written: bool, at: float | None = None) -> None:
        """Count a snapshot that was written, now or at another time, or that failed."""
        self.snapshots += written and at is None
        self.failed_snapshots += not written
        if written:
            self.snapshot_at = at or time.time()

    def count_decisions(self, n: int) -> None:
        """Count decisions that are new in the log."""
        self.decisions += n
        self._add_to_series(n, 0, 0.0, 0.0)

    def count_rewards(self, rewards: Sequence[tuple[float, float]], duplicates: int = 0) -> None:
        """Count rewards that are new in the log, and duplicates.

        A new reward is a pair: its value, and the largest expected reward among the candidates of its decision.
        """
        self.duplicates += duplicates
        if not rewards:
            return
        total = sum(value for value, _ in rewards)
        shortfall = sum(best for _, best in rewards) - total
        self.rewards += len(rewards)
        self.total += total
        self.shortfall += shortfall
        self._add_to_series(0, len(rewards), total, shortfall)

    def _add_to_series(self, *sums: float) -> None:
        """Add decisions, rewards, their total and shortfall to the present step of both series."""
        now = time.time()
        for held in (self.seconds.at(now), self.minutes.at(now)):
            held[:] = map(add, held, sums)

    def table(self, series: str | None = None, points: int | None = None) -> dict[str, Any]:
        """Return everything as JSON values, with the series "seconds", "minutes" or both."""
        at = time.time()
        self._next_second(int(at))
        _, recent, times = self.seconds.steps(at)
        shares = percentiles(times.sum(axis=0)[None], (50, 95, 99))[:, 0].round(3)
        both = {"seconds": self.seconds, "minutes": self.minutes}
        return {
            "uptime": round(at - self.started, 1),
            "decisions": self.decisions,
            "rewards": self.rewards,
            "duplicates": self.duplicates,
            "mean_reward": self.total / self.rewards if self.rewards else None,
            "regret_proxy": self.shortfall / self.rewards if self.rewards else None,
            "decisions_per_second": float(np.mean(recent[-11:-1, DECISIONS])) if len(recent) > 1 else 0.0,
            "latency_ms": dict(zip(("p50", "p95", "p99"), none_where_empty(shares, np.full(3, times.sum())), strict=True)),
        } | {name: held.table(at, points) for name, held in both.items() if series in (None, name)}

    def collect(self) -> Iterable[Metric]:
        """Yield the metrics for Prometheus."""
        requests = (((route, str(status)), n) for (route, status), n in self.requests.items())
        yield counter_metric("graphbandit_requests", "Requests answered.", ("route", "status"), requests)
        refused = (((reason,), n) for reason, n in self.refused.items())
        yield counter_metric("graphbandit_refused", "Tokens and connections refused, connections closed.", ("reason",), refused)
        for name, n, text in (
            ("decisions", self.decisions, "Decisions in the log since the start."),
            ("rewards", self.rewards, "Rewards learned since the start."),
            ("duplicate_rewards", self.duplicates, "Rewards that the log had already."),
            ("snapshots", self.snapshots, "Snapshots written since the start."),
            ("snapshot_failures", self.failed_snapshots, "Snapshots that could not be written."),
        ):
            yield CounterMetricFamily(f"graphbandit_{name}", text, value=n)
        yield GaugeMetricFamily("graphbandit_reward_sum", "Sum of the rewards learned since the start.", value=self.total)
        ages = {} if self.snapshot_at is None else {"snapshot_age_seconds": max(0.0, time.time() - self.snapshot_at)}
        for name, value in (self.gauges | ages).items():
            yield GaugeMetricFamily(f"graphbandit_{name}", GAUGES[name], value=value)
        kinds = (((kind.name.lower(),), n) for kind, n in self.events.items())
        yield counter_metric("graphbandit_logged_events", "Events written and applied, by kind.", ("kind",), kinds)
        yield histogram_metric("graphbandit_request_seconds", "Latency of requests by route.", self.routes, "route")
        yield histogram_metric("graphbandit_commit_seconds", "Time to write a group of events durably.", {"": self.commits})
        yield histogram_metric(
            "graphbandit_loop_delay_seconds", "How late the event loop was, ten times a second.", {"": self.loop_delay}
        )

    def prometheus(self) -> bytes:
        """Return the metrics in the text format of Prometheus."""
        return generate_latest(self._registry)
