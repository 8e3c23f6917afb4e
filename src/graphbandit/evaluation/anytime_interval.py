"""The difference of two means, with an interval that holds at all times at once.

The unit is a cluster of users.

Cluster c has made N_c decisions and earned S_c. An arm's mean is m = ΣS/ΣN over its clusters, its
cluster-robust variance K/(K-1) Σ(S_c - m N_c)² / (ΣN)²; V is the sum of both arms' variances, and
D the difference of their means.

Clusters differ permanently. So with more and more decisions D converges not to the true difference
δ but to δ plus the random effect of the assignment of clusters to arms, and V converges to the
variance s² of that effect. With noise of variance σ²/t at time t, Cov(D_t, D_u) = s² + σ²/u = V_u
for t ≤ u. So (D - δ)/V has the covariance min(1/V_t, 1/V_u) of a Brownian motion whose clock is the
information 1/V. The clock advances with every decision, at most to 1/s². Robbins' normal mixture
bounds a Brownian motion W at all times:

    P(some τ: |W(τ)| ≥ √((τ + ρ) log((τ + ρ) / (ρ α²)))) ≤ α, for any ρ > 0.

With τ = 1/V, |D - δ| < √V · b holds at all times with probability 1 - α, where
b = √((1 + ρV) log((1 + ρV) / (ρV α²))). V is estimated from few clusters, so b is replaced by the
quantile of Student's distribution that lies as far in its tail. ρ says where the interval is
tightest, and must not be chosen by looking: it is set once, at the first interval.

The interval is asymptotic in the number of clusters (Waudby-Smith et al., Time-uniform central
limit theory and asymptotic confidence sequences, Annals of Statistics 2024). Measured coverage:
docs/howto/shadow.md, benchmarks/interval_coverage.py.
"""

from __future__ import annotations

from math import log
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

from ..compute.arrays import Floats

FEWEST_CLUSTERS = 10
"""Clusters with decisions that each arm must have before an interval is shown, in number and, if
they are unequal, in effect."""
FEWEST_DECISIONS = 200
"""Decisions that each arm must have."""
FEWEST_REWARDED = 20
"""Decisions of each arm whose reward is not 0: the variance of a few clicks is unknown."""
AHEAD = 4.0
"""The interval is tightest at this multiple of the information of the first interval."""


class ClusterSums(NamedTuple):
    """Decisions and rewards of the clusters of one arm so far; the last axis is the cluster."""

    decisions: Floats
    rewards: Floats  # sum
    rewarded: Floats  # decisions whose reward is not 0


class ArmMean(NamedTuple):
    """The mean reward per decision of an arm, and its uncertainty."""

    mean: Floats
    variance: Floats  # cluster-robust, of the mean
    effective: Floats  # number of equal clusters with the same precision: (ΣN)² / ΣN²
    is_ready: npt.NDArray[np.bool_]  # whether there is enough for an interval


class Difference(NamedTuple):
    """The treatment's mean minus the control's: an estimate, and an interval if there is enough data."""

    estimate: float | None
    variance: float | None
    low: float | None = None
    high: float | None = None


def arm_mean(sums: ClusterSums) -> ArmMean:
    """Return the mean reward per decision with its cluster-robust variance; NaN without decisions.

    >>> sums = ClusterSums(np.full(10, 30.0), np.arange(10.0), np.arange(10.0))
    >>> arm = arm_mean(sums)
    >>> float(arm.mean), round(float(arm.variance), 5), float(arm.effective), bool(arm.is_ready)
    (0.15, 0.00102, 10.0, True)
    """
    active = sums.decisions > 0
    count, total = active.sum(axis=-1), sums.decisions.sum(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = sums.rewards.sum(axis=-1) / total
        apart = ((sums.rewards - mean[..., None] * sums.decisions) ** 2).sum(axis=-1)
        variance = count / (count - 1.0) * apart / total**2
        effective = total**2 / (sums.decisions**2).sum(axis=-1)
    enough = (total >= FEWEST_DECISIONS) & (sums.rewarded.sum(axis=-1) >= FEWEST_REWARDED)
    ready = (count >= FEWEST_CLUSTERS) & (effective >= 0.5 * FEWEST_CLUSTERS) & enough & (variance > 0)
    return ArmMean(mean, variance, effective, ready)


def degrees_of_freedom(one: ArmMean, other: ArmMean) -> Floats:
    """Return Satterthwaite's degrees of freedom, from the effective numbers of clusters."""
    spread = one.variance**2 / (one.effective - 1.0) + other.variance**2 / (other.effective - 1.0)
    return np.asarray((one.variance + other.variance) ** 2 / spread)


def scale_for(variance: float, alpha: float) -> float:
    """Return ρ for an experiment whose first interval has this variance.

    The interval is tightest at AHEAD times the information of that moment.
    """
    return AHEAD / variance / (2.0 * log(1.0 / alpha) + log(1.0 + 2.0 * log(1.0 / alpha)))


def boundary(variance: Floats, freedom: Floats, scale: Floats | float, alpha: float) -> Floats:
    """Return the half-width of the interval in standard errors.

    >>> float(boundary(np.array(1.0), np.array(1e9), scale_for(1.0, 0.05), 0.05).round(2))
    3.26
    """
    share = np.asarray(scale * variance)
    with np.errstate(divide="ignore"):
        normal = np.sqrt((1.0 + share) * np.log((1.0 + share) / (share * alpha**2)))
    tail = np.maximum(special.ndtr(-normal), 1e-300)
    return np.asarray(-special.stdtrit(freedom, tail))


def difference(treatment: ClusterSums, control: ClusterSums, scale: float | None, alpha: float) -> Difference:
    """Return the difference of mean rewards per decision.

    It has an interval if both arms have enough data and `scale` is set.
    """
    one, other = arm_mean(treatment), arm_mean(control)
    estimate, variance = float(one.mean - other.mean), float(one.variance + other.variance)
    if not np.isfinite(estimate):
        return Difference(None, None)
    if not (one.is_ready and other.is_ready):
        return Difference(estimate, None)
    if scale is None:
        return Difference(estimate, variance)
    half = float(np.sqrt(variance) * boundary(np.array(variance), degrees_of_freedom(one, other), scale, alpha))
    return Difference(estimate, variance, estimate - half, estimate + half)
