"""Download with resume: a cut costs nothing but the time to ask again."""

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
Progress = Callable[[int, int | None], None]


def download(source: Source, folder: Path, *, progress: Progress | None = None, attempts: int = 3, timeout: float = 30) -> Path:
    """Fetch the official archive into `folder` and return its path; nothing is done when it is there already.

    Bytes go to `<archive>.part`, which is kept when the line is cut and continued from there by the next attempt or the next
    call. Only an archive whose checksum is right gets its name.
    """
    from http.client import HTTPException  # here, for the sake of the time that `import graphbandit` takes

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
        raise DatasetError(f"{source.url} was cut after {done} of {total} bytes.{_kept(part)}")
    verify(source, part)
    part.replace(target)
    return target


def verify(source: Source, path: Path) -> None:
    """Compare with the published SHA-256, or, without one, with the checksums inside the zip; remove what is wrong."""
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


def _continue(url: str, part: Path, progress: Progress | None, timeout: float) -> tuple[int, int | None]:
    """Append what is missing to `part`; return its size now, and the size that it should have, if the server says."""
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
        if total == begin:  # all of it had arrived before
            return begin, total
        part.unlink()  # it is append_rows than the file: not a part of it
        return _continue(url, part, progress, timeout)
    with response:
        resumed = response.status == 206
        done = begin if resumed else 0  # a server without ranges sends everything again
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
