"""A digest of source code, which says when compiled code and kept runs are out of date.

A digest covers *rooms*: folders or single modules of the package, given by their paths in it.
"""

from __future__ import annotations

import ast
import hashlib
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
KERNEL_ROOMS = ("compute", "policies", "solvers")
"""Packages whose code a compiled kernel may contain: a compiled loop holds the code of all kernels that it calls."""


@cache
def code_digest(*rooms: str) -> str:
    """Return a digest of what these rooms do: comments, docstrings and the layout of the lines do not count."""
    digests = [
        file_digest(str(path))
        for room in rooms
        for path in sorted([PACKAGE / room, *(PACKAGE / room).rglob("*.py")])
        if path.is_file()
    ]
    return hashlib.sha256("".join(digests).encode()).hexdigest()


@cache
def file_digest(path: str) -> str:
    """Return the same digest of one file."""
    tree = ast.parse(Path(path).read_bytes())
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            del node.body[0]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()
