"""The same work on many machines, with Ray. Nothing here is imported unless it is used.

| module | what is in it |
|---|---|
| `sharded_policy` | `ShardedPolicy`: one policy whose users are divided among actors |
| `policy_actor` | one shard of it, in a process of its own |
| `shard_handle` | the caller's side of one shard: calls since its last snapshot, and how it is restored |
| `sharded_folder` | a sharded policy in a folder |
| `fit_shards` | `fit_shards`: a log that Ray Data streams to the shards |
| `ray_session` | joining a Ray cluster, or starting one |
| `ingress` | the HTTP API in front of the shards of a service |
| `shard_calls` | calls to a shard, with deadlines |
| `grouped_calls` | requests that arrive together travel together |
| `merging` | answers of several shards as one |
| `shard_actor` | a shard of the service as a Ray actor, and how others reach it |
| `shard_plan` | what all processes of a service agree on: `cluster.json` |
| `sharded_server` | `graphbandit serve --shards`: shards in Ray, an ingress in this process |
| `serve_application` | the service as a Ray Serve application |
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .sharded_policy import ShardedPolicy

if TYPE_CHECKING:
    from .serve_application import serve_app
    from .sharded_server import serve_shards

__all__ = ["ShardedPolicy", "serve_app", "serve_shards"]

# Imported on first use: the service needs FastAPI, which a policy does not.
_MODULES = {"serve_application": ("serve_app",), "sharded_server": ("serve_shards",)}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f".{module}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
