"""A model from a log that does not fit into memory: Parquet is streamed to a policy.

| module | what is in it |
|---|---|
| `fit_log` | `fit`: a policy learns a log, with checkpoints |
| `fit_job` | `FitJob`: what is to be fitted to what, read and checked |
| `event_files` | `EventFiles`: a log in files of any size, in pieces |
| `event_rows` | rows of a log as numbers, and which rows are bad |
| `log_survey` | what a log is like, before anything is learned |
| `time_order` | the rows in order of time, sorted in memory or on disk where they are not |
| `model_folder` | the folder of a model, and what is kept of a fit that was interrupted |
| `interruption` | Ctrl-C between two batches |
"""

from __future__ import annotations

from .fit_log import Fitted, fit

__all__ = ["Fitted", "fit"]
