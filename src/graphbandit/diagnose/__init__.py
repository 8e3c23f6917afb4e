"""Does my graph help? A log of rewards, replayed with the graph, without it and with its users shuffled.

| module | |
|---|---|
| `logs` | `Log`; `read_log` from a file |
| `replay` | a log through a policy, compiled |
| `diagnosis` | `diagnose` and the `Diagnosis` that it returns |
| `show` | the same as a page of text, JSON and a picture |
"""

from __future__ import annotations

from ..graphs import read_edges
from .diagnosis import Diagnosis, diagnose
from .logs import Log, read_log
from .replay import replay

__all__ = ["Diagnosis", "Log", "diagnose", "read_edges", "read_log", "replay"]
