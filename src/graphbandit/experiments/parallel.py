"""Work spread over processes such that its numbers do not depend on how many there are."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Iterator
from typing import Any


def spread(calls: Iterable[Any], workers: int, *, ordered: bool) -> Iterator[Any]:
    """The results of joblib's delayed `calls`, as they finish or in order.

    Every process, this one included, gets one BLAS thread: with more, sums are taken in another order.
    """
    from joblib import Parallel, parallel_config  # slow to import, and not needed for a single simulation
    from threadpoolctl import threadpool_limits

    form, parent = "generator" if ordered else "generator_unordered", os.getpid()
    tasks = ((deaf, (parent, function, *arguments), options) for function, arguments, options in calls)
    with threadpool_limits(1), parallel_config(backend="loky", inner_max_num_threads=1):
        yield from Parallel(n_jobs=workers, return_as=form)(tasks)


def deaf(parent: int, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Call it; a worker does not hear Ctrl-C, which a terminal sends to everybody: its parent ends it."""
    if os.getpid() != parent:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    return function(*arguments, **options)
