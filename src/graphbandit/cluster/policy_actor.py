"""`PolicyActor`: one shard of a policy, in a process of its own. It knows users by their number in the whole graph."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..compute.arrays import Floats, Ints
from ..policies.core.decisions import Rankings, Requests
from ..policies.core.policy_file import plain_ids
from ..sharding import LocalView, Shard, Values, shard_policy
from ..storage import archive
from .sharded_folder import POLICY_FILE

KIND = "shard"
"""Of the file of one shard."""

Change = tuple[Any, ...]
"""("join", user, shard), ("edge", user, user, weight), ("remove", user) or ("item", id)."""


class NewShard(NamedTuple):
    """What a shard begins with."""

    policy: str
    dim: int
    settings: dict[str, Any]
    view: LocalView
    number: int
    n_shards: int
    n_users: int

    def make(self, epoch: int) -> Shard:
        """The shard before the first observation."""
        view = self.view
        policy = shard_policy(self.policy)(view.graph, self.dim, **self.settings)
        return Shard(
            policy,
            self.number,
            self.n_shards,
            view.users.tolist(),
            view.owners,
            n_users=self.n_users,
            degrees=view.degrees,
            epoch=epoch,
        )


class SavedShard(NamedTuple):
    """The file of a shard."""

    policy: str
    path: str

    def make(self, epoch: int) -> Shard:
        """The shard in the file, which is that of an ordinary policy if there is only one."""
        if Path(self.path).name == POLICY_FILE:
            policy = shard_policy(self.policy).load(self.path)
            n = policy.n_users
            return Shard(policy, 0, 1, list(range(n)), np.zeros(n, np.int64), n_users=n, epoch=epoch)
        header, arrays = archive.read(self.path, KIND)
        return Shard.unpack(shard_policy(self.policy), header, arrays, epoch=epoch)


class ExchangeResult(NamedTuple):
    """What became of an exchange."""

    asks: dict[int, tuple[int, int]]  # for each source, what to ask it with next time
    messages: int  # that had something new in them
    n_bytes: int
    change: float  # the largest

    def plus(self, other: ExchangeResult) -> ExchangeResult:
        """Of two shards together."""
        return ExchangeResult({}, self.messages + other.messages, self.n_bytes + other.n_bytes, max(self.change, other.change))


class PolicyActor:
    """Runs the calls of one shard, one after the other. `ShardedPolicy` makes a Ray actor of it."""

    def __init__(self, begin: NewShard | SavedShard, epoch: int) -> None:
        from threadpoolctl import threadpool_limits

        threadpool_limits(1)  # more threads would change the order of sums
        self._shard = begin.make(epoch)
        self._table = np.empty((0, 0))

    def run(self, plan: Sequence[tuple[str, int]], *arguments: Any) -> list[Any]:
        """Make several calls in order, given their names and how many of the arguments each takes; returns all results."""
        results, first = [], 0
        for method, n_arguments in plan:
            results.append(getattr(self, method)(*arguments[first : first + n_arguments]))
            first += n_arguments
        return results

    def process(self) -> int:
        """The number of the process."""
        return os.getpid()

    def usage(self) -> tuple[float, int]:
        """Processor seconds of the process so far, and the bytes that are in memory: 0 where the system is not Linux."""
        times, memory = os.times(), Path("/proc/self/statm")
        if not memory.exists():
            return times.user + times.system, 0
        return times.user + times.system, int(memory.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")

    # Changes: these are repeated after a restart, in their order.

    def update_many(self, users: Ints, X: Floats, rewards: Floats, items: Ints | None = None) -> int:
        """Learn rewards of own users; returns how many."""
        if len(users):
            self._shard.update_many(self._rows(users), X, rewards, items)
        return len(users)

    def update_and_tell(self, asked: dict[int, tuple[int, int]], *observations: Any) -> tuple[Any, ...]:
        """`update_many` and then `values_for`, in one call."""
        self.update_many(*observations)
        return self.values_for(asked)

    def change(self, changes: Sequence[Change]) -> None:
        """Change users and edges, in this order."""
        shard = self._shard
        for kind, *arguments in changes:
            if kind == "join":
                shard.add_user(*arguments)
            elif kind == "edge":
                i, j, weight = arguments
                shard.set_edge(shard.rows[i], shard.rows[j], weight)
            elif kind == "remove":
                if arguments[0] in shard.rows:
                    shard.remove_user(shard.rows[arguments[0]])
            else:
                shard.remove_item(*arguments)

    def take(self, *values: Values) -> ExchangeResult:
        """Take the values of other shards."""
        change = max((self._shard.take(one) for one in values), default=0.0)
        sent = [one for one in values if not one.is_empty]
        asks = {one.source: self._shard.asks(one.source) for one in values}
        return ExchangeResult(asks, len(sent), sum(one.n_bytes for one in sent), change)

    def relax(self) -> float:
        """`Shard.relax`."""
        return self._shard.relax()

    # Reading.

    def sources(self) -> dict[int, tuple[int, int]]:
        """The shards that this one reads from, and what to ask them with."""
        return {source: self._shard.asks(source) for source in sorted(self._shard.sources())}

    def values_for(self, asked: dict[int, tuple[int, int]]) -> tuple[Any, ...]:
        """None, and then for each reader what it does not know."""
        return None, *(self._shard.values_for(reader, *asks) for reader, asks in asked.items())

    def decide_many(self, requests: Requests, table: Floats | None, seed: Sequence[int], luck: Floats) -> Rankings:
        """`Policy.decide_many` for own users. The table of the arms comes from the object store; None is the last one again."""
        self._table = self._table if table is None else table
        local = requests._replace(users=self._rows(requests.users), table=self._table)
        found = self._shard.policy.decide_many(local, np.random.default_rng(seed), luck)
        # Ray sends answers of up to 100 kB at once; larger ones cost it several times as much.
        return found._replace(order=found.order.astype(np.min_scalar_type(int(found.order.max(initial=0)))))

    def estimates(self, users: Ints | None = None) -> tuple[Ints, Floats]:
        """The users, all own ones by default, and their estimates."""
        rows = self._shard.own_rows if users is None else self._rows(users)
        numbers = np.array([self._shard.keys[row] for row in rows.tolist()], dtype=np.int64)
        return numbers, self._shard.policy.estimates(rows)

    def save(self, path: str) -> None:
        """Write the shard to a file."""
        archive.write(path, KIND, *self._shard.pack())

    def save_policy(self, path: str, ids: Sequence[Any] | None) -> None:
        """Write the policy alone, for a shard that has all users."""
        header, arrays = self._shard.policy.pack()
        archive.write(path, "policy", header | {"ids": plain_ids(ids)}, arrays)

    def _rows(self, users: Ints) -> Ints:
        rows = self._shard.rows
        return np.array([rows[user] for user in users.tolist()], dtype=np.int64)
