"""Two kernels that are needed together are compiled at the same time, the second one by another process.

A first decision and a first update are both a good deal of code. The compiler uses one processor; most machines have two. The
machine code is handed over on disk, in the cache of kernels.
"""

from __future__ import annotations

import atexit
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from .compiler import no_garbage_collection, python_function, types_of, would_compile


def compile_beside(kernel: Any, companion: Callable[..., tuple[Any, ...]]) -> None:
    """When Python calls `kernel` with new types, let a second process compile another one meanwhile.

    `companion` is given the arguments of the call, and returns the other kernel and arguments of the types it will be called
    with. If anything is in the way, nothing happens: the other kernel is compiled when it is called.
    """
    if python_function(kernel) is not kernel:  # they are the same under NUMBA_DISABLE_JIT=1
        kernel.before_compiling = lambda *args: compile_elsewhere(*companion(*args))


def compile_elsewhere(kernel: Any, *args: Any) -> None:
    """Start a process that compiles a kernel into the cache, if it is not there and a processor is idle."""
    source, sig = python_function(kernel), types_of(*args)
    found: Any = getattr(sys.modules.get(source.__module__), source.__qualname__, None)
    if found is not kernel or source.__module__ == "__main__" or not runs_python(sys.executable):
        return
    if sig in kernel.elsewhere or not would_compile(kernel, sig) or not has_idle_processor():
        return
    command = [sys.executable, "-c", f"from {__name__} import compile_from_stdin; compile_from_stdin()"]
    search = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    quiet = subprocess.DEVNULL
    try:
        order = pickle.dumps((source.__module__, source.__qualname__, sig))
        process = subprocess.Popen(command, env=search, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet)
    except (OSError, pickle.PicklingError, AttributeError):  # no memory for it, or a type that it could not import
        return
    assert process.stdin is not None
    with suppress(BrokenPipeError), process.stdin:
        process.stdin.write(order)
    atexit.register(process.kill)
    kernel.elsewhere[sig] = process


def runs_python(program: str | None) -> bool:
    """Whether a program is the interpreter: that of a frozen or embedding application would start the application again."""
    return bool(program) and Path(str(program)).name.lower().startswith("python")


def has_idle_processor() -> bool:
    """Whether fewer processes ran in the last minute than there are processors."""
    return hasattr(os, "getloadavg") and os.getloadavg()[0] < (os.cpu_count() or 1) - 0.5


def compile_from_stdin() -> None:
    """What the second process does."""
    module, qualname, sig = pickle.load(sys.stdin.buffer)
    with no_garbage_collection():
        getattr(import_module(module), qualname).compile(sig)
