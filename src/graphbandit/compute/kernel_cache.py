"""Machine code on disk: Numba's cache with a stamp of our own.

The only module that uses private names of Numba: `_cache`, `_cache_file`, `_version` and `_source_stamp`.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from typing import Any

from numba.core.caching import FunctionCache

from .staleness import KERNEL_ROOMS, code_digest, file_digest

PACKAGE = __name__.partition(".")[0]


class KernelCache:
    """Numba's cache for one kernel, with a stamp of our own.

    A kernel contains the code of the kernels that it calls, so it is stale when any code of the package's kernels changes.
    Numba looks only at the file that defines it.
    """

    def __init__(self, function: Any) -> None:
        self.function = function

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

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the machine code for these types, or None. An index that cannot be read is a miss."""
        with suppress(Exception):
            if self.is_cached(sig):
                found = self.cache.load_overload(sig, target_context)
                if found.signature.args == tuple(sig):  # two processes may have written one file
                    return found
        return None

    def save_overload(self, sig: Any, result: Any) -> None:
        """Keep the machine code. A kernel without a file, or on a full disk, works without."""
        with suppress(Exception):
            if self.is_cached(sig):
                try:
                    self.cache.save_overload(sig, result)
                except Exception:  # the index cannot be read
                    self.cache.flush()
                    self.cache.save_overload(sig, result)

    def is_cached(self, sig: Any) -> bool:
        """Whether this file may name these types: those of a user's module never enter files of the package."""
        return not self.function.__module__.startswith(f"{PACKAGE}.") or not any(map(is_foreign, sig))


def is_foreign(kind: Any) -> bool:
    """Whether a type is, or contains, a NamedTuple from outside the package."""
    made_of = getattr(kind, "instance_class", None)
    if made_of is not None and not made_of.__module__.startswith(f"{PACKAGE}."):
        return True
    return any(map(is_foreign, getattr(kind, "types", ())))


def keep_on_disk(dispatcher: Any, function: Any) -> None:
    """Keep the machine code of a kernel for the next process."""
    dispatcher._cache = KernelCache(function)
