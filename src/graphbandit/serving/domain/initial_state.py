"""What a log begins with: the graph, the arms and the policy of its first day. Kept in the store, which is whole by that."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from ...compute.arrays import Floats
from ...graph import UserGraph
from ...policies import POLICIES, Policy, Stochastic
from ...storage import archive
from ...validate import LARGEST_FEATURE

Attributes = Mapping[str, str]


@dataclass(frozen=True, eq=False)
class Beginning:
    """Users are the ids of the graph; an arm has a name, a row of features and attributes to filter by."""

    graph: UserGraph
    arms: Sequence[str]
    features: Floats  # (arms, dim)
    attributes: Sequence[Attributes]
    policy: str = "adaptive"
    params: Mapping[str, Any] = field(default_factory=dict)
    epsilon: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise ValueError(f"policy must be one of {', '.join(POLICIES)}, but it is {self.policy!r}.")
        if "items" in inspect.signature(POLICIES[self.policy]).parameters:
            raise ValueError(f"policy {self.policy!r} needs a fixed catalogue of items, but a service's arms change.")
        if len(set(self.arms)) != len(self.arms):
            raise ValueError("arms must have distinct names, but at least one occurs twice.")
        if self.features.ndim != 2 or self.features.shape[1] == 0 or len(self.features) != len(self.arms):
            raise ValueError(
                f"features must have one row for each of {len(self.arms)} arms, but its shape is {self.features.shape}."
            )
        if not (np.abs(self.features) <= LARGEST_FEATURE).all():
            raise ValueError(f"features must be finite and at most {LARGEST_FEATURE:g} in size.")

    @property
    def dim(self) -> int:
        """Number of features."""
        return int(self.features.shape[1])

    @property
    def users(self) -> list[str]:
        """The ids of the graph's users, as strings."""
        return [str(name) for name in self.graph.ids or range(self.graph.n_users)]

    @property
    def kind(self) -> type[Policy]:
        """The class of the policy."""
        return Stochastic if self.epsilon else POLICIES[self.policy]

    def make_policy(self) -> Policy:
        """The policy before the first event. It knows rows only: names are the recommender's."""
        kind: Any = POLICIES[self.policy]
        policy: Policy = kind(UserGraph(self.graph.adjacency), self.dim, seed=self.seed, **self.params)
        return Stochastic(policy, epsilon=self.epsilon, seed=self.seed) if self.epsilon else policy

    def to_bytes(self) -> bytes:
        """The form in which it is stored."""
        header = dict(policy=self.policy, params=dict(self.params), epsilon=self.epsilon, seed=self.seed)
        header |= dict(users=self.users, arms=list(self.arms), attributes=[dict(entry) for entry in self.attributes])
        matrix = self.graph.adjacency
        arrays = {"features": self.features, "data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr}
        return archive.to_bytes("beginning", header, arrays)

    @classmethod
    def from_bytes(cls, content: bytes) -> Beginning:
        """What `to_bytes` wrote."""
        header, arrays = archive.from_bytes(content, "beginning", "the beginning of the log")
        n = len(header["users"])
        matrix = sparse.csr_array((arrays["data"], arrays["indices"], arrays["indptr"]), shape=(n, n))
        fields = {name: header[name] for name in ("arms", "attributes", "policy", "params", "epsilon", "seed")}
        return cls(UserGraph(matrix, header["users"]), features=arrays["features"], **fields)
