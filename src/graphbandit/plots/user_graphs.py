"""Plots of the graph with its users coloured by taste or by uncertainty."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..compute.arrays import Floats
from ..graph import UserGraph
from ..policies import Policy
from ..validate import as_floats
from .drawing import new_figure, require_matplotlib, set_title, styled
from .graph_layout import layout
from .palette import INK, SOFT, TASTE_COLOURS, UNCERTAINTY_COLOURS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_NAMED = 40
"""Most users whose names are drawn."""


@styled
def tastes(
    graph: UserGraph,
    theta: npt.ArrayLike | Mapping[str, npt.ArrayLike],
    *,
    place: Floats | None = None,
    title: str = "Users coloured by taste",
) -> Figure:
    """Plot the graph, with users of similar tastes in similar colours.

    The colour is a user's place along the direction in which the vectors differ most, their first
    principal direction. Where the graph helps, neighbours have similar colours.

    Parameters
    ----------
    graph : UserGraph
        At most 2,000 users.
    theta : (n, dim) array, or a mapping of names to such arrays
        The vectors of the users, for example `policy.theta`. Several are drawn side by side, with
        the direction and the scale of the first, so that colours can be compared.
    place : (n, 2) array, optional
        Where users are drawn; by default `layout(graph)`.

    Examples
    --------
    >>> from graphbandit import graphs, signals
    >>> graph = graphs.watts_strogatz(20, 4, 0.1, seed=0)
    >>> figure = tastes(graph, signals.smooth(graph, 5, gamma=7, seed=1))
    >>> len(figure.axes)  # the graph, and the scale of its colours
    2
    """
    named = dict(theta) if isinstance(theta, Mapping) else {"": theta}
    if not named:
        raise ValueError("theta must have at least one array of vectors, but it is empty.")
    vectors = {name: _vectors(one, graph.n_users) for name, one in named.items()}
    first = next(iter(vectors.values()))
    centre, direction, share = _main_direction(first)
    values = {name: (one - centre) @ direction for name, one in vectors.items()}
    label = "taste" if first.shape[1] == 1 else f"taste: main direction, {share:.0%} of all differences"
    largest = float(np.abs(values[next(iter(values))]).max()) or 1.0
    return _coloured_graph(graph, values, place, title, label, TASTE_COLOURS, (-largest, largest))


@styled
def uncertainty(
    policy: Policy, arms: npt.ArrayLike | None = None, *, place: Floats | None = None, title: str = "Users by uncertainty"
) -> Figure:
    """Plot the graph of a policy; users with an uncertain estimate are darker and larger.

    Parameters
    ----------
    policy : Policy
        With at most 2,000 users.
    arms : (m, dim) array, optional
        Items over which the bonus is averaged; by default one for each feature.
    place : (n, 2) array, optional
        Where users are drawn; by default `layout(policy.graph)`.

    Examples
    --------
    >>> from graphbandit import GraphUCB, graphs
    >>> policy = GraphUCB(graphs.watts_strogatz(20, 4, 0.1, seed=0), 2)
    >>> policy.update(0, [1.0, 0.0], 1.0)
    >>> figure = uncertainty(policy)
    """
    values = user_uncertainty(policy, arms)
    ends = float(values.min()), float(values.max())
    ends = ends if ends[1] > ends[0] else (0.0, max(ends[1], 1e-9))
    label = "uncertainty: mean bonus of the items"
    return _coloured_graph(policy.graph, {"": values}, place, title, label, UNCERTAINTY_COLOURS, ends, sized=True)


def user_uncertainty(policy: Policy, arms: npt.ArrayLike | None = None) -> Floats:
    """Return the (n,) exploration bonus of every user, averaged over items.

    Examples
    --------
    >>> from graphbandit import LinUCB, graphs
    >>> policy = LinUCB(graphs.empty(2), 1)
    >>> for _ in range(10):
    ...     policy.update(0, [1.0], 0.5)
    >>> known, unknown = user_uncertainty(policy, [[1.0]])
    >>> bool(known > 0)
    True
    """
    shown = np.eye(policy.dim) if arms is None else np.asarray(arms, dtype=np.float64)
    return np.array([float(np.mean(policy.scores(user, shown).bonus)) for user in range(policy.n_users)])


def _vectors(theta: npt.ArrayLike, n_users: int) -> Floats:
    vectors = as_floats(theta, "theta")
    vectors = vectors[:, None] if vectors.ndim == 1 else vectors
    if vectors.ndim != 2 or len(vectors) != n_users:
        raise ValueError(f"theta must have a row for each of {n_users} users, but its shape is {vectors.shape}.")
    return vectors


def main_taste(theta: npt.ArrayLike) -> tuple[Floats, float]:
    """Return every user's coordinate along the first principal direction, and its share of the variance.

    Examples
    --------
    >>> main_taste([[0.0, 1.0], [0.0, 3.0]])
    (array([-1.,  1.]), 1.0)
    """
    vectors = np.asarray(theta, dtype=np.float64)
    centre, direction, share = _main_direction(vectors)
    return (vectors - centre) @ direction, share


def taste_shades(values: npt.ArrayLike) -> list[str]:
    """Return the colours that `tastes` gives to these coordinates, for a figure or a page with its own drawing."""
    require_matplotlib()
    import matplotlib
    from matplotlib.colors import to_hex

    places = np.asarray(values, dtype=np.float64)
    largest = float(np.abs(places).max()) or 1.0
    return [to_hex(shade) for shade in matplotlib.colormaps[TASTE_COLOURS](0.5 + 0.5 * places / largest)]


def _main_direction(vectors: Floats) -> tuple[Floats, Floats, float]:
    """Return the mean, the first principal direction, and its share of the variance."""
    centre = vectors.mean(axis=0)
    _, sizes, directions = np.linalg.svd(vectors - centre, full_matrices=False)
    direction = directions[0] * np.sign(directions[0][np.abs(directions[0]).argmax()] or 1.0)
    total = float((sizes**2).sum())
    return centre, direction, float(sizes[0] ** 2 / total) if total > 0 else 1.0


def _coloured_graph(
    graph: UserGraph,
    values: Mapping[str, Floats],
    place: Floats | None,
    title: str,
    label: str,
    colours: str,
    ends: tuple[float, float],
    *,
    sized: bool = False,
) -> Figure:
    places = layout(graph) if place is None else np.asarray(place, dtype=np.float64)
    if places.shape != (graph.n_users, 2):
        raise ValueError(f"place must have a row of two for each of {graph.n_users} users, but its shape is {places.shape}.")
    figure, grid = new_figure(
        5.0 if len(values) == 1 else 3.6 * len(values), 4.9 if len(values) == 1 else 4.4, 1, len(values), squeeze=False
    )
    for axes, (name, one) in zip(grid[0], values.items(), strict=True):
        nodes = draw_users(axes, graph, places, one, colours=colours, ends=ends, sized=sized)
        if len(values) > 1:
            axes.set_title(name, loc="left", fontsize=11, color=INK)
    if len(values) > 1:
        figure.suptitle(title, x=0.01, ha="left", fontweight="bold", fontsize=12, color=INK)
    else:
        note = f"{graph.n_users:,} users, {graph.n_edges:,} edges"
        set_title(grid[0][0], title, note)
    bar = figure.colorbar(nodes, ax=list(grid[0]), orientation="horizontal", shrink=0.7, aspect=32, pad=0.02)
    bar.outline.set_visible(False)
    bar.ax.locator_params(nbins=5)
    bar.set_label(label)
    return figure


def draw_users(
    axes: Any, graph: UserGraph, place: Floats, values: Floats, *, colours: str, ends: tuple[float, float], sized: bool = False
) -> Any:
    """Draw edges and coloured users; return the users, for a colour bar."""
    n = graph.n_users
    draw_edges(axes, place, np.argwhere(np.triu(graph.adjacency.toarray()) > 0))
    size = float(np.clip(5000 / n, 14, 170))
    share = (values - ends[0]) / ((ends[1] - ends[0]) or 1.0)
    sizes = size * (0.5 + np.clip(share, 0, 1)) if sized else np.full(n, size)
    nodes = axes.scatter(
        *place.T, c=values, s=sizes, cmap=colours, vmin=ends[0], vmax=ends[1], edgecolors=INK, linewidths=0.6, zorder=2
    )
    if n <= MOST_NAMED:
        names = graph.ids or range(n)
        for (x, y), name in zip(place, names, strict=True):
            axes.annotate(str(name), (x, y), (6, 6), textcoords="offset points", fontsize=8, color=INK, zorder=3)
    hide_ticks(axes)
    return nodes


def draw_edges(axes: Any, place: Floats, edges: npt.NDArray[Any]) -> None:
    """Draw lines between users, fainter the more there are."""
    from matplotlib.collections import LineCollection

    strength = float(np.clip(12 / np.sqrt(max(len(edges), 1)), 0.12, 0.8))
    axes.add_collection(LineCollection(list(place[edges]), colors=SOFT, linewidths=0.8, alpha=strength, zorder=1))


def hide_ticks(axes: Any) -> None:
    """Set the axes without ticks, as wide as high, with a margin for names."""
    axes.set(xlim=(-1.12, 1.12), ylim=(-1.12, 1.12), xticks=[], yticks=[], aspect="equal")
    axes.spines[:].set_visible(False)
