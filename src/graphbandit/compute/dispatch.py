"""One name for several kernels: which one runs is decided by the type of the first argument, a NamedTuple.

From Python the choice is a look-up at each call. In compiled code it is made once, when a caller is compiled, so that a loop
that calls a generic kernel is specialised to one type and costs nothing for the choice.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any

from .compiler import specialise
from .states import by_pointer


class Generic:
    """A kernel with an implementation for each registered type."""

    __name__: str

    def __init__(self, signature: Callable[..., Any]) -> None:
        update_wrapper(self, signature)
        self._implementations: dict[type, Callable[..., Any]] = {}
        specialise(self, self.implementation)

    def __call__(self, first: Any, *rest: Any) -> Any:
        return self.implementation(type(first))(first, *rest)

    def register(self, kind: type, kernel: Callable[..., Any]) -> None:
        """Say which compiled function runs when the first argument is of this type."""
        self._implementations[kind] = kernel
        by_pointer(kind)

    def implementation(self, kind: type) -> Callable[..., Any]:
        """The compiled function for this type."""
        return self._implementations[kind]


def generic(signature: Callable[..., Any]) -> Generic:
    """Decorate a function of which only name, parameters and docstring count: its body is chosen by type."""
    return Generic(signature)
