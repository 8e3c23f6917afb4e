"""Results as text and as HTML: short reprs, Markdown tables, and what a notebook shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from html import escape

Rows = Iterable[Sequence[object]]


def shorten(text: str, width: int) -> str:
    """Return `text`, cut to `width` characters.

    >>> shorten("alpha=0.5, ridge=0.1", 10)
    'alpha=0.5…'
    """
    return text if len(text) <= width else text[: width - 1] + "…"


def as_markdown(headings: Sequence[str], rows: Rows) -> str:
    """Return a Markdown table whose first column is text and whose other columns are numbers.

    >>> print(as_markdown(["policy", "regret"], [["LinUCB", 64.1]]))
    | policy | regret |
    |---|---:|
    | LinUCB | 64.1 |
    """
    lines = [" | ".join(map(str, row)) for row in (headings, *rows)]
    return "\n".join([f"| {lines[0]} |", "|---|" + "---:|" * (len(headings) - 1), *(f"| {line} |" for line in lines[1:])])


def as_html(title: str, headings: Sequence[str], rows: Rows, notes: Iterable[str] = ()) -> str:
    """Return a title, a table and notes as HTML with every text escaped, for `_repr_html_`.

    The first column of the table is aligned to the left, the others to the right.

    >>> as_html("R&D", [], [["users", 20]], ["Done."])  # doctest: +ELLIPSIS
    '<p><b>R&amp;D</b></p><table><tr><th style="text-align:left">users</th>...20</td></tr></table><p>Done.</p>'
    """
    head, body = _html_row("th", headings) if headings else "", "".join(_html_row("td", row) for row in rows)
    table = f"<table>{head}{body}</table>" if body else ""
    return f"<p><b>{escape(title)}</b></p>{table}{''.join(f'<p>{escape(note)}</p>' for note in notes)}"


def _html_row(tag: str, cells: Sequence[object]) -> str:
    first, *others = (escape(str(cell)) for cell in cells)
    numbers = "".join(f'<{tag} style="text-align:right">{cell}</{tag}>' for cell in others)
    return f'<tr><th style="text-align:left">{first}</th>{numbers}</tr>'


@contextmanager
def shown_progress(progress: Callable[[float], None] | bool) -> Iterator[Callable[[float], None]]:
    """Yield a function of the share that is done: the given one, or one that moves a bar in a terminal.

    >>> with shown_progress(False) as show:
    ...     show(0.5)
    """
    if callable(progress):
        yield progress
        return
    from rich.console import Console  # slow to import
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not progress or not console.is_terminal) as bar:
        task = bar.add_task("learning", total=1.0)
        yield lambda share: bar.update(task, completed=share)
