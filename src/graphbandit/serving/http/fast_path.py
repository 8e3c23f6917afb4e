"""The fast path: takes recommendations and rewards from the bytes of a connection to their
handlers, below ASGI.

Such requests are small and many, and the framework would take longer than the decision. A request
that is unusual in any way is left to uvicorn, whose protocol class this one extends.
"""

from __future__ import annotations

import re
import time
from functools import lru_cache
from http import HTTPStatus
from typing import Any, NamedTuple

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from .guard import Guard
from .responses import Handler, HttpResponse

LARGEST_FAST_BODY = 2**16  # bytes
HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?)?[ \t]*")
UNUSUAL = {b"transfer-encoding", b"expect", b"upgrade", b"connection", b"te", b"trailer"}
OTHER_PROTOCOL = {b"upgrade", b"http2-settings"}
STATUS = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}


class RequestHead(NamedTuple):
    """Request line and headers."""

    path: str
    headers: dict[bytes, bytes]
    length: int  # of the body


@lru_cache(1000)
def parse_head(raw: bytes) -> RequestHead | None:
    """The head of a request; None if anything about it is unusual. Cached, since clients send the
    same head again and again.

    >>> parse_head(b"POST /v1/rewards HTTP/1.1\\r\\nHost: x\\r\\nContent-Length: 7")
    RequestHead(path='/v1/rewards', headers={b'host': b'x', b'content-length': b'7'}, length=7)
    >>> parse_head(b"POST /v1/rewards HTTP/1.1\\r\\nHost: x\\r\\nTransfer-Encoding: chunked")
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
    if not 0 < len(length) < 10 or not length.isdigit() or int(length) > LARGEST_FAST_BODY:
        return None
    return RequestHead(path.decode(), headers, int(length))


def without_upgrade(data: bytes) -> bytes:
    """A request without its wish for another protocol, which a server may ignore (RFC 9110, section 7.8).

    The JDK's client offers h2c with every first request. The parser would take the body for bytes of
    that protocol, and drop it.

    >>> without_upgrade(b"GET / HTTP/1.1\\r\\nConnection: Upgrade, close\\r\\nUpgrade: h2c\\r\\n\\r\\n")
    b'GET / HTTP/1.1\\r\\nConnection: close\\r\\n\\r\\n'
    """
    end = data.find(b"\r\n\r\n")
    if end < 0 or b"upgrade" not in data[:end].lower():
        return data
    kept = []
    for line in data[:end].split(b"\r\n"):
        name, colon, value = line.partition(b":")
        if colon and name.lower() in OTHER_PROTOCOL:
            continue
        if colon and name.lower() == b"connection":
            wishes = [wish.strip() for wish in value.split(b",")]
            left = [wish for wish in wishes if wish.lower() not in OTHER_PROTOCOL]
            if not left:
                continue
            line = name + b": " + b", ".join(left)
        kept.append(line)
    return b"\r\n".join(kept) + data[end:]


class FastPathProtocol(HttpToolsProtocol):
    """uvicorn's protocol with a fast path. One request of a connection is handled at a time."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        guard = self.config.app
        assert isinstance(guard, Guard)
        self._guard = guard
        self._is_parsing = False  # whether uvicorn's parser is in the middle of a request
        self._is_handling = False  # whether a request has taken the fast path and is not answered
        self._is_last = False  # whether to close the connection after the response
        self._rest = b""  # bytes of the next request

    def data_received(self, data: bytes) -> None:
        """Take bytes from the client."""
        if self._rest:
            data, self._rest = self._rest + data, b""
        if self._is_handling:  # the client does not wait for the response
            self._rest = data
            self.flow.pause_reading()
        elif self._is_parsing or (self.cycle is not None and not self.cycle.response_complete):
            super().data_received(data)
        else:
            data = without_upgrade(data)
            if not self.take(data):
                super().data_received(data)

    def take(self, data: bytes) -> bool:
        """Handle a request on the fast path, or keep the first part of one; False if uvicorn is to
        take the bytes."""
        end = data.find(b"\r\n\r\n")
        head = parse_head(data[:end]) if 0 < end < 4096 else None
        handler = None if head is None else self._guard.fast_handlers.get(head.path)
        if head is None or handler is None or self.flow.write_paused:
            return False
        self._unset_keepalive_if_required()
        size = end + 4 + head.length
        if len(data) < size:
            self._rest = data
            return True
        if len(data) > size:
            self._rest = data[size:]
            self.flow.pause_reading()
        self.handle(head, handler, data[end + 4 : size])
        return True

    def handle(self, head: RequestHead, handler: Handler, body: bytes) -> None:
        """Check, handle and answer one request."""
        start, traces = time.perf_counter(), self._guard.traces
        span = None if traces is None else traces.begin("POST", head.path, head.headers)
        self._is_handling = True

        def send(response: HttpResponse) -> None:
            self._guard.record(head.path, "POST", response.status, start)
            if traces is not None:
                traces.end(span, response.status)
            self._is_handling = False
            if not self.transport.is_closing():
                self._send(response)

        refusal = self._guard.refusal(head.path, head.headers)
        if refusal is None and traces is not None:
            with traces.within(span):
                handler(head.headers.get(b"content-type", b""), body, send)
        elif refusal is None:
            handler(head.headers.get(b"content-type", b""), body, send)
        else:
            send(refusal)

    def _send(self, response: HttpResponse) -> None:
        lines = [STATUS[response.status]]
        lines += [b"%s: %s\r\n" % pair for pair in self.server_state.default_headers]
        lines.append(b"content-type: application/json\r\ncontent-length: %d\r\n" % len(response.body))
        lines += [f"{name}: {value}\r\n".encode() for name, value in response.headers.items()]
        if self._is_last:
            lines.append(b"connection: close\r\n")
        self.transport.write(b"".join([*lines, b"\r\n", response.body]))
        if self._is_last or response.headers.get("connection") == "close":
            self.transport.close()
        self.on_response_complete()
        if self._rest:
            self.loop.call_soon(self._continue)

    def _continue(self) -> None:
        """Take the bytes that arrived meanwhile, unless `data_received` has been called before and
        took them."""
        if self._rest and not self._is_handling and not self.transport.is_closing():
            self.data_received(b"")

    def shutdown(self) -> None:
        """The server stops: a request that is being handled is answered first."""
        if self._is_handling:
            self._is_last = True
        else:
            super().shutdown()

    # Called by uvicorn's parser.

    def on_message_begin(self) -> None:
        """A request begins."""
        self._is_parsing = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The head of a request has ended. If it asks for another protocol, the connection is
        closed after the response: the parser would take its body for the next request."""
        super().on_headers_complete()
        if self.parser.should_upgrade():
            self.cycle.keep_alive = False

    def on_message_complete(self) -> None:
        """A request has ended."""
        self._is_parsing = False
        super().on_message_complete()
