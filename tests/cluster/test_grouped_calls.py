from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from graphbandit.cluster.grouped_calls import MOST_CALLS, GroupedAnswers, GroupedCalls
from graphbandit.cluster.shard_calls import Answer, ShardDown, ShardRequest


class Process:
    """The process of a shard, reached by calls that take a while."""

    def __init__(self) -> None:
        self.calls: list[int] = []
        self.is_down = False
        self.most = self.now = 0
        self._answers = GroupedAnswers(self._handle)

    async def _handle(self, method: str, path: str, query: str, headers: Any, body: bytes) -> Answer:
        if path == "/slow":
            await asyncio.sleep(0.3)
        if path == "/wrong":
            raise RuntimeError("a defect")
        return 200, [], body

    async def call(self, method: str, *arguments: Any) -> Any:
        if self.is_down:
            raise ShardDown("killed")
        if method == "handle_many":
            self.calls.append(len(arguments[0]))
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await asyncio.sleep(0.005)
            return await getattr(self._answers, method)(*arguments)
        finally:
            self.now -= 1


def request(path: str = "/", body: bytes = b"") -> ShardRequest:
    return ShardRequest("POST", path, "", [], body)


def test_requests_that_arrive_together_travel_together_and_get_their_own_answers() -> None:
    async def run() -> None:
        process = Process()
        calls = GroupedCalls(process.call)
        bodies = [b"%d" % k for k in range(300)]
        answers = await asyncio.gather(*(calls.handle(request(body=body)) for body in bodies))
        assert [answer[2] for answer in answers] == bodies and process.calls == [300]

        async def later(k: int) -> Answer:
            await asyncio.sleep(0.0003 * k)
            return await calls.handle(request(body=b"%d" % k))

        answers = await asyncio.gather(*(later(k) for k in range(200)))
        assert [answer[2] for answer in answers] == bodies[:200]
        assert len(process.calls) < 100 and process.most <= MOST_CALLS

    asyncio.run(run())


def test_a_request_that_takes_long_holds_up_nobody() -> None:
    async def run() -> None:
        calls, start = GroupedCalls(Process().call), time.perf_counter()
        slow = asyncio.create_task(calls.handle(request("/slow", b"late")))
        others = [asyncio.create_task(calls.handle(request(body=b"soon"))) for _ in range(5)]
        assert [(await other)[2] for other in others] == [b"soon"] * 5
        assert time.perf_counter() - start < 0.2 and not slow.done()
        assert (await slow)[2] == b"late"

    asyncio.run(run())


def test_a_shard_that_is_down_and_a_caller_who_gives_up_are_no_harm() -> None:
    async def run() -> None:
        process = Process()
        calls = GroupedCalls(process.call)
        process.is_down = True
        answers = await asyncio.gather(*(calls.handle(request()) for _ in range(3)), return_exceptions=True)
        assert all(isinstance(answer, ShardDown) for answer in answers)
        process.is_down = False
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await calls.handle(request("/slow"))
        wrong, right = await asyncio.gather(calls.handle(request("/wrong")), calls.handle(request(body=b"again")))
        assert wrong[0] == 500 and right[2] == b"again"

    asyncio.run(run())
