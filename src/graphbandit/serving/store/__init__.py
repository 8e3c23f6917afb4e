"""The event log in SQLite or PostgreSQL, and snapshots of the state that it leads to.

| module | what is in it |
|---|---|
| `database` | addresses, connections, the lock that makes this process the only writer; `Unavailable`, `Occupied` |
| `schema` | the SQL tables and their version |
| `shard_schema` | where a shard keeps its log: a folder, or a schema of PostgreSQL |
| `epochs` | every writer begins an epoch, so that ids of decisions are never used twice |
| `event_archive` | old events in Parquet files, with which the log begins |
| `event_store` | `EventStore`: appends events, each key once, and reads them |
| `watchdog` | a deadline for queries to a database server that hangs |
| `write_ahead_log` | whether the write-ahead log of SQLite is whole |
| `group_commit` | the writer thread: all events that wait are written in one transaction |
| `snapshots` | the state in files, so that a start need not replay the whole log |
"""
