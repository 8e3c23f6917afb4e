"""Rounds that were recorded, or made by another program, with contexts of their own in every round."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from scipy import sparse

from ..compute.arrays import Floats, Indices
from ..graph import UserGraph
from ..storage import archive
from ..validate import as_floats
from .rounds import CELLS_PER_BLOCK, Rounds, checked_graph, finite_matrix, streams


class Recorded:
    """Recorded rounds: in round t the user `user[t]` is offered arms with the features `contexts[t]`.

    The reward of every arm on offer has to be known, because a policy may choose any of them. For a log with the reward
    of the chosen arm only, see `graphbandit evaluate`.

    Parameters
    ----------
    user : (T,) sequence
        The user of each round: a row of the graph, or an id.
    contexts : (T, m, d) array
        The features of the m arms on offer in each round.
    rewards : (T, m) array
        What each of these arms would earn.
    graph : UserGraph
    shuffle : bool
        Let the seed draw the order of the rounds. By default every seed has the recorded order.

    Notes
    -----
    The rows of the catalogue `arms` are the contexts of all rounds, one after the other. As items they appear in one round
    each, so policies that work on the catalogue (spectral ones) or learn effects of items gain nothing here.

    Examples
    --------
    >>> from graphbandit import LinUCB, graphs, simulate
    >>> contexts = np.random.default_rng(0).normal(size=(100, 4, 3))
    >>> env = Recorded(np.arange(100) % 2, contexts, contexts @ [1.0, 0.0, -1.0], graphs.complete(2))
    >>> env
    Recorded(UserGraph(n_users=2, n_edges=1), 100 rounds, 4 arms on offer, dim=3)
    >>> bool(simulate(LinUCB(env.graph, env.dim), env, 100).regret[-1] < 30)
    True
    """

    def __init__(
        self, user: npt.ArrayLike, contexts: npt.ArrayLike, rewards: npt.ArrayLike, graph: UserGraph, *, shuffle: bool = False
    ) -> None:
        self.graph, self.shuffle = checked_graph(graph), bool(shuffle)
        self.user: Indices = np.array([graph.check_user(one) for one in np.asarray(user).tolist()], dtype=np.int32)
        features = as_floats(contexts, "contexts")
        if features.ndim != 3 or features.shape[:2] != np.shape(rewards) or len(self.user) != len(features):
            raise ValueError(
                "user, contexts and rewards must have the shapes (T,), (T, m, d) and (T, m) for T rounds of m arms, "
                f"but they are {self.user.shape}, {features.shape} and {np.shape(rewards)}."
            )
        self.rewards: Floats = finite_matrix(rewards, "rewards")
        self.arms: Floats = finite_matrix(features.reshape(-1, features.shape[2]), "contexts")

    def __repr__(self) -> str:
        return f"Recorded({self.graph!r}, {len(self.user):,} rounds, {self.rewards.shape[1]} arms on offer, dim={self.dim})"

    @property
    def dim(self) -> int:
        """Number of features of an arm."""
        return int(self.arms.shape[1])

    def rounds(self, horizon: int, seed: int | np.random.Generator) -> Iterator[Rounds]:
        """Yield the first `horizon` rounds in blocks, fewer if fewer were recorded.

        A longer horizon starts with the same rounds.
        """
        n, m = self.rewards.shape
        order = streams(seed, "order")[0].permutation(n) if self.shuffle else np.arange(n)
        block = max(1, CELLS_PER_BLOCK // m)
        for begin in range(0, min(horizon, n), block):
            now = order[begin : min(begin + block, horizon)]
            pool = (now[:, None] * m + np.arange(m)).astype(np.int32)
            yield Rounds(self.user[now], pool, self.rewards[now], np.zeros(len(now)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write users, contexts, rewards and graph to one `.npz` file, without pickle."""
        edges = self.graph.adjacency.tocoo()
        arrays: archive.Arrays = {"user": self.user, "contexts": self.arms, "rewards": self.rewards}
        arrays |= {"from": edges.coords[0], "to": edges.coords[1], "weight": edges.data}
        archive.write(path, "recorded", {"n_users": self.graph.n_users}, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, shuffle: bool = False) -> Recorded:
        """Return the rounds that `save` wrote; the ids of users are their rows."""
        header, arrays = archive.read(path, "recorded")
        n, rewards = header["n_users"], arrays["rewards"]
        graph = UserGraph(sparse.csr_array((arrays["weight"], (arrays["from"], arrays["to"])), shape=(n, n)))
        return cls(arrays["user"], arrays["contexts"].reshape(*rewards.shape, -1), rewards, graph, shuffle=shuffle)
