"""Logs and edge lists from files; every complaint names the file, the line and the column."""

from __future__ import annotations

import csv
import gzip
import zlib
from array import array
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from .. import graphs
from ..compute.arrays import Floats, Ints
from ..graph import UserGraph
from ..validate import LARGEST_FEATURE, LARGEST_REWARD

FORMATS = "a .csv, a .csv.gz or a .parquet"


@dataclass(frozen=True, eq=False)
class Log:
    """What was shown to whom, and what it earned, in order of time.

    Parameters
    ----------
    user : (rows,) int array
        Positions in `ids`; without ids, rows of the graph.
    features : (rows, dim) array
    reward : (rows,) array
    ids : sequence of hashables, optional
        The names of the users, as the graph knows them.
    """

    user: Ints
    features: Floats
    reward: Floats
    ids: Sequence[Hashable] | None = None

    def __post_init__(self) -> None:
        for name, kind, ndim in (("user", np.int64, 1), ("features", np.float64, 2), ("reward", np.float64, 1)):
            values = np.ascontiguousarray(getattr(self, name), dtype=kind)
            if values.ndim != ndim:
                raise ValueError(f"{name} must have {ndim} dimension{'s' * (ndim > 1)}, but its shape is {values.shape}.")
            object.__setattr__(self, name, values if values.flags.writeable else values.copy())
        if not len(self.user) == len(self.features) == len(self.reward):
            sizes = f"{len(self.user)}, {len(self.features)} and {len(self.reward)}"
            raise ValueError(f"user, features and reward must have one entry for each row, but they have {sizes}.")
        if self.features.shape[1] == 0:
            raise ValueError("features must have one or more columns, but it has none.")
        _check_sizes(self.features, self.reward, lambda row: f"row {row}", lambda column: f"features[{column}]")

    def __len__(self) -> int:
        return len(self.user)

    @property
    def dim(self) -> int:
        """Number of features."""
        return int(self.features.shape[1])

    def rows_of(self, graph: UserGraph) -> Ints:
        """(rows,) the row of the graph for every entry."""
        if self.ids is not None:
            place = np.array([graph.index(name) for name in self.ids], dtype=np.int64)
            return place[self.user]
        if len(self) and not (self.user.min() >= 0 and self.user.max() < graph.n_users):
            raise ValueError(f"user must name rows of the graph, 0 to {graph.n_users - 1}, but one is {self.user.max()}.")
        return self.user


def read_log(path: str | Path) -> Log:
    """A log with the columns `user`, `reward` and `x0`, `x1`, …; others are ignored. CSV, gzipped CSV or Parquet."""
    path = Path(path)
    if path.suffix == ".parquet":
        return _from_parquet(path)
    positions: dict[str, int] = {}
    user, values, lines = array("q"), array("d"), array("q")
    with csv_rows(path) as (head, rows):
        names = _columns(path, head)
        who, pick = head.index("user"), itemgetter(*(head.index(name) for name in names))
        for line, row in rows:
            name = row[who]
            if not name:
                raise ValueError(f"{path}, line {line}: user is empty.")
            user.append(positions.setdefault(name, len(positions)))
            try:
                values.extend(map(float, pick(row)))
            except ValueError:
                _not_a_number(path, line, names, pick(row))
            lines.append(line)
    matrix = np.frombuffer(values).reshape(-1, len(names)) if len(values) else np.empty((0, len(names)))
    return _checked(path, list(positions), np.array(user, dtype=np.int64), matrix, lambda row: f"line {lines[row]}")


def _from_parquet(path: Path) -> Log:
    try:
        from pyarrow import parquet
    except ImportError:
        raise ValueError(f"{path} is a Parquet file, which needs pyarrow: pip install 'graphbandit[parquet]'.") from None
    try:
        table = parquet.read_table(path)
    except OSError:
        raise
    except Exception as error:  # pyarrow has a dozen kinds
        raise ValueError(f"{path} cannot be read as Parquet: {error}") from None
    names = _columns(path, list(table.column_names))
    users = table.column("user").to_pylist()
    if None in users:
        raise ValueError(f"{path}, row {users.index(None) + 1}: user is empty.")
    try:
        matrix = np.column_stack([np.asarray(table.column(name).to_numpy(), dtype=np.float64) for name in names])
    except (TypeError, ValueError):
        raise ValueError(f"{path}: reward and features must be numbers.") from None
    positions: dict[str, int] = {}
    codes = np.array([positions.setdefault(str(name), len(positions)) for name in users], dtype=np.int64)
    return _checked(path, list(positions), codes, matrix, lambda row: f"row {row + 1}")


def _columns(path: Path, head: list[str]) -> list[str]:
    """reward, x0, x1, … after a look at what is there."""
    for name in head:
        if head.count(name) > 1 and (name in ("user", "reward") or _is_feature(name)):
            raise ValueError(f"{path}, line 1: there are two columns {name}.")
    dim = sum(_is_feature(name) for name in head)
    for name in ("user", "reward", *(f"x{k}" for k in range(max(1, dim)))):
        if name not in head:
            raise ValueError(f"{path}, line 1: the column {name} is missing; there are {', '.join(head) or 'none'}.")
    return ["reward", *(f"x{k}" for k in range(dim))]


def _is_feature(name: str) -> bool:
    return name[:1] == "x" and name[1:].isdecimal()


def _not_a_number(path: Path, line: int, names: Sequence[str], cells: Sequence[str]) -> NoReturn:
    for name, cell in zip(names, cells, strict=True):
        try:
            float(cell)
        except ValueError:
            found = f"{cell!r}" if cell else "empty"
            raise ValueError(f"{path}, line {line}, column {name}: a number is needed, but it is {found}.") from None
    raise AssertionError("all cells are numbers")


def _checked(path: Path, ids: list[str], user: Ints, matrix: Floats, place: Callable[[int], str]) -> Log:
    if not len(user):
        raise ValueError(f"{path} has no rows: there is nothing to learn from.")
    reward, features = np.array(matrix[:, 0]), np.ascontiguousarray(matrix[:, 1:])
    _check_sizes(features, reward, lambda row: f"{path}, {place(row)}", lambda column: f"x{column}")
    return Log(user, features, reward, tuple(ids))


def _check_sizes(features: Floats, reward: Floats, place: Callable[[int], str], title: Callable[[int], str]) -> None:
    """Raise a ValueError that says where the first number is that finite arithmetic cannot hold."""
    for values, limit, name in ((reward[:, None], LARGEST_REWARD, lambda _: "reward"), (features, LARGEST_FEATURE, title)):
        bad = ~(np.abs(values) <= limit)  # NaN too
        if bad.any():
            row, column = np.argwhere(bad)[0].tolist()
            rule = f"must be finite and at most {limit:g} in size, but it is {values[row, column]:g}"
            raise ValueError(f"{place(row)}, column {name(column)}: it {rule}.")


def read_edges(path: str | Path, users: Sequence[Hashable] = ()) -> UserGraph:
    """The graph of a file with the columns `user`, `friend` and, if there is one, `weight`; CSV or gzipped CSV.

    `users` come first, in this order; those who are in no edge are alone. Ids are strings.
    """
    path = Path(path)
    found: dict[tuple[str, str], tuple[float, int]] = {}
    with csv_rows(path) as (head, rows):
        for column in ("user", "friend"):
            if column not in head:
                raise ValueError(f"{path}, line 1: the column {column} is missing; there are {', '.join(head) or 'none'}.")
        first, second = head.index("user"), head.index("friend")
        weighs = head.index("weight") if "weight" in head else None
        for line, row in rows:
            pair = (row[first], row[second])
            weight = 1.0 if weighs is None else _weight(path, line, row[weighs])
            if not all(pair):
                raise ValueError(f"{path}, line {line}: {'friend' if pair[0] else 'user'} is empty.")
            if pair[0] == pair[1]:
                raise ValueError(f"{path}, line {line}: {pair[0]!r} is its own friend.")
            known = found.setdefault((min(pair), max(pair)), (weight, line))
            if known[0] != weight:
                raise ValueError(
                    f"{path}, line {line}: {pair[0]!r} and {pair[1]!r} have weight {weight:g} here, "
                    f"but {known[0]:g} in line {known[1]}."
                )
    named = dict.fromkeys(name for pair in found for name in pair)
    if users and found and named.keys().isdisjoint(users):
        raise ValueError(f"{path}: none of its users is in the log, whose first is {users[0]!r}; are these the same ids?")
    ids = list(dict.fromkeys([*users, *named]))
    if not ids:
        raise ValueError(f"{path} has no edges.")
    return graphs.from_edges(list(found), weights=[weight for weight, _ in found.values()], ids=ids)


def _weight(path: Path, line: int, cell: str) -> float:
    try:
        weight = float(cell)
    except ValueError:
        _not_a_number(path, line, ["weight"], [cell])
    if not 0 <= weight < np.inf:
        raise ValueError(f"{path}, line {line}, column weight: it must be zero or a positive number, but it is {cell}.")
    return weight


@contextmanager
def csv_rows(path: Path) -> Iterator[tuple[list[str], Iterator[tuple[int, list[str]]]]]:
    """The header, and the rows with their line numbers; whatever is wrong with the file is said as a ValueError."""
    if not path.name.endswith((".csv", ".csv.gz")):
        raise ValueError(f"{path} must be {FORMATS} file; edges come as CSV.")
    unpacked: Any = gzip.open if path.suffix == ".gz" else open
    with unpacked(path, "rt", encoding="utf-8-sig", newline="") as text:
        reader = csv.reader(text, strict=True)
        try:
            head = [name.strip() for name in next(reader, [])]
            yield head, _full_rows(path, reader, len(head))
        except UnicodeDecodeError:
            raise ValueError(f"{path}, near line {reader.line_num + 1}: it is not UTF-8 text.") from None
        except csv.Error as error:
            raise ValueError(f"{path}, line {reader.line_num}: it is not valid CSV ({error}).") from None
        except (EOFError, gzip.BadGzipFile, zlib.error):
            raise ValueError(f"{path} is damaged: it is not a whole gzip file.") from None


def _full_rows(path: Path, reader: Any, width: int) -> Iterator[tuple[int, list[str]]]:
    for row in reader:
        if len(row) != width:
            if not row:
                continue  # an empty line, as at the end of many files
            raise ValueError(f"{path}, line {reader.line_num}: it has {len(row)} columns, but the header has {width}.")
        yield reader.line_num, row
