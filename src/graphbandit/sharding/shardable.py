"""Which policies can be divided among shards, and with which settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..policies import POLICIES, Policy

SHARDABLE: dict[str, dict[str, Any]] = {
    "linucb": {"shared": False},
    "lints": {"shared": False},
    "graphucb": {"solver": "push"},
    "graphucb-local": {},
    "adaptive": {"solver": "local"},
}
"""Name of a policy: settings that a shard needs. Its estimates must be made of rows and of sums (`LiveUsers`)."""


def check_shardable(name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with which a policy can be divided, or a ValueError.

    >>> check_shardable("graphucb", {"alpha": 0.1})
    {'alpha': 0.1, 'solver': 'push'}
    """
    if name not in SHARDABLE:
        known = ", ".join(SHARDABLE)
        reason = "its estimates cannot be divided by users" if name in POLICIES else "there is no policy of this name"
        raise ValueError(f"policy must be one of {known} to be divided among shards, but it is {name!r}: {reason}.")
    needed = SHARDABLE[name]
    for setting, value in needed.items():
        given = settings.get(setting, value)
        if given != value and given != "auto":
            raise ValueError(f"{setting} must be {value!r} for a policy that is divided among shards, but it is {given!r}.")
    return {**settings, **needed}


def shard_policy(name: str) -> type[Policy]:
    """The class of a policy that can be divided."""
    check_shardable(name, {})
    return POLICIES[name]
