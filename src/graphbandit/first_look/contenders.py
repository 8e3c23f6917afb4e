"""The policies that are compared. All are tuned alike, on earlier rounds of the same log.

A replay gives every user a few rounds only, in which exploration hardly pays. So AdaptiveGraphUCB,
which needs no tuning where it has time to explore, gets a grid as large as the others' too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from ..compute.arrays import Floats
from ..graph import UserGraph
from ..graphs import empty
from ..policies import CLUB, AdaptiveGraphUCB, GraphUCBLocal, LinUCB, Policy
from .log_rounds import LogRounds

Make = Callable[..., Policy]
Progress = Callable[[str], None]
EXPLORATION = (0.03, 0.3)
PSEUDO_EVENTS = 5.0  # of average reward, so that a single event of an item does not decide
OURS: dict[str, Sequence[Any]] = {"item_effects": (False, True), "exploration": (0.0, 0.1, 0.3, 1.0)}
ADAPTIVE = "AdaptiveGraphUCB"
NO_GRAPH = "AdaptiveGraphUCB without the graph"
ALONE = "LinUCB, each user alone"
SHARED = "LinUCB, one for all users"


class Contender(NamedTuple):
    """A policy, and the settings that are tried."""

    name: str
    make: Make
    grid: Mapping[str, Sequence[Any]] = {}
    needs_graph: bool = False
    hides_graph: bool = False

    def settings(self) -> list[dict[str, Any]]:
        """All combinations of the grid."""
        return [dict(zip(self.grid, values, strict=True)) for values in product(*self.grid.values())]


CONTENDERS = (
    Contender(ALONE, LinUCB, {"item_effects": (False, True), "exploration": EXPLORATION, "ridge": (0.1, 1.0)}),
    Contender(
        SHARED, LinUCB, {"shared": (True,), "item_effects": (False, True), "exploration": EXPLORATION, "ridge": (0.1, 1.0)}
    ),
    Contender("CLUB", CLUB, {"alpha2": (0.1, 0.3), "exploration": EXPLORATION, "ridge": (0.05, 1.0)}),
    Contender(
        "GraphUCB-Local",
        GraphUCBLocal,
        {"preset": ("recommended",), "item_effects": (False, True), "alpha": (0.3, 3.0), "exploration": EXPLORATION},
        needs_graph=True,
    ),
    Contender(NO_GRAPH, AdaptiveGraphUCB, OURS, hides_graph=True),
    Contender(ADAPTIVE, AdaptiveGraphUCB, OURS, needs_graph=True),
)


class Played(NamedTuple):
    """Mean reward of a contender, in every round."""

    name: str
    settings: dict[str, Any]
    reward: Floats  # (rounds,)
    policy: Policy | None  # as it was after the last round; None for the control


def compete(
    graph: UserGraph | None, features: Floats, tuning: LogRounds, rounds: LogRounds, n_users: int, progress: Progress
) -> list[Played]:
    """Let every contender learn the earlier events, choose in all rounds and learn from its choices."""
    joined = empty(n_users) if graph is None or not graph.n_edges else graph
    found = [
        Played("at random", {}, np.array([values.mean() for values in rounds.rewards]), None),
        Played("what most users like", {}, popular(rounds, len(features)), None),
    ]
    for contender in CONTENDERS:
        if contender.needs_graph and not joined.n_edges:
            continue
        progress(contender.name)
        own = empty(n_users) if contender.hides_graph else joined
        tried = contender.settings()
        best = tried[0] if len(tried) == 1 or not len(tuning) else _tuned(contender, own, features, tuning, tried)
        policy = contender.make(own, features.shape[1], **best)
        found.append(Played(contender.name, best, play(policy, features, rounds), policy))
    return found


def _tuned(
    contender: Contender, graph: UserGraph, features: Floats, rounds: LogRounds, tried: list[dict[str, Any]]
) -> dict[str, Any]:
    earned = [float(play(contender.make(graph, features.shape[1], **one), features, rounds).mean()) for one in tried]
    return tried[int(np.argmax(earned))]


def popular(rounds: LogRounds, n_items: int) -> Floats:
    """(rounds,) what the items earn that earned the most before: on average, or in number where all are hits."""
    count, total = np.bincount(rounds.item, minlength=n_items), np.bincount(rounds.item, rounds.reward, n_items)
    if rounds.protocol == "rewards":
        total = (total + PSEUDO_EVENTS * rounds.reward.mean()) / (count + PSEUDO_EVENTS)
    earned = np.empty(len(rounds))
    for t, (offer, rewards) in enumerate(zip(rounds.offers, rounds.rewards, strict=True)):
        earned[t] = rewards[np.argsort(-total[offer], kind="stable")[: rounds.picks(t)]].mean()
    return earned


def play(policy: Policy, features: Floats, rounds: LogRounds) -> Floats:
    """(rounds,) what a policy earns a choice that has learned the events; it goes on learning from its own choices."""
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
