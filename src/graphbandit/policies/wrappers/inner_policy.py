"""What wrappers share: settings, random generator and file of the policy inside."""

from __future__ import annotations

from typing import Any

from ...storage import archive
from ..core.policy import Policy


def prefixed_params(inner: Policy) -> dict[str, Any]:
    """The settings of the policy inside, as they appear among those of the wrapper."""
    return {f"policy.{name}": value for name, value in inner.params.items()}


def reseed_inner(wrapper: Policy, inner: Policy) -> None:
    """Seed the policy inside with a number from the wrapper's generator."""
    inner.reseed(int(wrapper.rng.integers(2**62)))


def unpack_policy(header: dict[str, Any], arrays: archive.Arrays) -> Policy:
    """The policy of which `pack` gave header and arrays, of whatever class the header names."""
    return policy_classes()[header["policy"]].unpack(header, arrays)


def policy_classes(base: type[Policy] = Policy) -> dict[str, type[Policy]]:
    """`base` and all its subclasses by name, those that a user has defined too."""
    found = {base.__name__: base}
    for subclass in base.__subclasses__():
        found |= policy_classes(subclass)
    return found
