"""The report of AdaptiveGraphUCB on its graph and its users, from the evidence of its models."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import exp, isfinite, log, sqrt
from typing import Any, Literal, NamedTuple

import numpy as np

from ...compute.arrays import Floats
from ...display import as_html
from ...graph import UserGraph
from .evidence import ALONE, EVERYONE, GRAPH, mean_noise, weigh, write_log_evidence
from .model import LEVELS, AdaptiveState

CLEAR = 3.0  # nats; a smaller difference of log evidence is no difference
ENOUGH_ROUNDS = 30  # for a verdict


class Step(NamedTuple):
    """The weights that one round was decided with."""

    round: int
    strength: float
    alone: float  # weights of the kinds
    everyone: float
    graph: float


class Misled(NamedTuple):
    """A user whom its neighbours mislead."""

    user: Any  # its id, or its row in a graph without ids
    gain: float  # log evidence for the graph from its own rounds: negative
    rounds: int


@dataclass(frozen=True)
class Report:
    """Log evidence in nats, up to a constant that all models share: only differences matter."""

    rounds: int
    counted: float  # rounds, with old ones discounted if the policy has a half-life
    with_graph: float  # log evidence of the best model of each kind
    everyone: float  # a common vector, and no graph
    alone: float
    weights: dict[str, float]  # of the kinds, in decisions
    strength: float  # effective: the weighted geometric mean of the strengths
    sigma: float  # noise; NaN before the first round
    coverage: dict[float, float]  # level of the predictive interval: share of rewards inside, before they were learned
    trail: tuple[Step, ...]  # at rounds 1, 2, 4, …
    misled: tuple[Misled, ...]  # the worst first

    @property
    def without(self) -> float:
        """Log evidence of the best model without the graph."""
        return max(self.everyone, self.alone)

    @property
    def difference(self) -> float:
        """Log evidence with the graph less that without it."""
        return self.with_graph - self.without

    @property
    def per_round(self) -> float:
        """The difference per round."""
        return self.difference / self.counted if self.counted else 0.0

    @property
    def verdict(self) -> Literal["too few", "helps", "no difference", "hurts"]:
        """Return the difference in words."""
        if self.rounds < ENOUGH_ROUNDS:
            return "too few"
        if abs(self.difference) < CLEAR:
            return "no difference"
        return "helps" if self.difference > 0 else "hurts"

    def __repr__(self) -> str:
        return f"Report({self.verdict!r}, {self.rounds:,} rounds, {self.difference:+,.1f} nats)"

    def __str__(self) -> str:
        return f"{self.finding()} {self.details()}" if self.rounds else self.finding()

    def _repr_html_(self) -> str:
        kinds = {"graph": self.with_graph, "everyone": self.everyone, "alone": self.alone}
        rows = [(kind, f"{fit:,.1f}", f"{self.weights[kind]:.0%}") for kind, fit in kinds.items() if isfinite(fit)]
        return as_html(
            self.finding(), ["model", "log evidence, in nats", "weight"], rows, [self.details()] if self.rounds else []
        )

    def finding(self) -> str:
        """Say in one sentence if the graph helps."""
        if self.rounds == 0:
            return "Nothing is known yet: no reward has been seen."
        after, rate = f"after {self.rounds:,} rounds the rewards are", f"{abs(self.per_round):.2g} nats a round"
        return {
            "too few": f"After {self.rounds} rounds it is too early to say whether the graph helps.",
            "no difference": f"The graph makes no difference yet: {after} about as likely with it as without it "
            f"({self.difference:+.1f} nats).",
            "helps": f"The graph helps: {after} {times(self.difference)} as likely with it as without it ({rate}).",
            "hurts": f"The graph hurts: {after} {times(-self.difference)} as likely without it as with it ({rate}).",
        }[self.verdict]

    def details(self) -> str:
        """The weights of the models, the coverage of the intervals, and who is misled."""
        kept = [kind for kind in self.weights if kind != "everyone" or isfinite(self.everyone)]
        shares = ", ".join(f"{kind} {self.weights[kind]:.0%}" for kind in kept)
        levels = " / ".join(f"{level:.0%}" for level in self.coverage)
        inside = " / ".join(f"{share:.0%}" for share in self.coverage.values())
        parts = [
            f"Decisions weigh the models {shares}, at strength {self.strength:.2g}; the noise is about {self.sigma:.2g}.",
            f"The {levels} intervals held {inside} of the rewards before they were learned.",
        ]
        if self.misled:
            worst, n = self.misled[0], len(self.misled)
            who = f"{n} users are misled by their neighbours, most of all" if n > 1 else "One user is misled by its neighbours:"
            parts.append(f"{who} {worst.user} ({worst.gain:.1f} nats in {worst.rounds:,} rounds).")
        return " ".join(parts)

    def as_table(self) -> dict[str, Any]:
        """Everything as plain JSON values; NaN and infinity become None."""
        table = asdict(self) | dict(without=self.without, difference=self.difference, per_round=self.per_round)
        table["coverage"] = {str(level): share for level, share in self.coverage.items()}
        table["trail"] = [step._asdict() for step in self.trail]
        table["misled"] = [entry._asdict() for entry in self.misled]
        table |= dict(verdict=self.verdict, sentence=str(self))
        plain: dict[str, Any] = _plain(table)
        return plain


def times(nats: float) -> str:
    """A ratio of likelihoods in words."""
    return f"{exp(nats):,.0f} times" if nats < log(1e6) else f"e^{nats:,.0f} times"


def graph_report(state: AdaptiveState, graph: UserGraph) -> Report:
    """Return the report of a policy with this state on this graph."""
    rounds, best, weight = int(state.rewards[0]), best_evidence(state), model_weights(state)
    shares = weight[ALONE].sum(), weight[EVERYONE].sum(), weight[GRAPH:].sum()
    return Report(
        rounds=rounds,
        counted=float(state.evidence.mass[0]),
        with_graph=float(best[2]),
        everyone=float(best[EVERYONE]),
        alone=float(best[ALONE]),
        weights={kind: float(share) for kind, share in zip(("alone", "everyone", "graph"), shares, strict=True)},
        strength=effective_strength(state, weight),
        sigma=sqrt(mean_noise(state.evidence, weight)) if rounds else float("nan"),
        coverage={level: int(n) / rounds if rounds else float("nan") for level, n in zip(LEVELS, state.inside, strict=True)},
        trail=tuple(Step(int(row[0]), *row[1:].tolist()) for row in state.trail if row[0] > 0),
        misled=misled_users(state, graph),
    )


def best_evidence(state: AdaptiveState) -> Floats:
    """Return the largest log evidence among the models alone, around a common vector, and with the graph."""
    fit = np.empty_like(state.evidence.squares)
    write_log_evidence(state.evidence, fit)
    return np.array([fit[ALONE].max(), fit[EVERYONE].max(), fit[GRAPH:].max()])


def evidence_difference(state: AdaptiveState) -> float:
    """Return the log evidence of the best model with the graph, less that of the best without it."""
    alone, everyone, graph = best_evidence(state)
    return float(graph - max(everyone, alone))


def model_weights(state: AdaptiveState) -> Floats:
    """Return the weights of the models in the next decision, (kinds, k)."""
    weight = np.empty_like(state.evidence.squares)
    weigh(state.evidence, weight)
    return weight


def effective_strength(state: AdaptiveState, weight: Floats) -> float:
    """Return exp Σ weight · log τ."""
    return float(np.exp((weight * np.log(state.strength)).sum()))


def misled_users(state: AdaptiveState, graph: UserGraph) -> tuple[Misled, ...]:
    """Users whose own rounds count against the graph by more than 3 + log n nats, worst first.

    If the graph were right for a user, its gain would fall below -c with a probability of about
    e^-c at most. The term log n corrects for the number of users: the probability that anybody is
    listed by chance is about one in twenty.
    """
    limit = -(CLEAR + log(graph.n_users))
    rows = np.flatnonzero((state.gain < limit) & (graph.degrees > 0))
    rows = rows[np.argsort(state.gain[rows], kind="stable")]
    names = range(graph.n_users) if graph.ids is None else graph.ids
    return tuple(Misled(names[row], float(state.gain[row]), int(state.seen.visits[row])) for row in rows.tolist())


def _plain(value: Any) -> Any:
    """The value without NaN, infinity and NumPy types, which JSON does not have."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if isfinite(value) else None
    return value if value is None or isinstance(value, str | int | bool) else str(value)
