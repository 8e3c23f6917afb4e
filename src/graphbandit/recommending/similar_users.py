"""`SimilarUsers`: which users have attributes like those of a newcomer.

The numbers are chosen by measurement, as is this way before a linear map (docs/howto/recommender.md, "Users nobody has seen").
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

import numpy as np

from ..compute.arrays import Floats
from ..storage.archive import Arrays
from ..tables import USERS, Reading, Source, read_table
from .features import Features

NEIGHBOURS = 100
"""Users most alike, from whose rewards a newcomer's taste is guessed."""
EDGES = 10
"""The first of these: whom it is joined with at its first reward."""


class SimilarUsers:
    """Attributes of users as vectors, and the nearest among the known ones by cosine.

    >>> alike = SimilarUsers.read({"user": ["ann", "bob", "eve"], "age": [20, 70, 22], "job": ["chef", "poet", "chef"]})
    >>> list(alike.near("eve", {"ann": 0, "bob": 1}, 1))
    [0]
    """

    def __init__(self, names: list[str], vectors: Floats, features: Features) -> None:
        self.names = names
        self.vectors = vectors  # of norm 1
        self.features = features  # from attributes to vectors
        self._place = {name: row for row, name in enumerate(names)}

    @classmethod
    def read(cls, users: Source, **reading: Unpack[Reading]) -> SimilarUsers:
        """From a table with a column of users; every other column is an attribute."""
        table = read_table(users, USERS, name="users", **reading)
        table.check_columns("user")
        table.check_distinct("user")
        names = table.codes("user")[1]
        features = Features()
        return cls(names, _normed(features.fit_table(table.data.select(table.others()))), features)

    def near(self, name: str, rows: Mapping[str, int], k: int = NEIGHBOURS) -> dict[int, float]:
        """Rows and weights of the `k` known users whose attributes are most alike; none if it has no attributes."""
        place = self._place.get(name)
        if place is None:
            return {}
        return self._nearest(self.vectors[place], rows, k, place)

    def near_attributes(self, attributes: Mapping[str, Any], rows: Mapping[str, int], k: int = NEIGHBOURS) -> dict[int, float]:
        """Return the same for a user who is in no table, by attributes; a missing one is average."""
        known = [encoder.column for encoder in self.features.item_encoders]
        unknown = sorted(set(attributes) - set(known))
        if unknown:
            raise ValueError(f"attributes have {unknown[0]!r}, which no user has; there are {', '.join(known)}.")
        encoded = np.hstack([encoder.encode([attributes.get(encoder.column)]) for encoder in self.features.item_encoders])
        return self._nearest(_normed(self.features.scaled(encoded))[0], rows, k, None)

    def _nearest(self, vector: Floats, rows: Mapping[str, int], k: int, own: int | None) -> dict[int, float]:
        alike = self.vectors @ vector
        if own is not None:
            alike[own] = -np.inf
        found: dict[int, float] = {}
        for other in np.argsort(-alike, kind="stable"):
            row = rows.get(self.names[other])
            if row is not None and alike[other] > 0.0:
                found[row] = float(alike[other])
            if len(found) == k or alike[other] <= 0.0:
                break
        return found

    def erase(self, name: str) -> bool:
        """Forget somebody's attributes; False if there were none."""
        place = self._place.pop(name, None)
        if place is None:
            return False
        self.names, self.vectors = [*self.names[:place], *self.names[place + 1 :]], np.delete(self.vectors, place, axis=0)
        self._place = {known: row for row, known in enumerate(self.names)}
        return True

    def pack(self) -> tuple[dict[str, Any], Arrays]:
        """Header and arrays, for a file."""
        header, arrays = self.features.pack()
        packed: Arrays = {f"alike_features.{name}": array for name, array in arrays.items()}
        return {"alike": self.names, "alike_features": header}, packed | {"alike": self.vectors}

    @classmethod
    def unpack(cls, header: Mapping[str, Any], arrays: Arrays) -> SimilarUsers:
        """Restore the object whose header and arrays `pack` returned."""
        prefix = "alike_features."
        own = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
        return cls(header["alike"], arrays["alike"], Features.unpack(header["alike_features"], own))


def _normed(vectors: Floats) -> Floats:
    norm = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(norm > 0, norm, 1.0))
