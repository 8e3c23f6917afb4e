"""Finished runs on disk: one small file each, named by a digest of everything that defines the run.

A run is out of date when its policy, its environment or the code in `RUN_PACKAGES` has changed: its digest is then another
one, its file is not found, and the run is made again.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from functools import cache, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ..compute.arrays import Floats
from ..compute.staleness import KERNEL_ROOMS, code_digest
from ..environments import Environment
from ..environments.rounds import checked_rounds
from ..graph import UserGraph
from ..policies import Policy
from ..storage import archive
from .simulate import Learner

RUN_PACKAGES = (
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
    file: str | None = None  # name of the file where the caller stores the run, or finds it if it was reused


@cache
def versions() -> dict[str, str]:
    """Return the versions of this package and of the libraries that it computes with."""
    return {name: version(name) for name in ("graphbandit", *LIBRARIES)}


def described(policy: Learner) -> str:
    """Return the repr of a policy and all its settings, nested policies included.

    A repr alone shows only the settings that were changed.
    """
    settings = policy.params if isinstance(policy, Policy) else {}
    parts = [f"{name}={value!r}" for name, value in settings.items() if np.ndim(value) == 0]
    parts += [described(value) for value in getattr(policy, "__dict__", {}).values() if isinstance(value, Policy)]
    return f"{policy!r}: {', '.join(parts) or 'no settings'}"


def file_name(name: str, policy: Learner, environment: Environment, *, horizon: int, seed: int) -> str | None:
    """Return the name of the file of this run.

    It is None for a policy without a `__repr__` of its own, which could not be distinguished from others.
    """
    if type(policy).__repr__ is object.__repr__:
        return None
    digest = hashlib.sha256()
    code = [code_digest(*RUN_PACKAGES), *map(version, LIBRARIES)]
    digest.update(json.dumps([name, horizon, seed, code, described(policy), _class_name(environment)]).encode())
    # A repr shows sizes, not contents: with another gamma or a shuffled graph it is the same.
    if isinstance(policy, Policy):
        _add_graph(digest, policy.graph)
        _add_values(digest, policy.params)
    _add_graph(digest, environment.graph)
    _add_values(digest, getattr(environment, "__dict__", {}))
    _add_values(digest, {"arms": environment.arms})
    for rounds in checked_rounds(environment, min(horizon, PEEK), seed):
        _add_values(digest, rounds._asdict())
    return f"{_file_prefix(name, seed)}-{digest.hexdigest()[:24]}.npz"


class RunFolder:
    """The caller's folder of finished runs, or none.

    Workers may be on other machines: they name files, and the caller reads and writes them.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.files: dict[str, list[str]] = {}  # by the first part of the name
        for file in os.listdir(folder) if folder and folder.exists() else ():  # many thousands: strings are faster than paths
            self.files.setdefault(file.rpartition("-")[0], []).append(file)

    def for_worker(self, name: str, seed: int) -> tuple[str, ...] | None:
        """Return the undamaged files that may be of this run; None if nothing is kept."""
        files = self.files.get(_file_prefix(name, seed), ())
        return None if self.folder is None else tuple(file for file in files if self.is_whole(file))

    def is_whole(self, file: str) -> bool:
        """Return whether a file can be read; the answer is cached, because many comparisons ask for the same file."""
        path = f"{self.folder}/{file}"
        status = os.stat(path)
        return is_whole_file(path, (status.st_mtime_ns, status.st_size))  # two writes may be too near for the time alone

    def receive(self, run: Run) -> Run:
        """Return the run of a worker, after storing or loading it here if the worker could not."""
        if self.folder is None or run.file is None:
            return run
        if not run.reused:
            store(self.folder / run.file, run)
            return run
        stored = load(self.folder / run.file)
        assert stored is not None, f"{run.file} was there when the run was begun"
        return stored


def load(path: Path) -> Run | None:
    """Return the run kept at `path`, or None if there is none or its file is damaged."""
    try:
        header, arrays = archive.read(path, "run")
        return Run(**header["run"], regret=arrays["regret"], reused=True)
    except (FileNotFoundError, archive.ArchiveError):
        return None


def store(path: Path, run: Run) -> None:
    """Store a finished run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    plain = {"name": run.name, "seed": run.seed, "seconds": run.seconds, "policy": run.policy, "environment": run.environment}
    archive.write(path, "run", {"run": plain}, {"regret": run.regret})


def _file_prefix(name: str, seed: int) -> str:
    """Return the first part of the names of the files of a run, which does not depend on its settings."""
    label = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40]
    return f"{label}-{seed}"


@lru_cache(maxsize=100_000)
def is_whole_file(path: str, changed: tuple[int, int]) -> bool:
    """Return whether a file, as last changed, holds a run."""
    del changed  # the key of the cache: a changed file is read again
    return load(Path(path)) is not None


def _class_name(thing: object) -> str:
    """Return the repr, or the name of the class if the repr is the default, which shows an address."""
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
