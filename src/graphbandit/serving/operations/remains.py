"""Where the name of a person still occurs after they were forgotten: what was not erased is said."""

from __future__ import annotations

import json
import mmap
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from pydantic_core import from_json

from ..domain.erasure import mentions
from ..domain.events import encode
from ..domain.initial_state import InitialState
from ..store.database import sqlite_path
from ..store.event_store import EventStore

MOST_EXAMPLES = 5
"""Events that are named when many have the name."""
SHORTEST = 5
"""Bytes of a name that does not occur by chance in compressed or binary data."""


def replaced_files(url: str) -> list[Path]:
    """What `restore` has kept of a SQLite store, with write-ahead logs."""
    path = sqlite_path(url)
    return [] if path is None else sorted(path.parent.glob(f"{path.name}.replaced-*"))


def remains(store: EventStore, initial: InitialState, url: str, name: str, folders: Iterable[Path]) -> list[str]:
    """Sentences that say where a name still occurs, as a whole word: in events, in the initial state, in bytes of files.

    Events are read as well as files: in an archive they are compressed.
    """
    written = encode(name)[1:-1]  # as JSON has it; few bodies have it, and only those are parsed
    bodies = ((event.seq, event.body) for page in store.read() for event in page if written in event.body)
    found = [seq for seq, body in bodies if any(mentions(text, name) for text in _texts(from_json(body)))]
    said = []
    if found:
        some = ", ".join(map(str, found[:MOST_EXAMPLES])) + (", …" if len(found) > MOST_EXAMPLES else "")
        said.append(f"{name!r} still occurs in {len(found)} events that are not about them ({some}).")
    pattern = _in_bytes(name)
    if pattern.search(initial.to_bytes()):
        said.append(f"{name!r} still occurs in the initial state, in the name of an arm or of somebody else, for example.")
    path = sqlite_path(url)
    files = [] if path is None else [path, path.with_name(f"{path.name}-wal")]
    files += [file for folder in folders for file in sorted(folder.rglob("*"))]
    for file in (*files, *replaced_files(url)):
        if file.is_file() and _holds(file, pattern):
            said.append(f"{name!r} still occurs in the bytes of {file}.")
    return said


def _texts(value: object) -> Iterator[str]:
    """All texts in JSON. Numbers are none: people may be called 17."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from value
        yield from _texts(list(value.values()))
    elif isinstance(value, list):
        for entry in value:
            yield from _texts(entry)


def _in_bytes(name: str) -> re.Pattern[bytes]:
    """A name as files may hold it: as UTF-8, escaped in JSON, and in arrays of NumPy, four bytes a character.

    Short names and numbers occur by chance, and are looked for in quotes only."""
    texts = {name.encode("utf-8", "surrogatepass"), encode(name)[1:-1].encode(), json.dumps(name)[1:-1].encode()}
    plain = b"|".join(re.escape(text) for text in sorted(texts))
    if len(min(texts, key=len)) < SHORTEST or not any(letter.isalpha() for letter in name):
        return re.compile(rb'"(?:%b)"' % plain)
    wide, word = re.escape(name.encode("utf-32-le", "surrogatepass")), rb"[0-9A-Za-z]"
    words = rb"(?<!%b)k?(?:%b)(?!%b)" % (word, plain, word)  # k: a key, as the store writes it
    return re.compile(rb"%b|(?<!%b\0\0\0)%b(?!%b\0\0\0)" % (words, word, wide, word))


def _holds(file: Path, pattern: re.Pattern[bytes]) -> bool:
    if not file.stat().st_size:
        return False  # and cannot be mapped
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return pattern.search(content) is not None
