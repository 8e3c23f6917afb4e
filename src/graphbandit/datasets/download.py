"""Downloads that are resumed after an interruption.

The partial file is kept on purpose, so this is not an atomic write of `storage.atomic`.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from .dataset_files import DatasetError
from .source import Source

if TYPE_CHECKING:
    from http.client import HTTPResponse

CHUNK = 1 << 16
ByteProgress = Callable[[int, int | None], None]
"""`progress(bytes done, bytes in all)`; None if the server does not say how many."""


def download(
    source: Source, folder: Path, *, progress: ByteProgress | None = None, attempts: int = 3, timeout: float = 30
) -> Path:
    """Download the official archive into `folder`, unless it is there already, and return its path.

    Bytes go to `<archive>.part`. After an interruption that file is kept, and the next attempt or
    the next call continues it. The file is renamed to its final name when its checksum is right.
    """
    from http.client import HTTPException  # slow to import

    if source.url is None:
        raise DatasetError(f"{source.name} cannot be fetched. {source.how_to_get()}")
    target = folder / source.archives[0]
    if target.exists():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.part")
    for attempt in range(1, attempts + 1):
        try:
            done, total = _continue(source.url, part, progress, timeout)
        except (OSError, HTTPException) as error:  # URLError, HTTPError, a time-out, a reset connection
            refused = 400 <= getattr(error, "code", 0) < 500
            if attempt == attempts or refused:
                raise DatasetError(f"{source.url} cannot be fetched: {error}.{_kept(part)}") from None
            continue
        if total is None or done == total:
            break
    else:
        raise DatasetError(f"{source.url} was interrupted after {done} of {total} bytes.{_kept(part)}")
    verify(source, part)
    part.replace(target)
    return target


def verify(source: Source, path: Path) -> None:
    """Check the published SHA-256 or, if there is none, the checksums inside the zip; delete a
    wrong file and raise.
    """
    if source.sha256 is not None:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        problem = "" if found == source.sha256 else f"its SHA-256 is {found}, and should be {source.sha256}"
    else:
        try:
            with zipfile.ZipFile(path) as archive:
                bad = archive.testzip()
            problem = f"its member {bad} is damaged" if bad else ""
        except (zipfile.BadZipFile, zlib.error, EOFError) as error:
            problem = f"it is not a zip archive ({error})"
    if problem:
        path.unlink()
        raise DatasetError(f"{source.archives[0]} from {source.url} is not what it should be: {problem}. It was removed.")


def _continue(url: str, part: Path, progress: ByteProgress | None, timeout: float) -> tuple[int, int | None]:
    """Append the missing bytes to `part`; return its size, and the size of the whole file if the
    server says it.
    """
    import urllib.error
    import urllib.request

    begin = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={begin}-"} if begin else {})
    try:
        response: HTTPResponse = urllib.request.urlopen(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code != 416:
            raise
        total = _total(error.headers.get("Content-Range"))
        if total == begin:  # the file was complete
            return begin, total
        part.unlink()  # it is longer than the file, so it is not a part of it
        return _continue(url, part, progress, timeout)
    with response:
        resumed = response.status == 206
        done = begin if resumed else 0  # a server without range requests sends the whole file
        length = response.headers.get("Content-Length")
        total = _total(response.headers.get("Content-Range")) if resumed else int(length) if length else None
        with part.open("r+b" if resumed else "wb") as file:
            file.seek(done)
            while chunk := response.read(CHUNK):
                file.write(chunk)
                done += len(chunk)
                if progress is not None:
                    progress(done, total)
            file.flush()
            os.fsync(file.fileno())
    return done, total


def _total(content_range: str | None) -> int | None:
    """The 900 of `bytes 100-899/900` or `bytes */900`."""
    size = (content_range or "").rpartition("/")[2]
    return int(size) if size.isdigit() else None


def _kept(part: Path) -> str:
    return f" {part.stat().st_size} bytes are kept: the next attempt continues there." if part.exists() else ""
