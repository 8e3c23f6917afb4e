"""The first look at a log of events: is a graph bandit worth it here? One page answers.

| module | what is in it |
|---|---|
| `assessment` | `first_look`: reads, builds and judges graphs, replays, compares; the `FirstLook` it returns |
| `replay` | events and rounds, the policies that are compared, differences with intervals by user |
| `output` | a first look as text, as one page, and as the files that `serve` takes |
"""

from __future__ import annotations

from .assessment import FirstLook, first_look
from .output import write_look

__all__ = ["FirstLook", "first_look", "write_look"]
