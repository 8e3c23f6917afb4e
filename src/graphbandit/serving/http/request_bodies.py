"""Bodies of requests: when the application has enough for now, where chunked ones end, and how small
their chunks may be."""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.http.flow_control import FlowControl

SLICE = 2**16  # bytes of a body that the parser gets at a time
CHUNKED_SLICE = 2**13  # fewer, since every chunk costs as much as many bytes
FREE_CHUNKS = 1000  # may be as small as they like
SMALLEST_CHUNK = 64  # bytes, on average, of more chunks than these
CHUNKS_A_TURN = 200  # then others have their turn


class BodyFlow(FlowControl):
    """uvicorn's flow control of bodies. It does not touch the transport: bytes wait in the buffer of the
    connection, which decides whether to read on."""

    def __init__(self, transport: Any, resumed: Any) -> None:
        super().__init__(transport)
        self._resumed = resumed

    def pause_reading(self) -> None:
        """The application has enough of the body for now."""
        self.read_paused = True

    def resume_reading(self) -> None:
        """The application wants more."""
        self.read_paused = False
        self._resumed()


def are_too_small(chunks: int, size: int) -> bool:
    """Whether a body has come in so many chunks that they cost more than their bytes are worth.

    >>> are_too_small(1000, 1000), are_too_small(1001, 1001), are_too_small(5000, 5000 * 64)
    (False, True, False)
    """
    return chunks > FREE_CHUNKS and size < chunks * SMALLEST_CHUNK


def chunked_part(data: bytearray) -> int:
    """How many bytes may belong to a chunked body, which ends with an empty line. The beginning of
    one at the end is left for later.

    >>> [chunked_part(bytearray(part)) for part in (b"0\\r\\n\\r\\nGET /", b"5\\r\\nhello\\r\\n", b"\\r\\n\\r")]
    [5, 8, 0]
    """
    end = data.find(b"\r\n\r\n", 0, CHUNKED_SLICE)
    if end >= 0:
        return end + 4
    size = min(len(data), CHUNKED_SLICE)
    return size - next((n for n in (3, 2, 1) if data[:size].endswith(b"\r\n\r"[:n])), 0)
