"""Which events build and which judge: the earlier ones build, the later ones judge."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compute.arrays import Flags, Floats, Ints
from .event_tables import Events

EARLIER = 0.6
"""The share of events that build."""
KNOWN = 0.5
"""A split of the whole log by time is no use if fewer later events come from users who were there before."""
SKEWED = 10.0
"""Counts whose largest is so many times their median are taken as logarithms."""


class Split(NamedTuple):
    """Events in the order in which they are learned: the first `n_earlier` build, the others judge."""

    user: Ints
    item: Ints
    reward: Floats  # standardised by the earlier ones
    n_earlier: int
    taken: Flags  # whether the user took the item; otherwise it was drawn among those that were not
    said: tuple[str, ...]  # what was decided, in sentences


def split_events(events: Events, seed: int) -> Split:
    """Order the events, split them, and make of their rewards numbers that a linear model can learn.

    What the rewards mean is decided by the earlier events alone. Where all are equal, or counts, a
    log has only what was taken: then an item that was not is drawn beside each event, with reward 0.
    """
    order, n_earlier, how = _split(events, np.random.default_rng(seed))
    user, item = events.user[order], events.item[order]
    reward = np.ones(len(order)) if events.reward is None else events.reward[order]
    early = reward[:n_earlier]
    if (early == early[0]).all():
        first = np.sort(np.unique(user * (item.max() + 1) + item, return_index=True)[1])  # every pair counts once
        said = "Rewards are all equal: beside each event stands an item that the user has not taken, with reward 0."
        parts = user[first], item[first], np.ones(len(first)), int((first < n_earlier).sum())
        return _with_unseen(*parts, (how, said), seed)
    if early.min() > 0 and early.max() > SKEWED * np.median(early):
        said = (
            f"Rewards are counts up to {early.max():,.6g}: log(1 + count) is learned, "
            "and beside each event stands an item that the user has not taken, with count 0."
        )
        return _with_unseen(user, item, np.log1p(np.maximum(reward, 0.0)), n_earlier, (how, said), seed)
    return Split(user, item, _standardised(reward, n_earlier), n_earlier, np.ones(len(user), dtype=bool), (how,))


def _split(events: Events, rng: np.random.Generator) -> tuple[Ints, int, str]:
    """The order of the events, the number of earlier ones, and how they were split, as a sentence."""
    n = len(events.user)
    if events.timed or not _grouped(events.user):
        order, cut = events.order, round(EARLIER * n)
        user = events.user[order]
        known = float(np.isin(user[cut:], user[:cut]).mean()) if cut < n else 0.0
        by = "in order of time" if events.timed else "in the order of the rows, as there is no time"
        if known >= KNOWN:
            return order, cut, f"Split {by}: the first {EARLIER:.0%} of the events build, the others judge."
        why = f"split {by}, only {known:.0%} of the later events would be of users who were there before"
    else:
        order, why = rng.permutation(n).astype(np.int64), "there is no time, and the rows are sorted by user"
    which = "the first" if events.timed or not _grouped(events.user) else "a random"
    order, cut = _by_user(events.user, order)
    return order, cut, f"Split user by user, {which} {EARLIER:.0%} of each one's events to build: {why}."


def _grouped(user: Ints) -> bool:
    """Whether the rows of every user follow each other, so that their order is not that of time."""
    return int((np.diff(user) != 0).sum()) + 1 == len(np.unique(user)) < len(user)


def _by_user(user: Ints, order: Ints) -> tuple[Ints, int]:
    """Put the first events of every user before all others; a single event of a user is an earlier one."""
    mine = order[np.argsort(user[order], kind="stable")]
    _, start, count = np.unique(user[mine], return_index=True, return_counts=True)
    rank = np.arange(len(mine)) - np.repeat(start, count)
    first = np.zeros(len(user), dtype=bool)
    first[mine] = rank < np.repeat(np.maximum(1, np.round(EARLIER * count)), count)
    return np.concatenate([order[first[order]], order[~first[order]]]), int(first.sum())


def _standardised(reward: Floats, n_earlier: int) -> Floats:
    early = reward[:n_earlier]
    return np.asarray((reward - early.mean()) / (early.std() or 1.0))


def _with_unseen(user: Ints, item: Ints, reward: Floats, n_earlier: int, said: tuple[str, ...], seed: int) -> Split:
    """The events, and after each an item that its user has not taken, with reward 0.

    It is drawn in proportion to how often items occur among the earlier events: otherwise it would be enough to know
    which items are popular. What an earlier user takes later is not known earlier, so it may be drawn there.
    """
    n_items = int(item.max()) + 1
    taken, popular = user * n_items + item, item[:n_earlier]
    parts = ((slice(0, n_earlier), taken[:n_earlier]), (slice(n_earlier, None), taken))
    drawn = np.concatenate(
        [
            _draw_unseen(user[part], popular, known, n_items, np.random.default_rng([seed, turn]))
            for turn, (part, known) in enumerate(parts)
        ]
    )
    row = np.sort(np.concatenate([np.arange(len(item)), np.flatnonzero(drawn >= 0)]), kind="stable")
    unseen = np.append(False, row[1:] == row[:-1])
    n_rows = int((row < n_earlier).sum())
    values = _standardised(np.where(unseen, 0.0, reward[row]), n_rows)
    return Split(user[row], np.where(unseen, drawn[row], item[row]), values, n_rows, ~unseen, said)


def _draw_unseen(user: Ints, popular: Ints, taken: Ints, n_items: int, rng: np.random.Generator) -> Ints:
    """(rows,) an item of `popular` that is not `taken` by the user; -1 if none is found in a few draws."""
    drawn = rng.choice(popular, size=len(user))
    for _ in range(10):
        seen = np.isin(user * n_items + drawn, taken)
        drawn[seen] = rng.choice(popular, size=int(seen.sum()))
    drawn[np.isin(user * n_items + drawn, taken)] = -1
    return drawn
