"""A digest of source code, which says when compiled code and kept runs are out of date.

A digest covers *rooms*: folders or single modules of the package, given by their paths in it.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any

PACKAGE = Path(__file__).parents[1]
KERNEL_ROOMS = ("compute", "policies", "solvers")
"""Packages whose code a compiled kernel may contain: a compiled loop holds the code of all kernels that it calls."""


@cache
def code_digest(*rooms: str) -> str:
    """Return a digest of what these rooms do: comments, docstrings, assertions and the layout of the lines do not count."""
    digests = [file_digest(str(path)) for room in rooms for path in _modules(PACKAGE / room)]
    return hashlib.sha256("".join(digests).encode()).hexdigest()


@cache
def file_digest(path: str) -> str:
    """Return the same digest of one file."""
    code = compile(Path(path).read_bytes(), Path(path).name, "exec", dont_inherit=True, optimize=2)
    return hashlib.sha256(repr(_contents(code)).encode()).hexdigest()


def _modules(place: Path) -> list[Path]:
    return [place] if place.is_file() else sorted(place.rglob("*.py"))


def _contents(code: CodeType) -> tuple[Any, ...]:
    """Return what a code object does, without names of files and numbers of lines."""
    constants = [_contents(value) if isinstance(value, CodeType) else _ordered(value) for value in code.co_consts]
    signature = code.co_name, code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags
    names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
    return (*signature, code.co_code, code.co_exceptiontable, constants, *names)


def _ordered(value: Any) -> Any:
    """Return a constant such that its text is the same in every process: sets have no order."""
    return sorted(map(repr, value)) if isinstance(value, frozenset) else value
