"""The folder of a first look: the page, the numbers, and the files that `serve` takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..storage.atomic import AnyPath, write_text
from ..storage.tables import write_table
from . import look_page, look_text
from .look import FirstLook


def write_look(look: FirstLook, folder: AnyPath) -> Path:
    """Write index.html, look.json, edges.csv and arms.csv; the path of the page."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    names, vectors = look.arms
    write_table(folder / "arms.csv", {"arm": names, **{f"x{k}": vectors[:, k].tolist() for k in range(vectors.shape[1])}})
    look.built.write(folder / "edges.csv")
    write_text(folder / "look.json", json.dumps(as_table(look), indent=2, ensure_ascii=False))
    write_text(folder / "index.html", look_page.render(look, str(folder)))
    return folder / "index.html"


def as_table(look: FirstLook) -> dict[str, Any]:
    """Everything but vectors and policies as plain JSON values."""
    return {
        "events": look.n_events,
        "users": look.n_users,
        "items": look.n_items,
        "verdict": look_text.headline(look),
        "protocol": look_text.protocol(look),
        "policies": [{"policy": one.name, "mean": float(one.reward.mean()), "settings": one.settings} for one in look.played],
        "lifts": {name: _numbers(lift) for name, lift in look.lifts.items()},
        "for_whom": [{"users": group.name, **_numbers(group.lift)} for group in look.by_group],
        "graph": look.built.as_table(),
        "evaluation": None if look.evaluation is None else look.evaluation.as_table(),
        "cannot_tell": look_text.cannot_tell(look),
        "guessed": list(look.said),
        "features": look.features,
    }


def _numbers(found: Any) -> dict[str, Any]:
    table = {name: None if value != value else value for name, value in found._asdict().items()}
    return table | {"verdict": found.verdict}
