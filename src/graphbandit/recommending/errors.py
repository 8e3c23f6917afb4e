"""Why a request is refused. All errors name the field that is wrong."""

from __future__ import annotations


class InvalidRequest(ValueError):
    """A request that cannot be fulfilled; `field` is what is wrong with it."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class Conflict(InvalidRequest):
    """A request that does not fit what has happened meanwhile, or what was asked before."""


class UnknownName(ValueError):
    """A user, an arm, an edge or a decision that does not exist; `field` is where it was named."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field
