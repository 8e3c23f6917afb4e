from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import httpx
import pytest

from graphbandit.cluster.ingress import Ingress
from graphbandit.cluster.shard_calls import ShardDown
from graphbandit.serving import ServiceSettings
from graphbandit.serving.http.app import create_app
from graphbandit.serving.http.connection_limits import Connections
from graphbandit.serving.http.guard import Guard
from graphbandit.serving.http.responses import HttpResponse
from graphbandit.serving.operations.runtime import Runtime
from graphbandit.serving.operations.stats import Stats
from graphbandit.serving.operations.tokens import Token
from graphbandit.sharding.routing import Router

USERS = {"ann": 0, "bob": 1, "eve": 2, "a/b": 1}
JSON = {"content-type": "application/json"}
Answer = tuple[int, list[tuple[str, str]], bytes]


class FakeShard:
    """What the ingress sees of a shard, kept in dicts. It may be down, or hang."""

    def __init__(self, number: int) -> None:
        self.number, self.mode = number, "up"
        self.asked: list[tuple[str, str, str, bytes]] = []
        self.decisions: list[str] = []
        self.keys: dict[str, list[str]] = {}
        self.rewards: dict[str, float] = {}

    async def handle(self, method: str, path: str, query: str, headers: Sequence[tuple[str, str]], body: bytes) -> Answer:
        if self.mode == "down":
            raise ShardDown("killed")
        if self.mode == "hangs":
            await asyncio.sleep(60.0)
        self.asked.append((method, path, query, body))
        if path == "/metrics":
            text = "# HELP graphbandit_decisions_total D.\n# TYPE graphbandit_decisions_total counter\n"
            return 200, [("content-type", "text/plain")], f"{text}graphbandit_decisions_total {self.number}.0\n".encode()
        status, table = self.answer(method, path, json.loads(body) if body else {})
        return (
            status,
            [("content-type", "application/json"), ("content-length", "0"), ("x-kept", "yes")],
            json.dumps(table, separators=(",", ":")).encode(),
        )

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        match [method, *path.split("/")[1:]]:
            case ["POST", "v1", "recommendations"]:
                return 200, self.decide(body["user"])
            case ["POST", "v1", "recommendations", "batch"]:
                if any(request["user"] == "nobody" for request in body["requests"]):
                    return 404, {"detail": [{"loc": ["user"], "msg": "there is no user 'nobody'.", "type": "unknown"}]}
                key = body.get("idempotency_key", "")
                if key not in self.keys:
                    self.keys[key] = [self.decide(request["user"]) for request in body["requests"]]  # type: ignore[misc]
                return 200, {"decisions": self.keys[key]}
            case ["POST", "v1", "rewards"]:
                rewards = body.get("rewards", [body])
                new = [reward for reward in rewards if reward["decision"] not in self.rewards]
                self.rewards |= {reward["decision"]: reward["value"] for reward in new}
                return 200, {"accepted": len(new), "duplicates": len(rewards) - len(new)}
            case ["GET", "v1", "users", user, "history"]:
                return 200, {"user": user, "events": [{"kind": "reward", "decision": "e.7.0", "value": 1.0}]}
            case ["PUT", "v1", "edges", _, "nobody"]:
                return 404, {"detail": [{"loc": ["b"], "msg": "there is no user 'nobody'.", "type": "unknown"}]}
            case ["GET", "v1", "stats"]:
                return 200, stats_table(self.number)
            case _:
                return 200, {"shard": self.number, "method": method, "path": path}

    def decide(self, user: str) -> dict[str, Any]:
        self.decisions.append(f"e.{len(self.decisions)}.0")
        arm = {"arm": "tea", "mean": 0.1 + self.number, "bonus": 0.2}
        return {"decision": self.decisions[-1], "user": user, "arms": [arm], "propensity": 1.0}


def stats_table(number: int) -> dict[str, Any]:
    table = Stats().table() | {"decisions": 10, "rewards": number, "mean_reward": float(number), "regret_proxy": 0.0}
    return table | {"policy": "LinUCB", "users": 5, "arms": 3, "edges": 4, "events": 7, "trouble": None, "evidence": None}


Test = Callable[[httpx.AsyncClient, list[FakeShard]], Coroutine[Any, Any, None]]


def behind(test: Test, timeout: float = 5.0, most_waiting: int = 1000, **guarded: Any) -> None:
    """Run a test against an ingress with three shards, behind the guard."""

    async def run() -> None:
        shards, stats = [FakeShard(number) for number in range(3)], Stats()
        ingress = Ingress(Router(USERS, 3), shards, stats, timeout=timeout, most_waiting=most_waiting)
        guard = Guard(ingress, stats, {}, connections=Connections(ServiceSettings(), stats), **guarded)
        transport = httpx.ASGITransport(app=guard)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=30.0) as client:
            await test(client, shards)

    asyncio.run(run())


def test_a_user_is_served_by_its_shard_and_the_reward_finds_the_decision() -> None:
    async def test(client: httpx.AsyncClient, shards: list[FakeShard]) -> None:
        for user, shard in USERS.items():
            answer = await client.post("/v1/recommendations", json={"user": user, "idempotency_key": "k"})
            made = answer.json()
            assert answer.status_code == 200 and made["user"] == user and made["decision"].startswith(f"{shard}-e.")
            assert answer.headers["x-kept"] == "yes" and int(answer.headers["content-length"]) == len(answer.content)
            assert json.loads(shards[shard].asked[-1][3]) == {"user": user, "idempotency_key": "k"}
            body = {"decision": made["decision"], "value": 0.1, "arm": "tea"}
            assert (await client.post("/v1/rewards", json=body)).json() == {"accepted": 1, "duplicates": 0}
            assert (await client.post("/v1/rewards", json=body)).json() == {"accepted": 0, "duplicates": 1}
            assert shards[shard].rewards[made["decision"].partition("-")[2]] == 0.1

    behind(test)


def test_a_batch_is_decided_by_its_shards_and_answered_in_order() -> None:
    async def test(client: httpx.AsyncClient, shards: list[FakeShard]) -> None:
        users = ["eve", "ann", "bob", "ann", "stranger", "eve"]
        body = {"requests": [{"user": user} for user in users], "idempotency_key": "once"}
        made = (await client.post("/v1/recommendations/batch", json=body)).json()["decisions"]
        assert [entry["user"] for entry in made] == users
        router = Router(USERS, 3)
        assert [entry["decision"].split("-")[0] for entry in made] == [str(router.shard_of(user)) for user in users]
        assert (await client.post("/v1/recommendations/batch", json=body)).json()["decisions"] == made  # keys reach all parts
        rewards = [{"decision": entry["decision"], "value": 1.0} for entry in made]
        answer = await client.post("/v1/rewards", json={"rewards": rewards})
        assert answer.json() == {"accepted": 6, "duplicates": 0}
        again = await client.post("/v1/rewards", json={"rewards": rewards})
        assert again.json() == {"accepted": 0, "duplicates": 6}

    behind(test)


def test_a_part_of_a_batch_that_is_refused_refuses_the_batch_and_a_shard_that_is_down_comes_first() -> None:
    async def test(client: httpx.AsyncClient, shards: list[FakeShard]) -> None:
        home = Router(USERS, 3).shard_of("nobody")
        other = next(user for user, shard in USERS.items() if shard != home)
        body = {"requests": [{"user": "nobody"}, {"user": other}]}
        assert (await client.post("/v1/recommendations/batch", json=body)).status_code == 404
        shards[USERS[other]].mode = "down"
        answer = await client.post("/v1/recommendations/batch", json=body)
        assert answer.status_code == 503 and answer.headers["retry-after"] == "1"

    behind(test)


def test_requests_that_are_wrong_are_answered_as_by_the_service_whatever_shards_are_down() -> None:
    async def test(client: httpx.AsyncClient, shards: list[FakeShard]) -> None:
        for shard in shards:
            shard.mode = "down"
        answer = await client.post("/v1/recommendations", json={"user": "ann", "kk": 2})
        assert answer.status_code == 422 and answer.json()["detail"][0]["loc"] == ["body", "kk"]
        answer = await client.post("/v1/recommendations", content=b"{}", headers={"content-type": "text/plain"})
        assert answer.status_code == 415
        body = {"requests": [{"user": "ann"}, {"user": 3}]}
        answer = await client.post("/v1/recommendations/batch", json=body)
        assert answer.json()["detail"][0]["loc"] == ["body", "requests", 1, "user"]
        for name in ("e.17.0", "3-e.17.0", "-e.1.0", "1-", "²-e.1.0", "99999999999999999999-a"):
            answer = await client.post("/v1/rewards", json={"decision": name, "value": 1.0})
            assert answer.status_code == 404 and answer.json()["detail"][0]["loc"] == ["decision"], name
        assert (await client.get("/v1/nothing")).status_code == 404
        assert (await client.patch("/v1/users/ann")).status_code == 405

    behind(test)


def test_a_shard_that_is_down_or_hangs_concerns_its_own_users_only() -> None:
    async def test(client: httpx.AsyncClient, shards: list[FakeShard]) -> None:
        shards[1].mode = "down"
        answer = await client.post("/v1/recommendations", json={"user": "bob"})
        assert answer.status_code == 503 and answer.headers["retry-after"] == "1"
        assert answer.json()["detail"][0]["loc"] == ["shard"]
        shards[1].mode = "hangs"
        waiting = [asyncio.create_task(client.post("/v1/recommendations", json={"user": "bob"})) for _ in range(4)]
        await asyncio.sleep(0.05)
        start = time.perf_counter()
        assert (await client.post("/v1/recommendations", json={"user": "bob"})).status_code == 503  # too many wait
        assert (await client.post("/v1/recommendations", json={"user": "ann"})).status_code == 200
        assert (await client.get("/v1/users/eve")).status_code == 200
        assert (await client.get("/v1/arms/tea")).status_code == 200
        assert time.perf_counter() - start < 0.25
        assert [(await answer).status_code for answer in waiting] == [503] * 4
        shards[1].mode = "up"
        assert (await client.post("/v1/recommendations", json={"user": "bob"})).status_code == 200

    behind(test, timeout=0.3, most_waiting=4)


def test_users_edges_arms_and_retractions_go_where_they_belong() -> None:
    async def test(client: httpx.AsyncClient, shards: list[FakeShard]) -> None:
        async def asked(method: str, path: str, **more: Any) -> tuple[int, str, str]:
            answer = await client.request(method, path, **more)
            assert answer.status_code == 200, answer.text
            number = answer.json()["shard"]
            return number, shards[number].asked[-1][1], shards[number].asked[-1][2]

        assert await asked("PUT", "/v1/users/a%2Fb", json={"edges": {"ann": 1.0}}) == (1, "/v1/users/a%2Fb", "")
        assert await asked("GET", "/v1/users/eve") == (2, "/v1/users/eve", "")
        assert await asked("DELETE", "/v1/users/bob") == (1, "/v1/users/bob", "")
        assert await asked("GET", "/v1/users/bob/explanation") == (1, "/v1/users/bob/explanation", "")
        # An edge has one home, whichever way it is written, so that its changes have one order.
        assert await asked("PUT", "/v1/edges/eve/bob", json={"weight": 2.0}) == (1, "/v1/edges/bob/eve", "")
        assert await asked("DELETE", "/v1/edges/bob/eve") == (1, "/v1/edges/bob/eve", "")
        assert await asked("GET", "/v1/edges/eve/bob") == (2, "/v1/edges/eve/bob", "")
        assert await asked("PUT", "/v1/arms/50%25", json={"features": [1.0]}) == (0, "/v1/arms/50%25", "")
        assert await asked("DELETE", "/v1/rewards/2-e.1.0?arm=tea") == (2, "/v1/rewards/e.1.0", "arm=tea")
        shards[0].mode = "down"
        assert await asked("GET", "/v1/arms/tea") == (1, "/v1/arms/tea", "")
        history = (await client.get("/v1/users/eve/history?limit=3")).json()
        assert history["events"][0]["decision"] == "2-e.7.0" and shards[2].asked[-1][2] == "limit=3"
        refused = await client.put("/v1/edges/nobody/eve", json={})
        assert refused.status_code == 404 and refused.json()["detail"][0]["loc"] == ["a"]

    behind(test)


def test_statistics_metrics_states_and_readiness_are_those_of_all_shards() -> None:
    async def test(client: httpx.AsyncClient, shards: list[FakeShard]) -> None:
        assert (await client.get("/health")).json() == {"status": "alive"}
        ready = await client.get("/ready")
        assert ready.status_code == 200 and [shard["status"] for shard in ready.json()["shards"]] == ["ready"] * 3
        stats = (await client.get("/v1/stats?series=minutes&points=10")).json()
        assert (stats["decisions"], stats["rewards"], stats["users"], stats["arms"]) == (30, 3, 15, 3)
        assert stats["mean_reward"] == pytest.approx(5 / 3) and stats["trouble"] is None and "seconds" not in stats
        assert [shard["rewards"] for shard in stats["shards"]] == [0, 1, 2]
        assert len((await client.get("/v1/state")).json()["shards"]) == 3
        shards[2].mode = "down"
        ready = await client.get("/ready")
        assert ready.status_code == 503 and ready.headers["retry-after"] == "1"
        assert [shard["status"] for shard in ready.json()["shards"]] == ["ready", "ready", "unavailable"]
        assert (await client.get("/health")).status_code == 200
        stats = (await client.get("/v1/stats")).json()
        assert stats["decisions"] == 20 and "2" in stats["trouble"] and stats["shards"][2]["trouble"]
        assert (await client.get("/v1/state")).status_code == 503
        metrics = (await client.get("/metrics")).text
        assert 'graphbandit_decisions_total{shard="1"} 1.0' in metrics
        assert 'graphbandit_shard_up{shard="2"} 0.0' in metrics and 'graphbandit_shard_up{shard="0"} 1.0' in metrics
        assert 'shard="ingress"' in metrics and metrics.count("# TYPE graphbandit_decisions_total") == 1

    behind(test)


def test_what_cannot_be_divided_is_refused_with_a_sentence_and_exports_name_their_shard() -> None:
    async def test(client: httpx.AsyncClient, shards: list[FakeShard]) -> None:
        for method, path in (("GET", "policy"), ("POST", "policy/promote"), ("GET", "shadow"), ("DELETE", "experiment")):
            answer = await client.request(method, f"/v1/{path}")
            assert answer.status_code == 501 and "many shards" in answer.json()["detail"][0]["msg"]
        assert (await client.get("/v1/export/rewards.parquet")).status_code == 422
        assert (await client.get("/v1/export/rewards.parquet?shard=3")).status_code == 422
        assert (await client.get("/v1/export/rewards.parquet?shard=2")).json()["shard"] == 2
        assert "<html" in (await client.get("/")).text and (await client.get("/openapi.json")).status_code == 200

    behind(test)


def test_every_route_of_the_service_is_answered() -> None:
    def no_runtime() -> Runtime:
        raise AssertionError

    async def test(client: httpx.AsyncClient, shards: list[FakeShard]) -> None:
        for path, methods in create_app(no_runtime).openapi()["paths"].items():
            for method in methods:
                answer = await client.request(method.upper(), path.replace("{", "").replace("}", ""), json={})
                assert answer.status_code in (200, 404, 422, 501), (method, path, answer.text)
                assert "no state" not in answer.text, (method, path)

    behind(test)


def test_the_guard_of_the_service_stands_before_the_ingress() -> None:
    async def test(client: httpx.AsyncClient, shards: list[FakeShard]) -> None:
        assert (await client.get("/v1/users/ann")).status_code == 401
        reader, writer = ({"authorization": f"Bearer {name * 16}"} for name in "rw")
        assert (await client.get("/v1/users/ann", headers=reader)).status_code == 200
        assert (await client.delete("/v1/users/ann", headers=reader)).status_code == 403
        assert (await client.post("/v1/rewards", content=b"x" * 200, headers=writer | JSON)).status_code == 413
        assert (await client.get("/health")).status_code == 200

    tokens = [Token("r" * 16, False), Token("w" * 16, True)]
    behind(test, tokens=tokens, largest_body=100)


def test_the_fast_path_gives_the_same_answers() -> None:
    async def run() -> None:
        shards = [FakeShard(number) for number in range(3)]
        handlers = Ingress(Router(USERS, 3), shards, Stats()).fast_handlers()

        async def ask(path: str, body: Any) -> HttpResponse:
            done: asyncio.Future[HttpResponse] = asyncio.get_running_loop().create_future()
            handlers[path](b"application/json", json.dumps(body).encode(), done.set_result)
            return await done

        made = await ask("/v1/recommendations", {"user": "bob"})
        assert made.status == 200 and json.loads(made.body)["decision"] == "1-e.0.0"
        assert "content-type" not in made.headers and made.headers["x-kept"] == "yes"
        assert (await ask("/v1/rewards", {"decision": "1-e.0.0", "value": 2})).body == b'{"accepted":1,"duplicates":0}'
        assert (await ask("/v1/rewards", {"decision": "e.0.0", "value": 2})).status == 404
        shards[1].mode = "down"
        refused = await ask("/v1/recommendations", {"user": "bob"})
        assert refused.status == 503 and refused.headers["retry-after"] == "1"

    asyncio.run(run())


def test_an_ingress_needs_a_link_to_every_shard() -> None:
    with pytest.raises(ValueError, match="links must be one for each of 3 shards"):
        Ingress(Router({}, 3), [FakeShard(0)], Stats())
