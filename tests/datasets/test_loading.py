"""Data sets: every layout, every kind of damage, parsed copies, and the real archives."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

from graphbandit import datasets
from graphbandit.datasets import DatasetError, MissingDataset, Ratings
from graphbandit.storage import archive
from made_up import LAYOUTS, make_archive, make_folder, real


def check_content(name: str, ratings: Ratings) -> None:
    users, items, values = ratings.user_ids[ratings.user], ratings.item_ids[ratings.item], ratings.value
    rows = sorted(zip(users.tolist(), items.tolist(), values.tolist(), strict=True))
    assert ratings.user.dtype == ratings.item.dtype == np.int32 and values.dtype == np.float64
    if name == "movielens-100k":
        assert rows == [(22, 377, 1.0), (196, 242, 3.0), (196, 377, 5.0)]
    elif name == "movielens-1m":
        assert rows == [(1, 1193, 5.0), (2, 661, 3.0)]
    elif name == "netflix":
        assert rows == [(7, 9, 1.0), (10, 1, 5.0), (30, 1, 3.0), (30, 2, 4.0)]
    elif name == "lastfm":
        assert rows == [(2, 51, 13883.0), (2, 52, 11690.0), (3, 52, 7.0)]
        assert ratings.graph is not None and ratings.graph.ids == (2, 3, 9)  # 9 has friends and no plays
        assert ratings.graph.adjacency.toarray().tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
        assert ratings.item_tags is not None and ratings.item_tags.toarray().tolist() == [[0, 1], [2, 0]]
    elif name == "ciao":
        assert rows == [(5, 70, 1.0), (5, 71, 4.0), (8, 70, 0.0), (9, 72, 5.0)]  # of two ratings the last
        assert ratings.graph is not None and ratings.graph.ids == (5, 8, 9)  # 4 is trusted and rated nothing
        assert ratings.graph.adjacency.toarray().tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
        assert ratings.item_tags is None
    else:
        assert rows == [(8, 7, 1.0), (9, 5, 1.0), (9, 7, 1.0)]
        assert ratings.graph is not None and ratings.graph.n_edges == 1
        assert ratings.item_tags is not None and ratings.item_tags.toarray().tolist() == [[0, 1], [2, 1]]


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout_and_place(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_cache: Path) -> None:
    with pytest.raises(
        MissingDataset,
        match=rf"{name} is not in .*graphbandit\. (Run `graphbandit datasets fetch|There is no off|Download it from https)",
    ):
        datasets.load(name)
    for make in (make_archive, make_folder):
        home = tmp_path / make.__name__
        home.mkdir()
        path = make(name, home)
        for data in (path, home):
            check_content(name, datasets.load(name, data))
        monkeypatch.setenv("GRAPHBANDIT_DATA", str(home))
        assert datasets.find(name) == path
        check_content(name, datasets.load(name))
        monkeypatch.delenv("GRAPHBANDIT_DATA")
    make_archive(name, own_cache)
    check_content(name, datasets.load(name, tmp_path))  # not in `data`: the cache has it


def test_the_parsed_copy_is_used_while_the_file_stands(
    tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_folder("lastfm", tmp_path)
    first = datasets.load("lastfm", path)
    (copy,) = (own_cache / "parsed").iterdir()
    with monkeypatch.context() as patch:
        patch.setattr(datasets.Files, "integers", lambda *_, **__: pytest.fail("parsed again"))
        again = datasets.load("lastfm", path)
    check_content("lastfm", first)
    check_content("lastfm", again)
    plays = path / "user_artists.dat"
    plays.write_text(plays.read_text() + "3\t51\t1\n")
    assert len(datasets.load("lastfm", path).value) == 4
    copy.write_bytes(copy.read_bytes()[:-100])  # a damaged copy is made again
    assert len(datasets.load("lastfm", path).value) == 4
    with monkeypatch.context() as patch:
        patch.setattr(archive, "FORMAT", 99)  # so the copy has an unknown format: it is not used, and not an error
        assert len(datasets.load("lastfm", path).value) == 4
    monkeypatch.setenv("XDG_CACHE_HOME", str(plays))  # a file: nothing can be written there
    assert len(datasets.load("lastfm", path).value) == 4


BAD_ROWS = [
    ("movielens-100k", "u.data", "1\t2\t3\t4\n1\t2\tx\t4\n", 2, r"expected user film rating time, found '1\\t2\\tx\\t4'"),
    ("movielens-100k", "u.data", "1\t2\t3\t4\n1\t2\t3\n", 2, "expected user film"),
    ("movielens-100k", "u.data", "1\t2\t3\t4\n\n1\t2\t3\t4\t5\n", 3, "expected user film"),
    ("movielens-100k", "u.data", "1\t2\t3\t4\n1\t2", 2, "expected user film"),
    ("movielens-100k", "u.data", "1\t2\t3\t9999999999999999999", 1, "expected user film"),
    ("movielens-1m", "ratings.dat", "1::2::3::4\r\n1::2::3.5::4\r\n", 2, "found '1.*3\\.5.*4'"),
    ("netflix", "combined_data_1.txt", "1,2,2005-01-01\n", 1, "expected a line `film:`"),
    ("netflix", "combined_data_1.txt", "1:\n1,2,2005-01-01\n1,2\n", 3, "found '1,2'"),
    ("netflix", "combined_data_1.txt", "1:\n1,2,2005-01-", 2, "expected a line"),
    ("netflix", "combined_data_1.txt", "1:x\n", 1, "expected a line"),
    ("netflix", "combined_data_1.txt", "film\n", 1, "expected a line"),
    ("lastfm", "user_friends.dat", "userID\tfriendID\n2\t3\n2\tthree\n", 3, "expected userID friendID"),
    ("delicious", "user_contacts.dat", "userID\tcontactID\n8\t9\n", 2, "expected userID contactID date_day"),
    ("ciao", "ratings.txt", "5 70 3\r\n5 70\r\n", 2, "expected user item rating"),
    ("ciao", "trusts.txt", "5\t8\n", 1, "expected truster trusted trust"),
]


@pytest.mark.parametrize(("name", "file", "text", "line", "message"), BAD_ROWS)
def test_a_bad_row_is_named(name: str, file: str, text: str, line: int, message: str, tmp_path: Path) -> None:
    folder = make_folder(name, tmp_path)
    (folder / file).write_text(text, newline="")
    with pytest.raises(DatasetError, match=rf"{file}, line {line}: .*{message}"):
        datasets.load(name, folder)


def test_wrong_and_damaged_files(tmp_path: Path) -> None:
    path = make_archive("lastfm", tmp_path)
    content = path.read_bytes()
    for length in (0, 30, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(DatasetError, match=r"lastfm-2k\.zip cannot be read: it is truncated, corrupted or not a zip"):
            datasets.load("lastfm", path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("user_artists.dat", "userID\tartistID\tweight\n1\t2\t3\n")
    with pytest.raises(DatasetError, match=r"lastfm-2k\.zip has no file user_friends\.dat: use the complete archive"):
        datasets.load("lastfm", path)
    with pytest.raises(DatasetError, match=r"has no file u\.data"):
        datasets.load("movielens-100k", path)
    (tmp_path / "u.data").write_text("")
    with pytest.raises(DatasetError, match=r"u\.data has no rows"):
        datasets.load("movielens-100k", tmp_path)
    (tmp_path / "combined_data_1.txt").write_text("1:\n")
    with pytest.raises(DatasetError, match=r"combined_data_1\.txt has no ratings"):
        datasets.load("netflix", tmp_path)
    with pytest.raises(MissingDataset, match=r"absent does not exist, but the argument data or GRAPHBANDIT_DATA names it"):
        datasets.load("netflix", tmp_path / "absent")
    with pytest.raises(ValueError, match=r"name must be one of movielens-100k, .* but it is 'imdb'"):
        datasets.load("imdb")


def test_any_flipped_byte_in_an_archive_is_noticed(tmp_path: Path) -> None:
    """Either the file is refused with its name, or the zip format does not need the byte."""
    path = make_archive("movielens-100k", tmp_path)
    content = bytearray(path.read_bytes())
    refused = 0
    for place in range(len(content)):
        broken = content.copy()
        broken[place] ^= 0xFF
        path.write_bytes(bytes(broken))
        try:
            check_content("movielens-100k", datasets.DATASETS["movielens-100k"].load(datasets.Files(path)))
        except DatasetError as error:
            assert "ml-100k.zip" in str(error)  # noqa: PT017  # a byte that zip does not need raises nothing
            refused += 1
    assert refused > len(content) / 2


COUNTS = [  # ratings, users, items, edges, tag assignments to items that somebody rated
    ("movielens-100k", "ml-100k.zip", (100_000, 943, 1_682), None, None),
    ("movielens-1m", "ml-1m.zip", (1_000_209, 6_040, 3_706), None, None),
    ("netflix", "netflix-sample.zip", (1_111_768, 1_200, 1_200), None, None),
    ("lastfm", "hetrec2011-lastfm-2k.zip", (92_834, 1_892, 17_632), 25_434 // 2, 184_941),
    ("delicious", "hetrec2011-delicious-2k.zip", (77_881, 1_867, 56_431), 15_328 // 2, 271_417),
    ("ciao", "ciao.zip", (282_650, 7_375, 105_114), 85_205, None),  # 284,086 rows, 1,436 of which repeat a pair
]


@pytest.mark.compiled
@pytest.mark.parametrize(("name", "archive", "counts", "edges", "tags"), COUNTS)
def test_real_archives(name: str, archive: str, counts: tuple[int, int, int], edges: int | None, tags: int | None) -> None:
    folder = real(archive)
    ratings = datasets.load(name, folder)
    assert (len(ratings.value), ratings.n_users, ratings.n_items) == counts
    assert ratings.matrix().nnz == counts[0]
    assert (ratings.graph.n_edges if ratings.graph else None) == edges
    assert (ratings.item_tags.sum() if ratings.item_tags is not None else None) == tags
    assert np.array_equal(datasets.load(name, folder).value, ratings.value)
