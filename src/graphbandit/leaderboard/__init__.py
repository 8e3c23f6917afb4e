"""The leaderboard: every policy, tuned with the same effort, in every world.

| module | what is in it |
|---|---|
| `worlds` | `WORLDS`: the table of all worlds |
| `grids` | `GRIDS`: for every policy, the settings that are tuned |
| `board` | `leaderboard`: tunes and runs every policy in every world, and makes a `Board` |
| `board_tables` | the board as plain values and as Markdown: ranks, intervals, mean ranks |
| `significance` | which policies are level with the best, and intervals of mean ranks |
| `board_page` | the board as one HTML page, as Markdown and as JSON, in a folder |
"""

from __future__ import annotations

from .board import LeaderboardSettings, leaderboard
from .grids import GRIDS
from .worlds import WORLDS

__all__ = ["GRIDS", "WORLDS", "LeaderboardSettings", "leaderboard"]
