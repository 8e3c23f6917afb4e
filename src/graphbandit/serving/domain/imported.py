"""Imported rewards: what happened before there was this log, or elsewhere. An event holds many of
them, and is marked by its kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .events import encode, table_in


class ImportedRewards(NamedTuple):
    """The body of IMPORTED: users that join, then columns of equal length."""

    join: Sequence[str] = ()  # names of users that nobody knew
    users: Sequence[int] = ()  # rows
    versions: Sequence[int] = ()
    values: Sequence[float] = ()
    times: Sequence[int] | None = None  # microseconds since 1970; None if the table has none
    propensities: Sequence[float | None] | None = None  # None if the table has none
    context: Mapping[str, Sequence[Any]] | None = None  # columns
    file: str | None = None  # of the event that ends an import: the name of the table
    rows: int | None = None  # and how many rewards came from it

    def encoded(self) -> str:
        """JSON, without what is empty."""
        return encode({name: value for name, value in self._asdict().items() if value is not None and value != ()})


def imported_in(body: str) -> ImportedRewards:
    """The body of IMPORTED.

    >>> imported_in(ImportedRewards(users=[0], versions=[3], values=[0.5]).encoded()).values
    [0.5]
    """
    return ImportedRewards(**table_in(body))


def import_key(digest: str, part: str = "") -> str:
    """Key of an event of an import: a part of a table is imported once; without a part, its end."""
    return f"i{digest}.{part}" if part else f"i{digest}"


def kept_rows(imported: ImportedRewards, gone: set[int]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The places of the rewards whose users are there."""
    return np.flatnonzero(~np.isin(np.array(imported.users, dtype=np.int64), list(gone)))
