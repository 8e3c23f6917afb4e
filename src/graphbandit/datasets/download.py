"""Downloads of archives by pooch, checked by SHA-256 or, where none is known, by the checksums inside the zip."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from .dataset_files import DatasetError
from .source import Source

CHUNK = 1 << 16
TIMEOUT = 10
"""Seconds to wait for a connection, and for the next bytes."""
ByteProgress = Callable[[int, int | None], None]
"""`progress(bytes done, all bytes)`; None if the server does not send the number."""


class UnreachableServer(DatasetError):
    """The server of a data set does not answer: most likely there is no network."""


class ByteCount:
    """A progress bar with the interface that pooch expects; it calls `show`."""

    total = 0

    def __init__(self, show: ByteProgress) -> None:
        self.show, self.done = show, 0

    def update(self, size: int) -> None:
        """Add to the bytes that have arrived; the last chunk may be shorter than pooch says."""
        self.done = min(self.done + size, self.total or self.done + size)
        self.show(self.done, self.total or None)

    def reset(self) -> None:
        """Begin again, as pooch does before it reports the end."""
        self.done = 0

    def close(self) -> None:
        """Do nothing: the caller ends the bar."""


def download(source: Source, folder: Path, *, progress: ByteProgress | None = None) -> Path:
    """Download the official archive into `folder`, unless it is there already, and return its path.

    A file that is incomplete or wrong is removed.
    """
    if source.url is None:
        raise DatasetError(f"{source.name} cannot be fetched. {source.how_to_get()}")
    target = folder / source.archives[0]
    if target.exists():
        return target
    import pooch  # slow to import
    import requests

    pooch.get_logger().setLevel("WARNING")
    fetch = pooch.HTTPDownloader(progressbar=ByteCount(progress) if progress else False, chunk_size=CHUNK, timeout=TIMEOUT)
    try:
        pooch.retrieve(source.url, source.sha256, target.name, folder, downloader=fetch)
        if source.sha256 is None:
            check_zip(target)
    except requests.HTTPError as error:
        raise DatasetError(f"{source.url} cannot be fetched: {error}.") from None
    except requests.exceptions.ChunkedEncodingError as error:
        raise DatasetError(f"{source.url} was interrupted ({error}). Try again.") from None
    except (requests.ConnectionError, requests.Timeout) as error:
        host = urlsplit(source.url).netloc
        raise UnreachableServer(f"{host} cannot be reached ({type(error).__name__}): is there a network?") from None
    except ValueError as error:
        raise DatasetError(f"{target.name} from {source.url} is wrong or incomplete: {error} It was removed.") from None
    return target


def check_zip(path: Path) -> None:
    """Delete the file and raise a ValueError unless it is a whole zip archive."""
    try:
        with zipfile.ZipFile(path) as archive:
            bad = archive.testzip()
        problem = f"its member {bad} is damaged." if bad else ""
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        problem = f"it is not a zip archive ({error})."
    if problem:
        path.unlink()
        raise ValueError(problem)
