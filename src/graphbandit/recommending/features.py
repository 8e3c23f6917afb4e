"""`Features`: from columns of items, and of the context of a request, to vectors.

A vector is [1, item, context, item ⊗ context]. Each part has a mean square of 1 over what it was
fitted to, because the default policy's grid of strengths suits features of about that size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from ..compute.arrays import Floats
from ..compute.svd import truncated_svd
from ..display import shorten
from ..storage.archive import Arrays
from ..tables import ITEMS, Source, Table, is_feature, read_table
from ..validate import check, count, one_of
from .encoders import KINDS, Encoder, fit_encoder, guess_kind

MOST_CROSSED = 64  # columns of item ⊗ context
GIVEN = "x0, x1, …"
"""The name of the one column that the columns x0, x1, … make together."""


class Features:
    """A map from tables of items to vectors, fitted once and saved with the model.

    Parameters
    ----------
    columns : mapping of columns to kinds, optional
        Kinds are number, category, hashed, text, tags and vector. Without it, all columns of the
        items are used and their kinds are guessed; `print(features)` says how.
    context : mapping of columns to kinds, or names of columns, optional
        What a request may say beyond its user, such as the hour. Their kinds are guessed if only
        names are given.
    size : int
        Wider item vectors are reduced to so many main directions.

    Notes
    -----
    An intercept is always there: a column that is 1. Numbers are standardised, missing values are
    average, categories that were not in the table are zeros: a vector depends on its own row and
    on what the map was fitted to, on nothing else.

    Examples
    --------
    >>> features = Features().fit({"item": ["tea", "cola", "milk"], "price": [2.0, 3.0, 1.0], "topic": ["hot", "cold", "cold"]})
    >>> print(features)
    4 features:
      intercept
      price: number, mean 2, deviation 0.8165
      topic: category, one column for each of 2 (cold, hot)
    >>> features.vectors({"item": ["mate"], "price": [2.0], "topic": ["lukewarm"]}).tolist()
    [[0.0, 0.0, 0.0]]
    """

    def __init__(
        self,
        columns: Mapping[str, str] | None = None,
        *,
        context: Mapping[str, str] | Sequence[str] | None = None,
        size: int = 32,
    ) -> None:
        named = {} if context is None else dict(context) if isinstance(context, Mapping) else dict.fromkeys(context, "")
        for column, kind in {**(columns or {}), **{name: kind for name, kind in named.items() if kind}}.items():
            check(f"the kind of the column {column}", kind, one_of(KINDS))
        check("size", size, count())
        self.columns = None if columns is None else dict(columns)
        self.context = None if context is None else named
        self.size = int(size)
        self.item_encoders: list[Encoder] = []
        self.context_encoders: list[Encoder] = []
        self.left_out: list[str] = []
        self.reduction: Floats | None = None  # (encoded width, item width), scale included
        self.context_scale = 1.0
        self.crossed = 0  # item columns that are crossed with the context
        self.intercept = True  # whether a vector begins with 1

    @property
    def is_fitted(self) -> bool:
        """Return True if `fit` was called."""
        return self.reduction is not None

    @property
    def item_width(self) -> int:
        """Numbers that describe an item."""
        return 0 if self.reduction is None else int(self.reduction.shape[1])

    @property
    def context_width(self) -> int:
        """Numbers that describe a context."""
        return sum(encoder.width for encoder in self.context_encoders)

    @property
    def dim(self) -> int:
        """Length of a vector: intercept, item, context and their products."""
        return self.intercept + self.item_width + (1 + self.crossed) * self.context_width

    def fit(self, items: Source, context: Source | None = None, *, columns: Mapping[str, str] | None = None) -> Self:
        """Learn the map from a table of items and, if there are context columns, from a table with these."""
        table = read_table(items, ITEMS, columns=columns, name="items")
        self.item_encoders = self._fit_part(table, self.columns, table.others())
        encoded = _encode(self.item_encoders, table)
        self.reduction = _reduction(encoded, self.size)
        if context is not None:
            self.fit_context(context)
        return self

    def fit_context(self, context: Source) -> Self:
        """Learn the map from a table with the context columns."""
        table = read_table(context, name="context")
        said = {name: kind or None for name, kind in (self.context or {}).items()}
        self.context_encoders = self._fit_part(table, said, list(said))
        encoded = _encode(self.context_encoders, table)
        self.context_scale = 1.0 / (np.sqrt((encoded**2).sum(axis=1).mean()) or 1.0)
        self.crossed = min(self.item_width, MOST_CROSSED // max(1, self.context_width))
        return self

    def fit_table(self, table: Source) -> Floats:
        """(rows, item_width) the rows of a table without ids, of which every column counts."""
        read = read_table(table, name="users")
        self.item_encoders = self._fit_part(read, self.columns, read.head)
        encoded = _encode(self.item_encoders, read)
        self.reduction = _reduction(encoded, self.size)
        return self.scaled(encoded)

    def fit_vectors(self, vectors: Floats) -> Self:
        """Take item vectors as they are, scaled: for items that are known by their behaviour alone."""
        self.item_encoders = [Encoder("behaviour", "vector", vectors.shape[1])]
        self.reduction = _reduction(vectors, self.size)
        return self

    @classmethod
    def as_given(cls, dim: int) -> Self:
        """Return the columns x0, x1, … as they are, not scaled and without an intercept: the vectors of `serve --items`.

        >>> Features.as_given(2).vectors({"item": ["tea"], "x0": [3.0], "x1": [4.0], "topic": ["hot"]}).tolist()
        [[3.0, 4.0]]
        """
        features = cls(size=dim)
        features.item_encoders, features.reduction = [Encoder(GIVEN, "vector", dim)], np.eye(dim)
        features.context, features.intercept = {}, False
        return features

    def _fit_part(self, table: Table, said: Mapping[str, str | None] | None, names: Sequence[str]) -> list[Encoder]:
        kinds: dict[str, str | None] = dict(said or {})
        given = [name for name in names if is_feature(name)]
        if said is None and given:
            kinds[GIVEN] = "vector"
        if said is None:
            kinds |= {name: None for name in names if name not in given}
        encoders = []
        for name, kind in kinds.items():
            if name != GIVEN and not table.has(name):
                there = ", ".join(table.head[:20])
                raise ValueError(f"features: {table.name} has no column {name}; there are {there}.")
            cells = _cells(table, name)
            kind = kind or guess_kind(cells)
            if kind is None:
                self.left_out.append(name)
            else:
                encoders.append(fit_encoder(name, kind, cells))
        return encoders

    def vectors(self, items: Source, *, columns: Mapping[str, str] | None = None) -> Floats:
        """(items, item_width) what describes the items of a table."""
        return self.scaled(_encode(self.item_encoders, read_table(items, ITEMS, columns=columns, name="items")))

    def scaled(self, encoded: Floats) -> Floats:
        """Return encoded rows, reduced and scaled."""
        if self.reduction is None:
            raise ValueError("features must be fitted first: features.fit(items).")
        return np.asarray(encoded @ self.reduction)

    def context_rows(self, context: Source | None, n: int = 1) -> Floats:
        """(rows, context_width) what describes contexts; a mapping of single values is one row; zeros for None."""
        if context is None or not self.context_encoders:
            return np.zeros((n, self.context_width))
        if isinstance(context, Mapping):
            unknown = sorted(set(context) - {encoder.column for encoder in self.context_encoders})
            if unknown:
                known = ", ".join(encoder.column for encoder in self.context_encoders)
                raise ValueError(f"context has {unknown[0]!r}, which no feature uses; there are {known}.")
            rows = [encoder.encode([context.get(encoder.column)]) for encoder in self.context_encoders]
            return np.hstack(rows) * self.context_scale
        return _encode(self.context_encoders, read_table(context, name="context")) * self.context_scale

    def combine(self, items: Floats, context: Floats) -> Floats:
        """(rows, dim) whole vectors: [1, item, context, item ⊗ context]; one row of context may stand for all."""
        rows = len(items)
        context = np.broadcast_to(context, (rows, self.context_width))
        crossed = (items[:, : self.crossed, None] * context[:, None, :]).reshape(rows, -1)
        return np.hstack([np.ones((rows, int(self.intercept))), items, context, crossed])

    def __repr__(self) -> str:
        columns = [encoder.column for encoder in (*self.item_encoders, *self.context_encoders)]
        return f"Features({f'{self.dim} of ' + shorten(', '.join(columns), 70) if self.is_fitted else 'not fitted'})"

    def __str__(self) -> str:
        lines = ["intercept"] * self.intercept + [encoder.describe() for encoder in self.item_encoders]
        encoded = sum(encoder.width for encoder in self.item_encoders)
        if encoded > self.item_width:
            lines.append(f"these {encoded} columns reduced to {self.item_width} main directions")
        lines += [f"context {encoder.describe()}" for encoder in self.context_encoders]
        if self.crossed and self.context_width:
            lines.append(f"item × context: {self.crossed * self.context_width} products")
        if self.left_out:
            lines.append(f"left out, as they say nothing of other items: {', '.join(self.left_out)}")
        return f"{self.dim} features:\n" + "\n".join(f"  {line}" for line in lines)

    # Files

    def pack(self) -> tuple[dict[str, Any], Arrays]:
        """Header and arrays of the fitted map."""
        arrays: Arrays = {} if self.reduction is None else {"reduction": self.reduction}
        header: dict[str, Any] = dict(columns=self.columns, context=self.context, size=self.size, left_out=self.left_out)
        header |= dict(context_scale=self.context_scale, crossed=self.crossed, intercept=self.intercept)
        for part, encoders in (("item", self.item_encoders), ("context", self.context_encoders)):
            header[f"{part}_encoders"] = [encoder._asdict() | {"arrays": sorted(encoder.arrays)} for encoder in encoders]
            arrays |= {f"{part}.{k}.{name}": a for k, encoder in enumerate(encoders) for name, a in encoder.arrays.items()}
        return {"features": header}, arrays

    @classmethod
    def unpack(cls, header: Mapping[str, Any], arrays: Arrays) -> Self:
        """Restore the map whose header and arrays `pack` returned."""
        table = header["features"]
        features = cls(table["columns"], context=table["context"], size=table["size"])
        features.left_out, features.reduction = table["left_out"], arrays.get("reduction")
        features.context_scale, features.crossed = table["context_scale"], table["crossed"]
        features.intercept = table["intercept"]
        features.item_encoders, features.context_encoders = (
            [
                Encoder(
                    **entry | {"values": tuple(entry["values"])} | {"arrays": _named(arrays, f"{part}.{k}.", entry["arrays"])}
                )
                for k, entry in enumerate(table[f"{part}_encoders"])
            ]
            for part in ("item", "context")
        )
        return features


def _named(arrays: Arrays, prefix: str, names: Sequence[str]) -> dict[str, Floats]:
    return {name: arrays[prefix + name] for name in names}


def _cells(table: Table, name: str) -> Sequence[Any]:
    if name == GIVEN:
        return list(table.features())
    cells: list[Any] = table.data.column(name).to_pylist()
    return cells


def _encode(encoders: Sequence[Encoder], table: Table) -> Floats:
    """(rows, width) the columns of a table, encoded; a column that is missing is zeros."""
    parts = []
    for encoder in encoders:
        if encoder.column == GIVEN:
            parts.append(_given(table, encoder.width))
        elif not table.has(encoder.column):
            parts.append(np.zeros((len(table), encoder.width)))
        elif encoder.kind in ("number", "vector"):
            parts.append(encoder.encode(_cells(table, encoder.column)))
        else:  # every value once
            cells = [tuple(cell) if isinstance(cell, list) else cell for cell in _cells(table, encoder.column)]
            place = {cell: k for k, cell in enumerate(dict.fromkeys(cells))}
            parts.append(encoder.encode(list(place))[[place[cell] for cell in cells]])
    return np.hstack(parts) if parts else np.zeros((len(table), 0))


def _given(table: Table, width: int) -> Floats:
    found = table.features()
    if found.shape[1] != width:
        raise ValueError(f"{table.name}: there must be {width} columns x0, x1, …, but there are {found.shape[1]}.")
    return found


def _reduction(encoded: Floats, size: int) -> Floats:
    """(width, kept) what encoded rows are multiplied by: main directions if there are too many columns, and a scale."""
    width = encoded.shape[1]
    if width == 0:
        return np.zeros((0, 0))
    directions = np.eye(width) if width <= size else truncated_svd(encoded, size)[2]
    square = float(((encoded @ directions) ** 2).sum(axis=1).mean())
    return np.asarray(directions / (np.sqrt(square) or 1.0))
