"""The service as a Ray Serve application: replicas over one PostgreSQL, without local state.

`serve deploy deploy/ray-serve.yaml` runs it. Ray restarts replicas that are not healthy, and replaces them one after
the other in a rolling update.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..validate import missing_package
from .http.guard import Guard
from .operations import json_logs
from .operations import settings as service_settings
from .server import build_app, read_initial_state

ONGOING = 2000
"""Requests at a time of a replica."""
PATHS = ("graph", "items", "model", "history", "token_file", "snapshots")


class Replica:
    """The part of a replica that reports its health to Ray."""

    guard: Guard | None = None  # of this process

    def check_health(self) -> None:
        """Raise a RuntimeError if the service could not start or its state has diverged, so that Ray replaces the replica."""
        app: Any = None if Replica.guard is None else Replica.guard.app
        async_service = None if app is None else app.state.async_service
        if async_service is not None and async_service.failed is not None:
            raise RuntimeError(f"the service cannot go on: {async_service.failed}")


def serve_app(args: Mapping[str, Any]) -> Any:
    """Return the Ray Serve application.

    Parameters
    ----------
    args : mapping
        Any setting of the service, as `store` and `token_file`, and `config`, a TOML file with further settings.

    Examples
    --------
    >>> serve_app({"store": "sqlite:///state.db"})
    Traceback (most recent call last):
        ...
    ValueError: store must be a PostgreSQL, which several processes can share, but it is sqlite:///state.db.
    """
    flags = {name: Path(value) if name in PATHS else value for name, value in args.items() if name != "config"}
    settings = service_settings.load(flags, Path(args["config"]) if "config" in args else None)
    if settings.store.startswith("sqlite"):
        raise ValueError(f"store must be a PostgreSQL, which several processes can share, but it is {settings.store}.")
    try:
        from ray import serve
    except ImportError:
        raise ValueError(missing_package("replicas on Ray", "Ray", "ray")) from None

    def build() -> Guard:  # in each replica
        json_logs.set_up_logging(settings.log_level)
        _, Replica.guard = build_app(settings, read_initial_state(settings), lambda: None, wait_until_ready=True)
        return Replica.guard

    deployment = serve.deployment(name="Service", num_replicas=2, max_ongoing_requests=ONGOING)
    return deployment(serve.ingress(build)(Replica)).bind()
