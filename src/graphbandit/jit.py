"""The one place where compiler flags are set: every kernel of the package is decorated with `compiled`."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np
import numpy.typing as npt
from numba.core.caching import FunctionCache
from numba.extending import overload

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Indices = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]

F = TypeVar("F", bound=Callable[..., Any])

# No fast-math: it would let the compiler drop the NaN checks that guard every update. Division by zero follows NumPy.
FLAGS = {"error_model": "numpy"}


@cache
def package_stamp() -> str:
    """A digest of every source file of the package."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


class PackageCache(FunctionCache):  # type: ignore[misc]
    """Numba's on-disk cache, made stale by a change to *any* module of the package.

    Numba looks only at the file that defines a function, but a compiled loop contains the code of the kernels that it
    calls. Without this, an edit to `linalg.py` would leave every cached policy running the old arithmetic.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._cache_file._source_stamp = (self._cache_file._source_stamp, package_stamp())


def compiled(function: F) -> F:
    """Compile `function` with the package's flags and keep the machine code on disk for the next process."""
    dispatcher: Any = numba.njit(**FLAGS)(function)
    if dispatcher is not function:  # it is `function` itself under NUMBA_DISABLE_JIT=1
        dispatcher._cache = PackageCache(function)
        dispatcher._compile_for_args = partial(_compile_or_interpret, dispatcher, dispatcher._compile_for_args)
    return dispatcher  # type: ignore[no-any-return]


COMPILER = "graphbandit-compiler"
_compiler: threading.Thread | None = None  # the only thread that may compile; None: all may


def _compile_or_interpret(dispatcher: Any, compile_for_args: Callable[..., Any], *args: Any) -> Any:
    """What Numba is to call with arguments for whose types it has no machine code in memory."""
    if _compiler is None or _compiler is threading.current_thread():
        return compile_for_args(*args)
    return dispatcher.py_func


@contextmanager
def compiling_aside(work: Callable[[], object]) -> Iterator[threading.Thread]:
    """Inside, nobody waits for the compiler: `work`, in a thread of its own, calls what is to be compiled.

    All other threads run the Python source of what is not compiled yet, up to a thousand times slower, and its machine code as
    soon as there is some; the last bit of a result may differ between the two. What `work` does not call stays Python.
    """
    global _compiler
    _compiler = threading.Thread(target=work, name=COMPILER, daemon=True)
    _compiler.start()
    try:
        yield _compiler
    finally:
        _compiler = None


def is_compiling() -> bool:
    """Whether a thread called COMPILER, of `compiling_aside` or of a service, is at work."""
    return any(thread.name == COMPILER for thread in threading.enumerate())


def compiles(function: Callable[..., Any]) -> Callable[[F], F]:
    """Decorate a function from argument types to the Python function that compiled code runs in place of `function`."""
    return overload(function, strict=False)  # type: ignore[no-any-return]  # strict would compare annotations too


def python_function(function: F) -> F:
    """The Python function behind a compiled one: what an overload returns, to be compiled into its caller."""
    return getattr(function, "py_func", function)
