"""Machine code on disk: Numba's cache with a stamp of our own."""

from __future__ import annotations

import logging
import multiprocessing
from contextlib import suppress
from functools import cache as once
from functools import cached_property
from typing import Any

from numba.core.caching import FunctionCache

from .staleness import KERNEL_ROOMS, code_digest, file_digest

PACKAGE = __name__.partition(".")[0]
COMPILING = "graphbandit: compiling, once; this usually takes 5 to 20 seconds a policy."


class KernelCache:
    """Numba's cache for one kernel, with a stamp of our own.

    A kernel contains the code of the kernels that it calls, so it is stale when any code of the package's kernels changes.
    Numba looks only at the file that defines it. An index that cannot be read or written is a miss.
    """

    def __init__(self, function: Any) -> None:
        self.function, self.is_ours = function, function.__module__.startswith(f"{PACKAGE}.")

    @cached_property
    def cache(self) -> Any:
        """Numba's cache. Set up at the first call: for 300 kernels that would be a tenth of the import."""
        cache = FunctionCache(self.function)
        index = cache._cache_file
        # The version is compared before the rest of the index is unpickled, which may name types that no longer exist.
        stamp = file_digest(self.function.__code__.co_filename), code_digest(*KERNEL_ROOMS)
        index._version, index._source_stamp = (index._version, *stamp), None
        return cache

    @property
    def cache_path(self) -> str:
        """The folder, for `stats` of a kernel."""
        return str(self.cache.cache_path)

    def load_overload(self, sig: Any, target: Any) -> Any:
        """Return the machine code for these types, or None."""
        with suppress(Exception):
            found = self.cache.load_overload(sig, target) if self.may_name(sig) else None
            if found is not None and found.signature.args == tuple(sig):  # two processes may have written one file
                found.library._reload_init.update(found.reload_init)  # callers that contain this kernel's code need the same
                return found
        if self.is_ours:
            announce_compilation()
        return None

    def save_overload(self, sig: Any, result: Any) -> None:
        """Keep the machine code. A kernel without a file, or on a full disk, works without."""
        with suppress(Exception):
            if self.may_name(sig):
                try:
                    self.cache.save_overload(sig, result)
                except Exception:  # the index cannot be read
                    self.cache.flush()
                    self.cache.save_overload(sig, result)

    def may_name(self, sig: Any) -> bool:
        """Return True if the file may name these types: those of a user's module never enter files of the package."""
        return not self.is_ours or not any(map(is_foreign, sig))


def is_foreign(kind: Any) -> bool:
    """Return True if a type is, or contains, a NamedTuple from outside the package."""
    made_of = getattr(kind, "instance_class", None)
    if made_of is not None and not made_of.__module__.startswith(f"{PACKAGE}."):
        return True
    return any(map(is_foreign, (*getattr(kind, "fields", ()), *getattr(kind, "types", ()))))


@once
def announce_compilation() -> None:
    """Log `COMPILING`, once in a process; among the workers of a pool only the first one does."""
    if multiprocessing.current_process().name.endswith(("MainProcess", "-1")):
        logging.getLogger("graphbandit.compute").warning(COMPILING)
