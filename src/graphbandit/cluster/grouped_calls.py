"""Requests to a shard that arrive together travel together: a call costs a millisecond, however many requests it carries.

A request that takes long does not hold up those that travel with it: it is left behind and asked for later.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from ..serving.http.responses import error_response
from .shard_calls import Answer, ShardRequest

MOST_CALLS = 2  # on their way at a time; what arrives meanwhile travels with the next one
MOST_REQUESTS = 500  # of one call
LONGEST = 0.02  # seconds that those of a call wait for each other
FORGOTTEN = 120.0  # seconds after which nobody asks for an answer any more

Call = Callable[..., Awaitable[Any]]
"""Calls a method of the shard's process by its name."""


class GroupedCalls:
    """The caller's side. Belongs to an event loop.

    Parameters
    ----------
    call
        Calls a method of the shard's process, which are those of `GroupedAnswers`.
    """

    def __init__(self, call: Call) -> None:
        self._call = call
        self._waiting: deque[tuple[ShardRequest, asyncio.Future[Answer]]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._under_way, self._is_due = 0, False

    async def handle(self, request: ShardRequest) -> Answer:
        """What the shard answers; raises whatever the call raises."""
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[Answer] = loop.create_future()
        self._waiting.append((request, answered))
        if not self._is_due and self._under_way < MOST_CALLS:
            self._is_due = True
            loop.call_soon(self._send)  # with all that arrives in this turn of the loop
        return await answered

    def _send(self) -> None:
        self._is_due = False
        group: list[tuple[ShardRequest, asyncio.Future[Answer]]] = []
        while self._waiting and len(group) < MOST_REQUESTS:
            entry = self._waiting.popleft()
            if not entry[1].done():  # somebody still waits
                group.append(entry)
        if group:
            self._under_way += 1
            self._keep(self._travel([request for request, _ in group], [answered for _, answered in group]))

    async def _travel(self, requests: Sequence[ShardRequest], waiting: Sequence[asyncio.Future[Answer]]) -> None:
        try:
            answers, ticket = await self._call("handle_many", [tuple(request) for request in requests])
        except BaseException as error:
            for answered in waiting:
                _resolve(answered, error)
            if not isinstance(error, Exception):
                raise
        else:
            for place, (answer, answered) in enumerate(zip(answers, waiting, strict=True)):
                if answer is None:
                    self._keep(self._fetch(ticket, place, answered))
                else:
                    _resolve(answered, answer)
        finally:
            self._under_way -= 1
            if self._waiting and not self._is_due:
                self._send()

    async def _fetch(self, ticket: int, place: int, answered: asyncio.Future[Answer]) -> None:
        try:
            _resolve(answered, await self._call("late_answer", ticket, place))
        except Exception as error:
            _resolve(answered, error)

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine; the loop itself keeps no reference to its tasks."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _resolve(answered: asyncio.Future[Answer], result: Answer | BaseException) -> None:
    if answered.done():  # nobody waits any more
        return
    if isinstance(result, BaseException):
        answered.set_exception(result)
    else:
        answered.set_result(result)


class GroupedAnswers:
    """The side of the shard's process: answers that are there soon are given at once, the others when they are asked for.

    Parameters
    ----------
    handle
        Answers one request.
    """

    def __init__(self, handle: Callable[..., Coroutine[Any, Any, Answer]]) -> None:
        self._handle = handle
        self._late: dict[tuple[int, int], asyncio.Task[Answer]] = {}
        self._ticket = 0

    async def handle_many(self, requests: Sequence[tuple[Any, ...]]) -> tuple[list[Answer | None], int]:
        """The answers in order, None for those that take longer, and the ticket for those."""
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(self._answer(request)) for request in requests]
        await asyncio.wait(tasks, timeout=LONGEST)
        self._ticket += 1
        for place, task in enumerate(tasks):
            if not task.done():
                self._late[self._ticket, place] = task
                loop.call_later(FORGOTTEN, self._late.pop, (self._ticket, place), None)
        return [task.result() if task.done() else None for task in tasks], self._ticket

    async def _answer(self, request: tuple[Any, ...]) -> Answer:
        """The answer to one request; what fails must not fail those that travel with it."""
        try:
            return await self._handle(*request)
        except Exception as error:
            refusal = error_response(error)
            return refusal.status, list(refusal.headers.items()), refusal.body

    async def late_answer(self, ticket: int, place: int) -> Answer:
        """An answer that took longer."""
        return await self._late.pop((ticket, place))
