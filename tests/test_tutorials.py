"""Every tutorial runs from its first cell to its last, in a process of its own, as in a notebook."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGES = sorted((Path(__file__).parents[1] / "docs" / "tutorials").glob("*.md"))
CELL = re.compile(r"^```\{code-cell\}[^\n]*\n(.*?)^```", flags=re.M | re.S)

NOTEBOOK = """
import ast

names = {"__name__": "__main__"}
for cell in CELLS:
    tree = ast.parse(cell)
    last = ast.Expression(tree.body.pop().value) if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    value = eval(compile(last, "cell", "eval"), names) if last else None
    if hasattr(value, "_repr_png_"):
        print("figure", len(value._repr_png_()))
"""
"""What a kernel does: run a cell, and show the value of its last line."""


def cells(page: Path) -> list[str]:
    return CELL.findall(page.read_text())


@pytest.mark.compiled
@pytest.mark.parametrize("page", [page for page in PAGES if cells(page)], ids=lambda page: page.stem)
def test_the_cells_of_a_tutorial_run(page: Path, tmp_path: Path) -> None:
    script = tmp_path / "notebook.py"
    script.write_text(f"CELLS = {cells(page)!r}\n{NOTEBOOK}")
    done = subprocess.run([sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert "figure" in done.stdout  # every tutorial has plots


def test_the_four_tutorials_are_there() -> None:
    wanted = {"first_graph_bandit", "your_own_data", "serving_it", "reproducing_the_paper"}
    assert wanted <= {page.stem for page in PAGES if cells(page)}


@pytest.mark.parametrize("page", [page for page in PAGES if cells(page)], ids=lambda page: page.stem)
def test_a_tutorial_is_a_notebook(page: Path) -> None:
    text = page.read_text()
    assert text.startswith("---\njupytext:") and "kernelspec:" in text.split("---")[1]
    assert text.count("You should see") >= 3  # every step says what one should see
