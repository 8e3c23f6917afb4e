"""Hyper-parameters are declared once: the signature of a policy names them, `ranges` limits them, `params` collects them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...display import shorten
from ...graph import UserGraph
from ...validate import NOT_NEGATIVE, POSITIVE, PROBABILITY, SWITCH, Range, check_all, count, one_of, optional
from .item_effects import no_items
from .policy_file import number_fields
from .ridge import RADII

NOT_HYPERPARAMETERS = ("self", "graph", "dim", "seed")
COMMON_RANGES: dict[str, Range] = {
    "ridge": POSITIVE,
    "alpha": POSITIVE,
    "sigma": NOT_NEGATIVE,
    "delta": PROBABILITY,
    "norm": optional(NOT_NEGATIVE),
    "exploration": NOT_NEGATIVE,
    "item_ridge": optional(POSITIVE),
    "scale": optional(NOT_NEGATIVE),
    "radius": one_of(RADII),
    **{name: SWITCH for name in ("shared", "thompson", "item_effects", "trials", "growing_bonus", "inherit", "spare_unseen")},
}
"""What means the same in every policy that has it."""


def collect(policy: type, given: Mapping[str, Any], ranges: Mapping[str, Range]) -> dict[str, Any]:
    """The hyper-parameters of a policy, in the order of its signature, or a ValueError for one outside its range.

    `given` holds the arguments of its `__init__`, graph and dim among them, as `locals()` gives them.
    """
    graph, dim = given["graph"], given["dim"]
    if not isinstance(graph, UserGraph):
        raise ValueError(f"graph must be a UserGraph (see graphbandit.graphs), but it is a {type(graph).__name__}.")
    if not count().holds(dim):
        raise ValueError(f"dim must be a positive integer, but it is {dim!r}.")
    declared = given.get("__class__", policy)  # whose `__init__` it is: a class derived from it may have another one
    params = {name: given[name] for name in inspect.signature(declared).parameters if name not in NOT_HYPERPARAMETERS}
    check_all(params, ranges)
    return params


def short_repr(policy: Any) -> str:
    """Return the repr of a policy: its graph and dim, or the policy inside a wrapper, and the settings that were changed."""
    usual = {name: parameter.default for name, parameter in inspect.signature(type(policy)).parameters.items()}
    usual |= getattr(policy, "presets", {}).get(policy.params.get("preset"), {})
    shown = {name: value for name, value in policy.params.items() if name in usual and name != "policy" and np.ndim(value) == 0}
    changed = shorten(", ".join(f"{name}={value!r}" for name, value in shown.items() if value != usual[name]), 50)
    inside = repr(policy.policy) if hasattr(policy, "policy") else f"{policy.graph!r}, {policy.dim}"
    return f"{type(policy).__name__}({', '.join(filter(None, [inside, changed]))})"


def build_state(kind: type, params: Mapping[str, Any], arrays: Mapping[str, Any]) -> Any:
    """A state of these arrays; numbers that are not among them are the hyper-parameters of the same name, NaN for None.

    A field `items` that is not given is the table of item effects that the hyper-parameters ask for.
    """
    if "items" in kind._fields and "items" not in arrays:  # type: ignore[attr-defined]
        arrays = {**arrays, "items": no_items(params["item_effects"], params.get("item_ridge"))}
    numbers = {name: number for name, number in number_fields(kind).items() if name not in arrays}
    values = {name: float("nan") if params[name] is None else number(params[name]) for name, number in numbers.items()}
    return kind(**arrays, **values)
