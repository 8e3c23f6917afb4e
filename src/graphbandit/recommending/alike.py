"""`Alike`: which users have attributes like those of a newcomer.

The numbers are chosen by measurement, as is this way before a linear map (docs/recommender.md, "Users nobody has seen").
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..compute.arrays import Floats
from ..storage.archive import Arrays
from ..storage.columns import USERS
from ..storage.tables import Source, read_table
from .features import Features

NEIGHBOURS = 100
"""Users most alike, from whose rewards a newcomer's taste is guessed."""
EDGES = 10
"""The first of these: whom it is joined with at its first reward."""


class Alike:
    """Attributes of users as vectors, and the nearest among the known ones by cosine.

    >>> alike = Alike.read({"user": ["ann", "bob", "eve"], "age": [20, 70, 22], "job": ["chef", "poet", "chef"]})
    >>> list(alike.near("eve", {"ann": 0, "bob": 1}, 1))
    [0]
    """

    def __init__(self, names: list[str], vectors: Floats) -> None:
        self.names = names
        self.vectors = vectors  # of norm 1
        self._place = {name: row for row, name in enumerate(names)}

    @classmethod
    def read(cls, users: Source, columns: Mapping[str, str] | None = None) -> Alike:
        """From a table with a column of users; every other column is an attribute."""
        table = read_table(users, USERS, columns=columns, name="users")
        table.check_columns("user")
        table.check_distinct("user")
        names = table.codes("user")[1]
        vectors = Features().fit_table(table.data.select(table.others()))
        norm = np.linalg.norm(vectors, axis=1, keepdims=True)
        return cls(names, vectors / np.where(norm > 0, norm, 1.0))

    def near(self, name: str, rows: Mapping[str, int], k: int = NEIGHBOURS) -> dict[int, float]:
        """Rows and weights of the `k` known users whose attributes are most alike; none if it has no attributes."""
        place = self._place.get(name)
        if place is None:
            return {}
        alike = self.vectors @ self.vectors[place]
        alike[place] = -np.inf
        found: dict[int, float] = {}
        for other in np.argsort(-alike, kind="stable"):
            row = rows.get(self.names[other])
            if row is not None and alike[other] > 0.0:
                found[row] = float(alike[other])
            if len(found) == k or alike[other] <= 0.0:
                break
        return found

    def pack(self) -> tuple[list[str], Arrays]:
        """Names and vectors, for a file."""
        return self.names, {"alike": self.vectors}
