"""From a request about users of two shards to the event that it asks for, and from another shard's change to its event."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ...recommending.errors import InvalidRequest, UnknownName
from . import proposals
from .correspondence import Origin
from .events import Draft, EventKind, encode
from .proposals import ProposedChange
from .shard_recommender import ShardRecommender

ARM_KINDS = {"arm_put": EventKind.ARM_PUT, "arm_deleted": EventKind.ARM_DELETED}


def put_edge_across(state: ShardRecommender, a: str, b: str, weight: float, home: int) -> ProposedChange:
    """Connect a user with one of shard `home`, or change the weight of their edge."""
    state.row(a, "a")
    return _proposed(EventKind.EDGE_PUT, {"a": a, "b": b, "weight": weight, "to": home})


def delete_edge_across(state: ShardRecommender, a: str, b: str, home: int) -> ProposedChange:
    """Remove the edge between a user and one of shard `home`."""
    row, other = state.row(a, "a"), state.ghosts.get(b)
    if other is None or not state.weight(row, other):
        raise UnknownName("b", f"there is no edge between {a!r} and {b!r}.")
    return _proposed(EventKind.EDGE_DELETED, {"a": a, "b": b, "to": home})


def put_user_across(state: ShardRecommender, user: str, edges: Mapping[str, float], homes: Mapping[str, int]) -> ProposedChange:
    """Add a user, or neighbours of one; `homes` has the shards of those neighbours who belong to others."""
    if user in edges:
        raise InvalidRequest("edges", f"a user cannot be its own neighbour, but {user!r} is.")
    proposals.put_user(state, user, {other: weight for other, weight in edges.items() if other not in homes})
    return _proposed(EventKind.USER_PUT, {"user": user, "edges": dict(edges), "to": dict(homes)})


def received(origin: Origin, change: Mapping[str, Any]) -> ProposedChange:
    """The event of a change that another shard has committed."""
    kind = ARM_KINDS.get(change["kind"])
    if kind is None:
        return _proposed(EventKind.RECEIVED, {"from": list(origin), "change": dict(change)}, origin.key)
    body = {name: value for name, value in change.items() if name != "kind"}
    return _proposed(kind, body | {"from": list(origin)}, origin.key)


def delivered(number: int, to: int, refused: list[str]) -> ProposedChange:
    """The event that another shard has answered to the change of event `number`."""
    return _proposed(EventKind.DELIVERED, {"number": number, "to": to, "refused": refused}, f"d{number}.{to}")


def values_taken(encoded: str) -> ProposedChange:
    """The event of what another shard has told of its users."""
    return ProposedChange(Draft(EventKind.VALUES, _now(), encoded))


def _proposed(kind: EventKind, body: dict[str, Any], key: str | None = None) -> ProposedChange:
    return ProposedChange(Draft(kind, _now(), encode(body), key))


def _now() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1000
