"""`graphbandit store verify`: what is wrong with a store is found and said."""

from __future__ import annotations

import random
import shutil
import sqlite3
from pathlib import Path

from typer.testing import CliRunner

from graphbandit.cli import app
from graphbandit.serving import EventStore, RecommendationService, Request, Reward, replay_from_zero
from graphbandit.serving.operations.verify import verify
from serving_zoo import fingerprint, small_initial_state


def lived(folder: Path, rounds: int = 4) -> str:
    url = f"sqlite:///{folder}/state.db"
    service = RecommendationService.open(EventStore(url), folder / "state.db.snapshots", small_initial_state())
    for _ in range(rounds):
        service.reward([Reward(service.recommend([Request("ann"), Request("bob")]).ids[0], 0.25)])
        service.recommend([Request("bob")])
    service.snapshot()
    service.recommend([Request("eve")])
    service.close()
    return url


def change(folder: Path, statement: str) -> None:
    connection = sqlite3.connect(folder / "state.db")
    connection.execute(statement)
    connection.commit()
    connection.close()


def test_a_sound_store_has_no_problems(tmp_path: Path) -> None:
    url = lived(tmp_path)
    found = verify(url, tmp_path / "state.db.snapshots")
    assert not found.problems and sum("bit for bit" in fact for fact in found.facts) == 2
    done = CliRunner().invoke(app, ["store", "verify", "--store", url, "--quiet"])
    assert done.exit_code == 0 and "13 events" in done.stdout and "all is well" in done.stdout


def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    changes = {
        "DELETE FROM graphbandit_events WHERE seq = 5": "a gap in the log before event 6",
        "UPDATE graphbandit_events SET body = replace(body, '0.25', '0.75') WHERE seq = 2": "the checksum of event 2",
        "UPDATE graphbandit_events SET key = 'r1.0.1' WHERE seq = 2": "the key of event 2",
        "UPDATE graphbandit_events SET previous = NULL WHERE seq = 6": "event 6 does not name",
        "DELETE FROM graphbandit_events WHERE seq > 11": "the log ends at event 11, but event 13 was written",
        "UPDATE graphbandit_initial_state SET content = CAST(content || x'00' AS BLOB)": "the checksum of the initial state",
    }
    for number, (statement, said) in enumerate(changes.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        url = lived(folder)
        change(folder, statement)
        done = CliRunner().invoke(app, ["store", "verify", "--store", url, "--quiet"])
        assert done.exit_code == 1 and said in done.stdout, (statement, done.stdout)


def test_a_snapshot_that_a_replay_does_not_lead_to_is_found(tmp_path: Path) -> None:
    url, folder = lived(tmp_path), tmp_path / "state.db.snapshots"
    store = EventStore(url)
    service = RecommendationService.open(store, folder)
    service.state.decisions += 1  # an error of the arithmetic
    service.snapshot()
    service.store.close()
    found = verify(url, folder)
    assert len(found.problems) == 1 and "not what a replay leads to" in found.problems[0]


def test_a_store_that_is_not_there_or_not_a_store(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("not a database, but some text that is long enough to be looked at" * 20)
    for name, said, code in (("none.db", "there is no file", 2), ("text.db", "not a database", 1)):
        done = CliRunner().invoke(app, ["store", "verify", "--store", f"sqlite:///{tmp_path}/{name}", "--quiet"])
        assert done.exit_code == code and said in done.output, (name, done.output)
    assert not (tmp_path / "none.db").exists()


def flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place // 8] ^= 1 << place % 8
    path.write_bytes(content)


def copied(source: Path, target: Path) -> Path:
    """Copy the files of a store whose process was killed."""
    target.mkdir()
    for path in source.glob("state.db*"):
        if path.is_file():
            shutil.copy(path, target)
    return target


def bits_of(path: Path, text: bytes) -> int:
    """Return the position of a bit in the middle of these bytes."""
    return 8 * (path.read_bytes().index(text) + len(text) // 2)


def state_or_refusal(folder: Path) -> str:
    """Return the fingerprint of the state after a start, or "refused"."""
    store = EventStore(f"sqlite:///{folder}/state.db")
    try:
        store.open()
        return fingerprint(replay_from_zero(store))
    except Exception:
        return "refused"
    finally:
        store.close()


def test_flipped_bits_in_the_database_are_found_or_change_nothing(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    store = EventStore(f"sqlite:///{whole}/state.db")
    service = RecommendationService.open(store, whole / "snapshots", small_initial_state())
    for _ in range(60):
        service.reward([Reward(service.recommend([Request("ann"), Request("bob")]).ids[0], 0.25)])
    service.store.close()
    expected = state_or_refusal(copied(whole, tmp_path / "sound"))
    assert not verify(f"sqlite:///{whole}/state.db").problems
    rng, found = random.Random(0), 0
    for number in range(14):
        folder = copied(whole, tmp_path / str(number))
        size = 8 * (folder / "state.db").stat().st_size
        flip(folder / "state.db", bits_of(folder / "state.db", b"0.25") if number < 2 else rng.randrange(size))
        started = state_or_refusal(copied(folder, tmp_path / f"{number}-started"))
        problems = verify(f"sqlite:///{folder}/state.db").problems
        assert problems or started == expected, number  # nothing wrong is taken for right
        found += bool(problems)
    assert found >= 2
