"""Machine code on disk: Numba's cache with a stamp of our own. The only module that uses private names of Numba."""

from __future__ import annotations

import logging
import multiprocessing
import re
from contextlib import suppress
from functools import cache as once
from functools import partial
from importlib import import_module
from typing import Any

import llvmlite.binding
from numba.core.caching import FunctionCache

from .staleness import KERNEL_ROOMS, code_digest, file_digest

PACKAGE = __name__.partition(".")[0]
COMPILING = "graphbandit: compiling, once; this usually takes 5 to 20 seconds a policy."
DECLARED = re.compile(r'^declare .*@"?([^"( ]+)', re.MULTILINE)
LARGE = 15_000
"""Characters of optimised intermediate code from which on compiled callers call a kernel by name."""
_sizes: dict[str, int] = {}
"""Size of kernels, by the name of their code."""
_by_name: dict[str, Any] = {}
"""Kernels that compiled code calls by name: the further arguments of `load_as`."""


def keep_on_disk(dispatcher: Any) -> Any:
    """Return a dispatcher whose machine code is kept for the next process, if its source is a file."""
    with suppress(RuntimeError):
        dispatcher._cache = KernelCache(dispatcher.py_func)
    return dispatcher


class KernelCache(FunctionCache):  # type: ignore[misc]
    """Numba's cache for one kernel, with a stamp of our own.

    A kernel contains the code of the kernels that it calls, so it is stale when any code of the package's kernels changes.
    Numba looks only at the file that defines it. An index that cannot be read or written is a miss.
    """

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self.is_ours, index = function.__module__.startswith(f"{PACKAGE}."), self._cache_file
        # The version is compared before the rest of the index is unpickled, which may name types that no longer exist.
        stamp = file_digest(function.__code__.co_filename), code_digest(*KERNEL_ROOMS)
        index._version, index._source_stamp = (index._version, *stamp), None

    def load_overload(self, sig: Any, target: Any) -> Any:
        """Return the machine code for these types, or None."""
        result = None
        try:
            result = super().load_overload(sig, target) if self.may_name(sig) else None
        except Exception:  # the index cannot be read
            with suppress(Exception):
                self.flush()
        if result is not None and result.signature.args == tuple(sig):  # two processes may have written one file
            return result
        if self.is_ours:
            announce_compilation()
        return None

    def save_overload(self, sig: Any, result: Any) -> None:
        """Keep the machine code, its size, and which kernels it calls by name. On a full disk a kernel works without."""
        with suppress(Exception):
            if self.may_name(sig):
                names = set(DECLARED.findall(result.library.get_llvm_str())) & _by_name.keys()
                needs = [partial(load_as, name, *_by_name[name]) for name in sorted(names)]
                needs.append(partial(set_size, result.fndesc.mangled_name, size_of(result)))
                super().save_overload(sig, result._replace(reload_init=needs))

    def may_name(self, sig: Any) -> bool:
        """Return True if the file may name these types: those of a user's module never enter files of the package."""
        return not self.is_ours or not any(getattr(kind, "is_foreign", False) for kind in sig)


def size_of(result: Any) -> int:
    """Return the size of a kernel, in characters of optimised intermediate code."""
    name = result.fndesc.mangled_name
    if name not in _sizes:
        set_size(name, len(result.library.get_llvm_str()))
    return _sizes[name]


def set_size(name: str, size: int) -> None:
    """Remember the size of a kernel; a kernel from disk cannot be measured."""
    _sizes[name] = size


def is_called_by_name(result: Any, module: str, qualname: str) -> bool:
    """Return True if compiled callers call this kernel by its name, because it is large."""
    if size_of(result) > LARGE:
        _by_name[result.fndesc.mangled_name] = module, qualname, result.signature.args
    return result.fndesc.mangled_name in _by_name


def load_as(name: str, module: str, qualname: str, args: Any) -> None:
    """Load a kernel, and let code from disk call it by the name that it had in the process that compiled that code."""
    result = getattr(import_module(module), qualname).compile(args)
    _by_name[name] = module, qualname, args
    if result.fndesc.mangled_name != name:
        llvmlite.binding.add_symbol(name, result.library.get_pointer_to_function(result.fndesc.llvm_func_name))


@once
def announce_compilation() -> None:
    """Log `COMPILING`, once in a process; among the workers of a pool only the first one does."""
    if multiprocessing.current_process().name.endswith(("MainProcess", "-1")):
        logging.getLogger("graphbandit.compute").warning(COMPILING)
