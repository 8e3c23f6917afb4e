"""`ServiceState`: the state of the service, with users and arms by name around a policy.

`apply` is the only method that changes the state, so that the same events lead to the same state, bit for bit. A
decision changes nothing before it is applied as an event.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from pydantic_core import from_json, to_json

from ...compute.arrays import Floats, Ints
from ...policies import Policy
from ...recommending.errors import Conflict, InvalidRequest
from ...recommending.named_policy import Ranking
from ...recommending.requests import AnyRequest, ResolvedRequest
from ...recommending.similar_users import NEIGHBOURS
from ...storage import archive
from .events import (
    CONTROL,
    DecisionRecord,
    Event,
    EventKind,
    RewardRecord,
    parse_body,
    parse_decisions,
    parse_import,
    parse_retraction,
    parse_reward,
)
from .experiment import HoldoutExperiment
from .initial_state import InitialState
from .policy_changes import POLICY_KINDS, apply_policy_event
from .saved_model import SavedModel, newcomer_edges, resolve_context
from .shadow import LogReader, PolicySpec, PolicyWithShadow, class_in_force

KEPT_REJECTIONS = 1000
"""Events whose refusal is kept, for the request that waits for its answer."""


class ServiceState(PolicyWithShadow):
    """The state of the service.

    >>> from graphbandit import graphs
    >>> from graphbandit.serving import Request
    >>> graph = graphs.from_edges([("ann", "bob")])
    >>> state = ServiceState.new(InitialState(graph, ["tea", "coffee"], np.eye(2), [{}, {}]))
    >>> [decision] = state.decide([Request("ann", ["tea"])], np.random.default_rng(0))
    >>> state.names[decision.user], [state.versions[version] for version in decision.arms]
    ('ann', ['tea'])
    """

    def __init__(self, policy: Policy, names: list[str], gone: Iterable[int] = ()) -> None:
        super().__init__(policy, names, gone)
        self.seq = 0  # of the last event
        self.chain = ""  # the chain of the last event, by which a snapshot knows its timeline
        self.decisions = 0
        self.rewards = 0
        self._latest = np.zeros(len(names), dtype=np.int64)
        self.retracted: set[int] = set()  # events of rewards that were retracted, known before a replay gets to them
        self.stale = False  # whether a reward was retracted after it was learned: the state must be replayed
        self.model: SavedModel | None = None  # that the log began from
        self.refused: dict[int, InvalidRequest] = {}  # the last events that had no effect, and why
        self.experiment: HoldoutExperiment | None = None
        self.last_experiment: dict[str, Any] | None = None  # what the one before came to

    @classmethod
    def new(cls, initial: InitialState, afresh: bool = False) -> Self:
        """Return the state before the first event; with `afresh`, the policy ignores what a saved model had learned."""
        if initial.model is not None:
            named = initial.model.load()
            policy = replace(initial, model=None).make_policy() if afresh else named.policy
            state = cls(policy, named.names, named.gone)
            state.restore_arms(named.arms_table(), named.features)
            state.use_model(initial.model)
        else:
            state = cls(initial.make_policy(), initial.users)
            for name, features, attributes in zip(initial.arms, initial.features, initial.attributes, strict=True):
                state.put_arm(name, features, attributes)
        state.spec = PolicySpec.of(initial)
        state.catalogue, state.since = 0, [0] * len(state.versions)  # changes have the numbers of events
        state.until = [None if end is None else 0 for end in state.until]
        return state

    @property
    def latest(self) -> Ints:
        """For each row, the number of its user's newest event; 0 if there is none."""
        if len(self.names) > len(self._latest):
            self._latest = np.concatenate([self._latest, np.zeros(len(self.names), dtype=np.int64)])
        return self._latest[: len(self.names)]

    def use_model(self, model: SavedModel | None) -> None:
        """Describe contexts and newcomers by the saved model that the log began with."""
        self.model = model
        if model is not None and model.alike is not None:
            self.unknown_users.near = lambda name: model.near(name, None, self.rows, NEIGHBOURS)

    # Reading: nothing below changes the state.

    def user_of(self, record: DecisionRecord | RewardRecord) -> str:
        """Return the name of the user of a record."""
        return self.names[record.user] if record.newcomer is None else record.newcomer

    def resolve(self, request: AnyRequest) -> ResolvedRequest:
        """Look up the names in a request, and combine its context with the vectors of the arms."""
        found = super().resolve(request)
        if not request.context and not request.attributes:
            return found
        return resolve_context(self, self.model, request, found)

    def shown_vectors(self, versions: Sequence[int], contexts: Sequence[Mapping[str, Any] | None]) -> Floats:
        """Return (rows, dim) the vectors of versions as they were shown, each in its context."""
        plain = self.features[np.array(versions, dtype=np.int64)]
        return plain if self.model is None else self.model.vectors(plain, contexts)

    def decide(self, requests: Sequence[AnyRequest], draws: np.random.Generator) -> list[DecisionRecord]:
        """Rank the eligible arms for each user; a decision takes effect when it is applied as an event."""
        return self.decide_resolved([self.resolve(request) for request in requests], draws)

    def decide_resolved(self, requests: Sequence[ResolvedRequest], draws: np.random.Generator) -> list[DecisionRecord]:
        """Decide about all requests with one call of each policy."""
        held = [] if self.experiment is None else [one for one in requests if self.experiment.holds_out(one.user)]
        by_control = self.rank_by_shadow(held) if held else None
        if (
            self.experiment is None or by_control is None
        ):  # nobody is held out, or the control failed: everybody gets the policy in force
            return [_record(request, ranking) for request, ranking in zip(requests, self.rank(requests, draws), strict=True)]
        others = [request for request in requests if not self.experiment.holds_out(request.user)]
        control, treatment = iter(by_control), iter(self.rank(others, draws) if others else ())
        return [
            _record(request, next(control), CONTROL)
            if self.experiment.holds_out(request.user)
            else _record(request, next(treatment))
            for request in requests
        ]

    def shadow_decisions(
        self, requests: Sequence[ResolvedRequest], decisions: Sequence[DecisionRecord]
    ) -> list[Ranking | None] | None:
        """Rank by the shadow what the policy in force has decided; None if there is no shadow, or if it fails."""
        if self.shadow is None:
            return None
        asked = [request for request, decision in zip(requests, decisions, strict=True) if decision.policy is None]
        found = self.rank_by_shadow(asked)
        if found is None:
            return None
        rankings = iter(found)
        return [next(rankings) if decision.policy is None else None for decision in decisions]

    def warm_up(self) -> None:
        """Compile what deciding and learning need, so that no request waits for the compiler."""
        for policy in filter(None, (self.policy, self.shadow)):
            policy.compile()
        pool = self.matching({})
        belief = self.policy.search_belief(0) if self.names and self.is_large(pool, 1) else None
        if belief is not None:
            self.contenders(belief, self.eligible(pool), 1)
        moments = getattr(self.policy, "moments", None)
        if moments is not None and self.names:
            moments(0)  # explanations need it

    def use_log(self, source: LogReader) -> None:
        """Set the log from which a new shadow learns."""
        self.source = source
        if self.spec is None:  # a snapshot of a log that never had a shadow does not say
            self.spec = PolicySpec.of(source.initial())

    # Applying events: the only way to change the state.

    def apply(self, events: Sequence[Event]) -> None:
        """Apply the next events of the log, in its order: the only way to change the state.

        An event about a user or an arm that was deleted has no effect.
        """
        rewards: list[RewardRecord] = []  # learned together, up to the next event that changes the policy
        for event in events:
            if event.seq <= self.seq:
                raise ValueError(f"events must come in order, but {event.seq} follows {self.seq}.")
            self.seq = event.seq
            self.chain = event.chain
            if event.user is not None:
                self.latest[event.user] = event.seq
            if event.kind == EventKind.REWARDED:
                reward = parse_reward(event.body)
                if reward.newcomer is not None and reward.newcomer not in self.rows:
                    self._learn(rewards)
                    edges = newcomer_edges(self, self.model, reward.newcomer, reward.context)
                    joins = partial(self._change, EventKind.USER_PUT, {"user": reward.newcomer, "edges": edges})
                    if not self._try_change(event.seq, joins):
                        self.rewards += 1
                        continue
                if reward.newcomer is not None:
                    reward = reward._replace(user=self.rows[reward.newcomer])
                if event.seq not in self.retracted:
                    rewards.append(reward)
                    if self.experiment is not None:
                        self.experiment.rewarded(reward.user, reward.decision, reward.value)
            elif event.kind == EventKind.DECIDED:
                self.decisions += event.items
                if self.experiment is not None:
                    for decision in parse_decisions(event.body):
                        self.experiment.decided(decision.user)
            elif event.kind == EventKind.FORGOTTEN:
                continue
            elif event.kind == EventKind.RETRACTED:
                self._retract(parse_retraction(event.body).reward)
            elif event.kind == EventKind.IMPORTED:
                self._learn(rewards)
                self._import(event)
            else:
                self._learn(rewards)
                self._try_change(event.seq, partial(self.follow, event))
        self._learn(rewards)

    def follow(self, event: Event) -> None:
        """Change users, edges, arms or policies as an event says; a ValueError if it no longer fits the state."""
        if event.kind in POLICY_KINDS:
            apply_policy_event(self, event)
        else:
            self._change(event.kind, parse_body(event.body))

    def _learn(self, rewards: list[RewardRecord]) -> None:
        """Learn these rewards, and empty the list."""
        self.rewards += len(rewards)
        learned = [reward for reward in rewards if reward.user not in self.gone]
        if learned:
            values = [reward.value for reward in learned]
            versions = [reward.version for reward in learned]
            in_context = any(reward.context for reward in learned)
            features = self.shown_vectors(versions, [reward.context for reward in learned]) if in_context else None
            self.learn([reward.user for reward in learned], versions, values, features)
        rewards.clear()

    def _retract(self, reward: int) -> None:
        if reward not in self.retracted:
            self.retracted.add(reward)
            self.stale = True

    def _import(self, event: Event) -> None:
        """Add users, and learn rewards that no decision of this log has earned."""
        body = parse_import(event.body)
        if body.join:
            self._try_change(event.seq, partial(self.join_many, body.join))
        kept = np.flatnonzero(~np.isin(np.array(body.users, dtype=np.int64), list(self.gone)))
        self.rewards += len(body.users)
        if len(kept):
            users, versions = np.array(body.users)[kept], np.array(body.versions)[kept]
            features = None
            if body.context is not None and self.model is not None:
                features = self.model.with_context_columns(self.features[np.array(body.versions)], body.context)[kept]
            self.learn(users, versions, np.array(body.values)[kept], features)

    def _try_change(self, seq: int, change: Callable[[], None]) -> bool:
        """Change users, edges, arms or policies; if the change is rejected, keep the error and return False."""
        try:
            change()
        except ValueError as error:
            self.refused[seq] = error if isinstance(error, InvalidRequest) else InvalidRequest("policy", str(error))
            if len(self.refused) > KEPT_REJECTIONS:
                del self.refused[min(self.refused)]
            return False
        return True

    def _change(self, kind: EventKind, body: dict[str, Any]) -> None:
        if kind in (EventKind.ARM_PUT, EventKind.ARM_DELETED):
            self.catalogue = self.seq - 1  # changes of the arms have the numbers of their events
        match kind:
            case EventKind.ARM_PUT:
                self.put_arm(body["arm"], np.array(body["features"], dtype=np.float64), body["attributes"])
            case EventKind.ARM_DELETED:
                self.delete_arm(body["arm"])
            case EventKind.USER_PUT:
                self.put_user(body["user"], body["edges"])
            case EventKind.USER_DELETED:
                self.delete_user(body["user"])
            case EventKind.EDGE_PUT | EventKind.EDGE_DELETED:
                a, b = self.rows.get(body["a"]), self.rows.get(body["b"])
                if a is not None and b is not None:
                    self.set_edge(a, b, body.get("weight", 0.0))
                elif kind == EventKind.EDGE_PUT:
                    field = "a" if a is None else "b"
                    raise Conflict(field, f"user {body[field]!r} was deleted before the edge could be put.")

    def learn(
        self, users: npt.ArrayLike, versions: Sequence[int] | Ints, rewards: npt.ArrayLike, features: Floats | None = None
    ) -> None:
        """Learn rewards in both policies."""
        super().learn(users, versions, rewards, features)
        if self.shadow is None:
            return
        x = self.features[versions] if features is None else features
        self.change_shadow(lambda shadow: shadow.update_many(users, x, rewards, items=self.version_items[versions]))
        self._shadow_unknown.learned += len(versions)

    def put_user(self, name: str, edges: Mapping[str, float]) -> int:
        """Add a user, or neighbours of one; assign a new user to an arm of the experiment."""
        row = super().put_user(name, edges)
        if self.experiment is not None:
            self.experiment.joined(row, name, self.seq, dict(self.edges(row)))
        return row

    def join_many(self, names: Sequence[str]) -> None:
        """Add all users that are new, without edges; assign them to arms of the experiment."""
        first = len(self.names)
        super().join_many(names)
        if self.experiment is not None:
            for row in range(first, len(self.names)):
                self.experiment.joined(row, self.names[row], self.seq, {})

    def lose_shadow(self, reason: str) -> None:
        """Drop a shadow that could not follow, and end the experiment that needs it."""
        if self.experiment is not None:
            self.end_experiment(None, f"the shadow could not follow: {reason}")
        super().lose_shadow(reason)

    def end_experiment(self, at: int | None, reason: str) -> None:
        """End the experiment, and keep its result; `at` is in microseconds."""
        assert self.experiment is not None
        ended = {"ended": None if at is None else at / 1e6, "reason": reason}
        self.last_experiment, self.experiment = self.experiment_table() | ended, None

    def experiment_table(self) -> dict[str, Any]:
        """Return the running experiment as JSON values."""
        assert self.experiment is not None
        return self.experiment.table(*self.policy_texts)

    # Snapshots.

    def pack(self) -> tuple[dict[str, Any], archive.Arrays]:
        """Return the header and the arrays of a snapshot.

        They are copies, so that they can be written while further events are applied.
        """
        policy, arrays = self.policy.pack()
        header: dict[str, Any] = dict(policy=policy, gone=sorted(self.gone)) | self.arms_table()
        header |= dict(seq=self.seq, chain=self.chain, decisions=self.decisions, rewards=self.rewards)
        header |= dict(retracted=sorted(self.retracted), stale=self.stale)
        packed: archive.Arrays = {f"policy.{name}": np.array(array) for name, array in arrays.items()}
        packed |= {"names": json_bytes(self.names), "features": self.features.copy(), "latest": self.latest.copy()}
        table, shadow = self.pack_policies()
        if self.last_experiment is not None:
            header["last_experiment"] = self.last_experiment
        if self.experiment is not None:
            header["experiment"], sums = self.experiment.pack()
            packed |= {f"experiment.{name}": array for name, array in sums.items()}
        return header | table, packed | shadow

    @classmethod
    def unpack(cls, policy_class: type[Policy], header: dict[str, Any], arrays: archive.Arrays) -> Self:
        """Return the state with the header and the arrays from `pack`."""
        inner = {name.removeprefix("policy."): array for name, array in arrays.items() if name.startswith("policy.")}
        policy = class_in_force(header, policy_class).unpack(header["policy"], inner)
        state = cls(policy, from_json(arrays["names"].tobytes()), header["gone"])
        state.restore_arms(header, arrays["features"])
        state._latest = arrays["latest"]
        state.seq, state.decisions, state.rewards = header["seq"], header["decisions"], header["rewards"]
        state.chain = header["chain"]
        state.unpack_policies(header, arrays)
        state.last_experiment = header.get("last_experiment")
        if "experiment" in header:
            sums = {name: arrays[f"experiment.{name}"] for name in ("sums", "rows", "holdout")}
            state.experiment = HoldoutExperiment.unpack(header["experiment"], sums)
        state.retracted, state.stale = set(header["retracted"]), header["stale"]
        return state


def _record(request: ResolvedRequest, ranking: Ranking, policy: str | None = None) -> DecisionRecord:
    return DecisionRecord(request.user, _listed(request), *ranking, request.name, request.context, request.filter, policy)


def _listed(request: ResolvedRequest) -> list[int] | None:
    """Return the versions that a record must list; None if a filter, or "all arms", identifies them."""
    if request.is_all or request.filter is not None:
        return None
    return list(request.versions.tolist())


def digest(header: dict[str, Any], arrays: archive.Arrays) -> str:
    """Return a hash of the header and the arrays from `pack`; equal hashes mean equal states."""
    whole = hashlib.sha256()
    # In pieces: all other threads wait while one call encodes, and there may be a million arms.
    for piece in json.JSONEncoder(sort_keys=True, default=lambda value: value.tolist()).iterencode(header):
        whole.update(piece.encode())
    for name in sorted(arrays):
        whole.update(f"{name}{arrays[name].dtype.str}{arrays[name].shape}".encode())
        whole.update(np.ascontiguousarray(arrays[name]).data if arrays[name].size else b"")
    return whole.hexdigest()


def json_bytes(names: list[str]) -> npt.NDArray[np.uint8]:
    """Return names as JSON in bytes, encoded in pieces: other threads wait while one call encodes a million names."""
    pieces = [to_json(names[start : start + 10_000])[1:-1] for start in range(0, len(names), 10_000)]
    return np.frombuffer(b"[" + b",".join(pieces) + b"]", dtype=np.uint8)
