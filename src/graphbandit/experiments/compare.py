"""Several policies in the same worlds, over many seeds, in parallel."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np

from ..environments import Environment
from ..graph import UserGraph
from ..jit import Floats, Ints
from ..policies import Policy
from .result import Result
from .simulate import Learner, simulate

MakePolicy = Callable[[UserGraph, int], Learner]
MakeEnvironment = Callable[[int], Environment]
CURVE_POINTS = 1000


def compare(
    policies: Mapping[str, MakePolicy],
    make_environment: MakeEnvironment,
    horizon: int,
    *,
    seeds: Iterable[int] = range(20),
    workers: int = 1,
    progress: bool | Callable[[int, int], None] = False,
) -> Result:
    """Run every policy on every seed.

    Parameters
    ----------
    policies : name → function
        `function(graph, dim)` makes a fresh policy.
    make_environment : function
        `make_environment(seed)` makes the world of that seed; all policies meet it in the same rounds.
    horizon : int
        Rounds per run.
    seeds : ints
        One run each. The same seeds give the same numbers, whatever `workers`.
    workers : int
        Processes to use.
    progress : bool or function
        Show a progress bar, or call `progress(done, total)` after every run.

    Examples
    --------
    >>> from graphbandit import GraphUCB, LinUCB, compare, environments, graphs, signals
    >>> def world(seed):
    ...     graph = graphs.erdos_renyi(20, 0.4, seed=seed)
    ...     theta = signals.smooth(graph, 5, gamma=7, seed=seed)
    ...     return environments.Linear(graph, theta, signals.unit_arms(500, 5, seed=seed), pool=50)
    >>> result = compare({"GraphUCB": GraphUCB, "LinUCB": LinUCB}, world, 300, seeds=range(5))
    >>> result.difference("GraphUCB", "LinUCB").high < 0
    True
    """
    listed = _checked_seeds(seeds)
    if not policies:
        raise ValueError("policies is empty: compare needs at least one.")
    if not isinstance(horizon, int | np.integer) or horizon < 1:
        raise ValueError(f"horizon must be a positive integer, but it is {horizon!r}.")
    if not isinstance(workers, int | np.integer) or workers < 1:
        raise ValueError(f"workers must be at least 1, but it is {workers!r}.")
    points = np.unique(np.linspace(1, horizon, min(horizon, CURVE_POINTS)).round().astype(np.int64))
    started = time.time()
    # Policies vary fastest, so that at the start each worker compiles a different one.
    from joblib import delayed  # slow to import, and not needed for a single simulation

    jobs = [(name, seed) for seed in listed for name in policies]
    calls = (delayed(_run)(name, policies[name], make_environment, horizon, points, seed) for name, seed in jobs)
    runs = {(run.name, run.seed): run for run in _reported(calls, len(jobs), workers, progress)}
    first = [runs[name, listed[0]] for name in policies]
    return Result(
        rounds=points,
        seeds=listed,
        regret={name: np.stack([runs[name, seed].regret for seed in listed]) for name in policies},
        seconds={name: np.array([runs[name, seed].seconds for seed in listed]) for name in policies},
        provenance={
            "horizon": int(horizon),
            "policies": {run.name: run.policy for run in first},
            "environment": first[0].environment,
            "versions": {name: version(name) for name in ("graphbandit", "numpy", "scipy", "numba")},
            "python": platform.python_version(),
            "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
            "wall_seconds": time.time() - started,
            "workers": workers,
        },
    )


def _checked_seeds(seeds: Iterable[int]) -> tuple[int, ...]:
    try:
        listed = tuple(seeds)
    except TypeError:
        raise ValueError(f"seeds must be a list or range of integers, but it is {seeds!r}.") from None
    if not listed:
        raise ValueError("seeds is empty: compare needs at least one seed.")
    if any(not isinstance(seed, int | np.integer) or seed < 0 for seed in listed) or len(set(listed)) < len(listed):
        raise ValueError(f"seeds must be distinct non-negative integers, but they are {listed}.")
    return tuple(int(seed) for seed in listed)


class Run(NamedTuple):
    """One policy on one seed."""

    name: str
    seed: int
    regret: Floats  # (c,), at the recorded rounds
    seconds: float
    policy: str
    environment: str


def _run(name: str, make: MakePolicy, make_environment: MakeEnvironment, horizon: int, points: Ints, seed: int) -> Run:
    environment = make_environment(seed)
    policy = make(environment.graph, environment.arms.shape[1])
    if isinstance(policy, Policy):
        policy.reseed(np.random.default_rng([seed, *b"policy ", *name.encode()]))  # not a stream of the environment
    described = repr(policy)
    begin = time.perf_counter()
    regret = simulate(policy, environment, horizon, seed).regret[points - 1]
    return Run(name, seed, regret, time.perf_counter() - begin, described, repr(environment))


def _reported(calls: Iterable[Any], total: int, workers: int, progress: bool | Callable[[int, int], None]) -> Iterator[Run]:
    """The runs as they finish, reported to the progress bar."""
    from joblib import Parallel
    from rich.progress import track

    finished = Parallel(n_jobs=min(workers, total), return_as="generator_unordered")(calls)
    if progress is True:
        yield from track(finished, total=total, description="runs")
        return
    for done, run in enumerate(finished, start=1):
        if callable(progress):
            progress(done, total)
        yield run
