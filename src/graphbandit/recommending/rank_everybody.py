"""The best items of every user, streamed to a Parquet file: for the mail of the night.

Users are ranked in chunks, by threads: the search runs in compiled code that needs no interpreter lock. What is in
memory is the policy, the catalogue and a few chunks, however many users there are.
"""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, TypedDict, Unpack

import numpy as np

from ..compute.arrays import Floats, Ints
from ..experiments.parallel import Engine
from ..experiments.ray_engine import ray_running
from ..policies.core.top_arms import Mask
from ..validate import check, count
from .ids import filter_texts, id_text, id_texts
from .named_policy import NamedPolicy
from .offered_arms import Pool
from .requests import Filter

CHUNK = 200
"""Users that a thread ranks together."""
PART = 5_000
"""Users of a Ray task."""
MODELS: dict[bytes, NamedPolicy] = {}
"""The model of a Ray worker, by its digest."""
ROWS = 100_000
"""Rows of the table that are written together, about."""


class Ids(NamedTuple):
    """From names to ids as they came, and what a table of items has."""

    user: Callable[[str], Hashable] = str
    item: Callable[[str], Hashable] = str
    filters: Iterable[str] | None = None  # columns that one can filter by; None: all attributes


PLAIN_IDS = Ids()
NO_PLACES = np.empty(0, dtype=np.int64)


class Top(NamedTuple):
    """The best arms of many users, one row for each, best first."""

    version: Ints  # (n, k); -1 where there are no more arms
    mean: Floats  # (n, k)
    bonus: Floats  # (n, k)


class RankAllOptions(TypedDict, total=False):
    """Options of `rank_all`."""

    engine: Engine | None
    model: bytes | None

    users: Iterable[Hashable] | None
    where: Mapping[str, Any] | None
    exclude: Mapping[Any, Iterable[Hashable]] | None
    workers: int | None
    progress: Callable[[float], None] | None


def rank_all(
    named: NamedPolicy,
    k: int,
    path: str | os.PathLike[str],
    *,
    ids: Ids = PLAIN_IDS,
    **options: Unpack[RankAllOptions],
) -> int:
    """Write the `k` best items of every user to a Parquet file, and return how many rows it has.

    Columns are user, rank (from 1), item, mean and bonus. Items are ordered by mean + bonus, as when one user after the other
    is recommended to, without exploration at random: of a policy that draws, by the mean. Of equal items the one that came
    first is first. Nothing counts as shown.

    Parameters
    ----------
    named : NamedPolicy
    k : int
        Items for each user, fewer if not so many are eligible.
    path : path of the file
    ids : Ids, optional
        How names become ids; `Recommender.rank_all` knows it.
    users : ids, optional
        Whom to rank for, all by default.
    where : mapping of columns to a value or a list of values, optional
        Only items that have one of these values.
    exclude : mapping of users to items, optional
        What not to show to whom: what they have seen.
    workers : int, optional
        Threads, one for each processor by default.
    engine, model : Engine and bytes, optional
        A Ray cluster that ranks in place of threads, and the bytes of the saved recommender, which each of its workers reads.
    progress : function of the share that is done, optional

    Examples
    --------
    >>> import tempfile
    >>> import graphbandit as gb
    >>> items = {"item": ["tea", "cola", "milk"], "kind": ["hot", "cold", "cold"]}
    >>> recommender = gb.Recommender({"user": ["ann"], "friend": ["bob"]}, items, policy="linucb", params={"exploration": 0.1})
    >>> _ = recommender.fit({"user": ["ann", "bob"], "item": ["tea", "cola"], "reward": [1, 0]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     recommender.rank_all(1, folder + "/top.parquet")
    2
    """
    import pyarrow as pa
    from pyarrow import parquet

    check("k", k, count())
    unknown = sorted(set(options) - set(RankAllOptions.__annotations__))
    if unknown:
        raise TypeError(f"rank_all has no option {unknown[0]!r}; it has {', '.join(RankAllOptions.__annotations__)}.")
    wanted = options.get("users")
    names = list(named.rows) if wanted is None else [id_text(user, "users") for user in wanted]
    rows = np.array([named.row(name, "users") for name in names], dtype=np.int64)
    where = filter_texts(options.get("where"), named_filters(named) if ids.filters is None else ids.filters)
    pool = named.matching(where or {})
    if len(pool) == 0:
        raise ValueError("where leaves no item, so that nothing can be ranked.")
    left_out = {
        named.row(id_text(user, "exclude"), "exclude"): id_texts(items, "exclude") or []
        for user, items in (options.get("exclude") or {}).items()
    }
    user_ids, item_ids = pa.array([ids.user(name) for name in names]), pa.array([ids.item(name) for name in named.versions])
    schema = pa.schema(
        [
            ("user", user_ids.type),
            ("rank", pa.int32()),
            ("item", item_ids.type),
            ("mean", pa.float64()),
            ("bonus", pa.float64()),
        ]
    )
    written, waiting, progress = 0, [], options.get("progress")
    with parquet.ParquetWriter(path, schema) as writer:
        engine, model, places = options.get("engine"), options.get("model"), min(k, len(pool))
        if engine is not None and engine.name == "ray":
            if model is None:
                raise ValueError("model must be given with the engine ray: a saved recommender.")
            parts = _ranked_on_ray(engine, model, rows, places, where or {}, left_out)
        else:
            parts = _ranked(named, rows, places, pool, left_out, options.get("workers"))
        for first, top in parts:
            filled = top.version >= 0
            user, rank = np.nonzero(filled)
            columns = [user_ids.take(pa.array(first + user)), pa.array((rank + 1).astype(np.int32))]
            columns += [item_ids.take(pa.array(top.version[filled])), pa.array(top.mean[filled]), pa.array(top.bonus[filled])]
            waiting.append(pa.record_batch(columns, schema=schema))
            written += len(user)
            if sum(map(len, waiting)) >= ROWS:
                writer.write_table(pa.Table.from_batches(waiting))
                waiting = []
            if progress is not None:
                progress((first + len(top.version)) / len(rows))
        writer.write_table(pa.Table.from_batches(waiting, schema))
    return written


def named_filters(named: NamedPolicy) -> set[str]:
    """Return the attributes that some arm has."""
    return {name for attributes in named.attributes for name in attributes}


def _ranked(
    named: NamedPolicy, rows: Ints, k: int, pool: Pool, left_out: Mapping[int, list[str]], workers: int | None
) -> Iterator[tuple[int, Top]]:
    """Return the best arms of all users, chunk by chunk and in order."""
    ranker = _Ranker(named, k, pool, left_out)
    many = workers or os.cpu_count() or 1
    with ThreadPoolExecutor(many, "graphbandit-rank") as threads:
        running: deque[tuple[int, Future[Top]]] = deque()
        for first in range(0, len(rows), CHUNK):
            running.append((first, threads.submit(ranker.rank, rows[first : first + CHUNK])))
            if len(running) > 2 * many:
                begin, future = running.popleft()
                yield begin, future.result()
        for begin, future in running:
            yield begin, future.result()


def _ranked_on_ray(
    engine: Engine, model: bytes, rows: Ints, k: int, where: Filter, left_out: Mapping[int, list[str]]
) -> Iterator[tuple[int, Top]]:
    """Yield the best arms of all users, as Ray tasks: one whose worker is lost runs again elsewhere."""
    with ray_running(engine):
        import ray

        task, shared = ray.remote(max_retries=-1)(rank_part), ray.put(model)
        starts = deque(range(0, len(rows), PART))
        running: deque[tuple[int, Any]] = deque()
        while starts or running:
            while starts and len(running) < 2 * max(1, int(ray.cluster_resources().get("CPU", 1))):
                part = rows[starts[0] : starts[0] + PART]
                mine = {row: left_out[row] for row in part.tolist() if row in left_out}
                running.append((starts.popleft(), task.remote(shared, part, k, where, mine)))
            first, reference = running.popleft()
            yield first, Top(*ray.get(reference))


def rank_part(model: bytes, rows: Ints, k: int, where: Filter, left_out: Mapping[int, list[str]]) -> Top:
    """Rank a part of the users in a worker, which keeps the model that it has read last."""
    from .recommender import Recommender
    from .recommender_file import from_bytes

    digest = hashlib.blake2b(model).digest()
    if digest not in MODELS:
        MODELS.clear()
        MODELS[digest] = from_bytes(Recommender, model, "the model").named
    named = MODELS[digest]
    ranker = _Ranker(named, k, named.matching(where), left_out)
    return Top(
        *map(np.concatenate, zip(*(ranker.rank(rows[at : at + CHUNK]) for at in range(0, len(rows), CHUNK)), strict=True))
    )


class _Ranker:
    """Ranks chunks of users, in any thread; nothing may change meanwhile."""

    def __init__(self, named: NamedPolicy, k: int, pool: Pool, left_out: Mapping[int, list[str]]) -> None:
        self.named, self.k, self.pool = named, k, pool
        self.left_out = {row: named.places(pool, names) for row, names in left_out.items()}
        self.order = np.full(len(named.versions), len(pool))
        self.order[pool.versions] = np.arange(len(pool))
        self.eligible: Mask | None = named.eligible(pool) if named.is_large(pool, k) else None

    def rank(self, users: Ints) -> Top:
        """Return the best arms of some users."""
        shape = (len(users), self.k)
        top = Top(np.full(shape, -1), np.zeros(shape), np.zeros(shape))
        for i, user in enumerate(users.tolist()):
            versions = self._contenders(user)
            if versions is None:
                versions = np.delete(self.pool.versions, self.left_out.get(user, NO_PLACES))
            self._rank(user, versions, Top(top.version[i], top.mean[i], top.bonus[i]))
        return top

    def _contenders(self, user: int) -> Ints | None:
        """Return the arms that may be among the best; None if all must be scored."""
        belief = None if self.eligible is None else self.named.policy.search_belief(user)
        if belief is None or self.eligible is None:
            return None
        eligible, out = self.eligible, self.left_out.get(user, NO_PLACES)
        if len(out):
            eligible = eligible.copy()
            eligible[self.named.version_items[self.pool.versions[out]]] = 0
        return self.named.contenders(belief, eligible, min(self.k, len(self.pool) - len(out)))

    def _rank(self, user: int, versions: Ints, top: Top) -> None:
        """Score arms, and write the best."""
        policy, items = self.named.policy, self.named.version_items[versions]
        mean, bonus = policy.score(user, self.named.features[versions], items)
        value = mean if policy.draws_values else mean + bonus
        order = np.lexsort((self.order[versions], -value))[: self.k]
        n = len(order)
        top.version[:n], top.mean[:n], top.bonus[:n] = versions[order], mean[order], bonus[order]
