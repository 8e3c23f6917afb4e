"""Files of every release are read alike by all later ones. `tests/release_files.py` writes them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import release_files

RELEASES = sorted(path.parent.name for path in Path(__file__).parent.glob("*/expected.json"))


def is_near(said: Any, expected: Any) -> bool:
    """Return True if two readings are equal, numbers to nine digits."""
    if isinstance(expected, dict):
        return said.keys() == expected.keys() and all(is_near(said[key], value) for key, value in expected.items())
    if isinstance(expected, list):
        return len(said) == len(expected) and all(map(is_near, said, expected))
    return bool(said == pytest.approx(expected, rel=1e-9, abs=1e-12)) if isinstance(expected, float) else bool(said == expected)


@pytest.mark.parametrize("release", RELEASES)
def test_the_files_of_a_release_say_what_they_said(release: str, tmp_path: Path) -> None:
    folder = shutil.copytree(Path(__file__).parent / release, tmp_path / release)
    expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    said = json.loads(json.dumps(release_files.read(folder)))
    assert {key for key in expected if not is_near(said[key], expected[key])} == set()
    assert said["problems"] == [] and said["from the log"] == expected["from the snapshot"]


def test_the_files_of_this_release_can_be_written_and_read(tmp_path: Path) -> None:
    release_files.main(tmp_path / "new")
    written = {path.name for path in (tmp_path / "new").iterdir()}
    assert written == {path.name for path in (Path(__file__).parent / RELEASES[-1]).iterdir()}
