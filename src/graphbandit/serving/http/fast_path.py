"""The short way of a request: from the bytes of a connection to a decision and back, below ASGI.

Recommendations and rewards are small, whole and many. For those this protocol does in a few steps what the way through the
framework does in many; whatever is unusual about a request, it leaves to uvicorn, in whose protocol it lives.
"""

from __future__ import annotations

import re
import time
from functools import lru_cache
from http import HTTPStatus
from typing import Any, NamedTuple

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from .guard import Guard
from .responses import Answer, Quick

LARGEST = 2**16  # bytes of a body that goes the short way
HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?)?[ \t]*")
UNUSUAL = {b"transfer-encoding", b"expect", b"upgrade", b"connection", b"te", b"trailer"}
STATUS = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}


class Head(NamedTuple):
    """A request up to its body."""

    path: str
    headers: dict[bytes, bytes]
    length: int  # of the body


@lru_cache(1000)
def plain_head(raw: bytes) -> Head | None:
    """What a head says, if nothing about it is unusual. Clients repeat themselves, hence the cache.

    >>> plain_head(b"POST /v1/rewards HTTP/1.1\\r\\nHost: x\\r\\nContent-Length: 7")
    Head(path='/v1/rewards', headers={b'host': b'x', b'content-length': b'7'}, length=7)
    >>> plain_head(b"POST /v1/rewards HTTP/1.1\\r\\nHost: x\\r\\nTransfer-Encoding: chunked")
    """
    first, *lines = raw.split(b"\r\n")
    method, _, rest = first.partition(b" ")
    path, _, version = rest.partition(b" ")
    headers: dict[bytes, bytes] = {}
    for line in lines:
        match = HEADER.fullmatch(line)
        name = match[1].lower() if match else b""
        value = (match[2] or b"") if match else b""
        if name == b"connection" and value.lower() == b"keep-alive":
            continue
        if not name or name in headers or name in UNUSUAL:
            return None
        headers[name] = value
    length = headers.get(b"content-length", b"")
    if method != b"POST" or version != b"HTTP/1.1" or not path.isascii() or b"host" not in headers:
        return None
    if not 0 < len(length) < 10 or not length.isdigit() or int(length) > LARGEST:
        return None
    return Head(path.decode(), headers, int(length))


class Wire(HttpToolsProtocol):
    """uvicorn's protocol with a short way. One request of a connection is under way at a time."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        guard = self.config.app
        assert isinstance(guard, Guard)
        self._guard = guard
        self._is_inside = False  # whether uvicorn's parser is in the middle of a request
        self._is_under_way = False  # whether a request has gone the short way and is not answered
        self._is_last = False  # whether to close the connection after the answer
        self._rest = b""  # what has arrived of the next request

    def data_received(self, data: bytes) -> None:
        """Bytes from the client."""
        if self._rest:
            data, self._rest = self._rest + data, b""
        if self._is_under_way:  # a client that does not wait for the answer
            self._rest = data
            self.flow.pause_reading()
        elif self._is_inside or (self.cycle is not None and not self.cycle.response_complete) or not self._take(data):
            super().data_received(data)

    def _take(self, data: bytes) -> bool:
        """Whether the data go the short way: a plain request for which there is one, of which a part may be to come."""
        end = data.find(b"\r\n\r\n")
        head = plain_head(data[:end]) if 0 < end < 4096 else None
        quick = None if head is None else self._guard.quick.get(head.path)
        if head is None or quick is None or self.flow.write_paused:
            return False
        self._unset_keepalive_if_required()
        size = end + 4 + head.length
        if len(data) < size:
            self._rest = data
            return True
        if len(data) > size:
            self._rest = data[size:]
            self.flow.pause_reading()
        self._answer(head, quick, data[end + 4 : size])
        return True

    def _answer(self, head: Head, quick: Quick, body: bytes) -> None:
        start = time.perf_counter()
        self._is_under_way = True

        def send(answer: Answer) -> None:
            self._guard.note(head.path, "POST", answer.status, start)
            self._is_under_way = False
            if not self.transport.is_closing():
                self._send(answer)

        refusal = self._guard.refusal(head.path, head.headers)
        if refusal is None:
            quick(head.headers.get(b"content-type", b""), body, send)
        else:
            send(refusal)

    def _send(self, answer: Answer) -> None:
        lines = [STATUS[answer.status]]
        lines += [b"%s: %s\r\n" % pair for pair in self.server_state.default_headers]
        lines.append(b"content-type: application/json\r\ncontent-length: %d\r\n" % len(answer.body))
        lines += [f"{name}: {value}\r\n".encode() for name, value in answer.headers.items()]
        if self._is_last:
            lines.append(b"connection: close\r\n")
        self.transport.write(b"".join([*lines, b"\r\n", answer.body]))
        if self._is_last or answer.headers.get("connection") == "close":
            self.transport.close()
        self.on_response_complete()
        if self._rest:
            self.loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        """With what has arrived meanwhile, unless more of it has come and was taken in before us."""
        if self._rest and not self._is_under_way and not self.transport.is_closing():
            self.data_received(b"")

    def shutdown(self) -> None:
        """Called when the server stops: what is under way is answered first."""
        if self._is_under_way:
            self._is_last = True
        else:
            super().shutdown()

    # uvicorn's parser says where it is.

    def on_message_begin(self) -> None:
        """A request begins."""
        self._is_inside = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Its head has ended. After one that asks for another protocol the parser takes its body for the next request."""
        super().on_headers_complete()
        if self.parser.should_upgrade():
            self.cycle.keep_alive = False

    def on_message_complete(self) -> None:
        """It has ended."""
        self._is_inside = False
        super().on_message_complete()
