"""A survey of a log before anything is learned: who is in it, which rows are bad, and what is out of order.

It reads every row once, so that a bad row is named at once and not after hours, and so that the
rows of a model are known before it is built.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..storage import cells
from .event_files import EventFiles, Piece
from .event_rows import bad_rows, times

UnknownNames = Callable[[Sequence[str]], list[str]]
"""Those of these names that are no user's."""


class PieceFacts(NamedTuple):
    """What a piece of a log is like."""

    rows: int  # that are not bad
    bad: int
    why: str  # what is wrong with the first bad row
    joining: list[str]  # users of other rows whom nobody knew, in order of appearance
    earliest: float = 0.0  # time, an int or a float
    latest: float = 0.0
    is_sorted: bool = True
    times: str = ""  # dates, integers or floats
    integer_users: bool = True
    lowest: float = np.inf  # reward
    highest: float = -np.inf


class Survey(NamedTuple):
    """What a log is like."""

    pieces: list[Piece]
    facts: list[PieceFacts]  # of each piece
    joining: list[str]  # users whom the graph does not have, in order of appearance

    @property
    def rows(self) -> int:
        """Rows to be learned."""
        return sum(facts.rows for facts in self.facts)

    @property
    def bad(self) -> int:
        """Rows that cannot be learned."""
        return sum(facts.bad for facts in self.facts)

    @property
    def why(self) -> str:
        """What is wrong with the first of these, with its place."""
        return next((facts.why for facts in self.facts if facts.bad), "")

    @property
    def float_times(self) -> bool:
        """Whether some times are no integers."""
        return any(facts.times == "floats" for facts in self.facts)

    @property
    def integer_users(self) -> bool:
        """Whether all users are integers."""
        return all(facts.integer_users for facts in self.facts)

    @property
    def reward_range(self) -> tuple[float, float]:
        """The lowest and the highest reward."""
        return min(facts.lowest for facts in self.facts), max(facts.highest for facts in self.facts)


def survey_piece(files: EventFiles, piece: Piece, unknown: UnknownNames, arms: Mapping[str, int]) -> PieceFacts:
    """Look through one piece of a log."""
    joining: dict[str, None] = {}
    rows = bad_count = 0
    why, kind, is_sorted, integers = "", "", True, True
    earliest: list[float] = []
    latest: list[float] = []
    lowest, highest = np.inf, -np.inf
    for _, table in files.batches(piece):
        bad = bad_rows(table, arms)
        if bad is not None:
            why, bad_count = why or bad.why, bad_count + int(bad.flags.sum())
            table = table.without(bad.flags)
        if not len(table):
            continue
        rows += len(table)
        joining |= dict.fromkeys(unknown(cells.ids_of(table.data.column("user"))[1]))
        integers = integers and table.is_integer("user")
        reward = cells.numbers_of(table.data.column("reward")).values
        lowest, highest = min(lowest, float(reward.min())), max(highest, float(reward.max()))
        if table.has("time"):
            values, found = times(table)
            if {kind, found} in ({"dates", "integers"}, {"dates", "floats"}):
                raise ValueError(_two_kinds(table.name, table.title("time"), kind, table.where(0), found))
            kind = "floats" if "floats" in (kind, found) else found
            is_sorted = is_sorted and bool((values[1:] >= values[:-1]).all()) and not (latest and values[0] < latest[-1])
            earliest.append(values.min().item())
            latest.append(values.max().item())
    ends = (min(earliest), max(latest)) if earliest else (0.0, 0.0)
    return PieceFacts(rows, bad_count, why, list(joining), *ends, is_sorted, kind, integers, lowest, highest)


def survey_of(files: EventFiles, facts: Sequence[PieceFacts]) -> Survey:
    """The survey of a log from those of its pieces, in their order; a ValueError if they do not fit together."""
    first = next((k for k, found in enumerate(facts) if found.times), None)
    for piece, found in zip(files.pieces, facts, strict=True):
        if first is not None and found.times and (found.times == "dates") != (facts[first].times == "dates"):
            path, other = files.paths[piece.file], files.paths[files.pieces[first].file]
            title = files.titles[piece.file]["time"]
            raise ValueError(_two_kinds(str(other), title, facts[first].times, str(path), found.times))
    joining = dict.fromkeys(name for found in facts for name in found.joining)
    return Survey(files.pieces, list(facts), list(joining))


def survey_log(files: EventFiles, known: set[str], arms: Mapping[str, int], hear: Callable[[PieceFacts, int], None]) -> Survey:
    """Look through a whole log; `known` are the users of the graph. `hear` is told of each piece, and rows so far."""
    seen = set(known)

    def unknown(names: Sequence[str]) -> list[str]:
        new = [name for name in names if name not in seen]
        seen.update(new)
        return new

    facts = []
    for piece in files.pieces:
        facts.append(survey_piece(files, piece, unknown, arms))
        hear(facts[-1], piece.number + piece.rows)
    return survey_of(files, facts)


def _two_kinds(one: str, title: str, kind: str, other: str, found: str) -> str:
    return f"{other}, column {title}: times are {found} here, but {kind} in {one}; they must be of one kind."
