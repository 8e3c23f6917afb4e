"""Seconds and memory to read a table of events: ids as codes, and all other columns as numbers.

python benchmarks/tables.py                                  # 10,000,000 rows as CSV and as Parquet
python benchmarks/tables.py --rows 1000000 --formats csv.gz
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

PART = 1_000_000  # rows that are written at once
NUMBERS = [f"f{k}" for k in range(8)]


def part(first: int, rows: int, n_users: int, n_items: int) -> Any:
    import pyarrow as pa
    from pyarrow import compute

    rng = np.random.default_rng(first)

    def ids(prefix: str, count: int) -> Any:
        return compute.binary_join_element_wise(prefix, pa.array(rng.integers(count, size=rows) + 10**7).cast(pa.string()), "")

    columns = {"user_id": ids("u", n_users), "item_id": ids("i", n_items), "reward": rng.integers(2, size=rows)}
    columns |= {"time": 1_700_000_000 + np.arange(first, first + rows)}
    return pa.table(columns | {name: rng.standard_normal(rows).round(6) for name in NUMBERS})


def write(path: Path, rows: int, n_users: int, n_items: int) -> None:
    import pyarrow as pa
    from pyarrow import csv, parquet

    schema = part(0, 1, n_users, n_items).schema
    if path.suffix == ".parquet":
        writer: Any = parquet.ParquetWriter(path, schema)
    else:
        stream = pa.output_stream(str(path), compression="gzip" if path.suffix == ".gz" else None)
        writer = csv.CSVWriter(stream, schema)
    with writer:
        for first in range(0, rows, PART):
            writer.write_table(part(first, min(PART, rows - first), n_users, n_items))
    if path.suffix != ".parquet":
        stream.close()


def read(path: Path) -> None:
    """Read in this process, and print the time and memory that it took."""
    from graphbandit.tables import EVENTS, read_table

    begin = time.perf_counter()
    table = read_table(path, EVENTS)
    loaded = time.perf_counter()
    user, users = table.codes("user")
    item, items = table.codes("item")
    numbers = [table.numbers(name) for name in ("reward", "time", *NUMBERS)]
    order = table.order()
    end = time.perf_counter()
    assert len(user) == len(item) == len(numbers[0]) == len(order) == len(table)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    found = dict(read=loaded - begin, all=end - begin, peak=peak, users=len(users), items=len(items))
    print(json.dumps(found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--users", type=int, default=1_000_000)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--formats", default="csv,parquet", help="csv, csv.gz and parquet, separated by commas")
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.read is not None:
        read(given.read)
        return
    print("| rows × columns | format | file, MB | read, s | with codes, numbers and order, s | peak memory, GB |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="graphbandit-tables-") as folder:
        for ending in given.formats.split(","):
            path = Path(folder) / f"events.{ending}"
            write(path, given.rows, given.users, given.items)
            done = subprocess.run(
                [sys.executable, __file__, "--read", str(path)], stdout=subprocess.PIPE, text=True, check=True
            )
            found = json.loads(done.stdout)
            size = path.stat().st_size / 1e6
            times = f"{found['read']:.1f} | {found['all']:.1f} | {found['peak']:.2f}"
            print(f"| {given.rows:,} × {4 + len(NUMBERS)} | {ending} | {size:,.0f} | {times} |", flush=True)
            path.unlink()


if __name__ == "__main__":
    from measurements import recorded  # type: ignore[import-not-found]

    recorded(main)
