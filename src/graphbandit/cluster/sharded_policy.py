"""`ShardedPolicy`: one policy whose users are divided among Ray actors."""

from __future__ import annotations

import tempfile
from collections.abc import Hashable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ..compute.arrays import Floats, Ints
from ..graph import UserGraph
from ..live_graph import Edges, LiveGraph
from ..policies.core import graph_changes
from ..policies.core.decisions import Rankings, Requests
from ..sharding import check_shardable, local_view, partition
from ..validate import NO_ITEMS, check, check_features, check_items, check_observations, check_places, count
from .exchanges import Asked, Exchanges, Traffic
from .policy_actor import Change, ExchangeResult, NewShard, SavedShard
from .ray_session import import_ray, join_ray
from .shard_handle import ShardHandle
from .sharded_folder import FolderHeader, read_folder, write_folder

EXCHANGE_EVERY = 1000
"""Observations after which shards exchange what neighbours read."""
SETTLING_ROUNDS = 1000
LOCAL_TOLERANCE = 1e-9


class ShardedPolicy:
    """A policy for more users than one process or machine holds.

    Every shard is a Ray actor with an ordinary policy over its own users and, as ghosts, their
    neighbours in other shards. What neighbours read is exchanged after every `exchange_every`
    observations or `exchange_seconds`: in between, what a user's estimate knows of neighbours in
    other shards is as old as that, and nothing else is. A shard whose process is killed is restored.
    One caller at a time.

    Parameters
    ----------
    name : {"linucb", "lints", "graphucb", "graphucb-local", "adaptive"}
    graph : UserGraph
    dim : int
        Number of features.
    shards : int
    settings : mapping, optional
        Of the policy.
    address : str, optional
        Of a running Ray cluster; one is started on this machine by default.
    exchange_every, exchange_seconds : int, float
        Whichever comes first.
    folder : path, optional
        For the snapshots from which shards are restored, on a disk that all machines share. A temporary folder by default.
    seed : int

    Examples
    --------
    >>> from graphbandit import graphs
    >>> from graphbandit.cluster import ShardedPolicy
    >>> with ShardedPolicy("graphucb", graphs.from_edges([(0, 1), (1, 2), (2, 3)]), 1, shards=2) as policy:  # doctest: +SKIP
    ...     policy.update_many([0, 3], [[1.0], [1.0]], [1.0, 0.5])
    ...     policy.settle()
    ...     policy.theta.round(2).ravel().tolist()
    [0.98, 0.84, 0.66, 0.5]
    """

    def __init__(
        self,
        name: str,
        graph: UserGraph,
        dim: int,
        *,
        shards: int = 2,
        settings: Mapping[str, Any] | None = None,
        address: str | None = None,
        exchange_every: int = EXCHANGE_EVERY,
        exchange_seconds: float = float("inf"),
        folder: str | Path | None = None,
        seed: int = 0,
    ) -> None:
        needed = check_shardable(name, settings or {})
        if not isinstance(graph, UserGraph):
            raise ValueError(f"graph must be a UserGraph (see graphbandit.graphs), but it is a {type(graph).__name__}.")
        divided = partition(graph, shards)
        self._header = FolderHeader(name, int(dim), needed, shards, divided.method, exchange_every, exchange_seconds)
        self._begin_with(graph, divided.shard_of, folder, seed)
        self._start(address, lambda number: NewShard(name, self.dim, needed, self._view(number), number, shards, graph.n_users))

    def _begin_with(self, graph: UserGraph, shard_of: Ints, folder: str | Path | None, seed: int) -> None:
        check("exchange_every", self._header.exchange_every, count())
        self._graph = LiveGraph(graph)
        self._shard_of = np.array(shard_of, dtype=np.int64)
        self.rng = np.random.default_rng(seed)
        self._table: tuple[Any, Any] = (None, None)
        self._holders: dict[int, int] = {}  # the shards that have the table, and how often they had been restored then
        self._temporary = tempfile.TemporaryDirectory(prefix="graphbandit-") if folder is None else None
        self._folder = Path(self._temporary.name if self._temporary is not None else folder or ".")
        self._folder.mkdir(parents=True, exist_ok=True)

    def _view(self, number: int) -> Any:
        return local_view(self._graph.frozen(), self._shard_of, number)

    def _start(self, address: str | None, begin: Any) -> None:
        self._is_ours = join_ray(address)
        options = {"num_cpus": 0}
        self.shards = [ShardHandle(number, begin(number), self._folder, options) for number in range(self._header.shards)]
        self._exchanges = Exchanges(self.shards, self._header.exchange_every, self._header.exchange_seconds)

    # What it is

    @property
    def dim(self) -> int:
        """Number of features."""
        return self._header.dim

    @property
    def n_users(self) -> int:
        """Number of users now."""
        return self._graph.n_users

    @property
    def graph(self) -> UserGraph:
        """The graph of all users as it is now."""
        return self._graph.frozen()

    @property
    def shard_of(self) -> Ints:
        """(n_users,) the shard of every user."""
        return self._shard_of.copy()

    @property
    def cut_share(self) -> float:
        """The share of the edges between users of different shards."""
        adjacency = self.graph.adjacency
        rows = np.repeat(np.arange(self.n_users), np.diff(adjacency.indptr))
        return float(np.count_nonzero(self._shard_of[rows] != self._shard_of[adjacency.indices]) / max(1, adjacency.nnz))

    @property
    def actors(self) -> list[Any]:
        """The Ray actors, for whoever sends them observations by himself; see `exchange`."""
        self._exchanges.catch_up()
        return [shard.actor for shard in self.shards]

    @property
    def traffic(self) -> Traffic:
        """What shards have sent each other so far."""
        return self._exchanges.traffic

    @property
    def theta(self) -> Floats:
        """(n_users, dim) the current estimate for every user."""
        references = [shard.read("estimates") for shard in self.shards]
        out = np.zeros((self.n_users, self.dim))
        for shard, reference in zip(self.shards, references, strict=True):
            users, estimates = shard.answer(reference, "estimates")
            out[users] = estimates
        return out

    def estimates(self, users: npt.ArrayLike) -> Floats:
        """(k, dim) the estimates of these users."""
        who = np.array([self._graph.check_user(user) for user in np.atleast_1d(np.asarray(users)).tolist()], dtype=np.int64)
        out = np.zeros((len(who), self.dim))
        for shard, places in self._by_shard(who):
            out[places] = shard.answer(shard.read("estimates", who[places]), "estimates", who[places])[1]
        return out

    def _by_shard(self, users: Ints) -> Iterator[tuple[ShardHandle, Ints]]:
        """The shards of these users, each with the places of its own, in order."""
        of = self._shard_of[users]
        for number in np.unique(of).tolist():
            yield self.shards[number], np.flatnonzero(of == number)

    # Decisions

    def decide_many(self, requests: Requests, rng: np.random.Generator, luck: Floats | None = None) -> Rankings:
        """`Policy.decide_many`. Nothing is checked. A table is sent once: give another array if its numbers are to change."""
        offered = len(requests.rows)
        luck = rng.random(offered) if luck is None else luck
        seeds = rng.integers(2**63, size=2).tolist()
        ranked = Rankings(np.zeros(offered, np.int64), np.empty(offered), np.empty(offered), np.empty(len(requests.users)))
        table, asked = self._stored(requests.table), []
        for shard, places in self._by_shard(requests.users):
            cells = _cells(requests.start, places)
            start = np.concatenate([[0], np.cumsum(requests.start[places + 1] - requests.start[places])])
            part = requests._replace(
                users=requests.users[places], rows=requests.rows[cells], start=start, places=requests.places[places]
            )
            part, rest = part._replace(table=np.empty((0, self.dim))), ([*seeds, shard.number], luck[cells])
            holds = self._holders.get(shard.number) == shard.restarts
            self._holders[shard.number] = shard.restarts
            reference = shard.read("decide_many", part, None if holds else table, *rest)
            asked.append((shard, places, cells, (part, table, *rest), reference))
        for shard, places, cells, arguments, reference in asked:
            found = shard.answer(reference, "decide_many", *arguments)
            ranked.order[cells], ranked.mean[cells], ranked.bonus[cells] = found.order, found.mean, found.bonus
            ranked.propensity[places] = found.propensity
        return ranked

    def _stored(self, table: Floats) -> Any:
        """The table in the object store; the same one is put there once."""
        if self._table[0] is not table:
            self._table, self._holders = (table, import_ray().put(table)), {}
        return self._table[1]

    def rank(self, user: int, arms: npt.ArrayLike, k: int, *, items: npt.ArrayLike | None = None) -> Ints:
        """The `k` best rows of `arms` for `user`, best first; ties in random order."""
        who, features = self._graph.check_user(user), check_features(arms, self.dim)
        ids = check_items(items, len(features))
        check_places(k, len(features))
        rows = np.arange(len(features))
        request = Requests(
            np.array([who]), features, rows, np.array([0, len(rows)]), np.array([k]), ids if items is not None else NO_ITEMS
        )
        return self.decide_many(request, self.rng).order[:k]

    def recommend(self, user: int, arms: npt.ArrayLike, *, items: npt.ArrayLike | None = None) -> int:
        """The row of `arms` to show to `user` now."""
        return int(self.rank(user, arms, 1, items=items)[0])

    # Learning

    def update(self, user: int, x: npt.ArrayLike, reward: float) -> None:
        """Learn one reward; `update_many` costs little more."""
        self.update_many([user], np.atleast_2d(np.asarray(x)), [reward])

    def update_many(
        self, users: npt.ArrayLike, X: npt.ArrayLike, rewards: npt.ArrayLike, *, items: npt.ArrayLike | None = None
    ) -> None:
        """Learn a batch, and exchange if it is time. Whatever is asked next is answered by shards that have learned it."""
        who, features, values = check_observations(users, X, rewards, self.dim, self.n_users, self._graph.check_user)
        ids = check_items(items, len(who))
        known = ids if items is not None else None
        is_due = self._exchanges.count(len(who))
        asked: Asked = self._exchanges.asked() if is_due else [{} for _ in self.shards]
        begun = []
        for shard, places in self._by_shard(who):
            part = (who[places], features[places], values[places], None if known is None else known[places])
            readers = asked[shard.number]
            if readers:  # what they ask for travels with the answer
                begun.append((shard, shard.change("update_and_tell", readers, *part, n_results=len(readers) + 1)))
            else:
                shard.change_later("update_many", *part)
        sent: dict[int, list[Any]] = {}
        for shard, (first, *references) in begun:
            restarts = shard.restarts
            shard.result(first)
            if shard.restarts == restarts:  # else it is asked next time
                sent[shard.number] = references
        if is_due:
            self._exchanges.run_later(asked, sent)

    def exchange(self) -> ExchangeResult:
        """Let every shard take what it does not know of the others; returns what that came to."""
        return self._exchanges.run(self._exchanges.asked(), {})

    def settle(self, tolerance: float = LOCAL_TOLERANCE) -> int:
        """Exchange until nothing changes by more than the tolerance; returns how many exchanges that took.

        GraphUCB has a tolerance of its own, that of the push solver. Under a local rule a user's
        estimate changes only when it is served. Here all users take steps until none moves by more
        than `tolerance`: to the fixed point of the rule, which does not depend on how users are
        divided.
        """
        is_local = self._header.policy in ("graphucb-local", "adaptive")
        for rounds in range(1, SETTLING_ROUNDS + 1):
            taken = self.exchange()
            moved = 0.0
            if is_local:
                begun = [(shard, shard.change("relax")) for shard in self.shards]
                moved = max(shard.result(reference) for shard, reference in begun)
            if not taken.messages and moved <= tolerance:
                return rounds
            if is_local and moved <= tolerance and taken.change <= tolerance:
                return rounds
        return SETTLING_ROUNDS

    # Users and edges

    def add_user(self, edges: Edges = (), *, id: Hashable | None = None) -> int:
        """Take in a new user and return its index; it joins the shard where it has most neighbours, else the smallest."""
        weights = self._graph.check_edges(edges)
        self._graph.check_id(id)
        by_shard = np.zeros(len(self.shards))
        for other, weight in weights.items():
            by_shard[self._shard_of[other]] += weight
        sizes = np.bincount(self._shard_of, minlength=len(self.shards))
        owner = int(np.argmax(by_shard)) if by_shard.any() else int(np.argmin(sizes))
        user = self._graph.add_user(id)
        self._shard_of = np.append(self._shard_of, owner)
        self._change({owner: [("join", user, owner)]})
        self._put_edges([(user, other, weight) for other, weight in weights.items()])
        return user

    def add_edge(self, i: int, j: int, weight: float = 1.0) -> None:
        """Join two users who are not joined yet."""
        self._put_edges([graph_changes.new_edge(self._graph, i, j, weight)])

    def set_weight(self, i: int, j: int, weight: float) -> None:
        """Change the weight of an edge."""
        self._put_edges([graph_changes.changed_edge(self._graph, i, j, weight)])

    def remove_edge(self, i: int, j: int) -> None:
        """Part two users who are joined."""
        self._put_edges([graph_changes.removed_edge(self._graph, i, j)])

    def remove_user(self, user: int) -> None:
        """Remove a user's data and edges. The index stays that of a user without data or edges."""
        who = self._graph.check_user(user)
        neighbours = self._graph.neighbours(who)
        shards = {int(self._shard_of[other]) for other in (who, *neighbours)}
        for other in neighbours:
            self._graph.put(who, other, 0.0)
        self._change({number: [("remove", who)] for number in shards})

    def remove_item(self, item: int) -> None:
        """Forget the effect of an item everywhere."""
        check("item", item, count(0))
        self._change({number: [("item", int(item))] for number in range(len(self.shards))})

    def _put_edges(self, edges: list[tuple[int, int, float]]) -> None:
        changes: dict[int, list[Change]] = {}
        for i, j, weight in edges:
            self._graph.put(i, j, weight)
            one, other = int(self._shard_of[i]), int(self._shard_of[j])
            for number in sorted({one, other}):
                ghost = [] if one == other else [("join", j, other) if number == one else ("join", i, one)]
                changes.setdefault(number, []).extend([*ghost, ("edge", i, j, weight)])
        self._change(changes)

    def _change(self, changes: dict[int, list[Change]]) -> None:
        """Change several shards. All calls are kept before the first one begins: a shard that is lost in between makes the
        change when it is restored."""
        begun = [(self.shards[number], self.shards[number].change("change", entry)) for number, entry in changes.items()]
        for shard, reference in begun:
            shard.result(reference)
        for number in changes:
            self._exchanges.look_up_sources(number)

    # Files

    def save(self, folder: str | Path) -> None:
        """Write everything to a folder, which is complete as soon as its `cluster.json` is there."""
        write_folder(Path(folder), self._header, self.graph, self._shard_of, self.shards)

    @classmethod
    def load(cls, folder: str | Path, *, address: str | None = None, seed: int = 0) -> Self:
        """The policy in a folder that `save` wrote."""
        saved = read_folder(Path(folder))
        policy = cls.__new__(cls)
        policy._header = saved.header
        policy._begin_with(saved.graph, saved.shard_of, None, seed)
        policy._start(address, lambda number: SavedShard(saved.header.policy, str(saved.files[number])))
        return policy

    def close(self) -> None:
        """End the actors, and Ray if it was started here."""
        ray = import_ray()
        for shard in self.shards:
            ray.kill(shard.actor)
        if self._is_ours:
            ray.shutdown()
        if self._temporary is not None:
            self._temporary.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"ShardedPolicy({self._header.policy!r}, n_users={self.n_users}, dim={self.dim}, shards={len(self.shards)})"


def _cells(start: Ints, places: Ints) -> Ints:
    """The positions of the candidates of these requests, one after the other."""
    if not len(places):
        return np.zeros(0, np.int64)
    return np.concatenate([np.arange(start[place], start[place + 1]) for place in places.tolist()])
