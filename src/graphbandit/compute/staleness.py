"""Digests of source files, which say when compiled code and kept runs are out of date.

A digest covers *rooms*: folders or single modules of the package, given by their paths in it.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
KERNEL_ROOMS = ("compute", "policies", "solvers")
"""What a kernel may contain: a compiled loop holds the code of all kernels that it calls, from any of these rooms."""


@cache
def source_digest(*rooms: str) -> str:
    """A digest of every byte of these rooms. Fast, so that it can be asked for whenever the package is imported."""
    digest = hashlib.sha256()
    for path in _modules(rooms):
        digest.update(path.read_bytes())
    return digest.hexdigest()


@cache
def code_digest(*rooms: str) -> str:
    """A digest of what these rooms do: comments, docstrings and the layout of the lines do not count."""
    digest = hashlib.sha256()
    for path in _modules(rooms):
        digest.update(ast.dump(_without_docstrings(ast.parse(path.read_bytes()))).encode())
    return digest.hexdigest()


def _modules(rooms: tuple[str, ...]) -> Iterator[Path]:
    for room in rooms:
        place = PACKAGE / room
        yield from [place] if place.is_file() else sorted(place.rglob("*.py"))


def _without_docstrings(tree: ast.Module) -> ast.Module:
    """The same tree; a string that stands alone as a statement does nothing, so it is taken out."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [line for line in body if not _is_string(line)]  # type: ignore[attr-defined]
    return tree


def _is_string(line: ast.stmt) -> bool:
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant) and isinstance(line.value.value, str)
