"""Encoders: what a column of a table becomes in a vector. Fitted once, the same for ever.

| kind | from | to |
|---|---|---|
| `number` | numbers | (value - mean) / deviation; 0 if it is missing |
| `category` | few names | one column for each, 1 or 0; zeros for one that was not there |
| `hashed` | many names | one of 32 columns, ±1, by a hash of the name |
| `text` | words | hashed TF-IDF, reduced to its main directions, of norm 1 |
| `tags` | lists, or names joined by `|`, `;` or `,` | the same, of tags |
| `vector` | lists of numbers, or the columns x0, x1, … | as given |
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from scipy import sparse

from ..compute.arrays import Floats
from ..compute.svd import truncated_svd

KINDS = ("number", "category", "hashed", "text", "tags", "vector")
MOST_CATEGORIES = 24  # one-hot up to this many
HASHED = 32  # columns of a hashed category
BUCKETS = 4096  # of hashed words
WORD_WIDTH = 24  # columns of text and tags
TINY = 1e-6  # words that lie in none of the main directions are zeros, not noise of norm 1
SEPARATORS = re.compile(r"\s*[|;,]\s*")
WORD = re.compile(r"\w+")


class Encoder(NamedTuple):
    """A fitted map from the values of one column to `width` numbers each."""

    column: str
    kind: str
    width: int
    values: tuple[str, ...] = ()  # of a category
    arrays: Mapping[str, Floats] = {}  # mean and scale of numbers; weight and basis of words

    def encode(self, cells: Sequence[Any]) -> Floats:
        """(cells, width) numbers; zeros for a value that is missing."""
        if self.kind == "number":
            found = np.array([_number(cell) for cell in cells]).reshape(len(cells), 1)
            scaled = (found - self.arrays["mean"]) / self.arrays["scale"]
            return np.where(np.isnan(scaled), 0.0, scaled)
        if self.kind == "vector":
            return np.array([_vector(cell, self.width, self.column) for cell in cells]).reshape(len(cells), self.width)
        if self.kind in ("text", "tags"):
            found = np.asarray(_word_counts(cells, self.kind, self.arrays["weight"]) @ self.arrays["basis"])
            norm = np.linalg.norm(found, axis=1, keepdims=True)
            return found / np.where(norm > TINY, norm, np.inf)
        found = np.zeros((len(cells), self.width))
        place = {value: k for k, value in enumerate(self.values)}
        for row, cell in enumerate(cells):
            name = _name(cell)
            if name is None:
                continue
            if self.kind == "hashed":
                code = crc32(name.encode())
                found[row, code % self.width] = 1.0 if code >> 16 & 1 else -1.0
            elif name in place:
                found[row, place[name]] = 1.0
        return found

    def describe(self) -> str:
        """Describe the features of the column."""
        match self.kind:
            case "number":
                return f"{self.column}: number, mean {self.arrays['mean'][0]:.4g}, deviation {self.arrays['scale'][0]:.4g}"
            case "category":
                shown = ", ".join(self.values[:5]) + (", …" if len(self.values) > 5 else "")
                return f"{self.column}: category, one column for each of {len(self.values)} ({shown})"
            case "hashed":
                return f"{self.column}: category of many values, hashed into {self.width} columns"
            case "vector":
                return f"{self.column}: vector of {self.width} numbers, as given"
        return f"{self.column}: {self.kind}, hashed TF-IDF reduced to {self.width} columns"


def fit_encoder(column: str, kind: str, cells: Sequence[Any]) -> Encoder:
    """Return the encoder of a column, from its cells.

    >>> topics = fit_encoder("topic", "category", ["news", "sport", "news", None])
    >>> topics.encode(["sport", "weather"]).tolist()
    [[0.0, 1.0], [0.0, 0.0]]
    """
    if kind == "number":
        found = np.array([_number(cell) for cell in cells])
        found = found[~np.isnan(found)]
        mean, scale = (float(found.mean()), float(found.std())) if len(found) else (0.0, 1.0)
        return Encoder(column, kind, 1, arrays={"mean": np.array([mean]), "scale": np.array([scale or 1.0])})
    if kind == "category":
        names = sorted({name for cell in cells if (name := _name(cell)) is not None})
        return Encoder(column, kind, len(names), tuple(names))
    if kind == "hashed":
        return Encoder(column, kind, HASHED)
    if kind == "vector":
        width = next((len(cell) for cell in cells if cell is not None), 0)
        if not width:
            raise ValueError(f"features: the column {column} has no vectors in it.")
        return Encoder(column, kind, width)
    counts = _word_counts(cells, kind, np.ones(BUCKETS))
    documents = np.bincount(counts.indices, minlength=BUCKETS)
    weight = np.log((1.0 + len(cells)) / (1.0 + documents)) + 1.0
    scaled = _word_counts(cells, kind, weight)
    rank = max(1, min(WORD_WIDTH, len(cells) - 1, int((documents > 0).sum())))
    basis = truncated_svd(scaled, rank)[2]
    return Encoder(column, kind, basis.shape[1], arrays={"weight": weight, "basis": basis})


def guess_kind(cells: Sequence[Any]) -> str | None:
    """Return the kind of a column by its values; None if it says nothing: one value, or another name in every row.

    >>> guess_kind(["3", "4.5", ""]), guess_kind(["news", "sport", "news"]), guess_kind(["a|b", "b", "a|c", "b|c"])
    ('number', 'category', 'tags')
    """
    there = [cell for cell in cells if cell is not None and not (isinstance(cell, str) and not cell)]
    if not there:
        return None
    if isinstance(there[0], list | tuple | np.ndarray):
        return "tags" if any(isinstance(part, str) for cell in there[:100] for part in cell) else "vector"
    names = [str(cell) for cell in there]
    distinct = set(names)
    if len(distinct) == 1:
        return None
    if not any(np.isnan(_number(cell)) for cell in there):
        return "number"
    parts = [part for name in distinct for part in SEPARATORS.split(name) if part]
    if len(parts) > 1.2 * len(distinct) and len(set(parts)) < 0.6 * len(parts):
        return "tags"
    if len(distinct) <= max(2, min(MOST_CATEGORIES, len(names) // 2)):
        return "category"
    if len(parts) > 0 and sum(len(WORD.findall(name)) for name in names) >= 3 * len(names):
        return "text"
    return "hashed" if len(distinct) < 0.6 * len(names) else None


def _number(cell: Any) -> float:
    try:
        value = float(cell)
    except (TypeError, ValueError):
        return float("nan")
    return value if np.isfinite(value) else float("nan")


def _name(cell: Any) -> str | None:
    if cell is None or cell == "" or (isinstance(cell, float) and np.isnan(cell)):
        return None
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def _vector(cell: Any, width: int, column: str) -> Floats:
    if cell is None:
        return np.zeros(width)
    vector = np.asarray(cell, dtype=np.float64)
    if vector.shape != (width,) or not np.isfinite(vector).all():
        raise ValueError(f"features: a vector in the column {column} must be {width} finite numbers, but it is {cell!r}.")
    return vector


def words(cell: Any, kind: str) -> Iterable[str]:
    """Return the words of a text, or the tags of a list or of names joined by `|`, `;` or `,`."""
    if cell is None:
        return ()
    if isinstance(cell, list | tuple | np.ndarray):
        return [str(part) for part in cell]
    return SEPARATORS.split(str(cell)) if kind == "tags" else WORD.findall(str(cell).casefold())


def _word_counts(cells: Sequence[Any], kind: str, weight: Floats) -> sparse.csr_array:
    """(cells, BUCKETS) counts of hashed words times their weights, every row of norm 1."""
    start, places, counts = [0], list[int](), list[float]()
    for cell in cells:
        found: dict[int, float] = {}
        for word in words(cell, kind):
            if word:
                code = crc32(word.encode()) % BUCKETS
                found[code] = found.get(code, 0.0) + weight[code]
        norm = float(np.sqrt(sum(value * value for value in found.values()))) or 1.0
        places += found.keys()
        counts += [value / norm for value in found.values()]
        start.append(len(places))
    return sparse.csr_array((np.array(counts), np.array(places, dtype=np.int64), np.array(start)), shape=(len(cells), BUCKETS))
