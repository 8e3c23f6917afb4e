"""The results of `graphbandit start` on real data, from the raw files of the data sets.

python benchmarks/start.py --data DIR [--logs Last.fm Delicious MovieLens-100k]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

LOGS = {
    "Last.fm": ("hetrec2011-lastfm-2k.zip", "user_artists.dat", "user_friends.dat"),
    "Delicious": ("hetrec2011-delicious-2k.zip", "user_taggedbookmarks.dat", "user_contacts.dat"),
    "MovieLens-100k": ("ml-100k.zip", "ml-100k/u.data", None),
}
"""Archive, events and graph."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--logs", nargs="+", choices=list(LOGS), default=list(LOGS), metavar="NAME")
    options = parser.parse_args()
    for name in options.logs:
        archive, events, graph = LOGS[name]
        with tempfile.TemporaryDirectory() as folder:
            zipfile.ZipFile(options.data / archive).extractall(folder)
            command = [sys.executable, "-m", "graphbandit.cli", "start", f"{folder}/{events}", "--out", f"{folder}/out"]
            command += ["--graph", f"{folder}/{graph}"] if graph else []
            begin = time.perf_counter()
            done = subprocess.run([*command, "--json", "--quiet"], capture_output=True, text=True, check=True)
        found = json.loads(done.stdout)
        files = f"`{events}`" + (f" and `{graph}`" if graph else "")
        print(f"## {name}: {files}, {time.perf_counter() - begin:.0f} s\n\n| policy | reward a choice |\n|---|---:|")
        for policy in found["policies"]:
            print(f"| {policy['policy']} | {policy['mean']:.3f} |")
        print("\n" + "\n".join(found["verdict"]) + "\n", flush=True)


if __name__ == "__main__":
    from measurements import recorded  # type: ignore[import-not-found]

    recorded(main)
