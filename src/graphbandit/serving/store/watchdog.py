"""A deadline for queries to a database server that hangs.

A server that has stopped still holds its end of the connection: neither its own timeout for statements nor
TCP notices. So the connection is shut down on our side, and the query that waits on it fails.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

INTERVAL = 0.2  # seconds between two looks


class Watchdog:
    """Shuts down connections on which a query takes too long; may be used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._deadlines: dict[object, tuple[float, Any]] = {}  # by query: when it must have ended, and its connection
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None

    @contextmanager
    def limit(self, connection: Any, seconds: float) -> Iterator[None]:
        """Give what happens inside so many seconds. `connection` has a method `fileno`."""
        query = object()
        with self._lock:
            self._deadlines[query] = (time.monotonic() + seconds, connection)
            if self._thread is None:
                self._is_over.clear()
                self._thread = threading.Thread(target=self._run, name="graphbandit-watchdog", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                self._deadlines.pop(query, None)

    def stop(self) -> None:
        """End the thread."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._is_over.set()
            thread.join()

    def _run(self) -> None:
        while not self._is_over.wait(INTERVAL):
            now = time.monotonic()
            with self._lock:
                for query, (end, connection) in list(self._deadlines.items()):
                    if now > end:
                        del self._deadlines[query]
                        shut_down(connection)


def shut_down(connection: Any) -> None:
    """Shut down the socket of a connection, so that whoever waits for it goes on with an error."""
    try:
        with socket.socket(fileno=os.dup(connection.fileno())) as twin:
            twin.shutdown(socket.SHUT_RDWR)
    except Exception:  # closed already, which the driver reports in its own way
        pass
