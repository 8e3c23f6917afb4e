"""Docstrings of this project, which read like Markdown, as reStructuredText for autodoc."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

CODE = re.compile(r"(`+[^`]*`+)")
SIGN = re.compile(r"\||(?<=\w)_(?!\w)")  # a substitution, and a reference such as name_
PAGE = re.compile(r'`?docs/([\w/]+)\.md`?(?:, "[^"]*")?')
ERRATUM = re.compile(r"\berrata(?= E\d)")
LINKED = "\0"  # around what becomes a link, so that the rest of the line can be treated first
ALIAS = re.compile(r"TypeAliasForwardRef\('([\w.]+)'\)")
VALUES = ("attribute", "data", "property")
KEPT: dict[str, list[str]] = {}
"""Docstrings of values while napoleon is at work."""


def markup(lines: list[str]) -> list[str]:
    r"""Return the lines of a docstring as reStructuredText, with tables as directives and special signs escaped.

    >>> markup(["|w·x| is small, `a|b` is code"])
    ['\\|w·x\\| is small, ``a|b`` is code']
    """
    written: list[str] = []
    for is_table, block in groupby(lines, key=lambda line: line.startswith("| ") or line.startswith("|--")):
        together = list(block)
        written += list_table(together) if is_table else map(plain, together)
    return written


def list_table(lines: list[str]) -> list[str]:
    """Return a Markdown table as a directive."""
    rows = [[cell.strip() for cell in line.strip().strip("|").split(" | ")] for line in lines if not line.startswith("|--")]

    def entries() -> Iterator[str]:
        for row in rows:
            for number, cell in enumerate(row):
                yield f"   {'* -' if number == 0 else '  -'} {plain(cell)}"

    return ["", ".. list-table::", "   :header-rows: 1", "", *entries(), ""]


def plain(line: str) -> str:
    """Return a line of prose in which only code and emphasis are marked up; examples stay unchanged."""
    if line.lstrip().startswith((">>>", "...", "..", ":")):
        return line
    line = ERRATUM.sub(f"errata{LINKED}explanation/errata{LINKED}", PAGE.sub(rf"{LINKED}\1{LINKED}", line))
    parts = CODE.split(line)
    written = "".join(code(part) if part.startswith("`") else SIGN.sub(r"\\\g<0>", part) for part in parts)
    written = re.sub(f"errata{LINKED}(.*?){LINKED}", r":doc:`errata </\1>`", written)
    return re.sub(f"{LINKED}(.*?){LINKED}", r":doc:`/\1`", written)


def code(part: str) -> str:
    """Return code between one or two backticks as code between two, for autodoc."""
    return f"``{part.strip('`')}``"


def process(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Change the docstring that autodoc has found."""
    lines[:] = markup(lines)
    if what in VALUES:
        KEPT[name], lines[:] = list(lines), []


def give_back(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Restore the docstring of a value after napoleon, which takes the text before a colon for a type."""
    if what in VALUES:
        lines[:] = KEPT.pop(name)


def shorten(
    app: Sphinx, what: str, name: str, thing: Any, options: Any, signature: str | None, returned: str | None
) -> tuple[str | None, str | None]:
    """Return a signature in which aliases of types are names; autodoc expands aliases in a union."""
    return tuple(text and ALIAS.sub(r"\1", text) for text in (signature, returned))  # type: ignore[return-value]


def skip(app: Sphinx, what: str, name: str, thing: Any, is_skipped: bool, options: Any) -> bool | None:
    """Leave out the fields of named tuples, which the class documents better than their generated docstrings."""
    return True if (getattr(thing, "__doc__", "") or "").startswith("Alias for field number") else None


def setup(app: Sphinx) -> ExtensionMetadata:
    """Read docstrings before napoleon does."""
    app.connect("autodoc-process-docstring", process, priority=400)
    app.connect("autodoc-process-docstring", give_back, priority=600)
    app.connect("autodoc-process-signature", shorten)
    app.connect("autodoc-skip-member", skip)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
