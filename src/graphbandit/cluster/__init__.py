"""The same work on many machines, with Ray. Nothing here is imported unless it is used.

| module | what is in it |
|---|---|
| `sharded_policy` | `ShardedPolicy`: one policy whose users are divided among actors |
| `policy_actor` | one shard of it, in a process of its own |
| `shard_handle` | the caller's side of one shard: calls since its last snapshot, and how it is restored |
| `sharded_folder` | a sharded policy in a folder |
| `fit_shards` | `fit_shards`: a log that Ray Data streams to the shards |
| `ray_session` | joining a Ray cluster, or starting one |
"""

from __future__ import annotations

from .sharded_policy import ShardedPolicy

__all__ = ["ShardedPolicy"]
