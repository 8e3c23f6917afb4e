"""Downloads that are checked, and resumed after an interruption.

The partial file is kept on purpose, so this is not an atomic write of `storage.atomic`. The usual
library, pooch, begins again after a broken connection, and would bring requests with it.
"""

from __future__ import annotations

import hashlib
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
TIMEOUT = 10
"""Seconds to wait for a connection, and for the next bytes."""
ByteProgress = Callable[[int, int | None], None]
"""`progress(bytes done, bytes in all)`; None if the server does not say how many."""


class UnreachableServer(DatasetError):
    """The server of a data set does not answer: most likely there is no network."""


def download(source: Source, folder: Path, *, progress: ByteProgress | None = None) -> Path:
    """Download the official archive into `folder`, unless it is there already, and return its path.

    Bytes go to `<archive>.part`. A broken connection is opened again as long as each one brings
    more bytes. The part is kept, and the next call continues it. It gets its final name when its
    checksum is right.
    """
    if source.url is None:
        raise DatasetError(f"{source.name} cannot be fetched. {source.how_to_get()}")
    target = folder / source.archives[0]
    if target.exists():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.part")
    size = -1
    while not _append_rest(source.url, part, progress):
        before, size = size, part.stat().st_size if part.exists() else 0
        if size <= before:
            raise DatasetError(f"{source.url} was interrupted. {size} bytes are kept: the next attempt continues there.")
    verify(source, part)
    part.replace(target)
    return target


def verify(source: Source, path: Path) -> None:
    """Check the known SHA-256 or, if there is none, the checksums inside the zip; delete a wrong
    file and raise.
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


def _append_rest(url: str, part: Path, progress: ByteProgress | None) -> bool:
    """Append the missing bytes to `part`; return whether the file is complete."""
    import urllib.error  # slow to import
    import urllib.request
    from http.client import HTTPException

    begin = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={begin}-"} if begin else {})
    try:
        response: HTTPResponse = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416 and begin:  # nothing follows the part: it is complete, or `verify` removes it
            return True
        raise DatasetError(f"{url} cannot be fetched: {error}.") from None
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise UnreachableServer(f"{request.host} cannot be reached ({getattr(reason, 'strerror', None) or reason}).") from None
    # A server without range requests answers 200 and sends the whole file.
    with response, part.open("ab" if response.status == 206 else "wb") as file:
        length = response.headers.get("Content-Length")
        total = file.tell() + int(length) if length else None
        while True:
            try:
                chunk = response.read(CHUNK)
            except (OSError, HTTPException):  # a time-out, a reset connection, an incomplete chunk
                return False
            if not chunk:
                return total is None or file.tell() == total
            file.write(chunk)
            if progress is not None:
                progress(file.tell(), total)
