"""Shared parts of all plots: figures, files, curves with bands, labels at the ends of curves."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from functools import cache, wraps
from html import escape
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal, ParamSpec

import numpy as np
import numpy.typing as npt

from ..storage.atomic import AnyPath, write_bytes
from ..validate import missing_package
from .palette import FAINT, INK, MARKERS, SOFT, darker

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Given = ParamSpec("Given")
Suffix = Literal["png", "pdf", "svg"]
SUFFIXES: tuple[Suffix, ...] = ("png", "pdf", "svg")
STYLE: Any = {
    "font.size": 10,
    "text.parse_math": False,  # a name may have dollar signs in it
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.edgecolor": SOFT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "figure.facecolor": "white",
    "svg.hashsalt": "graphbandit",  # the same results give the same file
    "svg.fonttype": "none",
}
DOTS = 150  # an inch
MANY_POINTS = 20
"""A curve with more points has only a few markers."""


def has_matplotlib() -> bool:
    """Return whether plots can be drawn."""
    return find_spec("matplotlib") is not None


def require_matplotlib() -> None:
    """Raise a ValueError that says what to install if plots cannot be drawn."""
    if not has_matplotlib():
        raise ValueError(missing_package("a picture", "matplotlib", "plots"))


@cache
def figure_class() -> type[Figure]:
    """Return Matplotlib's Figure, extended to show itself in a notebook.

    It is made without pyplot, which would keep it in memory and show it a second time.
    """
    from matplotlib.figure import Figure

    class NotebookFigure(Figure):
        """A figure that a notebook shows as the value of a cell."""

        def _repr_png_(self) -> bytes:
            return picture(self)

    return NotebookFigure


def styled(draw: Callable[Given, Figure]) -> Callable[Given, Figure]:
    """Return the plotting function with our style, and an error that says what to install without Matplotlib."""

    @wraps(draw)
    def in_style(*args: Given.args, **kwargs: Given.kwargs) -> Figure:
        require_matplotlib()
        import matplotlib

        with matplotlib.rc_context(STYLE):
            return draw(*args, **kwargs)

    return in_style


def new_figure(width: float, height: float, rows: int = 1, columns: int = 1, **grid: Any) -> tuple[Figure, Any]:
    """Return a figure of this size in inches, and its axes: one, or an array of them."""
    figure = figure_class()(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, **grid)


def picture(figure: Figure, suffix: Suffix = "png") -> bytes:
    r"""Return the figure as the content of a file.

    The file has no date, so equal results give equal bytes.

    Examples
    --------
    >>> picture(new_figure(2, 1)[0])[:4]
    b'\x89PNG'
    """
    import matplotlib

    if suffix not in SUFFIXES:
        raise ValueError(f"suffix must be one of {', '.join(SUFFIXES)}, but it is {suffix!r}.")
    undated: dict[Suffix, dict[str, Any]] = {"png": {"Software": None}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}
    buffer = BytesIO()
    with matplotlib.rc_context(STYLE):
        figure.savefig(buffer, format=suffix, dpi=DOTS, metadata=undated[suffix])
    return buffer.getvalue()


def save(figure: Figure, path: AnyPath) -> None:
    """Write the figure in the format that the name says: .png, .pdf or .svg.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     save(new_figure(2, 1)[0], f"{folder}/empty.svg")
    """
    suffix: Any = Path(path).suffix.removeprefix(".")
    if suffix not in SUFFIXES:
        raise ValueError(f"path must end in .png, .pdf or .svg, but it is {path}.")
    write_bytes(path, picture(figure, suffix))


def image_tag(figure: Figure, alt: str) -> str:
    """Return the figure as an HTML element that needs no other file; `alt` describes it in words.

    Examples
    --------
    >>> image_tag(new_figure(2, 1)[0], "nothing")[:29]
    '<img class="plot" alt="nothin'
    """
    content = base64.b64encode(picture(figure)).decode()
    return f'<img class="plot" alt="{escape(alt)}" src="data:image/png;base64,{content}">'


def draw_curve(
    axes: Any,
    x: npt.ArrayLike,
    mean: npt.ArrayLike,
    *,
    colour: str,
    low: Any = None,
    high: Any = None,
    label: str | None = None,
    dashed: bool = False,
    marker: int | None = None,
) -> None:
    """Draw a curve, its band if it has ends, and the marker of this position in `MARKERS`."""
    places = np.asarray(x, dtype=np.float64)
    marks: dict[str, Any] = {}
    if marker is not None:
        every = 1 if len(places) <= MANY_POINTS else 0.14
        # Curves that coincide have their markers at different places.
        shift = (0.02 * (marker % 7), 0.14) if every != 1 else 1
        marks = {"marker": MARKERS[marker % len(MARKERS)], "ms": 4.5, "markevery": shift, "mec": "white", "mew": 0.5}
    axes.plot(places, mean, "--" if dashed else "-", color=colour, lw=1.9, label=label, **marks)
    if low is not None and high is not None:
        axes.fill_between(places, low, high, color=colour, alpha=0.16, lw=0)


def label_ends(axes: Any, ends: Iterable[tuple[float, str, str]], *, size: float = 10) -> None:
    """Write names at the right of the axes, at the height of (height, name, colour), with room between them."""
    low, high = axes.get_ylim()
    tall = axes.figure.get_size_inches()[1] * 72 * axes.get_position().height
    gap = 1.35 * size / max(tall, 1.0)
    places = [((value - low) / (high - low), name, shade) for value, name, shade in ends]
    places.sort(key=lambda place: place[0])
    heights = spaced([place[0] for place in places], gap)
    for height, (_, name, shade) in zip(heights, places, strict=True):
        axes.annotate(
            name,
            (1.015, height),
            xycoords="axes fraction",
            color=darker(shade),
            va="center",
            fontsize=size,
            annotation_clip=False,
        )


def spaced(heights: list[float], gap: float) -> list[float]:
    """Move ascending heights in [0, 1] as little as possible so that they are at least `gap` apart.

    Examples
    --------
    >>> spaced([0.0, 0.5, 0.5], 0.1)
    [0.0, 0.45, 0.55]
    """
    groups: list[list[float]] = []  # (centre, number) of names that touch
    for height in heights:
        groups.append([min(max(height, 0.0), 1.0), 1])
        while len(groups) > 1 and groups[-1][0] - groups[-2][0] < gap * (groups[-1][1] + groups[-2][1]) / 2:
            centre, number = groups.pop()
            before, others = groups.pop()
            total = number + others
            room = gap * (total - 1) / 2  # stay inside the axes, if there is room
            groups.append([min(max((centre * number + before * others) / total, room), max(1 - room, 0.5)), total])
    return [round(centre + gap * (k - (number - 1) / 2), 6) for centre, number in groups for k in range(int(number))]


def set_title(axes: Any, title: str, note: str = "", *, width: int = 60) -> None:
    """Write a title and, below it in a smaller type, a note; both wrapped."""
    notes = wrap(note, round(width * 1.25))
    if note:
        axes.annotate(
            "\n".join(notes),
            (0, 1),
            (0, 7),
            xycoords="axes fraction",
            textcoords="offset points",
            color=SOFT,
            fontsize=9,
            va="bottom",
        )
    text = "\n".join(wrap(title, width))
    axes.set_title(text, loc="left", fontsize=12, fontweight="bold", color=INK, pad=9 + 13 * len(notes))


def log_scale(axes: Any, axis: Literal["x", "y"] = "y") -> None:
    """Make an axis logarithmic, with plain numbers as labels.

    A short axis, on which few of the labels 1, 2 and 5 would lie, gets the ticks of a linear axis.
    """
    from matplotlib.ticker import MaxNLocator, NullLocator

    axes.set(**{f"{axis}scale": "log"})
    part = getattr(axes, f"{axis}axis")
    low, high = part.get_view_interval()
    between, short = {1.0, 2.0, 5.0} if high < 100 * low else {1.0}, high < 5 * low

    def plain(value: float, _: object = None) -> str:
        lead = round(value / 10 ** np.floor(np.log10(value) + 1e-9), 6) if value > 0 else 0.0
        return f"{value:,.10g}" if short or lead in between else ""

    if short:
        part.set_major_locator(MaxNLocator(5))
        part.set_minor_locator(NullLocator())
    part.set_major_formatter(plain)
    part.set_minor_formatter(plain)


def grid_lines(axes: Any, axis: Literal["x", "y"]) -> None:
    """Draw faint lines behind the data."""
    axes.grid(axis=axis, color=FAINT, lw=0.8)
    axes.set_axisbelow(True)
