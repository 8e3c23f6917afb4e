"""The folder of a first look: the page, the numbers, and the files that `serve` takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..storage.atomic import AnyPath, write_text
from ..tables import write_table
from . import look_page, look_text
from .assessment import FirstLook


def write_look(found: FirstLook, folder: AnyPath) -> Path:
    """Write index.html, look.json, arms.csv, history.parquet and, if a graph helps, edges.csv; the path
    of the page.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    names, vectors = found.arms
    write_table(folder / "arms.csv", {"arm": names, **{f"x{k}": vectors[:, k].tolist() for k in range(vectors.shape[1])}})
    write_table(folder / "history.parquet", {name: list(column) for name, column in found.history.items()})
    if found.built.helps:
        found.built.write(folder / "edges.csv")
    write_text(folder / "look.json", json.dumps(as_table(found), indent=2, ensure_ascii=False))
    write_text(folder / "index.html", look_page.render(found, str(folder)))
    return folder / "index.html"


def as_table(found: FirstLook) -> dict[str, Any]:
    """Everything but vectors and policies as plain JSON values."""
    return {
        "events": found.n_events,
        "users": found.n_users,
        "items": found.n_items,
        "verdict": look_text.headline(found),
        "protocol": look_text.protocol(found),
        "policies": [{"policy": one.name, "mean": float(one.reward.mean()), "settings": one.settings} for one in found.played],
        "lifts": {name: _numbers(lift) for name, lift in found.lifts.items()},
        "for_whom": [{"users": group.name, **_numbers(group.lift)} for group in found.by_group],
        "graph": found.built.as_table(),
        "evaluation": None if found.evaluation is None else found.evaluation.as_table(),
        "cannot_tell": look_text.cannot_tell(found),
        "guessed": list(found.said),
        "features": found.features,
    }


def _numbers(found: Any) -> dict[str, Any]:
    table = {name: None if value != value else value for name, value in found._asdict().items()}
    return table | {"verdict": found.verdict}
