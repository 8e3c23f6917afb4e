"""A connection: what it is at, how its requests are refused, and what uvicorn's parser says of those
that do not go the fast path."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from httptools import HttpParserError, HttpParserUpgrade
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from .connection_limits import Connection
from .guard import KNOWN, Guard
from .request_bodies import are_too_small
from .responses import HttpResponse, on_the_wire, problem

IDLE, HEAD, BODY, HELD, BUSY, LEAVING = range(6)
"""What a connection is at: between requests; in a head; in a body; a request waits its turn; one is
being handled; one has been turned away, and what still comes of it is dropped."""
ONCE = (b"authorization", b"host")  # two of them would leave open which one counts
LINGER = 1.0  # seconds
SENTENCES = {
    "head": "the head of the request took too long.",
    "body": "the body of the request took too long.",
}


class LimitedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with limits. `fast_path` adds how bytes become requests."""

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
        self._has_head = False  # whether it has had the head of that, and not yet its end
        self._trailers = self._chunks = 0  # of that request
        self._refusal: HttpResponse | None = None  # of that request, where the parser is stopped
        self._dropped = 0  # bytes since the client was turned away
        self._is_stranger = True  # whether no token has been shown
        self._is_new = True  # whether no request has been answered
        self._is_last = False  # whether to close the connection after the response
        self._has_ended = False  # whether the client will send nothing more
        self._is_paused = False  # whether the transport is not to read
        self._unread_since: float | None = None  # since when answers pile up
        self._closing_since: float | None = None

    def _advance(self) -> None:
        """Deal with what has arrived, as far as possible now."""
        raise NotImplementedError

    def _soon(self) -> None:
        self.loop.call_soon(self._advance)

    def _parse(self, data: bytes) -> None:
        """Give bytes to uvicorn's parser."""
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except HttpParserUpgrade:
            pass  # a CONNECT, which is answered like any other request, and is the last
        except HttpParserError:
            if self._refusal is not None and self._refusal.status == 401:
                self._turn_away(self._refusal)
            else:
                self._unparseable()

    # Requests become responses.

    def _recognise(self) -> None:
        self._is_stranger = False
        self._connections.recognise(self)

    def _send(self, response: HttpResponse) -> None:
        self.transport.write(on_the_wire(response, self.server_state.default_headers, self._is_last))
        if self._is_last or response.headers.get("connection") == "close":
            self.transport.close()

    def _refuse(self, status: int, field: str, message: str, headers: dict[str, str] | None = None) -> None:
        """Answer without a request, and close the connection."""
        self._guard.stats.count_request("other", status, 0.0)
        self._is_last = True
        self._send(problem(status, field, message, "refused", headers))

    def _unparseable(self) -> None:
        self._connections.log.note("unparseable", "requests cannot be parsed", self.client[0] if self.client else "")
        self._turn_away(self._refusal or problem(400, "request", "this is not a request of HTTP/1.1.", "refused"))

    def _turn_away(self, response: HttpResponse) -> None:
        """Answer a request whose body is not read. The connection is closed a little later: at once would
        reset it while the client sends, and the answer might be lost."""
        if self._has_head and self.cycle.response_started:
            self.transport.abort()  # the request has an answer already
            return
        if self._has_head:  # its handler waits for the body, and must not answer as well
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self._guard.stats.count_request("other", response.status, 0.0)
        self._phase, self._is_parsing = LEAVING, False
        self._input.clear()
        self.transport.write(on_the_wire(response, self.server_state.default_headers, is_last=True))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        if self._is_paused:
            self.transport.resume_reading()
        self.loop.call_later(LINGER, self.transport.close)

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
        """A header, or one of the trailers, which come after the body and count for nothing (RFC 9110,
        section 6.5.1): the request has been checked without them."""
        if not self._has_head:
            super().on_header(name, value)
            return
        self._trailers += 1
        if self._trailers > self._limits.most_headers:
            self.transport.abort()

    def on_headers_complete(self) -> None:
        """The head of a request has ended. If it asks for another protocol, the connection is
        closed after the response: the parser would take its body for the next request."""
        headers = dict(self.headers)
        names = [name for name, _ in self.headers]
        if any(names.count(name) > 1 for name in ONCE):
            self._refusal = problem(400, "head", "Host and Authorization must not be sent twice.", "refused")
            raise ValueError("a header came twice")  # ends the parser; nothing has been started
        length = headers.get(b"content-length", b"0")
        self._body_left = None if b"transfer-encoding" in headers else int(length) if length.isdigit() else 0
        self._body_size = self._bodyless = self._trailers = self._chunks = 0
        if self._body_left is None or self._body_left > len(self._input):
            self._refusal = self._guard.refusal_of_body(headers)
            if self._refusal is not None:
                raise ValueError("the body is not wanted")
        self._has_head = True
        super().on_headers_complete()
        if self.parser.should_upgrade() or self._is_last:
            self.cycle.keep_alive = False

    def on_chunk_header(self) -> None:
        """The next piece of a chunked body begins."""
        self._chunks += 1
        if are_too_small(self._chunks, self._body_size):
            self._refusal = problem(400, "body", "the chunks of the body are too small.", "refused")
            raise ValueError("the chunks are too small")

    def on_body(self, body: bytes) -> None:
        """A piece of a body."""
        self._bodyless = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """A request has ended."""
        self._is_parsing = self._has_head = False
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
