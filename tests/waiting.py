"""Waiting for something to happen, however busy the machine is."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")


def wait_until(condition: Callable[[], Value], limit: float = 60.0) -> Value:
    """Call `condition` until it is true, and return its value; fail after `limit` seconds."""
    end = time.monotonic() + limit
    while not (value := condition()):
        assert time.monotonic() < end, f"not true within {limit:g} s"
        time.sleep(0.01)
    return value
