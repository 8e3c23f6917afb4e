"""Calls spread over processes, of this machine or of a Ray cluster; the results are the same wherever they run."""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

from ..validate import check, one_of

ENGINES = ("local", "ray")


class Engine(NamedTuple):
    """The place where calls run: `workers` processes of this machine, or the Ray cluster at `address`."""

    name: str = "local"
    address: str | None = None
    workers: int = 1


class ParallelOptions(TypedDict):
    """The arguments of `compare` and `tune` that say where the runs are made."""

    workers: int
    engine: str
    address: str | None


def check_engine(name: str, address: str | None) -> None:
    """Raise a ValueError for an unknown engine, or for an address without Ray."""
    check("engine", name, one_of(ENGINES))
    if address is not None and name != "ray":
        raise ValueError(f"address is the address of a Ray cluster, {address!r} here, so it needs the engine ray.")


@dataclass(frozen=True)
class StudySettings:
    """The engine that makes the runs of a study, and the folder of its data sets."""

    workers: int = 1
    data: Path | None = None
    engine: str = "local"
    address: str | None = None

    def __post_init__(self) -> None:
        check_engine(self.engine, self.address)
        if self.data is not None and not self.data.exists():
            raise ValueError(f"data must be a folder with the archives of data sets, but {self.data} does not exist.")

    @property
    def spreading(self) -> ParallelOptions:
        """Return where the runs are made, as arguments of `compare` and `tune`."""
        return {"workers": self.workers, "engine": self.engine, "address": self.address}

    def over_calls(self, calls: Iterable[Any], *, ordered: bool = True) -> list[Any]:
        """Return the results of joblib's delayed `calls`, made in parallel."""
        return list(spread(calls, Engine(self.engine, self.address, self.workers), ordered=ordered))


@contextmanager
def engine_running(engine: Engine) -> Iterator[None]:
    """Keep the engine running inside, so that many calls of `spread` need not start it each time."""
    check_engine(engine.name, engine.address)
    if engine.name == "local":
        yield
        return
    from .ray_engine import ray_running

    with ray_running(engine):
        yield


def spread(
    calls: Iterable[Any], engine: Engine, *, ordered: bool, receive: Callable[[Any], Any] = lambda result: result
) -> Iterator[Any]:
    """Yield `receive(result)` of joblib's delayed `calls`, in order or as they finish.

    `receive` is called here, as soon as a result has arrived. Every process, this one included,
    uses one BLAS thread: more would change the order of sums.
    """
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1), engine_running(engine):
        if engine.name == "local":
            yield from _spread_here(calls, engine.workers, ordered, receive)
        else:
            from .ray_engine import spread_on_ray

            yield from spread_on_ray(calls, ordered, receive)


def _spread_here(calls: Iterable[Any], workers: int, ordered: bool, receive: Callable[[Any], Any]) -> Iterator[Any]:
    from joblib import Parallel, parallel_config  # slow to import, and not needed for a single simulation

    # joblib replaces a worker that has grown by compilation, and warns; no result is lost, so the warning is hidden.
    warnings.filterwarnings("ignore", message="A worker stopped while some jobs", category=UserWarning)
    form, parent = "generator" if ordered else "generator_unordered", os.getpid()
    tasks = ((ignore_interrupts, (parent, function, *arguments), options) for function, arguments, options in calls)
    with parallel_config(backend="loky", inner_max_num_threads=1):
        results = Parallel(n_jobs=workers, return_as=form)(tasks)
        try:
            for result in results:
                yield receive(result)
        except BaseException as error:
            # joblib kills its workers only if its generator sees the error: a Ctrl-C where a result is used, say.
            results.throw(error)


def ignore_interrupts(parent: int, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Call `function`; workers ignore SIGINT, because the parent, which also gets it, ends them."""
    if os.getpid() != parent:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    return function(*arguments, **options)
