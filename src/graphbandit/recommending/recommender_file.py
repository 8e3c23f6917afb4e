"""A recommender in one file, or in a folder: policy, names, features, open recommendations. Nothing is pickled.

A folder has the policy in a file of its own, `policy.gb`, and all else in `recommender.gb`, so that
the policy can be opened alone. `graphbandit fit` writes such folders.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ..policies.core.policy import policy_classes
from ..policies.core.policy_file import POLICY_FILE
from ..storage import archive
from ..storage.archive import ArchiveError, Arrays
from .catalogue_table import CatalogueTable
from .features import Features
from .named_policy import NamedPolicy
from .similar_users import SimilarUsers
from .user_names import UserNames

if TYPE_CHECKING:
    from .recommender import Recommender

KIND = "recommender"
WITHOUT_POLICY = "recommender without its policy"
RECOMMENDER_FILE = "recommender.gb"
R = TypeVar("R", bound="Recommender")


def save(recommender: Recommender, path: str | os.PathLike[str]) -> None:
    """Write a recommender."""
    archive.write(path, KIND, *pack(recommender))


def to_bytes(recommender: Recommender) -> bytes:
    """Return the bytes that `save` writes."""
    return archive.to_bytes(KIND, *pack(recommender))


def save_names(recommender: Recommender, folder: str | os.PathLike[str]) -> None:
    """Write all of a recommender but its policy into a folder."""
    archive.write(Path(folder) / RECOMMENDER_FILE, WITHOUT_POLICY, *pack_names(recommender))


def file_bytes(path: str | os.PathLike[str]) -> bytes:
    """Return the bytes of a saved recommender; those that `save` would write if it is in a folder."""
    if not Path(path).is_dir():
        return Path(path).read_bytes()
    return archive.to_bytes(KIND, *_read_folder(Path(path)))


def pack(recommender: Recommender) -> tuple[dict[str, Any], Arrays]:
    """Header and arrays of a file."""
    header, arrays = pack_names(recommender)
    return _with_policy(header, arrays, *recommender.policy.pack())


def pack_names(recommender: Recommender) -> tuple[dict[str, Any], Arrays]:
    """Header and arrays of all but the policy."""
    named, catalogue, names = recommender.named, recommender.catalogue, recommender.user_names
    header, arrays = catalogue.features.pack()
    header |= dict(names=named.names, gone=sorted(named.gone))
    header |= named.arms_table() | recommender.pack()
    header |= dict(integers=[names.are_integers, catalogue.are_integers], own_transformer=catalogue.transformer is not None)
    header["filters"] = catalogue.filters
    arrays = {f"features.{name}": array for name, array in arrays.items()}
    arrays |= {"vectors": named.features}
    if recommender.alike is not None:
        more, vectors = recommender.alike.pack()
        header |= more
        arrays |= vectors
    return header, arrays


def load(cls: type[R], path: str | os.PathLike[str], features: Any) -> R:
    """Return the recommender in a file or a folder."""
    found = _read_folder(Path(path)) if Path(path).is_dir() else archive.read(path, KIND)
    return unpack(cls, *found, features, path)


def from_bytes(cls: type[R], content: bytes, name: str) -> R:
    """Return the recommender in the bytes of a file; errors call them `name`."""
    return unpack(cls, *archive.from_bytes(content, KIND, name), None, name)


def unpack(cls: type[R], header: dict[str, Any], arrays: Arrays, features: Any, path: str | os.PathLike[str]) -> R:
    """Return the recommender from header and arrays of a file."""
    policy_class = policy_classes().get(header["policy_class"])
    if policy_class is None:
        raise ArchiveError(f"{path} has a policy {header['policy_class']}, which is not known; import its module first.")
    recommender = cls()
    recommender.user_names = UserNames()
    recommender.user_names.are_integers, integers = header["integers"]
    recommender.catalogue = CatalogueTable(Features.unpack(header, _part(arrays, "features.")))
    recommender.catalogue.are_integers, recommender.catalogue.filters = integers, header["filters"]
    recommender.catalogue.transformer = features if header["own_transformer"] else None
    named = NamedPolicy(policy_class.unpack(header["policy"], _part(arrays, "policy.")), header["names"], header["gone"])
    named.restore_arms(header, arrays["vectors"])
    recommender.alike = SimilarUsers.unpack(header, arrays) if "alike" in header else None
    recommender.restore(header, named)
    return recommender


def _read_folder(folder: Path) -> tuple[dict[str, Any], Arrays]:
    """Header and arrays of a recommender in a folder, as in a file."""
    if not (folder / RECOMMENDER_FILE).exists():
        raise ArchiveError(f"{folder} is a folder without {RECOMMENDER_FILE}: it holds no model that was fitted to the end.")
    if not (folder / POLICY_FILE).exists():
        raise ArchiveError(f"{folder} is a folder without {POLICY_FILE}: it holds no model that was fitted to the end.")
    header, arrays = archive.read(folder / RECOMMENDER_FILE, WITHOUT_POLICY)
    own = {name: value for name, value in header.items() if name not in ("graphbandit", "format", "sha256")}
    return _with_policy(own, arrays, *archive.read(folder / POLICY_FILE, "policy"))


def _with_policy(
    header: dict[str, Any], arrays: Arrays, policy: dict[str, Any], state: Arrays
) -> tuple[dict[str, Any], Arrays]:
    added = dict(policy=policy, policy_class=policy["policy"])
    return header | added, arrays | {f"policy.{name}": np.array(array) for name, array in state.items()}


def _part(arrays: Arrays, prefix: str) -> Arrays:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
