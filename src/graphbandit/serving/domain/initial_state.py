"""Initial graph, arms and policy, stored with the log, so that a replay needs nothing else."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from ...compute.arrays import Floats
from ...graph import UserGraph
from ...graphs import empty
from ...policies import Policy, Stochastic, policy_class, policy_name
from ...recommending.named_policy import Attributes
from ...storage import archive
from ...validate import LARGEST_FEATURE
from .saved_model import SavedModel

ARCHIVE_KIND = "initial state"


@dataclass(frozen=True, eq=False)
class InitialState:
    """The state that a log begins with.

    Users are the ids of the graph, if there is one. An arm has a name, a row of features, and attributes.

    Examples
    --------
    >>> from graphbandit import graphs
    >>> initial = InitialState(graphs.from_edges([("ann", "bob")]), ["tea"], np.ones((1, 2)), [{"kind": "hot"}])
    >>> initial.users, initial.dim
    (['ann', 'bob'], 2)
    """

    graph: UserGraph | None  # None: nobody yet
    arms: Sequence[str]
    features: Floats  # (arms, dim)
    attributes: Sequence[Attributes]  # of each arm, to filter by
    policy: str = "adaptive"
    params: Mapping[str, Any] = field(default_factory=dict)
    epsilon: float = 0.0
    seed: int = 0
    model: SavedModel | None = None  # a saved Recommender; all else is then what it says

    def __post_init__(self) -> None:
        if "items" in inspect.signature(policy_class(self.policy)).parameters:
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
        """Ids of the graph's users, as strings."""
        if self.model is not None:
            return self.model.load().names
        return [] if self.graph is None else [str(name) for name in self.graph.ids or range(self.graph.n_users)]

    @property
    def adjacency(self) -> sparse.csr_array:
        """Edges between users; a 1×1 placeholder when there are no users."""
        return (empty(1) if self.graph is None else self.graph).adjacency

    @property
    def policy_class(self) -> type[Policy]:
        """Class of the policy that `make_policy` returns."""
        if self.model is not None:
            return type(self.model.load().policy)
        return Stochastic if self.epsilon else policy_class(self.policy)

    def make_policy(self) -> Policy:
        """Return the policy before the first event.

        The policy knows users by row; `ServiceState` has their names.
        """
        if self.model is not None:
            return self.model.load().policy
        inner: Any = policy_class(self.policy)
        policy: Policy = inner(UserGraph(self.adjacency), self.dim, seed=self.seed, **self.params)
        return Stochastic(policy, epsilon=self.epsilon, seed=self.seed) if self.epsilon else policy

    def to_bytes(self) -> bytes:
        """Return the archive that the store keeps."""
        if self.model is not None:
            content = np.frombuffer(self.model.content, dtype=np.uint8)
            return archive.to_bytes(ARCHIVE_KIND, {}, {"model": content})
        header = dict(policy=self.policy, params=dict(self.params), epsilon=self.epsilon, seed=self.seed)
        header |= dict(users=self.users, arms=list(self.arms), attributes=[dict(entry) for entry in self.attributes])
        matrix = self.adjacency
        arrays = {"features": self.features, "data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr}
        return archive.to_bytes(ARCHIVE_KIND, header, arrays)

    @classmethod
    def from_model(cls, content: bytes) -> InitialState:
        """Return the initial state of a `Recommender`, from the content of its file.

        The log begins with its users, items and features, and with its policy and all that it has learned.
        """
        model = SavedModel(content)
        named = model.load()
        inner = named.policy.policy if isinstance(named.policy, Stochastic) else named.policy
        return cls(
            UserGraph(named.policy.graph.adjacency),
            list(named.arms),
            named.features[list(named.arms.values())],
            [named.attributes[version] for version in named.arms.values()],
            policy=policy_name(type(inner)),
            params={key: value for key, value in inner.params.items() if np.ndim(value) == 0},
            epsilon=float(named.policy.params["epsilon"]) if isinstance(named.policy, Stochastic) else 0.0,
            model=model,
        )

    @classmethod
    def from_bytes(cls, content: bytes) -> InitialState:
        """Return the initial state from the content that `to_bytes` returned."""
        header, arrays = archive.from_bytes(content, ARCHIVE_KIND, "the initial state of the log")
        if "model" in arrays:
            return cls.from_model(arrays["model"].tobytes())
        n = max(1, len(header["users"]))
        matrix = sparse.csr_array((arrays["data"], arrays["indices"], arrays["indptr"]), shape=(n, n))
        fields = {name: header[name] for name in ("arms", "attributes", "policy", "params", "epsilon", "seed")}
        graph = UserGraph(matrix, header["users"]) if header["users"] else None
        return cls(graph, features=arrays["features"], **fields)
