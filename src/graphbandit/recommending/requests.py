"""What clients ask for: recommendations, as they arrive and resolved to rows, and rewards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from ..compute.arrays import Floats, Ints
from .offered_arms import Pool

Filter = Mapping[str, Sequence[str]]
"""Attribute: the values that make an arm eligible."""


class AnyRequest(Protocol):
    """Fields that the recommender reads of a request; the body of an HTTP request has them too."""

    @property
    def user(self) -> str:
        """Id of the user."""

    @property
    def candidates(self) -> Sequence[str] | None:
        """Arms to choose from; None for all."""

    @property
    def where(self) -> Filter | None:
        """Attributes that an arm must have."""

    @property
    def exclude(self) -> Sequence[str] | None:
        """Arms that must not be shown."""

    @property
    def k(self) -> int:
        """How many arms to show."""

    @property
    def context(self) -> Mapping[str, Any] | None:
        """What the request says beyond its user, such as the hour."""

    @property
    def attributes(self) -> Mapping[str, Any] | None:
        """What is known of a user that nobody knows."""


class Request(NamedTuple):
    """A request in plain Python."""

    user: str
    candidates: Sequence[str] | None = None
    where: Filter | None = None
    k: int = 1
    exclude: Sequence[str] | None = None
    context: Mapping[str, Any] | None = None
    attributes: Mapping[str, Any] | None = None


class ResolvedRequest(NamedTuple):
    """A request whose names have been looked up: user row and eligible arm versions."""

    user: int  # row; -1 for a user that nobody knows
    versions: Ints
    k: int  # at most the number of versions
    is_all: bool  # whether the versions are simply all arms
    name: str | None = None  # of a user that nobody knows
    features: Floats | None = None  # (versions, dim), if they depend on the context of the request
    pool: Pool | None = None  # the versions, unless they are a list of candidates
    filter: dict[str, Any] | None = None  # what chose the versions, if neither all arms nor a list of candidates did
    context: dict[str, Any] | None = None  # of the request, as the log keeps it
    near: Mapping[int, float] | None = None  # rows and weights of users alike to one that nobody knows, by its attributes


class AnyReward(Protocol):
    """What is read of a reward; the body of an HTTP request has these fields as well."""

    @property
    def decision(self) -> str:
        """Id of the decision."""

    @property
    def value(self) -> float:
        """What it earned."""

    @property
    def arm(self) -> str | None:
        """Which of the arms shown; None for the first."""


class Reward(NamedTuple):
    """A reward in plain Python."""

    decision: str
    value: float
    arm: str | None = None
