"""A model from a log that does not fit into memory: Parquet is streamed to a policy.

| module | what is in it |
|---|---|
"""
