"""The recommender: names of users and arms around a policy. No HTTP, no database.

`apply` is the only way in which its state changes, so that the same events lead to the same state, bit for bit. Deciding
changes nothing; what was decided is an event like any other.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, chain
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt
from pydantic_core import from_json, to_json

from ...compute.arrays import Floats, Ints
from ...policies import Policy
from ...policies.core import kernels
from ...policies.core.kernels import Requests
from ...storage import archive
from .events import Decision, Event, Kind, Reward, count_in, encode, reward_in, table_in
from .initial_state import Attributes, Beginning

Filter = Mapping[str, Sequence[str]]
"""Attribute: the values that make an arm eligible."""
FILTERS = 1000
"""Filters whose arms are remembered until the arms change."""

REFUSALS = 1000
"""Reasons that are kept for whoever waits for an answer."""


class Wrong(ValueError):
    """A request that makes no sense; `field` says what is wrong with it."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class Unknown(ValueError):
    """A name that is not there; `field` says which one was asked about."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class Request(Protocol):
    """A wish for recommendations."""

    @property
    def user(self) -> str:
        """For whom."""

    @property
    def candidates(self) -> Sequence[str] | None:
        """From which arms; None: all."""

    @property
    def where(self) -> Filter | None:
        """Which attributes an arm must have."""

    @property
    def k(self) -> int:
        """How many."""


class Wish(NamedTuple):
    """A request in plain Python."""

    user: str
    candidates: Sequence[str] | None = None
    where: Filter | None = None
    k: int = 1


class Offer(NamedTuple):
    """A request made out: what a user is to be shown the best of."""

    user: int  # row
    versions: list[int]
    places: int
    is_all: bool  # whether these are simply all arms


class Recommender:
    """The state of the service.

    >>> from graphbandit import graphs
    >>> from graphbandit.serving.domain.recommender import Recommender, Wish
    >>> graph = graphs.from_edges([("ann", "bob")])
    >>> recommender = Recommender.new(Beginning(graph, ["tea", "coffee"], np.eye(2), [{}, {}]))
    >>> [decision] = recommender.decide([Wish("ann", ["tea"])], np.random.default_rng(0))
    >>> recommender.names[decision.user], [recommender.versions[version] for version in decision.arms]
    ('ann', ['tea'])
    """

    def __init__(self, policy: Policy, names: list[str], gone: Iterable[int] = ()) -> None:
        self.policy = policy
        self.names = names  # of all rows, those of users who left too
        self.gone = set(gone)  # their rows
        self.rows = {name: row for row, name in enumerate(names) if row not in self.gone}
        self.arms: dict[str, int] = {}  # name: newest version
        self.versions: list[str] = []  # whose features these are
        self.attributes: list[Attributes] = []  # of each version
        self._features = np.empty((0, policy.dim))
        self._eligible: dict[str, list[int]] = {}
        self.seq = 0  # of the last event
        self.decisions = 0
        self.rewards = 0
        self._latest = np.zeros(len(names), dtype=np.int64)
        self.refused: dict[int, str] = {}  # the last events that the policy could not take in, and why

    @classmethod
    def new(cls, beginning: Beginning) -> Self:
        """Before the first event."""
        recommender = cls(beginning.make_policy(), beginning.users)
        for name, features, attributes in zip(beginning.arms, beginning.features, beginning.attributes, strict=True):
            recommender._put_arm(name, features, attributes)
        return recommender

    @property
    def dim(self) -> int:
        """Number of features."""
        return self.policy.dim

    @property
    def features(self) -> Floats:
        """(versions, dim) the features of every version of every arm."""
        return self._features[: len(self.versions)]

    @property
    def latest(self) -> Ints:
        """For each row, the number of its user's newest event; 0 if there is none."""
        return self._latest[: len(self.names)]

    # Questions: they change nothing.

    def row(self, user: str, field: str = "user") -> int:
        """The row of a user."""
        row = self.rows.get(user)
        if row is None:
            raise Unknown(field, f"there is no user {user!r}.")
        return row

    def version(self, arm: str, field: str = "arm") -> int:
        """The newest version of an arm."""
        version = self.arms.get(arm)
        if version is None:
            raise Unknown(field, f"there is no arm {arm!r}.")
        return version

    def weight(self, a: int, b: int) -> float:
        """Of the edge between two rows; 0 if there is none."""
        return self.policy.live_graph.weight(a, b)

    def edges(self, row: int) -> list[tuple[int, float]]:
        """The neighbours of a row and the weights of the edges."""
        live = self.policy.live_graph
        return [(other, live.weight(row, other)) for other in live.neighbours(row)]

    def eligible(self, request: Request) -> list[int]:
        """The versions to choose from: the candidates, less those that the filter leaves out."""
        if request.candidates is None:
            return self._matching(request.where or {})
        arms = self.arms
        try:
            versions = list(map(arms.__getitem__, request.candidates))
        except KeyError as error:
            raise Unknown("candidates", f"there is no arm {error.args[0]!r}.") from None
        if len(set(versions)) != len(versions):
            versions = list(dict.fromkeys(versions))
        if request.where:
            versions = [version for version in versions if _matches(self.attributes[version], request.where)]
        return versions

    def offer(self, request: Request) -> Offer:
        """Look up what a request names."""
        user, versions = self.row(request.user), self.eligible(request)
        if not versions:
            raise Wrong("candidates", "no arm is eligible.")
        return Offer(user, versions, min(request.k, len(versions)), request.candidates is None and not request.where)

    def decide(self, requests: Sequence[Request], draws: np.random.Generator) -> list[Decision]:
        """Rank the eligible arms for each user. A decision counts once it has been applied as an event."""
        return self.choose([self.offer(request) for request in requests], draws)

    def choose(self, offers: Sequence[Offer], draws: np.random.Generator) -> list[Decision]:
        """The best of each offer, in one call of the policy."""
        users, places = np.array([offer.user for offer in offers]), np.array([offer.places for offer in offers])
        rows = np.array(list(chain.from_iterable([offer.versions for offer in offers])))
        start = np.array([0, *accumulate([len(offer.versions) for offer in offers])])
        ranked = self.policy.decide_many(Requests(users, self._features, rows, start, places), draws)
        # What is shown, for all offers at once: arrays are slow to take apart one number at a time.
        end = np.cumsum(places)
        shown = np.repeat(start[:-1], places)
        shown += ranked.order[shown + np.arange(end[-1]) - np.repeat(end - places, places)]
        arms, mean, bonus = rows[shown].tolist(), ranked.mean[shown].tolist(), ranked.bonus[shown].tolist()
        best, propensity = np.maximum.reduceat(ranked.mean, start[:-1]).tolist(), ranked.propensity.tolist()
        decisions, first = [], 0
        for i, (user, versions, k, is_all) in enumerate(offers):
            last = first + k
            offered = None if is_all else versions
            chosen = arms[first:last], mean[first:last], bonus[first:last]
            decisions.append(Decision(user, offered, *chosen, propensity[i], best[i]))
            first = last
        return decisions

    def ranked(self, user: int) -> list[tuple[str, float, float]]:
        """All arms with mean and bonus, as the user would be shown them now."""
        versions = self._matching({})
        if not versions:
            return []
        start, places = np.array([0, len(versions)]), np.array([len(versions)])
        draws = np.random.default_rng(0)
        found = self.policy.decide_many(Requests(np.array([user]), self._features, np.array(versions), start, places), draws)
        return [(self.versions[versions[a]], float(found.mean[a]), float(found.bonus[a])) for a in found.order.tolist()]

    def _matching(self, where: Filter) -> list[int]:
        key = encode({name: list(where[name]) for name in sorted(where)}) if where else ""
        found = self._eligible.get(key)
        if found is None:
            if len(self._eligible) >= FILTERS:
                self._eligible.clear()
            found = [version for version in self.arms.values() if _matches(self.attributes[version], where)]
            self._eligible[key] = found
        return found

    def warm_up(self) -> None:
        """Compile what deciding and learning need, without doing either: the first request should not wait for that."""
        nothing = np.zeros(1, dtype=np.int64)
        self.policy.decide_many(
            Requests(nothing[:0], self._features, nothing[:0], nothing, nothing[:0]), np.random.default_rng(0)
        )
        moments = getattr(self.policy, "moments", None)
        if moments is not None and self.names:
            moments(0)  # for explanations
        kernels.learn_many(self.policy.state, np.empty(0, dtype=np.int64), np.empty((0, self.dim)), np.empty(0))

    # Events: the only way to change.

    def apply(self, events: Sequence[Event]) -> None:
        """Take in the next events of the log, in its order. What an event is about may be gone: then it does nothing."""
        waiting: list[Reward] = []  # rewards are learned many at a time
        for event in events:
            if event.seq <= self.seq:
                raise ValueError(f"events must come in order, but {event.seq} follows {self.seq}.")
            self.seq = event.seq
            if event.who is not None:
                self._latest[event.who] = event.seq
            if event.kind == Kind.REWARDED:
                waiting.append(reward_in(event.body))
            elif event.kind == Kind.DECIDED:
                self.decisions += 1 if event.who is not None else count_in(event.body)
            else:
                self._learn(waiting)
                waiting = []
                try:
                    self._change(event.kind, table_in(event.body))
                except ValueError as error:  # what the policy cannot take in, it leaves alone
                    self.refused[event.seq] = str(error)
                    if len(self.refused) > REFUSALS:
                        del self.refused[min(self.refused)]
        self._learn(waiting)

    def _learn(self, rewards: list[Reward]) -> None:
        self.rewards += len(rewards)
        learned = [reward for reward in rewards if reward.user not in self.gone]
        if learned:
            x = self._features[[reward.version for reward in learned]]
            self.policy.update_many([reward.user for reward in learned], x, [reward.value for reward in learned])

    def _change(self, kind: Kind, what: dict[str, Any]) -> None:
        if kind == Kind.ARM_PUT:
            self._put_arm(what["arm"], np.array(what["features"], dtype=np.float64), what["attributes"])
        elif kind == Kind.ARM_DELETED:
            self.arms.pop(what["arm"], None)
            self._eligible.clear()
        elif kind == Kind.USER_PUT:
            self._put_user(what["user"], what["edges"])
        elif kind == Kind.USER_DELETED:
            self._delete_user(what["user"])
        elif kind in (Kind.EDGE_PUT, Kind.EDGE_DELETED):
            a, b = self.rows.get(what["a"]), self.rows.get(what["b"])
            if a is not None and b is not None:
                self._set_edge(a, b, what.get("weight", 0.0))

    def _put_arm(self, name: str, features: Floats, attributes: Attributes) -> None:
        version = len(self.versions)
        if version == len(self._features):
            self._features = np.concatenate([self._features, np.empty((max(16, version), self.dim))])
        self._features[version] = features
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
        """Header and arrays of a snapshot; copies, so that they can be written while events go on."""
        policy, arrays = self.policy.pack()
        header: dict[str, Any] = dict(policy=policy, gone=sorted(self.gone), arms=self.arms.copy())
        header |= dict(versions=self.versions.copy(), attributes=self.attributes.copy())
        header |= dict(seq=self.seq, decisions=self.decisions, rewards=self.rewards)
        packed = {f"policy.{name}": np.array(array) for name, array in arrays.items()}
        own: archive.Arrays = {"names": _as_array(self.names), "features": self.features.copy(), "latest": self.latest.copy()}
        return header, packed | own

    @classmethod
    def unpack(cls, kind: type[Policy], header: dict[str, Any], arrays: archive.Arrays) -> Self:
        """The recommender of which `pack` gave header and arrays."""
        inner = {name.removeprefix("policy."): array for name, array in arrays.items() if name.startswith("policy.")}
        recommender = cls(kind.unpack(header["policy"], inner), from_json(arrays["names"].tobytes()), header["gone"])
        recommender.arms, recommender.versions = header["arms"], header["versions"]
        recommender.attributes, recommender._features = header["attributes"], arrays["features"]
        recommender._latest = arrays["latest"]
        recommender.seq, recommender.decisions, recommender.rewards = header["seq"], header["decisions"], header["rewards"]
        return recommender


def digest(header: dict[str, Any], arrays: archive.Arrays) -> str:
    """A hash of what `pack` gave: recommenders with the same one are in the same state."""
    whole = hashlib.sha256(json.dumps(header, sort_keys=True, default=lambda value: value.tolist()).encode())
    for name in sorted(arrays):
        whole.update(f"{name}{arrays[name].dtype.str}{arrays[name].shape}".encode())
        whole.update(np.ascontiguousarray(arrays[name]).data if arrays[name].size else b"")
    return whole.hexdigest()


def _as_array(names: list[str]) -> npt.NDArray[np.uint8]:
    """JSON in pieces: a million names at once would hold up all other threads."""
    pieces = [to_json(names[start : start + 10_000])[1:-1] for start in range(0, len(names), 10_000)]
    return np.frombuffer(b"[" + b",".join(pieces) + b"]", dtype=np.uint8)


def _matches(attributes: Attributes, where: Filter) -> bool:
    return all(attributes.get(name) in values for name, values in where.items())
