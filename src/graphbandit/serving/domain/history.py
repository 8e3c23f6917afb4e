"""The history of a user: events of the log in the words of the API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .events import Event, EventKind, decision_id, decisions_in, reward_in
from .logged_recommender import LoggedRecommender
from .retraction import retracted_by


def history(state: LoggedRecommender, events: Sequence[Event]) -> list[dict[str, Any]]:
    """Decisions and rewards with the names of arms, in the order of the events."""
    return [entry for event in events for entry in _entries(state, event)]


def _entries(state: LoggedRecommender, event: Event) -> list[dict[str, Any]]:
    at = event.at / 1e6
    if event.kind == EventKind.REWARDED:
        reward = reward_in(event.body)
        name = decision_id(reward.epoch, reward.decision, reward.item)
        return [{"kind": "reward", "time": at, "decision": name, "arm": state.versions[reward.version], "value": reward.value}]
    if event.kind == EventKind.RETRACTED:
        taken = retracted_by(event.body)
        name = decision_id(taken.epoch, taken.decision, taken.item)
        return [{"kind": "retraction", "time": at, "decision": name, "place": taken.place}]
    return [
        {
            "kind": "decision",
            "time": at,
            "decision": decision_id(event.epoch, event.seq, index),
            "arms": [state.versions[version] for version in decision.arms],
            "mean": decision.mean,
            "bonus": decision.bonus,
            "propensity": decision.propensity,
            **({} if decision.context is None else {"context": decision.context}),
        }
        for index, decision in enumerate(decisions_in(event.body))
    ]
