"""The compiler in its box: `compiled` turns a Python function into machine code. No other module touches Numba.

`docs/compiler.md` explains how a kernel is compiled, cached on disk and made stale.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import llvmlite.binding
import numba
from numba.core.caching import FunctionCache
from numba.core.imputils import user_function
from numba.extending import overload

from .staleness import KERNEL_ROOMS, source_digest

F = TypeVar("F", bound=Callable[..., Any])

# No fast-math: it would let the compiler drop the NaN checks that guard every update. Division by zero follows NumPy.
FLAGS = {"error_model": "numpy"}


class KernelCache(FunctionCache):  # type: ignore[misc]
    """Numba's on-disk cache, made stale by a change of any module whose code a kernel may contain.

    Numba itself looks at the file that defines a function, but a compiled loop contains the code of the kernels that it calls.
    Without this, an edit of `linalg.py` would leave every cached policy running the old arithmetic. The stamp is made of the
    contents of files, not of their times: a checkout that changes nothing recompiles nothing.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        own = hashlib.sha256(Path(function.__code__.co_filename).read_bytes()).hexdigest()
        index = self._cache_file
        # As part of the version, the stamp is compared before the rest of an index is unpickled: that may name types
        # which have moved since. The time of the file, Numba's own stamp, no longer counts.
        index._version, index._source_stamp = (index._version, own, source_digest(*KERNEL_ROOMS)), None

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Load machine code after all that it calls by name; None if some of that has been compiled again since."""
        try:
            result = super().load_overload(sig, target_context)
        except CalleeChanged:
            return None
        if result is not None:  # callers that are linked with this code call the same by name
            result.library._reload_init.update(result.reload_init)
        return result


class CalleeChanged(Exception):
    """Machine code on disk calls, by name, a kernel that is no longer the same."""


def compiled(function: F, *, cache: bool = True) -> F:
    """Compile `function` with the package's flags and, with `cache`, keep the machine code on disk for the next process."""
    dispatcher: Any = numba.njit(**FLAGS)(function)
    if dispatcher is function:  # under NUMBA_DISABLE_JIT=1
        return function
    if cache:
        dispatcher._cache = KernelCache(function)
    dispatcher._compile_for_args = partial(_compile_or_interpret, dispatcher, dispatcher._compile_for_args)
    return dispatcher  # type: ignore[no-any-return]


def compiled_apart(function: F) -> F:
    """`compiled`, for a kernel that its callers call by name, so that they are compiled without its code."""
    kernel = compiled(function)
    call_by_name(kernel)
    return kernel


def call_by_name(kernel: Callable[..., Any]) -> None:
    """From now on let compiled callers call this kernel as machine code of its own.

    By default a caller contains a copy of all that it calls, and of what that calls, which the compiler then optimises again:
    small kernels become faster so, but large ones only take long.
    """
    dispatcher: Any = kernel
    if python_function(kernel) is kernel or hasattr(dispatcher, "_compile_with_callers"):
        return
    dispatcher._compile_with_callers = dispatcher.compile
    dispatcher.compile = partial(_compile_apart, dispatcher)


def _compile_apart(dispatcher: Any, sig: Any) -> Any:
    """Compile or load a kernel, and let callers declare it in place of being linked with its code."""
    entry = dispatcher._compile_with_callers(sig)
    calls = dispatcher.targetctx._defns[entry]
    if not isinstance(calls.versions[0][1].libs[0], Declared):
        result = next(result for result in dispatcher.overloads.values() if result.entry_point is entry)
        call = user_function(result.fndesc, [Declared(dispatcher.py_func, result)])
        calls.versions[:] = [(call.signature, call)]
        calls._cache.clear()
    return entry


class Declared:
    """Linked with a caller in place of a kernel's code: no code, but what must be in memory before the caller is loaded."""

    def __init__(self, source: Callable[..., Any], result: Any) -> None:
        self.code = result.library  # callers jump into it
        name = result.fndesc.mangled_name
        self._reload_init = {partial(load_by_name, source.__module__, source.__qualname__, tuple(result.signature.args), name)}

    def _ensure_finalized(self) -> None:
        """The code is ready."""

    def _get_module_for_linking(self) -> Any:
        return llvmlite.binding.parse_assembly("")


def load_by_name(module: str, qualname: str, args: Any, name: str) -> None:
    """Make sure that the machine code of this name is in memory; called before code that calls it is loaded from disk."""
    kernel: Any = getattr(import_module(module), qualname, None)
    if not hasattr(kernel, "overloads"):
        raise CalleeChanged(f"{module}.{qualname} is not a compiled function.")
    kernel.compile(args)
    if kernel.overloads[args].fndesc.mangled_name != name:
        raise CalleeChanged(f"{module}.{qualname} has been compiled again since its caller was.")


def python_function(function: F) -> F:
    """The Python function behind a compiled one."""
    return getattr(function, "py_func", function)


def specialise(function: Callable[..., Any], choose: Callable[[type], Callable[..., Any]]) -> None:
    """Let compiled code that calls `function` call `choose(type of the first argument)` in its place.

    The kernel is called as it was compiled, not handed over as source: each caller would compile it again.
    """

    def implementation(first: Any, *rest: Any) -> Any:
        kernel = choose(first.instance_class)
        if python_function(kernel) is kernel:  # not compiled on its own: a few lines that call another kernel
            return kernel
        if getattr(kernel, "is_compiling", False):  # a wrapper in a wrapper: code that calls itself cannot be cached
            return python_function(kernel)

        def call(first: Any, *rest: Any) -> Any:
            return kernel(first, *rest)

        # Machine code is linked by name and types of arguments. Names must differ, or cached code could call another kernel.
        source = python_function(kernel)
        call.__qualname__ = f"{function.__name__} by {source.__module__}.{source.__qualname__}"
        return call

    # Strict would compare the names of parameters. The stub is inlined: states have hundreds of fields to pass on.
    overload(function, strict=False, jit_options={"forceinline": True})(implementation)


COMPILER = "graphbandit-compiler"
_compiler: threading.Thread | None = None  # the only thread that may compile; None: all may


def _compile_or_interpret(dispatcher: Any, compile_for_args: Callable[..., Any], *args: Any) -> Any:
    """Called by Numba with arguments for whose types it has no machine code in memory."""
    if _compiler is None or _compiler is threading.current_thread():
        return compile_for_args(*args)
    return dispatcher.py_func


@contextmanager
def compiling_aside(work: Callable[[], object]) -> Iterator[threading.Thread]:
    """Other threads run pure Python while `work` compiles in the background.

    `work` runs in a thread of its own and calls what is to be compiled. Every other thread runs the Python source of a kernel,
    up to a thousand times slower, until its machine code is there; the last bit of a result may differ between the two. What
    `work` does not call stays Python.
    """
    global _compiler
    _compiler = threading.Thread(target=work, name=COMPILER, daemon=True)
    _compiler.start()
    try:
        yield _compiler
    finally:
        _compiler = None


def is_compiling() -> bool:
    """Whether a background thread, of `compiling_aside` or of a service, compiles now."""
    return any(thread.name == COMPILER for thread in threading.enumerate())
