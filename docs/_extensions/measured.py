"""The directive `measured`: the tables of docs/results/data/NAME.json, with command, date and versions under them.

    ```{measured} late
    ```

Cells, captions and notes are Markdown. `:tables: 1 3` shows these tables only, and no notes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

DATA = Path("results") / "data"
RULERS = {"l": ":---", "c": ":---:", "r": "---:"}
TAKEN_OVER = "recorded before JSON was written"


class Measured(SphinxDirective):
    """The results of a benchmark, the leaderboard or the report."""

    required_arguments = 1
    option_spec: ClassVar[Any] = {"tables": directives.positive_int_list}

    def run(self) -> list[nodes.Node]:
        """Return the nodes of the tables, notes and origin."""
        path = Path(self.env.srcdir) / DATA / f"{self.arguments[0]}.json"
        self.env.note_dependency(str(path))
        if not path.exists():
            raise self.error(f"there is no measurement {self.arguments[0]!r}: {DATA / path.name} does not exist.")
        measurement = json.loads(path.read_text(encoding="utf-8"))
        box = nodes.container(classes=["measured"], ids=[f"measured-{measurement['name'].replace('_', '-')}"])
        chosen = self.options.get("tables", range(1, len(measurement["tables"]) + 1))
        for number in chosen:
            box += self.table(measurement["tables"][number - 1])
        if "tables" not in self.options:
            for note in measurement["notes"]:
                box += self.markdown([note])
        box += nodes.container("", *self.markdown([origin(measurement)]), classes=["measured-origin"])
        return [box]

    def table(self, table: dict[str, Any]) -> list[nodes.Node]:
        """Return a table under its caption, which does not scroll with a wide table."""
        caption = [nodes.container("", *self.markdown([table["caption"]]), classes=["measured-caption"])]
        return [*caption * bool(table["caption"]), *self.markdown(markdown_table(table))]

    def markdown(self, lines: list[str]) -> list[nodes.Node]:
        """Return the nodes of lines of Markdown."""
        parent = nodes.Element()
        parent.document = self.state.document
        self.state.nested_parse(StringList(lines, source=self.env.docname), 0, parent)
        return list(parent.children)


def markdown_table(table: dict[str, Any]) -> list[str]:
    r"""Return the lines of a table.

    >>> markdown_table({"columns": ["a", "|b|"], "align": "lr", "rows": [["x", "1"]]})
    ['| a | \\|b\\| |', '| :--- | ---: |', '| x | 1 |']
    """
    rows = [[cell.replace("|", "\\|") for cell in row] for row in (table["columns"], *table["rows"])]
    head, *body = [f"| {' | '.join(row)} |" for row in rows]
    return [head, f"| {' | '.join(RULERS[letter] for letter in table['align'])} |", *body]


def origin(measurement: dict[str, Any]) -> str:
    """Return the command, date, machine and versions behind the numbers, as a line of Markdown.

    >>> origin({"command": "make bench", "date": "2026-11-16", "machine": "2 cores", "versions": {"numpy": "2.4"}})
    '`make bench` · 2026-11-16 · 2 cores · numpy 2.4'
    """
    libraries = ", ".join(f"{name} {version}" for name, version in measurement["versions"].items())
    parts = [part for part in (f"`{measurement['command']}`", measurement["date"], measurement["machine"], libraries) if part]
    parts += [TAKEN_OVER] * ("source" in measurement)
    return " · ".join(parts)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive and its style, which is in docs/_static."""
    app.add_directive("measured", Measured)
    app.add_css_file("measured.css")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
