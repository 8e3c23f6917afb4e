"""`Wrapper`: a policy around another one, which decides and learns."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from ...storage import archive
from ..core.policy import Policy, Seed

P = TypeVar("P", bound=Policy)


def from_inner(*names: str, changing: bool = False) -> Callable[[type[P]], type[P]]:
    """Give a wrapper these members of the policy inside; after methods that are `changing`, it takes over the new state."""

    def member(name: str) -> Any:
        own = getattr(Policy, name)
        if isinstance(own, property):
            return property(lambda self: getattr(self.policy, name), doc=own.__doc__)

        @wraps(own)
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            result = getattr(self.policy, name)(*args, **kwargs)
            if changing:
                self._follow_inner()
            return result

        return call

    def add(wrapper: type[P]) -> type[P]:
        for name in names:
            setattr(wrapper, name, member(name))
        return wrapper

    return add


@from_inner("theta", "has_belief", "scores_from_belief", "draws_from_belief", "beliefs", "search_belief", "score", "score_many")
@from_inner("n_normals", "is_optimistic", "is_sampling", "draws_values", "values", "choice_probabilities")
@from_inner("decides_by_kernels", "learns_by_kernels", "learns_items", "item_table", "item_room", "effects_of", "remove_item")
@from_inner("reserve_items", changing=True)
class Wrapper(Policy):
    """Base of the wrappers: scores, beliefs, draws and effects of items are those of the policy inside."""

    policy: Policy

    def reseed(self, seed: Seed) -> None:
        """Replace the generator of the decisions; it seeds that of the policy inside."""
        super().reseed(seed)
        self.policy.reseed(int(self.rng.integers(2**62)))

    def _follow_inner(self) -> None:
        """Take over what the policy inside replaces as it changes."""
        raise NotImplementedError


def prefixed_params(inner: Policy) -> dict[str, Any]:
    """Return the settings of the policy inside, as they appear among those of the wrapper."""
    return {f"policy.{name}": value for name, value in inner.params.items()}


def unpack_policy(header: dict[str, Any], arrays: archive.Arrays) -> Policy:
    """Return the policy of which `pack` gave header and arrays, of whatever class the header names."""
    return policy_classes()[header["policy"]].unpack(header, arrays)


def policy_classes(base: type[Policy] = Policy) -> dict[str, type[Policy]]:
    """Return `base` and all its subclasses by name, those that a user has defined too."""
    found = {base.__name__: base}
    for subclass in base.__subclasses__():
        found |= policy_classes(subclass)
    return found
