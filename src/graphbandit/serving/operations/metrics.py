"""Histograms for Prometheus, and what the service is asked for when it is scraped."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from itertools import accumulate

from prometheus_client.core import HistogramMetricFamily

BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0)
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


class Histogram:
    """Counts of durations. Adding costs less than a microsecond.

    >>> spent = Histogram()
    >>> spent.add(0.003)
    >>> spent.add(7.0)
    >>> spent.total, spent.cumulative()[-2:]
    (7.003, [1, 2])
    """

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        """Count a duration."""
        self.counts[bisect_left(BUCKETS, seconds)] += 1
        self.total += seconds

    def cumulative(self) -> list[int]:
        """How many are at most as long as each bound; the last number is that of all."""
        return list(accumulate(self.counts))


def family(name: str, text: str, histograms: Mapping[str, Histogram], label: str | None = None) -> HistogramMetricFamily:
    """Histograms as one metric: by the values of a label, or the one histogram that there is."""
    found = HistogramMetricFamily(name, text, labels=[] if label is None else [label])
    for value, histogram in histograms.items():
        counts = zip((*map(str, BUCKETS), "+Inf"), histogram.cumulative(), strict=True)
        found.add_metric([] if label is None else [value], list(counts), histogram.total)
    return found
