"""What logged decisions chose from. A decision by a filter logs the filter and the number of the
catalogue, not the arms that it left: of 20,000 arms they were 100 kB a decision."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...compute.arrays import Ints
from .events import DecisionRecord
from .logged_recommender import LoggedRecommender

KEPT_FILTERS = 100
NEVER = np.iinfo(np.int64).max


class LoggedOffers:
    """Expands the filters of decisions. Knows the catalogue up to the moment at which it is made.

    >>> from graphbandit import graphs
    >>> from graphbandit.serving import InitialState, Request
    >>> topics = [{"topic": "hot"}, {"topic": "cold"}]
    >>> state = LoggedRecommender.new(InitialState(graphs.empty(1), ["tea", "cola"], np.eye(2), topics))
    >>> [decision] = state.decide([Request("0", where={"topic": ["cold"]})], np.random.default_rng(0))
    >>> decision.candidates, LoggedOffers(state).of(decision)
    (None, array([1]))
    """

    def __init__(self, state: LoggedRecommender) -> None:
        self._state = state
        n = len(state.until)
        self._since = np.array(state.since[:n], dtype=np.int64)
        self._until = np.array([NEVER if end is None else end for end in state.until[:n]], dtype=np.int64)
        self._matching: dict[str, Ints] = {}  # filter: versions with these attributes, offered or not
        self._offers: dict[tuple[str, int], Ints] = {}  # filter and number of the catalogue

    def of(self, decision: DecisionRecord) -> Ints | None:
        """The versions that a decision chose from; None if these were all arms."""
        if decision.filter is None:
            return None if decision.candidates is None else np.array(decision.candidates)
        offer = self._offer(decision.filter["where"], decision.filter["catalogue"])
        excluded = decision.filter["exclude"]
        return offer[~np.isin(offer, excluded)] if excluded else offer

    def _offer(self, where: dict[str, Any], catalogue: int) -> Ints:
        text = repr(sorted(where.items()))
        if (text, catalogue) not in self._offers:
            for kept in (self._matching, self._offers):
                if len(kept) >= KEPT_FILTERS:
                    kept.clear()
            if text not in self._matching:
                matching = self._state.matching_versions(where)
                self._matching[text] = matching[matching < len(self._until)]
            versions = self._matching[text]
            there = (self._since[versions] <= catalogue) & (catalogue < self._until[versions])
            self._offers[text, catalogue] = versions[there]
        return self._offers[text, catalogue]
