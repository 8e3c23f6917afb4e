"""A figure of the report, and the settings of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from joblib import delayed

from ..display import shorten
from ..experiments.parallel import StudySettings
from .chart import Chart
from .claims import Claim

Data = dict[str, Any]
"""Nested dictionaries of arrays and JSON values, from which charts and claims are made."""
Setting = Literal["printed", "released"]
SETTINGS: dict[Setting, str] = {"printed": "the text's environment", "released": "the scripts' environment"}
"""Whose environment a figure was made in: the one that the paper describes, or the one of the authors' scripts."""


@dataclass(frozen=True)
class ReproduceSettings(StudySettings):
    """Scale and environment of the figures; the default is the scale of the paper."""

    runs: int = 20
    horizon: int = 1000
    setting: Setting = "printed"
    quick: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.setting not in SETTINGS:
            raise ValueError(f"setting must be printed or released, but it is {self.setting!r}.")

    def few(self, values: list[Any]) -> list[Any]:
        """Return all values of a sweep, or about four of them if `quick`."""
        return values[:: max(1, len(values) // 3)] if self.quick else values

    def key(self) -> dict[str, Any]:
        """Return the settings that the numbers depend on: not the engine, nor the number of workers."""
        return {"runs": self.runs, "horizon": self.horizon, "setting": self.setting, "quick": self.quick}

    def over_runs(self, function: Any, *arguments: Any, runs: int | None = None) -> list[Any]:
        """Return `function(seed, *arguments)` for every run, in order, computed in parallel."""
        return self.over_calls(delayed(function)(seed, *arguments) for seed in range(runs or self.runs))


@dataclass(frozen=True)
class Figure:
    """One figure: `run` measures; `chart` and `claims` are pure functions of what it measured."""

    name: str
    title: str
    shows: str  # what the paper shows or says; for a figure of ours, the question that it answers
    caption: str
    run: Callable[[ReproduceSettings], Data]
    chart: Callable[[Data], Chart]
    claims: Callable[[Data], list[Claim]]
    arguments: dict[str, Any] = field(default_factory=dict)  # what `run` was given
    numbers: Sequence[str] = ()  # in the paper
    sources: Sequence[Sequence[str]] = ()  # data sets that it reads: the first of each group that is there
    both: bool = True  # False if the figure is the same in both environments
    part: str = "Beyond the paper"  # heading in the table of claims
    label: str = ""  # tells the figures of one part apart

    def __repr__(self) -> str:
        return f"Figure({self.name!r}, {shorten(self.title, 80)!r})"

    @property
    def settings(self) -> tuple[Setting, ...]:
        """Return the environments in which the figure is made."""
        return tuple(SETTINGS) if self.both else ("released",)

    @property
    def heading(self) -> str:
        """Return the figure numbers of the paper, followed by the title."""
        if not self.numbers:
            return self.title
        *most, last = self.numbers
        return f"Figure{'s' * bool(most)} {', '.join(most)}{' and ' * bool(most)}{last}: {self.title}"
