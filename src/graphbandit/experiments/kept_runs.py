"""Finished runs on disk: one small file each, named by a digest of all that defines the run.

A run is out of date when its policy, its environment or the code in `RUN_ROOMS` has changed: its digest is then another
one, its file is not found, and the run is made again.
"""

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
from ..compute.staleness import KERNEL_ROOMS, code_digest
from ..environments import Environment
from ..graph import UserGraph
from ..policies import Policy
from ..storage import archive
from .simulate import Learner

RUN_ROOMS = (
    *KERNEL_ROOMS,
    "environments",
    "experiments/compare.py",
    "experiments/simulate.py",
    "graph.py",
    "graphs",
    "live_graph.py",
    "signals.py",
    "validate.py",
)
"""Folders and modules of the package whose code the numbers of a run depend on.

The code that made the world of a run, such as `datasets`, is not among them: the contents of the environment are part of
the digest instead.
"""
PEEK = 100
"""Rounds that go into the digest of an environment."""
LIBRARIES = ("numpy", "scipy", "numba")
"""Libraries whose versions the numbers of a run depend on."""


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
    """The versions of this package and of the libraries that it computes with."""
    return {name: version(name) for name in ("graphbandit", *LIBRARIES)}


def place(folder: Path, name: str, policy: Learner, environment: Environment, *, horizon: int, seed: int) -> Path | None:
    """The file of this run.

    None for a policy without a `__repr__` of its own: it could not be told from other policies.
    """
    if type(policy).__repr__ is object.__repr__:
        return None
    digest = hashlib.sha256()
    code = [code_digest(*RUN_ROOMS), *map(version, LIBRARIES)]
    digest.update(json.dumps([name, horizon, seed, code, repr(policy), _class_name(environment)]).encode())
    # A repr shows sizes, not contents: with another gamma or a shuffled graph it is the same.
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
    """The repr; the name of the class if it has only the default repr, which shows an address."""
    kind = type(thing)
    return f"{kind.__module__}.{kind.__qualname__}" if kind.__repr__ is object.__repr__ else repr(thing)


def _add_graph(digest: Any, graph: UserGraph) -> None:
    _add_values(digest, {part: getattr(graph.adjacency, part) for part in ("data", "indices", "indptr")})


def _add_values(digest: Any, values: Any) -> None:
    """Add arrays by content and plain values by repr; other objects count only by the rounds."""
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
