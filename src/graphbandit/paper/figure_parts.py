"""What figures are made of: settings, data, charts and claims."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..display import shorten
from ..experiments.parallel import Spreading, check_engine
from .chart import Chart
from .claims import Claim

Data = dict[str, Any]
"""Nested dictionaries of arrays and JSON values, from which charts and claims are made."""


@dataclass(frozen=True)
class ReproduceSettings:
    """Scale and form of the figures; by default the scale of the paper."""

    runs: int = 20
    horizon: int = 1000
    preset: str = "paper"
    quick: bool = False
    workers: int = 1
    data: Path | None = None
    engine: str = "local"
    address: str | None = None

    def __post_init__(self) -> None:
        check_engine(self.engine, self.address)
        if self.data is not None and not self.data.exists():
            raise ValueError(f"data must be a folder with the archives of data sets, but {self.data} does not exist.")
        if self.preset not in ("paper", "released"):
            raise ValueError(f"preset must be paper or released, but it is {self.preset!r}.")

    def few(self, values: list[Any]) -> list[Any]:
        """All values of a sweep, or about four of them if `quick`."""
        return values[:: max(1, len(values) // 3)] if self.quick else values

    @property
    def spreading(self) -> Spreading:
        """Where the runs are made, as arguments of `compare` and `tune`."""
        return {"workers": self.workers, "engine": self.engine, "address": self.address}

    def key(self) -> dict[str, Any]:
        """The settings that the numbers depend on; the engine and the number of workers are not among them."""
        return {"runs": self.runs, "horizon": self.horizon, "preset": self.preset, "quick": self.quick}


@dataclass(frozen=True)
class Figure:
    """One figure: `run` measures; `chart` and `claims` are pure functions of what it measured."""

    name: str
    title: str
    caption: str
    run: Callable[[ReproduceSettings], Data]
    chart: Callable[[Data], Chart]
    claims: Callable[[Data], list[Claim]] = field(default=lambda data: [])
    sources: tuple[tuple[str, ...], ...] = ()  # data sets that it reads: the first of each group that is there
    beyond: bool = False  # not in the paper

    def __repr__(self) -> str:
        return f"Figure({self.name!r}, {shorten(self.title, 80)!r})"
