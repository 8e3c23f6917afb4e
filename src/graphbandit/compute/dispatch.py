"""One name for several kernels: which one runs is decided by the type of the first argument, a NamedTuple.

From Python the choice is a look-up at each call. In compiled code it is made once, when a caller is compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any

from .compiler import callable_from_kernels
from .states import by_pointer


class Generic:
    """A kernel with an implementation for each registered type."""

    __name__: str

    def __init__(self, signature: Callable[..., Any]) -> None:
        update_wrapper(self, signature)
        self._implementations: dict[type, Any] = {}
        callable_from_kernels(self)

    def __call__(self, first: Any, *rest: Any) -> Any:
        """Call the kernel of the type of `first` from Python."""
        return self._implementations[type(first)](first, *rest)

    def register(self, kind: type, kernel: Callable[..., Any]) -> None:
        """Say which compiled function runs when the first argument is of this type."""
        self._implementations[kind] = kernel
        by_pointer(kind)

    def chosen(self, args: Any) -> Any:
        """Return the kernel that runs for arguments of these types."""
        return self._implementations[args[0].instance_class]


generic = Generic
"""Decorates a function of which only name, parameters and docstring count: its body is chosen by type."""
