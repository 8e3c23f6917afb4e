"""From a log to what is learned first, and the rounds that are played afterwards.

A round offers a user several items whose rewards are known, so that any choice can be rewarded. Where
rewards differ, these are items of the user's own later events. Where a log has only what was taken,
they are one later item and others, drawn by popularity, that the user never took: a hit or a miss.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from ..compute.arrays import Floats, Ints
from ..graph_building.event_split import Split

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


def log_rounds(split: Split, raw: Floats, n_earlier: int, n_learned: int, users: Ints, seed: int) -> LogRounds:
    """Learn the events before `n_learned`; play those from there to `n_earlier` … in rounds of these users.

    Parameters
    ----------
    split : Split
        Events in order, with the items that were drawn beside those that were taken.
    raw : (events,) array
        Their rewards as they are in the log; 1 and 0 where a log has only what was taken.
    n_earlier, n_learned : int
        Rounds are made of the events from `n_learned` to `n_earlier`.
    users : (n,) flags
        Whose rounds are played.
    """
    taken = split.taken
    protocol: Protocol = "rewards" if taken.all() else "hits"
    later = np.arange(n_learned, n_earlier)
    later = later[taken[later] & (users[split.user[later]] > 0)]
    rng = np.random.default_rng([seed, n_learned])
    if protocol == "rewards":
        made = _blocks(split.user[later], split.item[later], raw[later])
    else:
        made = _hits(split, later, rng)
    if len(made) > MOST_ROUNDS:
        kept = np.sort(rng.choice(len(made), MOST_ROUNDS, replace=False))
        made = [made[place] for place in kept.tolist()]
    who, offers, rewards = ([entry[part] for entry in made] for part in range(3))
    learned = slice(0, n_learned)
    parts = split.user[learned], split.item[learned], raw[learned]
    return LogRounds(protocol, *parts, np.array(who, dtype=np.int64), offers, rewards)


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
    user, item = split.user[later], split.item[later]
    drawn = rng.choice(popular, size=(len(later), OTHERS))
    for _ in range(EASY_DRAWS):
        seen = np.isin(user[:, None] * n_items + drawn, known)
        drawn[seen] = rng.choice(popular, size=int(seen.sum()))
    rounds = []
    for row in range(len(later)):
        others = np.unique(drawn[row])
        others = others[~np.isin(user[row] * n_items + others, known)]
        offer = rng.permutation(np.append(others, item[row]))
        if len(offer) > 1:
            rounds.append((int(user[row]), offer, (offer == item[row]).astype(np.float64)))
    return rounds
