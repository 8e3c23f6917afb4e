"""The fast path: takes recommendations and rewards from the bytes of a connection to their
handlers, below ASGI.

Such requests are small and many, and the framework would take longer than the decision. A request
that is unusual in any way is left to uvicorn, whose protocol class this one extends. Both ways have
the same limits: a connection has one request at a time, and what comes behind it waits here, in a
buffer of limited size.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from .connection_limits import Connection
from .guard import KNOWN, Guard
from .request_heads import LARGEST_FAST_HEAD, SLICE, RequestHead, chunked_part, parse_head, without_upgrade
from .responses import Handler, HttpResponse, problem

STATUS = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}
IDLE, HEAD, BODY, HELD, BUSY = range(5)
"""What a connection is at: between requests; in a head; in a body; a request waits its turn; one is
being handled."""
SLICES = 100  # at a time; then others have their turn
OVERHEAD = 16  # a chunked body may be sent in so many times its size
SENTENCES = {
    "head": "the head of the request took too long.",
    "body": "the body of the request took too long.",
}


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


class FastPathProtocol(HttpToolsProtocol):
    """uvicorn's protocol with a fast path and with limits. One request of a connection is handled at
    a time."""

    line: OrderedDict[Connection, None]

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        guard = self.config.app
        assert isinstance(guard, Guard)
        self._guard, self._connections = guard, guard.connections
        self._limits = guard.connections.settings
        self._input = bytearray()  # what has arrived and is not dealt with
        self._searched = 0  # bytes of it in which no head ends
        self._needed = 0  # length of the request that is waited for
        self._phase, self._since = IDLE, self.loop.time()
        self._is_parsing = False  # whether uvicorn's parser is in the middle of a request
        self._body_left: int | None = 0  # bytes that the parser has not got; None if nobody knows
        self._body_size = 0  # bytes that it has
        self._bodyless = 0  # bytes since it found the last piece of a body: trailers, for example
        self._is_stranger = True  # whether no token has been shown
        self._is_new = True  # whether no request has been answered
        self._is_last = False  # whether to close the connection after the response
        self._has_ended = False  # whether the client will send nothing more
        self._is_paused = False  # whether the transport is not to read
        self._unread_since: float | None = None  # since when answers pile up
        self._closing_since: float | None = None

    # Called by the transport.

    def connection_made(self, transport: Any) -> None:
        """A client has connected."""
        super().connection_made(transport)
        self.flow = BodyFlow(transport, self._soon)
        if not self._connections.admit(self, self.client[0] if self.client else ""):
            self._refuse(503, "connection", "there are too many connections.", {"retry-after": "1"})

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        self._connections.forget(self)
        self._input.clear()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take bytes from the client."""
        if self._phase == IDLE and not self._input and not (self._is_stranger or self.flow.write_paused):
            used = self._take(data)
            if used == len(data):
                return
            data = data[used:]
        self._input += data
        self._advance()

    def eof_received(self) -> bool:  # type: ignore[override]
        """The client will send nothing more; it may still wait for answers."""
        self._has_ended = True
        return self._phase >= HELD or bool(self._input and (self._phase == IDLE or self.flow.write_paused))

    def pause_writing(self) -> None:
        """The client does not read its answers."""
        super().pause_writing()
        self._unread_since = self.loop.time()

    def resume_writing(self) -> None:
        """The client has read its answers."""
        super().resume_writing()
        self._unread_since = None
        self._soon()

    # Bytes become requests.

    def _take(self, data: bytes) -> int:
        """Handle a request if it is whole and goes the fast path; how many bytes it has, or 0."""
        end = data.find(b"\r\n\r\n", 0, LARGEST_FAST_HEAD)
        head = parse_head(data[:end]) if end > 0 else None
        handler = None if head is None else self._guard.fast_handlers.get(head.path)
        if head is None or handler is None:
            return 0
        size = end + 4 + head.length
        if len(data) < size:
            return 0
        self.handle(head, handler, data[end + 4 : size])
        return size

    def _soon(self) -> None:
        self.loop.call_soon(self._advance)

    def _advance(self) -> None:
        """Deal with what has arrived, as far as possible now."""
        is_closing, slices = self.transport.is_closing, 0
        while self._input and not self.flow.write_paused and not is_closing():
            if self._is_parsing:
                if self.flow.read_paused or slices == SLICES or not self._feed_body():
                    break
                slices += 1
            elif self._phase >= HELD or not self._begin():
                break
        if is_closing():
            return
        can_go_on = self._input and (self._phase == IDLE or slices == SLICES or self.flow.read_paused)
        if self._has_ended and self._phase < HELD and not self.flow.write_paused and not can_go_on:
            self.transport.close()  # what was begun cannot be completed
            return
        if slices == SLICES:
            self._soon()
        # Between two requests the next one has its turn soon; to read now would be to read faster than to answer.
        is_stuck = self._phase in (IDLE, HELD, BUSY) or self.flow.write_paused or self.flow.read_paused or slices == SLICES
        is_full = is_stuck and len(self._input) > (0 if self._is_stranger else self._limits.largest_backlog)
        if is_full != self._is_paused:
            self._is_paused = is_full
            self.transport.pause_reading() if is_full else self.transport.resume_reading()

    def _begin(self) -> bool:
        """Begin with the next request; whether its body can be read now."""
        data, limits = self._input, self._limits
        if self._phase == IDLE:
            if data[0] in b"\r\n":  # empty lines before a request are ignored
                del data[: len(data) - len(data.lstrip(b"\r\n"))]
                if not data:
                    return False
            self._phase, self._since = HEAD, self.loop.time()
        if len(data) < self._needed:
            return False
        end = data.find(b"\r\n\r\n", max(0, self._searched - 3), limits.largest_head + 4)
        if end < 0:
            self._searched = len(data)
            if len(data) >= limits.largest_head + 4:
                self._too_large(f"the head of a request must not be larger than {limits.largest_head} bytes.")
            return False
        raw = bytes(data[:end])
        if raw.count(b"\r\n") > limits.most_headers:
            self._too_large(f"a request must not have more than {limits.most_headers} headers.")
            return False
        raw = without_upgrade(raw)
        head = parse_head(raw) if len(raw) < LARGEST_FAST_HEAD else None
        handler = None if head is None else self._guard.fast_handlers.get(head.path)
        size = end + 4 + (0 if head is None or handler is None else head.length)
        if len(data) < size:
            if self._phase != BODY:
                self._phase, self._since = BODY, self.loop.time()
            self._searched, self._needed = end, size
            return False
        if self._is_stranger and self._must_wait():
            return False
        body = bytes(data[end + 4 : size])
        del data[:size]
        self._searched = self._needed = 0
        if head is not None and handler is not None:
            self.handle(head, handler, body)
            return False
        super().data_received(raw + b"\r\n\r\n")
        return self._is_parsing

    def _must_wait(self) -> bool:
        """Whether a request has to wait its turn, since the address has made many without a token.
        The first of a connection, which may show one, does not."""
        budget = self._connections.budget(self)
        wait = budget.wait() if budget is not None and not self._is_new else 0.0
        if wait:
            self._phase, self._is_new = HELD, True  # once is enough
            self.loop.call_later(wait, self._end_wait)
        return wait > 0

    def _end_wait(self) -> None:
        if self._phase == HELD:
            self._phase, self._since = HEAD, self.loop.time()
            self._advance()

    def _feed_body(self) -> bool:
        """Give the parser a part of the body, and never a byte of what follows it; False if more has to
        arrive first."""
        left = self._body_left
        size = chunked_part(self._input) if left is None else min(left, SLICE, len(self._input))
        if not size:
            return False
        piece = bytes(self._input[:size])
        del self._input[:size]
        self._body_size += size
        self._bodyless += size
        if left is not None:
            self._body_left = left - size
        super().data_received(piece)
        if self._body_size > OVERHEAD * self._limits.largest_body or self._bodyless > self._limits.largest_head:
            self.transport.abort()
        return True

    # Requests become responses.

    def handle(self, head: RequestHead, handler: Handler, body: bytes) -> None:
        """Check, handle and answer one request of the fast path."""
        start, traces = time.perf_counter(), self._guard.traces
        span = None if traces is None else traces.begin("POST", head.path, head.headers)
        self._phase = BUSY

        def send(response: HttpResponse) -> None:
            self._guard.record(head.path, "POST", response.status, start)
            if traces is not None:
                traces.end(span, response.status)
            if not self.transport.is_closing():
                self._send(response)
                self.on_response_complete()

        refusal = self._guard.refusal("POST", head.path, head.headers)
        if refusal is None and self._is_stranger:
            self._recognise()
        if refusal is None and traces is not None:
            with traces.within(span):
                handler(head.headers.get(b"content-type", b""), body, send)
        elif refusal is None:
            handler(head.headers.get(b"content-type", b""), body, send)
        else:
            send(refusal)

    def _recognise(self) -> None:
        self._is_stranger = False
        self._connections.recognise(self)

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

    def _refuse(self, status: int, field: str, message: str, headers: dict[str, str] | None = None) -> None:
        """Answer without a request, and close the connection."""
        self._guard.stats.count_request("other", status, 0.0)
        self._is_last = True
        self._send(problem(status, field, message, "refused", headers))

    def _too_large(self, message: str) -> None:
        self._connections.log.note("head_size", "heads of requests are too large", self.client[0] if self.client else "")
        self._refuse(431, "head", message)

    def _next(self) -> None:
        """A request is over: its response is on its way, and its bytes have been read."""
        if self.transport.is_closing():
            return
        if self._is_last:
            self.transport.close()
            return
        self._phase, self._since, self._is_new = IDLE, self.loop.time(), False
        self.line.move_to_end(self)
        if self._input or self._is_paused or self._has_ended:
            self._soon()

    # Called by uvicorn's parser and by its requests.

    def on_message_begin(self) -> None:
        """A request begins."""
        self._is_parsing = True
        self._phase, self._since = BODY, self.loop.time()
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or one of the trailers, which come after the body."""
        if len(self.headers) > self._limits.most_headers:
            self.transport.abort()
        else:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The head of a request has ended. If it asks for another protocol, the connection is
        closed after the response: the parser would take its body for the next request."""
        headers = dict(self.headers)
        length = headers.get(b"content-length", b"0")
        self._body_left = None if b"transfer-encoding" in headers else int(length) if length.isdigit() else 0
        self._body_size = self._bodyless = 0
        super().on_headers_complete()
        if self.parser.should_upgrade() or self._is_last:
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """A piece of a body."""
        self._bodyless = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """A request has ended."""
        self._is_parsing = False
        super().on_message_complete()
        if self.cycle.response_complete:
            self._next()
        else:
            self._phase = BUSY

    def on_response_complete(self) -> None:
        """A response has been written."""
        if self._phase == BUSY and not self.pipeline:  # the usual case, without a timer of uvicorn's
            self.server_state.total_requests += 1
            self.flow.read_paused = False
        else:
            super().on_response_complete()
            self._unset_keepalive_if_required()
        if self._is_stranger and self.cycle is not None and KNOWN in self.cycle.scope:
            self._recognise()
        if not self._is_parsing and (self.cycle is None or self.cycle.response_complete):
            self._next()

    # Called by the registry of connections and by the server.

    @property
    def is_waiting(self) -> bool:
        """Whether the client has to do something, so that nothing is lost when it is closed."""
        return self._phase != BUSY

    def overdue(self, now: float) -> str | None:
        """Why the client has been waited for too long; None if it has not."""
        limits = self._limits
        if self.transport.is_closing():
            self._closing_since = self._closing_since or now
            return "unread" if now - self._closing_since > limits.unread_deadline else None
        if self._unread_since is not None:
            return "unread" if now - self._unread_since > limits.unread_deadline else None
        waited = now - self._since
        if self._phase == IDLE:
            most = min(limits.head_deadline, limits.keep_alive) if self._is_stranger else limits.keep_alive
            return "idle" if waited > most else None
        if self._phase == HEAD:
            return "head" if waited > limits.head_deadline else None
        return "body" if self._phase == BODY and waited > limits.body_deadline else None

    def give_up(self, reason: str) -> None:
        """Close the connection, with a sentence if a request was begun."""
        is_begun = self._is_parsing and self.cycle is not None and self.cycle.response_started
        if reason in SENTENCES and not is_begun:
            self._refuse(408, "request", SENTENCES[reason])
        elif reason == "idle":
            self.transport.close()
        else:
            self.transport.abort()

    def shutdown(self) -> None:
        """The server stops: a request that has been begun is answered first."""
        self._is_last = True
        if self._phase not in (BODY, BUSY):
            self.transport.close()
        elif self.cycle is not None:
            self.cycle.keep_alive = False
