"""A plot of influence: how far a reward of one user moves the estimates of the others."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..compute.arrays import Floats, Ints
from ..policies import Policy
from ..validate import POSITIVE, check
from .drawing import new_figure, set_title, styled
from .palette import INFLUENCE_COLOURS, INK, ORANGE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_SHOWN = 150
"""Most users of a matrix: each needs some updates of a copy of the policy, and more could not be distinguished."""
MOST_NAMED = 40
OWN_SHARE = 0.05
"""The darkest colour is at least this share of the effect of a user's reward on its own estimate."""


def influence(
    policy: Policy, arms: npt.ArrayLike | None = None, *, users: Sequence[int] | None = None, step: float = 0.1
) -> Floats:
    """Return a (users, users) matrix of how far one reward of user j (column) moves the estimate of user i (row).

    A reward that is 1 higher raises the estimate for the same item by this much, on average over
    the items. It is measured on copies of the policy: one learns the expected reward plus `step`,
    one that minus `step`. GraphUCB and LinUCB are linear in rewards, so that the step does not
    matter; AdaptiveGraphUCB also changes its weights.

    Parameters
    ----------
    policy : Policy
        It is not changed.
    arms : (m, dim) array, optional
        Items to average over; by default one for each feature.
    users : sequence of int, optional
        Rows of the users to show, at most 150; all by default.
    step : float
        How much more or less than expected is earned.

    Examples
    --------
    >>> from graphbandit import GraphUCB, graphs
    >>> policy = GraphUCB(graphs.from_edges([(0, 1)], n_users=3), 1, alpha=0.1)
    >>> influence(policy, [[1.0]]).round(2).tolist()  # 0 and 1 learn from each other, 2 alone
    [[0.98, 0.89, 0.0], [0.89, 0.98, 0.0], [0.0, 0.0, 0.9]]
    """
    check("step", step, POSITIVE)
    shown = _shown_users(policy, users)
    items = np.eye(policy.dim) if arms is None else np.atleast_2d(np.asarray(arms, dtype=np.float64))
    matrix = np.zeros((len(shown), len(shown)))
    for column, user in enumerate(shown.tolist()):
        expected = policy.scores(user, items).mean
        for x, mean in zip(items, expected.tolist(), strict=True):
            after = []
            for reward in (mean + step, mean - step):
                copy = deepcopy(policy)
                copy.update(user, x, reward)
                after.append(np.array([copy.scores(other, x[None]).mean[0] for other in shown.tolist()]))
            matrix[:, column] += (after[0] - after[1]) / (2 * step)
    return matrix / len(items)


@styled
def who_learns_from_whom(
    policy: Policy,
    arms: npt.ArrayLike | None = None,
    *,
    users: Sequence[int] | None = None,
    title: str = "Who learns from whom",
) -> Figure:
    """Plot the influence matrix: the darker, the more the row's user learns from a reward of the column's.

    Users are in the order of the graph's main eigenvector, so that those who learn from each other
    stand together; an orange dot marks a pair that is joined by an edge. `influence` has the numbers.

    Parameters
    ----------
    policy : Policy
        It is not changed.
    arms : (m, dim) array, optional
        Items to average over; by default one for each feature.
    users : sequence of int, optional
        Rows of the users to show, at most 150; all by default.

    Examples
    --------
    >>> from graphbandit import GraphUCB, graphs
    >>> figure = who_learns_from_whom(GraphUCB(graphs.erdos_renyi(6, 0.5, seed=0), 2))
    >>> figure.axes[0].get_xlabel()
    'reward of this user'
    """
    shown = _shown_users(policy, users)
    joined = policy.graph.adjacency[shown][:, shown].toarray() > 0
    order = _spectral_order(joined)
    shown, joined = shown[order], joined[np.ix_(order, order)]
    matrix = influence(policy, arms, users=shown.tolist())
    figure, axes = new_figure(5.6, 5.6)
    others = matrix[~np.eye(len(matrix), dtype=bool)]
    top = float(max(np.abs(others).max(initial=0.0), OWN_SHARE * matrix.diagonal().max(initial=1e-9)))
    cells = axes.imshow(np.clip(matrix, 0, top), cmap=INFLUENCE_COLOURS, vmin=0, vmax=top)
    rows, columns = np.nonzero(joined)
    axes.plot(columns, rows, "o", color=ORANGE, ms=float(np.clip(60 / len(shown), 0.8, 4)), mew=0)
    names = [str(policy.graph.ids[row] if policy.graph.ids else row) for row in shown]
    if len(shown) <= MOST_NAMED:
        size = min(8.0, 240 / len(shown))
        axes.set_xticks(range(len(shown)), names, rotation=90, fontsize=size)
        axes.set_yticks(range(len(shown)), names, fontsize=size)
    else:
        axes.set(xticks=[], yticks=[])
    axes.set(xlabel="reward of this user", ylabel="moves the estimate of this user")
    axes.spines[:].set_visible(False)
    bar = figure.colorbar(cells, ax=axes, orientation="horizontal", shrink=0.75, aspect=30, extend="max")
    bar.outline.set_visible(False)
    bar.ax.locator_params(nbins=5)
    bar.set_label("estimate moves by, for a reward that is 1 higher", color=INK)
    own = matrix.diagonal()
    note = f"orange dots: edges; a user's own reward moves its estimate by {own.min():.2g} to {own.max():.2g}"
    set_title(axes, title, note, width=46)
    return figure


def _shown_users(policy: Policy, users: Sequence[int] | None) -> Ints:
    rows = range(policy.n_users) if users is None else [policy.check_user(user) for user in users]
    if not 1 <= len(rows) <= MOST_SHOWN:
        raise ValueError(f"users must name 1 to {MOST_SHOWN} of {policy.n_users:,} users, but there are {len(rows):,}.")
    return np.asarray(rows, dtype=np.int64)


def _spectral_order(joined: npt.NDArray[Any]) -> Ints:
    """Return an order in which neighbours are adjacent: by component, then by the Fiedler vector of each."""
    from scipy.sparse.csgraph import connected_components

    labels = connected_components(joined, directed=False)[1]
    order: list[int] = []
    for label in np.argsort(-np.bincount(labels), kind="stable"):
        rows = np.flatnonzero(labels == label)
        part = joined[np.ix_(rows, rows)].astype(np.float64)
        vectors = np.linalg.eigh(np.diag(part.sum(axis=0)) - part)[1]
        order += rows[np.argsort(vectors[:, min(1, len(rows) - 1)], kind="stable")].tolist()
    return np.array(order, dtype=np.int64)
