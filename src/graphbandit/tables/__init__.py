"""Tables of any kind, read through DuckDB: CSV, gzip, Parquet, folders, pandas, Polars, Arrow, dicts.

| module | what is in it |
|---|---|
| `columns` | the roles of columns, and the names that people use for them |
| `scan` | `open_scan`: a source as DuckDB reads it |
| `read` | `read_table`: rows are checked, converted and counted by SQL; `write_table` |
| `table` | `Table`: what it returns, and its columns as numbers, as ids and as text |
| `sorted_log` | `SortedLog`: a log of any size in order of time, with bounded memory |
| `edges` | `read_edge_list`: pairs of users and their weights from a table |
"""

from __future__ import annotations

from .columns import EDGES, EVENTS, ITEMS, USERS, Roles, SaidColumns, feature_columns, is_feature, parse_columns, plain_name
from .read import BadRows, Reading, head_of, read_table, split_columns, unmatched_ids, write_table
from .scan import Source, is_frame
from .table import Table, encode

__all__ = [
    "EDGES",
    "EVENTS",
    "ITEMS",
    "USERS",
    "BadRows",
    "Reading",
    "Roles",
    "SaidColumns",
    "Source",
    "Table",
    "encode",
    "feature_columns",
    "head_of",
    "is_feature",
    "is_frame",
    "parse_columns",
    "plain_name",
    "read_table",
    "split_columns",
    "unmatched_ids",
    "write_table",
]
