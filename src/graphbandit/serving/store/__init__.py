"""The event log in SQLite or PostgreSQL, and snapshots of the state.

| module | what is in it |
|---|---|
| `schema` | the SQL tables and their version |
| `database` | addresses, connections, the lock between processes; `Unavailable`, `StoreInUse` |
| `event_store` | `EventStore`: appends events, follows those of other processes, and reads them |
| `event_archive` | old events in Parquet files, with which the log begins |
| `snapshots` | the state in files, so that a start need not replay the whole log |
"""
