"""Plain baselines: the mean of each item, and a ridge regression for each user on what the means do not explain.

With ȳ the mean of all rewards up to y and n the number of an item's observations, item j is worth Σ (y - ȳ) / (n + κ) more
than the average item. The rest, y - ȳ less that, is what a user's vector explains, with the friends' data at weight w:

    θ_i = (A_i + w Σ_friends A_f + ridge I)⁻¹ (b_i + w Σ_friends b_f).

Nothing explores. The bias of a user, the mean of its rests, is common to all arms and ranks nothing.
"""

from __future__ import annotations

from math import inf
from typing import Any, NamedTuple

import numpy as np

from ..compute.adjacency import Links, change_links, link_rows, links_of
from ..compute.arrays import Floats, Ints
from ..compute.compiler import compiled
from ..compute.linalg import invert_positive, multiply
from ..compute.observations import Observations, no_observations, observation_rows, record
from ..graph import UserGraph
from ..validate import NOT_NEGATIVE
from .core.item_effects import ItemEffects, item_effect, no_items
from .core.kernels import register
from .core.live_users import Changes
from .core.policy import Policy, Seed


class BaselineState(NamedTuple):
    """Sums of what the means of items do not explain, and the means."""

    seen: Observations
    links: Links
    ridge: float  # infinite: no vectors of users
    friends: float  # w
    items: ItemEffects  # `mass` is n, `total` Σ (y - ȳ), `level` ȳ and the number of all rewards


@compiled
def belief(state: BaselineState, user: int) -> tuple[Floats, Floats, float]:
    """Return θ_i and the inverse that it is made with; no bonus."""
    dim, links = state.seen.bias.shape[1], state.links
    theta, inverse = np.zeros(dim), np.eye(dim)
    if state.ridge == inf:
        return theta, inverse, 0.0
    gram, response = state.seen.gram[user].copy(), state.seen.bias[user].copy()
    if state.friends > 0.0:
        for edge in range(links.start[user], links.start[user] + links.filled[user]):
            friend = links.neighbour[edge]
            for i in range(dim):
                response[i] += state.friends * state.seen.bias[friend, i]
                for j in range(dim):
                    gram[i, j] += state.friends * state.seen.gram[friend, i, j]
    invert_positive(gram, state.ridge, inverse)
    multiply(inverse, response, theta)
    return theta, inverse, 0.0


@compiled
def update(state: BaselineState, user: int, x: Floats, item: int, reward: float) -> None:
    """Take the reward into the means, and let the user learn the rest of it."""
    items = state.items
    items.level[1] += 1.0
    items.level[0] += (reward - items.level[0]) / items.level[1]
    rest = reward - items.level[0]
    if item >= 0:
        items.mass[item] += 1.0
        items.total[item] += rest
        rest -= item_effect(items, item)[0]
    items.noise[0] += rest * rest
    items.noise[1] += 1.0
    record(state.seen, user, x, rest)


class Baseline(Policy):
    """The part that both baselines share."""

    State = BaselineState

    def start(self, item_ridge: float, ridge: float, friends: float) -> None:
        """Make the state before the first observation."""
        seen, links = no_observations(self.n_users, self.dim), links_of(self.graph)
        self.state = BaselineState(seen, links, float(ridge), float(friends), no_items(True, item_ridge))

    def user_rows(self) -> dict[str, Any]:
        """Return the rows of a user without data."""
        return observation_rows("seen") | link_rows("links")

    def follow_graph(self, users: Ints, changes: Changes) -> None:
        """Update the state after a change of the graph."""
        links = links_of(self.graph) if changes is None else change_links(self.state.links, changes)
        self.state = self.state._replace(links=links)


class ItemMean(Baseline):
    """Shows the item with the best mean reward, of all users together.

    Parameters
    ----------
    item_ridge : float
        κ, pseudo-observations of the mean of all rewards.

    Examples
    --------
    >>> from graphbandit import graphs
    >>> policy = ItemMean(graphs.empty(2), 1)
    >>> policy.update_many([0, 0, 1], [[1.0]] * 3, [3.0, 5.0, 4.0], items=[0, 1, 2])
    >>> policy.recommend(1, [[1.0]] * 3, items=[0, 1, 2])
    1
    """

    def __init__(self, graph: UserGraph, dim: int, *, item_ridge: float = 5.0, seed: Seed = 0) -> None:
        super().__init__(graph, dim, locals())
        self.start(item_ridge, inf, 0.0)


class FriendsRidge(Baseline):
    """The item's mean, and a ridge regression on the rest for each user, with the data of friends at a lower weight.

    Parameters
    ----------
    item_ridge, ridge : float
        κ, pseudo-observations of the mean of all rewards, and the regulariser of a user.
    friends : float
        w, the weight of a friend's observations; 0 is a ridge regression for each user alone. The weights of edges do not
        count.

    Examples
    --------
    >>> from graphbandit import graphs
    >>> policy = FriendsRidge(graphs.from_edges([(0, 1)]), 2)
    >>> policy.update_many([0, 0], [[1.0, 0.0], [0.0, 1.0]], [1.0, 0.0])
    >>> policy.recommend(1, [[1.0, 0.0], [0.0, 1.0]])  # what its friend likes
    0
    """

    ranges = Policy.ranges | {"friends": NOT_NEGATIVE}

    def __init__(
        self, graph: UserGraph, dim: int, *, ridge: float = 5.0, friends: float = 0.25, item_ridge: float = 5.0, seed: Seed = 0
    ) -> None:
        super().__init__(graph, dim, locals())
        self.start(item_ridge, ridge, friends)


register(BaselineState, belief=belief, update=update, learn_item=update)
