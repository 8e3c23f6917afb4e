"""Shards of a service: their logs, what they tell each other, and changes that concern two of them."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphbandit.serving import Occupied, Request, Reward, ServiceSettings
from graphbandit.serving.operations import courier, peers
from graphbandit.serving.operations.compaction import compact
from graphbandit.serving.operations.forgetting import forget_user
from graphbandit.serving.operations.new_beginning import replay_into
from graphbandit.serving.operations.store_tools import verify
from graphbandit.serving.shard_service import ShardService, shard_settings
from graphbandit.serving.start import build_app
from serving_zoo import new_database
from shard_service_zoo import DISHES, HOME, PEOPLE, Away, Shards, edge_path, hashed, run, user_path, whole_service, whole_state

pytestmark = pytest.mark.slow
Call = Callable[[], Awaitable[Any]]
RING = {(min(pair), max(pair)): 1.0 for pair in [*pairwise(PEOPLE), (PEOPLE[-1], PEOPLE[0])]}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(courier, "ANSWER_WITHIN", 0.3)
    monkeypatch.setattr(courier, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(peers, "LONGEST_CALL", 2.0)


def stream(n: int = 60, seed: int = 0) -> list[tuple[str, str, float]]:
    draws = random.Random(seed)
    return [(draws.choice(PEOPLE), draws.choice(DISHES), draws.gauss(0.0, 1.0)) for _ in range(n)]


def theta_in_one_piece(folder: Path, policy: str, steps: list[tuple[str, str, float]], **settings: Any) -> Any:
    service = whole_service(folder, whole_state(policy, **settings))
    for user, arm, value in steps:
        made = service.recommend([Request(user, [arm])])
        service.reward([Reward(made.ids[0], value)])
    state = service.recommender
    rows = np.array([state.rows[name] for name in PEOPLE])
    found = state.policy.estimates(rows)
    service.close()
    return found


def test_three_shards_of_linucb_learn_what_one_service_learns_bit_for_bit(tmp_path: Path) -> None:
    async def steps() -> None:
        shards = Shards(tmp_path / "shards", whole_state("linucb"))
        await shards.open()
        for user, arm, value in stream():
            await shards.reward(user, arm, value)
        await shards.exchange()
        found = shards.theta(PEOPLE)
        assert found.tobytes() == theta_in_one_piece(tmp_path / "one", "linucb", stream()).tobytes()
        shards.check_replay()
        await shards.close()

    run(steps)


@pytest.mark.parametrize("policy", ["graphucb", "graphucb-local", "adaptive"])
def test_shards_learn_from_neighbours_in_others_and_replay_bit_for_bit(tmp_path: Path, policy: str) -> None:
    async def steps() -> None:
        params = {"tolerance": 1e-6} if policy == "graphucb" else {}
        shards = Shards(tmp_path / "shards", whole_state(policy, epsilon=0.1, params=params))
        await shards.open()
        for k, (user, arm, value) in enumerate(stream()):
            await shards.reward(user, arm, value)
            if k % 7 == 0:
                await shards.exchange(1)
        await shards.exchange(200)
        if policy == "graphucb":
            one = theta_in_one_piece(tmp_path / "one", policy, stream(), params=params | {"solver": "push"}, epsilon=0.1)
            np.testing.assert_allclose(shards.theta(PEOPLE), one, atol=1e-5)
        shards.check_replay()
        before = [hashed(shards[k].state) for k in range(3)]
        for k in range(3):  # by replay, and from a snapshot
            await shards.restart(k)
            await shards[k].close()
            await shards.open(k)
        states = [shards[k].state for k in range(3)]
        assert all(state.correspondence.outbox == {} for state in states)
        assert len(before) == 3
        shards.check_replay()
        await shards.close()

    run(steps)


def test_an_edge_between_shards_is_in_both_and_can_be_seen_from_both(tmp_path: Path) -> None:
    async def steps() -> None:
        shards = Shards(tmp_path, whole_state("graphucb-local"))
        await shards.open()
        assert shards.edges() == RING
        status, _ = await shards.at("ann", "PUT", edge_path("ann", "eve"), {"weight": 2.5})
        assert status == 200
        for a, b in (("ann", "eve"), ("eve", "ann")):
            assert (await shards.at(a, "GET", edge_path(a, b)))[1]["weight"] == 2.5
        assert (await shards.at("eve", "PUT", edge_path("eve", "ann"), {"weight": 4.0}))[0] == 200
        assert shards.edges() == RING | {("ann", "eve"): 4.0}
        assert (await shards.at("ann", "DELETE", edge_path("ann", "eve")))[0] == 200
        assert (await shards.at("eve", "DELETE", edge_path("eve", "ann")))[0] == 404
        assert shards.edges() == RING
        status, told = await shards.at("ann", "PUT", edge_path("ann", "nobody"), {})
        assert status == 404 and "nobody" in told["detail"][0]["msg"]
        assert (await shards.at("ann", "PUT", edge_path("ann", "ann"), {}))[0] == 422
        assert (await shards.ask(1, "PUT", edge_path("ann", "eve"), {}))[0] == 404  # the shard of neither
        status, _ = await shards.at("new", "PUT", user_path("new"), {"edges": {"ann": 1.0, "bob": 2.0, "eve": 3.0}})
        assert status == 200
        assert shards.edges() == RING | {("ann", "new"): 1.0, ("bob", "new"): 2.0, ("eve", "new"): 3.0}
        assert (await shards.at("odd", "PUT", user_path("odd"), {"edges": {"ann": 1.0, "nobody": 1.0}}))[0] == 404
        assert (await shards.at("odd", "GET", user_path("odd")))[0] == 404
        await shards.reward("new", "tea", 1.0)
        await shards.exchange()
        assert np.abs(shards.theta(["eve"])).sum() > 0  # it hears of its neighbour
        assert (await shards.at("new", "DELETE", user_path("new")))[0] == 200
        assert shards.edges() == RING
        assert (await shards.at("new", "PUT", user_path("new"), {"edges": {"eve": 3.0}}))[0] == 200
        assert shards.edges() == RING | {("eve", "new"): 3.0}
        shards.check_replay()
        await shards.close()

    run(steps)


def test_ghosts_are_nobody_here(tmp_path: Path) -> None:
    async def steps() -> None:
        shards = Shards(tmp_path, whole_state("graphucb-local"))
        await shards.open()
        assert (await shards.ask(0, "GET", user_path("bob")))[0] == 404
        assert (await shards.ask(0, "POST", "/v1/recommendations", {"user": "bob"}))[0] == 404
        assert (await shards.ask(0, "POST", "/v1/recommendations", {"user": "stranger1"}))[0] == 404
        assert (await shards.ask(0, "PUT", user_path("bob"), {}))[0] == 404
        assert (await shards.ask(0, "DELETE", user_path("bob")))[0] == 404
        assert (await shards.ask(0, "GET", "/v1/stats"))[1]["users"] == sum(home == 0 for home in HOME.values())
        told = (await shards.ask(0, "GET", user_path("ann")))[1]
        assert [node["user"] for node in told["nodes"]] == ["ann", "bob", "zoë"]
        assert (await shards.ask(0, "GET", user_path("ann") + "/explanation"))[0] == 200
        assert shards[0].status()["ghosts"] == 5
        await shards.close()

    run(steps)


def test_arms_are_in_all_shards_in_the_same_order(tmp_path: Path) -> None:
    async def steps() -> None:
        shards = Shards(tmp_path, whole_state("linucb"))
        await shards.open()
        assert (await shards.ask(1, "PUT", "/v1/arms/mate", {"features": [1.0, 2.0]}))[0] == 421
        assert (await shards.ask(0, "PUT", "/v1/arms/mate", {"features": [1.0, 2.0]}))[0] == 200
        assert (await shards.ask(0, "PUT", "/v1/arms/mate", {"features": [3.0, 2.0]}))[0] == 200
        assert (await shards.ask(0, "DELETE", "/v1/arms/tea"))[0] == 200
        await shards.kill(2)
        status, told = await shards.ask(0, "PUT", "/v1/arms/soup", {"features": [0.0, 1.0]})
        assert status == 503 and "shard 2" in told["detail"][0]["msg"]
        await shards.open(2)
        await shards.delivered()
        assert [shards[k].state.arms for k in range(3)] == [shards[0].state.arms] * 3
        assert [shards[k].state.versions for k in range(3)] == [[*DISHES, "mate", "mate", "soup"]] * 3
        shards.check_replay()
        await shards.close()

    run(steps)


LOST = ("request", "answer")


@pytest.mark.parametrize("lost", LOST)
@pytest.mark.parametrize("killed", ["origin", "target", "both", "nobody"])
@pytest.mark.parametrize("change", ["edge", "refused", "user", "deletion"])
def test_a_change_of_two_shards_is_in_both_or_in_neither_whoever_is_killed(
    tmp_path: Path, lost: str, killed: str, change: str
) -> None:
    """The request to the other shard, or its answer, is lost, and then a process is killed."""

    async def steps() -> None:
        shards = Shards(tmp_path, whole_state("graphucb-local"))
        await shards.open()
        await shards.at("eve", "PUT", user_path("bbb"), {})  # of shard 2, as eve is
        lossy = True

        async def fault(_: Shards, method: str, source: int, target: int, call: Call) -> Any:
            if method != "deliver" or not lossy:
                return await call()
            answer = await call() if lost == "answer" or is_question else None
            if is_question:
                return answer
            raise Away

        is_question = False
        send = shards.send

        async def watched(method: str, source: int, target: int, arguments: tuple[Any, ...]) -> Any:
            nonlocal is_question
            is_question = method == "deliver" and arguments[1] == 0
            return await send(method, source, target, arguments)

        shards.send = watched  # type: ignore[method-assign]
        shards.fault = fault
        expected = dict(RING)
        if change == "edge":
            status, _ = await shards.at("ann", "PUT", edge_path("ann", "eve"), {"weight": 2.0})
            expected |= {("ann", "eve"): 2.0}
        elif change == "user":
            status, _ = await shards.at("zzx", "PUT", user_path("zzx"), {"edges": {"ann": 1.0, "eve": 2.0}})
            expected |= {("ann", "zzx"): 1.0, ("eve", "zzx"): 2.0}
        elif change == "deletion":
            status, _ = await shards.at("bob", "DELETE", user_path("bob"))
            expected = {pair: weight for pair, weight in RING.items() if "bob" not in pair}
        else:  # its user is deleted after the question and before the change
            asked = shards.at("ann", "PUT", edge_path("ann", "bbb"), {"weight": 2.0})
            shards[2].state.rows["bbb"]
            waiting = asyncio.create_task(asked)
            while not shards[0].state.correspondence.outbox:
                await asyncio.sleep(0.001)
            if lost == "request":
                lossless = shards.fault
                shards.fault = None
                assert (await shards.ask(2, "DELETE", user_path("bbb")))[0] == 200
                shards.fault = lossless
            else:
                expected |= {("ann", "bbb"): 2.0}
            status, _ = await waiting
        assert status in (503, 409)
        for number in {"origin": (0,), "target": (2,), "both": (0, 2), "nobody": ()}[killed]:
            await shards.kill(number)
        lossy = False
        for number in range(3):
            if shards.services[number] is None:
                await shards.open(number)
        await shards.delivered()
        assert shards.edges() == expected
        for number in range(3):  # twice, and after a snapshot
            await shards[number].close()
            await shards.open(number)
        assert shards.edges() == expected
        await shards.exchange()
        shards.check_replay()
        await shards.close()

    run(steps)


@pytest.mark.parametrize("seed", range(6))
def test_shards_agree_after_any_changes_with_messages_lost_doubled_and_late_and_shards_killed(
    tmp_path: Path, seed: int
) -> None:
    async def steps() -> None:
        draws = random.Random(seed)
        shards = Shards(tmp_path, whole_state("graphucb-local"))
        await shards.open()
        late: list[asyncio.Task[Any]] = []

        async def fault(_: Shards, method: str, source: int, target: int, call: Call) -> Any:
            chance = draws.random()
            if chance < 0.1:
                raise Away
            if chance < 0.2:
                await call()
                raise Away
            if chance < 0.3:
                await call()

            async def again() -> None:
                await asyncio.sleep(draws.random() * 0.1)
                await call()

            if chance < 0.4:
                late.append(asyncio.create_task(again()))
            if chance < 0.6:
                await asyncio.sleep(draws.random() * 0.01)
            return await call()

        names = [*PEOPLE, "new", "odd", "bbb"]

        async def change() -> None:
            a, b = draws.sample(names, 2)
            kind = draws.random()
            if kind < 0.4:
                await shards.at(a, "PUT", edge_path(a, b), {"weight": draws.randint(1, 9)})
            elif kind < 0.6:
                await shards.at(a, "DELETE", edge_path(a, b))
            elif kind < 0.75:
                await shards.at(a, "PUT", user_path(a), {"edges": {b: 2.0}})
            elif kind < 0.8:
                await shards.at(a, "DELETE", user_path(a))
            elif kind < 0.85:
                await shards.ask(0, "PUT", f"/v1/arms/dish{draws.randint(0, 2)}", {"features": [1.0, draws.random()]})
            else:
                await shards.at(a, "POST", "/v1/recommendations", {"user": a})

        shards.fault = fault
        for _ in range(12):
            await asyncio.gather(*(change() for _ in range(6)))
            await asyncio.gather(*(shards[k].exchange() for k in range(3)))
            await shards.restart(draws.randrange(3))
        shards.fault = None
        await asyncio.gather(*late, return_exceptions=True)
        await shards.delivered()
        shards.edges()
        assert [shards[k].state.arms for k in range(3)] == [shards[0].state.arms] * 3
        await shards.exchange()
        shards.check_replay()
        await shards.close()

    run(steps)


def test_what_cannot_be_reached_is_503_and_nothing_has_happened(tmp_path: Path) -> None:
    async def steps() -> None:
        shards = Shards(tmp_path, whole_state("linucb"))
        await shards.open()
        await shards.kill(1)
        before = shards[0].state.seq
        assert (await shards.at("ann", "PUT", edge_path("ann", "kim"), {}))[0] == 503
        assert shards[0].state.seq == before
        await shards.reward("ann", "tea", 1.0)  # users of other shards do not notice
        await shards.open(1)
        assert (await shards.at("ann", "PUT", edge_path("ann", "kim"), {}))[0] == 200
        await shards.close()
        assert (await shards.ask(0, "GET", "/v1/stats"))[0] == 503
        assert (await shards.ask(0, "GET", "/health"))[0] == 200

    run(steps)


def test_a_retracted_reward_never_was_and_the_neighbours_hear_of_it(tmp_path: Path) -> None:
    async def steps() -> None:
        shards = Shards(tmp_path, whole_state("graphucb-local"))
        await shards.open()
        name = await shards.reward("ann", "tea", 5.0)
        await shards.exchange()
        assert np.abs(shards.theta(["bob"])).sum() > 0
        assert (await shards.at("ann", "DELETE", f"/v1/rewards/{name}"))[0] == 200
        while shards[0].state.stale:
            await asyncio.sleep(0.01)
        await shards.exchange()
        assert not shards.theta(PEOPLE).any()
        shards.check_replay()
        await shards.restart(0)
        await shards.exchange()
        assert not shards.theta(PEOPLE).any()
        await shards.close()

    run(steps)


def test_values_are_exchanged_in_the_background(tmp_path: Path) -> None:
    async def steps() -> None:
        shards = Shards(tmp_path, whole_state("graphucb-local"), exchange_seconds=0.05)
        await shards.open()
        await shards.reward("ann", "tea", 5.0)
        for _ in range(200):
            if shards.theta(["bob"]).any():
                break
            await asyncio.sleep(0.02)
        assert shards.theta(["bob"]).any()
        assert shards[1].status()["heard"][0] < 1.0
        quiet = [shards[k].state.seq for k in range(3)]
        for _ in range(200):
            await asyncio.sleep(0.06)
            now = [shards[k].state.seq for k in range(3)]
            if now == quiet:
                break
            quiet = now
        await asyncio.sleep(0.3)
        assert [shards[k].state.seq for k in range(3)] == quiet  # nothing new, so nothing is logged
        shards.check_replay()
        await shards.close()

    run(steps)


def test_what_a_shard_does_not_offer_is_refused_with_a_sentence(tmp_path: Path) -> None:
    async def steps() -> None:
        shards = Shards(tmp_path, whole_state("linucb"))
        await shards.open()
        for path in ("/v1/policy/promote", "/v1/experiment"):
            status, told = await shards.ask(0, "POST", path, {})
            assert status == 501 and "not offered" in told["detail"][0]["msg"]
        await shards.close()

    run(steps)
    settings = ServiceSettings(store=f"sqlite:///{tmp_path}")
    with pytest.raises(ValueError, match="shard 0 of 3"):
        ShardService.open(settings, 0, 4, None, lambda name: 0)
    for wrong in ({"shadow": "linucb"}, {"model": tmp_path}, {"history": tmp_path}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            ShardService.open(ServiceSettings(store=f"sqlite:///{tmp_path}", **wrong), 0, 3, None, lambda name: 0)
    with pytest.raises(ValueError, match="must be one of linucb"):
        Shards(tmp_path / "other", whole_state("club"))
    with pytest.raises(ValueError, match="there is no file"):
        ShardService.open(ServiceSettings(store=f"sqlite:///{tmp_path}/none"), 0, 3, None, lambda name: 0)


def test_tools_of_a_store_know_a_shard(tmp_path: Path) -> None:
    async def steps() -> None:
        shards = Shards(tmp_path, whole_state("graphucb-local"))
        await shards.open()
        for user, arm, value in stream(20):
            await shards.reward(user, arm, value)
        await shards.exchange()
        assert (await shards.at("ann", "PUT", edge_path("ann", "eve"), {"weight": 2.0}))[0] == 200
        await shards.close()
        found = shard_settings(shards.settings, 0)
        assert found.snapshots is not None
        checked = verify(found.store, found.snapshots)
        assert checked.problems == [] and any("bit for bit" in fact for fact in checked.facts)
        with pytest.raises(ValueError, match="shard 0 of 3: forgetting"):
            forget_user(found.store, "ann", found.snapshots)
        with pytest.raises(ValueError, match="a new beginning is not offered"):
            replay_into(found.store, f"sqlite:///{tmp_path}/new.db", tmp_path, {"policy": "linucb"})
        with pytest.raises(ValueError, match="is the store of a shard"):
            build_app(found, None, lambda: None)
        archived = compact(found.store, time.time_ns() // 1000 + 10**9)
        assert archived.events
        await shards.open()  # from the archive, with keys that have expired
        assert shards.edges() == RING | {("ann", "eve"): 2.0}
        shards.check_replay()
        await shards.close()

    run(steps)


def test_a_service_can_begin_with_nobody(tmp_path: Path) -> None:
    from dataclasses import replace

    async def steps() -> None:
        shards = Shards(tmp_path, replace(whole_state("graphucb-local"), graph=None))
        await shards.open()
        for name in ("aaa", "aab", "aac"):
            assert (await shards.at(name, "PUT", user_path(name), {}))[0] == 200
        assert (await shards.at("aaa", "PUT", edge_path("aaa", "aab"), {}))[0] == 200
        await shards.reward("aaa", "tea", 1.0)
        await shards.reward("newcomer", "tea", 1.0)  # joins with its first reward
        await shards.exchange()
        assert shards.theta(["aab"]).any()
        assert sum(shards[k].status()["users"] for k in range(3)) == 4
        shards.check_replay()
        await shards.close()

    run(steps)


def test_shards_share_a_postgresql_each_in_its_own_schema(tmp_path: Path, postgres: str) -> None:
    store = new_database(postgres)

    async def steps() -> None:
        shards = Shards(tmp_path, whole_state("graphucb-local"), store=store)
        await shards.open()
        with pytest.raises(Occupied):
            ShardService.open(shards.settings, 1, 3, None, shards.home)
        for user, arm, value in stream(20):
            await shards.reward(user, arm, value)
        assert (await shards.at("ann", "PUT", edge_path("ann", "eve"), {"weight": 2.0}))[0] == 200
        await shards.restart(2)
        await shards.exchange()
        assert shards.edges() == RING | {("ann", "eve"): 2.0}
        shards.check_replay()
        await shards.close()
        await shards.open()
        shards.check_replay()
        await shards.close()

    run(steps)


def test_settings_of_a_shard_have_its_own_store(tmp_path: Path) -> None:
    found = shard_settings(ServiceSettings(store="postgresql://me@db/x", snapshots=tmp_path), 7)
    assert found.snapshots == tmp_path / "shard-0007" and "shard_0007" in found.store
