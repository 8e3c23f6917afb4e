"""`HoldoutExperiment`: the users who get the control policy, and the rewards of both arms.

The policy in force is the *treatment*, shown to most users; its shadow is the *control*, shown to the holdout. Whole
clusters of users are drawn, and the draw does not change. A decision counts for the arm of its user (intention to
treat) if it came after the experiment began and after the user joined; so does its reward, whenever it comes. All of
this follows from the events and is part of the state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from ...compute.arrays import Floats
from ...evaluation import anytime_interval
from ...evaluation.anytime_interval import ClusterSums, Difference
from ...evaluation.holdout import ALPHA, holdout_table
from ...storage import archive
from .user_clusters import is_newcomer_held_out

LOOK_EVERY = 50  # decisions, until there is a first interval
HEADER_FIELDS = ("begun", "at", "share", "guardrail", "alpha", "seed", "cut", "n_decisions", "scale", "users")


class HoldoutExperiment:
    """A running experiment.

    >>> body = {"share": 0.5, "guardrail": None, "seed": 0, "cut": 0.0, "clusters": [0, 0, 1], "holdout": [1]}
    >>> experiment = HoldoutExperiment(7, 0, body)
    >>> [experiment.holds_out(row) for row in range(3)]
    [False, False, True]
    >>> experiment.decided(2)
    >>> experiment.rewarded(2, decision=8, value=1.0)
    >>> experiment.sums(of_holdout=True).rewards.tolist()
    [1.0]
    """

    def __init__(self, begun: int, at: int, body: Mapping[str, Any]) -> None:
        self.begun, self.at = begun, at  # number and time of the event that began it
        self.share: float = body["share"]
        self.guardrail: float | None = body["guardrail"]  # by how much the treatment may be worse
        self.alpha: float = body.get("alpha", ALPHA)
        self.seed: int = body["seed"]
        self.cut: float = body["cut"]
        drawn = set(body["holdout"])
        self.clusters: list[int] = list(body["clusters"])  # of each row
        self.since = [begun] * len(self.clusters)  # decisions of the row count from this event on
        self.is_holdout = [cluster in drawn for cluster in range(max(self.clusters, default=-1) + 1)]
        self.decisions = [0.0] * len(self.is_holdout)
        self.rewards = [0.0] * len(self.is_holdout)
        self.non_zero = [0.0] * len(self.is_holdout)
        self.users = [0, 0]  # drawn for treatment and control, those who have left since included
        for cluster in self.clusters:
            self.users[self.is_holdout[cluster]] += 1
        self.n_decisions = 0
        self.scale: float | None = None  # ρ of the interval, set at the first one

    def holds_out(self, row: int) -> bool:
        """Return True if a user gets the control policy."""
        return 0 <= row < len(self.clusters) and self.is_holdout[self.clusters[row]]

    def joined(self, row: int, name: str, seq: int, near: Mapping[int, float]) -> None:
        """Assign a new row to the cluster of its strongest neighbour; without neighbours, to a cluster drawn by a hash."""
        if row != len(self.clusters):
            return  # it is there already
        known = {other: weight for other, weight in near.items() if other < row}
        if known:
            cluster = self.clusters[max(known, key=lambda other: (known[other], -other))]
        else:
            cluster = len(self.is_holdout)
            self.is_holdout.append(is_newcomer_held_out(name, self.share, self.seed))
            for sums in (self.decisions, self.rewards, self.non_zero):
                sums.append(0.0)
        self.clusters.append(cluster)
        self.since.append(seq)
        self.users[self.is_holdout[cluster]] += 1

    def decided(self, row: int) -> None:
        """Count a decision; set the scale of the interval as soon as there can be one."""
        if not 0 <= row < len(self.clusters):
            return
        self.decisions[self.clusters[row]] += 1.0
        self.n_decisions += 1
        if self.scale is None and self.n_decisions % LOOK_EVERY == 0:
            variance = self.difference().variance
            self.scale = None if variance is None else anytime_interval.scale_for(variance, self.alpha)

    def rewarded(self, row: int, decision: int, value: float) -> None:
        """Count the reward of a decision that counted; to take a reward back, pass its negative."""
        if 0 <= row < len(self.clusters) and decision > self.since[row]:
            cluster = self.clusters[row]
            self.rewards[cluster] += value
            self.non_zero[cluster] += value != 0.0

    def sums(self, of_holdout: bool) -> ClusterSums:
        """Return decisions and rewards of each cluster of one arm."""
        chosen = np.array(self.is_holdout, dtype=bool) == of_holdout
        return ClusterSums(*(np.array(sums)[chosen] for sums in (self.decisions, self.rewards, self.non_zero)))

    def difference(self) -> Difference:
        """Return the mean reward per decision of the treatment minus that of the control, with its interval."""
        return anytime_interval.difference(self.sums(False), self.sums(True), self.scale, self.alpha)

    def is_breached(self, found: Difference) -> bool:
        """Return True if the interval shows that the treatment is worse than the control by more than the guardrail."""
        return self.guardrail is not None and found.high is not None and found.high < -self.guardrail

    def table(self, treatment: str | None, control: str | None) -> dict[str, Any]:
        """Return the experiment as JSON values, with these names of the two policies."""
        found = holdout_table(self.sums(False), self.sums(True), self.scale, self.alpha)
        for number, (arm, policy) in enumerate((("treatment", treatment), ("control", control))):
            found[arm] = {"policy": policy, "users": self.users[number]} | found[arm]
        facts = {"event": self.begun, "time": self.at / 1e6, "share": self.share, "alpha": self.alpha, "cut": self.cut}
        return facts | {"guardrail": self.guardrail, "is_breached": self.is_breached(self.difference())} | found

    # Snapshots.

    def pack(self) -> tuple[dict[str, Any], archive.Arrays]:
        """Return the header and the arrays of a snapshot."""
        header = {name: getattr(self, name) for name in HEADER_FIELDS}
        header |= {"users": list(self.users)}
        sums: Floats = np.array([self.decisions, self.rewards, self.non_zero]).reshape(3, -1)
        rows = np.array([self.clusters, self.since], dtype=np.int64).reshape(2, -1)
        return header, {"sums": sums, "rows": rows, "holdout": np.array(self.is_holdout, dtype=bool)}

    @classmethod
    def unpack(cls, header: Mapping[str, Any], arrays: archive.Arrays) -> Self:
        """Return the experiment with the header and the arrays from `pack`."""
        experiment = cls(0, 0, {**header, "clusters": [], "holdout": []})
        for name in HEADER_FIELDS:
            setattr(experiment, name, header[name])
        experiment.clusters, experiment.since = (row.tolist() for row in arrays["rows"])
        experiment.is_holdout = arrays["holdout"].tolist()
        experiment.decisions, experiment.rewards, experiment.non_zero = (row.tolist() for row in arrays["sums"])
        return experiment


def experiment_body(
    clusters: Sequence[int], holdout: Sequence[int], share: float, guardrail: float | None, seed: int, cut: float
) -> dict[str, Any]:
    """Return the body of EXPERIMENT_BEGUN.

    Clusters and draw are in it, so that a replay does not depend on how they were computed.
    """
    drawn = dict(clusters=list(clusters), holdout=list(holdout))
    return dict(share=share, guardrail=guardrail, alpha=ALPHA, seed=seed, cut=cut) | drawn
