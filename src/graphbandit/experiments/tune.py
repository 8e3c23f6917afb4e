"""Choose the settings of a policy by grid search, on seeds that are not used for the reported results."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from ..display import as_html, as_markdown, shorten
from ..validate import is_number
from .compare import MakeEnvironment, compare
from .result import Interval
from .simulate import Learner

TUNING_SEEDS = range(10_000, 10_010)
"""Seeds for tuning, distinct from 0, 1, 2, …, which are for reported results."""


class Trial(NamedTuple):
    """One combination of settings and its final regret."""

    settings: dict[str, Any]
    regret: Interval


@dataclass(frozen=True)
class Tuned:
    """The outcome of a grid search."""

    best: dict[str, Any]
    trials: list[Trial]  # in grid order

    def __repr__(self) -> str:
        return f"Tuned({shorten(describe(self.best), 70)}; best of {len(self.trials)} trials)"

    def _repr_html_(self) -> str:
        return as_html(repr(self), *self._trial_table())

    def table(self) -> str:
        """Return every combination as Markdown, best first."""
        return as_markdown(*self._trial_table())

    def _trial_table(self) -> tuple[Sequence[str], list[Sequence[str]]]:
        best_first = sorted(self.trials, key=lambda trial: trial.regret.mean)
        return ("settings", "regret", "95 % interval"), [(describe(one.settings), *one.regret.cells) for one in best_first]

    def at_edge(self) -> list[str]:
        """List the numeric settings whose best value is the smallest or largest of those tried.

        A wider grid may do better. Of two values each is at an edge.
        """
        settings = []
        for name, value in self.best.items():
            tried = {trial.settings[name] for trial in self.trials if is_number(trial.settings[name])}
            if len(tried) > 1 and is_number(value) and value in (min(tried), max(tried)):
                settings.append(name)
        return settings


def tune(
    make_policy: Callable[..., Learner],
    grid: Mapping[str, Sequence[Any]],
    make_environment: MakeEnvironment,
    horizon: int,
    *,
    seeds: Iterable[int] = TUNING_SEEDS,
    workers: int = 1,
    progress: bool | Callable[[int, int], None] = False,
    keep: str | os.PathLike[str] | None = None,
    engine: str = "local",
    address: str | None = None,
) -> Tuned:
    """Try every combination of settings and take the one with the least mean final regret.

    Of equals, the first in grid order is taken. Keep `seeds` apart from those that you report: on
    the seeds that chose it, the best of many settings looks better than it is. Give every policy of
    a comparison, baselines included, a grid of the same size, the same seeds and the same horizon.

    Parameters
    ----------
    make_policy : function
        `make_policy(graph, dim, **settings)` makes a fresh policy; a policy class will do.
    grid : setting → values
        All combinations are tried, the last setting varying fastest.
    make_environment, horizon, seeds, workers, progress, keep, engine, address
        As in `compare`.

    Examples
    --------
    >>> from graphbandit import LinUCB, environments, graphs, signals
    >>> def world(seed):
    ...     graph = graphs.empty(5)
    ...     return environments.Linear(graph, signals.smooth(graph, 3, gamma=0, seed=seed), signals.unit_arms(20, 3, seed=seed))
    >>> tune(LinUCB, {"ridge": [1.0, 100.0]}, world, 100, seeds=range(10_000, 10_003)).best
    {'ridge': 1.0}
    """
    for name, values in grid.items():
        if isinstance(values, str) or not isinstance(values, Sequence) or not values:
            raise ValueError(f"grid must give a list of one or more values for {name!r}, but it gives {values!r}.")
    combinations = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    policies = {describe(settings): partial(make_policy, **settings) for settings in combinations}
    if len(policies) < len(combinations):
        raise ValueError("grid lists the same combination of settings twice.")
    result = compare(
        policies,
        make_environment,
        horizon,
        seeds=seeds,
        workers=workers,
        progress=progress,
        keep=keep,
        engine=engine,
        address=address,
    )
    trials = [Trial(settings, result.final(describe(settings))) for settings in combinations]
    return Tuned(min(trials, key=lambda trial: trial.regret.mean).settings, trials)


def describe(settings: Mapping[str, Any]) -> str:
    """Return settings as text: `alpha=1.0, ridge=0.1`."""
    return ", ".join(f"{name}={value!r}" for name, value in settings.items()) or "defaults"
