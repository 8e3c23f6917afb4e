"""Estimates of what a fixed policy π earns, from rounds that another policy logged.

| symbol | argument | |
|---|---|---|
| π(a) | `target` | probability that the policy would have chosen what was shown |
| p | `propensity` | probability with which it was shown |
| w = π(a) / p | `weight` | importance weight: how much more frequent the round is under π than in the log |
| q(a) | `predicted` | a model's reward for what was shown |
| Σ_b π(b) q(b) | `expected` | the model's reward for what π would do |

Each estimate is the mean of one number ψ for every round, and its standard error is that of a mean:

    IPS     ψ = w r                           unbiased if p is right
    SNIPS   V = Σ w r / Σ w                   ψ = V + (w / mean(w)) (r - V), the delta method
    DR      ψ = Σ_b π(b) q(b) + w (r - q(a))  unbiased if p or q is right

Horvitz & Thompson 1952; Swaminathan & Joachims 2015; Dudík, Langford & Li 2011.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compute.arrays import Floats, Ints

NORMAL = 1.959963984540054  # half the width of a 95 % interval, in standard errors


class Estimate(NamedTuple):
    """A mean with its standard error and 95 % interval."""

    value: float
    error: float
    width: float = NORMAL  # half the interval, in standard errors

    def __str__(self) -> str:
        if not np.isfinite(self.value):
            return "–"
        return f"{self.value:.4f} [{self.low:.4f}, {self.high:.4f}]" if np.isfinite(self.error) else f"{self.value:.4f}"

    @property
    def low(self) -> float:
        """Lower end of the interval."""
        return self.value - self.width * self.error

    @property
    def high(self) -> float:
        """Upper end of the interval."""
        return self.value + self.width * self.error

    def as_table(self) -> dict[str, float | None]:
        """Return plain JSON values."""
        parts = dict(value=self.value, error=self.error, low=self.low, high=self.high)
        return {name: value if np.isfinite(value) else None for name, value in parts.items()}


def mean(psi: Floats, groups: Ints | None = None) -> Estimate:
    """Return the mean and its standard error.

    With `groups`, the error is clustered: rounds of one group may depend on each other.

    >>> mean(np.array([1.0, 2.0, 3.0]))  # doctest: +ELLIPSIS
    Estimate(value=2.0, error=0.57735..., width=4.302...)
    """
    n, value = len(psi), float(psi.mean()) if len(psi) else np.nan
    left = psi - value if groups is None else np.bincount(np.unique(groups, return_inverse=True)[1], weights=psi - value)
    k = len(left)
    error = float(np.sqrt((left**2).sum() * k / (k - 1)) / n) if k > 1 else np.nan
    return Estimate(value, error, student_width(np.asarray(left, dtype=np.float64)))


def student_width(left: Floats) -> float:
    """Return half the width of a 95 % interval in standard errors, by Student's t.

    The standard error is estimated from the same rounds. It is uncertain if some rounds have large
    weights: the variance of a variance grows with the kurtosis κ. The degrees of freedom have the same
    uncertainty: 2 k / (κ - 1), at most k - 1. They are nearly k for many normal values.
    """
    from scipy.special import stdtrit  # slow to import

    k, squares = len(left), float((left**2).sum())
    if k < 2 or squares == 0.0 or not np.isfinite(squares):
        return NORMAL
    excess = k * float((left**4).sum()) / squares**2 - 1  # κ - 1, at least 0
    return float(stdtrit(max(1.0, min(k - 1.0, 2 * k / excess if excess > 0 else k)), 0.975))


def ips(weight: Floats, reward: Floats) -> Floats:
    """Return the (rounds,) ψ of inverse propensity scoring."""
    return weight * reward


def snips(weight: Floats, reward: Floats) -> Floats:
    """Return the (rounds,) ψ of self-normalised IPS; NaN if all weights are 0."""
    if not weight.any():
        return np.full(len(weight), np.nan)
    value = (weight * reward).sum() / weight.sum()
    return np.asarray(value + weight / weight.mean() * (reward - value))


def doubly_robust(weight: Floats, reward: Floats, predicted: Floats, expected: Floats) -> Floats:
    """Return the (rounds,) ψ of the doubly robust estimate."""
    return expected + weight * (reward - predicted)


class Overlap(NamedTuple):
    """Measures of how much evidence a log has about a policy."""

    rounds: int
    effective: float  # effective sample size
    outcomes: float  # effective number of rounds with the rarer reward, see `outcomes`
    matched: float  # mean of π(a): how often the policy agrees with the log
    largest: float  # weight
    average: Estimate  # mean weight; 1 if the log covers all choices of the policy


def overlap(weight: Floats, target: Floats, reward: Floats) -> Overlap:
    """Return diagnostics of the importance weights."""
    sizes = effective_size(weight), outcomes(weight, reward)
    return Overlap(len(weight), *sizes, float(target.mean()), float(weight.max()), mean(weight))


def effective_size(weight: Floats) -> float:
    """Return the effective sample size, (Σ w)² / Σ w² (Kish 1965).

    That many rounds of equal weight would have the same precision.
    """
    squares = float((weight**2).sum())
    return float(weight.sum()) ** 2 / squares if squares else 0.0


def outcomes(weight: Floats, reward: Floats) -> float:
    """Return the effective number of rounds that had the rarer of two rewards.

    The mean of a few clicks is not normally distributed. With more than two different rewards all rounds
    count. The result is 0 if all rounds with a weight have the same reward, because their spread is then
    unknown.

    >>> outcomes(np.array([1.0, 1.0, 2.0, 0.0]), np.array([1.0, 0.0, 0.0, 1.0]))
    1.0
    """
    seen = weight > 0
    values, counts = np.unique(reward[seen], return_counts=True)
    if len(values) < 2:
        return 0.0
    rare = seen if len(values) > 2 else seen & (reward == values[counts.argmin()])
    return effective_size(weight[rare])
