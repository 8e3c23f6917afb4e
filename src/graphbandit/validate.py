"""Checks of arguments: type, range, shape, NaN. Every error is a sentence that names the argument.

The check that refuses a NaN reward is `check_observation`; services and compiled code refuse it by the same limits.

Allowed ranges are data, so that a class can declare them in a table:

>>> check("ridge", 0.5, POSITIVE)
0.5
>>> check("ridge", -1, POSITIVE)
Traceback (most recent call last):
ValueError: ridge must be a positive number, but it is -1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .compute.arrays import Floats, Ints
from .compute.linalg import all_within

LARGEST_FEATURE = 1e6
"""The largest feature that is accepted. The square of a larger one would drown a ridge of 0.01 in rounding, and the data of
a whole cluster in those of one user."""
LARGEST_REWARD = 1e15
LARGEST_ITEM = 10**8 - 1
"""The largest id of an item: ids are rows of a table, and a larger id probably comes from a database."""
NOT_KNOWN = -1
"""The id of an unknown item."""
NO_ITEMS: Ints = np.empty(0, dtype=np.int64)
"""The ids of arms whose items are unknown."""


class Range(NamedTuple):
    """The values that an argument may have: `text` completes the sentence "… must be …"."""

    text: str
    holds: Callable[[Any], bool]
    examples: tuple[Any, ...] = ()  # values in the range, for tests of a policy with several values of each setting


def is_number(value: object) -> bool:
    """Return whether a value is a real number; True and False are not."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def is_integer(value: object) -> bool:
    """Return whether a value is an integer; True and False are not."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


POSITIVE = Range("a positive number", lambda value: is_number(value) and 0 < value < np.inf, (0.1, 7.0))
NOT_NEGATIVE = Range("zero or a positive number", lambda value: is_number(value) and 0 <= value < np.inf, (0.0, 0.5))
NOT_NEGATIVE_OR_INFINITE = Range(NOT_NEGATIVE.text, lambda value: is_number(value) and value >= 0, (0.0, 0.5, np.inf))
PROBABILITY = Range("a probability above 0 and up to 1", lambda value: is_number(value) and 0 < value <= 1, (0.1, 1.0))
SHARE = Range("a share from 0 to 1", lambda value: is_number(value) and 0 <= value <= 1, (0.0, 0.5))
FRACTION = Range("at least 0 and below 1", lambda value: is_number(value) and 0 <= value < 1)
SWITCH = Range("True or False", lambda value: isinstance(value, bool | np.bool_), (True, False))
NUMBER = Range("a number", lambda value: is_number(value) and not np.isnan(value))
FINITE = Range("a finite number", lambda value: is_number(value) and np.isfinite(value))
WEIGHT = Range("a positive finite number", POSITIVE.holds)


def count(least: int = 1) -> Range:
    """Return the range of integers of at least `least`."""
    return Range(f"an integer of at least {least}", lambda value: is_integer(value) and value >= least, (least, least + 3))


def count_up_to(most: int, what: str) -> Range:
    """Return the range of integers from 1 to `most`; `what` names what is counted."""
    return Range(f"an integer from 1 to {most}, {what}", lambda value: is_integer(value) and 1 <= value <= most)


def number_between(low: float, high: float) -> Range:
    """Return the range of numbers from `low` to `high`, both included."""
    return Range(f"a number from {low:g} to {high:g}", lambda value: is_number(value) and low <= value <= high)


def one_of(choices: Iterable[str]) -> Range:
    """Return the range of these names."""
    names = tuple(choices)
    return Range(f"one of {', '.join(names)}", lambda value: isinstance(value, str) and value in names, names)


def optional(allowed: Range) -> Range:
    """Return the range of None and the values of another range."""
    return Range(allowed.text, lambda value: value is None or allowed.holds(value), (None, *allowed.examples))


def list_of(allowed: Range, what: str) -> Range:
    """Return the range of one or more values of another range; `what` names them in the plural."""

    def holds(values: Any) -> bool:
        listed = isinstance(values, Sequence | np.ndarray) and not isinstance(values, str)
        return listed and len(values) > 0 and all(map(allowed.holds, values))

    return Range(f"a list of one or more {what}", holds, (list(allowed.examples),))


def missing_package(what: str, package: str | None, extra: str) -> str:
    """Return the error message for an optional package that is not installed.

    >>> missing_package("a picture", "matplotlib", "plots")
    "a picture needs matplotlib: install graphbandit with its extra plots (in a checkout: pip install '.[plots]')."
    """
    return f"{what} needs {package}: install graphbandit with its extra {extra} (in a checkout: pip install '.[{extra}]')."


def check(name: str, value: Any, allowed: Range) -> Any:
    """Return `value`, or raise a ValueError that names the argument."""
    if not allowed.holds(value):
        raise ValueError(f"{name} must be {allowed.text}, but it is {value!r}.")
    return value


def check_all(values: Mapping[str, Any], ranges: Mapping[str, Range]) -> None:
    """Raise a ValueError that names the first value outside its range; a value without a range may be anything."""
    for name, value in values.items():
        if name in ranges:
            check(name, value, ranges[name])


def check_between(name: str, value: object, least: int, most: int, bound: str) -> None:
    """Raise a ValueError unless `value` is an integer from `least` to `most`; `bound` says what `most` is."""
    if not is_integer(value) or not least <= value <= most:  # type: ignore[operator]
        raise ValueError(f"{name} must lie between {least} and {bound}, {most}, but it is {value!r}.")


def check_places(k: object, n_arms: int) -> None:
    """Raise a ValueError unless `k` of `n_arms` arms can be ranked."""
    check_between("k", k, 1, n_arms, "the number of arms")


def as_floats(values: npt.ArrayLike, name: str) -> Floats:
    """Return `values` as a contiguous, writable array of float64, or raise a ValueError."""
    try:
        if np.iscomplexobj(values):
            raise TypeError
        array = np.ascontiguousarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be an array of numbers, but it is {values!r}.") from None
    # A read-only array is another type to the compiler: a copy is cheaper than a second compilation.
    return array if array.flags.writeable else array.copy()


def check_features(arms: npt.ArrayLike, dim: int) -> Floats:
    """Return an (m, dim) array of finite features, m ≥ 1, or raise a ValueError."""
    features = as_floats(arms, "arms")
    if features.ndim != 2 or features.shape[1] != dim or len(features) == 0:
        raise ValueError(
            f"arms must be an array with one row of {dim} features for each of one or more arms, "
            f"but its shape is {features.shape}."
        )
    if not all_within(features, LARGEST_FEATURE):
        row, column = np.argwhere(~(np.abs(features) <= LARGEST_FEATURE))[0]
        raise ValueError(
            f"arms must be finite and at most {LARGEST_FEATURE:g} in size, "
            f"but arms[{row}, {column}] is {features[row, column]}; scale the features."
        )
    return features


def check_item(item: object) -> int:
    """Return the id of an item as an int, -1 if unknown, or raise a ValueError."""
    if not is_integer(item) or not NOT_KNOWN <= item <= LARGEST_ITEM:  # type: ignore[operator]
        raise ValueError(f"item must be {_ITEM}, but it is {item!r}; {_NUMBERING}.")
    return int(item)  # type: ignore[call-overload, no-any-return]


def check_items(items: npt.ArrayLike | None, n: int) -> Ints:
    """Return the ids of `n` rows, `NO_ITEMS` if None are given, or raise a ValueError that names the first bad one.

    >>> check_items([4, -1], 2)
    array([ 4, -1])
    >>> check_items([4, -2], 2)
    Traceback (most recent call last):
    ValueError: items[1] must be an integer from 0 to 99999999, or -1 if not known, but it is -2; number items 0, 1, 2, ….
    """
    if items is None:
        return NO_ITEMS
    ids = np.asarray(items)
    if ids.shape != (n,):
        raise ValueError(f"items must have one id for each of {n} rows, but its shape is {ids.shape}.")
    if n == 0:
        return NO_ITEMS
    if ids.dtype.kind not in "iu":
        raise ValueError(f"items must be integers, but they are of type {ids.dtype}; {_NUMBERING}.")
    if ids.min() < NOT_KNOWN or ids.max() > LARGEST_ITEM:
        row = int(np.flatnonzero((ids < NOT_KNOWN) | (ids > LARGEST_ITEM))[0])
        raise ValueError(f"items[{row}] must be {_ITEM}, but it is {ids[row]}; {_NUMBERING}.")
    return np.array(ids, dtype=np.int64)


_ITEM = f"an integer from 0 to {LARGEST_ITEM}, or {NOT_KNOWN} if not known"
_NUMBERING = "number items 0, 1, 2, …"


def check_observation(x: npt.ArrayLike, reward: Any, dim: int) -> tuple[Floats, float]:
    """Return one (dim,) vector of finite features and one finite reward, or raise a ValueError."""
    features = as_floats(x, "x")
    if features.shape != (dim,):
        raise ValueError(f"x must be a vector of length {dim}, but its shape is {features.shape}.")
    if not is_number(reward):
        raise ValueError(f"reward must be a number, but it is {reward!r}.")
    if not abs(reward) <= LARGEST_REWARD:  # NaN fails too
        raise ValueError(f"reward must be finite and at most {LARGEST_REWARD:g} in size, but it is {reward!r}.")
    if not all_within(features.reshape(1, dim), LARGEST_FEATURE):
        raise ValueError(f"x must be finite and at most {LARGEST_FEATURE:g} in size, but it is {features}.")
    return features, float(reward)


def _row_of(check_user: Callable[[Any], int], user: Any, row: int) -> int:
    try:
        return check_user(user)
    except ValueError as error:
        raise ValueError(f"users[{row}] is wrong: {error}") from None


def check_observations(
    users: npt.ArrayLike, X: npt.ArrayLike, rewards: npt.ArrayLike, dim: int, n_users: int, check_user: Callable[[Any], int]
) -> tuple[Ints, Floats, Floats]:
    """Return a batch of k users, (k, dim) features and k rewards.

    Raise a ValueError that names the first bad row.

    `check_user` raises the error for one user who is unknown.
    """
    features, values = as_floats(X, "X"), as_floats(rewards, "rewards")
    names = np.asarray(users)
    if names.ndim != 1 or values.shape != names.shape or features.shape != (len(names), dim):
        raise ValueError(
            f"users, X and rewards must have shapes (k,), (k, {dim}) and (k,), "
            f"but they are {names.shape}, {features.shape} and {values.shape}."
        )
    if len(names) == 0:
        return np.empty(0, dtype=np.int64), features, values
    if names.dtype.kind not in "iu" or names.min() < 0 or names.max() >= n_users:
        names = np.array([_row_of(check_user, user, row) for row, user in enumerate(users)])  # type: ignore[arg-type]
    for name, column, largest in (("X", features, LARGEST_FEATURE), ("rewards", values, LARGEST_REWARD)):
        usable = np.abs(column) <= largest  # NaN is not
        if not usable.all():
            row = np.argwhere(~usable)[0, 0]
            raise ValueError(f"{name}[{row}] must be finite and at most {largest:g} in size, but it is {column[row]}.")
    return names.astype(np.int64), features, values
