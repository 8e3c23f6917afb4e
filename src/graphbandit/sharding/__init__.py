"""One policy over many shards: users are divided, neighbours in other shards are ghosts.

| module | what is in it |
|---|---|
| `routing` | which shard a user of a service belongs to, by its name |
"""
