"""Finished runs on disk: one small file each, found again only by exactly the run that wrote it."""

from __future__ import annotations

import hashlib
import json
import re
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ..compute.arrays import Floats
from ..compute.staleness import RUN_ROOMS, code_digest
from ..environments import Environment
from ..graph import UserGraph
from ..policies import Policy
from ..storage import archive
from .simulate import Learner

PEEK = 100  # rounds of the stream that go into the fingerprint of an environment
VERSIONS = ("graphbandit", "numpy", "scipy", "numba")


class Run(NamedTuple):
    """One policy on one seed."""

    name: str
    seed: int
    regret: Floats  # (c,), at the recorded rounds
    seconds: float
    policy: str
    environment: str
    reused: bool = False  # loaded, not simulated now


@cache
def versions() -> dict[str, str]:
    """What the numbers of a run depend on, besides the sources of this package."""
    return {name: version(name) for name in VERSIONS}


def place(folder: Path, name: str, policy: Learner, environment: Environment, *, horizon: int, seed: int) -> Path | None:
    """The file of this run; None for a policy that cannot be told from others, because it has no `__repr__` of its own."""
    if type(policy).__repr__ is object.__repr__:
        return None
    digest = hashlib.sha256()
    parts = [name, horizon, seed, code_digest(*RUN_ROOMS), versions(), repr(policy), _class_name(environment)]
    digest.update(json.dumps(parts).encode())
    # A repr shows sizes, not contents: another gamma or a shuffled graph would look the same.
    if isinstance(policy, Policy):
        _add_graph(digest, policy.graph)
        _add_values(digest, policy.params)
    _add_graph(digest, environment.graph)
    _add_values(digest, getattr(environment, "__dict__", {}))
    _add_values(digest, {"arms": environment.arms})
    for rounds in environment.rounds(min(horizon, PEEK), seed):
        _add_values(digest, rounds._asdict())
    label = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40]
    return folder / f"{label}-{seed}-{digest.hexdigest()[:24]}.npz"


def load(path: Path) -> Run | None:
    """The run kept at `path`, or None if there is none or its file is damaged."""
    try:
        header, arrays = archive.read(path, "run")
        return Run(**header["run"], regret=arrays["regret"], reused=True)
    except (FileNotFoundError, archive.ArchiveError):
        return None


def store(path: Path, run: Run) -> None:
    """Keep a finished run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    plain = {"name": run.name, "seed": run.seed, "seconds": run.seconds, "policy": run.policy, "environment": run.environment}
    archive.write(path, "run", {"run": plain}, {"regret": run.regret})


def _class_name(thing: object) -> str:
    """The repr where it tells something, else the class: the default one holds an address that changes every time."""
    kind = type(thing)
    return f"{kind.__module__}.{kind.__qualname__}" if kind.__repr__ is object.__repr__ else repr(thing)


def _add_graph(digest: Any, graph: UserGraph) -> None:
    _add_values(digest, {part: getattr(graph.adjacency, part) for part in ("data", "indices", "indptr")})


def _add_values(digest: Any, values: Any) -> None:
    """Arrays by content, plain values by repr; other objects have to show in the rounds."""
    for name, value in sorted(values.items()):
        if isinstance(value, np.ndarray):
            digest.update(f"{name}{value.dtype.str}{value.shape}".encode())
            digest.update(np.ascontiguousarray(value).data if value.size else b"")
        elif sparse.issparse(value):
            rows = sparse.csr_array(value)
            _add_values(digest, {f"{name}.{part}": getattr(rows, part) for part in ("data", "indices", "indptr")})
        elif isinstance(value, list):
            _add_values(digest, {f"{name}[{place}]": part for place, part in enumerate(value)})
        elif isinstance(value, bool | int | float | str | np.generic | None):
            digest.update(f"{name}={value!r};".encode())
