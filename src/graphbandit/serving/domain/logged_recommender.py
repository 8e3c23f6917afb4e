"""`LoggedRecommender`: users and arms by name around a policy, as the events of a log lead to it.

`apply` is the only method that changes the state, so that the same events lead to the same state,
bit for bit. Deciding changes nothing: a decision takes effect as an event, like everything else.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from pydantic_core import from_json, to_json

from ...compute.arrays import Ints
from ...policies import Policy
from ...policies.core import kernels
from ...policies.core.catalogue_choice import find_leaders
from ...policies.core.decisions import Requests
from ...recommending.named_policy import NamedPolicy
from ...recommending.requests import AnyRequest, ResolvedRequest
from ...storage import archive
from .events import DecisionRecord, Event, EventKind, RewardRecord, reward_in, table_in
from .initial_state import InitialState

KEPT_REFUSALS = 1000
"""Events whose refusal is kept, for the request that waits for its answer."""


class LoggedRecommender(NamedPolicy):
    """The state of the service.

    >>> from graphbandit import graphs
    >>> from graphbandit.serving import Request
    >>> graph = graphs.from_edges([("ann", "bob")])
    >>> recommender = LoggedRecommender.new(InitialState(graph, ["tea", "coffee"], np.eye(2), [{}, {}]))
    >>> [decision] = recommender.decide([Request("ann", ["tea"])], np.random.default_rng(0))
    >>> recommender.names[decision.user], [recommender.versions[version] for version in decision.arms]
    ('ann', ['tea'])
    """

    def __init__(self, policy: Policy, names: list[str], gone: Iterable[int] = ()) -> None:
        super().__init__(policy, names, gone)
        self.seq = 0  # of the last event
        self.tail = ""  # the chain of the last event, by which a snapshot knows its timeline
        self.decisions = 0
        self.rewards = 0
        self._latest = np.zeros(len(names), dtype=np.int64)
        self.refused: dict[int, str] = {}  # the last events that the policy refused, and why

    @classmethod
    def new(cls, initial: InitialState) -> Self:
        """The state before the first event."""
        recommender = cls(initial.make_policy(), initial.users)
        for name, features, attributes in zip(initial.arms, initial.features, initial.attributes, strict=True):
            recommender.put_arm(name, features, attributes)
        return recommender

    @property
    def latest(self) -> Ints:
        """For each row, the number of its user's newest event; 0 if there is none."""
        return self._latest[: len(self.names)]

    # Reading: nothing below changes the state.

    def user_of(self, record: DecisionRecord | RewardRecord) -> str:
        """The name of the user that a record is about."""
        return self.names[record.user] if record.newcomer is None else record.newcomer

    def decide(self, requests: Sequence[AnyRequest], draws: np.random.Generator) -> list[DecisionRecord]:
        """Rank the eligible arms for each user. A decision takes effect once it has been applied as
        an event."""
        return self.decide_resolved([self.resolve(request) for request in requests], draws)

    def decide_resolved(self, requests: Sequence[ResolvedRequest], draws: np.random.Generator) -> list[DecisionRecord]:
        """The decision about each request, with one call of the policy for all."""
        return [
            DecisionRecord(request.user, None if request.is_all else request.versions.tolist(), *ranking, request.name)
            for request, ranking in zip(requests, self.rank(requests, draws), strict=True)
        ]

    def warm_up(self) -> None:
        """Compile the kernels for deciding and learning by calling them on empty input, so that no
        request waits for it."""
        nothing = np.zeros(1, dtype=np.int64)
        requests = Requests(nothing[:0], self._features, nothing[:0], nothing, nothing[:0], self._version_items)
        self.policy.decide_many(requests, np.random.default_rng(0))
        pool = self.matching({})
        if self.names and self.policy.is_outlined and self.is_large(pool, 1):  # builds the index of the catalogue, too
            find_leaders(self.policy, 0, self.asked(pool), len(pool), 1)
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
            self.tail = event.chain or ""
            if event.user is not None:
                self._latest[event.user] = event.seq
            if event.kind == EventKind.REWARDED:
                reward = reward_in(event.body)
                if reward.newcomer is not None and reward.newcomer not in self.rows:
                    self._learn(rewards)
                    rewards = []
                    if not self._try_change(event.seq, EventKind.USER_PUT, {"user": reward.newcomer, "edges": {}}):
                        self.rewards += 1
                        continue
                if reward.newcomer is not None:
                    reward = reward._replace(user=self.rows[reward.newcomer])
                rewards.append(reward)
            elif event.kind == EventKind.DECIDED:
                self.decisions += event.items
            else:
                self._learn(rewards)
                rewards = []
                self._try_change(event.seq, event.kind, table_in(event.body))
        self._learn(rewards)

    def _learn(self, rewards: list[RewardRecord]) -> None:
        self.rewards += len(rewards)
        learned = [reward for reward in rewards if reward.user not in self.gone]
        if learned:
            values = [reward.value for reward in learned]
            self.learn([reward.user for reward in learned], [reward.version for reward in learned], values)

    def _try_change(self, seq: int, kind: EventKind, body: dict[str, Any]) -> bool:
        """Change users, edges or arms; False if the policy refuses, which is kept, and is unchanged."""
        try:
            self._change(kind, body)
        except ValueError as error:
            self.refused[seq] = str(error)
            if len(self.refused) > KEPT_REFUSALS:
                del self.refused[min(self.refused)]
            return False
        return True

    def _change(self, kind: EventKind, body: dict[str, Any]) -> None:
        match kind:
            case EventKind.ARM_PUT:
                self.put_arm(body["arm"], np.array(body["features"], dtype=np.float64), body["attributes"])
            case EventKind.ARM_DELETED:
                self.delete_arm(body["arm"])
            case EventKind.USER_PUT:
                self.put_user(body["user"], body["edges"])
                if len(self.names) > len(self._latest):
                    self._latest = np.concatenate([self._latest, np.zeros(len(self.names), dtype=np.int64)])
            case EventKind.USER_DELETED:
                self.delete_user(body["user"])
            case EventKind.EDGE_PUT | EventKind.EDGE_DELETED:
                a, b = self.rows.get(body["a"]), self.rows.get(body["b"])
                if a is not None and b is not None:
                    self.set_edge(a, b, body.get("weight", 0.0))

    # Snapshots.

    def pack(self) -> tuple[dict[str, Any], archive.Arrays]:
        """Header and arrays of a snapshot. They are copies, so that they can be written while
        further events are applied."""
        policy, arrays = self.policy.pack()
        header: dict[str, Any] = dict(policy=policy, gone=sorted(self.gone)) | self.arms_table()
        header |= dict(seq=self.seq, tail=self.tail, decisions=self.decisions, rewards=self.rewards)
        packed: archive.Arrays = {f"policy.{name}": np.array(array) for name, array in arrays.items()}
        packed |= {"names": _json_bytes(self.names), "features": self.features.copy(), "latest": self.latest.copy()}
        return header, packed

    @classmethod
    def unpack(cls, policy_class: type[Policy], header: dict[str, Any], arrays: archive.Arrays) -> Self:
        """The recommender that `pack` returned header and arrays of."""
        inner = {name.removeprefix("policy."): array for name, array in arrays.items() if name.startswith("policy.")}
        recommender = cls(policy_class.unpack(header["policy"], inner), from_json(arrays["names"].tobytes()), header["gone"])
        recommender.restore_arms(header, arrays["features"])
        recommender._latest = arrays["latest"]
        recommender.seq, recommender.decisions, recommender.rewards = header["seq"], header["decisions"], header["rewards"]
        recommender.tail = header["tail"]
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
