"""Joining a Ray cluster, or starting one on this machine."""

from __future__ import annotations

import os
import sys
from typing import Any

from ..validate import missing_package

NOT_ON_WINDOWS = "shards on Ray are not supported on Windows; use Linux or macOS, or one process without shards."


def import_ray() -> Any:
    """The module `ray`, or a ValueError that says what is missing."""
    if sys.platform == "win32":
        raise ValueError(NOT_ON_WINDOWS)
    try:
        import ray
    except ImportError:
        raise ValueError(missing_package("a cluster", "Ray", "ray")) from None
    # Progress bars of Ray Data would replace `print` for good, after which Numba compiles no function that has one.
    os.environ.setdefault("RAY_TQDM_PATCH_PRINT", "0")
    return ray


def join_ray(address: str | None, *, logs: bool = False) -> bool:
    """Join the Ray at the address, or start one on this machine. Returns whether it has to be left at the end: not one that
    this process had joined already. `logs`: show here what the actors log."""
    ray = import_ray()
    if ray.is_initialized():
        return False
    address = address or os.environ.get("RAY_ADDRESS")
    options: dict[str, Any] = {"log_to_driver": logs, "logging_level": "ERROR"}
    if address is None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a Ray of ours tells nobody that it runs
        options["include_dashboard"] = False
    try:
        ray.init(address=address or "local", **options)
    except ConnectionError as error:
        raise ValueError(f"address must be that of a running Ray cluster, but it is {address!r}: {error}") from error
    return True
