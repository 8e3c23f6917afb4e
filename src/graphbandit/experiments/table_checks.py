"""Checks of tables of an experiment file; errors name the table, the key and what is allowed."""

from __future__ import annotations

import inspect
import math
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from ..validate import is_integer, is_number

WORDS = {float: "a number", int: "an integer", bool: "true or false", str: "a string", dict: "a table", list: "a list"}


class SpecError(ValueError):
    """An experiment that cannot be run as written; the message says where and why."""


def check_keys(where: str, table: Any, allowed: Iterable[str], required: Iterable[str] = ()) -> None:
    """Raise a SpecError that names the first unknown or missing key."""
    names = list(allowed)
    if not isinstance(table, Mapping):
        raise SpecError(f"{where} must be a table, but it is {table!r}.")
    for key in table:
        if key not in names:
            known = f"allowed are {', '.join(names)}" if names else "it takes none"
            raise SpecError(f"{where} has an unknown key {key!r}; {known}.")
    for key in required:
        if key not in table:
            raise SpecError(f"{where} needs the key {key!r}; its keys are {', '.join(names)}.")


def check_type(where: str, key: str, value: Any, kind: Any) -> None:
    """Raise a SpecError unless `value` fits the annotation `kind`."""
    if not _fits(value, kind):
        raise SpecError(f"{where} {key} must be {_words(kind)}, but it is {value!r}.")


def settings_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the keyword settings of a policy, or of a function that builds a graph, with annotations."""
    target = function.__init__ if inspect.isclass(function) else function
    hints = typing.get_type_hints(target)
    positional = ("self", "graph", "dim", "n", "features", "items")  # the environment gives these
    return {name: hints.get(name, Any) for name in inspect.signature(target).parameters if name not in positional}


def required_of(function: Callable[..., Any]) -> list[str]:
    """Return the settings of `function` that have no default."""
    parameters = inspect.signature(function).parameters
    return [name for name in settings_of(function) if parameters[name].default is inspect.Parameter.empty]


def _fits(value: Any, kind: Any) -> bool:
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        return any(_fits(value, option) for option in typing.get_args(kind))
    if typing.get_origin(kind) is Literal:
        return any(value == choice and type(value) is type(choice) for choice in typing.get_args(kind))
    if kind is float:
        return is_number(value) and math.isfinite(value)
    if kind is int:
        return is_integer(value)
    if kind is Any:  # a policy of one's own need not have annotations
        return True
    if kind in WORDS:
        return isinstance(value, kind)
    return _takes_lists(kind) and isinstance(value, list)


def _words(kind: Any) -> str:
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        options = [_words(option) for option in typing.get_args(kind)]
        return " or ".join(dict.fromkeys(option for option in options if option))
    if typing.get_origin(kind) is Literal:
        return "one of " + ", ".join(repr(choice) for choice in typing.get_args(kind))
    return WORDS.get(kind, "a list" if _takes_lists(kind) else "")


def _takes_lists(kind: Any) -> bool:
    """Return whether a TOML list may be given for this annotation: for a part of ArrayLike, not for a plain class."""
    return typing.get_origin(kind) is not None
