"""The replay of a log: events that are learned, rounds that are played, and the policies that play them.

A round offers a user several items whose rewards are known, so that any choice can be rewarded. Where rewards differ, these
are up to ten items of the user's own later events, of which a policy chooses half, one after the other. Where a log has only
what was taken, they are one later item and others, drawn by popularity, that the user never took: one choice, a hit or a miss.

Policies are tuned alike, on earlier rounds of the same log; plain baselines are played as they are. A replay gives every user
a few rounds only, in which exploration hardly pays, so that AdaptiveGraphUCB gets a grid as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any, Literal, NamedTuple

import numpy as np

from ..compute.arrays import Flags, Floats, Ints
from ..graph import UserGraph
from ..graph_building.events import Split
from ..graphs import empty
from ..policies import POLICIES, Policy

Protocol = Literal["rewards", "hits"]
BLOCK = 10  # items of a round, of the user's own
OTHERS = 24  # items beside a hit
MOST_ROUNDS = 12_000
DRAWS = 10  # rounds of draws for items that were not taken


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
    """Return an order in which the first `share` of each user's events come first, and how many these are.

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
    """Return the events of a split in another order, or some of them."""
    parts = (split.user[order], split.item[order], split.reward[order])
    return Split(*parts, n_earlier, split.taken[order], split.said)


def _blocks(user: Ints, item: Ints, reward: Floats) -> list[tuple[int, Ints, Floats]]:
    """Return rounds of the later events of each user, up to `BLOCK` at a time, in order of the last of them."""
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
    """Return rounds of one item that was taken and `OTHERS` that were not, drawn by popularity."""
    n_items = int(split.item.max()) + 1
    known = np.unique(split.user[split.taken] * n_items + split.item[split.taken])
    popular = split.item[: split.n_earlier][split.taken[: split.n_earlier]]
    if len(later) > MOST_ROUNDS:
        later = np.sort(rng.choice(later, MOST_ROUNDS, replace=False))
    user, item = split.user[later], split.item[later]
    drawn = rng.choice(popular, size=(len(later), OTHERS))
    for _ in range(DRAWS):
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


Progress = Callable[[str], None]
EXPLORATION = (0.03, 0.3)
OURS: dict[str, Sequence[Any]] = {"exploration": (1.0, 0.0, 0.1, 0.3, 0.6, 2.0)}  # with effects of items where there are any
ADAPTIVE = "AdaptiveGraphUCB"
NO_GRAPH = "AdaptiveGraphUCB without the graph"
ALONE = "LinUCB, each user alone"
SHARED = "LinUCB, one for all users"
POPULAR = "what most users take"
ITEM_MEAN = "item mean + user bias"
USER_RIDGE = "item mean + ridge per user"
FRIENDS_RIDGE = "item mean + ridge with friends"


class Contender(NamedTuple):
    """A policy, and the settings that are tried."""

    name: str
    policy: str  # its name in POLICIES
    grid: Mapping[str, Sequence[Any]] = {}
    is_plain: bool = False  # a baseline, as it is
    needs_graph: bool = False
    hides_graph: bool = False

    def make(self, graph: UserGraph, dim: int, **settings: Any) -> Policy:
        """Return a new policy."""
        return POLICIES[self.policy](graph, dim, **settings)

    def settings(self) -> list[dict[str, Any]]:
        """All combinations of the grid."""
        return [dict(zip(self.grid, values, strict=True)) for values in product(*self.grid.values())]


CONTENDERS = (
    Contender(ITEM_MEAN, "item-mean", is_plain=True),
    Contender(USER_RIDGE, "friends-ridge", {"friends": (0.0,)}, is_plain=True, hides_graph=True),
    Contender(FRIENDS_RIDGE, "friends-ridge", is_plain=True, needs_graph=True),
    Contender(ALONE, "linucb", {"item_effects": (False, True), "exploration": EXPLORATION, "ridge": (0.1, 1.0)}),
    Contender(
        SHARED, "linucb", {"shared": (True,), "item_effects": (False, True), "exploration": EXPLORATION, "ridge": (0.1, 1.0)}
    ),
    Contender("CLUB", "club", {"alpha2": (0.1, 0.3), "exploration": EXPLORATION, "ridge": (0.05, 1.0)}),
    Contender(
        "GraphUCB-Local",
        "graphucb-local",
        {"preset": ("recommended",), "item_effects": (False, True), "alpha": (0.3, 3.0), "exploration": EXPLORATION},
        needs_graph=True,
    ),
    Contender(NO_GRAPH, "adaptive", OURS, hides_graph=True),
    Contender(ADAPTIVE, "adaptive", OURS, needs_graph=True),
)


class PolicyResult(NamedTuple):
    """Mean reward of a contender, in every round."""

    name: str
    settings: dict[str, Any]
    reward: Floats  # (rounds,)
    policy: Policy | None  # as it was after the last round; None for what cannot be served
    contender: Contender | None = None

    @property
    def is_plain(self) -> bool:
        """Return True for the baselines."""
        return self.contender is None or self.contender.is_plain

    @property
    def uses_graph(self) -> bool:
        """Return True if the policy was played with the graph."""
        return self.contender is not None and self.contender.needs_graph


def compete(
    graph: UserGraph | None, features: Floats, tuning: LogRounds, rounds: LogRounds, n_users: int, progress: Progress
) -> list[PolicyResult]:
    """Let every contender learn the earlier events, choose in all rounds and learn from its choices."""
    joined = empty(n_users) if graph is None or not graph.n_edges else graph
    played = [
        PolicyResult("at random", {}, np.array([values.mean() for values in rounds.rewards]), None),
        PolicyResult(POPULAR, {}, popular(rounds, len(features)), None),
    ]
    for contender in CONTENDERS:
        if contender.needs_graph and not joined.n_edges:
            continue
        progress(contender.name)
        own = empty(n_users) if contender.hides_graph else joined
        tried = contender.settings()
        best = tried[0] if len(tried) == 1 or not len(tuning) else _tuned(contender, own, features, tuning, tried)
        policy = contender.make(own, features.shape[1], **best)
        played.append(PolicyResult(contender.name, best, play(policy, features, rounds), policy, contender))
    return played


def _tuned(
    contender: Contender, graph: UserGraph, features: Floats, rounds: LogRounds, tried: list[dict[str, Any]]
) -> dict[str, Any]:
    earned = [float(play(contender.make(graph, features.shape[1], **one), features, rounds).mean()) for one in tried]
    return tried[int(np.argmax(earned))]


def popular(rounds: LogRounds, n_items: int) -> Floats:
    """Return what the most frequent items earn in each round: the count of rewards above the mean, or of hits."""
    liked = rounds.reward > (rounds.reward.mean() if rounds.protocol == "rewards" else 0.0)
    total = np.bincount(rounds.item[liked], minlength=n_items)
    best = [
        offer_rewards[np.argsort(-total[offer], kind="stable")]
        for offer, offer_rewards in zip(rounds.offers, rounds.rewards, strict=True)
    ]
    return np.array([values[: rounds.picks(t)].mean() for t, values in enumerate(best)])


def play(policy: Policy, features: Floats, rounds: LogRounds) -> Floats:
    """Return the mean reward of a choice in each round; the policy learns the events first, then its own choices."""
    policy.update_many(rounds.user, features[rounds.item], rounds.reward, items=rounds.item)
    earned = np.empty(len(rounds))
    for t, (user, offer, rewards) in enumerate(zip(rounds.round_user.tolist(), rounds.offers, rounds.rewards, strict=True)):
        left, total, picks = np.arange(len(offer)), 0.0, rounds.picks(t)
        for _ in range(picks):
            place = policy.recommend(user, features[offer[left]], items=offer[left])
            item, reward = int(offer[left[place]]), float(rewards[left[place]])
            policy.update(user, features[item], reward, item=item)
            left = np.delete(left, place)
            total += reward
        earned[t] = total / picks
    return earned


FEWEST_USERS = 20  # for an interval
LEAST_SHOWN = 0.0005  # a smaller difference is shown as 0.000, and is none
NEWCOMER_EVENTS = 10  # at most, before the first round
HEAVY_SHARE = 0.2  # of users with the most events


class LiftInterval(NamedTuple):
    """A mean and its 95 % interval; NaN ends if there are too few users."""

    value: float
    low: float
    high: float
    rounds: int
    users: int

    @property
    def verdict(self) -> str:
        """Return "more", "less", "not told apart" or "too few"."""
        if np.isnan(self.low):
            return "too few"
        return "more" if self.low >= LEAST_SHOWN else "less" if self.high <= -LEAST_SHOWN else "not told apart"


class UserGroup(NamedTuple):
    """Users for whom the lift is looked at."""

    name: str
    who: Flags  # (rounds,)


def clustered_interval(values: Floats, user: Ints) -> LiftInterval:
    """Return the mean of rounds and its interval, with the rounds of a user as one observation.

    >>> lift = clustered_interval(np.ones(40) + np.tile([0.1, -0.1], 20), np.arange(40) // 2)
    >>> lift.value, lift.low, lift.users
    (1.0, 1.0, 20)
    """
    n_users = len(np.unique(user))
    if not len(values):
        return LiftInterval(float("nan"), float("nan"), float("nan"), 0, 0)
    mean = float(values.mean())
    if n_users < FEWEST_USERS:
        return LiftInterval(mean, float("nan"), float("nan"), len(values), n_users)
    from scipy.special import stdtrit

    sums = np.bincount(user, weights=values - mean)
    error = float(np.sqrt((sums**2).sum() * n_users / (n_users - 1)) / len(values))
    width = float(stdtrit(n_users - 1, 0.975)) * error
    return LiftInterval(mean, mean - width, mean + width, len(values), n_users)


def groups(round_user: Ints, learned: Ints, n_users: int) -> list[UserGroup]:
    """Newcomers, heavy users, and those between, by the events that were learned of them."""
    events = np.bincount(learned, minlength=n_users)
    playing = np.unique(round_user)
    heavy = max(NEWCOMER_EVENTS + 1, float(np.quantile(events[playing], 1.0 - HEAVY_SHARE)))
    own = events[round_user]
    return [
        UserGroup(f"newcomers (at most {NEWCOMER_EVENTS} events before)", own <= NEWCOMER_EVENTS),
        UserGroup("users between", (own > NEWCOMER_EVENTS) & (own < heavy)),
        UserGroup(f"heavy users ({heavy:,.0f} events and more)", own >= heavy),
    ]
