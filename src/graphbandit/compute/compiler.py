"""The compiler in its box: `compiled` turns a Python function into machine code. Only `states` touches Numba too.

`docs/explanation/compiler.md` explains how a kernel is compiled, cached on disk and made stale.
"""

from __future__ import annotations

import gc
import hashlib
import logging
import multiprocessing
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from importlib import import_module
from inspect import signature
from types import FunctionType
from typing import Any, TypeVar

import llvmlite.binding
import numba
import numpy
from numba.core.caching import FunctionCache
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import AnalysisPass, register_pass
from numba.core.event import Listener, register
from numba.core.imputils import user_function
from numba.core.untyped_passes import TranslateByteCode
from numba.extending import overload

from .staleness import KERNEL_ROOMS, code_digest, file_digest, function_digest

F = TypeVar("F", bound=Callable[..., Any])

# No fast-math: it would let the compiler drop the NaN checks that guard every update. Division by zero follows NumPy.
FLAGS = {"error_model": "numpy"}
PACKAGE = __name__.partition(".")[0]
LARGE = 8000
"""Bytes of intermediate code from which on callers call a kernel by name."""
COMPILING = "graphbandit: compiling, once; this usually takes 5 to 20 seconds a policy."


class FirstCompilation(Listener):  # type: ignore[misc]
    """Logs a line when the first kernel of this package is compiled, so that a slow first call explains itself.

    Numba sends the event when it compiles, not when it loads machine code from disk. Without any set-up of logging, Python
    prints warnings on standard error.
    """

    def on_start(self, event: Any) -> None:
        """Announce the compilation, unless the function is one of another package."""
        if event.data["dispatcher"].py_func.__module__.startswith("graphbandit."):
            announce_compilation()

    def on_end(self, event: Any) -> None:
        """Do nothing; Numba calls it."""


@cache
def announce_compilation() -> None:
    """Log `COMPILING`, once in a process; among the workers of a pool only the first one does."""
    if multiprocessing.current_process().name.endswith(("MainProcess", "-1")):
        logging.getLogger("graphbandit.compute").warning(COMPILING)


register("numba:compile", FirstCompilation())


class KernelCache(FunctionCache):  # type: ignore[misc]
    """Numba's on-disk cache, made stale by a change of any module whose code a kernel may contain.

    Numba itself looks at the file that defines a function, but a compiled loop contains the code of the kernels that it calls.
    Without this, an edit of `linalg.py` would leave every cached policy running the old arithmetic. The stamp is made of the
    code in the files, not of their times, comments, docstrings or lines: what changes none of the code recompiles nothing.
    """

    def __init__(self, function: Any) -> None:
        self.function = function

    def __getattr__(self, name: str) -> Any:
        """Set up Numba's part when it is first needed: for 300 kernels that would be a tenth of the import."""
        if name.startswith("__") or "is_set_up" in vars(self) or "function" not in vars(self):
            raise AttributeError(name)
        self.is_set_up = True
        self._set_up(self.function)
        return getattr(self, name)

    def _set_up(self, function: FunctionType) -> None:
        # Numba names the files of a kernel after its line, which moves with every comment above it: put its contents there.
        self.contents = function_digest(function)
        code = function.__code__.replace(co_firstlineno=self.contents)
        anywhere = FunctionType(code, function.__globals__, function.__name__, closure=function.__closure__)
        anywhere.__qualname__, anywhere.__module__ = function.__qualname__, function.__module__
        super().__init__(anywhere)
        index = self._cache_file
        # As part of the version, the stamp is compared before the rest of an index is unpickled: that may name types
        # which have moved since. The time of the file, Numba's own stamp, no longer counts.
        self.stamp = file_digest(function.__code__.co_filename), code_digest(*KERNEL_ROOMS)
        index._version, index._source_stamp = (index._version, *self.stamp), None

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Load machine code after all that it calls by name; None if some of that has been compiled again since.

        An index that cannot be read is a miss.
        """
        if not self.may_name(sig):
            return None
        try:
            result = super().load_overload(sig, target_context)
        except Exception:  # CalleeChanged among them
            return None
        if result is not None:  # callers that are linked with this code call the same by name
            result.library._reload_init.update(result.reload_init)
        return result

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the machine code. A kernel whose index cannot be read or written works without it."""
        if self.may_name(sig):
            with suppress(Exception):
                super().save_overload(sig, data)

    def may_name(self, sig: Any) -> bool:
        """Return True if the file may name these types: those of a user's module never enter files of the package."""
        return not self.function.__module__.startswith(f"{PACKAGE}.") or not any(map(is_foreign, sig))


def is_foreign(kind: Any) -> bool:
    """Return True if a type is, or contains, a NamedTuple from outside the package."""
    made_of = getattr(kind, "instance_class", None)
    if made_of is not None and not made_of.__module__.startswith(f"{PACKAGE}."):
        return True
    return any(map(is_foreign, getattr(kind, "fields", getattr(kind, "types", ()))))


class CalleeChanged(Exception):
    """Machine code on disk calls, by name, a kernel that is no longer the same."""


@register_pass(mutates_CFG=False, analysis_only=True)
class NameByContent(AnalysisPass):  # type: ignore[misc]
    """Name machine code after its source, not after how many functions a process has compiled before.

    Callers on disk name what they call. Two processes that compile the same kernel must give it the same name.
    """

    _name = "name_by_content"

    def __init__(self) -> None:  # abstract in Numba
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        """Set the identity, which Numba counts up."""
        identity, cache = state.func_id, getattr(state.func_id.func, "kernel_cache", None)
        if cache is not None:
            text = f"{identity.modname}.{identity.func_qualname} {cache.contents} {cache.stamp}"
            identity.unique_id = int(hashlib.sha256(text.encode()).hexdigest()[:15], 16)
            identity.unique_name = f"{identity.func_qualname}${identity.unique_id}"
        return False


class KernelCompiler(CompilerBase):  # type: ignore[misc]
    """Numba's compiler, with names of our own."""

    def define_pipelines(self) -> list[Any]:
        """The usual passes and one more."""
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(NameByContent, TranslateByteCode)
        passes.finalize()
        return [passes]


FOR_KERNELS = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "forceinline": False, "pipeline_class": KernelCompiler}


def compiled(function: F, *, cache: bool = True) -> F:
    """Compile `function` with the package's flags and, with `cache`, keep the machine code on disk for the next process."""
    dispatcher: Any = numba.njit(**FLAGS, **FOR_KERNELS)(function)
    if dispatcher is function:  # under NUMBA_DISABLE_JIT=1
        return function
    if cache:
        dispatcher._cache = KernelCache(function)
        if function.__closure__ is None:  # with one, the same source is not the same function
            function.kernel_cache = dispatcher._cache  # type: ignore[attr-defined]
    dispatcher.by_name = False
    dispatcher.add_overload = partial(_keep, dispatcher)
    dispatcher.compile = partial(_compile, dispatcher, dispatcher.compile)
    dispatcher._compile_for_args = partial(_enter, dispatcher)
    return dispatcher  # type: ignore[no-any-return]


def _keep(dispatcher: Any, result: Any) -> None:
    """Keep machine code for compiled callers. Python cannot call it: see `entry_from_python`."""
    dispatcher.overloads[tuple(result.signature.args)] = result


def _compile(dispatcher: Any, compile_or_load: Callable[..., Any], sig: Any) -> Any:
    """Compile or load a kernel; if it is large, let callers call it by name, as machine code of its own.

    By default a caller contains a copy of all that it calls, and of what that calls, which the compiler then optimises again:
    small kernels become faster so, but large ones only take long.
    """
    entry = compile_or_load(sig)
    calls = dispatcher.targetctx._defns[entry]
    result = next(result for result in dispatcher.overloads.values() if result.entry_point is entry)
    by_name = dispatcher.by_name or size(result.library) > LARGE
    if by_name and not isinstance(calls.versions[0][1].libs[0], Declared):
        call = user_function(result.fndesc, [Declared(dispatcher.py_func, result)])
        calls.versions[:] = [(call.signature, call)]
        calls._cache.clear()
    return entry


def call_by_name(kernel: Any) -> None:
    """Let callers call this kernel by name even if it is small: one on disk must not contain it, as it might change alone."""
    if python_function(kernel) is not kernel:
        kernel.by_name = True


def size(library: Any) -> int:
    """Bytes of intermediate code, with that of all that is linked."""
    return len(library._get_module_for_linking().as_bitcode())


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


def types_of(*args: Any) -> tuple[Any, ...]:
    """The types of arguments, as the compiler tells them apart."""
    return tuple(numba.typeof(arg) for arg in args)


def loaded_and_compiled(kernel: Any) -> tuple[int, int]:
    """How often calls from Python found machine code on disk, and how often they had to compile it."""
    stats = entry_from_python(kernel).stats
    return sum(stats.cache_hits.values()), sum(stats.cache_misses.values())


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

    overload(function, strict=False)(implementation)  # strict would compare the names of parameters


def _enter(dispatcher: Any, *args: Any) -> Any:
    """Called by Numba when Python calls a kernel with arguments of new types."""
    entry = entry_from_python(dispatcher)
    with no_garbage_collection():
        machine_code = entry._compile_for_args(*args)
    result = next(result for result in entry.overloads.values() if result.entry_point is machine_code)
    dispatcher._insert([kind._code for kind in result.signature.args], machine_code, False)
    return machine_code


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """The compiler makes millions of small objects; looking for cycles among them takes a fifth of its time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def entry_from_python(dispatcher: Any) -> Any:
    """A function that calls a kernel, compiled with what converts Python objects: most kernels are never called from Python."""
    if not hasattr(dispatcher, "_entry"):
        dispatcher._entry = _entry(dispatcher, "from_python")
    return dispatcher._entry


def without_lock(kernel: F) -> F:
    """The kernel without the interpreter lock: other threads run Python meanwhile, and must leave its arrays alone.

    For calls that take long. A short one would lose more by waiting for the lock afterwards.
    """
    return kernel if python_function(kernel) is kernel else _entry(kernel, "without_lock", nogil=True)


def _entry(dispatcher: Any, suffix: str, **flags: bool) -> Any:
    kernel, code = dispatcher.py_func, dispatcher.py_func.__code__
    name, parameters = f"{kernel.__name__}_{suffix}", ", ".join(signature(kernel).parameters)
    scope: dict[str, Any] = {"kernel": dispatcher, "__name__": kernel.__module__}
    exec(compile(f"def {name}({parameters}):\n    return kernel({parameters})\n", code.co_filename, "exec"), scope)
    function = scope[name]
    function.__qualname__ = f"{kernel.__qualname__}_{suffix}"  # names its file
    entry = numba.njit(**FLAGS, **flags, no_cfunc_wrapper=True)(function)
    if isinstance(dispatcher._cache, KernelCache):
        entry._cache = KernelCache(function)
    return entry


def arithmetic() -> str:
    """What the last bits of a result depend on, apart from the sources: the compiler and its version.

    >>> arithmetic().split()[0] in ("compiled", "plain")
    True
    """
    how = "plain" if numba.config.DISABLE_JIT else "compiled"
    return f"{how} numba {numba.__version__} numpy {numpy.__version__} {platform.machine()}"
