"""A recommender in one file: policy, names, features, open recommendations. Nothing is pickled."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from .. import policies
from ..policies import Policy
from ..storage import archive
from ..storage.archive import ArchiveError, Arrays
from .alike import Alike
from .catalogue_table import CatalogueTable
from .features import Features
from .named_policy import NamedPolicy
from .user_names import UserNames

if TYPE_CHECKING:
    from .recommender import Recommender

KIND = "recommender"
R = TypeVar("R", bound="Recommender")


def save(recommender: Recommender, path: str | os.PathLike[str]) -> None:
    """Write a recommender."""
    archive.write(path, KIND, *pack(recommender))


def to_bytes(recommender: Recommender) -> bytes:
    """The bytes that `save` writes."""
    return archive.to_bytes(KIND, *pack(recommender))


def pack(recommender: Recommender) -> tuple[dict[str, Any], Arrays]:
    """Header and arrays of a file."""
    named, catalogue, names = recommender.named, recommender.catalogue, recommender.user_names
    header, arrays = catalogue.features.pack()
    policy, state = named.policy.pack()
    header |= dict(policy=policy, policy_class=type(named.policy).__name__, names=named.names, gone=sorted(named.gone))
    header |= named.arms_table() | recommender.pack()
    header |= dict(integers=[names.are_integers, catalogue.are_integers], own_transformer=catalogue.transformer is not None)
    header["filters"] = catalogue.filters
    arrays = {f"features.{name}": array for name, array in arrays.items()}
    arrays |= {f"policy.{name}": np.array(array) for name, array in state.items()} | {"vectors": named.features}
    if recommender.alike is not None:
        more, vectors = recommender.alike.pack()
        header |= more
        arrays |= vectors
    return header, arrays


def load(cls: type[R], path: str | os.PathLike[str], features: Any) -> R:
    """The recommender in a file."""
    return unpack(cls, *archive.read(path, KIND), features, path)


def from_bytes(cls: type[R], content: bytes, name: str) -> R:
    """The recommender in the bytes of a file; errors call them `name`."""
    return unpack(cls, *archive.from_bytes(content, KIND, name), None, name)


def unpack(cls: type[R], header: dict[str, Any], arrays: Arrays, features: Any, path: str | os.PathLike[str]) -> R:
    """The recommender from header and arrays of a file."""
    policy_class = getattr(policies, header["policy_class"], None)
    if not (isinstance(policy_class, type) and issubclass(policy_class, Policy)):
        raise ArchiveError(f"{path} has a policy {header['policy_class']}, which is none of graphbandit's.")
    recommender = cls()
    recommender.user_names = UserNames()
    recommender.user_names.are_integers, integers = header["integers"]
    recommender.catalogue = CatalogueTable(Features.unpack(header, _part(arrays, "features.")))
    recommender.catalogue.are_integers, recommender.catalogue.filters = integers, header["filters"]
    recommender.catalogue.transformer = features if header["own_transformer"] else None
    named = NamedPolicy(policy_class.unpack(header["policy"], _part(arrays, "policy.")), header["names"], header["gone"])
    named.restore_arms(header, arrays["vectors"])
    recommender.alike = Alike.unpack(header, arrays) if "alike" in header else None
    recommender.restore(header, named)
    return recommender


def _part(arrays: Arrays, prefix: str) -> Arrays:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
