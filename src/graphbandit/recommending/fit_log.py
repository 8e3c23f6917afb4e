"""`fit`: a policy learns a log that does not fit into memory, on one machine.

The folder of a model has these files:

| file | what is in it |
|---|---|
| `recommender.gb` | names of users, arms and their vectors |
| `policy.gb` | the policy |
| `fit.json` | what it was fitted to; written last |
| `.fitting/` | what is kept of a fit that has not ended: the sorted log and a checkpoint |
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ..compute.arrays import Floats
from ..experiments.parallel import Engine
from ..experiments.ray_engine import ray_running
from ..policies import Policy
from ..policies.core.policy_file import POLICY_FILE
from ..storage import archive
from ..storage.atomic import write_text
from ..tables import EDGES, EVENTS, ITEMS, Source, encode, is_feature, read_table, split_columns
from ..tables.sorted_log import LoggedRows, LogParts, SortedLog
from ..validate import LARGEST_FEATURE
from . import recommender_file
from .features import Features
from .policy_choice import PolicyChoice
from .recommender import Recommender

LOCAL = Engine()
CHUNK = 10_000
"""LoggedRows that are learned between two looks at the clock."""
SUMMABLE = ("linucb", "graphucb", "graphucb-local")
"""Policies whose models follow from the sums of each user."""
NEGLIGIBLE = 1e-12
"""Share of the largest eigenvalue of Σ x xᵀ below which an eigenvalue is zero."""
SHARE_OF_CHECKPOINTS = 0.05
"""The time that checkpoints may take."""


class Fitted(NamedTuple):
    """Result of fitting a log."""

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
    sums: bool = False,
    engine: Engine = LOCAL,
    restart: bool = False,
    checkpoint_every: float = 60.0,
    progress: Callable[[str, int, int], None] | None = None,
    say: Callable[[str], None] | None = None,
) -> Fitted:
    """Fit a policy to a log of any size, and write the model to a folder; memory grows with the model, not with the log.

    LoggedRows are learned in order of time. If it is interrupted, the same call goes on where it stopped, bit for bit.

    Parameters
    ----------
    events : path
        A file or a folder of files: user, item (or arm), reward and, optionally, time. Other columns
        are not learned.
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
    sums : bool
        Learn from the sums of each user, Σ x xᵀ and Σ y x, which one GROUP BY computes, in place of row by row: the same
        model to the tolerance of the solver. For linucb, graphucb and graphucb-local without item effects.
    engine : Engine
        Where sums are computed: `Engine("ray", address)` gives each file of the log to a Ray task, whose machine must see it.
        Rows that are twice in one file are then learned once, but not those that are in two files.
    restart : bool
        Begin anew, whatever the folder holds.
    checkpoint_every : float
        Seconds between two checkpoints, at least.
    progress : function of what is done, rows and their total, optional
    say : function of a sentence, optional
        Called with what was guessed and what was skipped.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from graphbandit import LinUCB
    >>> from graphbandit.tables import write_table
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
    PolicyChoice.of(policy, params, epsilon, seed)  # a wrong setting is refused before anything is read
    if sums and (policy not in SUMMABLE or (params or {}).get("item_effects") or (params or {}).get("shared")):
        raise ValueError(f"sums are for {', '.join(SUMMABLE)} without item effects, one model for each user.")
    if engine.name == "ray" and not sums:
        raise ValueError("engine ray is for sums: other models learn row by row, in order of time.")
    events, out, show, tell = Path(events), Path(out), progress or (lambda *_: None), say or (lambda _: None)
    chosen: dict[str, Any] = dict(policy=policy, params=dict(params or {}), epsilon=epsilon, seed=seed)
    said = split_columns(columns or {}, {"events": (events, EVENTS), "graph": (graph, EDGES), "arms": (arms, ITEMS)})
    table = read_table(arms, ITEMS, name="arms", columns=said["arms"], skip_bad=skip_bad, say=tell)
    features = Features.as_given(len(given)) if (given := list(filter(is_feature, table.head))) else None
    recommender = Recommender(graph, table, features=features, columns=said["graph"], skip_bad=skip_bad, **chosen)
    for note in recommender.notes:
        tell(note)
    names = recommender.catalogue.names
    vectors = recommender.catalogue.whole_vectors(recommender.catalogue.rows)
    if not names or not (np.abs(vectors) <= LARGEST_FEATURE).all():
        raise ValueError(f"{table.name} must have one or more arms, whose features are at most {LARGEST_FEATURE:g} in size.")
    digest = _digest(events, recommender, vectors, chosen | dict(skip_bad=skip_bad, sums=sums, columns=said["events"]))
    kept = _begin(out, digest, restart)
    if kept is None:
        return _fitted(out)
    if engine.name == "ray":
        log: SortedLog | LogParts = _parts_on_ray(engine, events, names, said["events"])
    else:
        log = SortedLog(events, kept, names, said["events"], show)
    for sentence in (*log.said, *log.bad.raise_or_say(str(events), skip_bad), *_remarks(log, str(events))):
        tell(sentence)
    known = recommender.user_names
    before = len(known)
    known.adopt(log.facts["integer_users"])
    known.add(log.facts["users"])
    learner, resumed = recommender.policy, 0
    if (pointer := _read(kept / "checkpoint.json")) != {}:
        resumed, learner = pointer["rows"], type(learner).load(kept / pointer["name"])
    rows_of = {name: row for row, name in enumerate(known.names)}
    place = {name: row for row, name in enumerate(names)}
    checkpoint = _Checkpoint(kept, checkpoint_every, digest)
    done = log.facts["rows"] if sums else 0
    if sums:
        learner = _learn_sums(log.sums(), learner, rows_of, place, vectors)
    with _interruption() as is_asked:
        for rows in _chunks(iter(()) if isinstance(log, LogParts) or sums else log.batches()):
            done += len(rows.user)
            if done <= resumed:
                continue
            rows = rows.last(done - resumed)
            user = np.array([rows_of[name] for name in rows.users], dtype=np.int64)[rows.user]
            item = np.array([place.get(name, -1) for name in rows.items], dtype=np.int64)[rows.item]
            learner.update_many(user, vectors[item], rows.reward, items=item)
            show("learning", done, log.facts["rows"])
            checkpoint.write_if_due(done, learner.save, is_asked(), done == log.facts["rows"])
            if is_asked():
                raise KeyboardInterrupt
    for name in ("recommender.gb", POLICY_FILE):
        (out / name).unlink(missing_ok=True)
    learner.save(out / POLICY_FILE)
    recommender.n_events = done
    recommender_file.save_names(recommender, out)
    summary: dict[str, Any] = dict(
        rows=done, skipped=log.bad.counts.total(), users=len(known), joined=len(known) - before, arms=len(names)
    )
    summary |= dict(dim=vectors.shape[1], files=log.n_files, times=log.facts["time"] if log.has_time else None)
    _write(out / "fit.json", digest, chosen | summary | dict(has_dates=log.facts["has_dates"]))
    log.close()
    shutil.rmtree(kept, ignore_errors=True)
    return _fitted(out)._replace(resumed=resumed, was_there=False)


def _learn_sums(pairs: Any, learner: Policy, rows_of: Mapping[str, int], place: Mapping[str, int], vectors: Floats) -> Policy:
    """Let a policy learn Σ x xᵀ and Σ y x of every user: as many observations as there are features have the same sums."""
    (user, users), (item, items) = (encode(pairs.column(name)) for name in ("user", "item"))
    at = np.array([rows_of[name] for name in users])[user], np.array([place[name] for name in items])[item]
    shape, dim = (learner.n_users, len(vectors)), vectors.shape[1]
    count, total = (sparse.csr_array((pairs.column(name).to_numpy(), at), shape=shape) for name in ("count", "total"))
    outer = np.einsum("ij,ik->ijk", vectors, vectors).reshape(-1, dim * dim)
    for first in range(0, learner.n_users, CHUNK):
        part = slice(first, first + CHUNK)
        values, axes = np.linalg.eigh((count[part] @ outer).reshape(-1, dim, dim))
        who, k = np.nonzero(values > NEGLIGIBLE * values.max(axis=1, keepdims=True))
        axis, size = axes[who, :, k], np.sqrt(values[who, k])
        response = ((total[part] @ vectors)[who] * axis).sum(axis=1) / size
        learner.update_many(who + first, axis * size[:, None], response)
    header, arrays = learner.pack()
    for name, array in arrays.items():
        if name.endswith(("seen.visits", "rounds")):
            array[:] = count.sum(axis=1) if name.endswith("visits") else count.sum()
    return type(learner).unpack(header, arrays)


def _parts_on_ray(engine: Engine, events: Path, names: list[str], columns: Mapping[str, str] | None) -> LogParts:
    """Read every file of a log in a Ray task; one whose worker is lost runs again elsewhere."""
    files = sorted(file for file in events.rglob("*") if file.is_file()) if events.is_dir() else [events]
    with ray_running(engine):
        import ray

        task = ray.remote(max_retries=-1)(read_part)
        return LogParts.joined(ray.get([task.remote(file, names, columns) for file in files]))


def read_part(file: Path, items: list[str], columns: Mapping[str, str] | None) -> LogParts:
    """Read one file of a log in a worker."""
    return LogParts.read(file, items, columns)


def _digest(events: Path, recommender: Recommender, vectors: Any, settings: Mapping[str, Any]) -> str:
    """Return what tells this job from others."""
    files = sorted(file for file in events.rglob("*") if file.is_file()) if events.is_dir() else [events]
    stats = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    digest = hashlib.blake2b(json.dumps([stats, settings], sort_keys=True, default=str).encode(), digest_size=16)
    graph = recommender.user_names.graph().adjacency
    for names in (recommender.user_names.names, recommender.catalogue.names):
        digest.update("\n".join(names).encode())
    for array in (graph.data, graph.indices, graph.indptr, vectors):
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _begin(out: Path, digest: str, restart: bool) -> Path | None:
    """Return the folder for what is kept of a fit; None if the model is there. A ValueError says that it is another's."""
    kept = out / ".fitting"
    out.mkdir(parents=True, exist_ok=True)
    if restart:
        shutil.rmtree(kept, ignore_errors=True)
        (out / "fit.json").unlink(missing_ok=True)
    done, begun = _read(out / "fit.json").get("digest"), _read(kept / "checkpoint.json").get("digest")
    if done == digest:
        return None
    for what, found in (("a fit that was interrupted, of", begun), ("a model that was fitted to", done)):
        if found not in (None, digest) and begun != digest:
            raise ValueError(f"{out} holds {what} another log, or with other settings: give another folder, or say --restart.")
    if _read(kept / "begun.json").get("digest") != digest:  # nothing was learned of another job
        shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(exist_ok=True)
    _write(kept / "begun.json", digest, {})
    return kept


def _remarks(log: SortedLog | LogParts, name: str) -> Iterator[str]:
    """Yield sentences about what a log is like; raise a ValueError if nothing can be learned."""
    low, high = log.facts["reward"]
    if not log.facts["rows"]:
        raise ValueError(f"{name} has no rows that can be learned.")
    if low == high:
        yield f"{name}: all rewards are {low:g}, so that nothing can be learned of what users like less."
    if not log.has_time:
        yield f"{name}: there is no time, so rows are learned in the order of the files' names and of their rows."


def _chunks(batches: Iterator[LoggedRows]) -> Iterator[LoggedRows]:
    for rows in batches:
        for start in range(0, len(rows.user), CHUNK):
            part = slice(start, start + CHUNK)
            yield rows._replace(user=rows.user[part], item=rows.item[part], reward=rows.reward[part])


class _Checkpoint:
    """Checkpoint from which an interrupted fit resumes."""

    def __init__(self, folder: Path, every: float, digest: str) -> None:
        self.folder, self.every, self.digest = folder, every, digest
        self.last, self.took = time.perf_counter(), 0.0

    def write_if_due(self, rows: int, save: Callable[[Path], None], is_asked: bool, is_done: bool) -> None:
        """Write one if it was asked for, or if the last is old enough and there is more to learn."""
        begun = time.perf_counter()
        is_due = begun - self.last >= max(self.every, self.took / SHARE_OF_CHECKPOINTS) and not is_done
        if not is_asked and not is_due:
            return
        path = self.folder / f"checkpoint-{rows}"
        save(path)
        _write(self.folder / "checkpoint.json", self.digest, dict(rows=rows, name=path.name))
        for other in self.folder.glob("checkpoint-*"):
            if other != path:
                shutil.rmtree(other) if other.is_dir() else other.unlink()
        self.last = time.perf_counter()
        self.took = self.last - begun


@contextmanager
def _interruption() -> Iterator[Callable[[], bool]]:
    """Let Ctrl-C set a flag, which the function that is yielded returns; the second one raises KeyboardInterrupt."""
    asked = threading.Event()

    def ask(number: int, frame: object) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    if threading.current_thread() is not threading.main_thread():  # others cannot hear signals
        yield asked.is_set
        return
    before = signal.signal(signal.SIGINT, ask)
    try:
        yield asked.is_set
    finally:
        signal.signal(signal.SIGINT, before)


def _fitted(out: Path) -> Fitted:
    """Return what the model in the folder has learned."""
    done = _read(out / "fit.json")
    return Fitted(done["rows"], done["users"], done["joined"], done["skipped"], was_there=True)


def _write(path: Path, digest: str, table: Mapping[str, Any]) -> None:
    text = json.dumps({"format": archive.FORMAT, "digest": digest, **table}, indent=2, ensure_ascii=False)
    write_text(path, text + "\n")


def _read(path: Path) -> dict[str, Any]:
    """Return what `_write` wrote; {} if there is no file."""
    if not path.exists():
        return {}
    table: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    archive.check_format(table.get("format"), path)
    return table
