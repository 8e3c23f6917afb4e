"""Ids and filter values as text, the way tables give them: 7 and 7.0 are "7"; nothing is no id."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from .errors import InvalidRequest
from .requests import Filter


def id_text(value: Any, field: str) -> str:
    """Return an id as text, or a ValueError that names the argument.

    >>> id_text(7, "user"), id_text(7.0, "user"), id_text("007", "user")
    ('7', '7', '007')
    >>> id_text(None, "user")
    Traceback (most recent call last):
    graphbandit.recommending.errors.InvalidRequest: user must be an id, but it is None.
    """
    if value is None or value != value or isinstance(value, list | tuple | dict | set) or value == "":
        raise InvalidRequest(field, f"{field} must be an id, but it is {value!r}.")
    return value_text(value)


def id_texts(values: Iterable[Hashable] | None, field: str) -> list[str] | None:
    """Ids as text; None for None."""
    if values is None:
        return None
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise InvalidRequest(field, f"{field} must be a list of ids, but it is {values!r}.")
    return [id_text(value, field) for value in values]


def value_text(value: Any) -> str:
    """Return a value as tables give it as text: 2.0 is 2."""
    return str(int(value)) if hasattr(value, "is_integer") and value.is_integer() else str(value)


def filter_texts(where: Mapping[str, Any] | None, known: Iterable[str]) -> Filter | None:
    """Return a filter as text; its columns must be among those that items have."""
    if where is None:
        return None
    columns = list(known)
    for name in where:
        if name not in columns:
            there = ", ".join(columns) or "none"
            raise InvalidRequest("where", f"where names the column {name!r}, which items do not have; there are {there}.")
    listed = {name: value if isinstance(value, list | tuple | set) else [value] for name, value in where.items()}
    return {name: [value_text(value) for value in values] for name, values in listed.items()}
