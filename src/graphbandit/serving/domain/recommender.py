"""The recommender: names of users and arms around a policy.

`apply` is the only method that changes the state, so that the same events lead to the same state,
bit for bit. Deciding changes nothing: a decision takes effect as an event, like everything else.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from itertools import accumulate, chain
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from pydantic_core import from_json, to_json

from ...compute.arrays import Floats, Ints
from ...policies import Policy
from ...policies.core import kernels
from ...policies.core.decisions import Requests
from ...storage import archive
from ...validate import NOT_KNOWN
from .errors import InvalidRequest, UnknownName
from .events import DecisionRecord, Event, EventKind, RewardRecord, encode, reward_in, table_in
from .initial_state import Attributes, InitialState
from .requests import AnyRequest, Filter, ResolvedRequest

CACHED_FILTERS = 1000
"""Filters whose eligible arms are cached until the arms change."""
KEPT_REFUSALS = 1000
"""Events whose refusal is kept, for the request that waits for its answer."""


class Recommender:
    """The state of the service.

    >>> from graphbandit import graphs
    >>> from graphbandit.serving import Request
    >>> graph = graphs.from_edges([("ann", "bob")])
    >>> recommender = Recommender.new(InitialState(graph, ["tea", "coffee"], np.eye(2), [{}, {}]))
    >>> [decision] = recommender.decide([Request("ann", ["tea"])], np.random.default_rng(0))
    >>> recommender.names[decision.user], [recommender.versions[version] for version in decision.arms]
    ('ann', ['tea'])
    """

    def __init__(self, policy: Policy, names: list[str], gone: Iterable[int] = ()) -> None:
        self.policy = policy
        self.names = names  # of all rows, deleted users included
        self.gone = set(gone)  # rows of deleted users
        self.rows = {name: row for row, name in enumerate(names) if row not in self.gone}
        self.arms: dict[str, int] = {}  # name: newest version
        self.versions: list[str] = []  # the arm of each version
        self.attributes: list[Attributes] = []  # of each version
        self.item_ids: dict[str, int] = {}  # name: id of the item, for deleted arms too; in order of first versions
        self._features = np.empty((0, policy.dim))
        self._version_items = np.empty(0, dtype=np.int64)  # id of each version's item, -1 where there is no version yet
        self._eligible: dict[str, list[int]] = {}  # filter: versions
        self.seq = 0  # of the last event
        self.decisions = 0
        self.rewards = 0
        self._latest = np.zeros(len(names), dtype=np.int64)
        self.refused: dict[int, str] = {}  # the last events that the policy refused, and why

    @classmethod
    def new(cls, initial: InitialState) -> Self:
        """The state before the first event."""
        recommender = cls(initial.make_policy(), initial.users)
        for name, features, attributes in zip(initial.arms, initial.features, initial.attributes, strict=True):
            recommender._put_arm(name, features, attributes)
        return recommender

    @property
    def dim(self) -> int:
        """Number of features."""
        return self.policy.dim

    @property
    def features(self) -> Floats:
        """(versions, dim) features of every version of every arm."""
        return self._features[: len(self.versions)]

    @property
    def latest(self) -> Ints:
        """For each row, the number of its user's newest event; 0 if there is none."""
        return self._latest[: len(self.names)]

    # Reading: nothing below changes the state.

    def row(self, user: str, field: str = "user") -> int:
        """The row of a user."""
        row = self.rows.get(user)
        if row is None:
            raise UnknownName(field, f"there is no user {user!r}.")
        return row

    def version(self, arm: str, field: str = "arm") -> int:
        """The newest version of an arm."""
        version = self.arms.get(arm)
        if version is None:
            raise UnknownName(field, f"there is no arm {arm!r}.")
        return version

    def weight(self, a: int, b: int) -> float:
        """Weight of the edge between two rows; 0 if there is none."""
        return self.policy.live_graph.weight(a, b)

    def edges(self, row: int) -> list[tuple[int, float]]:
        """The neighbours of a row and the weights of the edges."""
        live = self.policy.live_graph
        return [(other, live.weight(row, other)) for other in live.neighbours(row)]

    def resolve(self, request: AnyRequest) -> ResolvedRequest:
        """Look up the names in a request: user row and eligible arm versions."""
        user, versions = self.row(request.user), self._eligible_versions(request)
        if not versions:
            raise InvalidRequest("candidates", "no arm is eligible.")
        is_all = request.candidates is None and not request.where
        return ResolvedRequest(user, versions, min(request.k, len(versions)), is_all)

    def _eligible_versions(self, request: AnyRequest) -> list[int]:
        """The candidates, less those that the filter excludes."""
        if request.candidates is None:
            return self._matching(request.where or {})
        try:
            versions = list(map(self.arms.__getitem__, request.candidates))
        except KeyError as error:
            raise UnknownName("candidates", f"there is no arm {error.args[0]!r}.") from None
        if len(set(versions)) != len(versions):
            versions = list(dict.fromkeys(versions))
        if request.where:
            versions = [version for version in versions if _matches(self.attributes[version], request.where)]
        return versions

    def decide(self, requests: Sequence[AnyRequest], draws: np.random.Generator) -> list[DecisionRecord]:
        """Rank the eligible arms for each user. A decision takes effect once it has been applied as
        an event."""
        return self.decide_resolved([self.resolve(request) for request in requests], draws)

    def decide_resolved(self, requests: Sequence[ResolvedRequest], draws: np.random.Generator) -> list[DecisionRecord]:
        """The decision about each request, with one call of the policy for all."""
        users, places = np.array([request.user for request in requests]), np.array([request.k for request in requests])
        rows = np.array(list(chain.from_iterable([request.versions for request in requests])))
        start = np.array([0, *accumulate([len(request.versions) for request in requests])])
        ranked = self.policy.decide_many(Requests(users, self._features, rows, start, places, self._version_items), draws)
        # The arms shown, for all requests at once: reading an array one number at a time is slow.
        end = np.cumsum(places)
        shown = np.repeat(start[:-1], places)
        shown += ranked.order[shown + np.arange(end[-1]) - np.repeat(end - places, places)]
        arms, mean, bonus = rows[shown].tolist(), ranked.mean[shown].tolist(), ranked.bonus[shown].tolist()
        best, propensity = np.maximum.reduceat(ranked.mean, start[:-1]).tolist(), ranked.propensity.tolist()
        decisions, first = [], 0
        for i, (user, versions, k, is_all) in enumerate(requests):
            last = first + k
            candidates = None if is_all else versions
            chosen = arms[first:last], mean[first:last], bonus[first:last]
            decisions.append(DecisionRecord(user, candidates, *chosen, propensity[i], best[i]))
            first = last
        return decisions

    def ranked(self, user: int) -> list[tuple[str, float, float]]:
        """All arms with mean and bonus, as the user would be shown them now."""
        versions = self._matching({})
        if not versions:
            return []
        start, places = np.array([0, len(versions)]), np.array([len(versions)])
        draws = np.random.default_rng(0)
        requests = Requests(np.array([user]), self._features, np.array(versions), start, places, self._version_items)
        found = self.policy.decide_many(requests, draws)
        return [(self.versions[versions[a]], float(found.mean[a]), float(found.bonus[a])) for a in found.order.tolist()]

    def _matching(self, where: Filter) -> list[int]:
        key = encode({name: list(where[name]) for name in sorted(where)}) if where else ""
        found = self._eligible.get(key)
        if found is None:
            if len(self._eligible) >= CACHED_FILTERS:
                self._eligible.clear()
            found = [version for version in self.arms.values() if _matches(self.attributes[version], where)]
            self._eligible[key] = found
        return found

    def warm_up(self) -> None:
        """Compile the kernels for deciding and learning by calling them on empty input, so that no
        request waits for it."""
        nothing = np.zeros(1, dtype=np.int64)
        requests = Requests(nothing[:0], self._features, nothing[:0], nothing, nothing[:0], self._version_items)
        self.policy.decide_many(requests, np.random.default_rng(0))
        moments = getattr(self.policy, "moments", None)
        if moments is not None and self.names:
            moments(0)  # explanations need it
        kernels.learn_many(self.policy.state, nothing[:0], np.empty((0, self.dim)), nothing[:0], np.empty(0))

    # Applying events: the only way to change the state.

    def apply(self, events: Sequence[Event]) -> None:
        """Apply the next events of the log, in its order. An event about a user or an arm that was
        deleted has no effect."""
        rewards: list[RewardRecord] = []  # learned together, up to the next event that changes the policy
        for event in events:
            if event.seq <= self.seq:
                raise ValueError(f"events must come in order, but {event.seq} follows {self.seq}.")
            self.seq = event.seq
            if event.user is not None:
                self._latest[event.user] = event.seq
            if event.kind == EventKind.REWARDED:
                rewards.append(reward_in(event.body))
            elif event.kind == EventKind.DECIDED:
                self.decisions += event.items
            else:
                self._learn(rewards)
                rewards = []
                try:
                    self._change(event.kind, table_in(event.body))
                except ValueError as error:  # the policy refuses, and is unchanged
                    self.refused[event.seq] = str(error)
                    if len(self.refused) > KEPT_REFUSALS:
                        del self.refused[min(self.refused)]
        self._learn(rewards)

    def _learn(self, rewards: list[RewardRecord]) -> None:
        self.rewards += len(rewards)
        learned = [reward for reward in rewards if reward.user not in self.gone]
        if learned:
            versions, users = [reward.version for reward in learned], [reward.user for reward in learned]
            x, items = self._features[versions], self._version_items[versions]
            self.policy.update_many(users, x, [reward.value for reward in learned], items=items)

    def _change(self, kind: EventKind, body: dict[str, Any]) -> None:
        match kind:
            case EventKind.ARM_PUT:
                self._put_arm(body["arm"], np.array(body["features"], dtype=np.float64), body["attributes"])
            case EventKind.ARM_DELETED:
                if self.arms.pop(body["arm"], None) is not None:
                    self.policy.remove_item(self.item_ids[body["arm"]])  # the name may return as something else
                self._eligible.clear()
            case EventKind.USER_PUT:
                self._put_user(body["user"], body["edges"])
            case EventKind.USER_DELETED:
                self._delete_user(body["user"])
            case EventKind.EDGE_PUT | EventKind.EDGE_DELETED:
                a, b = self.rows.get(body["a"]), self.rows.get(body["b"])
                if a is not None and b is not None:
                    self._set_edge(a, b, body.get("weight", 0.0))

    def _put_arm(self, name: str, features: Floats, attributes: Attributes) -> None:
        version = len(self.versions)
        if version == len(self._features):
            more = max(16, version)
            self._features = np.concatenate([self._features, np.empty((more, self.dim))])
            self._version_items = np.concatenate([self._version_items, np.full(more, NOT_KNOWN)])
        self._features[version] = features
        self._version_items[version] = self.item_ids.setdefault(name, len(self.item_ids))
        self.versions.append(name)
        self.attributes.append(dict(attributes))
        self.arms[name] = version
        self._eligible.clear()

    def _put_user(self, name: str, edges: dict[str, float]) -> None:
        near = {self.rows[other]: weight for other, weight in edges.items() if other in self.rows and other != name}
        if name not in self.rows:
            self.rows[name] = self.policy.add_user(near)
            self.names.append(name)
            if len(self.names) > len(self._latest):
                self._latest = np.concatenate([self._latest, np.zeros(len(self.names), dtype=np.int64)])
            return
        for other, weight in near.items():
            self._set_edge(self.rows[name], other, weight)

    def _delete_user(self, name: str) -> None:
        row = self.rows.get(name)
        if row is not None:
            self.policy.remove_user(row)
            self.gone.add(row)
            del self.rows[name]

    def _set_edge(self, a: int, b: int, weight: float) -> None:
        known = self.weight(a, b) > 0
        if weight > 0 and known:
            self.policy.set_weight(a, b, weight)
        elif weight > 0:
            self.policy.add_edge(a, b, weight)
        elif known:
            self.policy.remove_edge(a, b)

    # Snapshots.

    def pack(self) -> tuple[dict[str, Any], archive.Arrays]:
        """Header and arrays of a snapshot. They are copies, so that they can be written while
        further events are applied."""
        policy, arrays = self.policy.pack()
        header: dict[str, Any] = dict(policy=policy, gone=sorted(self.gone), arms=self.arms.copy())
        header |= dict(versions=self.versions.copy(), attributes=self.attributes.copy())
        header |= dict(seq=self.seq, decisions=self.decisions, rewards=self.rewards)
        packed: archive.Arrays = {f"policy.{name}": np.array(array) for name, array in arrays.items()}
        packed |= {"names": _json_bytes(self.names), "features": self.features.copy(), "latest": self.latest.copy()}
        return header, packed

    @classmethod
    def unpack(cls, policy_class: type[Policy], header: dict[str, Any], arrays: archive.Arrays) -> Self:
        """The recommender that `pack` returned header and arrays of."""
        inner = {name.removeprefix("policy."): array for name, array in arrays.items() if name.startswith("policy.")}
        recommender = cls(policy_class.unpack(header["policy"], inner), from_json(arrays["names"].tobytes()), header["gone"])
        recommender.arms, recommender.versions = header["arms"], header["versions"]
        recommender.attributes, recommender._features = header["attributes"], arrays["features"]
        items = [recommender.item_ids.setdefault(name, len(recommender.item_ids)) for name in recommender.versions]
        recommender._version_items = np.array(items, dtype=np.int64)
        recommender._latest = arrays["latest"]
        recommender.seq, recommender.decisions, recommender.rewards = header["seq"], header["decisions"], header["rewards"]
        return recommender


def digest(header: dict[str, Any], arrays: archive.Arrays) -> str:
    """A hash of what `pack` returned; equal hashes mean equal states."""
    whole = hashlib.sha256(json.dumps(header, sort_keys=True, default=lambda value: value.tolist()).encode())
    for name in sorted(arrays):
        whole.update(f"{name}{arrays[name].dtype.str}{arrays[name].shape}".encode())
        whole.update(np.ascontiguousarray(arrays[name]).data if arrays[name].size else b"")
    return whole.hexdigest()


def _json_bytes(names: list[str]) -> npt.NDArray[np.uint8]:
    """JSON as bytes, encoded in pieces: all other threads wait while one call encodes, and there
    may be a million names."""
    pieces = [to_json(names[start : start + 10_000])[1:-1] for start in range(0, len(names), 10_000)]
    return np.frombuffer(b"[" + b",".join(pieces) + b"]", dtype=np.uint8)


def _matches(attributes: Attributes, where: Filter) -> bool:
    return all(attributes.get(name) in values for name, values in where.items())
