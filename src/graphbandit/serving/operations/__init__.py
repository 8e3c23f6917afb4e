"""The service without HTTP, and its tools.

| module | what is in it |
|---|---|
| `recommendation_service` | `RecommendationService`: decide, log, apply, count |
| `group_commit` | `GroupCommit`: the same for groups of requests, with one transaction each |
| `async_service` | `AsyncService`: what the endpoints call; heartbeats, snapshots, replicas |
| `replay` | from the log to the state; the same log under another policy |
| `settings` | all settings, from flags, the environment and a TOML file |
| `input_files` | graphs and arms from CSV and Parquet files |
| `importing` | rewards of a table into the log, once |
| `export` | the log as Parquet |
| `compaction` | moves old events from the database into the archive |
| `forgetting` | erases a person from log, archive and snapshots |
| `verify` | checks a store: `graphbandit store verify` |
| `shadow_monitor` | agreement of the shadow; checks the guardrail of an experiment |
| `stats` | counters, time series and latencies, for the page and for Prometheus |
| `tracing` | OpenTelemetry traces |
| `json_logs` | logging as JSON lines |
| `warmup` | compiles what later requests need |
| `demo_population` | simulated users for `graphbandit serve --demo` |
"""
