"""`compiled` turns a Python function into machine code: `numba.njit` with the flags of the package and a cache on disk.

`docs/explanation/compiler.md` explains how a kernel is compiled, cached and made stale.
"""

from __future__ import annotations

import logging
import multiprocessing
import platform
from collections.abc import Callable
from functools import cache as once
from typing import Any, TypeVar

import numba
import numpy
from numba.core.event import Listener, register

from .kernel_cache import keep_on_disk

F = TypeVar("F", bound=Callable[..., Any])

# No fast-math: it would let the compiler drop the NaN checks that guard every update. Division by zero follows NumPy.
FLAGS = {"error_model": "numpy", "no_cfunc_wrapper": True}
COMPILING = "graphbandit: compiling, once; this usually takes 5 to 20 seconds a policy."


def compiled(function: F, *, cache: bool = True, nogil: bool = False) -> F:
    """Compile `function` when it is first called with arguments of new types.

    With `cache`, keep the machine code on disk for the next process. With `nogil`, a call from Python releases the
    interpreter lock: for calls of milliseconds, whose arrays no other thread touches.
    """
    dispatcher = numba.njit(nogil=nogil, **FLAGS)(function)
    if cache and dispatcher is not function:  # they are the same under NUMBA_DISABLE_JIT=1
        keep_on_disk(dispatcher, function)
    return dispatcher  # type: ignore[no-any-return]


class FirstCompilation(Listener):  # type: ignore[misc]
    """Announces the first compilation, so that a slow first call explains itself. Numba calls it only if it compiles."""

    def on_start(self, event: Any) -> None:
        """Announce the compilation, unless the function is one of another package."""
        if event.data["dispatcher"].py_func.__module__.startswith("graphbandit."):
            announce_compilation()

    def on_end(self, event: Any) -> None:
        """Do nothing; Numba calls it."""


@once
def announce_compilation() -> None:
    """Log `COMPILING`, once in a process; among the workers of a pool only the first one does."""
    if multiprocessing.current_process().name.endswith(("MainProcess", "-1")):
        logging.getLogger("graphbandit.compute").warning(COMPILING)


register("numba:compile", FirstCompilation())


def arithmetic() -> str:
    """Return what the last bits of a result depend on, apart from the sources: the compiler and its version.

    >>> arithmetic().split()[0] in ("compiled", "plain")
    True
    """
    how = "plain" if numba.config.DISABLE_JIT else "compiled"
    return f"{how} numba {numba.__version__} numpy {numpy.__version__} {platform.machine()}"
