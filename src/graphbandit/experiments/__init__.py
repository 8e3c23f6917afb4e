"""Running policies: one simulation, or a comparison over seeds with intervals and provenance."""

from __future__ import annotations

from .compare import compare
from .result import Interval, Result
from .simulate import Trace, simulate

__all__ = ["Interval", "Result", "Trace", "compare", "simulate"]
