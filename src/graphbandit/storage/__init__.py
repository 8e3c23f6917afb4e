"""Files: atomic writes, arrays, tables and edge lists. Nothing here knows about graphs or policies.

| module | what is in it |
|---|---|
| `atomic` | `atomic_file`, `write_text`, `write_bytes`: a file is replaced as a whole or not at all; `sync_folder` |
| `archive` | named arrays and a JSON header in one checksummed file: policies, results, snapshots |
| `tables` | `read_table`: the one reader of tables; `write_table` |
| `table_columns` | `Table`: what it returns, and its columns as numbers, as ids and as text |
| `columns` | the roles of columns, and the names that people use for them |
| `cells` | the same for columns of PyArrow, without errors |
| `csv_files` | tables in text: CSV, also gzipped, and files whose separator must be guessed |
| `parquet_files` | Parquet files and folders of them |
| `frames` | pandas, Polars and PyArrow frames |
| `edges` | `read_edge_list`: pairs of users and their weights from a table |
"""
