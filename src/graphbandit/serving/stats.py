"""What the service has done since it started: counters, series over time, latencies; for the page and for Prometheus."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0)
LATENCIES = 8192
DECISIONS, REWARDS, TOTAL, SHORTFALL = range(4)


class Series:
    """Sums over steps of time, the last so many of them."""

    def __init__(self, step: int, size: int) -> None:
        self.step, self.size = step, size
        self._sums = [[0.0] * 4 for _ in range(size)]
        self._slot = [-1] * size  # which step of time a row holds

    def at(self, moment: float) -> list[float]:
        """The sums of the step of this moment, to be added to."""
        slot = int(moment) // self.step
        place = slot % self.size
        if self._slot[place] != slot:
            self._slot[place], self._sums[place] = slot, [0.0] * 4
        return self._sums[place]

    def table(self, at: float) -> dict[str, Any]:
        """Columns, oldest first; a mean is None where there was no reward."""
        now = int(at) // self.step
        held = np.array(self._slot)
        slots = np.arange(max(now - self.size + 1, int(held[held >= 0].min(initial=now))), now + 1)
        rows = np.where((held[slots % self.size] == slots)[:, None], np.array(self._sums)[slots % self.size], 0.0)
        counts = rows[:, REWARDS]
        mean = [total / n if n else None for total, n in zip(rows[:, TOTAL].tolist(), counts.tolist(), strict=True)]
        gap = [total / n if n else None for total, n in zip(rows[:, SHORTFALL].tolist(), counts.tolist(), strict=True)]
        return {
            "step": self.step,
            "time": (slots * self.step).tolist(),
            "decisions": rows[:, DECISIONS].astype(int).tolist(),
            "rewards": counts.astype(int).tolist(),
            "mean_reward": mean,
            "regret_proxy": gap,
        }


class Stats(Collector):
    """Counted in the event loop, so without locks."""

    def __init__(self) -> None:
        self.started = time.time()
        self.requests: Counter[tuple[str, int]] = Counter()  # (route, status)
        self.decisions = self.rewards = self.duplicates = 0
        self.total = self.shortfall = 0.0
        self.seconds, self.minutes = Series(1, 600), Series(60, 1440)
        self._latencies = np.zeros(LATENCIES)
        self._timed = 0
        self._buckets = [0] * (len(BUCKETS) + 1)
        self._spent = 0.0
        self.gauges: dict[str, float] = {}
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def answered(self, route: str, status: int, seconds: float) -> None:
        """A request has been answered."""
        self.requests[route, status] += 1
        self._latencies[self._timed % LATENCIES] = seconds
        self._timed += 1
        self._buckets[bisect_left(BUCKETS, seconds)] += 1
        self._spent += seconds

    def decided(self, n: int) -> None:
        """So many decisions are in the log."""
        self.decisions += n
        now = time.time()
        for series in (self.seconds, self.minutes):
            series.at(now)[DECISIONS] += n

    def rewarded(self, value: float, best: float) -> None:
        """A reward has been learned; `best` is the largest expected reward that the decision could choose."""
        self.rewards += 1
        self.total += value
        self.shortfall += best - value
        now = time.time()
        for series in (self.seconds, self.minutes):
            sums = series.at(now)
            sums[REWARDS] += 1
            sums[TOTAL] += value
            sums[SHORTFALL] += best - value

    def latency(self) -> dict[str, float | None]:
        """Percentiles of the last requests, in milliseconds."""
        seen = self._latencies[: min(self._timed, LATENCIES)]
        names = {"p50": 50, "p95": 95, "p99": 99}
        return {name: round(float(np.percentile(seen, q)) * 1e3, 3) if len(seen) else None for name, q in names.items()}

    def table(self) -> dict[str, Any]:
        """Everything as JSON values."""
        at = time.time()
        recent = self.seconds.table(at)
        return {
            "uptime": round(at - self.started, 1),
            "decisions": self.decisions,
            "rewards": self.rewards,
            "duplicates": self.duplicates,
            "mean_reward": self.total / self.rewards if self.rewards else None,
            "regret_proxy": self.shortfall / self.rewards if self.rewards else None,
            "decisions_per_second": float(np.mean(recent["decisions"][-11:-1] or [0])),
            "latency_ms": self.latency(),
            "seconds": recent,
            "minutes": self.minutes.table(at),
        }

    def collect(self) -> Iterable[Metric]:
        """For Prometheus."""
        requests = CounterMetricFamily("graphbandit_requests", "Requests answered.", labels=["route", "status"])
        for (route, status), n in self.requests.items():
            requests.add_metric([route, str(status)], n)
        yield requests
        for name, n, text in (
            ("decisions", self.decisions, "Decisions in the log since the start."),
            ("rewards", self.rewards, "Rewards learned since the start."),
            ("duplicate_rewards", self.duplicates, "Rewards that were there already."),
        ):
            yield CounterMetricFamily(f"graphbandit_{name}", text, value=n)
        yield GaugeMetricFamily("graphbandit_reward_sum", "Sum of the rewards learned since the start.", value=self.total)
        for name, value in self.gauges.items():
            yield GaugeMetricFamily(f"graphbandit_{name}", name.replace("_", " ").capitalize() + ".", value=value)
        counts = np.cumsum(self._buckets).tolist()
        pairs = [(str(bound), n) for bound, n in zip((*BUCKETS, "+Inf"), counts, strict=True)]
        yield HistogramMetricFamily("graphbandit_request_seconds", "Time to answer.", buckets=pairs, sum_value=self._spent)

    def prometheus(self) -> bytes:
        """The text format."""
        return generate_latest(self._registry)
