"""A policy as header and arrays, which `storage.archive` writes to one file.

The names of the fields of a state are part of the format. A state of nested named tuples is stored flat, under dotted names:
arrays among the arrays, numbers in the header, and for a nested tuple the name of its type.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_type_hints

import numpy as np
from scipy import sparse

from ...compute.arrays import Floats
from ...compute.observations import Observations
from ...graph import UserGraph
from ...storage import archive
from ...storage.archive import Arrays

if TYPE_CHECKING:
    from .policy import Policy

P = TypeVar("P", bound="Policy")

POLICY_FILE = "policy.gb"
"""The policy in the folder of a model."""

GENERATORS: dict[str, Any] = {name: getattr(np.random, name) for name in ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")}
GRAPH_PARTS = ("data", "indices", "indptr")


def pack(policy: Policy, since_refresh: int) -> tuple[dict[str, Any], Arrays]:
    """Header and arrays of a policy's file."""
    arrays, numbers = flatten(policy.state)
    header = {
        "policy": type(policy).__name__,
        "dim": policy.dim,
        "since": since_refresh,
        "params": {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in policy.params.items()},
        "numbers": numbers,
        "ids": plain_ids(policy.graph.ids),
        "generator": policy.rng.bit_generator.state,
    }
    return header, arrays | pack_graph(policy.graph, "graph.")


def unpack(kind: type, header: dict[str, Any], arrays: Arrays) -> tuple[UserGraph, Any]:
    """Return the graph and the state of a policy's file; `kind` is the type of the state."""
    graph = unpack_graph(arrays, "graph.", header["ids"])
    state = unflatten(kind, arrays, header["numbers"])
    if any(gram.shape[1:] != (header["dim"], header["dim"]) for gram in grams(state)):
        raise ValueError(f"its arrays are not those of dimension {header['dim']}")
    return graph, state


def load(kind: type[P], path: str | os.PathLike[str]) -> P:
    """Return the policy of class `kind` in this file or folder, or an `ArchiveError`."""
    if Path(path).is_dir():
        path = Path(path) / POLICY_FILE
    header, arrays = archive.read(path, "policy")
    if header["policy"] != kind.__name__:
        raise archive.ArchiveError(f"{path} holds a {header['policy']}, not a {kind.__name__}.")
    try:
        return kind.unpack(header, arrays)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise archive.ArchiveError(f"{path} is damaged: it lacks a part of a {kind.__name__} ({error!r}).") from None


def pack_graph(graph: UserGraph, prefix: str) -> Arrays:
    """Return the arrays of a graph, for a file."""
    return {f"{prefix}{part}": getattr(graph.adjacency, part) for part in GRAPH_PARTS}


def unpack_graph(arrays: Arrays, prefix: str, ids: Sequence[Hashable] | None) -> UserGraph:
    """Return the graph whose arrays `pack_graph` gave; they are taken out of `arrays`."""
    csr = tuple(arrays.pop(f"{prefix}{part}") for part in GRAPH_PARTS)
    n = len(csr[2]) - 1
    return UserGraph(sparse.csr_array(csr, shape=(n, n)), ids)


def plain_ids(ids: Sequence[Hashable] | None) -> list[Hashable] | None:
    """User ids as a file can hold them, or a ValueError."""
    plain = [name.item() if isinstance(name, np.generic) else name for name in ids or ()]
    odd = next((name for name in plain if not isinstance(name, str | int)), None)
    if odd is not None:
        raise ValueError(f"a policy can be saved when its user ids are strings or integers, but one is {odd!r}.")
    return None if ids is None else plain


def generator(state: dict[str, Any]) -> np.random.Generator:
    """Return the random generator that a header describes."""
    bits = GENERATORS[state["bit_generator"]]()
    # Large and small numbers together would become floats, which cannot hold 64 bits.
    inner = {name: np.array(part, np.uint64) if isinstance(part, list) else part for name, part in state["state"].items()}
    bits.state = state | {"state": inner}
    return np.random.Generator(bits)


def flatten(state: Any, prefix: str = "") -> tuple[Arrays, dict[str, Any]]:
    """Return the arrays and the plain numbers of nested named tuples, under dotted names."""
    arrays: Arrays = {}
    numbers: dict[str, Any] = {}
    for name, value in state._asdict().items():
        if isinstance(value, tuple):
            numbers[f"{prefix}{name}"] = type(value).__name__
            inner_arrays, inner_numbers = flatten(value, f"{prefix}{name}.")
            arrays |= inner_arrays
            numbers |= inner_numbers
        elif isinstance(value, np.ndarray):
            arrays[f"{prefix}{name}"] = value
        else:
            numbers[f"{prefix}{name}"] = value
    return arrays, numbers


def unflatten(kind: type, arrays: Arrays, numbers: dict[str, Any], prefix: str = "") -> Any:
    """Return the state of type `kind` that `flatten` took apart."""
    values = {}
    for name in kind._fields:  # type: ignore[attr-defined]
        key = f"{prefix}{name}"
        nested = _nested(kind, name, numbers.get(key))
        if nested:
            values[name] = unflatten(nested, arrays, numbers, f"{key}.")
        else:
            values[name] = arrays[key] if key in arrays else numbers[key]
    return kind(**values)


@cache
def number_fields(kind: type) -> dict[str, type]:
    """Return the fields of a state that are plain numbers, with their types."""
    return {name: hint for name, hint in get_type_hints(kind).items() if hint in (float, int, bool)}


def grams(state: Any) -> Iterator[Floats]:
    """Return the Gram matrices of all observations in a state."""
    for part in state:
        if isinstance(part, Observations):
            yield part.gram
        elif isinstance(part, tuple):
            yield from grams(part)


def _nested(kind: type, name: str, stored: Any) -> type | None:
    """Return the type of a field that is a named tuple, None for others; of several types, the one whose name is stored."""
    hint = get_type_hints(kind)[name]
    tuples = {choice.__name__: choice for choice in get_args(hint) or (hint,) if hasattr(choice, "_fields")}
    return next(iter(tuples.values()), None) if len(tuples) < 2 else tuples[stored]
