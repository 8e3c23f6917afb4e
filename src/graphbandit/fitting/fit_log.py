"""`fit`: a policy learns a log that does not fit into memory, on one machine."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..policies import Policy
from ..policies.core.policy_file import POLICY_FILE
from ..recommending import recommender_file
from ..storage.tables import Source
from .event_rows import RowCoder, Rows
from .fit_job import ChosenPolicy, FitJob, FitTables, Progress, Say
from .interruption import Interruption
from .model_folder import ModelFolder
from .time_order import TimeOrder

CHUNK = 10_000
"""Rows that are learned between two looks at the clock."""
SHARE_OF_CHECKPOINTS = 0.05
"""The time that checkpoints may take."""


class Fitted(NamedTuple):
    """What became of a log."""

    rows: int  # that the model has learned
    users: int  # that it knows
    joined: int  # of these, whom the graph did not have
    skipped: int  # bad rows
    was_there: bool = False  # whether the model was there already
    resumed: int = 0  # rows that an earlier, interrupted fit had learned


def fit(
    events: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    arms: Source,
    graph: Any = None,
    policy: str = "adaptive",
    params: Mapping[str, Any] | None = None,
    epsilon: float = 0.0,
    seed: int = 0,
    columns: Mapping[str, str] | None = None,
    skip_bad: bool = False,
    restart: bool = False,
    checkpoint_every: float = 60.0,
    progress: Progress | None = None,
    say: Say | None = None,
) -> Fitted:
    """Fit a policy to a log of any size, and write the model to a folder; memory grows with the model, not with the log.

    Rows are learned in order of time. If it is interrupted, the same call goes on where it stopped, bit for bit.

    Parameters
    ----------
    events : path
        A Parquet file or a folder of such: user, item (or arm), reward and, optionally, time. Other
        columns are not read. A text file works too, but is read as a whole.
    out : path
        Folder of the model.
    arms : table
        A column of ids, and the columns x0, x1, …, which are the features as they are. Without such
        columns, features are made from what is there, as `Recommender` does.
    graph : table of edges, or UserGraph, optional
        Users of the log whom it does not have join without edges.
    policy : str
        A name in `graphbandit.POLICIES`.
    params : mapping, optional
        Settings of the policy.
    epsilon, seed
        As in `Recommender`.
    columns : mapping of roles to columns, optional
        Which column is which, where its name does not say it.
    skip_bad : bool
        Leave out rows that cannot be learned, also those of unknown arms, and count them.
    restart : bool
        Begin anew, whatever the folder holds.
    checkpoint_every : float
        Seconds between two checkpoints, at least.
    progress : function of what is done, rows and their total, optional
    say : function of a sentence, optional
        Hears what was guessed and what was skipped.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from graphbandit import LinUCB
    >>> from graphbandit.storage.tables import write_table
    >>> arms = {"item": ["tea", "cola"], "x0": [1.0, 0.0], "x1": [0.0, 1.0]}
    >>> with TemporaryDirectory() as folder:
    ...     log = Path(folder) / "log.parquet"
    ...     write_table(log, {"user": ["ann", "bob"], "item": ["tea", "cola"], "reward": [1.0, 0.5]})
    ...     fitted = fit(log, Path(folder) / "model", arms=arms, policy="linucb")
    ...     LinUCB.load(Path(folder) / "model").theta.tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    >>> fitted.rows, fitted.users
    (2, 2)
    """
    tables = FitTables(Path(events), graph, arms, columns, skip_bad)
    job = FitJob(tables, ChosenPolicy(policy, params, epsilon, seed), progress, say)
    folder = ModelFolder(Path(out), job.digest(shards=0), restart=restart)
    if folder.is_done:
        return was_there(folder)
    survey = folder.survey()
    if survey is None:
        survey = job.survey()
        folder.keep_survey(survey)
    job.take(survey)
    coder = RowCoder(finder(job), job.arms, survey.float_times)
    order = TimeOrder(job.files, survey, coder, folder.kept)
    say_order(job, order)
    learner = Learner(job, folder, survey.rows, checkpoint_every)
    resumed = learner.done
    learner.learn(order)
    summary = job.summary(survey)
    folder.begin_to_write()
    learner.policy.save(folder.path / POLICY_FILE)
    recommender_file.save_names(job.recommender, folder.path)
    folder.finish(summary)
    return Fitted(survey.rows, summary["users"], summary["joined"], summary["skipped"], resumed=resumed)


def was_there(folder: ModelFolder) -> Fitted:
    """The answer if the model is there already."""
    done = folder.summary()
    return Fitted(done["rows"], done["users"], done["joined"], done["skipped"], was_there=True)


def finder(job: FitJob) -> Any:
    """The rows of users by name."""
    rows = {name: row for row, name in enumerate(job.recommender.user_names.names)}
    return lambda names: np.array([rows.get(name, -1) for name in names], dtype=np.int64)


def say_order(job: FitJob, order: TimeOrder) -> None:
    """Say what is out of order."""
    if not job.files.has_time:
        job.say(f"{job.files.root}: there is no time, so rows are learned in the order of the files' names and of their rows.")
    if order.sorted_in_memory:
        job.say(f"{job.files.root}: {order.sorted_in_memory:,} rows are not in order of time; they are sorted in memory.")
    if order.sorted_on_disk:
        count, size = order.sorted_on_disk, order.sorted_on_disk * 32 / 1e9
        job.say(f"{job.files.root}: {count:,} rows are not in order of time; they are sorted on disk ({size:.2g} GB).")


class Learner:
    """A policy that learns rows, with checkpoints; it begins with the one that is there."""

    def __init__(self, job: FitJob, folder: ModelFolder, total: int, checkpoint_every: float) -> None:
        self.job, self.folder, self.total, self.every = job, folder, total, checkpoint_every
        self.policy: Policy = job.recommender.policy
        self.done = 0
        kept = folder.checkpoint()
        if kept is not None:
            self.done, path = kept
            self.policy = job.recommender.named.policy = type(self.policy).load(path)
        self._last, self._took = time.perf_counter(), 0.0

    def learn(self, order: TimeOrder) -> None:
        """Learn all rows that are left; Ctrl-C writes a checkpoint and raises KeyboardInterrupt."""
        with Interruption() as interruption:
            for rows in order.stream(self.done):
                for start in range(0, len(rows), CHUNK):
                    self._learn(rows[start : start + CHUNK])
                    self.job.progress("learning", self.done, self.total)
                    if interruption.is_asked:
                        self.keep()
                        raise KeyboardInterrupt
                    pause = max(self.every, self._took / SHARE_OF_CHECKPOINTS)
                    if time.perf_counter() - self._last >= pause and self.done < self.total:
                        self.keep()

    def _learn(self, rows: Rows) -> None:
        arm = rows["arm"]
        users, rewards = np.ascontiguousarray(rows["user"], np.int64), np.ascontiguousarray(rows["reward"])
        self.policy.update_many(users, self.job.vectors[arm], rewards, items=self.job.items[arm])
        self.done += len(rows)

    def keep(self) -> None:
        """Write a checkpoint: the policy, and how many rows it has learned."""
        begun = time.perf_counter()
        self.folder.keep_checkpoint(self.done, self.policy.save)
        self._last = time.perf_counter()
        self._took = self._last - begun
