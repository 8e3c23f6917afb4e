"""Calls spread over the workers of a Ray cluster. Only this module of the experiments imports Ray, and only when asked.

A run is a Ray task of one processor. What tasks have in common, such as the world, is pickled once; if it is large, it goes
into the object store, and a worker unpickles it once. A task whose worker or machine is lost is repeated by Ray.
"""

from __future__ import annotations

import math
import os
import pickle
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..compute.staleness import code_digest
from ..validate import missing_package
from .kept_runs import RUN_ROOMS, versions
from .parallel import Engine

LARGE = 1_000_000
"""Bytes from which on an argument goes into the object store. joblib uses the same limit for what workers share."""
IN_FLIGHT = 2
"""Tasks that are under way, for each processor: one that runs and one that is ready to follow."""
LOSSES = 10
"""How often a run is repeated whose worker was lost: not for ever, because it may be the run that kills its worker."""
REMEMBERED = 4
"""Large arguments that stay in the object store for later calls: the world of a whole board, say."""
PATIENCE = 1.0
"""Seconds between two looks at the number of processors, which grows and shrinks with the cluster."""


class Session:
    """What is remembered while Ray is kept running, also between calls of `spread_on_ray`."""

    def __init__(self) -> None:
        self.users = 0  # of `ray_running`, one inside of the other
        self.stored: dict[int, tuple[Any, Large]] = {}  # by id, with the argument, so that no other gets this id
        self.asked, self.size = -math.inf, 0

    def store(self, value: Any, large: Large) -> None:
        """Remember where an argument is; of many, the last ones."""
        self.stored[id(value)] = value, large
        while len(self.stored) > REMEMBERED:
            del self.stored[next(iter(self.stored))]

    def room(self, ray: Any) -> int:
        """The number of tasks that may be under way; the cluster is asked from time to time."""
        if time.monotonic() > self.asked + PATIENCE:
            self.size = IN_FLIGHT * max(1, int(ray.cluster_resources().get("CPU", 1)))
            self.asked = time.monotonic()
        return self.size

    def leave(self) -> None:
        """Forget everything when the last user has gone."""
        self.users -= 1
        if self.users == 0:
            self.stored.clear()
            self.asked = -math.inf


SESSION = Session()


@contextmanager
def ray_running(engine: Engine) -> Iterator[None]:
    """Join the Ray at the address, or start one on this machine, and leave it at the end.

    A Ray that this process has joined already is used, and is left as it is.
    """
    ray = _import_ray()
    is_ours = not ray.is_initialized()
    if is_ours:
        _join(ray, engine)
    SESSION.users += 1
    try:
        yield
    finally:
        SESSION.leave()
        if is_ours:
            ray.shutdown()


def _join(ray: Any, engine: Engine) -> None:
    address = engine.address or os.environ.get("RAY_ADDRESS")
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}  # a progress bar is on the terminal
    if address is None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a Ray of ours tells nobody that it runs
        options |= {"num_cpus": engine.workers, "include_dashboard": False}
    try:
        ray.init(address=address or "local", **options)
    except (ConnectionError, RuntimeError) as error:
        if address is None:
            raise
        raise ValueError(f"address must be that of a running Ray cluster, but it is {address!r}: {error}") from error


def spread_on_ray(calls: Iterable[Any], ordered: bool, receive: Callable[[Any], Any]) -> Iterator[Any]:
    """Yield `receive(result)` of joblib's delayed `calls`, in order or as they finish.

    If this generator is closed or sees an error, such as Ctrl-C, what has finished is received and
    what runs is cancelled.
    """
    ray = _import_ray()
    task, room = _task(), SESSION.room
    packer, caller = Packer(ray), Caller(code_here(), tuple(sys.path))
    places: dict[Any, int] = {}  # of the tasks that are under way, by the reference to their result
    results: dict[int, Any] = {}  # that have arrived and are not yielded yet
    left, following = enumerate(calls), 0
    try:
        while True:
            while len(places) < room(ray) and (submitted := next(left, None)):
                place, (function, arguments, options) = submitted
                values = tuple(map(packer.pack, (function, *arguments, *options.values())))
                places[task.remote((caller, tuple(options), values))] = place
            if not places:
                return
            for done in ray.wait(list(places), num_returns=1)[0]:
                results[places.pop(done)] = receive(_result(ray, done))
            if not ordered:
                yield from results.values()
                results.clear()
            while following in results:
                yield results.pop(following)
                following += 1
    finally:
        _abandon(ray, list(places), receive)


class Caller(NamedTuple):
    """Who makes the calls, as far as workers have to know it."""

    code: str
    path: tuple[str, ...]  # of its modules


def call(packed: tuple[Caller, tuple[str, ...], tuple[Any, ...]]) -> Any:
    """Call a function, in a worker; `packed` is one argument, because every argument costs Ray time.

    Its values are the function, its arguments, and its options, which have names.
    """
    caller, names, values = packed
    if caller.code != code_here():
        raise ValueError(
            f"Workers of the cluster must have the same code as the caller, {caller.code}, but one has {code_here()}; "
            "install the same versions everywhere."
        )
    prepare_worker(caller.path)
    function, *arguments = (value.unpack() if isinstance(value, Small | Large) else value for value in values)
    first = len(arguments) - len(names)
    return function(*arguments[:first], **dict(zip(names, arguments[first:], strict=True)))


@cache
def prepare_worker(path: tuple[str, ...]) -> None:
    """Let this process use one BLAS thread, and find the modules of the caller's own, if they are on this machine."""
    from threadpoolctl import threadpool_limits

    os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))  # loaded later
    threadpool_limits(1)
    sys.path += [folder for folder in path if folder not in sys.path]


@cache
def code_here() -> str:
    """The versions of the code that computes a run, and a digest of it."""
    return ", ".join([*(f"{name} {version}" for name, version in versions().items()), code_digest(*RUN_ROOMS)[:12]])


class Small(NamedTuple):
    """A pickled argument that is sent with every task; what a task does with it, no other task sees."""

    content: bytes

    def unpack(self) -> Any:
        """A fresh copy of the argument."""
        return pickle.loads(self.content)


class Large(NamedTuple):
    """An argument in the object store; Ray does not follow a reference that is inside of something, so a worker does."""

    reference: Any

    def unpack(self) -> Any:
        """The argument, which all tasks of a worker share, as the runs of one process do."""
        return fetch(self.reference)


class Stored(NamedTuple):
    """A pickled argument whose large arrays stay outside: workers read them where they are."""

    content: bytes
    arrays: list[npt.NDArray[np.uint8]]


@lru_cache(maxsize=2)
def fetch(reference: Any) -> Any:
    """The argument with this reference; two are remembered, because worlds come one after the other."""
    stored = _import_ray().get(reference)
    return pickle.loads(stored.content, buffers=stored.arrays)


class Packer:
    """Pickles every argument once, however many tasks have it; a large one goes into the object store."""

    def __init__(self, ray: Any) -> None:
        self.ray = ray
        self.packed: dict[int, tuple[Any, Small | Large]] = {}  # by id, with the argument, so that no other gets this id

    def pack(self, value: Any) -> Any:
        """What is sent in place of this argument."""
        if value is None or isinstance(value, bool | int | float | str | os.PathLike):
            return value
        if id(value) not in self.packed:
            self.packed[id(value)] = SESSION.stored.get(id(value)) or (value, self.pickled(value))
        return self.packed[id(value)][1]

    def pickled(self, value: Any) -> Small | Large:
        """The argument as bytes. Small arrays are among them: a worker may write to its own, as it may locally."""
        arrays: list[npt.NDArray[np.uint8]] = []

        def is_inside(buffer: pickle.PickleBuffer) -> bool:
            array = np.frombuffer(buffer.raw(), dtype=np.uint8)
            if array.nbytes >= LARGE:
                arrays.append(array)
            return array.nbytes < LARGE

        content = self.ray.cloudpickle.dumps(value, protocol=5, buffer_callback=is_inside)
        if not arrays and len(content) < LARGE:
            return Small(content)
        large = Large(self.ray.put(Stored(content, arrays)))
        SESSION.store(value, large)
        return large


@cache
def _task() -> Any:
    """The Ray task of `call`; another one for every sweep would be sent to every worker."""
    return _import_ray().remote(num_cpus=1, max_retries=LOSSES)(call)


def _import_ray() -> Any:
    try:
        import ray
        import ray.cloudpickle
    except ModuleNotFoundError:
        raise ValueError(missing_package("engine ray", "Ray", "ray")) from None
    # Ray's progress bars would replace `print` for good, after which Numba compiles no function that has one.
    os.environ.setdefault("RAY_TQDM_PATCH_PRINT", "0")
    return ray


def _result(ray: Any, reference: Any) -> Any:
    """The result of a task, or the error that it raised, which is the same that it raises locally."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from error


def _abandon(ray: Any, references: list[Any], receive: Callable[[Any], Any]) -> None:
    """Receive what has finished meanwhile, and cancel the rest; compiled code does not stop if asked, so it is killed."""
    if not references or not ray.is_initialized():
        return
    finished, running = ray.wait(references, num_returns=len(references), timeout=0)
    for reference in running:
        ray.cancel(reference, force=True)
    for reference in finished:
        try:
            receive(ray.get(reference))
        except Exception:  # the first error is being raised already
            continue
