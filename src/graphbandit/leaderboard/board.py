"""Tune every policy in every world, then run it on the reported seeds.

An interrupted call continues from the finished runs when it is made again.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from joblib import delayed
from threadpoolctl import threadpool_limits

from .. import datasets
from ..compute.arrays import Floats
from ..experiments import TUNING_SEEDS, compare, simulate, tune
from ..experiments.compare import policy_for
from ..experiments.parallel import Engine, StudySettings, engine_running
from ..policies import POLICIES
from ..validate import check_between
from .grids import GRIDS, Grid
from .worlds import WORLDS, World

Progress = Callable[[int, int, str], None]
LARGEST_STATE = 10**9
"""Most bytes of a policy's state: every worker has one."""
KEPT = "runs"
"""The folder of finished runs, inside that of the board."""
POPULAR = 4
"""Users that an item must have to be on offer in a quick look."""


@dataclass(frozen=True)
class LeaderboardSettings(StudySettings):
    """The numbers of runs and rounds, and where they are computed."""

    seeds: int = 10
    quick: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_between("seeds", self.seeds, 2, TUNING_SEEDS[0], "the first of the tuning seeds")


@dataclass(frozen=True)
class Cell:
    """The outcome of one policy in one world."""

    policy: str
    world: str
    regret: Floats = field(default_factory=lambda: np.empty(0), repr=False)  # (n_seeds,), at the horizon
    settings: dict[str, Any] = field(default_factory=dict)  # chosen by tuning
    edge: list[str] = field(default_factory=list)  # settings whose best value is the first or last tried
    micros: float = math.nan  # µs a round, median over seeds, drawing the round included
    bytes: int = 0  # of the arrays of the state
    reason: str = ""  # why the policy could not run


@dataclass(frozen=True)
class Board:
    """The outcome of all policies in all worlds, from which tables and pages are made."""

    worlds: list[World]
    cells: dict[tuple[str, str], Cell]  # by policy and world
    missing: dict[str, str]  # world → how to get its data
    settings: LeaderboardSettings
    grids: dict[str, Grid]

    def __repr__(self) -> str:
        return f"Board({len(self.grids)} policies, {len(self.worlds)} worlds, {self.settings.seeds} seeds)"


def leaderboard(
    out: Path,
    settings: LeaderboardSettings,
    *,
    worlds: Iterable[str] = (),
    policies: Iterable[str] = (),
    progress: Progress = lambda done, total, note: None,
) -> Board:
    """Run these policies in these worlds, by default all; finished runs are kept in `out/runs`."""
    names = select_names("policy", policies, POLICIES)
    lacking = [name for name in names if name not in GRIDS]
    if lacking:
        raise ValueError(f"policy {lacking[0]!r} has no grid; leaderboard/grids.py needs a line for it.")
    present, missing = available(select_names("world", worlds, WORLDS), settings)
    grids = {name: quick_grid(GRIDS[name]) if settings.quick else GRIDS[name] for name in names}
    sizes = {(name, world.name): runs(grids[name], world, settings) for world in present for name in names}
    total, done = sum(sizes.values()), 0
    cells = {}
    with (
        engine_running(Engine(settings.engine, settings.address)),
        threadpool_limits(1),
    ):  # a second thread would compete with the workers
        progress(0, total, "starting")
        settings.over_calls((delayed(_compile)(name) for name in names), ordered=False)  # once; then from the cache on disk
        for name, world in ((name, world) for world in present for name in names):
            shifted = partial(_shifted, progress, done, total, f"{world.name}: {name}")
            shifted(0, 0)
            cells[name, world.name] = tune_and_run(name, grids[name], world, settings, out / KEPT, shifted)
            done += sizes[name, world.name]
    progress(total, total, "")
    return Board(present, cells, missing, settings, grids)


def tune_and_run(
    name: str, grid: Grid, world: World, settings: LeaderboardSettings, keep: Path, progress: Callable[[int, int], None]
) -> Cell:
    """Tune a policy in a world, then run it; if the policy does not fit the world, the cell has the reason."""
    make = grid.policy(name)
    try:
        environment = world.make(TUNING_SEEDS[0])
        for combination in combinations(grid):
            check_size(policy_for(environment, partial(make, **combination)))
    except (ValueError, MemoryError) as error:
        return Cell(name, world.name, reason=str(error) or "not enough memory.")
    tuned = tune(
        make,
        grid.tuned,
        world.make,
        world.tuning_horizon,
        seeds=TUNING_SEEDS[: world.tuning_seeds],
        **settings.spreading,
        progress=progress,
        keep=keep,
    )
    best = partial(make, **tuned.best)
    before = len(tuned.trials) * world.tuning_seeds
    result = compare(
        {name: best},
        world.make,
        world.horizon,
        seeds=range(settings.seeds),
        **settings.spreading,
        progress=lambda done, total: progress(before + done, 0),
        keep=keep,
    )
    size = state_bytes(policy_for(world.make(0), best))
    micros = float(np.median(result.seconds[name])) / world.horizon * 1e6
    return Cell(name, world.name, result.regret[name][:, -1], tuned.best, tuned.at_edge(), micros, size)


def select_names(kind: str, names: Iterable[str], known: dict[str, Any]) -> list[str]:
    """Return these names in the order of the table, or all of them if none are given."""
    wanted = list(names)
    for name in wanted:
        if name not in known:
            raise ValueError(f"there is no {kind} {name!r}; there are {', '.join(known)}.")
    return [name for name in known if not wanted or name in wanted]


def available(names: Sequence[str], settings: LeaderboardSettings) -> tuple[list[World], dict[str, str]]:
    """Return the worlds whose data sets are available, and for the others how to get them."""
    present: list[World] = []
    missing: dict[str, str] = {}
    for name in names:
        world = quick_world(WORLDS[name]) if settings.quick else WORLDS[name]
        for source in world.sources:
            try:
                path = datasets.find(source, settings.data)
                datasets.load(source, path or settings.data)
            except datasets.DatasetError as error:
                missing.setdefault(name, str(error))
                continue
            assert path is not None
            missing.pop(name, None)
            file = path.resolve()
            is_far = settings.engine != "local"  # workers on other machines do not have the file
            make = world.carry(source, file) if world.carry and is_far else partial(world.make, source, file)
            world = replace(world, make=make)
            break
        if name not in missing:
            present.append(world)
    return present, missing


def quick_world(world: World) -> World:
    """Return the world for a quick look: 200 rounds, and on social graphs popular items only.

    Fewer items make the item graph of the spectral policies fast to build.
    """
    if world.hits:
        carry = world.carry and partial(world.carry, least_users=POPULAR)
        world = replace(world, make=partial(world.make, least_users=POPULAR), carry=carry)
    return replace(world, horizon=200, tuning_horizon=200, tuning_seeds=1)


def quick_grid(grid: Grid) -> Grid:
    """Return the grid for a quick look: two values of the last setting, one of each other setting."""
    last = list(grid.tuned)[-1:]
    few = {name: values[-2:] if name in last else [values[(len(values) - 1) // 2]] for name, values in grid.tuned.items()}
    return replace(grid, tuned=few)


def combinations(grid: Grid) -> list[dict[str, Any]]:
    """Return all combinations of the tuned settings."""
    return [dict(zip(grid.tuned, values, strict=True)) for values in itertools.product(*grid.tuned.values())]


def runs(grid: Grid, world: World, settings: LeaderboardSettings) -> int:
    """Return the number of runs of a policy in a world, tuning included."""
    return math.prod(map(len, grid.tuned.values())) * world.tuning_seeds + settings.seeds


def state_bytes(policy: Any) -> int:
    """Return the bytes of all arrays of a policy's state, nested ones included."""

    def size(state: Any) -> int:
        return sum(size(part) if isinstance(part, tuple) else getattr(part, "nbytes", 0) for part in state)

    return size(policy.state)


def check_size(policy: Any) -> None:
    """Raise a ValueError if the state is larger than `LARGEST_STATE`."""
    size = state_bytes(policy)
    if size > LARGEST_STATE:
        raise ValueError(f"its state takes {size / 1e9:.1f} GB; the leaderboard allows {LARGEST_STATE / 1e9:.0f}.")


def _compile(name: str) -> None:
    environment, grid = WORLDS["er"].make(0), GRIDS[name]
    first = {setting: values[0] for setting, values in grid.tuned.items()}
    simulate(policy_for(environment, partial(grid.policy(name), **first)), environment, 2)


def _shifted(progress: Progress, before: int, total: int, note: str, done: int, _: int) -> None:
    progress(before + done, total, note)
