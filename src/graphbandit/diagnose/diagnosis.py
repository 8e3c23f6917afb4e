"""`diagnose`: a log is learned with the graph and with its users shuffled, and each is compared
with no graph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..compute.arrays import Floats, Ints
from ..display import as_html
from ..graph import UserGraph
from ..policies import AdaptiveGraphUCB
from ..policies.adaptive.graph_report import CLEAR, Report, effective_strength, evidence_difference, model_weights, times
from ..policies.adaptive.policy import ALPHAS
from ..validate import POSITIVE, check, count, optional
from .reward_log import RewardLog
from .shuffle_test import ENOUGH_SHUFFLES, ShuffleTest, shuffle_test

POINTS = 400  # of a curve
Verdict = Literal["too few", "too few shuffles", "helps", "no better than shuffled", "no difference", "hurts"]
Progress = Callable[[int, int], None]
"""`progress(rows done, rows in all)`; the log is learned once for the graph and once for every
shuffle.
"""


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """Evidence of a log for or against a graph. Curves have a point at each of `rounds`; log evidence is in
    nats.
    """

    report: Report  # of a policy that has learned the whole log with the graph
    rounds: Ints  # (points,)
    difference: Floats  # (points,), log evidence with the graph minus that of the best model without it
    shuffled: Floats  # (shuffles, points), the same on graphs with the users shuffled
    strength: Floats  # (points,), effective strength of the graph
    n_users: int  # of the log
    n_edges: int
    seed: int

    @property
    def over_shuffled(self) -> float:
        """Log evidence with the graph minus the median of the shuffled ones, in nats.

        The median does not move away as shuffles are added, as the best of them would.
        """
        return float(self.difference[-1] - np.median(self.shuffled[:, -1]))

    @property
    def shuffle_test(self) -> ShuffleTest:
        """The test of the graph against its shuffles, at a nominal level of 5 %."""
        return shuffle_test(float(self.difference[-1]), self.shuffled[:, -1])

    @property
    def beats_shuffled(self) -> bool:
        """Return True if the graph passes the test and is better than the median shuffle by 3 nats."""
        return self.over_shuffled > CLEAR and self.shuffle_test.passes

    @property
    def verdict(self) -> Verdict:
        """The verdict of the report; to help, a graph must also be better than shuffled ones."""
        verdict = self.report.verdict
        if verdict != "helps" or self.beats_shuffled:
            return verdict
        return "too few shuffles" if self.shuffle_test.basis == "none" else "no better than shuffled"

    def __repr__(self) -> str:
        sizes = f"{self.n_users:,} users, {self.n_edges:,} edges, {self.report.rounds:,} rounds, {len(self.shuffled)} shuffles"
        return f"Diagnosis({self.verdict!r}, {sizes})"

    def __str__(self) -> str:
        return f"{self.finding()} {self.report.details()}"

    def _repr_html_(self) -> str:
        return as_html(self.finding(), *self.evidence_table(), [self.report.details()])

    def evidence_table(self) -> tuple[list[str], list[tuple[str, str, str, str]]]:
        """Return headings and rows of a table: log evidence with the graph, with shuffled ones and without a graph."""
        report, ends = self.report, self.shuffled[:, -1]
        shuffled = {"best": ends.max(), "median": np.median(ends), "worst": ends.min()}
        evidence = {"with the graph": report.with_graph}
        evidence |= {f"shuffled, {name} of {len(ends)}": report.without + float(end) for name, end in shuffled.items()}
        evidence |= {"without: everyone alike": report.everyone, "without: everyone alone": report.alone}
        gains = {name: value - report.without for name, value in evidence.items()}
        counted = max(report.counted, 1.0)
        rows = [(name, f"{evidence[name]:,.1f}", f"{more:+,.1f}", f"{more / counted:+.4f}") for name, more in gains.items()]
        return ["log evidence, in nats", "total", "against none", "a round"], rows

    def finding(self) -> str:
        """The verdict as a sentence."""
        report, n = self.report, len(self.shuffled)
        if self.verdict == "too few":
            return report.finding()
        after, control = f"after {report.rounds:,} rounds the rewards are", f"the median of {n} graphs with its users shuffled"
        rate = f"{abs(report.per_round):.2g} nats a round"
        if self.verdict == "helps":
            return (
                f"Your graph helps: {after} {times(report.difference)} as likely with it as without it ({rate}), "
                f"and {times(self.over_shuffled)} as likely as with {control} ({self.shuffle_test}): it matters who is joined "
                "to whom."
            )
        if self.verdict == "too few shuffles":
            return (
                f"Your graph helps, but a shuffled one might help as much: {after} {times(report.difference)} as likely with "
                f"it as without it ({rate}). One shuffle cannot tell; {ENOUGH_SHUFFLES} can."
            )
        if self.verdict == "no better than shuffled":
            return (
                f"Your graph helps no more than a shuffled one: {after} {times(report.difference)} as likely with it as "
                f"without it ({rate}), but so they are when its users are shuffled ({self._range()}; {self.shuffle_test}). "
                "Users are alike; that it matters who is joined to whom is not shown."
            )
        how = (
            f"Your graph does not help: {after} about as likely with it as without it ({report.difference:+.1f} nats)"
            if self.verdict == "no difference"
            else f"Your graph hurts: {after} {times(-report.difference)} as likely without it as with it ({rate})"
        )
        return f"{how}{self._shuffled_clause(control)} {self._instead()}"

    def _range(self) -> str:
        ends = self.shuffled[:, -1]
        return f"{ends.min():+,.1f} to {ends.max():+,.1f} nats"

    def _shuffled_clause(self, control: str) -> str:
        if self.beats_shuffled:
            lead = f"{times(self.over_shuffled)} more than {control} ({self.shuffle_test})"
            return f". It does say something about who resembles whom, {lead}."
        return f", and not clearly better with it than with its users shuffled ({self._range()}; {self.shuffle_test})."

    def _instead(self) -> str:
        alike = self.report.everyone - self.report.alone
        if alike > CLEAR:
            return "Users are alike, whoever they are joined to: one common model with room for differences does best."
        return "Users are best learned each alone." if alike < -CLEAR else "Nor does it matter much whether users are alike."

    def as_table(self) -> dict[str, Any]:
        """Everything as plain JSON values."""
        ends = self.shuffled[:, -1].tolist()
        counted = max(self.report.counted, 1.0)
        return {
            "verdict": self.verdict,
            "sentence": str(self),
            "users": self.n_users,
            "edges": self.n_edges,
            "seed": self.seed,
            "report": self.report.as_table(),
            "shuffled": {
                "difference": ends,
                "per_round": [end / counted for end in ends],
                "beaten_by": self.over_shuffled,
                "beaten": self.beats_shuffled,
                "p": self.shuffle_test.p,
                "basis": self.shuffle_test.basis,
            },
            "curves": {
                "round": self.rounds.tolist(),
                "difference": self.difference.tolist(),
                "shuffled": self.shuffled.tolist(),
                "strength": self.strength.tolist(),
            },
        }


def diagnose(
    log: RewardLog,
    graph: UserGraph,
    *,
    half_life: float | None = None,
    shuffles: int = ENOUGH_SHUFFLES,
    seed: int = 0,
    progress: Progress = lambda done, total: None,
) -> Diagnosis:
    """Let `AdaptiveGraphUCB` learn a log on the graph, and on graphs with its users shuffled, and
    compare the evidence.

    Parameters
    ----------
    log : RewardLog
        In order of time. The model has no intercept: add a feature that is always 1 if rewards do
        not average to zero.
    graph : UserGraph
        It must contain the users of the log; it may have more.
    half_life : float, optional
        For tastes that drift, as in `AdaptiveGraphUCB`.
    shuffles : int
        Number of shuffled graphs to compare with. From 19 on, the verdict rests on the rank of the
        graph among them, at a level of 5 %; with 2 to 18 on a t test that takes them as normal; one
        is not enough for a verdict. Only users of the log change places: if their
        data were moved to users without any, the control would have less information than the
        graph.
    seed : int
        Seed of the shuffles.

    Examples
    --------
    >>> from graphbandit import graphs, signals
    >>> graph = graphs.watts_strogatz(40, 4, 0.1, seed=0)
    >>> rng = np.random.default_rng(2)
    >>> user, features = rng.integers(40, size=800), signals.unit_arms(800, 3, seed=3)
    >>> tastes = signals.smooth(graph, 3, gamma=7, seed=1)
    >>> reward = (features * tastes[user]).sum(axis=1) + 0.3 * rng.standard_normal(800)
    >>> diagnose(RewardLog(user, features, reward), graph).verdict
    'helps'
    """
    check("shuffles", shuffles, count())
    check("seed", seed, count(0))
    check("half_life", half_life, optional(POSITIVE))
    if not len(log):
        raise ValueError("log has no rows: there is nothing to learn from.")
    user = log.rows_of(graph)
    active = np.unique(user)
    total = len(log) * (1 + shuffles)
    stops = np.unique(np.linspace(0, len(log), min(POINTS, len(log)) + 1).round().astype(np.int64))[1:]

    def learn(rows: Ints, before: int) -> tuple[AdaptiveGraphUCB, Floats, Floats]:
        policy = AdaptiveGraphUCB(graph, log.dim, alphas=strengths(log), half_life=half_life)
        difference, strength, start = np.empty(len(stops)), np.empty(len(stops)), 0
        for point, stop in enumerate(stops.tolist()):
            policy.update_many(rows[start:stop], log.features[start:stop], log.reward[start:stop])
            difference[point] = evidence_difference(policy.state)
            strength[point] = effective_strength(policy.state, model_weights(policy.state))
            progress(before + stop, total)
            start = stop
        return policy, difference, strength

    policy, difference, strength = learn(user, 0)
    rng, others = np.random.default_rng(seed), []
    for shuffle in range(shuffles):
        place = np.arange(graph.n_users)  # shuffling the users has the same effect as shuffling the nodes of the graph
        place[active] = rng.permutation(active)
        others.append(learn(place[user], len(log) * (1 + shuffle))[1])
    return Diagnosis(policy.report(), stops, difference, np.array(others), strength, len(active), graph.n_edges, int(seed))


def strengths(log: RewardLog) -> list[float]:
    """The grid of graph strengths of AdaptiveGraphUCB, which assumes features of norm 1, scaled to
    this log.
    """
    square = float((log.features**2).sum(axis=1).mean())
    return [tau * (square or 1.0) for tau in ALPHAS]
