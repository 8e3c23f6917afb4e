"""Compaction: the log is the archive and the table, whole at every point at which the process may be killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from graphbandit.cli import app
from graphbandit.serving import EventStore, RecommendationService, Request, Reward, StoreInUse, UnknownName, replay_from_zero
from graphbandit.serving.operations import compaction
from graphbandit.serving.operations.compaction import compact
from graphbandit.serving.operations.forgetting import forget_user
from graphbandit.serving.operations.importing import import_history
from graphbandit.serving.operations.verify import verify
from graphbandit.serving.store import event_archive, event_store
from serving_zoo import USERS, fingerprint, new_database, small_initial_state

NOW = 10**18


def opened(folder: Path) -> RecommendationService:
    return RecommendationService.open(EventStore(f"sqlite:///{folder}/state.db"), folder / "snapshots", small_initial_state())


def used(folder: Path, steps: int = 40) -> tuple[list[str], str]:
    """Fill a store, and return the ids of its decisions and the fingerprint of its state."""
    service = opened(folder)
    (folder / "old.csv").write_text("user,arm,reward\nann,tea,1\nbob,coffee,0\n")
    import_history(service, folder / "old.csv")
    ids = []
    for step in range(steps):
        ids += service.recommend([Request(USERS[step % 5])], f"key-{step}").ids
        if step % 3:
            service.reward([Reward(ids[-1], step / 10)])
    service.retract(ids[4])
    found = fingerprint(service.state)
    service.close()
    return ids, found


def test_archive_and_table_are_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "PART", 7)
    monkeypatch.setattr(event_archive, "GROUP", 3)
    ids, state = used(tmp_path)
    url = f"sqlite:///{tmp_path}/state.db"
    before = [event for page in attached(url).read() for event in page]
    middle = before[40].at
    done = compact(url, middle)
    cut = next(event.seq for event in before if event.at >= middle) - 1
    assert done.events == cut > 30
    store = attached(url)
    assert [event for page in store.read() for event in page] == before
    assert store.archive.last == cut and len(store.archive.parts) == -(-cut // 7)
    assert [event for page in store.read(kinds=[before[-1].kind]) for event in page] == [
        event for event in before if event.kind == before[-1].kind
    ]
    assert [store.find(seq) for seq in (1, cut, cut + 1)] == [before[seq - 1] for seq in (1, cut, cut + 1)]
    store.close()
    assert verify(url, tmp_path / "snapshots").problems == []
    for path in (tmp_path / "snapshots").glob("*/snapshot-*"):
        path.unlink()
    service = opened(tmp_path)  # a replay from zero
    assert fingerprint(service.state) == state == fingerprint(replay_from_zero(service.store))
    with pytest.raises(UnknownName, match="was archived"):
        service.reward([Reward(ids[0], 1.0)])
    service.reward([Reward(ids[-1], 1.0), Reward(ids[-2], 1.0)])
    assert import_history(service, tmp_path / "old.csv").was_there
    monkeypatch.setattr(event_store, "OPEN_TIMEOUT", 0.0)
    with pytest.raises(StoreInUse):
        compact(url, NOW)
    service.close()
    assert compact(url, NOW).events > 0  # all but the newest
    assert attached(url).last == service.store.last
    service = opened(tmp_path)
    service.recommend([Request("ann")])
    service.close()
    assert verify(url, tmp_path / "snapshots").problems == []


def test_a_start_with_a_snapshot_needs_no_archive(tmp_path: Path) -> None:
    """Not even if rewards were retracted before."""
    _, state = used(tmp_path)
    compact(f"sqlite:///{tmp_path}/state.db", NOW)
    [archive] = tmp_path.glob("state.db.archive-*")
    archive.rename(tmp_path / "elsewhere")
    service = opened(tmp_path)
    assert fingerprint(service.state) == state
    [made] = service.recommend([Request("ann")]).ids
    service.reward([Reward(made, 1.0)])
    service.close()
    (tmp_path / "elsewhere").rename(archive)
    service = opened(tmp_path)
    service.retract(made)
    assert fingerprint(service.state) == fingerprint(replay_from_zero(service.store))
    service.close()


def attached(url: str) -> EventStore:
    store = EventStore(url)
    store.attach()
    return store


@pytest.mark.parametrize("stop", ["write_part", "insert", "vacuum"])
def test_killed_in_between_nothing_is_lost(tmp_path: Path, stop: str) -> None:
    _, state = used(tmp_path)
    url = f"sqlite:///{tmp_path}/state.db"
    before = [event for page in attached(url).read() for event in page]
    script = f"""
import os, signal
from graphbandit.serving.operations import compaction
from graphbandit.serving.store.database import Database
compaction.PART = 20
calls = []
def killed(original, at):
    def call(*given, **named):
        calls.append(1)
        if {stop!r} == "write_part":
            result = original(*given, **named)
        if len(calls) == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return result if {stop!r} == "write_part" else original(*given, **named)
    return call
if {stop!r} == "vacuum":
    Database.vacuum = killed(Database.vacuum, 1)
else:
    setattr(compaction, {stop!r}, killed(getattr(compaction, {stop!r}), 2))
compaction.compact({url!r}, {NOW})
"""
    done = subprocess.run([sys.executable, "-c", script], env=os.environ | {"NUMBA_DISABLE_JIT": "1"}, check=False)
    assert done.returncode == -signal.SIGKILL
    assert [event for page in attached(url).read() for event in page] == before
    compact(url, NOW)
    store = attached(url)
    assert [event for page in store.read() for event in page] == before and store.archive.last == before[-1].seq - 1
    assert {path.name for path in store.archive.folder.iterdir()} == {part.file for part in store.archive.parts}
    store.close()
    service = opened(tmp_path)
    assert fingerprint(replay_from_zero(service.store)) == state
    service.close()


def test_a_damaged_or_missing_archive_is_named(tmp_path: Path) -> None:
    used(tmp_path)
    url = f"sqlite:///{tmp_path}/state.db"
    compact(url, NOW)
    [file] = tmp_path.glob("state.db.archive-*/*")
    content = bytearray(file.read_bytes())
    place = len(content) // 2
    content[place] ^= 255
    file.write_bytes(content)
    assert verify(url).problems
    file.unlink()
    [problem] = verify(url).problems
    assert "lacks events-1-" in problem


def test_the_command_says_what_it_saved(tmp_path: Path) -> None:
    used(tmp_path, steps=150)
    words = ["store", "compact", "--store", f"sqlite:///{tmp_path}/state.db", "--quiet"]
    assert "give either" in CliRunner().invoke(app, words).output
    assert "must be a date" in CliRunner().invoke(app, [*words, "--before", "soon"]).output
    none = CliRunner().invoke(app, [*words, "--before", "2026-01-31"])
    assert none.exit_code == 0 and "0 events were archived" in none.output
    size = (tmp_path / "state.db").stat().st_size
    done = CliRunner().invoke(app, [*words, "--keep-days", "0"])
    assert done.exit_code == 0 and " events were archived." in done.output, done.output
    assert (tmp_path / "state.db").stat().st_size < 0.5 * size


def test_stores_that_are_compacted_in_one_directory_keep_their_archives(
    tmp_path: Path, postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The archive is named after its store, and recorded in it: every tool finds it from any directory."""
    monkeypatch.chdir(tmp_path)
    urls = [new_database(postgres), new_database(postgres)]
    for url in urls:
        service = RecommendationService.open(EventStore(url), tmp_path / "snapshots", small_initial_state())
        for _ in range(5):
            service.recommend([Request("ann")])
        service.close()
        compact(url, NOW)
    (tmp_path / "another").mkdir()
    monkeypatch.chdir(tmp_path / "another")
    (tmp_path / "old.csv").write_text("user,arm,reward\nann,tea,1\n")
    for url in urls:
        assert verify(url, tmp_path / "snapshots").problems == []
        service = RecommendationService.open(EventStore(url), tmp_path / "empty")
        assert service.state.decisions == 5 and not import_history(service, tmp_path / "old.csv").was_there
        service.close()
        assert compact(url, NOW).events == 2 and forget_user(url, "ann", tmp_path / "snapshots").was_known
    assert not list((tmp_path / "another").iterdir()) and all(verify(url).problems == [] for url in urls)
