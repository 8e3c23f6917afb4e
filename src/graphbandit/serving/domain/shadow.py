"""`PolicyWithShadow`: a policy in force and a second policy, its shadow, which learns from the same events.

The shadow never affects what is shown, unless an experiment gives it a share of the users. A shadow that cannot
follow a change is dropped, and the policy in force continues.
"""

from __future__ import annotations

import copy
import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ...policies import POLICIES, Policy, Stochastic, policy_class
from ...recommending.named_policy import NamedPolicy, Ranking
from ...recommending.requests import ResolvedRequest
from ...recommending.unknown_users import UnknownUsers
from ...storage import archive
from .events import Event
from .initial_state import InitialState

logger = logging.getLogger("graphbandit.serving")
KEPT_CHANGES = 100
"""Changes of the policy in force that `policy_history` keeps."""


class PolicySpec(NamedTuple):
    """Name and settings of a policy.

    >>> PolicySpec("adaptive", {"half_life": 200}).text
    'adaptive:half_life=200'
    """

    policy: str
    params: Mapping[str, Any] = {}
    epsilon: float = 0.0
    seed: int = 0

    @property
    def text(self) -> str:
        """Policy in the form that `--shadow` takes, without the seed."""
        settings = dict(self.params) | ({"epsilon": self.epsilon} if self.epsilon else {})
        values = ",".join(
            f"{name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in settings.items()
        )
        return f"{self.policy}:{values}" if values else self.policy

    @property
    def policy_class(self) -> type[Policy]:
        """Class of the policy."""
        return Stochastic if self.epsilon else policy_class(self.policy)

    @classmethod
    def of(cls, initial: InitialState) -> PolicySpec:
        """Return the policy that a log begins with."""
        return cls(initial.policy, dict(initial.params), initial.epsilon, initial.seed)

    def initial_state(self, initial: InitialState) -> InitialState:
        """Return the same initial state with this policy."""
        return replace(initial, policy=self.policy, params=self.params, epsilon=self.epsilon, seed=self.seed)

    def body(self) -> dict[str, Any]:
        """Return the body of SHADOW_BEGUN."""
        return self._asdict() | {"params": dict(self.params)}


def parse_policy(text: str, usual: PolicySpec) -> PolicySpec:
    """Parse a policy of the form `name:setting=value,…`; epsilon and seed default to those of `usual`.

    >>> parse_policy("adaptive:half_life=200,solver=local", PolicySpec("linucb", {}, 0.1, 3))
    PolicySpec(policy='adaptive', params={'half_life': 200, 'solver': 'local'}, epsilon=0.1, seed=3)
    """
    name, _, rest = text.strip().partition(":")
    if name not in POLICIES:  # module:Class
        kind, _, rest = rest.partition(":")
        name = f"{name}:{kind}" if kind else name
        try:
            policy_class(name)
        except ValueError as error:
            raise ValueError(f"shadow {text!r} must begin with a policy: {error}") from None
    settings: dict[str, Any] = {}
    for part in filter(None, rest.split(",")):
        setting, equals, value = part.partition("=")
        if not equals or not setting.strip():
            raise ValueError(f"shadow {text!r} must be like adaptive:half_life=200,exploration=0.5, but {part!r} has no value.")
        try:
            settings[setting.strip()] = json.loads(value)
        except ValueError:
            settings[setting.strip()] = value.strip()
    return PolicySpec(name, settings, settings.pop("epsilon", usual.epsilon), settings.pop("seed", usual.seed))


class LogReader(NamedTuple):
    """Functions that read the log, from which a new shadow learns."""

    initial: Callable[[], InitialState]
    read: Callable[[int], Iterable[Sequence[Event]]]  # the log up to an event, in pages


class PolicyWithShadow(NamedPolicy):
    """A `NamedPolicy` with or without a second policy."""

    def __init__(self, policy: Policy, names: list[str], gone: Iterable[int] = ()) -> None:
        super().__init__(policy, names, gone)
        self.spec: PolicySpec | None = None  # of the policy in force; None: that of the log's beginning
        self.shadow: Policy | None = None
        self.shadow_spec: PolicySpec | None = None
        self.can_roll_back = False  # whether the shadow was in force before
        self.switches = 0  # how often the two changed places
        self.policy_history: list[dict[str, Any]] = []
        # Not part of the state:
        self.defers_shadow_replay = (
            False  # whether a shadow that begins makes the state stale, to be replayed beside the service
        )
        self.source: LogReader | None = None
        self.shadow_draws = np.random.default_rng(0)
        self._shadow_unknown = UnknownUsers()

    @property
    def policy_texts(self) -> list[str | None]:
        """Policy in force and shadow as text."""
        return [None if spec is None else spec.text for spec in (self.spec, self.shadow_spec)]

    @property
    def specs(self) -> list[PolicySpec]:
        """Name and settings of the policy in force and of the shadow, if there is one."""
        return [spec for spec in (self.spec, self.shadow_spec) if spec is not None]

    # Deciding.

    def shadow_view(self) -> NamedPolicy | None:
        """Return the same users and arms with the shadow as their policy; valid until the next event."""
        if self.shadow is None:
            return None
        view: NamedPolicy = copy.copy(self)
        view.policy, view.unknown_users = self.shadow, self._shadow_unknown
        return view

    def rank_by_shadow(self, requests: Sequence[ResolvedRequest]) -> list[Ranking] | None:
        """Rank by the shadow, with its own random numbers; None if there is no shadow, or if it fails."""
        view = self.shadow_view()
        if view is None or not requests:
            return None
        try:
            return view.rank(requests, self.shadow_draws)
        except Exception:  # whatever it is, the policy in force decides
            logger.exception("the shadow could not decide")
            return None

    # Following.

    def put_user(self, name: str, edges: Mapping[str, float]) -> int:
        """Add a user, or neighbours of one, in both policies."""
        is_grown = name not in self.rows and len(self.names) == self.policy.n_users
        neighbour_weights = {
            self.rows[other]: weight for other, weight in edges.items() if other in self.rows and other != name
        }
        row = super().put_user(name, edges)
        if is_grown:  # else the edges came one by one
            self.change_shadow(lambda shadow: shadow.add_user(neighbour_weights))
        return row

    def join_many(self, names: Sequence[str]) -> None:
        """Add all users that are new, without edges, in both policies."""
        before = self.policy.n_users
        super().join_many(names)
        if self.policy.n_users > before:
            self.change_shadow(lambda shadow: shadow.set_graph(self.policy.graph))

    def delete_user(self, name: str) -> None:
        """Forget a user, in both policies."""
        row = self.rows.get(name)
        super().delete_user(name)
        if row is not None:
            self.change_shadow(lambda shadow: shadow.remove_user(row))

    def set_edge(self, a: int, b: int, weight: float) -> None:
        """Add an edge between two rows, change its weight, or remove it, in both policies."""
        super().set_edge(a, b, weight)
        view = self.shadow_view()
        if view is not None:
            self.change_shadow(lambda _: NamedPolicy.set_edge(view, a, b, weight))

    def delete_arm(self, name: str) -> None:
        """Stop offering an arm, in both policies."""
        is_known = name in self.arms
        super().delete_arm(name)
        if is_known:
            self.change_shadow(lambda shadow: shadow.remove_item(self.item_ids[name]))

    def change_shadow(self, change: Callable[[Policy], object]) -> None:
        """Change the shadow as the policy in force was changed; drop the shadow if it rejects the change."""
        if self.shadow is None:
            return
        try:
            change(self.shadow)
        except ValueError as error:  # the policy refuses the change, in every process alike; anything else ends this process
            facts = {"shadow": self.policy_texts[1], "reason": str(error)}
            logger.error("the shadow could not follow the log and was dropped", extra=facts)
            self.lose_shadow(str(error))

    def lose_shadow(self, reason: str) -> None:
        """Drop the shadow, which could not follow."""
        self.end_shadow()

    # Changes of the two policies.

    def begin_shadow(self, fresh: Any, spec: PolicySpec, until: int, skipped: Iterable[int]) -> None:
        """Let a fresh state with the other policy learn the log before event `until`; its policy becomes the shadow.

        Raises a ValueError if that policy rejects what the policy in force accepted, such as new users.
        """
        if self.source is None:
            raise RuntimeError("a shadow cannot begin before `use_log` has set the log")
        left_out = set(skipped)
        for page in self.source.read(until - 1):
            fresh.apply([event for event in page if event.kind not in left_out])
        mine, other = self.policy.graph.adjacency, fresh.policy.graph.adjacency
        is_same = fresh.names == self.names and fresh.gone == self.gone
        if not is_same or mine.shape != other.shape or (mine != other).nnz:
            raise ValueError("it rejects changes of users or edges that the policy in force has accepted.")
        self.shadow, self.shadow_spec, self.can_roll_back = fresh.policy, spec, False
        self._shadow_unknown = fresh.unknown_users

    def end_shadow(self) -> None:
        """Drop the shadow and continue without one."""
        self.shadow = self.shadow_spec = None
        self.can_roll_back = False
        self._shadow_unknown = UnknownUsers()

    def switch(self, is_promotion: bool) -> None:
        """Exchange the policy in force and its shadow."""
        if self.shadow is None:
            raise ValueError("there is no shadow to be promoted: begin one first.")
        self.policy, self.shadow = self.shadow, self.policy
        self.spec, self.shadow_spec = self.shadow_spec, self.spec
        self.unknown_users, self._shadow_unknown = self._shadow_unknown, self.unknown_users
        self.switches += 1
        self.can_roll_back = is_promotion

    def record_change(self, event: Event, what: str, reason: str | None = None) -> None:
        """Record a change of the policies in the history."""
        entry = {"event": event.seq, "time": event.at / 1e6, "what": what, "reason": reason}
        in_force, shadow = self.policy_texts
        self.policy_history.append(entry | {"in_force": in_force, "shadow": shadow})
        del self.policy_history[:-KEPT_CHANGES]

    # Snapshots.

    def pack_policies(self) -> tuple[dict[str, Any], archive.Arrays]:
        """Return the header and the arrays of the shadow; both are empty for a log without policy changes."""
        if not self.policy_history:
            return {}, {}
        specs = [
            None if spec is None else [spec.policy, dict(spec.params), *spec[2:]] for spec in (self.spec, self.shadow_spec)
        ]
        table: dict[str, Any] = dict(specs=specs, switches=self.switches, can_roll_back=self.can_roll_back)
        table["history"] = [dict(entry) for entry in self.policy_history]
        if self.shadow is None:
            return {"policies": table}, {}
        table["shadow"], arrays = self.shadow.pack()
        return {"policies": table}, {f"shadow.{name}": np.array(array) for name, array in arrays.items()}

    def unpack_policies(self, header: Mapping[str, Any], arrays: archive.Arrays) -> None:
        """Restore the header and the arrays from `pack_policies`."""
        table = header.get("policies")
        if table is None:
            return
        self.spec, self.shadow_spec = (None if spec is None else PolicySpec(*spec) for spec in table["specs"])
        self.switches, self.can_roll_back, self.policy_history = table["switches"], table["can_roll_back"], table["history"]
        if self.shadow_spec is not None:
            inner = {name.removeprefix("shadow."): array for name, array in arrays.items() if name.startswith("shadow.")}
            self.shadow = self.shadow_spec.policy_class.unpack(table["shadow"], inner)


def class_in_force(header: Mapping[str, Any], usual: type[Policy]) -> type[Policy]:
    """Return the class of the policy in a snapshot: `usual`, unless another policy was promoted."""
    spec = header.get("policies", {}).get("specs", [None])[0]
    return usual if spec is None else PolicySpec(*spec).policy_class
