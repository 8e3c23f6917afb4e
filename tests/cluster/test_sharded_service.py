from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from graphbandit import graphs
from graphbandit.cluster import serve_app
from graphbandit.cluster.shard_actor import ActorLink, ShardGone, start_shards, stop_shards, wait_for_shards
from graphbandit.cluster.shard_plan import ShardPlan
from graphbandit.cluster.sharded_server import begin_shards, make_guard
from graphbandit.serving import Client, EventStore, InitialState, ServiceSettings, replay_from_zero
from graphbandit.serving.domain.events import EventKind, decision_id, reward_in
from graphbandit.serving.domain.packing import digest
from graphbandit.serving.start import GracefulServer
from graphbandit.serving.store.shard_schema import shard_store
from serving_zoo import free_port, running

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning:ray"),
    pytest.mark.filterwarnings("ignore:Passing xadj:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
SHARDS, USERS, ARMS = 3, [f"u{i}" for i in range(18)], [f"a{k}" for k in range(6)]


def write_files(folder: Path) -> None:
    """A ring of users with steps of one and two, and arms."""
    lines = [f"u{i},u{(i + step) % len(USERS)}" for i in range(len(USERS)) for step in (1, 2)]
    (folder / "edges.csv").write_text("\n".join(["user,friend", *lines]) + "\n")
    rows = [",".join([name, *map(str, row)]) for name, row in zip(ARMS, features().tolist(), strict=True)]
    (folder / "arms.csv").write_text("\n".join(["arm,x0,x1,x2", *rows]) + "\n")


def features() -> Any:
    return np.random.default_rng(0).standard_normal((len(ARMS), 3))


class Sharded:
    """A service of shards: actors in Ray, and an ingress in a thread."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        write_files(folder)
        files: dict[str, Any] = dict(graph=folder / "edges.csv", arms=folder / "arms.csv", create=True, policy="linucb")
        chosen = files | dict(store=f"sqlite:///{folder}/service", port=free_port(), log_level="error") | settings
        self.settings = ServiceSettings(**chosen)
        # Both nodes are this machine, so that files are where they are.
        self.plan = begin_shards(self.settings, SHARDS, {"scheduling_strategy": "SPREAD"})
        wait_for_shards(self.plan, 300.0)
        self._server = GracefulServer(make_guard(self.settings, self.plan), self.settings)
        self._thread = threading.Thread(target=self._server.run)
        self._thread.start()
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{self.settings.port}", timeout=30.0)
        wait_until(lambda: self._server.started)

    def users_of(self, shard: int) -> list[str]:
        return [user for user in USERS if self.plan.router.shard_of(user) == shard]

    def status(self, shard: int) -> dict[str, Any]:
        return asyncio.run(ActorLink(self.plan, shard).status())

    def close(self) -> None:
        self.http.close()
        self._server.should_exit = True
        self._thread.join()
        stop_shards(self.plan)


def wait_until(holds: Any, seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.02)


@contextmanager
def sharded(folder: Path, **settings: Any) -> Iterator[Sharded]:
    service = Sharded(folder, **settings)
    try:
        yield service
    finally:
        service.close()


@pytest.fixture(scope="module")
def service(ray_cluster: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sharded]:
    with sharded(tmp_path_factory.mktemp("service")) as made:
        yield made


def test_decisions_are_those_of_a_service_of_one_process(service: Sharded, tmp_path: Path) -> None:
    graph = graphs.from_edges([(f"u{i}", f"u{(i + step) % len(USERS)}") for i in range(len(USERS)) for step in (1, 2)])
    initial = InitialState(graph, ARMS, features(), [{} for _ in ARMS], policy="linucb")
    rng = random.Random(0)

    def without_id(decision: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in decision.items() if name != "decision"}

    with running(tmp_path, initial) as single:
        for _ in range(12):
            asked = [{"user": rng.choice(USERS), "k": 3} for _ in range(5)]
            answers = [
                http.post("/v1/recommendations/batch", json={"requests": asked}).json()["decisions"]
                for http in (single.http, service.http)
            ]
            assert [without_id(made) for made in answers[0]] == [without_id(made) for made in answers[1]]
            values = [rng.uniform(-1, 1) for _ in asked]
            for made, http in zip(answers, (single.http, service.http), strict=True):
                rewards = [{"decision": one["decision"], "value": value} for one, value in zip(made, values, strict=True)]
                assert http.post("/v1/rewards", json={"rewards": rewards}).json() == {"accepted": 5, "duplicates": 0}
                assert http.post("/v1/rewards", json=rewards[0]).json() == {"accepted": 0, "duplicates": 1}
        one, many = (http.post("/v1/recommendations", json={"user": "u5"}).json() for http in (single.http, service.http))
        assert without_id(one) == without_id(many)
        stats = [http.get("/v1/stats").json() for http in (single.http, service.http)]
        for name in ("users", "arms", "decisions", "rewards", "duplicates", "total_rewards", "policy"):
            assert stats[0][name] == stats[1][name], name
        assert stats[0]["mean_reward"] == pytest.approx(stats[1]["mean_reward"])


def test_an_edge_between_two_shards_is_in_both(service: Sharded) -> None:
    a, b = service.users_of(0)[0], service.users_of(1)[-1]
    for path in (f"/v1/edges/{b}/{a}", f"/v1/edges/{a}/{b}"):
        assert service.http.put(path, json={"weight": 1.5 + len(path)}).status_code == 200
        for one, other in ((a, b), (b, a)):
            answer = service.http.get(f"/v1/edges/{one}/{other}")
            assert answer.status_code == 200 and answer.json() == {"a": one, "b": other, "weight": 1.5 + len(path)}
    assert service.http.delete(f"/v1/edges/{b}/{a}").status_code == 200
    assert [service.http.get(f"/v1/edges/{one}/{other}").status_code for one, other in ((a, b), (b, a))] == [404, 404]
    refused = service.http.put(f"/v1/edges/{a}/nobody", json={})
    assert refused.status_code == 404 and "nobody" in refused.text


def test_a_new_user_has_neighbours_in_other_shards_and_new_arms_are_offered_by_all(service: Sharded) -> None:
    friends = {service.users_of(shard)[0]: 2.0 for shard in range(SHARDS)}
    assert service.http.put("/v1/users/new%2Fcomer", json={"edges": friends}).status_code == 200
    assert service.http.post("/v1/recommendations", json={"user": "new/comer"}).status_code == 200
    for friend in friends:
        assert service.http.get(f"/v1/edges/{friend}/new%2Fcomer").json()["weight"] == 2.0
        assert "new/comer" in service.http.get(f"/v1/users/{friend}").text
    assert service.http.put("/v1/arms/fresh", json={"features": [1.0, 0.0, 2.0]}).status_code == 200
    for friend in friends:
        answer = service.http.post("/v1/recommendations", json={"user": friend, "candidates": ["fresh"]})
        assert answer.json()["arms"][0]["arm"] == "fresh"
    assert service.http.delete("/v1/users/new%2Fcomer").status_code == 200
    for friend in friends:
        assert "new/comer" not in service.http.get(f"/v1/users/{friend}").text


def test_history_exports_and_metrics_come_from_the_shards(service: Sharded) -> None:
    user = service.users_of(2)[0]
    made = service.http.post("/v1/recommendations", json={"user": user}).json()["decision"]
    assert made.startswith("2-")
    assert service.http.get(f"/v1/users/{user}/history").json()["events"][0]["decision"] == made
    assert service.http.get("/v1/export/decisions.parquet?shard=2").content.startswith(b"PAR1")
    text = service.http.get("/metrics").text
    assert 'graphbandit_ready{shard="0"} 1.0' in text and 'graphbandit_shard_up{shard="2"} 1.0' in text
    assert service.http.get("/v1/policy").status_code == 501


class Load:
    """Clients that decide and reward, and remember what they were told."""

    def __init__(self, service: Sharded) -> None:
        self.acknowledged: dict[str, float] = {}
        self.unanswered: dict[str, float] = {}
        self.refusals: list[tuple[int, int, str | None]] = []  # shard, status, Retry-After
        self.answered: Counter[int] = Counter()
        self._service, self._leaving = service, threading.Event()
        self.failed: list[BaseException] = []
        self._threads = [threading.Thread(target=self._visit, args=(k,)) for k in range(4)]
        for thread in self._threads:
            thread.start()

    def _visit(self, seed: int) -> None:
        rng = random.Random(seed)
        try:
            with httpx.Client(base_url=self._service.http.base_url, timeout=30.0) as http:
                while not self._leaving.is_set():
                    if self.unanswered and rng.random() < 0.3:
                        name, value = next(iter(self.unanswered.copy().items()))
                        shard = int(name.partition("-")[0])
                    else:
                        user = rng.choice(USERS)
                        shard = self._service.plan.router.shard_of(user)
                        answer = http.post("/v1/recommendations", json={"user": user})
                        if self._is_refused(shard, answer):
                            continue
                        name, value = answer.json()["decision"], rng.uniform(-1.0, 1.0)
                        self.unanswered[name] = value
                    if not self._is_refused(shard, http.post("/v1/rewards", json={"decision": name, "value": value})):
                        self.acknowledged.setdefault(name, value)
                        self.unanswered.pop(name, None)
                        self.answered[shard] += 1
        except BaseException as error:
            self.failed.append(error)

    def _is_refused(self, shard: int, answer: httpx.Response) -> bool:
        if answer.status_code == 200:
            return False
        self.refusals.append((shard, answer.status_code, answer.headers.get("retry-after")))
        time.sleep(0.02)
        return True

    def leave(self) -> None:
        self._leaving.set()
        for thread in self._threads:
            thread.join()
        assert not self.failed, self.failed[0]


def settled(service: Sharded) -> list[dict[str, Any]]:
    """The states of the shards, once they have nothing more to tell each other."""
    before: Any = None
    for _ in range(40):
        states: list[dict[str, Any]] = service.http.get("/v1/state").json()["shards"]
        if states == before:
            return states
        before = states
        time.sleep(2 * service.settings.exchange_seconds)
    raise AssertionError("they go on for ever")


def test_a_shard_that_is_killed_under_load_loses_nothing_and_others_do_not_notice(ray_cluster: Any, tmp_path: Path) -> None:
    victim = 1
    with sharded(tmp_path, snapshot_every=200) as service:
        load = Load(service)
        wait_until(lambda: all(load.answered[shard] > 30 for shard in range(SHARDS)))
        before = service.status(victim)["pid"]
        os.kill(before, signal.SIGKILL)
        wait_until(lambda: load.refusals)
        others = [load.answered[shard] for shard in range(SHARDS) if shard != victim]
        wait_until(lambda: all(load.answered[shard] > n + 20 for shard, n in zip((0, 2), others, strict=True)))  # meanwhile
        at_death = load.answered[victim]
        wait_until(lambda: load.answered[victim] > at_death + 30)
        load.leave()
        assert service.status(victim)["pid"] != before
        assert set(load.refusals) == {(victim, 503, "1")}  # its users, and nobody else
        wait_until(lambda: service.http.get("/ready").status_code == 200)
        states = settled(service)
    found: Counter[str] = Counter()
    values: dict[str, float] = {}
    for shard in range(SHARDS):
        log = EventStore(shard_store(service.settings.store, shard))
        log.open()
        for page in log.read(kinds=[EventKind.REWARDED]):
            for event in page:
                reward = reward_in(event.body)
                name = f"{shard}-{decision_id(log.epoch_of(reward.decision), reward.decision, reward.item)}"
                found[name] += 1
                values[name] = reward.value
        assert log.last == states[shard]["event"]
        assert digest(*replay_from_zero(log).pack()) == states[shard]["sha256"]
        log.close()
    assert set(found.values()) == {1}
    assert {name: values[name] for name in load.acknowledged} == load.acknowledged
    assert set(values) <= set(load.acknowledged) | set(load.unanswered)


def test_a_shard_that_cannot_start_is_reported_with_a_sentence(ray_cluster: Any, tmp_path: Path) -> None:
    settings = ServiceSettings(store=f"sqlite:///{tmp_path}/service", log_level="error")
    with pytest.raises(ValueError, match=r"cluster.json is not there"):
        begin_shards(settings)
    write_files(tmp_path)
    (tmp_path / "service").mkdir()
    plan = ShardPlan.from_table({"format": 1, "name": tmp_path.name, "partition": {}, "router": plain_router()})
    plan.write(tmp_path / "service")
    with pytest.raises(ValueError, match=r"shards must be 1, as .*cluster.json says"):
        begin_shards(settings, 2)
    start_shards(settings, plan)  # no store, and no initial state
    with pytest.raises(ValueError, match="shard 0 cannot start"):
        wait_for_shards(plan, 120.0)
    stop_shards(plan)


def plain_router() -> dict[str, Any]:
    from graphbandit.sharding.routing import Router

    return Router({}, 1).as_table()


def test_the_command_serves_until_a_signal_and_ends_its_shards(ray_cluster: Any, tmp_path: Path) -> None:
    write_files(tmp_path)
    port, store = free_port(), f"sqlite:///{tmp_path}/service"
    files = ["--create", "--graph", str(tmp_path / "edges.csv"), "--arms", str(tmp_path / "arms.csv"), "--policy", "linucb"]
    chosen = ["--shards", "2", "--engine", "ray", "--address", ray_cluster.address, "--store", store, "--port", str(port)]
    process = subprocess.Popen([sys.executable, "-m", "graphbandit.cli", "serve", *files, *chosen, "--log-level", "error"])
    try:
        with Client(f"http://127.0.0.1:{port}", patience=120.0) as client:
            client.wait()
            assert client.reward(client.recommend("u1")["decision"], 1.0)["accepted"] == 1
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(120.0) == 0
    plan = ShardPlan.read(tmp_path / "service")
    assert plan is not None
    with pytest.raises(ShardGone):
        asyncio.run(ActorLink(plan, 0).status())
    folder = tmp_path / "service" / f"shard-{plan.router.shard_of('u1'):04d}"  # nothing has happened in the other one
    assert list((folder / "snapshots").glob("snapshot-*"))


def test_a_ray_serve_application_answers_over_http(ray_cluster: Any, service: Sharded) -> None:
    from ray import serve

    port = free_port()
    serve.start(http_options={"host": "127.0.0.1", "port": port})
    try:
        # The shards run already: the application finds them.
        serve.run(serve_app({"store": service.settings.store, "log_level": "error", "timeout": 5.0}), route_prefix="/")
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30.0) as http:
            wait_until(lambda: http.get("/ready").status_code == 200)  # Ray's proxy hears of the route a little later
            made = http.post("/v1/recommendations", json={"user": "u3"})
            assert made.status_code == 200, made.text
            reward = {"decision": made.json()["decision"], "value": 0.5}
            assert service.http.post("/v1/rewards", json=reward).json()["accepted"] == 1  # through the other ingress
            assert http.post("/v1/rewards", json=reward).json()["duplicates"] == 1
            assert http.put("/v1/users/sl%2Fash", json={}).status_code == 200
            assert service.http.get("/v1/users/sl%2Fash").json()["user"] == "sl/ash"
    finally:
        serve.shutdown()
