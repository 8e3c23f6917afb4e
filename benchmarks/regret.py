"""Final regret of every form of every algorithm on the paper's four families of graphs.

python benchmarks/regret.py [--runs 20] [--workers 2]
"""

from __future__ import annotations

import argparse
from typing import Any

from graphbandit import CLUB, GobLin, GobLinBlock, GobLinMacro, GraphUCB, GraphUCBLocal, LinTS, LinUCB, Random, compare
from graphbandit.experiments.testbeds import FAMILIES, world

POLICIES: dict[str, Any] = {
    "GraphUCB, paper": GraphUCB,
    "GraphUCB, paper, push": lambda g, d: GraphUCB(g, d, solver="push"),
    "GraphUCB, released": lambda g, d: GraphUCB(g, d, preset="released"),
    "GraphUCB, recommended": lambda g, d: GraphUCB(g, d, preset="recommended"),
    "GraphUCB, paper, alpha 0.01": lambda g, d: GraphUCB(g, d, alpha=0.01),
    "GraphUCB, paper, greedy": lambda g, d: GraphUCB(g, d, exploration=0.0),
    "GraphUCBLocal, algorithm-2": lambda g, d: GraphUCBLocal(g, d, preset="paper", rule="algorithm-2"),
    "GraphUCBLocal, section-5": lambda g, d: GraphUCBLocal(g, d, preset="paper"),
    "GraphUCBLocal, released": GraphUCBLocal,
    "GraphUCBLocal, jacobi": lambda g, d: GraphUCBLocal(g, d, preset="recommended", rule="jacobi"),
    "GraphUCBLocal, gauss-seidel": lambda g, d: GraphUCBLocal(g, d, preset="recommended"),
    "GobLin, article": GobLin,
    "GobLin, scale 0.1": lambda g, d: GobLin(g, d, scale=0.1),
    "GobLin, scale 0.01": lambda g, d: GobLin(g, d, scale=0.01),
    "GobLin, released, 0.1": lambda g, d: GobLin(g, d, preset="released"),
    "GobLin, released, 0.5": lambda g, d: GobLin(g, d, preset="released", exploration=0.5),
    "GobLinBlock, 4 clusters, scale 0.1": lambda g, d: GobLinBlock(g, d, scale=0.1),
    "GobLinMacro, 4 clusters, scale 0.1": lambda g, d: GobLinMacro(g, d, scale=0.1),
    "CLUB, alpha2 0.2": CLUB,
    "CLUB, released, alpha2 0.15": lambda g, d: CLUB(g, d, preset="released", alpha2=0.15),
    "LinUCB": LinUCB,
    "LinTS": LinTS,
    "Random": Random,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    results = {f: compare(POLICIES, world(f), 1000, seeds=range(options.runs), workers=options.workers) for f in FAMILIES}
    print(f"Regret after 1000 rounds, {options.runs} seeds, mean ± half-width of the 95 % interval\n")
    print("| policy | " + " | ".join(FAMILIES) + " |\n|---|" + "---:|" * len(FAMILIES))
    for name in POLICIES:
        cells = [f"{r.final(name).mean:.1f} ± {r.final(name).high - r.final(name).mean:.1f}" for r in results.values()]
        print(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    from measurements import recorded  # type: ignore[import-not-found]

    recorded(main)
