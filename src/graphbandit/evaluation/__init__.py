"""Estimate from a log of decisions what another policy would have earned (off-policy evaluation).

A log says which user was shown which arm, how probable that choice was (its propensity), and its reward.

A log says who was shown what, how probable that choice was (its propensity) and what it earned.

| module | what is in it |
|---|---|
| `decision_log` | `DecisionLog`: a checked log in memory, whatever file it came from |
| `flat_log` | `read_decisions`: a log from one CSV or Parquet file |
| `service_log` | `read_export`: the log that `graphbandit serve` exports |
| `open_bandit` | `read_open_bandit`: the Open Bandit Dataset |
| `simulated_log` | `record`: a log from a simulation, whose truth is known |
| `estimators` | IPS, SNIPS and doubly robust with their standard errors: pure functions of arrays |
| `reward_model` | the reward model of the doubly robust estimate |
| `replay` | `replay`: the reward of a policy that learns from an untrained state |
| `off_policy` | `evaluate`: all of the above for several policies; `train` |
| `policy_estimates` | `PolicyEstimates` and `Evaluation`: what `evaluate` returns, with warnings; `as_text` |
| `anytime_interval` | a difference of means with an interval that holds at all times at once |
| `holdout` | `holdout_report`: a holdout experiment of the service, from its exports |
"""

from __future__ import annotations

from .decision_log import DecisionLog
from .flat_log import read_decisions
from .holdout import holdout_report
from .off_policy import evaluate, train
from .open_bandit import read_open_bandit
from .policy_estimates import Evaluation, PolicyEstimates, as_text
from .replay import Replay, replay
from .service_log import read_export
from .simulated_log import record

__all__ = [
    "DecisionLog",
    "Evaluation",
    "PolicyEstimates",
    "Replay",
    "as_text",
    "evaluate",
    "holdout_report",
    "read_decisions",
    "read_export",
    "read_open_bandit",
    "record",
    "replay",
    "train",
]
