"""What would another policy have earned? Estimates from a log of decisions, their propensities and their rewards.

| module | |
|---|---|
| `logs` | `DecisionLog`, the checked form of every log |
| `tables`, `service`, `open_bandit` | readers: one flat file, the export of the service, the Open Bandit Dataset |
| `estimators` | IPS, SNIPS and doubly robust, with their errors: pure functions of arrays |
| `rewards` | the reward model of the doubly robust estimate |
| `replay` | a policy that learns, on the rounds in which it agrees with the log |
| `evaluate` | `evaluate` and the `Evaluation` that it returns |
| `show` | the same as a page of text |
| `record` | a log from a simulation, to check all this on |
"""

from __future__ import annotations

from .evaluate import Evaluation, Standing, evaluate, train
from .logs import DecisionLog
from .open_bandit import read_open_bandit
from .record import record
from .replay import Replay, replay
from .service import read_export
from .tables import read_decisions

__all__ = [
    "DecisionLog",
    "Evaluation",
    "Replay",
    "Standing",
    "evaluate",
    "read_decisions",
    "read_export",
    "read_open_bandit",
    "record",
    "replay",
    "train",
]
