"""`compiled` turns a Python function into machine code: `numba.njit` with the flags of the package and a cache on disk.

`docs/explanation/compiler.md` explains how a kernel is compiled, cached and made stale.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from functools import cached_property, update_wrapper
from inspect import signature
from typing import Any, TypeVar

import numba
import numpy
from numba import types
from numba.core.typing.templates import AbstractTemplate, infer_global
from numba.core.typing.templates import signature as typed
from numba.extending import lower_builtin

from .kernel_cache import is_called_by_name, keep_on_disk

F = TypeVar("F", bound=Callable[..., Any])

# No fast-math: it would let the compiler drop the NaN checks that guard every update. Division by zero follows NumPy.
FLAGS: dict[str, Any] = {"error_model": "numpy", "no_cfunc_wrapper": True}


def compiled(function: F, *, nogil: bool = False) -> F:
    """Compile `function` when it is first called with arguments of new types, and keep the machine code on disk.

    With `nogil`, a call from Python releases the interpreter lock: for calls of milliseconds, whose arrays no other thread
    touches.
    """
    return function if numba.config.DISABLE_JIT else Kernel(function, nogil)  # type: ignore[return-value]


class Kernel:
    """A compiled function: `inner` for compiled callers, `entry` for Python.

    What converts Python objects would be most of many kernels, and most are never called from Python.
    """

    __module__: str
    __qualname__: str

    def __init__(self, function: Callable[..., Any], nogil: bool = False) -> None:
        update_wrapper(self, function)
        self.py_func, self.nogil = function, nogil
        callable_from_kernels(self)

    def __call__(self, *args: Any) -> Any:
        """Call the kernel from Python."""
        return self.entry(*args)

    def __reduce__(self) -> Any:
        return Kernel, (self.py_func, self.nogil)

    def chosen(self, args: Any) -> Kernel:
        """Return the kernel that runs for arguments of these types."""
        return self

    def compile(self, args: Any) -> Any:
        """Compile or load the machine code for arguments of these types."""
        self.inner.compile(args)
        return self.inner.overloads[args]

    @cached_property
    def inner(self) -> Any:
        """The dispatcher for compiled callers."""
        return keep_on_disk(numba.njit(**FLAGS, no_cpython_wrapper=True)(self.py_func))

    @cached_property
    def entry(self) -> Any:
        """A function that only calls the kernel, compiled with the conversion of its arguments."""
        parameters = ", ".join(signature(self.py_func).parameters)
        scope: dict[str, Any] = {"kernel": self, "__name__": self.__module__}
        source = f"def entry({parameters}):\n    return kernel({parameters})\n"
        exec(compile(source, self.py_func.__code__.co_filename, "exec"), scope)
        scope["entry"].__qualname__ = f"{self.__qualname__}_entry"  # names its file
        return keep_on_disk(numba.njit(**FLAGS, nogil=self.nogil)(scope["entry"]))


def callable_from_kernels(callee: Any) -> None:
    """Let compiled code call an object that has `chosen`: a small kernel is copied into the caller, a large one called by name.

    By default Numba copies every kernel. The copy is optimised again, in each caller and in theirs.
    """

    class Call(AbstractTemplate):  # type: ignore[misc]
        """The types of a call."""

        key = callee

        def generic(self, args: Any, kws: Any) -> Any:
            """Return the types of result and arguments."""
            args = tuple(map(types.unliteral, args))
            return typed(callee.chosen(args).compile(args).signature.return_type, *args)

    def call(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kernel = callee.chosen(sig.args)
        result = kernel.compile(sig.args)
        if not is_called_by_name(result, kernel.__module__, kernel.__qualname__):
            context.add_linking_libs([result.library])
        return context.call_internal(builder, result.fndesc, result.signature, args)

    infer_global(callee, types.Function(Call))
    lower_builtin(callee, types.VarArg(types.Any))(call)


def arithmetic() -> str:
    """Return what the last bits of a result depend on, apart from the sources: the compiler and its version.

    >>> arithmetic().split()[0] in ("compiled", "plain")
    True
    """
    how = "plain" if numba.config.DISABLE_JIT else "compiled"
    return f"{how} numba {numba.__version__} numpy {numpy.__version__} {platform.machine()}"
