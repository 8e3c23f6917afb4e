"""Retractions: a reward that was wrong is taken back by an event.

Most of what policies keep cannot be undone by arithmetic. Sums can be: A - xxᵀ and b - rx are, but
for rounding, those of a log without the reward. The evidence of `adaptive` is not a sum: each reward
is judged by what was known when it came, so that every later term depends on it. Neither are
clusters, half-lives and learned graphs. So nothing is subtracted. A retracted reward does not count
in any replay, from the beginning on, and the state is replayed: it is that of the log in which the
reward never was, bit for bit, whatever the policy.
"""

from __future__ import annotations

from typing import NamedTuple

from .events import Event, encode, table_in


class Retraction(NamedTuple):
    """The body of RETRACTED."""

    reward: int  # number of the event that brought it
    decision: int
    item: int
    place: int
    epoch: str = ""  # of the decision's event

    def encoded(self) -> str:
        """JSON.

        >>> retracted_by(Retraction(7, 5, 0, 1).encoded()).place
        1
        """
        return encode(self._asdict())


def retracted_by(body: str) -> Retraction:
    """The body of RETRACTED."""
    return Retraction(**table_in(body))


def retraction_key(seq: int, item: int, place: int) -> str:
    """Key of a retraction: a reward is taken back once. All begin with x."""
    return f"x{seq}.{item}.{place}"


def retracted_rewards(retractions: list[Event]) -> set[int]:
    """The numbers of the rewards that these events take back."""
    return {retracted_by(event.body).reward for event in retractions}
