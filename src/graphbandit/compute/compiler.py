"""`compiled` turns a Python function into machine code: `numba.njit` with the flags of the package and a cache on disk.

`docs/explanation/compiler.md` explains how a kernel is compiled, cached and made stale.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from functools import partial
from importlib import import_module
from inspect import signature
from typing import Any, TypeVar

import llvmlite.binding
import numba
import numpy
from numba.core.imputils import user_function

from .kernel_cache import PACKAGE, KernelCache

F = TypeVar("F", bound=Callable[..., Any])

# No fast-math: it would let the compiler drop the NaN checks that guard every update. Division by zero follows NumPy.
FLAGS: dict[str, Any] = {"error_model": "numpy", "no_cfunc_wrapper": True}
LARGE = 8000
"""Bytes of intermediate code from which on callers call a kernel by name."""


def compiled(function: F, *, cache: bool = True, nogil: bool = False) -> F:
    """Compile `function` when it is first called with arguments of new types.

    With `cache`, keep the machine code on disk for the next process. With `nogil`, a call from Python releases the
    interpreter lock: for calls of milliseconds, whose arrays no other thread touches.
    """
    dispatcher: Any = numba.njit(**FLAGS, no_cpython_wrapper=True)(function)
    if dispatcher is function:  # under NUMBA_DISABLE_JIT=1
        return function
    if cache:
        dispatcher._cache = KernelCache(function)
        if function.__module__.startswith(f"{PACKAGE}."):
            dispatcher.compile = partial(compile_for_callers, dispatcher, dispatcher.compile)
    dispatcher.add_overload = partial(add_for_callers, dispatcher)
    dispatcher._compile_for_args = partial(compile_for_python, dispatcher, nogil)
    return dispatcher  # type: ignore[no-any-return]


def add_for_callers(dispatcher: Any, result: Any) -> None:
    """Keep machine code for compiled callers only: what converts Python objects would be most of many kernels."""
    dispatcher.overloads[tuple(result.signature.args)] = result


def compile_for_python(dispatcher: Any, nogil: bool, *args: Any) -> Any:
    """Compile or load a function that calls the kernel with converted Python objects, at the first call from Python."""
    if not hasattr(dispatcher, "entry"):
        kernel, parameters = dispatcher.py_func, ", ".join(signature(dispatcher.py_func).parameters)
        scope: dict[str, Any] = {"kernel": dispatcher, "__name__": kernel.__module__}
        source = f"def entry({parameters}):\n    return kernel({parameters})\n"
        exec(compile(source, kernel.__code__.co_filename, "exec"), scope)
        scope["entry"].__qualname__ = f"{kernel.__qualname__}_entry"  # names its file
        dispatcher.entry = numba.njit(**FLAGS, nogil=nogil)(scope["entry"])
        if isinstance(dispatcher._cache, KernelCache):
            dispatcher.entry._cache = KernelCache(scope["entry"])
    machine_code = dispatcher.entry._compile_for_args(*args)
    result = next(result for result in dispatcher.entry.overloads.values() if result.entry_point is machine_code)
    dispatcher._insert([kind._code for kind in result.signature.args], machine_code, False)
    return machine_code


def compile_for_callers(dispatcher: Any, compile_or_load: Callable[..., Any], sig: Any) -> Any:
    """Compile or load a kernel; if it is large, let callers call it by name.

    By default a caller contains a copy of all that it calls, which is optimised again: in each caller, and in theirs.
    """
    entry = compile_or_load(sig)
    calls = dispatcher.targetctx._defns[entry]
    result = next(result for result in dispatcher.overloads.values() if result.entry_point is entry)
    if not isinstance(calls.versions[0][1].libs[0], ByName) and len(llvm_module(result.library).as_bitcode()) > LARGE:
        call = user_function(result.fndesc, [ByName(dispatcher.py_func, result)])
        calls.versions[:] = [(call.signature, call)]
        calls._cache.clear()
    return entry


def llvm_module(library: Any) -> Any:
    """Return the intermediate code that callers are linked with."""
    return library._get_module_for_linking()


class ByName:
    """Linked with a caller in place of a kernel's code: no code, but what must be in memory before the caller is loaded."""

    def __init__(self, source: Any, result: Any) -> None:
        self.code, name = result.library, result.fndesc.mangled_name
        self._reload_init = {partial(load_as, name, source.__module__, source.__qualname__, tuple(result.signature.args))}

    def _ensure_finalized(self) -> None:
        """Do nothing: the code is ready."""

    def _get_module_for_linking(self) -> Any:
        return llvmlite.binding.parse_assembly("")


def load_as(name: str, module: str, qualname: str, args: Any) -> None:
    """Load a kernel, and let code from disk call it by the name that it had in the process that compiled that code."""
    kernel: Any = getattr(import_module(module), qualname)
    kernel.compile(args)
    result = kernel.overloads[args]
    if result.fndesc.mangled_name != name:
        llvmlite.binding.add_symbol(name, result.library.get_pointer_to_function(result.fndesc.llvm_func_name))


def arithmetic() -> str:
    """Return what the last bits of a result depend on, apart from the sources: the compiler and its version.

    >>> arithmetic().split()[0] in ("compiled", "plain")
    True
    """
    how = "plain" if numba.config.DISABLE_JIT else "compiled"
    return f"{how} numba {numba.__version__} numpy {numpy.__version__} {platform.machine()}"
