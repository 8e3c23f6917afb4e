"""Several policies in the same environments, over many seeds, in parallel."""

from __future__ import annotations

import inspect
import os
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..compute.arrays import Floats, Ints
from ..environments import Environment
from ..graph import UserGraph
from ..policies import Policy
from ..validate import check, count, is_integer
from . import kept_runs
from .kept_runs import Run
from .parallel import Engine, check_engine, spread
from .result import Result
from .simulate import Learner, simulate

MakePolicy = Callable[..., Learner]
MakeEnvironment = Callable[[int], Environment]
"""A function that makes the environment of a seed."""
CURVE_POINTS = 1000
"""Rounds at which a curve is recorded, at most."""


def compare(
    policies: Mapping[str, MakePolicy],
    make_environment: MakeEnvironment,
    horizon: int,
    *,
    seeds: Iterable[int] = range(20),
    workers: int = 1,
    progress: bool | Callable[[int, int], None] = False,
    keep: str | os.PathLike[str] | None = None,
    engine: str = "local",
    address: str | None = None,
) -> Result:
    """Run every policy on every seed.

    Parameters
    ----------
    policies : name → function
        `function(graph, dim)` makes a fresh policy. If the function has a parameter `items`, it is
        given the catalogue of the environment; if it has a parameter `seed`, a seed of the run's
        own, for what the policy draws while it is made.
    make_environment : function
        `make_environment(seed)` makes the environment of that seed. All policies meet the same
        rounds in it.
    horizon : int
        Rounds per run.
    seeds : ints
        One run each. The same seeds give the same numbers, whatever `workers`.
    workers : int
        Processes to use.
    progress : bool or function
        Show a progress bar, or call `progress(done, total)` after every run.
    keep : path, optional
        A folder for finished runs, one file each, written as they finish. A comparison that was
        interrupted continues from there, and one with more seeds or policies runs only the new
        ones. A run is reused only if nothing that defines it has changed: name, settings and graph
        of the policy, contents of the environment, horizon, seed, and the code of this package that
        computes a run. Code of your own is not compared: after changing it, use another folder. A
        policy of your own is kept only if it has a `__repr__`, which should show its settings.
    engine : {"local", "ray"}
        Processes of this machine, or Ray, which needs the extra `ray`. The numbers and the kept
        files are the same.
    address : str, optional
        With Ray: a running cluster, as "host:port" or "auto", all of whose processors are used. By
        default a Ray with `workers` processors is started on this machine, for this call.

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
    listed = checked_seeds(seeds)
    if not policies:
        raise ValueError("policies is empty: compare needs at least one.")
    check("horizon", horizon, count())
    check("workers", workers, count())
    check_engine(engine, address)
    points = np.unique(np.linspace(1, horizon, min(horizon, CURVE_POINTS)).round().astype(np.int64))
    started = time.time()
    from joblib import delayed  # slow to import, and not needed for a single simulation

    # Policies vary fastest, so that each worker compiles a different one at the start.
    jobs = [(name, seed) for seed in listed for name in policies]
    kept = kept_runs.RunFolder(None if keep is None else Path(keep).resolve())
    calls = (
        delayed(_run)(name, policies[name], make_environment, horizon, points, seed, kept.for_worker(name, seed))
        for name, seed in jobs
    )
    where = Engine(engine, address, min(workers, len(jobs)))
    finished = spread(calls, where, ordered=False, receive=kept.receive)
    runs = {(run.name, run.seed): run for run in _reported(finished, len(jobs), progress)}
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
            "versions": dict(kept_runs.versions()),
            "python": platform.python_version(),
            "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
            "wall_seconds": time.time() - started,
            "workers": workers,
            "engine": engine,
            "reused": sum(run.reused for run in runs.values()),
        },
    )


def policy_for(environment: Environment, make: MakePolicy, *, seed: Any = None, **settings: Any) -> Learner:
    """Return a fresh policy for the users and arms of this environment; see `fresh_policy`."""
    return fresh_policy(make, environment.graph, environment.arms, seed=seed, **settings)


def fresh_policy(make: MakePolicy, graph: UserGraph, arms: Floats, *, seed: Any = None, **settings: Any) -> Learner:
    """Call `make(graph, dim)`, with `items=arms` and `seed` if it has parameters of these names.

    A seed that `functools.partial` has already set is not replaced.
    """
    parameters = inspect.signature(make).parameters
    if "items" in parameters:
        settings["items"] = arms
    if seed is not None and "seed" in parameters and "seed" not in getattr(make, "keywords", {}):
        settings["seed"] = seed
    return make(graph, arms.shape[1], **settings)


def checked_seeds(seeds: Iterable[int]) -> tuple[int, ...]:
    """Return the seeds as a tuple, or raise a ValueError unless they are distinct non-negative integers."""
    try:
        listed = tuple(seeds)
    except TypeError:
        raise ValueError(f"seeds must be a list or range of integers, but it is {seeds!r}.") from None
    if not listed:
        raise ValueError("seeds is empty: at least one is needed.")
    if any(not is_integer(seed) or seed < 0 for seed in listed) or len(set(listed)) < len(listed):
        raise ValueError(f"seeds must be distinct non-negative integers, but they are {listed}.")
    return tuple(int(seed) for seed in listed)


def _run(
    name: str,
    make: MakePolicy,
    make_environment: MakeEnvironment,
    horizon: int,
    points: Ints,
    seed: int,
    kept: tuple[str, ...] | None,
) -> Run:
    environment = make_environment(seed)
    policy = policy_for(environment, make, seed=np.random.default_rng([seed, *b"start ", *name.encode()]))
    file = None if kept is None else kept_runs.file_name(name, policy, environment, horizon=horizon, seed=seed)
    if file in (kept or ()):
        return Run(name, seed, np.empty(0), 0.0, "", "", reused=True, file=file)
    if isinstance(policy, Policy):
        # A stream of the policy's own: it must not draw from those of the environment.
        policy.reseed(np.random.default_rng([seed, *b"policy ", *name.encode()]))
    described = kept_runs.described(policy)
    begin = time.perf_counter()
    regret = simulate(policy, environment, horizon, seed).regret[points - 1]
    return Run(name, seed, regret, time.perf_counter() - begin, described, repr(environment), file=file)


def _reported(finished: Any, total: int, progress: bool | Callable[[int, int], None]) -> Iterator[Run]:
    """Yield the runs as they finish, and report each to `progress`."""
    from rich.progress import track

    try:
        if progress is True:
            yield from track(finished, total=total, description="runs")
            return
        for done, run in enumerate(finished, start=1):
            if callable(progress):
                progress(done, total)
            yield run
    except BaseException as error:
        # Workers are ended only if their generator sees the error, for example a Ctrl-C in `progress`.
        finished.throw(error)
