"""What all processes of a service of shards agree on: how many shards there are, and who belongs to which."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from ..serving.domain.initial_state import InitialState
from ..serving.operations.settings import ServiceSettings
from ..serving.store.database import sqlite_path
from ..sharding.routing import Router
from ..storage import archive

FILE = "cluster.json"


@dataclass(frozen=True)
class ShardPlan:
    """The plan of a service. It is made once, together with the stores, and never changes.

    Examples
    --------
    >>> plan = ShardPlan("a", Router({"ann": 1}, 2), {})
    >>> ShardPlan.from_table(plan.as_table()).router.shard_of("ann"), plan.actor_name(1)
    (1, 'graphbandit-a-shard-0001')
    """

    name: str  # of the service; two of them may share a Ray
    router: Router
    partition: dict[str, Any]  # how the users were divided: method, cut_share

    @property
    def n_shards(self) -> int:
        """Number of shards."""
        return self.router.n_shards

    def actor_name(self, number: int) -> str:
        """The name of a shard's actor in Ray."""
        return f"graphbandit-{self.name}-shard-{number:04d}"

    def as_table(self) -> dict[str, Any]:
        """The plan as values of JSON."""
        return {"format": archive.FORMAT, "name": self.name, "partition": self.partition, "router": self.router.as_table()}

    @classmethod
    def from_table(cls, table: dict[str, Any]) -> ShardPlan:
        """The plan that `as_table` described."""
        if "router" not in table:
            raise ValueError(f"{FILE} must be the plan of a service, but it is something else.")
        return cls(table["name"], Router.from_table(table["router"]), table["partition"])

    def write(self, folder: Path) -> None:
        """Write the plan; it is on disk when this returns."""
        folder.mkdir(parents=True, exist_ok=True)
        new = folder / f"{FILE}.new"
        with new.open("w", encoding="utf-8") as file:
            json.dump(self.as_table(), file)
            file.flush()
            os.fsync(file.fileno())
        new.replace(folder / FILE)

    @classmethod
    def read(cls, folder: Path) -> ShardPlan | None:
        """The plan in a folder; None if there is none."""
        path = folder / FILE
        if not path.is_file():
            return None
        table = json.loads(path.read_text(encoding="utf-8"))
        archive.check_format(table.get("format"), path)
        return cls.from_table(table)


def plan_folder(settings: ServiceSettings) -> Path:
    """The folder of the plan: that of the stores, or with PostgreSQL that of the snapshots.

    Parameters
    ----------
    settings : ServiceSettings
        Its `store` is a folder, as in sqlite:///service, or a PostgreSQL.

    Examples
    --------
    >>> plan_folder(ServiceSettings(store="sqlite:///service")).as_posix()
    'service'
    """
    folder = sqlite_path(settings.store)
    if folder is None:
        return settings.snapshots or Path("graphbandit-snapshots")
    if folder.is_file():
        raise ValueError(f"store must be a folder for a service of shards, as in sqlite:///service, but {folder} is a file.")
    return folder


def divide(initial: InitialState, shards: int, plan: ShardPlan | None = None) -> tuple[ShardPlan, list[InitialState]]:
    """A plan, new unless one is given, and the initial states of all shards.

    Parameters
    ----------
    initial : InitialState
        Of the whole service.
    shards : int
    plan : ShardPlan, optional
        The plan that there is already.
    """
    from ..serving.domain.shard_initial import divided
    from ..sharding.partition import partition

    names = initial.users
    if plan is None:
        placed: dict[str, int] = {}
        facts: dict[str, Any] = {"method": "by name", "cut_share": 0.0}
        if initial.graph is not None:
            found = partition(initial.graph, shards)
            placed = dict(zip(names, found.shard_of.tolist(), strict=True))
            facts = {"method": found.method, "cut_share": found.cut_share}
        plan = ShardPlan(uuid4().hex[:12], Router(placed, shards), facts)
    shard_of = np.array([plan.router.shard_of(name) for name in names], dtype=np.int64)
    return plan, divided(initial, shard_of, plan.n_shards)
