"""Bearer tokens: who may use the service, and who may only read."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

SHORTEST_TOKEN = 16
READ = "read"


class Token(NamedTuple):
    """A secret that a client sends with every request."""

    secret: str
    may_write: bool = True


def read_tokens(file: Path) -> list[Token]:
    """The tokens of a file, one a line. The word `read` before a token makes it one that may read
    only."""
    tokens: list[Token] = []
    # utf-8-sig: editors of Windows may put a byte order mark before the first token
    for line in filter(None, map(str.strip, file.read_text(encoding="utf-8-sig").splitlines())):
        word, _, rest = line.partition(" ")
        tokens.append(Token(rest.strip(), may_write=False) if word == READ else Token(line))
    if not tokens:
        raise ValueError(f"token_file {file} holds no token; write one on a line of its own.")
    if any(len(token.secret) < SHORTEST_TOKEN or not token.secret.isascii() for token in tokens):
        raise ValueError(f"token_file {file}: a token must have {SHORTEST_TOKEN} or more ASCII characters.")
    tokens = list(dict.fromkeys(tokens))
    if len({token.secret for token in tokens}) < len(tokens):
        raise ValueError(f"token_file {file}: a token is there twice, once as one that may only read; remove one of the lines.")
    return tokens
