"""An experiment as data: the dataclass `Experiment`, and the TOML file that it is read from."""

from __future__ import annotations

import copy
import itertools
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from ..policies import policy_class
from .compare import checked_seeds
from .experiment_worlds import GridPoint, SpecError, check_keys, check_type, configured_policy, settings_of, world_of
from .tune import TUNING_SEEDS


@dataclass(frozen=True)
class Experiment:
    """Policies to compare in one world, or in one world for each combination of a grid.

    Parameters
    ----------
    name : str
        Names the folder of the results: letters, digits, points, underscores and hyphens.
    horizon : int
        Rounds per run.
    seeds : ints
        One run each.
    environment : table
        `kind` and the fields of `LinearWorld`, `DriftingWorld` or `RecordedWorld`.
    policies : label → table
        `policy`, a key of `graphbandit.POLICIES`; optionally `graph`, the graph that the policy is
        given: "true", "empty", "complete" or "shuffled"; the rest are its settings.
    workers : int
        Processes; the numbers do not depend on it.
    grid : path → values
        "environment.gamma", "environment.graph.p" or "policy.<label>.<setting>" → the values to
        combine.
    tune : label → setting → values
        What `tune_experiment` tries for each policy.

    Examples
    --------
    >>> experiment = Experiment(
    ...     "smoothness", horizon=100, seeds=range(3),
    ...     environment={"kind": "linear", "graph": {"kind": "erdos-renyi", "p": 0.4}},
    ...     policies={"GraphUCB": {"policy": "graphucb"}, "no graph": {"policy": "graphucb", "graph": "empty"}},
    ...     grid={"environment.gamma": [0, 5, 10]},
    ... )
    >>> [world.environment.gamma for world in experiment.worlds()]
    [0, 5, 10]
    """

    name: str
    horizon: int
    seeds: Sequence[int]
    environment: Mapping[str, Any]
    policies: Mapping[str, Mapping[str, Any]]
    workers: int = 1
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    tune: Mapping[str, Mapping[str, Sequence[Any]]] = field(default_factory=dict)
    _points: tuple[GridPoint, ...] = field(init=False, repr=False, compare=False)  # made once, to check them

    def __post_init__(self) -> None:
        where = "[experiment]"
        check_type(where, "name", self.name, str)
        if not re.fullmatch(r"\w[\w.-]*", self.name, flags=re.ASCII):
            raise SpecError(f"{where} name must be letters, digits, '.', '_' and '-', but it is {self.name!r}.")
        for key in ("horizon", "workers"):
            check_type(where, key, getattr(self, key), int)
            if getattr(self, key) < 1:
                raise SpecError(f"{where} {key} must be at least 1, but it is {getattr(self, key)}.")
        try:
            object.__setattr__(self, "seeds", checked_seeds(self.seeds))
        except ValueError as error:
            raise SpecError(f"{where} {error}") from None
        check_type("the file's", "[environment]", self.environment, dict)
        if not self.policies:
            raise SpecError("[[policy]] is missing: an experiment needs at least one policy.")
        for path, values in self.grid.items():
            _check_values(f"[grid] {path!r}", values)
        combinations = (dict(zip(self.grid, values, strict=True)) for values in itertools.product(*self.grid.values()))
        object.__setattr__(self, "_points", tuple(self._grid_point(values) for values in combinations))
        self._check_tune()

    def __repr__(self) -> str:
        sizes = f"{len(self.policies)} policies, {len(self.worlds())} worlds, {len(self.seeds)} seeds, {self.horizon:,} rounds"
        return f"Experiment({self.name!r}, {sizes})"

    def worlds(self) -> list[GridPoint]:
        """Return one world for each combination of the grid, the last key varying fastest."""
        return list(self._points)

    def base(self) -> GridPoint:
        """Return the world as written, before the grid changes anything."""
        return self._grid_point({})

    def as_table(self) -> dict[str, Any]:
        """Return plain values, to be written as JSON."""
        plain = {part.name: copy.deepcopy(getattr(self, part.name)) for part in fields(self) if part.init}
        return {**plain, "seeds": list(self.seeds)}

    def _grid_point(self, point: dict[str, Any]) -> GridPoint:
        tables = {"environment": copy.deepcopy(dict(self.environment)), "policy": copy.deepcopy(dict(self.policies))}
        for path, value in point.items():
            _replace(tables, path, value)
        try:
            policies = {label: configured_policy(label, table) for label, table in tables["policy"].items()}
            return GridPoint(point, world_of(tables["environment"]), policies)
        except SpecError as error:
            where = ", ".join(f"{path} = {value!r}" for path, value in point.items())
            raise SpecError(f"{error} ([grid] is at {where}.)" if point else str(error)) from None

    def _check_tune(self) -> None:
        check_keys("[tune]", self.tune, self.policies)
        for label, settings in self.tune.items():
            allowed = settings_of(policy_class(self.policies[label]["policy"]))
            check_keys(f"[tune] {label!r}", settings, allowed)
            for setting, values in settings.items():
                _check_values(f"[tune] {label!r} {setting}", values)
                for value in values:
                    check_type(f"[tune] {label!r}", setting, value, allowed[setting])
        if self.tune and (shared := sorted(set(self.seeds) & set(TUNING_SEEDS))):
            first, last = TUNING_SEEDS[0], TUNING_SEEDS[-1]
            raise SpecError(f"[experiment] seeds {shared} are among those that [tune] uses, {first} to {last}; take others.")


def load(path: str | os.PathLike[str]) -> Experiment:
    """Read an experiment from a TOML file; docs/howto/experiments.md shows one."""
    try:
        return parse(Path(path).read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SpecError(f"{path} is not valid TOML: {error}.") from None
    except SpecError as error:
        raise SpecError(f"{path}: {error}") from None


def parse(text: str) -> Experiment:
    """Read an experiment from a TOML text."""
    content = tomllib.loads(text)
    check_keys("the file", content, ("experiment", "environment", "policy", "grid", "tune"), ("experiment", "environment"))
    head = content["experiment"]
    check_keys("[experiment]", head, ("name", "horizon", "runs", "seeds", "workers"), ("name", "horizon"))
    if ("runs" in head) == ("seeds" in head):
        raise SpecError("[experiment] needs either the key 'runs', a number, or the key 'seeds', a list of integers.")
    if "runs" in head:
        check_type("[experiment]", "runs", head["runs"], int)
    return Experiment(
        name=head["name"],
        horizon=head["horizon"],
        seeds=head["seeds"] if "seeds" in head else range(head["runs"]),
        environment=content["environment"],
        policies=_policies_by_label(content.get("policy", [])),
        workers=head.get("workers", 1),
        grid=_flatten_grid(content.get("grid", {})),
        tune=content.get("tune", {}),
    )


def _check_values(where: str, values: Any) -> None:
    if not isinstance(values, Sequence) or isinstance(values, str) or not values:
        raise SpecError(f"{where} must be a list of one or more values, but it is {values!r}.")


def _policies_by_label(entries: Any) -> dict[str, dict[str, Any]]:
    """Return the [[policy]] tables by their names."""
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise SpecError("policies must be tables written [[policy]], once for each policy.")
    policies: dict[str, dict[str, Any]] = {}
    for number, entry in enumerate(entries, start=1):
        name = entry.get("name")
        if not isinstance(name, str) or not name or name in policies:
            raise SpecError(f"[[policy]] number {number} needs the key 'name', a string that no other has, but it is {name!r}.")
        policies[name] = {key: value for key, value in entry.items() if key != "name"}
    return policies


def _flatten_grid(grid: Any, prefix: str = "") -> dict[str, Any]:
    """Return the grid by dotted paths, which a file may write in quotes or as nested tables."""
    if not isinstance(grid, Mapping):
        raise SpecError(f"[grid] must be a table, but it is {grid!r}.")
    flat: dict[str, Any] = {}
    for key, value in grid.items():
        flat |= _flatten_grid(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


def _replace(tables: dict[str, Any], path: str, value: Any) -> None:
    """Set one value of the tables; the label of a policy may contain dots, a setting may not."""
    head, _, rest = path.partition(".")
    if head == "environment" and rest:
        *inner, key = ["environment", *rest.split(".")]
    elif head == "policy" and "." in rest:
        label, _, key = rest.rpartition(".")
        check_keys(f"[grid] {path!r}", {label: None}, tables["policy"])
        inner = ["policy", label]
    else:
        raise SpecError(f"[grid] {path!r} must be 'environment.<key>' or 'policy.<name>.<setting>'.")
    table: Any = tables
    for name in inner:
        table = table.get(name) if isinstance(table, dict) else None
    if not isinstance(table, dict):
        raise SpecError(f"[grid] {path!r} does not exist: {'.'.join(inner)!r} is not a table.")
    table[key] = value
