"""Heads of requests: which ones are plain enough for the fast path, and what is taken out of the
others."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

LARGEST_FAST_HEAD = 2**11  # bytes: a thousand of them are kept
LARGEST_FAST_BODY = 2**16
HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?)?[ \t]*")
UNUSUAL = {b"transfer-encoding", b"expect", b"upgrade", b"connection", b"te", b"trailer"}
OTHER_PROTOCOL = {b"upgrade", b"http2-settings"}


class RequestHead(NamedTuple):
    """Request line and headers."""

    path: str
    headers: dict[bytes, bytes]
    length: int  # of the body


@lru_cache(1000)
def parse_head(raw: bytes) -> RequestHead | None:
    """The head of a request; None if anything about it is unusual. Cached, since clients send the
    same head again and again; longer ones than LARGEST_FAST_HEAD must not come here.

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


def without_upgrade(head: bytes) -> bytes:
    """A head without its wish for another protocol, which a server may ignore (RFC 9110, section 7.8).

    The JDK's client offers h2c with every first request. The parser would take the body for bytes of
    that protocol, and drop it.

    >>> without_upgrade(b"GET / HTTP/1.1\\r\\nConnection: Upgrade, close\\r\\nUpgrade: h2c")
    b'GET / HTTP/1.1\\r\\nConnection: close'
    """
    if b"upgrade" not in head.lower():
        return head
    kept = []
    for line in head.split(b"\r\n"):
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
    return b"\r\n".join(kept)
