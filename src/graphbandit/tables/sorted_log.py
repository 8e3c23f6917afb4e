"""`SortedLog`: a log of any size in order of time, in a Parquet file that DuckDB writes with bounded memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from ..compute.arrays import Flags, Floats, Ints
from ..storage.atomic import write_text
from .columns import EVENTS
from .read import BATCH, TWICE, WIDTH, BadRowRule, BadRows, plan_of, rejects
from .scan import literal, open_scan, quoted, readable
from .table import encode, record_of

MEMORY = "80MB"
"""Memory limit of DuckDB; a larger sort spills to disk."""
ROLES = EVENTS.without("propensity", "candidates")
SORTED, FACTS = "sorted.parquet", "sorted.json"
OPTIONS = "(FORMAT parquet, ROW_GROUP_SIZE 50000)"
Progress = Callable[[str, int, int], None]


class LoggedRows(NamedTuple):
    """Some rows of a log, in order of time."""

    user: Ints  # positions in `users`
    users: list[str]
    item: Ints  # positions in `items`
    items: list[str]
    reward: Floats
    time: Floats
    twice: Flags  # rows that are identical to an earlier one; they are not in the arrays

    def last(self, count: int) -> LoggedRows:
        """Return the last rows, at most `count`."""
        return self._replace(user=self.user[-count:], item=self.item[-count:], reward=self.reward[-count:])


class SortedLog:
    """The rows of a log with a user, an item and a reward, in order of time.

    Parameters
    ----------
    source : path
        A file or a folder of files, as `read_table` reads them.
    folder : path
        Where the sorted file is kept; one that is there is used again.
    items : names
        LoggedRows of other items are bad.
    columns : mapping of roles to names, optional
    progress : function of what is done, rows and their total

    Attributes
    ----------
    facts : dict
        rows, users in order of appearance, reward and time (the lowest and the highest), has_dates, integer_users.
    bad : BadRows
    """

    def __init__(
        self, source: Path, folder: Path, items: Sequence[str], columns: Mapping[str, str] | None, progress: Progress
    ) -> None:
        self.scan = open_scan(
            source, str(source), {"memory_limit": MEMORY, "threads": 2, "temp_directory": str(folder / "spill")}
        )
        self.plan = plan_of(self.scan, ROLES, columns, only=lambda _: False)
        self.folder, self.bad = folder, BadRows()
        if not (folder / FACTS).exists():
            progress("sorting", 0, sum(part.rows for part in self.scan.parts))
            self._sort(items)
            self._survey(progress)
        self.bad = BadRows()
        self.facts: dict[str, Any] = json.loads((folder / FACTS).read_text(encoding="utf-8"))
        for reason, (count, place, cell) in self.facts["bad"].items():
            self.bad.add(reason, count, place, cell)

    @property
    def said(self) -> tuple[str, ...]:
        """Sentences about what was guessed."""
        return tuple(self.plan.said)

    @property
    def n_files(self) -> int:
        """Number of files."""
        return len(self.scan.parts)

    def close(self) -> None:
        """Close the connection."""
        self.scan.connection.close()

    @property
    def has_time(self) -> bool:
        """Return True if rows have a time."""
        return "time" in self.plan.titles

    def _sort(self, items: Sequence[str]) -> None:
        import pyarrow as pa

        connection, reasons = self.scan.connection, self.plan.reasons
        connection.register("known", pa.table({"name": pa.array(list(items), pa.string())}))
        unknown, is_known = len(reasons) + 1, "item IN (SELECT name FROM known)"
        numbered = "SELECT *, {} AS file, row_number() OVER () AS record FROM ({})"
        parts = [numbered.format(k, self.plan.select(part.sql)) for k, part in enumerate(self.scan.parts)]
        reasons.append(BadRowRule(f"{self.plan.titles['item']} is not in the table of items", "", ""))
        rows = f"SELECT *, reason = 0 AND NOT {is_known} AS is_unknown FROM ({' UNION ALL '.join(parts)})"
        checked = f"if(is_unknown, {unknown}, reason) AS reason, if(is_unknown, item, cell) AS cell"
        every, path = literal(self.folder / "rows.parquet"), literal(self.folder / SORTED)
        order = "ORDER BY time, file_row_number" if self.has_time else ""
        good = f"{', '.join(map(quoted, (*self.plan.names, 'key')))} FROM read_parquet({every}, file_row_number=true)"
        with readable(self.scan.name):  # in two steps, since each needs little memory
            connection.execute(f"COPY (SELECT * EXCLUDE is_unknown REPLACE ({checked}) FROM ({rows})) TO {every} {OPTIONS}")
            connection.execute(f"COPY (SELECT {good} WHERE reason = 0 {order}) TO {path} {OPTIONS}")
        first = "arg_min({'file': file, 'record': record, 'cell': cell}, (file, record))"
        bad = f"SELECT reason, count(*), {first} FROM {every} WHERE reason > 0 GROUP BY reason ORDER BY reason"
        lines = [list(rejects(self.scan, part)) for part in self.scan.parts]
        for reason, count, row in connection.sql(bad).fetchall():
            rejected = [line - self.scan.parts[row["file"]].header_lines for line, _ in lines[row["file"]]]
            record = record_of(row["record"], rejected)
            self.bad.add(reasons[reason - 1].text, count, self._place(row["file"], f"record {record}"), row["cell"])
        for file, found in enumerate(lines):
            for line, message in found:
                self.bad.add(WIDTH, 1, self._place(file, f"line {line}"), message)
        (self.folder / "rows.parquet").unlink()

    def _place(self, file: int, place: str) -> str:
        return place + f" of {self.scan.parts[file].name}" * (len(self.scan.parts) > 1)

    def _survey(self, progress: Progress) -> None:
        users: dict[str, None] = {}
        ends: dict[str, tuple[float, float]] = {}
        done = 0
        total = self.scan.connection.sql(f"SELECT count(*) FROM {literal(self.folder / SORTED)}").fetchall()[0][0]
        for rows in self.batches():
            if rows.twice.any():
                self.bad.add(TWICE, int(rows.twice.sum()), f"user {rows.users[rows.user[0]]!r}")
            users |= dict.fromkeys(rows.users)
            for name, values in (("reward", rows.reward), ("time", rows.time)):
                low, high = ends.get(name, (np.inf, -np.inf))
                ends[name] = min(low, float(values.min(initial=np.inf))), max(high, float(values.max(initial=-np.inf)))
            done += len(rows.user)
            progress("checking", done, total)
        bad = {reason: [count, *self.bad.first[reason]] for reason, count in self.bad.counts.items()}
        facts = dict(rows=done, users=list(users), bad=bad, **ends)
        facts |= dict(has_dates=self.plan.has_dates, integer_users="user" in self.plan.integers)
        write_text(self.folder / FACTS, json.dumps(facts))

    def sums(self) -> Any:
        """Return the number of rows and the sum of rewards of each pair of a user and an item, as a PyArrow table."""
        rows = literal(self.folder / SORTED)
        once = "any_value(user) AS user, any_value(item) AS item, any_value(reward) AS reward"
        source = f"(SELECT {once} FROM {rows} GROUP BY time, key)" if self.has_time else rows
        query = (
            f"SELECT user, item, count(*) AS count, sum(reward) AS total FROM {source} GROUP BY user, item ORDER BY user, item"
        )
        return self.scan.connection.sql(query).to_arrow_table()

    def batches(self) -> Iterator[LoggedRows]:
        """Yield the rows that are not bad, in order."""
        names = ", ".join(quoted(name) for name in (*self.plan.names, "key"))
        query = f"SELECT {names} FROM {literal(self.folder / SORTED)}"
        last: dict[int, None] = {}  # keys of rows at `moment`
        moment = np.nan
        for batch in self.scan.connection.sql(query).to_arrow_reader(BATCH):
            twice = np.zeros(len(batch), dtype=bool)
            time = np.zeros(len(batch))
            if self.has_time:
                time, key = batch.column("time").to_numpy(), batch.column("key").to_numpy()
                order = np.lexsort((key, time))
                twice[order[1:]] = (np.diff(time[order]) == 0) & (np.diff(key[order]) == 0)
                first = time == moment
                twice[first] |= np.isin(key[first], list(last))
                last = (last if time[-1] == moment else {}) | dict.fromkeys(key[time == time[-1]].tolist())
                moment = time[-1]
            (user, users), (item, items) = (encode(batch.column(name)) for name in ("user", "item"))
            reward = batch.column("reward").to_numpy()
            kept = ~twice
            yield LoggedRows(user[kept], users, item[kept], items, reward[kept], time[kept], twice)


@dataclass
class LogParts:
    """Sums and facts of a log whose files were read one by one, perhaps on many machines; has what `SortedLog` has for sums."""

    pairs: Any  # as `SortedLog.sums`
    facts: dict[str, Any]
    bad: BadRows
    said: tuple[str, ...]
    has_time: bool
    n_files: int = 1

    @classmethod
    def read(cls, file: Path, items: Sequence[str], columns: Mapping[str, str] | None) -> LogParts:
        """Read one file."""
        with TemporaryDirectory() as folder:
            log = SortedLog(file, Path(folder), items, columns, lambda *_: None)
            try:
                return cls(log.sums(), log.facts, log.bad, log.said, log.has_time)
            finally:
                log.close()

    @classmethod
    def joined(cls, parts: Sequence[LogParts]) -> LogParts:
        """Return the sums of all parts."""
        import pyarrow as pa

        rows = pa.concat_tables([part.pairs for part in parts]).group_by(["user", "item"], use_threads=False)
        pairs = rows.aggregate([("count", "sum"), ("total", "sum")]).rename_columns(["user", "item", "count", "total"])
        facts = dict(parts[0].facts, rows=sum(part.facts["rows"] for part in parts))
        facts["users"] = list(dict.fromkeys(user for part in parts for user in part.facts["users"]))
        for name in {"reward", "time"} & set(facts):
            ends = [part.facts[name] for part in parts if part.facts["rows"]]
            facts[name] = (min(low for low, _ in ends), max(high for _, high in ends)) if ends else facts[name]
        for name in ("has_dates", "integer_users"):
            facts[name] = all(part.facts[name] for part in parts)
        bad = BadRows()
        for part in parts:
            for reason, count in part.bad.counts.items():
                bad.add(reason, count, *part.bad.first[reason])
        said = tuple(dict.fromkeys(sentence for part in parts for sentence in part.said))
        return cls(pairs, facts, bad, said, all(part.has_time for part in parts), len(parts))

    def sums(self) -> Any:
        """Return the sums of each pair of a user and an item."""
        return self.pairs

    def close(self) -> None:
        """Do nothing: files are closed."""
