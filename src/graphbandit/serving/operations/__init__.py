"""What runs a service: settings, input files, the service itself, statistics, export, a client.

| module | what is in it |
|---|---|
| `settings` | all settings, from flags, the environment and a TOML file |
| `input_files` | graphs and arms from CSV and Parquet files |
| `recommendation_service` | the service without HTTP: decide, log, apply, count; replay of the log |
| `runtime` | the service inside an event loop: background start, group commit, snapshots |
| `shadow_stats` | what the shadow would have done; looks at the guardrail of an experiment |
| `stats` | counters, time series and latencies, for the page and for Prometheus |
| `json_logs` | logging as JSON lines |
| `warmup` | compiles what later requests need |
| `export` | the log as Parquet |
| `store_tools` | checks and restores a store: `graphbandit store verify`, `restore` |
| `client` | a client for Python programs |
| `demo_population` | simulated users for `graphbandit serve --demo` |
"""
