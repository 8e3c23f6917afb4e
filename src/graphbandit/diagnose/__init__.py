"""Does my graph help? A log of rewards is learned with the graph, without it, and with its users
shuffled.

| module | what is in it |
|---|---|
| `reward_log` | `RewardLog`; `read_log` reads one from a file, `learn_log` teaches it to a policy |
| `diagnosis` | `diagnose` and the `Diagnosis` that it returns |
| `shuffle_test` | the permutation test of a graph against its shuffles |
| `diagnosis_output` | a diagnosis as text, as JSON and as a picture |
"""

from __future__ import annotations

from ..graphs import read_edges
from .diagnosis import Diagnosis, diagnose
from .diagnosis_output import as_text
from .reward_log import RewardLog, learn_log, read_log

__all__ = ["Diagnosis", "RewardLog", "as_text", "diagnose", "learn_log", "read_edges", "read_log"]
