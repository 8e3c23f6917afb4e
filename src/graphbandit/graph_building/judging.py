"""Gain of a graph in predicting later events after the earlier ones were learned."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import exp, log, sqrt

import numpy as np

from ..compute.arrays import Floats, Ints
from ..diagnose import RewardLog
from ..diagnose.shuffle_test import ENOUGH_SHUFFLES, LEVEL, TIE, shuffle_test
from ..graph import UserGraph
from ..policies import AdaptiveGraphUCB
from ..policies.adaptive.evidence import GRAPH, write_log_evidence

STRENGTHS = tuple(np.geomspace(0.03, 300.0, 9).tolist())
"""Scale of the priors. At 1 tastes vary as they do over all users; given good neighbours they vary less."""
FEW_SHUFFLES = 4
"""For a candidate that is not the leader."""
LEADERS = 3
"""So many candidates at most are compared with `ENOUGH_SHUFFLES` shuffles, one after the other until one passes."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """A graph, and what the later events say about it. Log evidence is in nats."""

    name: str
    graph: UserGraph  # of the judged users, from the earlier events
    n_events: int  # that judged it
    n_models: int  # models that were tried with it
    difference: float  # log evidence of the later events with the graph, less that of the best model without one
    shuffled: tuple[float, ...] = ()  # the same, of graphs with the users shuffled
    passes: bool = False  # Holm's test over all candidates, and the rank among its shuffles
    chosen: bool = False

    def __repr__(self) -> str:
        return f"Candidate({self.name!r}, {self.n_edges:,} edges, {self.difference:+,.1f} nats{', chosen' * self.chosen})"

    @property
    def n_edges(self) -> int:
        """Number of edges between the judged users."""
        return self.graph.n_edges

    @property
    def per_event(self) -> float:
        """The difference per judged event."""
        return self.difference / self.n_events

    @property
    def over_shuffled(self) -> float:
        """Log evidence with the graph less the median of the shuffled ones."""
        return self.difference - float(np.median(self.shuffled)) if self.shuffled else float("nan")

    @property
    def p(self) -> float:
        """The larger of two p-values: "no graph predicts as well" and "any users could be joined".

        The first is that of the evidence itself: if a model without a graph were true, the evidence
        of one with a graph would exceed it e^c times with a probability of e^-c at most. There are
        `n_models` such, which counts like so many tests. The second takes the shuffles as normal:
        ranks among few shuffles cannot be small enough to correct for the number of candidates.
        """
        if len(self.shuffled) < 2:
            return 1.0
        alone = exp(min(0.0, log(self.n_models) - self.difference))
        from scipy.special import stdtr  # slow to import

        n, spread = len(self.shuffled), max(float(np.std(self.shuffled, ddof=1)), TIE)
        lead = self.difference - float(np.mean(self.shuffled))
        return max(alone, float(stdtr(n - 1, -lead / (spread * sqrt(1 + 1 / n)))))


@dataclass(frozen=True, eq=False)
class Judge:
    """The log that all candidates are judged on."""

    log: RewardLog  # its users are rows of the graphs
    n_earlier: int  # these rows are learned first, and not counted
    seed: int

    def evidence(self, graph: UserGraph, place: Ints | None = None) -> Floats:
        """(kinds, strengths) log evidence of the later rows, given the earlier ones, of all models.

        With `place`, user i takes the row place[i] of the graph: a shuffle.
        """
        user = self.log.user if place is None else place[self.log.user]
        policy = AdaptiveGraphUCB(graph, self.log.dim, alphas=STRENGTHS, solver="local", item_effects=False)
        found = []
        for part in (slice(0, self.n_earlier), slice(self.n_earlier, None)):
            policy.update_many(user[part], self.log.features[part], self.log.reward[part])
            found.append(np.empty_like(policy.state.evidence.squares))
            write_log_evidence(policy.state.evidence, found[-1])
        return np.asarray(found[1] - found[0])

    def candidate(self, name: str, graph: UserGraph) -> Candidate:
        """The candidate before it is compared with shuffled ones."""
        gained = self.evidence(graph)
        difference = float(gained[GRAPH:].max() - gained[:GRAPH].max())
        return Candidate(name, graph, len(self.log) - self.n_earlier, int(gained[GRAPH:].size), difference)

    def shuffle(self, candidate: Candidate, without: float, n: int) -> Candidate:
        """The candidate with its first `n` shuffles; only users of the log change places, as in `diagnose`."""
        active = np.unique(self.log.user)
        ends = list(candidate.shuffled)
        for turn in range(len(ends), n):
            place = np.arange(candidate.graph.n_users)
            place[active] = np.random.default_rng([self.seed, turn]).permutation(active)
            ends.append(float(self.evidence(candidate.graph, place)[GRAPH:].max()) - without)
        return replace(candidate, shuffled=tuple(ends))

    def without(self, graph: UserGraph) -> float:
        """Log evidence of the best model without a graph."""
        return float(self.evidence(graph)[:GRAPH].max())


def compare_with_shuffled(
    judge: Judge, candidates: Mapping[str, Candidate], order: list[str], step: Callable[[str], None]
) -> dict[str, Candidate]:
    """The candidates with their shuffles and whether they pass; at most one is chosen, the first in `order` that passes.

    All get a few shuffles first. Those that could be chosen then get as many as the rank test needs.
    """
    found, without = dict(candidates), judge.without(next(iter(candidates.values())).graph)

    def shuffle(name: str, n: int) -> None:
        step(f"{name}, users shuffled")
        found[name] = judge.shuffle(found[name], without, n)

    for name in order:
        shuffle(name, FEW_SHUFFLES)
    for name in [name for name in order if found[name].difference > 0][:LEADERS]:
        shuffle(name, ENOUGH_SHUFFLES)
        passing = holm({other: candidate.p for other, candidate in found.items()})
        rank = shuffle_test(found[name].difference, np.array(found[name].shuffled))
        if name in passing and rank.passes:
            found[name] = replace(found[name], passes=True, chosen=True)
            break
    return found


def holm(p: Mapping[str, float], level: float = LEVEL) -> set[str]:
    """The names whose p-values pass Holm's test: with probability 1 - `level`, none of them does so by chance.

    >>> sorted(holm({"a": 0.001, "b": 0.02, "c": 0.04, "d": 0.9}))
    ['a']
    """
    passing: set[str] = set()
    for rank, name in enumerate(sorted(p, key=lambda name: p[name])):
        if p[name] > level / (len(p) - rank):
            break
        passing.add(name)
    return passing
