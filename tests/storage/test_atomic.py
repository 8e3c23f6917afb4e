"""Atomic writes: the file is the old one or the new one, and nothing is left beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphbandit.storage.atomic import PIECE, atomic_file, write_bytes, write_text


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_text(path, "grün\n")
    assert path.read_bytes() == "grün\n".encode()
    with atomic_file(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == "grün\n".encode()
    assert path.read_bytes() == b"new" and list(tmp_path.iterdir()) == [path]


def test_after_an_error_the_old_file_is_there_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_bytes(path, b"old")

    def interrupted() -> None:
        with atomic_file(path) as file:
            file.write(b"half of the ne")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


def test_a_throttled_file_has_the_same_bytes(tmp_path: Path) -> None:
    content = bytes(range(256)) * (PIECE // 256 + 3)
    with atomic_file(tmp_path / "file", throttled=True) as file:
        file.write(content)
    assert (tmp_path / "file").read_bytes() == content
