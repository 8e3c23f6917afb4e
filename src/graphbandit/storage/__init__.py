"""Files: atomic writes, arrays, tables and edge lists. Nothing here knows about graphs or policies.

| module | what is in it |
|---|---|
| `atomic` | `atomic_file`, `write_text`, `write_bytes`: a file is replaced as a whole or not at all |
| `archive` | named arrays and a JSON header in one checksummed file: policies, results, snapshots |
| `tables` | the reader and the writer of tables: CSV, gzipped CSV and Parquet |
| `edges` | `read_edge_list`: pairs of users and their weights from a table |
"""
