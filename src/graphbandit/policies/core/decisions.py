"""What is asked of a policy and what it answers: scores, a choice, rankings for many users at once."""

from __future__ import annotations

from typing import NamedTuple

from ...compute.arrays import Floats, Ints
from ...validate import NO_ITEMS


class Scores(NamedTuple):
    """What a policy thinks of each arm: its estimate, and the bonus that exploration adds."""

    mean: Floats
    bonus: Floats


class Belief(NamedTuple):
    """A policy's view of one user, to be read only: an arm x has the mean xᵀθ and the bonus β √(xᵀ S x).

    S is in units of observations: a known item adds its effect to the mean and the variance of the effect to xᵀ S x.
    """

    theta: Floats  # (d,)
    S: Floats  # (d, d)
    beta: float


class Choice(NamedTuple):
    """The chosen arm and the probability of that choice: a line of a log for off-policy evaluation."""

    arm: int
    propensity: float


class Requests(NamedTuple):
    """Decisions to be made about many users: user i is offered the arms `table[rows[start[i] : start[i + 1]]]`."""

    users: Ints  # (n,)
    table: Floats  # (m, d), features of all arms
    rows: Ints  # (candidates,), of all users one after the other
    start: Ints  # (n + 1,), where the candidates of each user begin
    places: Ints  # (n,), how many are to be ranked
    items: Ints = NO_ITEMS  # (m,), the id of each row of the table, -1 if it is not known; or (0,): none is known


class Rankings(NamedTuple):
    """Decisions about many users with everything that a log of them needs; candidates as in `Requests.rows`."""

    order: Ints  # (candidates,), for each user the positions of its candidates, best first, as many as there are places
    mean: Floats  # (candidates,)
    bonus: Floats  # (candidates,)
    propensity: Floats  # (n,), probability that the first arm is first
