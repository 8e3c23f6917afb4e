"""`read_table`: the one reader of tables, from files and from frames; `write_table` writes one."""

from __future__ import annotations

import csv
import gzip
import io
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, TypedDict, TypeVar

import numpy as np

from ..compute.arrays import Ints
from ..storage.atomic import AnyPath, atomic_file, write_bytes
from ..validate import LARGEST_FEATURE, LARGEST_REWARD
from .columns import ID_ROLES, NUMBER_ROLES, Roles, SaidColumns, find_roles, is_feature, plain_name, unrecognised_reward
from .scan import Scan, Source, is_frame, open_scan, quoted, readable
from .table import NESTED, Table, as_id, as_number

BATCH = 100_000
"""Rows that are converted at once."""
FEW_VALUES = 21
"""A column of numbers with at most so many values may be a reward, from 0 to 10 in halves."""
LOOKED_AT = 100_000
"""Rows in which a reward without a known name is looked for."""
TWICE = "a row is identical to an earlier one"
WIDTH = "a row has a wrong number of cells"
LIMITS = {"reward": LARGEST_REWARD}
Key = TypeVar("Key")


class Reading(TypedDict, total=False):
    """Options of `read_table` and of the functions that call it."""

    columns: Mapping[str, str] | None  # which column plays which role, {"user": "uid"}
    skip_bad: bool  # leave out rows that cannot be used, and count them
    progress: Callable[[float], None] | None  # called with the share that was read, 0 to 1
    say: Callable[[str], None] | None  # called with sentences about what was guessed and skipped


class BadRowRule(NamedTuple):
    """A fault of a row, as a sentence and as an SQL condition."""

    text: str
    condition: str
    example: str  # the SQL of the cell that is wrong


@dataclass
class BadRows:
    """Bad rows by reason: how many, and the first with its cell."""

    counts: Counter[str] = field(default_factory=Counter)
    first: dict[str, tuple[str, Any]] = field(default_factory=dict)

    def add(self, reason: str, count: int, place: str, cell: object = None) -> None:
        """Count rows; the first place of a reason is kept."""
        self.counts[reason] += count
        self.first.setdefault(reason, (place, cell))

    def __str__(self) -> str:
        shown = {reason: place + f", {cell!r}" * (cell is not None) for reason, (place, cell) in self.first.items()}
        return "; ".join(f"{count:,} × {reason} (first: {shown[reason]})" for reason, count in self.counts.most_common())

    def raise_or_say(self, name: str, skip_bad: bool) -> tuple[str, ...]:
        """Return a sentence about rows that were skipped, or raise a ValueError."""
        if not self.counts:
            return ()
        many = f"{self.counts.total():,} bad row{'s' * (self.counts.total() > 1)}"
        if not skip_bad:
            raise ValueError(f"{name}: {many}: {self}. To leave such rows out, say --skip-bad, or skip_bad=True.")
        return (f"{name}: {many} skipped: {self}.",)


class Plan(NamedTuple):
    """The columns of a source, and how SQL makes those of a table of them."""

    names: list[str]  # of the columns of the table
    titles: dict[str, str]  # of the roles in the source
    said: tuple[str, ...]
    inner: list[str]  # what to select from a file
    reasons: list[BadRowRule]
    has_dates: bool
    is_distinct: bool  # whether identical rows are bad
    integers: frozenset[str]  # roles whose ids are integers

    def select(self, source: str, order: str = "") -> str:
        """Return the SQL of all columns, with the number of the reason why a row is bad, 0 if it is not."""
        cases = " ".join(f"WHEN {reason.condition} THEN {k}" for k, reason in enumerate(self.reasons, 1))
        cells = " ".join(f"WHEN {k} THEN CAST({reason.example} AS VARCHAR)" for k, reason in enumerate(self.reasons, 1))
        reason = f"CASE {cases} ELSE 0 END" if cases else "0"
        cell = f"CASE reason {cells} END" if cells else "NULL"
        names = ", ".join(map(quoted, self.names))
        inner = f"SELECT *, CAST({reason} AS USMALLINT) AS reason FROM (SELECT {', '.join(self.inner)} FROM {source})"
        return f"SELECT {names}, key, reason, {cell} AS cell FROM ({inner}){order}"


def plan_of(
    scan: Scan, roles: Roles | None, columns: Mapping[str, str] | None, only: Callable[[str], bool] | None = None
) -> Plan:
    """Find the roles of the columns, and how each becomes text, numbers or times."""
    found = find_roles(scan.header, scan.head, roles, columns, scan.has_header)
    of_place = {place: role for role, place in found.positions.items()}
    places = [place for place, title in enumerate(scan.head) if place in of_place or only is None or only(title)]
    if roles is not None and "reward" in roles.optional and "reward" not in {*found.positions, *(columns or {})}:
        _check_no_reward(scan, found.positions.values())
    names, inner, reasons, has_dates = [], [], [], False
    for place in places:
        title, kind = scan.head[place], scan.types[place]
        role = of_place.get(place)
        name = role or (f"{title} (no role)" if title in found.positions else title)
        raw, column = quoted(title), quoted(name)
        is_value = roles is not None and (role in NUMBER_ROLES or (role is None and is_feature(title)))
        sql = raw
        if role in ID_ROLES:
            if kind.startswith(NESTED) or kind.endswith(NESTED):
                raise ValueError(f"{scan.name}, column {title}: an id must be text or a number, but it is {kind}.")
            sql = as_id(raw, kind)
            reasons.append(BadRowRule(f"{title} is empty", f"{column} IS NULL", "NULL"))
        elif is_value:
            sql = as_number(raw, kind)
            may_be_empty = roles is not None and role in roles.may_be_empty
            reasons += _number_reasons(
                title, column, quoted(f"raw {place}"), LIMITS.get(role or "", LARGEST_FEATURE), may_be_empty
            )
        elif role == "time":
            has_dates = kind.startswith(("DATE", "TIMESTAMP")) or (kind == "VARCHAR" and _are_dates(scan, raw))
            cell = f"trim({raw})" if kind == "VARCHAR" else raw
            sql = f"CAST(epoch_us(TRY_CAST({cell} AS TIMESTAMPTZ)) AS DOUBLE)" if has_dates else as_number(raw, kind)
            rule = (
                "is not a date such as 2026-11-16 or 2026-11-16T12:30:00Z" if has_dates else "is not a time: a number or a date"
            )
            reasons += _empty_reasons(title, column, quoted(f"raw {place}"), rule)
            reasons.append(BadRowRule(f"{title} {rule}", f"NOT isfinite({column})", quoted(f"raw {place}")))
        names.append(name)
        inner += [f"{sql} AS {column}"] + [f"{raw} AS {quoted(f'raw {place}')}"] * (is_value or role == "time")
    for role, rule, condition in (
        ("friend", "a user is its own friend", "user = friend"),
        ("weight", "is negative", "weight < 0"),
        ("propensity", "is not between 0 and 1", "propensity NOT BETWEEN 0 AND 1"),
    ):
        if role in found.positions:
            title = scan.head[found.positions[role]]
            reasons.append(BadRowRule(rule if role == "friend" else f"{title} {rule}", condition, role))
    is_distinct = roles is not None and ("time" in found.positions or not roles.optional)
    inner.append(f"hash({', '.join(map(quoted, scan.head))}) AS key" if is_distinct else "0 AS key")
    titles = {role: scan.head[place] for role, place in found.positions.items()}
    said = (*scan.said, *(f"{scan.name}: {sentence}." for sentence in found.said))
    return Plan(names, titles, said, inner, reasons, has_dates, is_distinct, _integers(scan, titles))


def _number_reasons(title: str, column: str, raw: str, limit: float, may_be_empty: bool) -> Iterator[BadRowRule]:
    empty, *others = _empty_reasons(title, column, raw, "is not a number")
    yield from others if may_be_empty else (empty, *others)
    yield BadRowRule(f"{title} is not finite", f"NOT isfinite({column})", raw)
    yield BadRowRule(f"{title} is larger than {limit:g} in size", f"abs({column}) > {limit}", raw)


def _empty_reasons(title: str, column: str, raw: str, rule: str) -> list[BadRowRule]:
    is_empty = f"NULLIF(CAST({raw} AS VARCHAR), '') IS NULL"
    return [
        BadRowRule(f"{title} is empty", is_empty, "NULL"),
        BadRowRule(f"{title} {rule}", f"{column} IS NULL AND NOT {is_empty}", raw),
    ]


def _are_dates(scan: Scan, cell: str) -> bool:
    """Return whether more of the first texts are dates than numbers."""
    first = f"(SELECT trim({cell}) AS cell FROM {scan.parts[0].sql} LIMIT 1000)"
    counts = f"SELECT count(TRY_CAST(cell AS TIMESTAMPTZ)), count(TRY_CAST(cell AS DOUBLE)) FROM {first}"
    with readable(scan.name):
        dates, numbers = scan.connection.sql(counts).fetchall()[0]
    return bool(dates > numbers)


ENOUGH = 0.9  # share of cells that are numbers, from which on a column could be the reward


def _check_no_reward(scan: Scan, taken: Collection[int]) -> None:
    """Raise a ValueError if a column could be the reward: numbers with few values, under a name that is not known."""
    free = [place for place in range(len(scan.head)) if place not in taken and not is_feature(scan.head[place])]
    free = [place for place in free if not plain_name(scan.head[place]).endswith("id")]
    if not free:
        return
    cells = [as_number(quoted(scan.head[place]), scan.types[place]) for place in free]
    counts = ", ".join(f"count({cell}), count(DISTINCT {cell})" for cell in cells)
    with readable(scan.name):
        query = f"SELECT count(*), {counts} FROM (SELECT * FROM {scan.parts[0].sql} LIMIT {LOOKED_AT})"
        rows, *found = scan.connection.sql(query).fetchall()[0]
    full = [count > ENOUGH * rows and 1 < n <= FEW_VALUES for count, n in zip(found[::2], found[1::2], strict=True)]
    choices = [scan.head[place] for place, could in zip(free, full, strict=True) if could]
    if choices:
        raise unrecognised_reward(scan.header, choices)


def read_table(
    source: Source,
    roles: Roles | None = None,
    *,
    columns: Mapping[str, str] | None = None,
    skip_bad: bool = False,
    name: str | None = None,
    progress: Callable[[float], None] | None = None,
    say: Callable[[str], None] | None = None,
    only: Callable[[str], bool] | None = None,
) -> Table:
    """Read the table in a file or a frame; raise a ValueError that names the places if rows are bad.

    Parameters
    ----------
    source : path, frame, mapping of names to columns, or Table
        A text file (.csv, .tsv, .txt, .dat, .data, each also with .gz), a .parquet file or a folder
        of such; or a pandas, Polars or PyArrow frame. A Table is returned as it is.
    roles : Roles, optional
        What to look for: `EVENTS`, `EDGES`, `ITEMS` or `USERS` of `tables.columns`.
    columns : mapping of roles to names, optional
        Which column plays which role, where the name does not say it.
    skip_bad : bool
        Leave out rows that cannot be used, and count them by reason.
    name : str, optional
        What errors call a frame.
    progress : function of a share from 0 to 1, optional
    say : function of a sentence, optional
        Called with what was guessed and what was skipped.
    only : function of a name, optional
        Which columns to read besides those with a role; all by default.

    Examples
    --------
    >>> from graphbandit.tables import EVENTS
    >>> table = read_table({"uid": [7, 7], "sku": ["tea", "cola"], "rating": [5, 1]}, EVENTS)
    >>> table.head, table.codes("user")[1], table.numbers("reward").tolist()
    (['user', 'item', 'reward'], ['7'], [5.0, 1.0])
    >>> table.said
    ('the table: by the names of the columns, uid is user, sku is item, rating is reward.',)
    """
    if isinstance(source, Table):
        source.check_columns(*(roles.needed if roles is not None and len(source) else ()))
        return source
    scan = open_scan(source, name or "the table")
    plan = plan_of(scan, roles, columns, only)
    bad = BadRows()
    table = Table(scan.name, None, plan.titles, integers=plan.integers, has_dates=plan.has_dates)
    table = _loaded(table, scan, plan, bad, progress or (lambda share: None))
    table = replace(table, said=(*plan.said, *bad.raise_or_say(scan.name, skip_bad)))
    if say is not None:
        for sentence in table.said:
            say(sentence)
    return table


def _loaded(table: Table, scan: Scan, plan: Plan, bad: BadRows, progress: Callable[[float], None]) -> Table:
    """Return the rows of all files that are not bad."""
    import pyarrow as pa

    batches, keys, left, files, rejected = [], [], [], [], []
    total, rows = sum(part.rows for part in scan.parts) or 1, 0
    for number, part in enumerate(scan.parts):
        files.append((part.name, rows))
        wrong: dict[int, tuple[int, int, object]] = {}  # reason → count, first row, its cell
        with readable(part.name):
            for batch in scan.connection.sql(plan.select(part.sql)).to_arrow_reader(BATCH):
                reasons = batch.column("reason").to_numpy()
                for reason in np.unique(reasons[reasons > 0]).tolist():
                    row = int((reasons == reason).argmax())
                    count, *first = wrong.get(reason, (0, rows + row, batch.column("cell")[row].as_py()))
                    wrong[reason] = (count + int((reasons == reason).sum()), *first)
                good = reasons == 0
                left.append(good)
                keys.append(batch.column("key").to_numpy()[good])
                batch = batch.select(plan.names)
                batches.append(batch if good.all() else batch.filter(pa.array(good)))
                rows += len(good)
                progress(min(0.99, rows / total))
        for line, error in rejects(scan, part):
            rejected.append((number, line - part.header_lines))
            bad.add(WIDTH, 1, f"line {line}" + f" of {part.name}" * (len(scan.parts) > 1), error)
        places = replace(table, files=[*files, ("", 2**62)][: len(scan.parts)], rejected=rejected)
        for reason, (count, row, cell) in sorted(wrong.items()):
            bad.add(plan.reasons[reason - 1].text, count, places.place(row), cell)
    if not batches:
        batches = [pa.RecordBatch.from_pydict({name: [] for name in plan.names})]
    progress(1.0)
    data = pa.Table.from_batches(batches)
    good = np.concatenate(left) if left else np.ones(0, dtype=bool)
    found = replace(table, data=data, files=files, rejected=sorted(rejected), rows=None if good.all() else np.flatnonzero(good))
    twice = _repeated(np.concatenate(keys)) if plan.is_distinct and keys else np.empty(0, dtype=np.int64)
    if len(twice):
        bad.add(TWICE, len(twice), found.place(int(twice.min())))
        is_bad = np.zeros(len(found), dtype=bool)
        is_bad[twice] = True
        found = found.without(is_bad)
    return replace(found, skipped=bad.counts.total())


def rejects(scan: Scan, part: Any) -> Iterator[tuple[int, str]]:
    """Yield line and message of each row that DuckDB could not split into cells."""
    if not scan.is_text:
        return
    found = scan.connection.sql("SELECT line, error_type, error_message FROM reject_errors ORDER BY line").fetchall()
    scan.connection.execute("DELETE FROM reject_errors")
    for line, (kind, message) in sorted({line: others for line, *others in reversed(found)}.items()):
        if kind not in ("MISSING COLUMNS", "TOO MANY COLUMNS"):
            raise ValueError(f"{part.name}, line {line}: it is not valid CSV ({message.rstrip('.')}).")
        yield line, message


def _repeated(keys: Ints) -> Ints:
    """Return the positions of keys that are there before."""
    ordered = np.sort(keys)
    if (ordered[1:] != ordered[:-1]).all():
        return np.empty(0, dtype=np.int64)
    order = np.argsort(keys, kind="stable")
    return np.asarray(order[1:][keys[order][1:] == keys[order][:-1]])


def _integers(scan: Scan, titles: Mapping[str, str]) -> frozenset[str]:
    """Return the roles whose ids are integers, or floats that are all whole: a frame with a missing integer has such."""
    found = set()
    for role, title in titles.items():
        kind = scan.types[scan.head.index(title)]
        if role in ID_ROLES and kind in ("DOUBLE", "FLOAT"):
            fractions = f"SELECT 1 FROM {scan.parts[0].sql} WHERE {quoted(title)} <> floor({quoted(title)}) LIMIT 1"
            found |= set() if scan.connection.sql(fractions).fetchall() else {role}
        elif role in ID_ROLES and kind.removeprefix("U").endswith(("INT", "INTEGER")):
            found.add(role)
    return frozenset(found)


def head_of(source: Source) -> list[str]:
    """Return the names of the columns of a table, without reading it; [] if the source is no table."""
    if isinstance(source, Table):
        return [source.title(name) for name in source.head]
    is_table = isinstance(source, str | Path) or is_frame(source)
    return open_scan(source, "the table").head if is_table else []


def split_columns(columns: SaidColumns, tables: Mapping[Key, tuple[Source, Roles]]) -> dict[Key, dict[str, str]]:
    """Return what `columns` says about each of several tables: the roles that it has, in columns that it has.

    >>> from graphbandit.tables import EVENTS, ITEMS
    >>> events, items = {"user": ["ann"], "sku": ["a"], "reward": [1]}, {"url": ["a"], "size": [1]}
    >>> split_columns({"item": ["url", "sku"]}, {"events": (events, EVENTS), "items": (items, ITEMS)})
    {'events': {'item': 'sku'}, 'items': {'item': 'url'}}
    """
    heads = {key: head_of(source) for key, (source, _) in tables.items()} if columns else {}
    found: dict[Key, dict[str, str]] = {key: {} for key in tables}
    for role, names in columns.items():
        having = [key for key, (_, roles) in tables.items() if role in roles.all]
        for column in (names,) if isinstance(names, str) else names:
            fitting = [key for key in having if column in heads[key] or (column == "none" and role in tables[key][1].optional)]
            if not fitting:
                there = "; ".join(f"{key} has {', '.join(head[:20])}" for key, head in heads.items() if head)
                raise ValueError(f"columns {role}={column}: no table that has a role {role} has a column {column}; {there}.")
            for key in fitting:
                found[key].setdefault(role, column)
    return found


def unmatched_ids(what: str, ids: Collection[str], known: Collection[str], where: str) -> str | None:
    """Return a warning about ids that are not known elsewhere, with counts and examples; None if all are.

    >>> unmatched_ids("items", ["134", "tea"], ["0134", "tea"], "the table of items")
    "1 of 2 items are not in the table of items, such as '134' (there is '0134': were zeros lost when ids were read as \
numbers?)."
    """
    there = set(known)
    missing = [name for name in ids if name not in there]
    if not missing:
        return None
    bare = {name.lstrip("0"): name for name in known if name.startswith("0")}
    alike = next((name for name in missing if name.lstrip("0") in bare or name.lstrip("0") in there), None)
    shown = ", ".join(repr(name) for name in ([alike] if alike else missing[:3]))
    stripped = (alike or "").lstrip("0")
    hint = f" (there is {bare.get(stripped, stripped)!r}: were zeros lost when ids were read as numbers?)" if alike else ""
    return f"{len(missing):,} of {len(ids):,} {what} are not in {where}, such as {shown}{hint}."


def write_table(path: AnyPath, columns: Mapping[str, Sequence[Any]]) -> None:
    """Replace the file at `path` by these columns, in the format that its name says; None is an empty cell."""
    path = Path(path)
    if path.suffix == ".parquet":
        import pyarrow
        from pyarrow import parquet

        with atomic_file(path) as file:
            parquet.write_table(pyarrow.table(dict(columns)), file)
        return
    if not path.name.endswith((".csv", ".csv.gz")):
        raise ValueError(f"{path} must be a .csv, a .csv.gz or a .parquet file.")
    text = io.StringIO(newline="")
    csv.writer(text).writerows([columns.keys(), *zip(*columns.values(), strict=True)])
    content = text.getvalue().encode()
    write_bytes(path, gzip.compress(content) if path.suffix == ".gz" else content)
