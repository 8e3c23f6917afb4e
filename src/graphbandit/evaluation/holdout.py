"""Analysis of a holdout experiment, in a running service or from its exports: both arms, their difference, and a verdict.

The policy in force is the *treatment*, its shadow the *control*. A decision counts for the arm that its user was drawn
for, if it came after the experiment began and after the user joined; so does its reward, whenever it comes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from .anytime_interval import (
    FEWEST_CLUSTERS,
    FEWEST_DECISIONS,
    FEWEST_REWARDED,
    ClusterSums,
    Difference,
    difference,
    scale_for,
)

ALPHA = 0.05
"""Probability that the interval ever misses the difference."""
FILES = ("decisions.parquet", "rewards.parquet", "experiment.parquet")


def holdout_report(folder: str | Path, alpha: float = ALPHA) -> dict[str, Any]:
    """Return the `holdout_table` of an experiment from a folder of exported files.

    The files are decisions.parquet, rewards.parquet and experiment.parquet.
    """
    decisions, rewards, users = (pq.read_table(Path(folder) / name).to_pydict() for name in FILES)
    assigned = dict(zip(users["user"], zip(users["cluster"], users["since"], strict=True), strict=True))
    n_clusters = max(users["cluster"], default=-1) + 1
    sums, is_control = np.zeros((3, n_clusters)), np.zeros(n_clusters, dtype=bool)
    is_control[users["cluster"]] = users["is_control"]
    counted: dict[str, int] = {}  # decision: cluster
    for name, user in zip(decisions["decision"], decisions["user"], strict=True):
        cluster, since = assigned.get(user, (-1, 0))
        if cluster >= 0 and int(name.split(".")[1]) > since:
            counted[name] = cluster
            sums[0, cluster] += 1
    for name, value in zip(rewards["decision"], rewards["reward"], strict=True):
        if name in counted:
            sums[1, counted[name]] += value
            sums[2, counted[name]] += value != 0.0
    arms = [ClusterSums(*sums[:, is_control == is_held_out]) for is_held_out in (False, True)]
    variance = difference(arms[0], arms[1], None, alpha).variance
    return holdout_table(arms[0], arms[1], None if variance is None else scale_for(variance, alpha), alpha)


def holdout_table(treatment: ClusterSums, control: ClusterSums, scale: float | None, alpha: float) -> dict[str, Any]:
    """Return both arms, the difference of their mean rewards per decision, and what its interval says, as JSON values.

    >>> arm = ClusterSums(np.full(12, 30.0), np.full(12, 6.0), np.full(12, 6.0))
    >>> holdout_table(arm, arm, 1.0, 0.05)["verdict"]
    'too early'
    """
    measured = difference(treatment, control, scale, alpha)
    return {
        "treatment": _arm(treatment),
        "control": _arm(control),
        "difference": {"estimate": measured.estimate, "low": measured.low, "high": measured.high},
        "verdict": verdict(measured),
        "sentence": sentence(measured),
    }


def verdict(measured: Difference) -> str:
    """Return whether the treatment is `better`, `worse` or `undecided`; `too early` without an interval."""
    if measured.low is None or measured.high is None:
        return "too early"
    return "better" if measured.low > 0 else "worse" if measured.high < 0 else "undecided"


def sentence(measured: Difference) -> str:
    """Describe the interval in a sentence."""
    if measured.low is None or measured.high is None:
        return (
            f"There is no interval yet: each arm needs decisions in {FEWEST_CLUSTERS} clusters, {FEWEST_DECISIONS} decisions, "
            f"and {FEWEST_REWARDED} rewards that are not 0."
        )
    span = f"by {min(abs(measured.low), abs(measured.high)):.3g} to {max(abs(measured.low), abs(measured.high)):.3g} a decision"
    if measured.low > 0:
        return f"The treatment earns more than the control, {span}."
    if measured.high < 0:
        return f"The treatment earns less than the control, {span}."
    return f"No difference can be seen: it lies between {measured.low:.3g} and {measured.high:.3g} a decision."


def _arm(sums: ClusterSums) -> dict[str, Any]:
    decisions = float(sums.decisions.sum())
    return {
        "clusters": len(sums.decisions),
        "active_clusters": int((sums.decisions > 0).sum()),
        "decisions": int(decisions),
        "mean": float(sums.rewards.sum()) / decisions if decisions else None,
    }
