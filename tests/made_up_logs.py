"""Made-up logs of decisions and of rewards, in memory and in files."""

from __future__ import annotations

import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphbandit import (
    LinUCB,
    Policy,
    Stochastic,
    UserGraph,
    environments,
    graphs,
    signals,
)
from graphbandit.diagnose import RewardLog
from graphbandit.evaluation import (
    DecisionLog,
    record,
)

GRAPH = graphs.erdos_renyi(8, 0.5, seed=0)


def world(*, sigma: float = 0.3, pool: int | None = None, seed: int = 1) -> environments.Linear:
    truth = signals.smooth(GRAPH, 3, gamma=7, seed=seed)
    return environments.Linear(GRAPH, truth, signals.unit_arms(6, 3, seed=2), sigma=sigma, pool=pool)


def true_value(policy: Policy, env: environments.Linear) -> float:
    """Return the mean reward of a frozen policy, with uniform users and all arms on offer."""
    rewards = env.truth @ env.arms.T
    return float(np.mean([policy.propensities(user, env.arms) @ rewards[user] for user in range(GRAPH.n_users)]))


def logging_policy(seed: int = 0) -> Policy:
    return Stochastic(LinUCB(GRAPH, 3), epsilon=0.4, seed=seed)


def recorded(rounds: int = 200) -> DecisionLog:
    truth = signals.smooth(GRAPH, 3, gamma=7, seed=1)
    env = environments.Linear(GRAPH, truth, signals.unit_arms(6, 3, seed=2), sigma=0.3)
    return record(Stochastic(LinUCB(GRAPH, 3), epsilon=0.5), env, rounds)


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def export(folder: Path, log: DecisionLog, **changed: Any) -> Path:
    """Write a log as the files of the service."""
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    folder.mkdir(exist_ok=True)
    n, m = len(log), len(log.arms)
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    times = [begin + timedelta(seconds=t) for t in range(n)]
    names = [f"{t}-0" for t in range(n)]
    users = [f"user-{user}" for user in log.user]
    candidates = [None if log.offered is None else log.offer(t).tolist() for t in range(n)]
    decisions = dict(decision=names, time=times, user=users, propensity=log.propensity, version=log.arm)
    decisions |= dict(candidates=pa.array(candidates, pa.list_(pa.int64())))
    told = np.flatnonzero(~np.isnan(log.reward))
    rewards = dict(decision=[names[t] for t in told], place=np.zeros(len(told), int), reward=log.reward[told])
    arms = dict(version=range(m), arm=[f"arm-{k}" for k in range(m)], offered=[True] * m, features=log.arms.tolist())
    arms |= dict(since=[begin] * m, until=pa.nulls(m, pa.timestamp("us", tz="UTC")))
    for name, columns in dict(decisions=decisions, rewards=rewards, arms=arms).items():
        parquet.write_table(pa.table(columns | changed.get(name, {})), folder / f"{name}.parquet")
    return folder


def open_bandit(path: Path) -> Path:
    """Write six rounds in the layout of the data set; the rows are not in order of time."""
    items = [["", "item_id", "item_feature_0", "item_feature_1"], ["0", "0", "-0.5", "a"], ["1", "1", "0.5", "b"]]
    head = ["", "timestamp", "item_id", "position", "click", "propensity_score", *(f"user_feature_{k}" for k in range(4))]
    users = [("p", "q", "r", "s"), ("p", "q", "r", "t"), ("u", "v", "w", "t")]
    rounds = [[str(t), f"2019-11-2{9 - t}", str(t % 2), "1", str(t // 3), "0.5", *users[t % 3]] for t in range(6)]
    with zipfile.ZipFile(path, "w") as archive:
        for name, rows in (("all.csv", [head, *rounds]), ("item_context.csv", items)):
            text = "\n".join(",".join(row) for row in rows)
            archive.writestr(f"made_up/random/all/{name}", text + "\n")
    return path


N, DIM = 60, 4


RING = graphs.watts_strogatz(N, 6, 0.1, seed=0)


def made(kind: str, rows: int = 1500, scale: float = 1.0) -> RewardLog:
    """Return a log of users on RING with unit vectors, noise 0.3."""
    rng = np.random.default_rng(1)
    alike = signals.unit_rows(np.ones((1, DIM)) + 0.1 * rng.standard_normal((N, DIM)))
    truth = {
        "smooth": signals.smooth(RING, DIM, gamma=7, seed=0),
        "unrelated": signals.unit_rows(rng.standard_normal((N, DIM))),
        "alike": alike,
        "one against": signals.smooth(RING, DIM, gamma=30, seed=2),
    }[kind]
    if kind == "one against":
        truth[7] *= -1
    user, features = rng.integers(N, size=rows), signals.unit_arms(rows, DIM, seed=5)
    reward = (features * truth[user]).sum(axis=1) + 0.3 * rng.standard_normal(rows)
    return RewardLog(user, scale * features, reward)


def log_columns(log: RewardLog) -> dict[str, list[Any]]:
    """Return the columns of a log in another order, with one too many."""
    features = {f"x{k}": log.features[:, k].tolist() for k in reversed(range(log.dim))}
    users = [f"user {user}" for user in log.user]
    return {"time": [f"at {t}" for t in range(len(log))], "reward": log.reward.tolist(), **features, "user": users}


def edge_columns(graph: UserGraph) -> dict[str, list[Any]]:
    """Return every edge in both directions."""
    i, j = graph.adjacency.tocoo().coords
    return {"user": [f"user {a}" for a in i], "friend": [f"user {b}" for b in j]}
