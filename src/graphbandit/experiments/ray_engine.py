"""Calls spread over the workers of a Ray cluster.

Ray is imported only in this module, and only when it is used.

A run is a Ray task of one processor. A task whose worker or machine is lost is repeated by Ray.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from ..compute.staleness import code_digest
from ..validate import missing_package
from .kept_runs import RUN_PACKAGES, versions
from .parallel import Engine

IN_FLIGHT = 2
"""Tasks under way for each processor: one that runs and one that is queued."""
LOSSES = 10
"""Most repetitions of a run whose worker was lost: the run itself may kill its worker."""


@contextmanager
def ray_running(engine: Engine) -> Iterator[None]:
    """Join the Ray at the address, or start one on this machine, and leave it at the end.

    A Ray that this process has joined already is used, and is left as it is.
    """
    ray = _import_ray()
    is_ours = not ray.is_initialized()
    if is_ours:
        _join(ray, engine)
    try:
        yield
    finally:
        if is_ours:
            ray.shutdown()


def _join(ray: Any, engine: Engine) -> None:
    address = engine.address or os.environ.get("RAY_ADDRESS")
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}  # a progress bar is on the terminal
    if address is None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no usage statistics are sent
        options |= {"num_cpus": engine.workers, "include_dashboard": False}
    try:
        ray.init(address=address or "local", **options)
    except (ConnectionError, RuntimeError) as error:
        if address is None:
            raise
        raise ValueError(f"address must be that of a running Ray cluster, but it is {address!r}: {error}") from error


def spread_on_ray(calls: Iterable[Any], ordered: bool, receive: Callable[[Any], Any]) -> Iterator[Any]:
    """Yield `receive(result)` of joblib's delayed `calls`, in order or as they finish.

    If this generator is closed or sees an error, such as Ctrl-C, what runs is cancelled.
    """
    ray, code = _import_ray(), code_here()
    places: dict[Any, int] = {}  # of the tasks that are under way, by the reference to their result
    results: dict[int, Any] = {}  # that have arrived and are not yielded yet
    left, following = enumerate(calls), 0
    try:
        while True:
            room = IN_FLIGHT * max(1, int(ray.cluster_resources().get("CPU", 1)))  # a cluster may grow and shrink
            while len(places) < room and (submitted := next(left, None)):
                place, made = submitted
                places[_task().remote(code, sys.path, ray.cloudpickle.dumps(tuple(made)))] = place
            if not places:
                return
            for done in ray.wait(list(places), num_returns=1)[0]:
                place = places.pop(done)
                try:
                    results[place] = receive(ray.get(done))
                except ray.exceptions.RayTaskError as error:
                    raise error.cause from error  # the same as locally
            if not ordered:
                yield from results.values()
                results.clear()
            while following in results:
                yield results.pop(following)
                following += 1
    finally:
        for reference in places if ray.is_initialized() else ():
            ray.cancel(reference, force=True)  # compiled code does not react to a request


@cache
def _task() -> Any:
    """Return the Ray task of `call`, which is sent to every worker once."""
    return _import_ray().remote(num_cpus=1, max_retries=LOSSES)(call)


def call(code: str, path: list[str], content: bytes) -> Any:
    """Make a pickled call in a worker. It is pickled here, not by Ray, whose arrays are read-only."""
    from threadpoolctl import threadpool_limits

    if code != code_here():
        raise ValueError(
            f"Workers of the cluster must have the same code as the caller, {code}, but one has {code_here()}; "
            "install the same versions everywhere."
        )
    sys.path.extend(folder for folder in path if folder not in sys.path)  # of the caller's own modules, if they are here
    function, arguments, options = pickle.loads(content)
    with threadpool_limits(1):
        return function(*arguments, **options)


@cache
def code_here() -> str:
    """Return the versions of the code that computes a run, and a digest of it."""
    return ", ".join([*(f"{name} {version}" for name, version in versions().items()), code_digest(*RUN_PACKAGES)[:12]])


def _import_ray() -> Any:
    try:
        import ray
        import ray.cloudpickle
    except ModuleNotFoundError:
        raise ValueError(missing_package("engine ray", "Ray", "ray")) from None
    # Ray's progress bars replace `print` permanently, and Numba cannot compile functions with the replacement.
    os.environ.setdefault("RAY_TQDM_PATCH_PRINT", "0")
    return ray
