"""What 10^6, 10^7 and 10^8 users need, computed from what was measured; nothing is run.

    python benchmarks/sizing.py [--features 10] [--cut 0.2]

Each figure stands beside the assumption that it comes from (docs/explanation/scale.md has them in words).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

MEASURED_FEATURES, NEIGHBOURS = 10, 10
SHARD_USERS = 1_000_000  # of one shard
ROOM = 2.0  # memory of a machine over that of its users: a snapshot that is written, the system
MACHINE_GB = 32
REQUEST_MS = 0.5  # processor time of a decision over HTTP in ingress, shard and Ray (results: service, "An ingress costs")
EDGE_BYTES = 26  # of a graph, for each neighbour of a user: 157 MB for 1,000,000 users with 6 neighbours
PLACE_BYTES, NAME_BYTES = 10, 150  # of a user in an ingress, and of its name in the process that runs `fit`
METIS_SECONDS = 10.0  # for a million users with 6 neighbours, on one core
REWARDS = 10_000  # a second, for the network
RANDOM_CUT, RANDOM_BYTES = 0.455, 7_700  # bytes a round of GraphUCB in a random graph with 10 neighbours (results: scale)
COUNTS = (10**6, 10**7, 10**8)
DATA = Path(__file__).parents[1] / "docs" / "results" / "data"


def bytes_a_user() -> float:
    """Of shards of 1,000,000 users in all, ghosts included: the most of the policies that were measured."""
    table = json.loads((DATA / "cluster_million.json").read_text(encoding="utf-8"))["tables"][0]
    place = table["columns"].index("shards, bytes a user")
    return max(float(row[place]) for row in table["rows"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", type=int, default=MEASURED_FEATURES)
    parser.add_argument("--cut", type=float, default=0.2, help="share of the edges between shards")
    o = parser.parse_args()
    a_user = bytes_a_user() * (o.features / MEASURED_FEATURES) ** 2  # d x d matrices
    memory = [users * a_user / 1e9 for users in COUNTS]
    network = REWARDS * RANDOM_BYTES * o.cut / RANDOM_CUT / 1e6
    rows = {
        "memory of all shards, GB": [f"{gb:.0f}" for gb in memory],
        f"shards of {SHARD_USERS:,} users": [f"{max(1, users // SHARD_USERS):,}" for users in COUNTS],
        f"machines with {MACHINE_GB} GB": [f"{max(1, round(ROOM * gb / MACHINE_GB))}" for gb in memory],
        "snapshots of all shards on disk, GB": [f"{gb:.0f}" for gb in memory],
        "graph in the caller, GB": [f"{users * NEIGHBOURS * EDGE_BYTES / 1e9:.1f}" for users in COUNTS],
        "names of users in `fit`, GB": [f"{users * NAME_BYTES / 1e9:.2f}" for users in COUNTS],
        "places of users in each ingress, MB": [f"{users * PLACE_BYTES / 1e6:,.0f}" for users in COUNTS],
        "METIS on one core, minutes": [f"{METIS_SECONDS * NEIGHBOURS / 6 * users / 1e6 / 60:.1f}" for users in COUNTS],
        "cores for 1,000 requests a second": [f"{1_000 * REQUEST_MS / 1e3:.1f}"] * len(COUNTS),
        "cores for 100,000 requests a second": [f"{100_000 * REQUEST_MS / 1e3:.0f}"] * len(COUNTS),
        f"network for exchanges at {REWARDS:,} rewards a second, MB/s": [f"{network:.0f}"] * len(COUNTS),
    }
    print(f"Computed for {o.features} features, {NEIGHBOURS} neighbours a user, {o.cut:.0%} of the edges cut\n")
    print("| | " + " | ".join(f"{users:,} users" for users in COUNTS) + " |\n|---|" + "---:|" * len(COUNTS))
    for label, cells in rows.items():
        print(f"| {label} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    from measurements import recorded  # type: ignore[import-not-found]

    recorded(main)
