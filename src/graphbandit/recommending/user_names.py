"""`UserNames`: the users of a recommender and their edges before its policy is built."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, Unpack

from scipy import sparse

from .. import graphs
from ..graph import UserGraph
from ..tables import Reading


class UserNames:
    """Ids of users as text, whether they were integers, and the edges among the first of them."""

    def __init__(self, graph: UserGraph | None = None) -> None:
        ids = () if graph is None else graph.ids or range(graph.n_users)
        self.names = [str(name) for name in ids]
        self.are_integers: bool | None = None if graph is None else all(isinstance(name, int) for name in ids)
        self._adjacency = None if graph is None else graph.adjacency
        self._known = set(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def adopt(self, are_integers: bool) -> None:
        """Take from events whether ids are integers, if no graph has said so."""
        if self.are_integers is None:
            self.are_integers = are_integers

    def add(self, names: Iterable[str]) -> None:
        """Append those who are new."""
        for name in names:
            if name not in self._known:
                self._known.add(name)
                self.names.append(name)

    def graph(self) -> UserGraph:
        """Return the edges, with all users as rows; one spare row if there is no user yet, as a graph needs one."""
        n = max(1, len(self.names))
        if self._adjacency is None:
            return graphs.empty(n)
        if n == self._adjacency.shape[0]:
            return UserGraph(self._adjacency)
        bigger = sparse.csr_array(self._adjacency, copy=True)
        bigger.resize((n, n))
        return UserGraph(bigger)

    def out(self, name: str) -> Hashable:
        """Return the id as it came: an integer if all of them were."""
        return int(name) if self.are_integers and name.lstrip("-").isdecimal() else name


def read_users(graph: Any, **reading: Unpack[Reading]) -> UserNames:
    """Return the users of a graph in any form: a UserGraph, a NetworkX graph, a table of edges, or None."""
    if graph is None:
        return UserNames()
    if not isinstance(graph, UserGraph):
        graph = graphs.from_networkx(graph) if hasattr(graph, "is_directed") else graphs.read_edges(graph, **reading)
    return UserNames(graph)
