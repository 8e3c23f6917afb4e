"""The environments and configured policies that the tables of an experiment file describe, and checks of the tables.

Errors name the table, the key and what is allowed.
"""

from __future__ import annotations

import inspect
import math
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from .. import environments, graphs, signals
from ..compute.arrays import Floats
from ..graph import UserGraph
from ..policies import POLICIES, Policy, policy_class
from ..validate import is_integer, is_number

WORDS = {float: "a number", int: "an integer", bool: "true or false", str: "a string", dict: "a table", list: "a list"}


class SpecError(ValueError):
    """An experiment that cannot be run as written; the message says where and why."""


def check_keys(where: str, table: Any, allowed: Iterable[str], required: Iterable[str] = ()) -> None:
    """Raise a SpecError that names the first unknown or missing key."""
    names = list(allowed)
    if not isinstance(table, Mapping):
        raise SpecError(f"{where} must be a table, but it is {table!r}.")
    for key in table:
        if key not in names:
            known = f"allowed are {', '.join(names)}" if names else "it takes none"
            raise SpecError(f"{where} has an unknown key {key!r}; {known}.")
    for key in required:
        if key not in table:
            raise SpecError(f"{where} needs the key {key!r}; its keys are {', '.join(names)}.")


def check_type(where: str, key: str, value: Any, kind: Any) -> None:
    """Raise a SpecError unless `value` fits the annotation `kind`."""
    if not _fits(value, kind):
        raise SpecError(f"{where} {key} must be {_words(kind)}, but it is {value!r}.")


def settings_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the keyword settings of a policy, or of a function that builds a graph, with annotations."""
    target = function.__init__ if inspect.isclass(function) else function
    hints = typing.get_type_hints(target)
    positional = ("self", "graph", "dim", "n", "features", "items")  # the environment gives these
    return {name: hints.get(name, Any) for name in inspect.signature(target).parameters if name not in positional}


def required_of(function: Callable[..., Any]) -> list[str]:
    """Return the settings of `function` that have no default."""
    parameters = inspect.signature(function).parameters
    return [name for name in settings_of(function) if parameters[name].default is inspect.Parameter.empty]


def _fits(value: Any, kind: Any) -> bool:
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        return any(_fits(value, option) for option in typing.get_args(kind))
    if typing.get_origin(kind) is Literal:
        return any(value == choice and type(value) is type(choice) for choice in typing.get_args(kind))
    if kind is float:
        return is_number(value) and math.isfinite(value)
    if kind is int:
        return is_integer(value)
    if kind is Any:  # a policy of one's own need not have annotations
        return True
    if kind in WORDS:
        return isinstance(value, kind)
    return _takes_lists(kind) and isinstance(value, list)


def _words(kind: Any) -> str:
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        options = [_words(option) for option in typing.get_args(kind)]
        return " or ".join(dict.fromkeys(option for option in options if option))
    if typing.get_origin(kind) is Literal:
        return "one of " + ", ".join(repr(choice) for choice in typing.get_args(kind))
    return WORDS.get(kind, "a list" if _takes_lists(kind) else "")


def _takes_lists(kind: Any) -> bool:
    """Return whether a TOML list may be given for this annotation: for a part of ArrayLike, not for a plain class."""
    return typing.get_origin(kind) is not None


GRAPHS: dict[str, Callable[..., UserGraph]] = {
    "erdos-renyi": graphs.erdos_renyi,
    "barabasi-albert": graphs.barabasi_albert,
    "watts-strogatz": graphs.watts_strogatz,
    "rbf": graphs.rbf,
    "complete": graphs.complete,
    "empty": graphs.empty,
}
CONTROLS: dict[str, Callable[[UserGraph], UserGraph]] = {
    "true": lambda graph: graph,
    "empty": lambda graph: graphs.empty(graph.n_users),
    "complete": lambda graph: graphs.complete(graph.n_users),
    "shuffled": lambda graph: graphs.shuffled(graph, seed=0),
}


@dataclass(frozen=True)
class LinearWorld:
    """Smooth users on a random graph. Called with a seed, it makes an `environments.Linear`.

    Graph, users and arms come from streams of their own, so that changing one leaves the others as
    they were. An `rbf` graph is that of standard normal vectors of length `dim`, independent of the
    users' parameters, as in the published code.

    >>> LinearWorld({"kind": "erdos-renyi", "p": 0.4}, n_arms=100)(seed=0)
    Linear(UserGraph(n_users=20, n_edges=78), 100 arms, dim=5, sigma=0.01, pool=50)
    """

    graph: Mapping[str, Any]
    n_users: int = 20
    dim: int = 5
    gamma: float = 7.0
    sigma: float = 0.01
    n_arms: int = 500
    pool: int | Literal["all"] = 50

    counts: ClassVar[tuple[str, ...]] = ("n_users", "dim", "n_arms")

    def __post_init__(self) -> None:
        hints = typing.get_type_hints(type(self))
        for key in (part.name for part in fields(self) if part.name != "graph"):
            check_type("[environment]", key, getattr(self, key), hints[key])
        for key in self.counts:
            if getattr(self, key) < 1:
                raise SpecError(f"[environment] {key} must be at least 1, but it is {getattr(self, key)}.")
        where = "[environment] graph"
        if not isinstance(self.graph, Mapping) or "kind" not in self.graph:
            raise SpecError(f"{where} must be a table with the key 'kind', one of {', '.join(GRAPHS)}.")
        check_type(where, "kind", self.graph["kind"], Literal[tuple(GRAPHS)])
        build = GRAPHS[self.graph["kind"]]
        allowed = {key: kind for key, kind in settings_of(build).items() if key != "seed"}
        check_keys(f"{where} of kind {self.graph['kind']!r}", self.graph, ["kind", *allowed], required=required_of(build))
        for key, kind in allowed.items():
            if key in self.graph:
                check_type(where, key, self.graph[key], kind)

    def __call__(self, seed: int) -> environments.Linear | environments.Drifting:
        """Make the environment of this seed."""
        graph, theta, arms = environments.streams(seed, "graph", "theta", "arms")
        parameters = {key: value for key, value in self.graph.items() if key != "kind"}
        kind = self.graph["kind"]
        try:
            if kind == "rbf":
                users = graphs.rbf(graph.standard_normal((self.n_users, self.dim)), **parameters)
            elif kind in ("complete", "empty"):
                users = GRAPHS[kind](self.n_users)
            else:
                users = GRAPHS[kind](self.n_users, **parameters, seed=graph)
            return self.build_environment(users, theta, signals.unit_arms(self.n_arms, self.dim, seed=arms))
        except ValueError as error:
            raise SpecError(f"[environment] {error}") from error

    def build_environment(
        self, users: UserGraph, theta: np.random.Generator, arms: Floats
    ) -> environments.Linear | environments.Drifting:
        """Return the environment on this graph; `theta` draws the users' parameters."""
        return environments.Linear(users, self.draw_parameters(users, theta), arms, sigma=self.sigma, pool=self.pool_size)

    def draw_parameters(self, users: UserGraph, theta: np.random.Generator) -> Floats:
        """Draw (n_users, dim) parameters that are smooth on the graph."""
        return signals.smooth(users, self.dim, gamma=self.gamma, seed=theta)

    @property
    def pool_size(self) -> int | None:
        """Return `pool` as environments take it: None means all arms."""
        return None if self.pool == "all" else self.pool


@dataclass(frozen=True)
class DriftingWorld(LinearWorld):
    """A `LinearWorld` whose users change. Called with a seed, it makes an `environments.Drifting`.

    Its first phase has the users of the `LinearWorld`.

    >>> DriftingWorld({"kind": "complete"}, n_arms=100, period=300)(seed=0)
    Drifting(UserGraph(n_users=20, n_edges=190), 100 arms, dim=5, sigma=0.01, pool=50, 4 phases of 300, drift)
    """

    phases: int = 4
    period: int = 1000
    change: Literal["drift", "jump"] = "drift"

    counts: ClassVar[tuple[str, ...]] = (*LinearWorld.counts, "phases", "period")

    def build_environment(
        self, users: UserGraph, theta: np.random.Generator, arms: Floats
    ) -> environments.Linear | environments.Drifting:
        """Return the environment on this graph; `theta` draws the users' parameters, phase by phase."""
        phases = np.stack([self.draw_parameters(users, theta) for _ in range(self.phases)])
        return environments.Drifting(
            users, phases, arms, sigma=self.sigma, pool=self.pool_size, period=self.period, change=self.change
        )


@dataclass(frozen=True)
class RecordedWorld:
    """The rounds of a file of `environments.Recorded.save`; with `shuffle`, the seed draws their order."""

    file: str
    shuffle: bool = False

    def __post_init__(self) -> None:
        check_type("[environment]", "file", self.file, str)
        check_type("[environment]", "shuffle", self.shuffle, bool)

    def __call__(self, seed: int) -> environments.Recorded:
        """Make the environment of this seed."""
        try:
            return environments.Recorded.load(self.file, shuffle=self.shuffle)
        except (OSError, ValueError) as error:
            raise SpecError(f"[environment] file must be one that Recorded.save wrote, but: {error}") from error


ENVIRONMENTS: dict[str, type[Any]] = {"linear": LinearWorld, "drifting": DriftingWorld, "recorded": RecordedWorld}


@dataclass(frozen=True)
class ConfiguredPolicy:
    """A policy with its settings: called with a graph and a dimension, it makes a fresh one.

    >>> ConfiguredPolicy("no graph", "graphucb", {"alpha": 0.5}, graph="empty")(graphs.complete(3), 2).graph.n_edges
    0
    """

    label: str
    policy: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    graph: str = "true"

    def __post_init__(self) -> None:
        where = f"[[policy]] {self.label!r}"
        try:
            allowed = settings_of(policy_class(self.policy))
        except ValueError as error:
            raise SpecError(f"{where} {error}") from None
        check_type(where, "graph", self.graph, Literal[tuple(CONTROLS)])
        check_keys(where, self.settings, allowed)
        for key, value in self.settings.items():
            check_type(where, key, value, allowed[key])

    def __call__(self, graph: UserGraph, dim: int, *, items: Any = None, seed: Any = 0, **changed: Any) -> Policy:
        """Make a fresh policy; `changed` overrides settings of the table."""
        make: Any = policy_class(self.policy)
        if "items" in inspect.signature(make).parameters:
            changed["items"] = items
        try:
            made: Policy = make(CONTROLS[self.graph](graph), dim, **{"seed": seed, **self.settings, **changed})
        except ValueError as error:
            raise SpecError(f"[[policy]] {self.label!r}: {error}") from error
        return made


class GridPoint(NamedTuple):
    """One combination of the grid: its values, environment and policies."""

    point: dict[str, Any]  # key of [grid] → value
    environment: Any  # made by one of `ENVIRONMENTS`: called with a seed, it makes the environment
    policies: dict[str, ConfiguredPolicy]


def configured_policy(label: str, table: Any) -> ConfiguredPolicy:
    """Return the policy of one `[[policy]]` table."""
    where = f"[[policy]] {label!r}"
    if not isinstance(table, Mapping) or "policy" not in table:
        raise SpecError(f"{where} needs the key 'policy', one of {', '.join(POLICIES)}.")
    settings = {key: value for key, value in table.items() if key not in ("policy", "graph")}
    return ConfiguredPolicy(label, table["policy"], settings, table.get("graph", "true"))


def world_of(table: Any) -> Any:
    """Return the environment of the `[environment]` table."""
    if not isinstance(table, Mapping) or "kind" not in table:
        raise SpecError(f"[environment] needs the key 'kind', one of {', '.join(ENVIRONMENTS)}.")
    check_type("[environment]", "kind", table["kind"], Literal[tuple(ENVIRONMENTS)])
    kind = ENVIRONMENTS[table["kind"]]
    check_keys("[environment]", table, ["kind", *(part.name for part in fields(kind))], required=[fields(kind)[0].name])
    return kind(**{key: value for key, value in table.items() if key != "kind"})
