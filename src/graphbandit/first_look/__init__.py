"""The first look at somebody's data: is a graph bandit worth it here? One page answers.

| module | what is in it |
|---|---|
| `assessment` | `first_look`: reads, builds or judges the graph, replays, compares; the `FirstLook` it returns |
| `log_rounds` | from a log to what is learned first and the rounds that are played afterwards |
| `contenders` | the policies that are compared, and how they are tuned |
| `lifts` | differences of mean rewards, paired by round, with intervals by user |
| `off_policy_look` | the comparison of logs with propensities |
| `look_text` | a first look in words |
| `look_page` | a first look as one self-contained HTML page |
| `look_files` | the folder with the page, and the edges, arms and history that `serve` takes |
"""

from __future__ import annotations

from .assessment import FirstLook, first_look
from .look_files import write_look

__all__ = ["FirstLook", "first_look", "write_look"]
