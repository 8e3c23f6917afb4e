"""Write one file of every format, and read them again.

    python tests/release_files.py tests/formats/0.2.0

writes the files of a release into a new folder, and what they say into its `expected.json`.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from pyarrow import csv, parquet
from typer.testing import CliRunner

from graphbandit import POLICIES, Recommender, Result, compare, environments, graphs, signals
from graphbandit.cli import app
from graphbandit.evaluation import read_export
from graphbandit.experiments import kept_runs, load
from graphbandit.serving import EventStore, RecommendationService
from graphbandit.serving.operations.verify import verify
from serving_zoo import USERS, recommend, reward, running, small_initial_state

FRIENDS = "user,friend\nann,bob\nbob,eve\neve,zoë\n"
ITEMS = "item,kind,price\ntea,hot,2\ncola,cold,3\nmilk,cold,1\n00123,hot,4\n"
VECTORS = "item,x0,x1\ntea,1,0\ncola,0.5,0.5\nmilk,0,1\n00123,1,1\n"
EVENTS = "user,item,reward,time\n" + "".join(
    f"{USERS[k % 3]},{('tea', 'cola', 'milk')[k % 2 + (k % 5 == 0)]},{k % 4},2026-01-{k + 1:02}\n" for k in range(20)
)
EXPERIMENT = """\
[experiment]
name = "small"
horizon = 30
runs = 2

[environment]
kind = "linear"
graph = { kind = "erdos-renyi", p = 0.4 }
n_users = 8
n_arms = 20
pool = 5

[[policy]]
name = "GraphUCB"
policy = "graphucb"
"""


def command(*words: object) -> str:
    """Run `graphbandit` with these words and return what it prints."""
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return done.output


def write(folder: Path) -> None:
    """Write a file of every format."""
    for name, content in {"friends": FRIENDS, "items": ITEMS, "vectors": VECTORS, "events": EVENTS}.items():
        (folder / f"{name}.csv").write_text(content, encoding="utf-8")
    (folder / "experiment.toml").write_text(EXPERIMENT, encoding="utf-8")
    graph = graphs.erdos_renyi(6, 0.5, seed=0)
    arms = signals.unit_arms(4, 2, seed=1)
    for name in ("linucb", "graphucb-local", "adaptive"):
        make: Any = POLICIES[name]
        policy = make(graph, 2)
        for k in range(24):
            policy.update(k % 6, arms[k % 4], float(k % 3), **({"item": k % 4} if policy.learns_items else {}))
        policy.save(folder / f"{name}.gb")
    recommender = Recommender(folder / "friends.csv", folder / "items.csv", policy="linucb").fit(folder / "events.csv")
    recommender.save(folder / "recommender.gb")
    parquet.write_table(csv.read_csv(folder / "events.csv"), folder / "events.parquet")
    tables = ["--graph", folder / "friends.csv", "--arms", folder / "vectors.csv"]
    command("fit", folder / "events.parquet", *tables, "--policy", "linucb", "--out", folder / "model", "--quiet")
    shutil.rmtree(folder / "model" / ".fitting", ignore_errors=True)

    def world(seed: int) -> Any:
        theta = signals.smooth(graph, 2, gamma=1, seed=seed)
        return environments.Linear(graph, theta, signals.unit_arms(9, 2, seed=2), sigma=0.1, pool=4)

    compare({"LinUCB": POLICIES["linucb"]}, world, 20, seeds=range(2), keep=folder / "runs").save(folder / "result.npz")
    write_service(folder / "service")


def write_service(folder: Path) -> None:
    """Write a store whose first events are archived, snapshots, and an export."""
    folder.mkdir()
    with running(folder, small_initial_state()) as server:
        for k in range(12):
            made = recommend(server, user=USERS[k % 5])
            if k % 3:
                reward(server, decision=made["decision"], value=k / 10)
        server.http.put("/v1/users/new", json={"edges": {"ann": 2.0}}).raise_for_status()
        server.http.delete(f"/v1/rewards/{made['decision']}").raise_for_status()
        for name in ("decisions", "rewards", "arms"):
            (folder / f"{name}.parquet").write_bytes(server.http.get(f"/v1/export/{name}.parquet").content)
    command("store", "compact", "--store", f"sqlite:///{folder}/state.db", "--keep-days", 0, "--quiet")
    with running(folder) as server:  # events that are not archived
        reward(server, decision=recommend(server, user="eve")["decision"], value=1.0)
    with closing(sqlite3.connect(folder / "state.db")) as database, database:
        database.execute("UPDATE graphbandit_head SET archive = 'elsewhere'")  # the folder is found beside the database


def read(folder: Path) -> dict[str, Any]:
    """Return what the files of a folder say: numbers and names that any later release must read alike."""
    said: dict[str, Any] = {}
    arms = signals.unit_arms(4, 2, seed=1)
    for name in ("linucb", "graphucb-local", "adaptive"):
        scores = POLICIES[name].load(folder / f"{name}.gb").scores(2, arms)
        said[name] = [scores.mean.tolist(), scores.bonus.tolist()]
    for name in ("recommender.gb", "model"):
        recommender = Recommender.load(folder / name)
        said[name] = [recommender.users, recommender.items, list(recommender.recommend("bob", k=3).items)]
    result = Result.load(folder / "result.npz")
    said["result"] = np.asarray(result.regret["LinUCB"])[:, -1].tolist()
    runs = [kept_runs.load(path) for path in sorted((folder / "runs").iterdir())]
    said["runs"] = [run and float(run.regret[-1]) for run in runs]
    experiment = load(folder / "experiment.toml")
    said["experiment"] = [experiment.name, experiment.horizon]
    return said | read_service(folder / "service")


def read_service(folder: Path) -> dict[str, Any]:
    """Return the state of a store from its snapshot and from its log, and the sizes of its export."""
    said: dict[str, Any] = {"export": len(read_export(folder))}
    for state in ("from the snapshot", "from the log"):
        service = RecommendationService.open(EventStore(f"sqlite:///{folder}/state.db"), folder / "snapshots")
        said[state] = [service.state.seq, service.state.policy.theta.tolist()]
        service.store.close()
        shutil.rmtree(folder / "snapshots", ignore_errors=True)
    said["problems"] = list(verify(f"sqlite:///{folder}/state.db").problems)
    return said


def main(folder: Path) -> None:
    """Write the files and what they say."""
    folder.mkdir(parents=True)
    write(folder)
    with tempfile.TemporaryDirectory() as copy:
        said = read(shutil.copytree(folder, Path(copy) / "copy"))
    for lock in [*folder.rglob("lock"), *folder.rglob("*.lock")]:
        lock.unlink()
    (folder / "expected.json").write_text(json.dumps(said, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
