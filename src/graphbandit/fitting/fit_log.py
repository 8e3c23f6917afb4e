"""`fit`: a policy learns a log that does not fit into memory, on one machine."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..policies import Policy
from ..policies.core.policy_file import POLICY_FILE
from ..recommending import recommender_file
from ..storage.tables import Source
from .event_rows import FindUsers, RowCoder, Rows, in_chunks
from .fit_job import ChosenPolicy, FitJob, FitTables, Progress, Say
from .interruption import Interruption
from .log_survey import Survey
from .model_folder import ModelFolder
from .time_order import TimeOrder, read_here

CHUNK = 10_000
"""Rows that are learned between two looks at the clock."""
SHARE_OF_CHECKPOINTS = 0.05
"""The time that checkpoints may take."""


class Position(NamedTuple):
    """Where learning begins and ends, and how often a checkpoint is written."""

    first: int  # rows that were learned before
    total: int
    checkpoint_every: float  # seconds, at least


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
    folder = ModelFolder(Path(out), job.digest(), restart=restart)
    if folder.is_done:
        return fitted(folder)
    survey = surveyed(job, folder)
    coder = RowCoder(finder(job), job.arms, survey.float_times)
    order = TimeOrder(survey, partial(read_here, job.files, coder), folder.kept)
    say_order(job, order)
    learner = job.recommender.policy
    resumed, checkpoint = folder.checkpoint()
    if checkpoint is not None:
        learner = type(learner).load(checkpoint)
    learn_rows(job, folder, learner, in_chunks(order.stream(resumed), CHUNK), Position(resumed, survey.rows, checkpoint_every))
    folder.begin_to_write()
    learner.save(folder.path / POLICY_FILE)
    job.recommender.n_events = survey.rows
    recommender_file.save_names(job.recommender, folder.path)
    folder.finish(job.summary(survey))
    return fitted(folder)._replace(resumed=resumed, was_there=False)


def finder(job: FitJob) -> FindUsers:
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


def learn_rows(job: FitJob, folder: ModelFolder, learner: Policy, chunks: Iterator[Rows], position: Position) -> None:
    """Learn chunks of rows, with checkpoints between them; Ctrl-C writes one and raises KeyboardInterrupt."""
    done, last, took = position.first, time.perf_counter(), 0.0
    with Interruption() as interruption:
        for rows in chunks:
            arm = np.ascontiguousarray(rows["arm"])
            users, rewards = np.ascontiguousarray(rows["user"], np.int64), np.ascontiguousarray(rows["reward"])
            learner.update_many(users, job.vectors[arm], rewards, items=job.items[arm])
            done += len(rows)
            job.progress("learning", done, position.total)
            is_due = time.perf_counter() - last >= max(position.checkpoint_every, took / SHARE_OF_CHECKPOINTS)
            if interruption.is_asked or (is_due and done < position.total):
                begun = time.perf_counter()
                folder.keep_checkpoint(done, learner.save)
                last = time.perf_counter()
                took = last - begun
            if interruption.is_asked:
                raise KeyboardInterrupt


def surveyed(job: FitJob, folder: ModelFolder) -> Survey:
    """The survey that was kept, or a new one, whose users have joined."""
    survey = folder.survey()
    if survey is None:
        survey = job.survey()
        folder.keep_survey(survey)
    job.take(survey)
    return survey


def fitted(folder: ModelFolder) -> Fitted:
    """What the model in the folder has learned."""
    done = folder.summary()
    return Fitted(done["rows"], done["users"], done["joined"], done["skipped"], was_there=True)
