"""The event log in SQLite or PostgreSQL, and snapshots of the state that it leads to.

| module | what is in it |
|---|---|
| `database` | addresses, connections, the lock against processes that exclude each other; `Unavailable`, `Occupied` |
| `schema` | the SQL tables and their version |
| `event_archive` | old events in Parquet files, with which the log begins |
| `event_store` | `EventStore`: appends events, each key once, follows those of other processes, and reads them |
| `snapshots` | the state in files, so that a start need not replay the whole log |
"""
