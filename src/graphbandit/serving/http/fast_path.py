"""The fast path: takes recommendations and rewards from the bytes of a connection to their
handlers, below ASGI.

Such requests are small and many, and the framework would take longer than the decision. A request
that is unusual in any way is left to uvicorn, whose protocol class this one extends. Both ways have
the same limits: a connection has one request at a time, and what comes behind it waits here, in a
buffer of limited size.
"""

from __future__ import annotations

import time
from typing import Any

from .limited_protocol import BODY, BUSY, HEAD, HELD, IDLE, LEAVING, LimitedProtocol
from .request_bodies import CHUNKS_A_TURN, SLICE, BodyFlow, chunked_part
from .request_heads import LARGEST_FAST_HEAD, RequestHead, parse_head, without_upgrade
from .responses import Handler, HttpResponse

SLICES = 100  # at a time; then others have their turn
OVERHEAD = 16  # a chunked body may be sent in so many times its size


class FastPathProtocol(LimitedProtocol):
    """uvicorn's protocol with a fast path and with limits. One request of a connection is handled at
    a time."""

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
        if self._phase == LEAVING:
            self._dropped += len(data)
            if self._dropped > self._limits.largest_backlog:
                self.transport.close()
            return
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
        return self._phase in (HELD, BUSY) or bool(self._input and (self._phase == IDLE or self.flow.write_paused))

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

    def _advance(self) -> None:
        """Deal with what has arrived, as far as possible now."""
        is_closing, slices, most_chunks = self.transport.is_closing, 0, self._chunks + CHUNKS_A_TURN
        while self._input and not self.flow.write_paused and not is_closing():
            if self._is_parsing:
                if self.flow.read_paused or slices == SLICES or not self._feed_body():
                    break
                slices = SLICES if self._is_parsing and self._chunks > most_chunks else slices + 1
            elif self._phase >= HELD or not self._begin():
                break
        if is_closing() or self._phase == LEAVING:
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
            if data.count(b"\n") != data.count(b"\r\n"):
                self._unparseable()  # its lines do not end as they must, so that the head would never end
            elif len(data) >= limits.largest_head + 4:
                self._too_large(f"the head of a request must not be larger than {limits.largest_head} bytes.")
            return False
        raw = bytes(data[:end])
        if raw.count(b"\r\n") > limits.most_headers:
            self._too_large(f"a request must not have more than {limits.most_headers} headers.")
            return False
        if raw.count(b"\n") != raw.count(b"\r\n"):
            self._unparseable()
            return False
        raw = without_upgrade(raw)
        head = parse_head(raw) if len(raw) < LARGEST_FAST_HEAD else None
        handler = None if head is None else self._guard.fast_handlers.get(head.path)
        size = end + 4 + (0 if head is None or handler is None else head.length)
        if len(data) < size:
            refusal = None if head is None else self._guard.refusal_of_body(head.headers)
            if refusal is not None:
                self._turn_away(refusal)
                return False
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
        self._has_head = False
        self._parse(raw + b"\r\n\r\n")
        is_lost = self._phase == HEAD or (self._is_parsing and not self._has_head)
        if is_lost and not self.transport.is_closing():
            self._unparseable()  # the beginning of HTTP/2, for example: the parser would wait for more
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
        if left == 0:
            self._unparseable()  # the parser wants a body that the head did not announce
            return False
        if not size:
            return False
        piece = bytes(self._input[:size])
        del self._input[:size]
        self._body_size += size
        self._bodyless += size
        if left is not None:
            self._body_left = left - size
        self._parse(piece)
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
