"""Operation of a service: settings, input files, the service itself, statistics, export, a client.

| module | what is in it |
|---|---|
| `settings` | all settings, from flags, the environment and a TOML file |
| `input_files` | graphs and arms from CSV and Parquet files |
| `importing` | rewards of a table into the log, once |
| `recommendation_service` | the service without HTTP: decide, log, apply, count |
| `log_replay` | from the log to the state |
| `compaction` | old events from the database into the archive |
| `forgetting` | a person is erased from log, archive and snapshots |
| `replay_into` | the same events under another policy, in a store of their own |
| `pipeline` | the path of a request: decide, append, apply, answer, for groups of requests |
| `runtime` | the service inside an event loop: what the endpoints call, heartbeats, snapshots, replicas |
| `shadow_stats` | what the shadow would have done; looks at the guardrail of an experiment |
| `traces` | OpenTelemetry, if it is on |
| `stats` | counters, time series and latencies, for the page and for Prometheus |
| `json_logs` | logging as JSON lines |
| `warmup` | compiles what later requests need |
| `export` | the log as Parquet |
| `store_tools` | checks a store: `graphbandit store verify` |
| `client/` | a client for Python programs, which is also a distribution of its own |
| `demo_population` | simulated users for `graphbandit serve --demo` |
"""
