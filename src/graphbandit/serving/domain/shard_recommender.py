"""`ShardRecommender`: the state of one shard of the service, as the events of its own log lead to it.

Users of other shards who border on its own are *ghosts*: rows of the policy that hold what their own shard has told of them.
They are nobody's here: no request finds them, and they are not counted.

| event | what it does |
|---|---|
| VALUES | takes what another shard has told of its users |
| EDGE_PUT, EDGE_DELETED, USER_PUT with `to` | changes an edge to a user of another shard, who is to be told |
| USER_DELETED | the shards in which the user is a ghost are to be told |
| ARM_PUT, ARM_DELETED | in shard 0: all others are to be told; with `from`: shard 0 has told |
| RECEIVED | another shard has told of an edge, or of a user who was deleted |
| DELIVERED | another shard has taken a change of ours, or has refused it, which undoes it here |

What is to be told is in the outbox (`Correspondence`) from the event of the change to that of its delivery.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Self, cast

import numpy as np
import numpy.typing as npt

from ...compute.arrays import Floats, Ints
from ...policies import Policy, Stochastic
from ...recommending.errors import Conflict, InvalidRequest, UnknownName
from ...recommending.requests import AnyRequest, ResolvedRequest
from ...sharding.shard import Shard
from ...sharding.values import decode_values
from ...storage import archive
from .correspondence import NEVER, Correspondence, Origin, Stamp
from .events import Event, EventKind, table_in
from .initial_state import InitialState
from .logged_recommender import LoggedRecommender
from .policy_changes import POLICY_KINDS
from .shadow import PolicySpec, ShadowedPolicy

NOT_ON_A_SHARD = "shadows, promotions and experiments are not offered by a service of shards."
NOBODY = ""
"""The name of the row that a shard without users has, since a graph needs one."""


class ShardRecommender(LoggedRecommender):
    """The state of one shard.

    >>> from graphbandit import graphs
    >>> from graphbandit.serving.domain.shard_initial import divided
    >>> graph = graphs.from_edges([("ann", "bob"), ("bob", "eve")])
    >>> whole = InitialState(graph, ["tea"], np.eye(1), [{}], policy="linucb")
    >>> state = ShardRecommender.new(divided(whole, np.array([0, 0, 1]), 2)[0])
    >>> sorted(state.rows), sorted(state.ghosts)
    (['ann', 'bob'], ['eve'])
    """

    shard: Shard

    def __init__(self, policy: Policy, names: list[str], gone: Iterable[int] = ()) -> None:
        super().__init__(policy, names, gone)
        self.ghosts: dict[str, int] = {}  # name: row
        self.correspondence = Correspondence(0)
        # Not part of the state:
        self.shard_of: Callable[[str], int] | None = None  # who may join here

    @classmethod
    def new(cls, initial: InitialState, afresh: bool = False) -> Self:
        """The state before the first event."""
        place = initial.shard
        if place is None:
            raise ValueError("initial must be that of a shard, but it is that of a whole service.")
        users, owners, degrees = initial.users, place.owners, place.degrees
        if not users:
            users, owners, degrees = [NOBODY], np.array([place.number]), np.ones(1)
        recommender = cls(initial.make_policy(), users, [0] if users == [NOBODY] else ())
        recommender.spec = PolicySpec.of(initial)
        for name, features, attributes in zip(initial.arms, initial.features, initial.attributes, strict=True):
            recommender.put_arm(name, features, attributes)
        recommender.catalogue, recommender.since = 0, [0] * len(recommender.versions)
        shard = Shard(recommender.inner, place.number, place.n_shards, users, owners, n_users=place.n_users, degrees=degrees)
        recommender._use(shard, Correspondence(place.number))
        return recommender

    def _use(self, shard: Shard, correspondence: Correspondence) -> None:
        self.shard, self.correspondence = shard, correspondence
        foreign = [(name, row) for name, row in self.rows.items() if not shard.owns(row)]
        self.ghosts = dict(foreign)
        for name, _ in foreign:
            del self.rows[name]
        self._follow_inner()

    @property
    def number(self) -> int:
        """Of the shard."""
        return self.shard.number

    @property
    def inner(self) -> Policy:
        """The policy that learns, without the wrapper that randomises its decisions."""
        return self.policy.policy if isinstance(self.policy, Stochastic) else self.policy

    def _follow_inner(self) -> None:
        """Let the wrapper see what the shard has changed in the policy inside."""
        if isinstance(self.policy, Stochastic):
            self.policy.follow_inner()

    def succeed(self, former: ShadowedPolicy) -> None:
        """Take the place of another state of the same log. Its versions may mean something else: a new epoch."""
        super().succeed(former)
        assert isinstance(former, ShardRecommender)
        self.shard_of = former.shard_of
        self.begin_epoch(former.shard.epoch + 1)

    def begin_epoch(self, epoch: int) -> None:
        """Tell the other shards everything anew. Not part of the state."""
        self.shard.epoch = max(epoch, self.shard.epoch + 1)
        self.shard.tell_all()

    # Reading.

    def resolve(self, request: AnyRequest) -> ResolvedRequest:
        """Look up the names in a request; its user must belong to this shard."""
        self.check_home(request.user, "user")
        return super().resolve(request)

    def check_home(self, user: str, field: str) -> None:
        """Raise `UnknownName` if a user belongs to another shard."""
        is_here = user in self.rows or (
            user not in self.ghosts and (self.shard_of is None or self.shard_of(user) == self.number)
        )
        if not is_here:
            raise UnknownName(field, f"user {user!r} belongs to another shard than {self.number}.")

    def end_row(self, user: str, field: str) -> int:
        """The row of a user at the end of an edge, who may belong to another shard."""
        return self.ghosts[user] if user in self.ghosts else self.row(user, field)

    def is_ghost(self, row: int) -> bool:
        """Whether the user of a row belongs to another shard."""
        return not self.shard.owns(row)

    # Changes.

    def learn(
        self, users: npt.ArrayLike, versions: Sequence[int] | Ints, rewards: npt.ArrayLike, features: Floats | None = None
    ) -> None:
        """Learn rewards of own users."""
        super().learn(users, versions, rewards, features)
        self.shard.changed(np.unique(np.asarray(users, dtype=np.int64)))

    def delete_arm(self, name: str) -> None:
        """Stop offering an arm, and forget what other shards have told of it."""
        item = self.item_ids[name] if name in self.arms else None
        super().delete_arm(name)
        if item is not None:
            self.shard.remove_item(item)
            self._follow_inner()

    def put_user(self, name: str, edges: Mapping[str, float]) -> int:
        """Add a user with neighbours in this shard, or add neighbours of one; its row."""
        if name in self.ghosts:
            raise InvalidRequest("user", f"user {name!r} belongs to another shard than {self.number}.")
        if name not in self.rows:
            self.rows[name] = self._join(name, self.number)
        row = self.rows[name]
        for other, weight in edges.items():
            if other in self.rows and other != name:
                self.set_edge(row, self.rows[other], weight)
        return row

    def _join(self, name: str, owner: int) -> int:
        """A new row at the end, also for a name that had one before: late rewards of the former user are not theirs."""
        self.policy.add_user()
        row = self.shard.joined(name, owner)
        self.names.append(name)
        self._follow_inner()
        if len(self.names) > len(self._latest):
            self._latest = np.concatenate([self._latest, np.zeros(len(self.names), dtype=np.int64)])
        return row

    def _ghost(self, name: str, owner: int) -> int:
        if name in self.rows:
            raise InvalidRequest("user", f"user {name!r} belongs to shard {self.number}, not to {owner}.")
        if name not in self.ghosts:
            self.ghosts[name] = self._join(name, owner)
        return self.ghosts[name]

    def set_edge(self, a: int, b: int, weight: float) -> None:
        """Join two rows, change the weight of their edge, or part them."""
        if weight or self.weight(a, b):
            self.shard.set_edge(a, b, weight)
            self._follow_inner()

    def delete_user(self, name: str) -> None:
        """Forget an own user; nothing happens if there is none of this name."""
        row = self.rows.pop(name, None)
        if row is not None:
            self.shard.remove_user(row)
            self.gone.add(row)
            self._follow_inner()

    def join_many(self, names: Sequence[str]) -> None:
        """Refused: a table of rewards has users of all shards."""
        raise ValueError("a shard imports no table of rewards; `graphbandit fit` learns from one.")

    # Events.

    def follow(self, event: Event) -> None:
        """Change users, edges or arms as an event says, or take what another shard has told."""
        if event.kind in POLICY_KINDS:
            raise InvalidRequest("policy", NOT_ON_A_SHARD)
        if event.kind == EventKind.VALUES:
            self.shard.take(decode_values(event.body))
            self._follow_inner()
            return
        body = table_in(event.body)
        match event.kind:
            case EventKind.RECEIVED:
                self._receive(body)
            case EventKind.DELIVERED:
                self._delivered(body)
            case EventKind.ARM_PUT | EventKind.ARM_DELETED:
                self._change_arm(event.kind, body)
            case EventKind.USER_DELETED:
                self._delete_everywhere(event.at, body["user"])
            case EventKind.USER_PUT:
                self._put_user_across(event.at, body)
            case EventKind.EDGE_PUT | EventKind.EDGE_DELETED if "to" in body:
                self._put_edges_across(event.at, body["a"], {body["b"]: body.get("weight", 0.0)}, {body["b"]: body["to"]})
            case _:
                self._change(event.kind, body)

    def _put_user_across(self, at: int, body: dict[str, Any]) -> None:
        homes: dict[str, int] = body.get("to", {})
        near = {other: weight for other, weight in body["edges"].items() if other not in homes}
        self._change(EventKind.USER_PUT, {"user": body["user"], "edges": near})
        if homes:
            self._put_edges_across(at, body["user"], {other: body["edges"][other] for other in homes}, homes)

    def _put_edges_across(self, at: int, user: str, edges: Mapping[str, float], homes: Mapping[str, int]) -> None:
        """Change edges of an own user to users of other shards, and put that into the outbox."""
        row = self.rows.get(user)
        if row is None:
            raise Conflict("a", f"user {user!r} was deleted before the edge could be put.")
        stamp = self.correspondence.stamp(at)
        by_shard: dict[int, list[list[Any]]] = {}
        for other, weight in edges.items():
            self._set_edge_across(user, other, homes[other], weight, stamp)
            by_shard.setdefault(homes[other], []).append([user, other, weight])
        for to, entries in by_shard.items():
            self.correspondence.send(self.seq, to, {"kind": "edges", "stamp": list(stamp), "edges": entries})

    def _set_edge_across(self, own: str, other: str, home: int, weight: float, stamp: Stamp) -> None:
        if weight or other in self.ghosts:
            self.set_edge(self.rows[own], self._ghost(other, home), weight)
        self.correspondence.edges[own, other] = stamp

    def _delete_everywhere(self, at: int, user: str) -> None:
        row = self.rows.get(user)
        if row is None:
            return
        readers = {int(self.shard.owners[other]) for other, _ in self.edges(row)} - {self.number}
        self.delete_user(user)
        self._note_deleted(user, self.correspondence.stamp(at))
        for to in sorted(readers):
            stamp = list(self.correspondence.deleted[user])
            self.correspondence.send(self.seq, to, {"kind": "gone", "user": user, "stamp": stamp})

    def _note_deleted(self, user: str, stamp: Stamp) -> None:
        """From here on no older change of the user's edges counts."""
        found = self.correspondence
        found.deleted[user] = stamp
        found.edges = {pair: newest for pair, newest in found.edges.items() if user not in pair or newest > stamp}

    def _change_arm(self, kind: EventKind, body: dict[str, Any]) -> None:
        origin = body.pop("from", None)
        if origin is not None:
            if not self.correspondence.is_new(Origin(*origin)):
                return
            self.correspondence.receive(Origin(*origin), [])
        self._change(kind, body)
        if origin is None:
            change = {"kind": kind.name.lower()} | body
            for to in sorted(set(range(self.shard.n_shards)) - {self.number}):
                self.correspondence.send(self.seq, to, change)

    def _receive(self, body: dict[str, Any]) -> None:
        origin, change = Origin(*body["from"]), body["change"]
        if not self.correspondence.is_new(origin):
            return
        stamp, refused = Stamp(*change["stamp"]), list[str]()
        self.correspondence.see(stamp)
        if change["kind"] == "gone":
            self._lose_ghost(change["user"], stamp)
        else:
            for theirs, mine, weight in change["edges"]:
                if not self._take_edge(origin.shard, theirs, mine, weight, stamp):
                    refused.append(mine)
        self.correspondence.receive(origin, refused)

    def _take_edge(self, origin: int, theirs: str, mine: str, weight: float, stamp: Stamp) -> bool:
        """Change an edge as another shard says; False if the user is not there, or no longer who was meant."""
        found = self.correspondence
        if mine not in self.rows or stamp < found.deleted.get(mine, NEVER):
            return weight == 0.0
        if stamp > found.newest(mine, theirs):  # else a newer change, on its way to them, has the last word
            try:
                self._set_edge_across(mine, theirs, origin, weight, stamp)
            except ValueError:
                return False
        return True

    def _lose_ghost(self, user: str, stamp: Stamp) -> None:
        """A user of another shard was deleted: edges that are older than that go."""
        row = self.ghosts.get(user)
        if row is not None:
            for other, _ in self.edges(row):
                if self.correspondence.edges.get((self.names[other], user), NEVER) < stamp:
                    self.set_edge(other, row, 0.0)
        self._note_deleted(user, stamp)

    def _delivered(self, body: dict[str, Any]) -> None:
        """A change of ours was taken by another shard; edges to users whom it does not have are undone."""
        change = self.correspondence.settle(body["number"], body["to"])
        if change is None or change["kind"] != "edges":
            return
        for own, other, _ in change["edges"]:
            is_newest = self.correspondence.edges.get((own, other)) == Stamp(*change["stamp"])
            if other in body["refused"] and is_newest and own in self.rows and other in self.ghosts:
                self.set_edge(self.rows[own], self.ghosts[other], 0.0)

    # Snapshots.

    def pack(self) -> tuple[dict[str, Any], archive.Arrays]:
        """Header and arrays of a snapshot, with the tables of the shard."""
        header, arrays = super().pack()
        tables, more = self.shard.pack()
        header["shard"] = tables["shard"] | {"epoch": 0}  # every start has its own, and the same state
        header["correspondence"] = self.correspondence.table()
        kept = {f"shard.{name}": np.array(array) for name, array in more.items() if not name.startswith("policy.")}
        return header, arrays | kept

    @classmethod
    def unpack(cls, policy_class: type[Policy], header: dict[str, Any], arrays: archive.Arrays) -> Self:
        """The state that `pack` returned header and arrays of."""
        recommender = super().unpack(policy_class, header, arrays)
        policy = recommender.inner
        tables = {name.removeprefix("shard."): array for name, array in arrays.items() if name.startswith("shard.")}
        given = cast(type[Policy], SimpleNamespace(unpack=lambda *_: policy))  # it is here already
        shard = Shard.unpack(given, {"policy": {}, "shard": header["shard"]}, tables, epoch=0)
        recommender._use(shard, Correspondence.from_table(shard.number, header["correspondence"]))
        return recommender


def new_state(initial: InitialState) -> LoggedRecommender:
    """The state before the first event of a log, be it that of a shard or of a whole service."""
    return (LoggedRecommender if initial.shard is None else ShardRecommender).new(initial)


def unpacked_state(policy_class: type[Policy], header: dict[str, Any], arrays: archive.Arrays) -> LoggedRecommender:
    """The state of a snapshot, be it that of a shard or of a whole service."""
    kind = ShardRecommender if "shard" in header else LoggedRecommender
    return kind.unpack(policy_class, header, arrays)
