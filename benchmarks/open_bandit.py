"""Estimated rewards of policies on the published sample of the Open Bandit Dataset, from its random choices.

python benchmarks/open_bandit.py --data DIR [--policies adaptive linucb lints graphucb club]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any


def cell(found: dict[str, Any] | None) -> str:
    """Return an estimate with its interval, where it has one."""
    if found is None:
        return ""
    ends = "" if found["low"] is None else f" [{found['low']:.4f}, {found['high']:.4f}]"
    return f"{found['value']:.4f}{ends}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--policies", nargs="+", default=["adaptive", "linucb", "lints", "graphucb", "club"])
    options = parser.parse_args()
    command = [sys.executable, "-m", "graphbandit.cli", "evaluate", str(options.data / "open-bandit-small.zip"), "--json"]
    command += ["--quiet", "--behaviour", "random", "--policies", ",".join(options.policies)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(done.stdout)
    print("| policy | doubly robust | SNIPS | IPS | rounds' worth | replay | accepted |\n|---|---|---|---|---:|---|---:|")
    print(f"| what was logged | {cell(found['logged'])} | | | | | |")
    for policy in found["policies"]:
        estimates = " | ".join(cell(policy[kind]) for kind in ("dr", "snips", "ips"))
        replay = policy["replay"]
        ends = f"{policy['overlap']['effective']:,.0f} | {cell(replay)} | {replay['rounds'] if replay else ''}"
        print(f"| {policy['policy']} | {estimates} | {ends} |")


if __name__ == "__main__":
    from measurements import recorded  # type: ignore[import-not-found]

    recorded(main)
