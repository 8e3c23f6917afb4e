"""Run policies: simulations, comparisons over seeds, experiments from files, grid searches.

| module | what is in it |
|---|---|
| `simulate` | `simulate`: one policy in one environment, and its `Trace` |
| `delayed` | `simulate_delayed`: the same with delayed and missing rewards |
| `compare` | `compare`: several policies over many seeds, in parallel |
| `result` | `Result`: the regret of a comparison, with intervals, provenance and a file form |
| `kept_runs` | finished runs on disk, and what makes them stale |
| `parallel` | calls spread over processes, and the engines that make them |
| `ray_engine` | the same on a Ray cluster |
| `tune` | `tune`: grid search on seeds that are not reported |
| `experiment_file` | `Experiment`, and `load`, which reads it from TOML |
| `experiment_worlds` | the worlds and policies that the tables of an experiment stand for, and their checks; `SpecError` |
| `run_experiment` | `run` and `tune_experiment`: an experiment into a folder, with summaries |
| `testbeds` | the synthetic environments of the paper |
"""

from __future__ import annotations

from .compare import compare
from .delayed import DelayedTrace, geometric, simulate_delayed
from .experiment_file import Experiment, load
from .experiment_worlds import SpecError
from .result import Interval, Result
from .run_experiment import run, tune_experiment
from .simulate import Trace, simulate
from .tune import TUNING_SEEDS, Tuned, tune

__all__ = [
    "TUNING_SEEDS",
    "DelayedTrace",
    "Experiment",
    "Interval",
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
