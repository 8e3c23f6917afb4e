"""One policy over many shards: users are divided, neighbours in other shards are ghosts.

| module | what is in it |
|---|---|
| `partition` | who belongs to which shard, and what one shard sees of the graph |
| `shardable` | which policies can be divided |
| `shard` | `Shard`: an ordinary policy over own users and ghosts |
| `published` | what others have been told, and in which version |
| `values` | the messages between shards: values with versions |
| `routing` | which shard a user of a service belongs to, by its name |

Nothing here knows how messages are carried; `graphbandit.cluster` does it with Ray.
"""

from __future__ import annotations

from .partition import LocalView, Partition, local_view, partition
from .shard import Shard
from .shardable import SHARDABLE, check_shardable, shard_policy
from .values import Key, RowsOfUsers, Values, decode_values, encode_values

__all__ = [
    "SHARDABLE",
    "Key",
    "LocalView",
    "Partition",
    "RowsOfUsers",
    "Shard",
    "Values",
    "check_shardable",
    "decode_values",
    "encode_values",
    "local_view",
    "partition",
    "shard_policy",
]
