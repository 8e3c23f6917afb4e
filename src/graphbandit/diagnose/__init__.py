"""Does my graph help? Later rewards are predicted with the graph, without it, and with its users shuffled.

| module | what is in it |
|---|---|
| `judge` | `Verdict` and the sums that it follows from: the only place that says whether a graph helps |
| `reward_log` | `RewardLog`; `read_log` reads one from a file, `diagnose` judges a graph by it |
"""

from __future__ import annotations

from ..graphs import read_edges
from .judge import Verdict
from .reward_log import RewardLog, diagnose, read_log

__all__ = ["RewardLog", "Verdict", "diagnose", "read_edges", "read_log"]
