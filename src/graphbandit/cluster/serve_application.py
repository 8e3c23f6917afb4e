"""The service of shards as a Ray Serve application, to be deployed by `serve deploy` or `serve run`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from ..serving.http.guard import Guard
from ..serving.operations import settings as service_settings
from ..serving.operations.json_logs import set_up_logging
from ..serving.operations.settings import ServiceSettings
from .ray_session import import_ray
from .shard_plan import ShardPlan
from .sharded_server import begin_shards, make_guard

OWN = ("shards", "config", "shard_options", "timeout", "most_waiting")
PATHS = ("graph", "arms", "token_file", "snapshots")
REPLICAS = 2
ONGOING = 2000
"""Requests at a time of a replica: most of them wait for a shard."""


def serve_app(args: Mapping[str, Any]) -> Any:
    """A Ray Serve application: replicas of the ingress. Starts the shards, unless they run; they stay when the application
    is deleted, until `stop_shards` ends them.

    Parameters
    ----------
    args : mapping
        Any setting of the service, as `store` and `token_file`, and: `shards`; `config`, a TOML file with further settings;
        `shard_options`, what Ray is to give the actors of shards, as in {"num_cpus": 1}; `timeout`, seconds for a shard to
        answer; `most_waiting`, requests that may wait for a shard at a time.

    Examples
    --------
    >>> from graphbandit.cluster import serve_app
    >>> serve_app({"stores": "sqlite:///service"})
    Traceback (most recent call last):
        ...
    ValueError: args must be settings of the service, shards, config, shard_options, timeout or most_waiting, not 'stores'.
    """
    settings, own = _split(args)
    import_ray()
    from ray import serve

    plan = begin_shards(settings, own.pop("shards", None), own.pop("shard_options", None))

    def build() -> Guard:  # in each replica
        set_up_logging(settings.log_level)
        return make_guard(settings, ShardPlan.from_table(table), **own)

    table = plan.as_table()
    ingress = serve.deployment(name="Ingress", num_replicas=REPLICAS, max_ongoing_requests=ONGOING)
    return ingress(serve.ingress(build)()).bind()


def _split(args: Mapping[str, Any]) -> tuple[ServiceSettings, dict[str, Any]]:
    """The settings of the service, and what concerns the cluster."""
    known = {entry.name for entry in fields(ServiceSettings)}
    wrong = next((name for name in args if name not in known and name not in OWN), None)
    if wrong is not None:
        raise ValueError(f"args must be settings of the service, {', '.join(OWN[:-1])} or {OWN[-1]}, not {wrong!r}.")
    flags = {name: Path(value) if name in PATHS else value for name, value in args.items() if name in known}
    config = Path(args["config"]) if "config" in args else None
    own = {name: args[name] for name in OWN if name in args and name != "config"}
    return service_settings.load(flags, config), own
