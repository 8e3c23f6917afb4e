"""The leaderboard: every policy, tuned with the same effort, in every world.

| module | what is in it |
|---|---|
| `worlds` | `WORLDS`: the table of all worlds |
| `grids` | `GRIDS`: for every policy, the settings that are tuned |
| `board` | `leaderboard`: tunes and runs every policy in every world, and makes a `Board` |
| `report` | a board as plain values, as Markdown, as JSON and as one HTML page |
| `statistics` | the policies that are level with the best, and the intervals of mean ranks |
"""

from __future__ import annotations

from .board import LeaderboardSettings, leaderboard
from .grids import GRIDS
from .worlds import WORLDS

__all__ = ["GRIDS", "WORLDS", "LeaderboardSettings", "leaderboard"]
