"""The outcome of a comparison: regret by policy and seed, intervals, provenance, a file form."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..compute.arrays import Floats
from ..display import as_html, as_markdown
from ..storage import archive


class Interval(NamedTuple):
    """A mean over seeds and its 95 % confidence interval (Student's t)."""

    mean: float
    low: float
    high: float

    @property
    def cells(self) -> tuple[str, str]:
        """Return the mean and the interval as cells of a table."""
        return f"{self.mean:.1f}", f"{self.low:.1f} – {self.high:.1f}"


def interval(values: Floats, axis: int = 0, level: float = 0.95) -> tuple[Floats, Floats]:
    """Return the mean over `axis` and the half-width of its confidence interval, NaN for a single run."""
    from scipy.special import stdtrit  # slow to import

    n = values.shape[axis]
    mean = values.mean(axis=axis)
    if n < 2:
        return mean, np.full_like(mean, np.nan)
    return mean, stdtrit(n - 1, (1 + level) / 2) * values.std(axis=axis, ddof=1) / np.sqrt(n)


@dataclass(frozen=True)
class Result:
    """Cumulative regret of several policies over the same rounds.

    Row s of every curve belongs to `seeds[s]`, in which all policies met the same users, pools and
    noise: compare policies by their paired `difference`.
    """

    rounds: Any  # (c,) rounds at which the curves were recorded, counted from 1
    seeds: tuple[int, ...]
    regret: dict[str, Floats]  # (n_seeds, c) each
    seconds: dict[str, Floats]  # (n_seeds,) time spent simulating
    provenance: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Result({len(self.names)} policies, {len(self.seeds)} seeds, {self.rounds[-1]:,} rounds)"

    def _repr_html_(self) -> str:
        return as_html(repr(self), *self._regret_table())

    @property
    def names(self) -> list[str]:
        """The policies, in the order given."""
        return list(self.regret)

    def final(self, name: str) -> Interval:
        """Return the regret at the horizon: mean over seeds with its interval."""
        mean, half = interval(self.regret[name][:, -1])
        return Interval(float(mean), float(mean - half), float(mean + half))

    def difference(self, first: str, second: str) -> Interval:
        """Return the final regret of `first` minus that of `second`, paired over seeds."""
        mean, half = interval(self.regret[first][:, -1] - self.regret[second][:, -1])
        return Interval(float(mean), float(mean - half), float(mean + half))

    def table(self) -> str:
        """Return the final regret of every policy as Markdown."""
        return as_markdown(*self._regret_table())

    def _regret_table(self) -> tuple[Sequence[str], list[Sequence[str]]]:
        return ("policy", "regret", "95 % interval"), [(name, *self.final(name).cells) for name in self.names]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one `.npz` file, without pickle."""
        arrays = {"rounds": np.asarray(self.rounds), "seeds": np.asarray(self.seeds, dtype=np.int64)}
        for k, name in enumerate(self.names):
            arrays |= {f"regret.{k}": self.regret[name], f"seconds.{k}": self.seconds[name]}
        archive.write(path, "result", {"names": self.names, "provenance": self.provenance}, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Result:
        """Return the result that `save` wrote."""
        header, arrays = archive.read(path, "result")
        names: Sequence[str] = header["names"]
        return cls(
            rounds=arrays["rounds"],
            seeds=tuple(arrays["seeds"].tolist()),
            regret={name: arrays[f"regret.{k}"] for k, name in enumerate(names)},
            seconds={name: arrays[f"seconds.{k}"] for k, name in enumerate(names)},
            provenance=header["provenance"],
        )
