"""Group commit: groups that are held are applied even if more arrive all the time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from graphbandit.serving.domain.events import Draft, Event, EventKind
from graphbandit.serving.store.event_store import Appended
from graphbandit.serving.store.group_commit import Group, GroupCommit


def test_what_has_waited_is_applied_even_if_more_comes_all_the_time() -> None:
    applied: list[int] = []

    class State:
        follows_log = True

        def apply(self, new: Sequence[Event]) -> None:
            applied.extend(event.seq for event in new)

        def abandon(self) -> None:
            raise NotImplementedError

    class Log:
        def append(self, drafts: Sequence[Draft], beat: bool = False) -> Appended:
            raise NotImplementedError  # groups are delivered below

    async def scene() -> None:
        loop, writer = asyncio.get_running_loop(), GroupCommit(Log(), State())
        numbers = iter(range(1, 10_000))

        def come() -> None:  # two groups at every turn of the loop
            for number in (next(numbers), next(numbers)):
                writer.deliver(Group([], Appended([Event(number, EventKind.DECIDED, 0, "[]")], [])))
            if not over.done():
                loop.call_soon(come)

        over = loop.create_future()
        writer.hold()
        come()
        for _ in range(20):
            await asyncio.sleep(0)
        assert not applied
        await asyncio.wait_for(writer.release(), 60)
        assert applied == list(range(1, len(applied) + 1)) and len(applied) >= 40
        over.set_result(None)
        await asyncio.sleep(0)
        assert applied[-1] == next(numbers) - 1  # what comes later does not wait
        await writer.stop()

    asyncio.run(scene())
