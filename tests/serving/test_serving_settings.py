"""Settings from all sources, files, the command line, the demo."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from pyarrow import parquet
from typer.testing import CliRunner

from graphbandit.cli import app
from graphbandit.compute.compiler import compiling_aside
from graphbandit.policies.core import kernels
from graphbandit.policies.core.decisions import Requests
from graphbandit.serving import start as run
from graphbandit.serving.domain.initial_state import Beginning
from graphbandit.serving.domain.recommender import Recommender
from graphbandit.serving.http.guard import Bucket, decoded, label
from graphbandit.serving.operations import settings as library
from graphbandit.serving.operations.client import Client
from graphbandit.serving.operations.demo_population import Population
from graphbandit.serving.operations.input_files import read_arms, read_graph
from graphbandit.serving.operations.settings import Settings
from graphbandit.serving.operations.stats import BOUNDS, DECISIONS, REWARDS, SHORTFALL, TOTAL, Series, Stats, percentiles
from graphbandit.serving.operations.warmup import rehearse
from graphbandit.serving.start import beginning_of, snapshot_folder
from graphbandit.solvers import DENSE_ROWS, Dense, Push
from serving_zoo import free_port, running, small_beginning

EDGES = "user,friend,weight\nann,bob,1.5\nbob,é/e,2\n"
ARMS = "arm,x0,x1,topic\ntea,1,0,hot\ncola,0.5,-1e3,cold\n"


def files(folder: Path) -> tuple[Path, Path]:
    (folder / "edges.csv").write_text(EDGES)
    (folder / "arms.csv").write_text(ARMS)
    return folder / "edges.csv", folder / "arms.csv"


def test_flags_win_over_environment_over_file_over_defaults(tmp_path: Path) -> None:
    config = tmp_path / "service.toml"
    config.write_text('policy = "linucb"\nport = 1\nseed = 1\n[params]\nridge = 2.0\n')
    environment = {"GRAPHBANDIT_PORT": "2", "GRAPHBANDIT_SEED": "2", "GRAPHBANDIT_DATA": "elsewhere", "PORT": "9"}
    found = library.load({"seed": 3, "host": None}, config, environment)
    assert (found.policy, found.port, found.seed, found.host) == ("linucb", 2, 3, "127.0.0.1")
    assert found.params == {"ridge": 2.0}
    assert library.load({}, None, {"GRAPHBANDIT_TOKEN_FILE": "/x", "GRAPHBANDIT_RATE": "0.5"}).token_file == Path("/x")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prot = 1", "is not a setting"),
        ('port = "many"', "port must be of the kind int"),
        ("port = true", "port must be a number"),
        ("port = 0", "between 1 and 65535"),
        ("epsilon = 2", "epsilon must lie"),
        ("rate = -1", "rate must not be negative"),
        ("snapshot_every = 0", "must be positive"),
        ('log_level = "loud"', "log_level must be"),
        ("params = 3", "must be a table"),
        ("port =", "is not TOML"),
        ('host = "0.0.0.0"', "token_file is needed"),
    ],
)
def test_wrong_settings_are_named(tmp_path: Path, text: str, message: str) -> None:
    config = tmp_path / "service.toml"
    config.write_text(text)
    with pytest.raises(ValueError, match=message):
        library.load({}, config, {})


def test_tokens_are_long_enough_and_never_shown(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    for text, message in (("", "holds no token"), ("short\n", "16 or more"), ("ééééééééééééééééé\n", "ASCII")):
        file.write_text(text)
        with pytest.raises(ValueError, match=message):
            Settings(token_file=file).tokens()
    file.write_text("a-token-that-is-long\n\n another-one-that-is-too \n")
    found = Settings(token_file=file, host="0.0.0.0", store="postgresql://me:secret@db/x")
    assert found.tokens() == ["a-token-that-is-long", "another-one-that-is-too"]
    assert "a-token" not in str(found.shown()) and "secret" not in str(found.shown())


def test_files_are_read_alike_as_csv_and_parquet(tmp_path: Path) -> None:
    edges, arms = files(tmp_path)
    graph = read_graph(edges)
    names, features, attributes = read_arms(arms)
    parquet.write_table(
        pa.table({"user": ["ann", "bob"], "friend": ["bob", "é/e"], "weight": [1.5, 2.0]}), tmp_path / "e.parquet"
    )
    columns = {"arm": ["tea", "cola"], "x0": [1.0, 0.5], "x1": [0, -1000], "topic": ["hot", "cold"]}
    parquet.write_table(pa.table(columns), tmp_path / "a.parquet")
    same = read_graph(tmp_path / "e.parquet")
    assert same.ids == graph.ids == ("ann", "bob", "é/e") and (same.adjacency != graph.adjacency).nnz == 0
    others = read_arms(tmp_path / "a.parquet")
    assert names == others[0] == ["tea", "cola"] and attributes == others[2] == [{"topic": "hot"}, {"topic": "cold"}]
    assert np.array_equal(features, others[1])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("arm,x0\n", "has no arms"),
        ("name,x0\na,1\n", "one column arm"),
        ("arm,x1\na,1\n", "one column x0"),
        ("arm,x0\na,one\n", "line 2: every one of x0 must be a number"),
        ("arm,x0\na,nan\n", "line 2: features must be finite"),
        ("arm,x0\n,1\n", "1 to 200 characters"),
        ('arm,x0\n"a\tb",1\n', "control characters"),
    ],
)
def test_wrong_arms_are_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "arms.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_arms(tmp_path / "arms.csv")


def test_wrong_parquet_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 no")
    for reader in (read_graph, read_arms):
        with pytest.raises(ValueError, match="cannot be read as Parquet"):
            reader(tmp_path / "bad.parquet")
    parquet.write_table(pa.table({"user": ["a"]}), tmp_path / "edges.parquet")
    with pytest.raises(ValueError, match="column friend is missing"):
        read_graph(tmp_path / "edges.parquet")
    parquet.write_table(pa.table({"user": ["a"], "friend": ["b"], "weight": [1e-9]}), tmp_path / "edges.parquet")
    with pytest.raises(ValueError, match="weight must lie between"):
        read_graph(tmp_path / "edges.parquet")
    parquet.write_table(pa.table({"user": ["a"], "friend": ["a"]}), tmp_path / "edges.parquet")
    with pytest.raises(ValueError, match=r"edges\.parquet, row 1: 'a' is its own friend"):
        read_graph(tmp_path / "edges.parquet")


def test_what_a_store_begins_with(tmp_path: Path) -> None:
    edges, arms = files(tmp_path)
    found = beginning_of(Settings(graph=edges, arms=arms, policy="graphucb", params={"alpha": 2.0}, epsilon=0.1, seed=5))
    assert found is not None and found.make_policy().params["policy.alpha"] == 2.0
    again = Beginning.from_bytes(found.to_bytes())
    assert again.to_bytes() == found.to_bytes() and again.users == ["ann", "bob", "é/e"] and again.epsilon == 0.1
    assert beginning_of(Settings()) is None
    with pytest.raises(ValueError, match="arms is missing"):
        beginning_of(Settings(graph=edges))
    for policy, message in (("nope", "policy must be one of"), ("spectral-ucb", "fixed catalogue")):
        with pytest.raises(ValueError, match=message):
            beginning_of(Settings(graph=edges, arms=arms, policy=policy))
    assert snapshot_folder(Settings(store="sqlite:////x/state.db")) == Path("/x/state.db.snapshots")
    assert snapshot_folder(Settings(store="postgresql://db/x")) == Path("graphbandit-snapshots")


def test_the_command_says_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphbandit.serving.operations.json_logs.set_up", lambda level: None)
    runner = CliRunner()
    for arguments, message in (
        (["--store", f"sqlite:///{tmp_path}/new.db"], "needs a graph and arms"),
        (["--host", "0.0.0.0"], "token_file is needed"),
        (["--store", "mysql://x"], "store must be an address"),
        (["--store", "postgresql://nobody@127.0.0.1:1/x"], "the store cannot be used now"),
        (["--graph", str(tmp_path / "none.csv")], "arms is missing"),
        (["--token-file", str(tmp_path / "none")], "No such file"),
    ):
        done = runner.invoke(app, ["serve", *arguments])
        assert done.exit_code == 2 and message in done.stderr, (arguments, done.stderr)


def test_the_command_runs_prints_its_settings_and_refuses_a_second_writer(tmp_path: Path) -> None:
    edges, arms = files(tmp_path)
    store, port = f"sqlite:///{tmp_path}/state.db", free_port()
    command = [sys.executable, "-m", "graphbandit.cli", "serve", "--store", store, "--policy", "linucb", "--port", str(port)]
    process = subprocess.Popen([*command, "--graph", str(edges), "--arms", str(arms)], stderr=subprocess.PIPE, text=True)
    with Client(f"http://127.0.0.1:{port}", patience=120.0) as client:
        client.wait()
        client.reward(client.recommend("é/e")["decision"], 1.0)
    second = subprocess.run([*command[:-1], str(free_port())], capture_output=True, text=True)
    assert second.returncode == 2 and "a store has one writer" in second.stderr
    process.send_signal(signal.SIGTERM)
    _, lines = process.communicate()
    assert process.returncode == 0
    first = json.loads(lines.splitlines()[0])
    assert first["message"] == "settings" and first["store"] == store and first["policy"] == "linucb"
    assert list((tmp_path / "state.db.snapshots").glob("snapshot-*2.npz"))  # written on the way out


def test_the_population_of_the_demo_is_served_better_with_time(tmp_path: Path) -> None:
    population = Population(seed=0)
    with running(tmp_path, population.beginning("linucb", 0)) as server, Client(server.url) as client:
        values = [population.visit(client) for _ in range(60)]
        assert server.http.get("/v1/stats").json()["rewards"] == 60 and np.isfinite(values).all()
    chosen = population.beginning("linucb", 0, epsilon=0.3, params={"ridge": 0.5})  # what `serve --demo` was told is heard
    assert (chosen.epsilon, chosen.params) == (0.3, {"ridge": 0.5})


def test_the_demo_does_not_wait_for_the_compiler(tmp_path: Path) -> None:
    population, late = Population(seed=0), threading.Event()
    with compiling_aside(late.wait), running(tmp_path, population.beginning("adaptive", 0)) as server:
        with Client(server.url) as client:
            assert np.isfinite([population.visit(client) for _ in range(20)]).all()
            assert client.explanation("user-3")["estimate"]
        stats = server.http.get("/v1/stats").json()
        assert stats["rewards"] == 20 and stats["evidence"] is not None
    late.set()


def test_a_rehearsal_meets_every_form_that_a_policy_takes() -> None:
    """A service that has grown from few users to many asks for no kernel that was not rehearsed."""
    beginning = small_beginning("graphucb")
    rehearse(beginning)
    policy = beginning.make_policy()
    known = {name: len(value.signatures) for name, value in vars(kernels).items() if hasattr(value, "signatures")}
    forms = {type(policy.state.solver)}
    while policy.n_users * policy.dim <= DENSE_ROWS:
        policy.add_user({policy.n_users - 1: 1.0})
    forms.add(type(policy.state.solver))
    policy.update_many([0], [[1.0, 0.0]], [1.0])
    one = np.ones(1, dtype=np.int64)
    policy.decide_many(Requests(0 * one, beginning.features, 0 * one, np.arange(2), one), np.random.default_rng(0))
    policy.remove_user(3)
    assert forms == {Dense, Push}
    assert known == {name: len(value.signatures) for name, value in vars(kernels).items() if hasattr(value, "signatures")}


def test_a_demo_that_cannot_be_compiled_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(recommender: Recommender) -> None:
        raise OSError(28, "No space left on device")

    lines: list[str] = []
    monkeypatch.setattr(Recommender, "warm_up", full)
    monkeypatch.setattr(run.logger, "exception", lines.append)
    run.compile_for(small_beginning())
    assert lines == ["the policy could not be compiled: it goes on as plain Python, slowly"]


def test_the_command_starts_a_demo_of_which_nothing_is_kept(tmp_path: Path) -> None:
    port = free_port()
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "graphbandit.cli", "serve", "--demo", "--policy", "linucb", "--port", str(port)]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    with Client(f"http://127.0.0.1:{port}", patience=120.0) as client:
        while not client.stats()["rewards"]:
            time.sleep(0.05)
        assert list(tmp_path.glob("graphbandit-demo-*"))
    process.send_signal(signal.SIGINT)  # whether the compiler is at work or not
    *lines, last = process.communicate()[1].splitlines()
    assert process.returncode == 130 and last == "interrupted: nothing is kept of a demo."
    assert not list(tmp_path.glob("graphbandit-demo-*"))
    assert not [line for line in map(json.loads, lines) if line["level"] in ("warning", "error")]


def test_a_start_that_fails_ends_the_server(tmp_path: Path) -> None:
    import uvicorn

    from graphbandit.serving.operations.recommendation_service import Service
    from graphbandit.serving.start import build

    servers: list[uvicorn.Server] = []
    original = Service.restore
    application, guard = build(Settings(store=f"sqlite:///{tmp_path}/s.db", port=free_port()), small_beginning(), servers)
    server = uvicorn.Server(uvicorn.Config(guard, port=free_port(), log_config=None))
    servers.append(server)
    try:
        Service.restore = classmethod(lambda *_: 1 / 0)  # type: ignore[assignment, method-assign]
        thread = threading.Thread(target=server.run)
        thread.start()
        thread.join(timeout=60)
        assert not thread.is_alive() and isinstance(application.state.runtime.failed, ZeroDivisionError)
    finally:
        Service.restore = original  # type: ignore[method-assign]


def test_series_forget_what_is_old() -> None:
    series = Series(step=10, size=3)
    for at, value in ((5, 1.0), (15, 2.0), (16, 4.0), (45, 8.0)):
        sums = series.at(at)
        sums[REWARDS], sums[TOTAL], sums[SHORTFALL] = 1, value, -value
    table = series.table(at=45)
    assert table["time"] == [20, 30, 40] and table["rewards"] == [0, 0, 1]
    assert table["mean_reward"] == [None, None, 8.0] and table["regret_proxy"] == [None, None, -8.0]
    assert table["latency_p50_ms"] == table["latency_p99_ms"] == [None] * 3
    assert Stats().table()["latency_ms"] == {"p50": None, "p95": None, "p99": None}


def counted(seconds: list[float]) -> np.ndarray:
    return np.bincount(np.searchsorted(BOUNDS, seconds), minlength=len(BOUNDS) + 1).astype(np.int32)[None]


@given(st.lists(st.floats(1e-6, 59.0), min_size=1, max_size=300), st.sampled_from([1, 50, 95, 99, 100]))
@example([0.001] * 100, 99)  # a bound itself, and a rank that is a whole number
@example([0.001, 0.5], 50)
def test_percentiles_lie_between_the_bounds_around_the_true_ones(seconds: list[float], share: int) -> None:
    ((found,),) = percentiles(counted(seconds), (share,))
    true = float(np.percentile(seconds, share, method="inverted_cdf"))
    place = int(np.searchsorted(BOUNDS, true))
    assert (0.0, *BOUNDS)[place] <= found / 1e3 * (1 + 1e-12) and found / 1e3 <= BOUNDS[place] * (1 + 1e-12)


def test_percentiles_of_many_answers_are_those_of_numpy_within_a_fifth() -> None:
    assert max(high / low for low, high in pairwise(BOUNDS)) < 1.2
    rows = np.random.default_rng(0).lognormal(-6.0, 1.0, (3, 5000))
    counts = np.concatenate([counted(row.tolist()) for row in rows])
    np.testing.assert_allclose(percentiles(counts, (50, 99)), 1e3 * np.percentile(rows, (50, 99), axis=1), rtol=0.2)
    assert percentiles(counted([100.0]), (50,)) == 60_000  # more than a minute is a minute


def test_answer_times_are_kept_by_second_and_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [6000.5]
    monkeypatch.setattr("graphbandit.serving.operations.stats.time.time", lambda: now[0])
    stats = Stats()
    for moment, seconds in ((6000.5, 0.002), (6000.9, 0.002), (6003.0, 0.2), (6070.0, 0.02)):
        now[0] = moment
        stats.answered("/v1/rewards", 200, seconds)
    table = stats.table()
    assert stats.table() == table  # asking changes nothing
    told = {at: half for at, half in zip(table["seconds"]["time"], table["seconds"]["latency_p50_ms"], strict=True) if half}
    assert list(told) == [6000, 6003, 6070] and list(told.values()) == pytest.approx([2, 200, 20], rel=0.2)
    assert table["minutes"]["time"] == [6000, 6060]
    assert table["minutes"]["latency_p50_ms"] == pytest.approx([2, 20], rel=0.2)
    assert table["minutes"]["latency_p99_ms"] == pytest.approx([200, 20], rel=0.2)
    text = stats.prometheus().decode()
    for bound, count in (("0.001", 0), ("0.002", 2), ("0.02", 3), ("0.1", 3), ("0.5", 4), ("+Inf", 4)):
        assert f'graphbandit_request_seconds_bucket{{le="{bound}"}} {count}.0' in text
    assert set(stats.table("minutes")) & {"seconds", "minutes"} == {"minutes"}


def test_answers_of_long_ago_do_not_displace_what_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [6000.0]
    monkeypatch.setattr("graphbandit.serving.operations.stats.time.time", lambda: now[0])
    stats = Stats()
    stats.answered("/v1/rewards", 200, 0.1)
    now[0] = 6600.0  # the same place in the ring
    stats.decided(3)
    stats.answered("/v1/rewards", 200, 0.001)
    last = {name: column[-1] for name, column in stats.table()["seconds"].items() if name != "step"}
    assert (last["time"], last["decisions"]) == (6600, 3) and last["latency_p99_ms"] == pytest.approx(1.0, rel=0.2)


def test_steps_of_time_are_put_together_by_their_weights() -> None:
    series, counts = Series(step=1, size=600), np.tile([1, 0, 3], 200)
    for at, count in zip(range(1005, 1605), counts.tolist(), strict=True):
        sums = series.at(at)
        sums[DECISIONS], sums[REWARDS], sums[TOTAL], sums[SHORTFALL] = 3, count, 2.0 * count, at
        series.add_times(at, counted([0.01 if at < 1100 else 0.1, 0.001])[0])
    table = series.table(1604.5, points=75)
    assert table["step"] == 10 and table["time"] == list(range(1010, 1600, 10))  # whole steps only
    assert table["decisions"] == [30] * 59 and table["mean_reward"] == [2.0] * 59
    assert table["rewards"] == counts[5:595].reshape(59, 10).sum(axis=1).tolist()
    gaps = np.arange(1010, 1600).reshape(59, 10).sum(axis=1) / table["rewards"]
    assert table["regret_proxy"] == pytest.approx(gaps)
    assert table["latency_p99_ms"] == pytest.approx([10.0] * 9 + [100.0] * 50, rel=0.2)
    assert table["latency_p50_ms"] == pytest.approx([1.0] * 59, rel=0.2)
    assert series.table(1604.5, points=1440)["time"] == list(range(1005, 1604))  # the last one is not over
    fresh = Series(step=60, size=1440)
    fresh.at(6000.0)[DECISIONS] = 6
    only = fresh.table(6001.0, points=75)
    assert (only["step"], only["time"], only["decisions"], only["latency_p50_ms"]) == (60, [6000], [6], [None])
    for points in (10, 75, 1440):
        long = Series(step=60, size=1440)
        long.at(0.0)
        assert len(long.table(86399.0, points)["time"]) <= points


def test_a_bucket_fills_again(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("graphbandit.serving.http.guard.time.monotonic", lambda: now[0])
    bucket = Bucket(2.0)
    assert [bucket.take() for _ in range(4)] == [0.0] * 4 and bucket.take() == 0.5
    now[0] = 0.5
    assert bucket.take() == 0.0 and bucket.take() > 0


def test_counters_have_few_names() -> None:
    assert {label(path) for path in ("/v1/users/a", "/v1/users/b/history")} == {"/v1/users"}
    assert label("/v1/recommendations/batch") == "/v1/recommendations/batch" and label("/v1/x/y") == label("/zzz") == "other"
    assert decoded("/v1/users/\ue000".encode()) == "/v1/users/\0"
