"""Files that graphbandit 0.1.0 wrote are opened by this version, with the same results bit for bit.

`data/v0.1.0` holds policies, pending decisions, results, stores of the service and an exported log, each with a file that says
what 0.1.0 itself found in them. `make_fixtures.py` made them. Never make them anew: a test that fails here means that users of
0.1.0 cannot go on with their files.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
import numpy.typing as npt
import pytest
from typer.testing import CliRunner

from graphbandit import (
    CLUB,
    POLICIES,
    AdaptiveGraphUCB,
    GraphUCB,
    LinUCB,
    Pending,
    Policy,
    Result,
    Stochastic,
    compare,
    datasets,
    environments,
    graphs,
    simulate,
)

# What is not in `graphbandit` itself is imported here and used in the five functions below, and nowhere else.
from graphbandit.cli import app
from graphbandit.recommending.requests import Request
from graphbandit.serving.domain.logged_recommender import LoggedRecommender
from graphbandit.serving.domain.offers import LoggedOffers
from graphbandit.serving.domain.proposals import ProposedDecisions, RequestBatch
from graphbandit.serving.operations.log_replay import replay_from_zero
from graphbandit.serving.operations.recommendation_service import RecommendationService
from graphbandit.serving.store.event_store import EventStore
from graphbandit.storage.archive import read as read_archive

SERVE = [sys.executable, "-m", "graphbandit.cli", "serve"]


def kept_run(path: Path) -> tuple[str, int, Any]:
    """Policy, seed and regret of a run that `compare(keep=...)` has kept."""
    header, arrays = read_archive(path, "run")
    return header["run"]["name"], header["run"]["seed"], arrays["regret"]


def command(*words: str) -> str:
    """What a command of graphbandit prints."""
    done = CliRunner().invoke(app, list(words))
    assert done.exit_code == 0, done.output
    return done.stdout


@contextmanager
def opened(folder: Path) -> Iterator[RecommendationService]:
    """The service on the store in a folder, as it is after a start. Leaves without a snapshot."""
    service = RecommendationService.open(EventStore(f"sqlite:///{folder}/state.db"), folder / "state.db.snapshots")
    try:
        yield service
    finally:
        service.store.close()


def state_of(service: RecommendationService, *, from_zero: bool = False) -> dict[str, Any]:
    """Everything that a service knows, in the words of `expected.json`: as it is, or replayed from the first event."""
    state: LoggedRecommender = replay_from_zero(service.store) if from_zero else service.recommender
    found: dict[str, Any] = dict(events=state.seq, decisions=state.decisions, rewards=state.rewards)
    found |= dict(rows=state.rows, names=state.names, gone=sorted(state.gone), arms=state.arms, versions=state.versions)
    found |= dict(attributes=[dict(entry) for entry in state.attributes], features=hexes(state.features))
    found |= dict(theta=hexes(state.policy.theta), edges=edges(state.policy), latest=state.latest.tolist())
    found["scores"] = {
        user: [[arm, mean.hex(), bonus.hex()] for arm, mean, bonus in state.ranked(row)] for user, row in state.rows.items()
    }
    return found


def listed(versions: npt.NDArray[np.int64] | None) -> list[int] | None:
    return None if versions is None else [int(version) for version in versions]


def decided(service: RecommendationService, requests: list[dict[str, Any]]) -> list[list[Any]]:
    """What a service decides, in the words of `expected.json`."""
    [proposed] = service.propose([RequestBatch([Request(**request) for request in requests])])
    assert isinstance(proposed, ProposedDecisions)
    decisions, offers = proposed.decisions, LoggedOffers(service.recommender)  # 0.1.0 wrote what a filter left as a list
    return [
        [one.user, listed(offers.of(one)), one.arms, hexes(one.mean), hexes(one.bonus), one.propensity.hex(), one.best.hex()]
        for one in decisions
    ]


# From here on the public interface is enough.

DATA = Path(__file__).with_name("data") / "v0.1.0"
FEW: dict[str, Any] = dict(alphas=[0.1, 1.0], slack=[0.1])


def expected_in(folder: str) -> dict[str, Any]:
    """What 0.1.0 found in the files of a folder."""
    table: dict[str, Any] = json.loads((DATA / folder / "expected.json").read_text(encoding="utf-8"))
    return table


EXPECTED = expected_in("policies")
DESKS = expected_in("pending")
STORES = ("adaptive", "dense", "stochastic")
# Where BLAS takes part, the last bit depends on the processor: in these estimates, in graphs that are learned later on, and in
# the joint solution after a change of the graph.
BLAS_ESTIMATES = tuple(file for file in EXPECTED if file.startswith("spectral"))
BLAS_ROUNDS = tuple(file for file in EXPECTED if file.startswith(("spectral", "graph-learner")))
BLAS_CHANGES = tuple(file for file in EXPECTED if file.startswith(("spectral", "graph-learner", "goblin")))
# AdaptiveGraphUCB sums in another order since 0.2.0.
RESUMMED = tuple(file for file in EXPECTED if "adaptive" in file or file.startswith("graph-learner"))
# After a change of the graph the dense solver rebuilds its inverse, in other units since 0.2.0.
REBUILT = ("graphucb", "graphucb-dense", "graphucb-dense-lived", "horde-ts", "horde-eg")


def hexes(values: Any) -> Any:
    """Nested lists of floats in hexadecimal, which loses no bit."""
    return [hexes(value) for value in values] if np.ndim(values) else float(values).hex()


def floats(values: Any) -> Any:
    """The inverse of `hexes`."""
    return [floats(value) for value in values] if isinstance(values, list) else float.fromhex(values)


def assert_same(found: Any, expected: Any, *, nearly: bool = False) -> None:
    """Fail unless floats are those of a list of hexadecimal numbers, bit for bit, or nearly so after sums in another order."""
    if nearly:
        np.testing.assert_allclose(found, floats(expected), rtol=1e-10, atol=1e-12)
    else:
        assert hexes(found) == expected


def assert_near(found: Any, expected: Any) -> None:
    """Fail unless nested lists and mappings are equal, hexadecimal numbers nearly so."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for name in expected:
            assert_near(found[name], expected[name])
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_near(one, other)
    elif isinstance(expected, str) and expected.removeprefix("-").startswith("0x"):
        assert float.fromhex(found) == pytest.approx(float.fromhex(expected), rel=1e-9, abs=1e-12)
    else:
        assert found == expected


def assert_contains(found: Any, expected: Any) -> None:
    """Fail unless JSON holds everything that was expected. More entries, other sentences and other intervals (Student's since
    0.2.0) are allowed, other numbers are not; last digits may depend on the processor, since some are sums by BLAS."""
    if isinstance(expected, dict):
        for name in expected.keys() - {"sentence", "warnings", "notes", "low", "high"}:
            assert_contains(found[name], expected[name])
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_contains(one, other)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-12)
    else:
        assert found == expected


def edges(policy: Policy) -> list[list[float]]:
    """Both users of every edge, and its weight."""
    matrix = policy.graph.adjacency.toarray()
    return [[i, j, matrix[i, j]] for i in range(len(matrix)) for j in range(i) if matrix[i, j]]


@cache
def world() -> environments.Linear:
    """The world in which the policies have acted; its numbers come from a file, so that nothing else can change them."""
    table = json.loads((DATA / "policies" / "world.json").read_text())
    graph = graphs.from_edges([tuple(pair) for pair in table["edges"]], n_users=table["n_users"], weights=table["weights"])
    return environments.Linear(graph, table["theta"], table["arms"], sigma=table["sigma"], pool=table["pool"])


# Policies.


def loaded(file: str, folder: Path) -> Policy:
    """The policy in a copy of a file."""
    name = EXPECTED[file]["policy"]
    kind: type[Policy] = Stochastic if name == "stochastic" else POLICIES[name]
    return kind.load(shutil.copy(DATA / "policies" / f"{file}.npz", folder))


def test_every_recorded_policy_is_still_there_and_every_file_is_tested() -> None:
    assert {entry["policy"] for entry in EXPECTED.values()} <= {*POLICIES, "stochastic"}
    assert {path.stem for path in (DATA / "policies").glob("*.npz")} == EXPECTED.keys()
    assert {path.stem for path in (DATA / "pending").glob("*.npz")} == DESKS.keys()


@pytest.mark.parametrize("file", EXPECTED)
def test_a_saved_policy_is_opened_with_the_same_estimates(file: str, tmp_path: Path) -> None:
    policy, expected = loaded(file, tmp_path), EXPECTED[file]
    assert (policy.graph.ids and list(policy.graph.ids)) == expected["ids"]
    assert edges(policy) == expected["edges"]
    assert {name: np.asarray(policy.params[name]).tolist() for name in expected["params"]} == expected["params"]
    scores = [policy.scores(user, world().arms[:1]) for user in range(policy.n_users)]
    assert_same([mean for mean, _ in scores], expected["mean"], nearly=file in RESUMMED)
    assert_same([bonus for _, bonus in scores], expected["bonus"], nearly=file in RESUMMED)
    assert_same(policy.theta, expected["theta"], nearly=file in BLAS_ESTIMATES + RESUMMED)


@pytest.mark.parametrize("file", EXPECTED)
def test_an_opened_policy_continues_with_the_same_choices(file: str, tmp_path: Path) -> None:
    policy, expected = loaded(file, tmp_path), EXPECTED[file]
    assert simulate(policy, world(), 40, seed=9).arm.tolist() == expected["arms"]
    assert_same(policy.theta, expected["after"], nearly=file in BLAS_ROUNDS + RESUMMED)


@pytest.mark.parametrize("file", [file for file, entry in EXPECTED.items() if entry["changed"] is not None])
def test_an_opened_policy_takes_in_users_and_edges_as_before(file: str, tmp_path: Path) -> None:
    policy, arms = loaded(file, tmp_path), world().arms
    ids = policy.graph.ids
    new = policy.add_user({0: 1.0, 3: 0.5}, id=None if ids is None else "new" if isinstance(ids[0], str) else 99)
    policy.update(new, arms[0], 0.5)
    policy.add_edge(1, 4, 0.3)
    policy.update(4, arms[1], -0.5)
    policy.set_weight(1, 4, 3.0)
    policy.update(1, arms[2], 1.0)
    policy.remove_edge(1, 4)
    policy.update(0, arms[3], 0.25)
    assert_same(policy.theta, EXPECTED[file]["changed"], nearly=file in BLAS_CHANGES + RESUMMED + REBUILT)


@pytest.mark.parametrize("file", EXPECTED)
def test_a_policy_that_is_saved_again_stays_the_same(file: str, tmp_path: Path) -> None:
    policy = loaded(file, tmp_path)
    policy.save(tmp_path / "again.npz")
    again = type(policy).load(tmp_path / "again.npz")
    assert hexes(again.theta) == hexes(policy.theta)
    assert simulate(again, world(), 40, seed=9).arm.tolist() == EXPECTED[file]["arms"]


@pytest.mark.parametrize("file", DESKS)
def test_pending_decisions_wait_and_are_answered_as_before(file: str, tmp_path: Path) -> None:
    desk, expected = Pending.load(shutil.copy(DATA / "pending" / f"{file}.npz", tmp_path)), DESKS[file]
    assert [desk.ids, desk.condition, desk.max_age] == [expected["ids"], expected["condition"], expected["max_age"]]
    assert_same(desk.policy.theta, expected["theta"], nearly="adaptive" in file)
    assert [hexes(desk.shown(user)) for user in range(7)] == expected["shown"]
    assert [desk.reward("d39", 1.0), desk.reward("d37", 1.0)] == expected["late"]
    for t, (name, arm, propensity) in enumerate(expected["decisions"]):
        decision = desk.recommend(t % 7, world().arms[:6], propensity=True)
        assert [decision.id, decision.arm, hexes(decision.propensity)] == [name, arm, propensity]
        desk.reward(decision.id if t % 4 else desk.ids[0], 0.1 * (t % 5))
    assert_same(desk.policy.theta, expected["after"], nearly="adaptive" in file)


# Results, kept runs, experiments, data sets.


def test_a_saved_result_is_opened() -> None:
    result, expected = Result.load(DATA / "result" / "comparison.npz"), expected_in("result")
    assert result.names == expected["names"] and list(result.seeds) == expected["seeds"]
    assert result.rounds.tolist() == expected["rounds"] and result.provenance == expected["provenance"]
    for name in result.names:
        assert_same(result.regret[name], expected["regret"][name])
        assert_same(result.seconds[name], expected["seconds"][name])
        np.testing.assert_allclose(result.final(name), floats(expected["final"][name]), rtol=1e-12)


@pytest.mark.parametrize("keeps", [False, True])
def test_kept_runs_of_another_version_do_no_harm(keeps: bool, tmp_path: Path) -> None:
    """They belong to the code that made them, so others may be computed and put beside them; the numbers are the same."""
    folder = Path(shutil.copytree(DATA / "runs", tmp_path / "runs"))
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    policies: dict[str, Any] = dict(GraphUCB=GraphUCB, LinUCB=LinUCB, CLUB=CLUB, adaptive=partial(AdaptiveGraphUCB, **FEW))
    result = compare(policies, lambda seed: world(), 50, seeds=[0, 1], keep=folder if keeps else None)
    expected = expected_in("result")["regret"]
    for path in (DATA / "runs").iterdir():
        name, seed, regret = kept_run(path)
        assert hexes(regret) == expected[name][seed]
        if name != "adaptive":  # which decides otherwise since 0.2.0
            assert hexes(result.regret[name][seed]) == hexes(regret)
    assert len(before) == 8 and all((folder / name).read_bytes() == content for name, content in before.items())


@pytest.fixture
def experiment(tmp_path: Path) -> SimpleNamespace:
    """A copy of an experiment and of its folder. Its curves are in `results`, a name that git ignores in this repository."""
    spec = Path(shutil.copy(DATA / "experiment" / "experiment.toml", tmp_path))
    folder = Path(shutil.copytree(DATA / "experiment" / "tiny", tmp_path / "out" / "tiny"))
    (folder / "curves").rename(folder / "results")
    return SimpleNamespace(spec=spec, folder=folder)


def curves(folder: Path) -> dict[str, Result]:
    return {path.name: Result.load(path) for path in sorted((folder / "results").iterdir())}


def test_results_of_an_experiment_are_opened(experiment: SimpleNamespace) -> None:
    found = {
        name: {label: hexes(rows) for label, rows in one.regret.items()} for name, one in curves(experiment.folder).items()
    }
    assert found == expected_in("experiment")


def test_an_experiment_is_run_again_in_its_folder(experiment: SimpleNamespace) -> None:
    before = curves(experiment.folder)
    summary = json.loads(command("run", str(experiment.spec), "--out", str(experiment.folder.parent), "--quiet", "--json"))
    stored = json.loads((DATA / "experiment" / "tiny" / "summary.json").read_text())
    for entry in (*summary["worlds"], *stored["worlds"]):
        del entry["provenance"]  # versions, dates and seconds
    assert_contains(summary, stored)
    after = curves(experiment.folder)
    assert after.keys() == before.keys()
    for name, result in before.items():
        for label, rows in result.regret.items():
            np.testing.assert_allclose(after[name].regret[label], rows, rtol=1e-9, atol=1e-12)


def test_results_of_a_former_grid_are_removed(experiment: SimpleNamespace) -> None:
    text = experiment.spec.read_text()
    assert "[0, 5]" in text
    experiment.spec.write_text(text.replace("[0, 5]", "[0]"))
    command("run", str(experiment.spec), "--out", str(experiment.folder.parent), "--quiet")
    assert list(curves(experiment.folder)) == ["001-gamma-0.npz"]


def test_the_parsed_copy_of_a_data_set_is_read_as_the_data_set_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("GRAPHBANDIT_DATA", raising=False)
    expected = expected_in("dataset")
    source = Path(shutil.copytree(DATA / "dataset" / "hetrec2011-lastfm-2k", tmp_path / "hetrec2011-lastfm-2k"))
    for path in source.iterdir():
        os.utime(path, ns=(expected["written"], expected["written"]))  # by which a copy knows whether it is out of date
    for parsed in (False, True):
        ratings = datasets.load("lastfm", tmp_path)
        for name in ("user", "item", "value", "user_ids", "item_ids"):
            assert getattr(ratings, name).tolist() == expected[name], (name, parsed)
        assert ratings.graph is not None and ratings.graph.adjacency.toarray().tolist() == expected["graph"]
        assert ratings.item_tags is not None and ratings.item_tags.toarray().tolist() == expected["tags"]
        (copy,) = (tmp_path / "cache").rglob("*.npz")
        shutil.copy(DATA / "dataset" / "parsed.npz", copy)  # for the second time


# The service.


def copied(name: str, folder: Path) -> Path:
    """A copy of a store with its snapshots: opening one writes to it."""
    return Path(shutil.copytree(DATA / "service-sqlite" / name, folder / name))


def snapshots(folder: Path) -> dict[int, Path]:
    """The snapshots of a store by the number of their last event, newest first."""
    paths = sorted((folder / "state.db.snapshots").iterdir(), reverse=True)
    return {int(path.stem.removeprefix("snapshot-")): path for path in paths}


def forget_events(folder: Path, until: int) -> None:
    """Delete the first events of a log: what is known of them afterwards can only come from a snapshot."""
    connection = sqlite3.connect(folder / "state.db")
    connection.execute("DELETE FROM graphbandit_events WHERE seq <= ?", (until,))
    connection.commit()
    connection.close()


def assert_state(found: dict[str, Any], name: str) -> None:
    """Fail unless a state is the one that 0.1.0 found in the store, bit for bit but for the order of sums."""
    expected = expected_in(f"service-sqlite/{name}")
    for key, value in found.items():
        assert_near(value, expected[key])


@pytest.mark.parametrize("name", STORES)
def test_a_service_starts_from_its_snapshot_and_the_events_after_it(name: str, tmp_path: Path) -> None:
    folder, expected = copied(name, tmp_path), expected_in(f"service-sqlite/{name}")
    newest = next(iter(snapshots(folder)))
    assert newest == expected["snapshot"] < expected["events"]
    with opened(folder) as service:
        assert_state(state_of(service), name)
        assert_near(decided(service, expected["wishes"]), expected["decided"])


@pytest.mark.parametrize(
    ("name", "used"), [(name, number) for name in STORES for number in snapshots(DATA / "service-sqlite" / name)]
)
def test_a_snapshot_is_really_used(name: str, used: int, tmp_path: Path) -> None:
    """The events before it are deleted, and the state is still the right one. So too from the older of two snapshots."""
    folder = copied(name, tmp_path)
    for number, path in snapshots(folder).items():
        if number > used:
            path.unlink()
    forget_events(folder, used)
    with opened(folder) as service:
        assert_state(state_of(service), name)


@pytest.mark.parametrize("name", STORES)
def test_a_replay_from_the_first_event_leads_to_the_same_state(name: str, tmp_path: Path) -> None:
    folder, expected = copied(name, tmp_path), expected_in(f"service-sqlite/{name}")
    with opened(folder) as service:
        assert_state(state_of(service, from_zero=True), name)
    shutil.rmtree(folder / "state.db.snapshots")
    with opened(folder) as service:
        assert_state(state_of(service), name)
        assert_near(decided(service, expected["wishes"]), expected["decided"])


def links(path: Path) -> list[tuple[int, int | None]]:
    """The number of every event, and that of the event of the same user before it."""
    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT seq, previous FROM graphbandit_events ORDER BY seq").fetchall()
    connection.close()
    return rows


@pytest.mark.parametrize("snapshot", [False, True])
def test_a_store_with_the_first_version_of_the_tables_is_brought_up_to_date(snapshot: bool, tmp_path: Path) -> None:
    """It holds the log of the store `dense`, so that it must lead to the same state, and events must be linked alike."""
    folder, newer = copied("first-tables", tmp_path), copied("dense", tmp_path)
    if snapshot:
        shutil.copytree(newer / "state.db.snapshots", folder / "state.db.snapshots")
    with opened(folder) as service:
        assert_state(state_of(service), "dense")
        assert_state(state_of(service, from_zero=True), "dense")
    assert links(folder / "state.db") == links(newer / "state.db")
    with opened(folder) as service:
        assert_state(state_of(service), "dense")


class Server:
    """`graphbandit serve` in a process of its own."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = str(probe.getsockname()[1])
        words = [*SERVE, "--store", f"sqlite:///{folder}/state.db", "--port", port]
        self.log = folder / "log.jsonl"
        with self.log.open("w") as file:
            self.process = subprocess.Popen(words, stderr=file)
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60.0)

    def wait(self) -> None:
        """Until requests are answered."""
        for _ in range(1200):
            assert self.process.poll() is None, self.log.read_text()
            try:
                if self.http.get("/ready").status_code == 200:
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.1)
        raise AssertionError(self.log.read_text())

    def stop(self) -> list[dict[str, Any]]:
        """Shut down as on SIGTERM; the lines of the log."""
        self.http.close()
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(60) == 0
        return [json.loads(line) for line in self.log.read_text().splitlines()]


@contextmanager
def serving(folder: Path) -> Iterator[Server]:
    server = Server(folder)
    try:
        server.wait()
        yield server
    finally:
        server.http.close()
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait()


@pytest.mark.parametrize("name", STORES)
def test_the_running_service_gives_the_same_answers(name: str, tmp_path: Path) -> None:
    """Views, decisions, a retry of a request of long ago, a reward that was there already, and one that comes late."""
    folder, expected = copied(name, tmp_path), expected_in(f"service-sqlite/{name}")
    with serving(folder) as server:
        assert server.http.get("/v1/state").json()["event"] == expected["events"]
        for question in json.loads((folder / "answers.json").read_text(encoding="utf-8")):
            answer = server.http.request(question["method"], question["path"], json=question["body"])
            assert answer.status_code == 200, answer.text
            without_epochs = re.sub(r'"[a-z2-7]{6}\.(\d+\.\d+)"', r'"\1"', answer.text)  # ids of new decisions have one
            assert_contains(json.loads(without_epochs), question["answer"])
        lines = server.stop()
    (restored,) = [line for line in lines if "replayed" in line]
    assert restored["snapshot"] == expected["snapshot"]
    assert restored["replayed"] == expected["events"] - expected["snapshot"]
    assert {line["level"] for line in lines} == {"info"}
    assert next(iter(snapshots(folder))) > expected["events"]  # one of the end has been written


# The exported log.


def test_the_log_of_an_old_store_is_exported_as_before(tmp_path: Path) -> None:
    from pyarrow import parquet

    with serving(copied("stochastic", tmp_path)) as server:
        for file in ("decisions", "rewards", "arms"):
            answer = server.http.get(f"/v1/export/{file}.parquet")
            found, expected = (
                parquet.read_table(BytesIO(answer.content)),
                parquet.read_table(DATA / "export" / f"{file}.parquet"),
            )
            assert found.select(expected.column_names).equals(expected), file
        server.stop()


def test_an_exported_log_is_evaluated_with_the_same_numbers() -> None:
    folder = DATA / "export"
    options = ["--policies", "linucb,graphucb", "--set", "linucb.ridge=0.5", "--graph", str(folder / "edges.csv")]
    found = json.loads(command("evaluate", str(folder), *options, "--json", "--quiet"))
    assert_contains(found, json.loads((folder / "evaluate.json").read_text()))


def test_exported_rewards_are_diagnosed_with_the_same_numbers() -> None:
    folder = DATA / "export"
    options = ["--graph", str(folder / "edges.csv"), "--shuffles", "1", "--json", "--quiet"]
    found = json.loads(command("diagnose", str(folder / "rewards.parquet"), *options))
    assert_contains(found, json.loads((folder / "diagnose.json").read_text()))
