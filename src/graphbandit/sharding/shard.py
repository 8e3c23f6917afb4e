"""`Shard`: an ordinary policy over the users of one shard and the ghosts that border on them.

A ghost is a row of a user of another shard. Its values are those that its own shard has told; nothing that is learned here
changes them. What is summed over all users is, in the policy of every shard, the total: its own part, which no other shard
changes, and what the others have told of theirs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from ..compute.arrays import Floats, Ints
from ..policies import Policy, Removal
from ..policies.core.item_sums import BY_ITEM
from ..storage.archive import Arrays
from .published import DEGREE, Published, array_of
from .values import Key, RowsOfUsers, Values

USERS = "users"
"""Among the sums of a message: how many users the shard has."""


class TakenVersion(NamedTuple):
    """How far the values of another shard have been taken."""

    epoch: int = -1
    version: int = 0  # everything up to here
    sums: int = 0  # version of its sums


class Shard:
    """A policy, which of its rows are ghosts, and what is exchanged with other shards.

    The state of the policy depends only on the changes and on the calls of `take`, in their order: neither on how many rewards
    are learned in one call, nor on how often others ask for values.

    Parameters
    ----------
    policy : Policy
        Over the local graph, as `local_view` returns it; see `shardable` for which.
    number, n_shards : int
    keys, owners : sequences
        For each row, the user in all shards and the shard that it belongs to.
    n_users : int
        Of all shards.
    degrees : array, optional
        D_i of each row in the whole graph, for a policy that has learned nothing yet.
    epoch : int
        Larger at every start.

    Examples
    --------
    >>> from graphbandit import LinUCB, graphs
    >>> from graphbandit.sharding import Shard, local_view
    >>> graph, shard_of = graphs.from_edges([(0, 1)]), np.array([0, 1])
    >>> views = [local_view(graph, shard_of, number) for number in (0, 1)]
    >>> left, right = (
    ...     Shard(LinUCB(view.graph, 1, radius="log"), number, 2, view.users.tolist(), view.owners, n_users=2)
    ...     for number, view in enumerate(views)
    ... )
    >>> left.update_many([0], [[1.0]], [1.0])
    >>> _ = right.take(left.values_for(1, *right.asks(0)))
    >>> int(right.policy.state.rounds[0])  # all shards together
    1
    """

    def __init__(
        self,
        policy: Policy,
        number: int,
        n_shards: int,
        keys: Sequence[Key],
        owners: npt.ArrayLike,
        *,
        n_users: int,
        degrees: Floats | None = None,
        epoch: int = 0,
    ) -> None:
        self.policy, self.number, self.n_shards, self.epoch = policy, number, n_shards, epoch
        self.keys = list(keys)
        self.rows = {key: row for row, key in enumerate(self.keys)}
        self.owners: Ints = np.array(owners, dtype=np.int64)
        self._n_users = n_users
        self._degrees = np.ones(len(self.keys)) if degrees is None else np.array(degrees, dtype=np.float64)
        self._versions: dict[str, Ints] = {name: np.zeros(len(self.keys), np.int64) for name in policy.neighbour_rows()}
        self._taken: dict[int, TakenVersion] = {}
        self._foreign: dict[int, dict[str, Floats]] = {}  # what others have told of their sums
        self._own: dict[str, Floats] = {}  # the own part of the sums, and
        self._totals: dict[str, Floats] = {}  # the totals of all shards, when they were last written to the policy
        if degrees is not None:
            self._hold(np.flatnonzero(self.owners != number))
        self._published = Published(policy, self._find_borders(), is_fresh=degrees is not None)

    def _find_borders(self) -> dict[int, set[int]]:
        """For each other shard, the rows of own users who have a neighbour there."""
        adjacency = self.policy.graph.adjacency
        rows = np.repeat(np.arange(len(self.keys)), np.diff(adjacency.indptr))
        own, other = self.owners[rows], self.owners[adjacency.indices]
        crossing = (own == self.number) & (other != self.number)
        rows, other = rows[crossing], other[crossing]
        return {reader: set(rows[other == reader].tolist()) for reader in np.unique(other).tolist()}

    def owns(self, row: int) -> bool:
        """Whether the user of a row belongs to this shard; the others are ghosts."""
        return bool(self.owners[row] == self.number)

    @property
    def own_rows(self) -> Ints:
        """The rows of own users."""
        return np.flatnonzero(self.owners == self.number)

    @property
    def n_users(self) -> int:
        """Users of all shards, as far as it is known here."""
        if len(self._foreign) < self.n_shards - 1:
            return self._n_users
        return len(self.own_rows) + int(sum(sums[USERS][0] for sums in self._foreign.values()))

    # Changes. Whoever changes the policy says so.

    def joined(self, key: Key, owner: int) -> int:
        """The policy has a new last row, that of this user; returns the row. If the user is a ghost, it is held."""
        row = len(self.keys)
        self.keys.append(key)
        self.rows[key] = row
        self.owners = np.append(self.owners, owner)
        self._degrees = np.append(self._degrees, 1.0)
        for name, versions in self._versions.items():
            self._versions[name] = np.append(versions, 0)
        self._published.grow()
        if owner != self.number:
            self._hold(np.array([row]))
        self._restore_sums()
        return row

    def changed(self, rows: Iterable[int] | Ints, *, edges: bool = False) -> None:
        """The data of these rows have changed, or their edges."""
        who = np.unique(np.fromiter((int(row) for row in rows), dtype=np.int64))
        is_own = self.owners[who] == self.number
        self._published.touch(who[is_own])
        if edges:
            for row in who[is_own].tolist():
                others = {int(self.owners[other]) for other in self.policy.live_graph.neighbours(row)}
                self._published.borders_changed(row, others - {self.number})
            self._hold(who[~is_own])  # the degree of a ghost is not the sum of the edges that are known here
            self._restore_sums()

    def _hold(self, ghosts: Ints) -> None:
        if len(ghosts):
            self.policy.hold_users(ghosts)
            for name in self._versions:
                if name.endswith(DEGREE):
                    array_of(self.policy, name)[ghosts] = self._degrees[ghosts]

    def update_many(
        self, rows: npt.ArrayLike, X: npt.ArrayLike, rewards: npt.ArrayLike, items: npt.ArrayLike | None = None
    ) -> None:
        """Learn rewards of own users."""
        self.policy.update_many(rows, X, rewards, items=items)
        self._published.touch(np.unique(np.asarray(rows, dtype=np.int64)))

    def add_user(self, key: Key, owner: int) -> int:
        """The row of a user, who joins without edges if it is new."""
        if key in self.rows:
            return self.rows[key]
        self.policy.add_user()
        return self.joined(key, owner)

    def set_edge(self, row: int, other: int, weight: float) -> None:
        """Give the edge between two rows a weight, 0 for none."""
        self.policy.change_edges([(row, other, float(weight))])
        self.changed([row, other], edges=True)

    def remove_user(self, row: int) -> Removal:
        """Remove a user's data and edges; of a ghost, its edges."""
        neighbours = self.policy.live_graph.neighbours(row)
        if self.owns(row):
            removal = self.policy.remove_user(row)
        else:
            self.policy.change_edges([(row, other, 0.0) for other in neighbours])
            removal = Removal(0, np.array(neighbours, dtype=np.int64), np.zeros(len(neighbours)))
        self.changed([row, *neighbours], edges=True)
        return removal

    def remove_item(self, item: int) -> None:
        """Forget the effect of an item, also what others have told of it; they have to forget it, too."""
        self.policy.remove_item(item)
        for sums in (self._own, self._totals, *self._foreign.values()):
            for name in BY_ITEM:
                if name in sums and item < len(sums[name]):
                    sums[name] = sums[name].copy()
                    sums[name][item] = 0.0

    def relax(self) -> float:
        """One step of every own user towards the fixed point of a local rule; returns the largest change."""
        names = [name for name in self._versions if not name.endswith(DEGREE)]
        before = {name: array_of(self.policy, name).copy() for name in names}
        own = self.own_rows
        self.policy.follow_graph(own, [])
        self._restore_sums()
        self._published.touch(own)
        moved = (np.abs(array_of(self.policy, name) - before[name]).max(initial=0.0) for name in names)
        return float(max(moved, default=0.0))

    # Exchange.

    def tell_all(self) -> None:
        """Tell the readers everything anew, also rows that are as at the beginning. The policy does not change.

        A state may go back: a reward that was taken back leaves a row as if it had never been told.
        """
        self._published.forget_told()

    def readers(self) -> set[int]:
        """The shards that read from this one."""
        return self._all_others() if self.policy.sums() else self._published.readers() if self._versions else set()

    def sources(self) -> set[int]:
        """The shards that this one reads from."""
        owners = set(np.unique(self.owners).tolist()) - {self.number} if self._versions else set()
        return self._all_others() if self.policy.sums() else owners

    def _all_others(self) -> set[int]:
        return set(range(self.n_shards)) - {self.number}

    def asks(self, source: int) -> tuple[int, int]:
        """Epoch and version up to which everything of another shard was taken: what to ask it with."""
        taken = self._taken.get(source, TakenVersion())
        return taken.epoch, taken.version

    def values_for(self, reader: int, epoch: int = -1, since: int = 0) -> Values:
        """What a reader does not know, who has taken everything up to `since`. The policy does not change."""
        since = since if epoch == self.epoch else 0
        own = self._own_sums()
        self._published.refresh(own | {USERS: np.array([float(len(self.own_rows))])} if own else {})
        parts: dict[str, RowsOfUsers] = {}
        for name in self._versions:
            rows, versions = self._published.rows_after(name, reader, since)
            if len(rows):
                keys = [self.keys[row] for row in rows.tolist()]
                parts[name] = RowsOfUsers(keys, versions, array_of(self.policy, name)[rows].copy())
        version = self._published.version
        return Values(self.number, self.epoch, since, version, parts, self._published.sums_after(since))

    def take(self, values: Values) -> float:
        """Take the values of another shard; returns the largest change of a value. Older ones than are known do nothing."""
        source, taken = values.source, self._taken.get(values.source, TakenVersion())
        if source == self.number or values.epoch < taken.epoch:
            return 0.0
        if values.epoch > taken.epoch:
            taken = TakenVersion(values.epoch)
            for versions in self._versions.values():
                versions[self.owners == source] = 0
        if values.sums and values.version > taken.sums:
            own = self._own_sums()
            self._foreign[source] = values.sums
            taken = taken._replace(sums=values.version)
            self._write_sums(own)
        # A user who is not known yet becomes a neighbour in a moment: the same is to be told again.
        knows_all = all(key in self.rows for part in values.parts.values() for key in part.keys)
        if values.since <= taken.version and knows_all:
            taken = taken._replace(version=max(taken.version, values.version))
        self._taken[source] = taken
        largest, ghosts = 0.0, []
        for name, part in values.parts.items():
            rows, change = self._take_part(source, name, part)
            largest = max(largest, change)
            if len(rows):
                ghosts.append(rows)
        if ghosts:
            self.policy.follow_neighbours(np.unique(np.concatenate(ghosts)))
        return largest

    def _take_part(self, source: int, name: str, part: RowsOfUsers) -> tuple[Ints, float]:
        """Replace rows of one array; returns those that were replaced, and the largest change."""
        rows = np.array([self.rows.get(key, -1) for key in part.keys], dtype=np.int64)
        versions = self._versions[name]
        is_new = (rows >= 0) & (self.owners[rows] == source) & (part.versions > versions[rows])
        rows, values = rows[is_new], part.values[is_new]
        array = array_of(self.policy, name)
        change = float(np.abs(array[rows] - values).max(initial=0.0))
        array[rows], versions[rows] = values, part.versions[is_new]
        if name.endswith(DEGREE):
            self._degrees[rows] = values
        return rows, change

    # Sums over all users.

    def _own_sums(self) -> dict[str, Floats]:
        """This shard's part: what it was when the total was last written, and by how much the total has changed since.

        Not the total without the others' parts: rounding would change that with every message.
        """
        now = self.policy.sums()
        if not self._own:
            return now
        return {name: _plus(self._own[name], _plus(total, -self._totals[name])) for name, total in now.items()}

    def _write_sums(self, own: dict[str, Floats]) -> None:
        totals = own
        for source in sorted(self._foreign):
            totals = {name: _plus(totals[name], self._foreign[source][name]) for name in own}
        self.policy.take_sums(totals, self.n_users)
        self._own, self._totals = own, self.policy.sums()

    def _restore_sums(self) -> None:
        """Tell the policy again of how many users there are, after its own number has changed."""
        if self._foreign:
            self._write_sums(self._own_sums())

    # Files.

    def pack(self) -> tuple[dict[str, Any], Arrays]:
        """Header and arrays, as of a policy."""
        header, arrays = self.policy.pack()
        taken = {str(source): list(entry) for source, entry in self._taken.items()}
        own = dict(number=self.number, n_shards=self.n_shards, n_users=self._n_users, epoch=self.epoch, taken=taken)
        packed: Arrays = {f"policy.{name}": np.array(array) for name, array in arrays.items()}
        packed |= {"owners": self.owners, "degrees": self._degrees}
        packed["keys"] = np.frombuffer(json.dumps(self.keys).encode(), dtype=np.uint8)
        packed |= {f"versions.{name}": versions.copy() for name, versions in self._versions.items()}
        for prefix, sums in (("own", self._own), ("totals", self._totals), *self._foreign.items()):
            packed |= {f"sums.{prefix}.{name}": array for name, array in sums.items()}
        return {"policy": header, "shard": own}, packed

    @classmethod
    def unpack(cls, kind: type[Policy], header: dict[str, Any], arrays: Arrays, *, epoch: int | None = None) -> Self:
        """The shard that `pack` gave header and arrays of, in the next epoch unless one is given."""
        inner = {name.removeprefix("policy."): array for name, array in arrays.items() if name.startswith("policy.")}
        policy, own = kind.unpack(header["policy"], inner), header["shard"]
        shard = cls(
            policy,
            own["number"],
            own["n_shards"],
            json.loads(arrays["keys"].tobytes()),
            arrays["owners"],
            n_users=own["n_users"],
            epoch=own["epoch"] + 1 if epoch is None else epoch,
        )
        shard._degrees = np.array(arrays["degrees"])
        shard._taken = {int(source): TakenVersion(*entry) for source, entry in own["taken"].items()}
        shard._versions = {name: np.array(arrays[f"versions.{name}"]) for name in shard._versions}
        shard._own, shard._totals = _unpack_sums(arrays, "own"), _unpack_sums(arrays, "totals")
        found = {source: _unpack_sums(arrays, source) for source in shard._taken}
        shard._foreign = {source: sums for source, sums in found.items() if sums}
        return shard


def _unpack_sums(arrays: Arrays, name: int | str) -> dict[str, Floats]:
    prefix = f"sums.{name}."
    return {key.removeprefix(prefix): array for key, array in arrays.items() if key.startswith(prefix)}


def _plus(one: Floats, other: Floats) -> Floats:
    """one + other; the shorter one has zeros at its end."""
    if one.shape == other.shape:
        return one + other
    total = np.zeros((max(len(one), len(other)), *one.shape[1:]))
    total[: len(one)] += one
    total[: len(other)] += other
    return total
