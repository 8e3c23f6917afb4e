"""The report of AdaptiveGraphUCB on its graph and its users, from the evidence of its models."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import isfinite, log, sqrt
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ...compute.arrays import Floats
from ...diagnose.judge import EARLIER, Judge, UserSums, Verdict, users_to_judge
from ...display import as_html
from ...graph import UserGraph
from .evidence import ALONE, EVERYONE, GRAPH, mean_noise, weigh, write_log_evidence
from .model import LEVELS, AdaptiveState

CLEAR = 3.0  # nats; a smaller difference of log evidence is no difference
JUDGED_USERS = 1_000  # of more, a ball in the graph is judged


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
    """Verdict on the graph, and the evidence of the models in nats, up to a constant: only differences matter."""

    verdict: Verdict  # of the judge that `diagnose` uses
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

    def __repr__(self) -> str:
        return f"Report({self.verdict.answer!r}, {self.rounds:,} rounds)"

    def __str__(self) -> str:
        return f"{self.finding()} {self.details()}" if self.rounds else self.finding()

    def _repr_html_(self) -> str:
        kinds = {"graph": self.with_graph, "everyone": self.everyone, "alone": self.alone}
        rows = [(kind, f"{fit:,.1f}", f"{self.weights[kind]:.0%}") for kind, fit in kinds.items() if isfinite(fit)]
        return as_html(
            self.finding(), ["model", "log evidence, in nats", "weight"], rows, [self.details()] if self.rounds else []
        )

    def finding(self) -> str:
        """Return the verdict as a sentence."""
        return self.verdict.sentence if self.rounds else "Nothing is known yet: no reward has been seen."

    def details(self) -> str:
        """Return the weights of the models, the coverage of the intervals, and who is misled, in words."""
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
        """Return everything as plain JSON values; NaN and infinity become None."""
        table = asdict(self) | dict(without=self.without, difference=self.difference)
        table["coverage"] = {str(level): share for level, share in self.coverage.items()}
        table["trail"] = [step._asdict() for step in self.trail]
        table["misled"] = [entry._asdict() for entry in self.misled]
        table |= dict(verdict=self.verdict.as_table(), answer=self.verdict.answer, sentence=self.finding())
        plain: dict[str, Any] = _plain(table)
        return plain


def graph_report(state: AdaptiveState, graph: UserGraph, verdict: Verdict | None = None) -> Report:
    """Return the report of a policy with this state on this graph; with a `verdict`, the graph is not judged again."""
    rounds, best, weight = int(state.rewards[0]), best_evidence(state), model_weights(state)
    shares = weight[ALONE].sum(), weight[EVERYONE].sum(), weight[GRAPH:].sum()
    sigma = sqrt(mean_noise(state.evidence, weight)) if rounds else float("nan")
    return Report(
        verdict=judge_state(state, graph, sigma) if verdict is None else verdict,
        rounds=rounds,
        counted=float(state.evidence.mass[0]),
        with_graph=float(best[2]),
        everyone=float(best[EVERYONE]),
        alone=float(best[ALONE]),
        weights={kind: float(share) for kind, share in zip(("alone", "everyone", "graph"), shares, strict=True)},
        strength=effective_strength(state, weight),
        sigma=sigma,
        coverage={level: int(n) / rounds if rounds else float("nan") for level, n in zip(LEVELS, state.inside, strict=True)},
        trail=tuple(Step(int(row[0]), *row[1:].tolist()) for row in state.trail if row[0] > 0),
        misled=misled_users(state, graph),
    )


def best_evidence(state: AdaptiveState) -> Floats:
    """Return the largest log evidence among the models alone, around a common vector, and with the graph."""
    fit = np.empty_like(state.evidence.squares)
    write_log_evidence(state.evidence, fit)
    return np.array([fit[ALONE].max(), fit[EVERYONE].max(), fit[GRAPH:].max()])


def judge_state(state: AdaptiveState, graph: UserGraph, sigma: float, seed: int = 0) -> Verdict:
    """Judge the graph by the sums that a policy keeps, as `diagnose` does by a log.

    A policy does not know which rewards were the later ones. The sums b_i of Gaussian rewards are split at random in place of
    that: s b + e and (1 - s) b - e are independent for e ~ N(0, s (1 - s) σ² A) (thinning, Neufeld et al. 2024).
    """
    if not state.rewards[0]:
        return Verdict("not clear", 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, (), graph.n_users, graph.n_edges, 0)
    users = users_to_judge(graph.adjacency, graph.n_users, seed, JUDGED_USERS)
    gram, response = state.seen.gram[users], state.seen.bias[users]
    n_rewards = float(state.seen.visits[users].sum())
    variance, noise = float(state.rewards[2] / max(1.0, state.rewards[0])), 0.0 if np.isnan(sigma) else sigma
    values, axes = np.linalg.eigh(gram)
    draws = np.random.default_rng(seed).standard_normal(response.shape) * np.sqrt(np.maximum(values, 0.0))
    extra = noise * sqrt(EARLIER * (1.0 - EARLIER)) * (axes @ draws[:, :, None])[:, :, 0]
    solid = values > 1e-9 * values.max(initial=1e-300)
    parts = []
    for share, sign in ((EARLIER, 1.0), (1.0 - EARLIER, -1.0)):
        part = share * response + sign * extra
        along = (axes.transpose(0, 2, 1) @ part[:, :, None])[:, :, 0]  # Σ y² is what least squares explain, and the noise left
        squares = float((along[solid] ** 2 / (share * values[solid])).sum()) + noise**2 * max(
            0.0, share * n_rewards - solid.sum()
        )
        parts.append(UserSums(share * gram, part, squares))
    judge = Judge(parts[0], parts[1], max(EARLIER * n_rewards, float(solid.sum())), (1.0 - EARLIER) * n_rewards, variance)
    return judge.verdict(sparse.csr_array(graph.adjacency[users][:, users]), seed=seed)


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
    """Return the value without NaN, infinity and NumPy types, which JSON does not have."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if isfinite(value) else None
    return value if value is None or isinstance(value, str | int | bool) else str(value)
