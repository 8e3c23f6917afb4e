"""Files: atomic, checksummed, versioned; every kind of damage is named."""

from __future__ import annotations

import inspect
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphbandit import POLICIES, GraphUCB, LinUCB, Result, graphs
from graphbandit.storage.archive import ArchiveError, read, write


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    policy = LinUCB(graphs.from_edges([("a", "b")], ids=["b", "a", "c"]), 2)
    policy.update(0, [1.0, 0.0], 1.0)
    policy.save(tmp_path / "policy.npz")
    return tmp_path / "policy.npz"


def test_graph_ids_and_settings_come_back(saved: Path) -> None:
    loaded = LinUCB.load(saved)
    assert loaded.graph.ids == ("b", "a", "c") and loaded.params["ridge"] == 1.0
    assert loaded.graph.neighbours(0).tolist() == [1]


def test_truncated_file(saved: Path) -> None:
    content = saved.read_bytes()
    for length in (0, 10, len(content) // 2, len(content) - 1):
        saved.write_bytes(content[:length])
        with pytest.raises(ArchiveError, match=r"policy\.npz cannot be read: it is truncated, corrupted or not a"):
            LinUCB.load(saved)


def test_any_flipped_byte_is_noticed(saved: Path) -> None:
    """Refuse the file, or load it unchanged if the zip format does not use the flipped byte."""
    content = bytearray(saved.read_bytes())
    truth = LinUCB.load(saved)
    for place in np.random.default_rng(0).integers(len(content), size=300):
        broken = content.copy()
        broken[place] ^= 0xFF
        saved.write_bytes(bytes(broken))
        try:
            loaded = LinUCB.load(saved)
        except ArchiveError:
            continue
        assert np.array_equal(loaded.theta, truth.theta) and loaded.params == truth.params


def rewritten(path: Path, **changes: Any) -> None:
    """Change the header and leave the arrays alone."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    header = json.loads(arrays.pop("header").tobytes()) | changes
    np.savez(path, header=np.frombuffer(json.dumps(header).encode(), np.uint8), **arrays)


def test_checksum_format_and_kind(saved: Path, tmp_path: Path) -> None:
    rewritten(saved, sha256=dict.fromkeys(json.loads(np.load(saved)["header"].tobytes())["sha256"], "0" * 64))
    with pytest.raises(ArchiveError, match=r"damaged: the checksum of .* does not match"):
        LinUCB.load(saved)
    rewritten(saved, format=99)
    with pytest.raises(
        ArchiveError,
        match=r"policy\.npz has format 99, but this version of graphbandit reads only format 1: use the version that wrote it, "
        "or make it anew",
    ):
        LinUCB.load(saved)
    GraphUCB(graphs.empty(2), 2).save(saved)
    with pytest.raises(ArchiveError, match="holds a GraphUCB, not a LinUCB"):
        LinUCB.load(saved)
    with pytest.raises(ArchiveError, match="holds a policy, not a result"):
        Result.load(saved)


def test_a_file_with_a_part_missing_or_of_the_wrong_size(saved: Path) -> None:
    rewritten(saved, dim=3)
    with pytest.raises(ArchiveError, match="not those of dimension 3"):
        LinUCB.load(saved)
    rewritten(saved, dim=2, generator={"bit_generator": "choice", "state": {}})
    with pytest.raises(ArchiveError, match="lacks a part of a LinUCB"):
        LinUCB.load(saved)
    rewritten(saved, numbers={})
    with pytest.raises(ArchiveError, match="lacks a part of a LinUCB"):
        LinUCB.load(saved)
    rewritten(saved, sha256=[])
    with pytest.raises(ArchiveError, match="no readable header"):
        LinUCB.load(saved)


def test_numpy_settings_can_be_saved(tmp_path: Path) -> None:
    policy = GraphUCB(graphs.from_edges([(0, 1)]), 2, alpha=np.float32(0.5), solver="push")  # type: ignore[arg-type]
    policy.save(tmp_path / "p.npz")
    assert GraphUCB.load(tmp_path / "p.npz").params["alpha"] == 0.5


def test_foreign_files(tmp_path: Path) -> None:
    text, foreign, objects = tmp_path / "a.txt", tmp_path / "b.npz", tmp_path / "c.npz"
    text.write_text("hello")
    np.savez(foreign, x=np.ones(3))
    np.savez(objects, header=np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with zipfile.ZipFile(tmp_path / "d.npz", "w") as archive:
        archive.writestr("readme", "x")
    for path in (text, foreign, objects, tmp_path / "d.npz"):
        with pytest.raises(ArchiveError, match="not a graphbandit file"):
            LinUCB.load(path)
    with pytest.raises(FileNotFoundError):
        LinUCB.load(tmp_path / "absent.npz")


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file.npz"
    write(path, "thing", {"n": 1}, {"x": np.ones(3)})
    with pytest.raises(ValueError, match="Object arrays cannot be saved"):
        write(path, "thing", {"n": 2}, {"x": np.array([object()])})
    assert read(path, "thing")[0]["n"] == 1
    assert [p.name for p in tmp_path.iterdir()] == ["file.npz"]


def test_odd_ids_cannot_be_saved(tmp_path: Path) -> None:
    policy = LinUCB(graphs.from_edges([((0, 1), (2, 3))]), 1)
    with pytest.raises(ValueError, match=r"strings or integers, but one is \(0, 1\)"):
        policy.save(tmp_path / "x.npz")


@pytest.mark.parametrize("cls", POLICIES.values())
def test_a_seeded_generator_comes_back(cls: Any, tmp_path: Path) -> None:
    for bits in (np.random.PCG64(3), np.random.MT19937(3), np.random.Philox(3), np.random.SFC64(3)):
        catalogue = {"items": np.eye(2)} if "items" in inspect.signature(cls).parameters else {}
        policy = cls(graphs.empty(3), 2, seed=np.random.Generator(bits), **catalogue)
        policy.save(tmp_path / "p.npz")
        loaded = cls.load(tmp_path / "p.npz")
        arms = np.ones((50, 2))
        assert [policy.recommend(0, arms) for _ in range(20)] == [loaded.recommend(0, arms) for _ in range(20)]
