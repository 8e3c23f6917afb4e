"""Import of history: rewards of a table become events of the log, marked as imported.

A table is identified by the digest of its bytes, and each of its parts has a key. So an interrupted import continues
where it stopped when it is run again, and nothing counts twice.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Unpack

import numpy as np

from ...compute.arrays import Flags, Floats, Ints
from ...tables import EVENTS, BadRows, Reading, Table, read_table
from ..domain.events import Draft, EventKind, ImportedRewards, import_key
from ..domain.policy_changes import ProposedChange
from .input_files import check_ids
from .recommendation_service import RecommendationService

REWARDS_PER_EVENT = 1000
"""Rewards of one event."""
EVENTS_PER_TRANSACTION = 50
"""Events that are written in one transaction."""
USERS_PER_EVENT = 50_000
"""Users who join with one event: joining costs as much as there are users, however few join."""
Progress = Callable[[float], None]


class Imported(NamedTuple):
    """Result of importing a table."""

    rewards: int  # that are new in the log
    users: int  # who joined
    skipped: int  # rows that could not be read
    was_there: bool  # whether all of it had been imported before


class _History(NamedTuple):
    """The columns of a table in order of time."""

    user: Ints
    names: list[str]
    arm: list[str]  # of each code
    item: Ints
    reward: Floats
    time: Ints | None
    propensity: Floats | None
    kept: Flags  # False where a row is skipped
    context: dict[str, list[Any]]  # columns of the context, if the model has such


def import_history(
    service: RecommendationService, path: Path, *, on_import: Progress | None = None, **reading: Unpack[Reading]
) -> Imported:
    """Learn the rewards of a table, as events of the log; unknown users join, without edges.

    Parameters
    ----------
    service : RecommendationService
        The service of the store, which nobody else may use meanwhile.
    path : path of a table
        User, item (or arm), reward and, optionally, time and propensity. Learned in order of time.
    on_import : function of a share from 0 to 1, optional
    reading
        As in `read_table`. With `skip_bad`, rows with an unknown arm are skipped as well.
    """
    digest = file_digest(path)
    if service.store.with_keys([import_key(digest)], EventKind.IMPORTED):
        return Imported(0, 0, 0, True)
    table = read_table(path, EVENTS, **reading)
    table.check_columns("user", "item", "reward")
    history, skipped = _read_history(service, table, bool(reading.get("skip_bad")), reading.get("say"))
    before = len(service.state.rows), service.state.rewards
    made: list[ProposedChange] = []
    for draft, share in _missing_events(service, digest, history):
        made.append(ProposedChange(draft))
        if draft.body.startswith('{"join"') or len(made) == EVENTS_PER_TRANSACTION:
            service.commit(made)
            made = []
            if on_import is not None:
                on_import(share)
    end = ImportedRewards(file=path.name, rows=int(history.kept.sum()))
    service.commit([*made, ProposedChange(_draft(end, import_key(digest)))])
    after = len(service.state.rows), service.state.rewards
    return Imported(after[1] - before[1], after[0] - before[0], skipped, False)


def file_digest(path: Path) -> str:
    """Return a digest of the bytes of a file, or of all files of a folder."""
    digest = hashlib.blake2b(digest_size=12)
    for file in sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]:
        with file.open("rb") as content:
            while piece := content.read(2**20):
                digest.update(piece)
    return digest.hexdigest()


def _read_history(
    service: RecommendationService, table: Table, skip_bad: bool, say: Callable[[str], None] | None
) -> tuple[_History, int]:
    """Return the columns, and the number of skipped rows; everything is checked before anything is written."""
    order = table.order()
    user, names = table.codes("user")
    check_ids(names, lambda code: table.where(int((user == code).argmax())), table.title("user"))
    item, arms = table.codes("item")
    reward = table.numbers("reward")
    low, high = service.reward_range
    propensity = table.numbers("propensity", empty=True) if table.has("propensity") else None
    checks = {
        "there is no such arm": (np.array([arm not in service.state.arms for arm in arms], dtype=bool)[item], "item"),
        f"{table.title('reward')} must lie between {low:g} and {high:g}": (~((reward >= low) & (reward <= high)), "reward"),
    }
    if propensity is not None:
        checks["propensity must be above 0 and at most 1"] = (propensity <= 0, "propensity")
    bad, why = np.zeros(len(table), dtype=bool), BadRows()
    for reason, (flags, column) in checks.items():
        new = flags & ~bad
        if new.any():
            row = int(new.argmax())
            why.add(reason, int(new.sum()), table.place(row), table.data.column(column)[row].as_py())
        bad |= new
    for sentence in why.raise_or_say(table.name, skip_bad):
        (say or (lambda _: None))(sentence)
    if (~bad).any() and len(set(names) - service.state.rows.keys()):
        service.state.policy.user_rows()  # raises, if this policy takes no new users
    moments = table.micros()
    history = _History(
        user[order],
        names,
        arms,
        item[order],
        reward[order],
        None if moments is None else moments[order],
        None if propensity is None else propensity[order],
        ~bad[order],
        _context(service, table, order),
    )
    return history, table.skipped + int(bad.sum())


def _context(service: RecommendationService, table: Table, order: Ints) -> dict[str, list[Any]]:
    model = service.state.model
    names = [] if model is None else [name for name in model.context_columns if table.has(name)]
    return {name: table.data.column(name).take(order).to_pylist() for name in names}


def _missing_events(service: RecommendationService, digest: str, history: _History) -> Iterator[tuple[Draft, float]]:
    """Yield the events that are not in the log yet, and the share that is done after each."""
    state, total = service.state, len(history.user)
    present = np.zeros(len(history.names), dtype=bool)
    present[history.user[history.kept]] = True
    keys = [import_key(digest, f"u{start}") for start in range(0, len(history.names), USERS_PER_EVENT)]
    keys += [import_key(digest, str(start)) for start in range(0, total, REWARDS_PER_EVENT)]
    known = set(service.store.with_keys(keys, EventKind.IMPORTED))  # that an earlier, interrupted import has written
    for start in range(0, len(history.names), USERS_PER_EVENT):
        key = import_key(digest, f"u{start}")
        part = range(start, min(len(history.names), start + USERS_PER_EVENT))
        new = [history.names[code] for code in part if present[code] and history.names[code] not in state.rows]
        if new and key not in known:
            yield _draft(ImportedRewards(join=new), key), 0.0
    rows = np.array([state.rows.get(name, -1) for name in history.names], dtype=np.int64)
    versions = np.array([state.arms.get(arm, -1) for arm in history.arm], dtype=np.int64)
    for start in range(0, total, REWARDS_PER_EVENT):
        key = import_key(digest, str(start))
        kept = start + np.flatnonzero(history.kept[start : start + REWARDS_PER_EVENT])
        if key in known or not len(kept):
            continue
        propensity = None if history.propensity is None else history.propensity[kept].tolist()
        body = ImportedRewards(
            users=rows[history.user[kept]].tolist(),
            versions=versions[history.item[kept]].tolist(),
            values=history.reward[kept].tolist(),
            times=None if history.time is None else history.time[kept].tolist(),
            propensities=None if propensity is None else [None if value != value else value for value in propensity],
            context={name: [column[row] for row in kept] for name, column in history.context.items()} or None,
        )
        yield _draft(body, key), min(1.0, (start + REWARDS_PER_EVENT) / total)


def _draft(body: ImportedRewards, key: str) -> Draft:
    return Draft(EventKind.IMPORTED, time.time_ns() // 1000, body.encoded(), key)
