"""The leaderboard: every policy, tuned with the same effort, in every world; ranks, intervals, time and memory."""

from __future__ import annotations

from .grids import GRIDS
from .run import Settings, leaderboard
from .worlds import WORLDS

__all__ = ["GRIDS", "WORLDS", "Settings", "leaderboard"]
