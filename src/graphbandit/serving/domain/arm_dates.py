"""When each version of an arm was offered, from the events that put and deleted arms."""

from __future__ import annotations

from collections.abc import Sequence

from .events import Event, EventKind, table_in


def arm_dates(versions: Sequence[str], changes: Sequence[Event]) -> tuple[list[int], list[int | None], dict[str, int]]:
    """Numbers of the events since and until which each version was offered, and the newest version of each arm.

    `versions` has the arm of each version: first those of the beginning, then one for each ARM_PUT.
    """
    puts = [event.seq for event in changes if event.kind == EventKind.ARM_PUT]
    first = len(versions) - len(puts)
    since, until = [0] * first + puts, list[int | None]([None] * len(versions))
    newest, following = {arm: version for version, arm in enumerate(versions[:first])}, first
    for event in changes:
        arm = table_in(event.body)["arm"]
        if arm in newest:
            until[newest.pop(arm)] = event.seq
        if event.kind == EventKind.ARM_PUT:
            newest[arm], following = following, following + 1
    return since, until, newest
