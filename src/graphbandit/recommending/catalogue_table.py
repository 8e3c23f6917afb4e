"""`CatalogueTable`: the items of a recommender, from their table to vectors and attributes."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, Unpack

import numpy as np
from scipy import sparse

from ..compute.arrays import Floats
from ..tables import ITEMS, Reading, Source, Table, is_feature, plain_name, read_table
from .encoders import guess_kind, words
from .features import Features
from .ids import value_text
from .named_policy import Attributes

MOST_CONTEXT = 8  # context columns that are guessed


class CatalogueTable:
    """Items with their vectors; `ready` once it is known how they become vectors."""

    def __init__(self, features: Features, transformer: Any = None) -> None:
        self.features = features
        self.transformer = transformer  # of the user, in place of ours
        self.table: Table | None = None
        self.names: list[str] = []
        self.rows = np.empty((0, 0))  # (items, item_width)
        self.are_integers: bool | None = None
        self.filters: list[str] = []  # columns that one can filter by

    @classmethod
    def read(cls, items: Source | None, features: Any, **reading: Unpack[Reading]) -> CatalogueTable:
        """From the arguments of a Recommender."""
        own = features is None or isinstance(features, Features)
        if not own and not (hasattr(features, "fit") and hasattr(features, "transform")):
            raise ValueError("features must be graphbandit.Features or have the methods fit and transform, as in scikit-learn.")
        catalogue = cls(Features() if features is None else features if own else Features(), None if own else features)
        if items is None:
            return catalogue
        table = read_table(items, ITEMS, name="items", **reading)
        table.check_columns("item")
        table.check_distinct("item")
        catalogue.table, catalogue.names = table, table.codes("item")[1]
        catalogue.are_integers, catalogue.filters = table.is_integer("item"), _filters(table)
        if catalogue.transformer is None:
            if not catalogue.features.is_fitted:
                catalogue.features.fit(table)
            catalogue.rows = catalogue.features.vectors(table)
        else:
            catalogue.transformer.fit(_frame(items, table))
            encoded = catalogue.transformed(items, table)
            catalogue.features.fit_vectors(encoded)
            catalogue.rows = catalogue.features.scaled(encoded)
        return catalogue

    @property
    def ready(self) -> bool:
        """Return True if items can become vectors."""
        return self.features.is_fitted

    def adopt(self, are_integers: bool) -> None:
        """Take from events whether ids are integers, if no table of items has said so."""
        if self.are_integers is None:
            self.are_integers = are_integers

    def describe(self, names: Sequence[str], vectors: Floats) -> None:
        """Describe items by vectors that were learned from events."""
        self.features.fit_vectors(vectors)
        self.names, self.rows = list(names), self.features.scaled(vectors)

    def fit_context(self, events: Table) -> None:
        """Take the columns of events that play no role as context, unless the features say which."""
        features = self.features
        if features.context is None:
            # The number of an id says nothing: 7 is not more than 6.
            names = [name for name in events.others() if not plain_name(name).endswith("id")]
            names = [name for name in names if guess_kind(_sample(events, name)) in ("number", "category")]
            features.context = dict.fromkeys(names[:MOST_CONTEXT], "")
        if features.context:
            features.fit_context(events)

    def entries(self) -> Iterator[tuple[str, Floats, Attributes]]:
        """Name, whole vector without context, and attributes of each item."""
        known = [{}] * len(self.names) if self.table is None else self.attributes(self.table)
        return zip(self.names, self.whole_vectors(self.rows), known, strict=True)

    def whole_vectors(self, rows: Floats) -> Floats:
        """(items, dim) vectors in the average context."""
        return self.features.combine(rows, np.zeros((1, self.features.context_width)))

    def whole(self, vectors: Floats, context: Floats) -> Floats:
        """(rows, dim) the vectors of `entries` with a context in them."""
        if not self.features.context_width:
            return vectors
        first = int(self.features.intercept)
        return self.features.combine(vectors[:, first : first + self.features.item_width], context)

    def unknown(self) -> Floats:
        """Return the vector of an item of which nothing is known."""
        return np.asarray(self.whole_vectors(np.zeros((1, self.features.item_width)))[0])

    def vectors(self, items: Source, columns: Mapping[str, str] | None) -> tuple[Table, Floats]:
        """Return a table of further items, and their vectors."""
        table = read_table(items, ITEMS, columns=columns, name="items")
        table.check_columns("item")
        table.check_distinct("item")
        if self.transformer is None and [encoder.column for encoder in self.features.item_encoders] == ["behaviour"]:
            raise ValueError("items are described by who took them: new ones need events (fit), or give a table of all items.")
        encoded = None if self.transformer is None else self.transformed(items, table)
        rows = self.features.vectors(table) if encoded is None else self.features.scaled(encoded)
        return table, self.whole_vectors(rows)

    def transformed(self, items: Source, table: Table) -> Floats:
        """(items, width) what the user's own transformer makes of a table."""
        found = self.transformer.transform(_frame(items, table))
        dense = np.asarray(found.toarray() if sparse.issparse(found) else found, dtype=np.float64)
        if dense.ndim != 2 or len(dense) != len(table) or not np.isfinite(dense).all():
            raise ValueError(f"features must turn {len(table)} items into as many rows of finite numbers, not {dense.shape}.")
        return dense

    def attributes(self, table: Table) -> list[Attributes]:
        """Return the other columns of a table, to filter by: text, or lists of tags."""
        tags = {encoder.column for encoder in self.features.item_encoders if encoder.kind == "tags"}
        names = _filters(table)
        columns = [_tag_lists(table, name) if name in tags or _is_list(table, name) else table.texts(name) for name in names]
        pairs: list[Attributes] = [
            {name: cell for name, cell in zip(names, cells, strict=True) if cell is not None}
            for cells in zip(*columns, strict=True)
        ]
        return pairs if names else [{} for _ in range(len(table))]

    def out(self, name: str) -> Hashable:
        """Return the id as it came: an integer if all of them were."""
        return int(name) if self.are_integers and name.lstrip("-").isdecimal() else name


def item_vectors(items: Table) -> Floats:
    """Return the vectors of a table of items: the columns x0, x1, … as they are, or made from what is known.

    >>> item_vectors(read_table({"item": ["tea", "cola"], "x0": [1, 2], "kind": ["hot", "cold"]}, ITEMS)).tolist()
    [[1.0], [2.0]]
    """
    given = sum(map(is_feature, items.head))
    catalogue = CatalogueTable.read(items, Features.as_given(given) if given else None)
    return catalogue.whole_vectors(catalogue.rows)


def _filters(table: Table) -> list[str]:
    return [name for name in table.others() if not is_feature(name)]


def _sample(table: Table, name: str) -> list[Any]:
    cells: list[Any] = table.data.column(name).slice(0, 10_000).to_pylist()
    return cells


def _tag_lists(table: Table, name: str) -> list[list[str] | None]:
    """Return lists of tags as lists of text."""
    cells = table.data.column(name).to_pylist()
    return [None if cell is None else [value_text(tag) for tag in words(cell, "tags")] for cell in cells]


def _is_list(table: Table, name: str) -> bool:
    return "list" in str(table.data.schema.field(name).type)


def _frame(items: Source, table: Table) -> Any:
    """Return the input of a transformer: the frame itself, or a pandas frame of a file."""
    return items if hasattr(items, "columns") and not isinstance(items, Table) else table.data.to_pandas()
