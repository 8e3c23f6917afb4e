"""Running policies: a simulation, a comparison over seeds with intervals and provenance, an experiment file, a grid search."""

from __future__ import annotations

from .compare import compare
from .delayed import LateTrace, geometric, simulate_delayed
from .result import Interval, Result
from .run import run, tune_experiment
from .simulate import Trace, simulate
from .spec import Experiment, load
from .tables import SpecError
from .tune import TUNING_SEEDS, Tuned, tune

__all__ = [
    "TUNING_SEEDS",
    "Experiment",
    "Interval",
    "LateTrace",
    "Result",
    "SpecError",
    "Trace",
    "Tuned",
    "compare",
    "geometric",
    "load",
    "run",
    "simulate",
    "simulate_delayed",
    "tune",
    "tune_experiment",
]
