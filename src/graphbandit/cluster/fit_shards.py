"""`fit_shards`: a log that is streamed by Ray Data to the shards of a policy.

Ray Data reads the pieces of the log, several at once, and gives their rows back in the order that
was asked for. The caller's process puts them in order of time, as on one machine, and sends every
shard the rows of its users. So it never holds more than a window of the log.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..compute.arrays import Ints
from ..fitting.event_files import EventFiles
from ..fitting.event_rows import RowCoder, Rows, in_chunks, row_type
from ..fitting.fit_job import ChosenPolicy, FitJob, FitTables, Progress, Say
from ..fitting.fit_log import Fitted, Position, fitted, learn_rows, say_order, surveyed
from ..fitting.log_survey import PieceFacts, Survey, survey_piece
from ..fitting.model_folder import ModelFolder
from ..fitting.name_index import NameIndex
from ..fitting.time_order import TimeOrder, read_here
from ..recommending import recommender_file
from ..sharding import check_shardable
from ..storage.tables import Source
from ..validate import check, count
from .ray_session import import_ray, join_ray
from .sharded_policy import ShardedPolicy

EXCHANGE_EVERY = 10_000
"""Rows after which shards hear of each other."""
STORED = 2**28
"""Bytes of rows that may wait in the object store."""


def fit_shards(
    events: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    arms: Source,
    shards: int,
    graph: Any = None,
    policy: str = "adaptive",
    params: Mapping[str, Any] | None = None,
    epsilon: float = 0.0,
    seed: int = 0,
    address: str | None = None,
    exchange_every: int = EXCHANGE_EVERY,
    columns: Mapping[str, str] | None = None,
    skip_bad: bool = False,
    restart: bool = False,
    checkpoint_every: float = 60.0,
    progress: Progress | None = None,
    say: Say | None = None,
) -> Fitted:
    """Fit a policy in shards to a log of any size, and write it to a folder, as `graphbandit.fitting.fit` does on one machine.

    Every shard learns the rows of its users in order of time. After every `exchange_every` rows
    shards exchange what neighbours read, and in the end until nothing changes (`ShardedPolicy.settle`).

    Parameters
    ----------
    events, out, arms, graph, columns, skip_bad, restart, checkpoint_every, progress, say
        As in `graphbandit.fitting.fit`. Folders and files must be on a disk that all machines share.
    shards : int
    policy, params
        One that can be divided, see `ShardedPolicy`.
    epsilon, seed
        As in `graphbandit.fitting.fit`; epsilon must be 0.
    address : str, optional
        Of a running Ray cluster; one is started on this machine by default.
    exchange_every : int
        Rows.

    Examples
    --------
    >>> fitted = fit_shards("events/", "model/", arms="arms.parquet", graph="edges.parquet", shards=8)  # doctest: +SKIP
    >>> ShardedPolicy.load("model/").theta  # doctest: +SKIP
    """
    check("shards", shards, count())
    check("exchange_every", exchange_every, count())
    settings = check_shardable(policy, params or {})
    if epsilon:
        raise ValueError("epsilon must be 0 for a policy in shards: whoever serves it chooses it.")
    tables = FitTables(Path(events), graph, arms, columns, skip_bad)
    job = FitJob(tables, ChosenPolicy(policy, params, epsilon, seed), progress, say, builds=False)
    folder = ModelFolder(Path(out), job.digest(shards=shards, exchange_every=exchange_every), restart=restart)
    if folder.is_done:
        return fitted(folder)
    is_ours = join_ray(address)
    try:
        survey = surveyed(job, folder, partial(survey_on_ray, job))
        order = TimeOrder(survey, partial(read_on_ray, job, survey), folder.kept)
        say_order(job, order)
        resumed, checkpoint = folder.checkpoint()
        if checkpoint is None:
            users, snapshots = job.recommender.user_names.graph(), folder.kept / "snapshots"
            options: dict[str, Any] = dict(settings=settings, exchange_every=exchange_every, folder=snapshots, seed=seed)
            learner = ShardedPolicy(policy, users, job.dim, shards=shards, address=address, **options)
        else:
            learner = ShardedPolicy.load(checkpoint, address=address, seed=seed)
        with learner:
            position = Position(resumed, survey.rows, checkpoint_every)
            # Chunks are the same after an interruption, so that shards exchange at the same rows.
            learn_rows(job, folder, learner, in_chunks(order.stream(resumed), exchange_every), position)
            job.progress("settling", survey.rows, survey.rows)
            learner.settle()
            folder.begin_to_write()
            learner.save(folder.path)
            job.recommender.n_events = survey.rows
            recommender_file.save_names(job.recommender, folder.path)
            folder.finish(job.summary(survey) | {"shards": shards, "cut_share": learner.cut_share})
    finally:
        if is_ours:
            import_ray().shutdown()
    return fitted(folder)._replace(resumed=resumed, was_there=False)


class PieceWork(NamedTuple):
    """What a process needs to read pieces of a log; in the object store, once."""

    files: EventFiles
    users: NameIndex
    arms: dict[str, int]
    float_times: bool = False


@lru_cache(maxsize=1)
def _work(reference: Any) -> PieceWork:
    found: PieceWork = import_ray().get(reference)
    return found


def survey_on_ray(job: FitJob) -> Survey:
    """`FitJob.survey`, several pieces at once."""
    ray = import_ray()
    work = ray.put(PieceWork(job.files, NameIndex.of(job.recommender.user_names.names), job.arms))
    survey = ray.remote(_survey_piece)
    n, done = len(job.files.pieces), 0
    at_once = max(2, 2 * int(ray.cluster_resources().get("CPU", 1)))
    begun: dict[Any, int] = {}
    facts: list[PieceFacts | None] = [None] * n
    left = iter(range(n))
    while len(begun) < at_once and (k := next(left, None)) is not None:
        begun[survey.remote([work], k)] = k
    try:
        while begun:
            [reference], _ = ray.wait(list(begun))
            k = begun.pop(reference)
            found = facts[k] = ray.get(reference)
            job.check(found)
            done += job.files.pieces[k].rows
            job.progress("checking", done, job.files.rows)
            if (more := next(left, None)) is not None:
                begun[survey.remote([work], more)] = more
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, ValueError | OSError):
            raise error.cause from None
        raise
    finally:
        for reference in begun:
            ray.cancel(reference, force=False)
    return job.survey_of([found for found in facts if found is not None])


def _survey_piece(work: list[Any], piece: int) -> PieceFacts:
    found = _work(work[0])
    return survey_piece(found.files, found.files.pieces[piece], found.users.unknown, found.arms)


def read_on_ray(job: FitJob, survey: Survey, pieces: Sequence[int]) -> Iterator[tuple[int, Rows]]:
    """`ReadPieces` by Ray Data: several pieces are read at once, and given back in this order."""
    ray = import_ray()
    from ray import data

    index = NameIndex.of(job.recommender.user_names.names)
    work = ray.put(PieceWork(job.files, index, job.arms, survey.float_times))
    starts: Ints = np.array([piece.number for piece in survey.pieces], dtype=np.int64)
    context = data.DataContext.get_current().copy()
    context.execution_options.preserve_order = True
    context.execution_options.resource_limits = data.ExecutionResources.for_limits(object_store_memory=STORED)
    context.enable_progress_bars = context.print_on_execution_start = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)  # the bar of this command says how far it is
    with data.DataContext.current(context):
        # Not `read_parquet`, which has no numbers of rows: these put rows of equal times in order.
        asked = data.from_items([{"piece": k} for k in pieces], override_num_blocks=max(1, len(pieces)))
        read = asked.map_batches(_read_pieces, batch_size=1, batch_format="numpy", fn_kwargs={"work": [work]})
    for block in read.iter_batches(batch_size=None, batch_format="numpy"):
        rows = np.empty(len(block["number"]), dtype=row_type(survey.float_times))
        for name in rows.dtype.names or ():
            rows[name] = block[name]
        of = np.searchsorted(starts, rows["number"], "right") - 1
        ends = [*np.flatnonzero(np.diff(of)) + 1, len(rows)]
        for start, end in zip([0, *ends], ends, strict=False):
            if end > start:
                yield int(of[start]), rows[start:end]


def _read_pieces(batch: dict[str, Any], work: list[Any]) -> Iterator[dict[str, Any]]:
    found = _work(work[0])
    coder = RowCoder(found.users.rows_of, found.arms, found.float_times)
    for _, rows in read_here(found.files, coder, batch["piece"].tolist()):
        yield {name: np.ascontiguousarray(rows[name]) for name in rows.dtype.names or ()}
