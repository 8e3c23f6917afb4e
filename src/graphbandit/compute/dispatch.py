"""One name for several kernels: which one runs is decided by the type of the first argument, a NamedTuple.

From Python the choice is a look-up at each call. In compiled code it is made once, when a caller is compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any

from numba.extending import overload

from .states import by_pointer


class Generic:
    """A kernel with an implementation for each registered type."""

    __name__: str

    def __init__(self, signature: Callable[..., Any]) -> None:
        update_wrapper(self, signature)
        self._implementations: dict[type, Callable[..., Any]] = {}
        overload(self, strict=False)(self._call)  # strict would compare the names of parameters

    def __call__(self, first: Any, *rest: Any) -> Any:
        return self._implementations[type(first)](first, *rest)

    def register(self, kind: type, kernel: Callable[..., Any]) -> None:
        """Say which compiled function runs when the first argument is of this type."""
        self._implementations[kind] = kernel
        by_pointer(kind)

    def _call(self, first: Any, *rest: Any) -> Any:
        """Return the source of a call for a compiled caller: of the kernel as it was compiled, once for all callers."""
        kernel: Any = self._implementations[first.instance_class]
        if (
            not hasattr(kernel, "py_func") or kernel.is_compiling
        ):  # a wrapper in a wrapper: code that calls itself is not cached
            return getattr(kernel, "py_func", kernel)

        def call(first: Any, *rest: Any) -> Any:
            return kernel(first, *rest)

        # Machine code is linked by name and types of arguments. Names must differ, or cached code could call another kernel.
        call.__qualname__ = f"{self.__name__} by {kernel.__module__}.{kernel.py_func.__qualname__}"
        return call


def generic(signature: Callable[..., Any]) -> Generic:
    """Decorate a function of which only name, parameters and docstring count: its body is chosen by type."""
    return Generic(signature)
