"""Calls spread over processes; their results do not depend on the number of processes."""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any


def spread(calls: Iterable[Any], workers: int, *, ordered: bool) -> Iterator[Any]:
    """Yield the results of joblib's delayed `calls`, in order or as they finish.

    Every process, this one included, uses one BLAS thread: more would change the order of sums.
    """
    from joblib import Parallel, parallel_config  # slow to import, and not needed for a single simulation
    from threadpoolctl import threadpool_limits

    # A worker that has compiled has grown, and is replaced by a fresh one after its task. Nothing is lost, so nothing is said.
    warnings.filterwarnings("ignore", message="A worker stopped while some jobs", category=UserWarning)
    form, parent = "generator" if ordered else "generator_unordered", os.getpid()
    tasks = ((ignore_interrupts, (parent, function, *arguments), options) for function, arguments, options in calls)
    with threadpool_limits(1), parallel_config(backend="loky", inner_max_num_threads=1):
        yield from Parallel(n_jobs=workers, return_as=form)(tasks)


def ignore_interrupts(parent: int, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Call `function`; workers ignore SIGINT, because the parent, which also gets it, ends them."""
    if os.getpid() != parent:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    return function(*arguments, **options)
