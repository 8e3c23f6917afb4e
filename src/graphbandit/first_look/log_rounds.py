"""From a log to what is learned first, and the rounds that are played afterwards.

A round offers a user several items whose rewards are known, so that any choice can be rewarded. Where
rewards differ, these are up to ten items of the user's own later events, of which a policy chooses
half, one after the other. Where a log has only what was taken, they are one later item and others,
drawn by popularity, that the user never took: one choice, a hit or a miss.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from ..compute.arrays import Floats, Ints
from ..graph_building.events import Split

Protocol = Literal["rewards", "hits"]
BLOCK = 10  # items of a round, of the user's own
OTHERS = 24  # items beside a hit
MOST_ROUNDS = 12_000
EASY_DRAWS = 10  # rounds of draws for items that were not taken


class LogRounds(NamedTuple):
    """Events to learn, and rounds to play; users and items by number."""

    protocol: Protocol
    user: Ints  # (events,), to be learned first, in order
    item: Ints
    reward: Floats
    round_user: Ints  # (rounds,)
    offers: list[Ints]  # items on offer in each round
    rewards: list[Floats]  # of these items

    def __len__(self) -> int:
        return len(self.round_user)

    def picks(self, t: int) -> int:
        """How many items are chosen in round t."""
        return 1 if self.protocol == "hits" else max(1, len(self.offers[t]) // 2)


def log_rounds(split: Split, raw: Floats, n_learned: int, end: int, users: Ints, seed: int) -> LogRounds:
    """Learn the events before `n_learned`; make rounds of those from there to `end`.

    Parameters
    ----------
    split : Split
        Events in order, with the items that were drawn beside those that were taken.
    raw : (events,) array
        Their rewards as they are in the log; 1 and 0 where a log has only what was taken.
    n_learned, end : int
        Places in the order of the events.
    users : (n,) 1 or 0
        Whose rounds are played.
    """
    taken = split.taken
    protocol: Protocol = "rewards" if taken.all() else "hits"
    later = np.arange(n_learned, end)
    later = later[taken[later] & (users[split.user[later]] > 0)]
    rng = np.random.default_rng([seed, n_learned])
    made = _blocks(split.user[later], split.item[later], raw[later]) if protocol == "rewards" else _hits(split, later, rng)
    if len(made) > MOST_ROUNDS:
        kept = np.sort(rng.choice(len(made), MOST_ROUNDS, replace=False))
        made = [made[place] for place in kept.tolist()]
    who = np.array([user for user, _, _ in made], dtype=np.int64)
    learned = split.user[:n_learned], split.item[:n_learned], raw[:n_learned]
    return LogRounds(protocol, *learned, who, [offer for _, offer, _ in made], [rewards for _, _, rewards in made])


def user_by_user(user: Ints, share: float) -> tuple[Ints, int]:
    """An order in which the first `share` of each user's events come first, and how many these are.

    >>> user_by_user(np.array([0, 0, 1, 0, 1, 1]), 0.5)
    (array([0, 1, 2, 4, 3, 5]), 4)
    """
    mine = np.argsort(user, kind="stable")
    _, start, count = np.unique(user[mine], return_index=True, return_counts=True)
    rank = np.empty(len(user), dtype=np.int64)
    rank[mine] = np.arange(len(user)) - np.repeat(start, count)
    total = np.bincount(user)[user]
    first = rank < np.ceil(share * total)
    return np.concatenate([np.flatnonzero(first), np.flatnonzero(~first)]), int(first.sum())


def reordered(split: Split, order: Ints, n_earlier: int) -> Split:
    """The events of a split in another order, or some of them."""
    parts = (split.user[order], split.item[order], split.reward[order])
    return Split(*parts, n_earlier, split.taken[order], split.said)


def _blocks(user: Ints, item: Ints, reward: Floats) -> list[tuple[int, Ints, Floats]]:
    """Rounds of the later events of each user, up to `BLOCK` at a time, in order of the last of them."""
    rounds: list[tuple[int, int, Ints, Floats]] = []
    order = np.argsort(user, kind="stable")
    _, start = np.unique(user[order], return_index=True)
    for mine in np.split(order, start[1:]):
        first = mine[np.sort(np.unique(item[mine], return_index=True)[1])]  # every item once
        for begin in range(0, len(first), BLOCK):
            block = first[begin : begin + BLOCK]
            if len(block) > 1:
                rounds.append((int(block.max()), int(user[block[0]]), item[block], reward[block]))
    rounds.sort(key=lambda entry: entry[0])
    return [entry[1:] for entry in rounds]


def _hits(split: Split, later: Ints, rng: np.random.Generator) -> list[tuple[int, Ints, Floats]]:
    """Rounds of one item that was taken and `OTHERS` that were not, drawn by popularity."""
    n_items = int(split.item.max()) + 1
    known = np.unique(split.user[split.taken] * n_items + split.item[split.taken])
    popular = split.item[: split.n_earlier][split.taken[: split.n_earlier]]
    if len(later) > MOST_ROUNDS:
        later = np.sort(rng.choice(later, MOST_ROUNDS, replace=False))
    user, item = split.user[later], split.item[later]
    drawn = rng.choice(popular, size=(len(later), OTHERS))
    for _ in range(EASY_DRAWS):
        seen = np.isin(user[:, None] * n_items + drawn, known)
        drawn[seen] = rng.choice(popular, size=int(seen.sum()))
    unseen = ~np.isin(user[:, None] * n_items + drawn, known)
    rounds = []
    for row in range(len(later)):
        others = np.unique(drawn[row, unseen[row]])
        offer = rng.permutation(np.append(others, item[row]))
        if len(offer) > 1:
            rounds.append((int(user[row]), offer, (offer == item[row]).astype(np.float64)))
    return rounds
