"""What every figure is made of: settings in, data, chart and claims out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..compute.arrays import Floats
from ..experiments.result import interval
from .chart import Chart

Data = dict[str, Any]
"""Arrays and JSON values; what is saved, and all that charts and claims are computed from."""


class MissingData(Exception):
    """A figure needs a data set that is not there; the message says how to get it."""


@dataclass(frozen=True)
class Settings:
    """How large and in which form; paper scale by default."""

    runs: int = 20
    horizon: int = 1000
    preset: str = "paper"
    quick: bool = False
    workers: int = 1
    data: Path | None = None

    def __post_init__(self) -> None:
        if self.data is not None and not self.data.exists():
            raise ValueError(f"data must be a folder with the archives of data sets, but {self.data} does not exist.")
        if self.preset not in ("paper", "released"):
            raise ValueError(f"preset must be paper or released, but it is {self.preset!r}.")

    def few(self, values: list[Any]) -> list[Any]:
        """All values of a sweep, or about four of them for a quick look."""
        return values[:: max(1, len(values) // 3)] if self.quick else values

    def key(self) -> dict[str, Any]:
        """What the numbers depend on; the number of workers is not among it."""
        return {"runs": self.runs, "horizon": self.horizon, "preset": self.preset, "quick": self.quick}


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, judged by data."""

    claim: str
    holds: bool
    evidence: dict[str, Any]
    reason: str = ""  # the likely reason, where it does not hold


@dataclass(frozen=True)
class Figure:
    """One figure: `run` measures, `chart` and `claims` are pure functions of what it measured."""

    name: str
    title: str
    caption: str
    run: Callable[[Settings], Data]
    chart: Callable[[Data], Chart]
    claims: Callable[[Data], list[Claim]] = field(default=lambda data: [])
    sources: tuple[str, ...] = ()  # data sets that it reads
    beyond: bool = False  # not in the paper


def estimate(values: Floats) -> dict[str, float]:
    """Mean and 95 % interval as evidence."""
    mean, half = interval(np.asarray(values, dtype=np.float64))
    return {"mean": round(float(mean), 4), "low": round(float(mean - half), 4), "high": round(float(mean + half), 4)}


def lower(first: Floats, second: Floats) -> tuple[bool, dict[str, float]]:
    """Whether `first` is lower than `second`, paired over runs: the 95 % interval of the difference lies below zero."""
    difference = estimate(np.asarray(first) - np.asarray(second))
    return bool(difference["high"] < 0), difference


def undecided(difference: dict[str, float]) -> str:
    """Why a comparison failed, when nothing more is known."""
    if difference["low"] <= 0 <= difference["high"]:
        return "Undecided: the mean difference is smaller than its interval."
    return "In these runs the order is the other way round."


def alike(first: Floats, second: Floats, margin: float = 0.25) -> tuple[bool, dict[str, float]]:
    """Whether the interval of the paired difference of two regrets lies within `margin` of the second's mean."""
    difference = estimate(np.asarray(first) - np.asarray(second))
    room = margin * float(np.mean(second))
    return bool(-room <= difference["low"] and difference["high"] <= room), difference
