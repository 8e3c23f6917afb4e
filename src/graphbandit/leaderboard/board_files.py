"""The files of the board."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..storage.atomic import write_text
from .board_page import render
from .board_tables import markdown


def write(out: Path, content: dict[str, Any]) -> None:
    """`index.html`, `leaderboard.md` and `leaderboard.json`."""
    out.mkdir(parents=True, exist_ok=True)
    texts = {
        "leaderboard.json": json.dumps(content, indent=1, ensure_ascii=False) + "\n",
        "leaderboard.md": markdown(content),
        "index.html": render(content),
    }
    for name, text in texts.items():
        write_text(out / name, text)
