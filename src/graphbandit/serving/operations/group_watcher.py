"""Counts and traces what the group commit does, and how late the event loop is."""

from __future__ import annotations

import asyncio

from ..store.group_commit import Group
from .stats import Stats
from .traces import Traces

LOOK_EVERY = 0.1  # seconds


class GroupWatcher:
    """Is told of every group that is written and applied."""

    def __init__(self, stats: Stats, traces: Traces | None) -> None:
        self._stats, self._traces = stats, traces

    def written(self, group: Group) -> None:
        """Count a commit."""
        self._stats.commits.add(max(0, group.ended - group.begun) / 1e9)
        if self._traces is not None:
            facts = {"graphbandit.group_size": len(group.appended.new)}
            self._traces.add("commit", _spans(group), group.begun, group.ended, facts)

    def applied(self, group: Group, begun: int, ended: int) -> None:
        """Trace the change of the state."""
        if self._traces is not None:
            facts = {"graphbandit.group_size": len(group.appended.new)}
            self._traces.add("apply", _spans(group), begun, ended, facts)


def _spans(group: Group) -> list[object]:
    return [span for submission in group.submissions for span in submission.spans]


async def watch_loop(stats: Stats) -> None:
    """Measure until it is cancelled how late the event loop comes back from a short sleep."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + LOOK_EVERY
        await asyncio.sleep(LOOK_EVERY)
        stats.loop_delay.add(max(0.0, loop.time() - due))
