"""What figures are made of: settings, data, claims, and the comparisons that judge a claim."""

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
"""Nested dictionaries of arrays and JSON values, from which charts and claims are made."""


class MissingData(Exception):
    """A data set that a figure needs is missing; the message says how to get it."""


@dataclass(frozen=True)
class ReproduceSettings:
    """Scale and form of the figures; by default the scale of the paper."""

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
        """All values of a sweep, or about four of them if `quick`."""
        return values[:: max(1, len(values) // 3)] if self.quick else values

    def key(self) -> dict[str, Any]:
        """The settings that the numbers depend on; the number of workers is not among them."""
        return {"runs": self.runs, "horizon": self.horizon, "preset": self.preset, "quick": self.quick}


@dataclass(frozen=True)
class Claim:
    """A statement and whether the data support it."""

    claim: str
    holds: bool
    evidence: dict[str, Any]
    reason: str = ""  # the likely reason, where it does not hold


@dataclass(frozen=True)
class Figure:
    """One figure: `run` measures; `chart` and `claims` are pure functions of what it measured."""

    name: str
    title: str
    caption: str
    run: Callable[[ReproduceSettings], Data]
    chart: Callable[[Data], Chart]
    claims: Callable[[Data], list[Claim]] = field(default=lambda data: [])
    sources: tuple[str, ...] = ()  # data sets that it reads
    beyond: bool = False  # not in the paper


def estimate(values: Floats) -> dict[str, float]:
    """The mean over runs and its 95 % interval, as evidence."""
    mean, half = interval(np.asarray(values, dtype=np.float64))
    return {"mean": round(float(mean), 4), "low": round(float(mean - half), 4), "high": round(float(mean + half), 4)}


def lower(first: Floats, second: Floats) -> tuple[bool, dict[str, float]]:
    """Whether `first` is lower than `second`, and the paired difference.

    It is lower if the 95 % interval of the mean difference over runs lies below zero.
    """
    difference = estimate(np.asarray(first) - np.asarray(second))
    return bool(difference["high"] < 0), difference


def undecided(difference: dict[str, float]) -> str:
    """The reason of a failed comparison when nothing more specific is known."""
    if difference["low"] <= 0 <= difference["high"]:
        return "Undecided: the mean difference is smaller than its interval."
    return "In these runs the order is the other way round."


def alike(first: Floats, second: Floats, margin: float = 0.25) -> tuple[bool, dict[str, float]]:
    """Whether two regrets are alike, and the paired difference.

    They are alike if the 95 % interval of the difference lies within `margin` times the second
    mean.
    """
    difference = estimate(np.asarray(first) - np.asarray(second))
    room = margin * float(np.mean(second))
    return bool(-room <= difference["low"] and difference["high"] <= room), difference
