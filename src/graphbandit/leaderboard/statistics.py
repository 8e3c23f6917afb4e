"""Tests of which policies may be the best, and intervals of mean ranks."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from ..compute.arrays import Flags, Floats

LEVEL = 0.05
"""Family-wise error rate: the largest share of boards of equal policies in which any is called worse."""
RESAMPLES = 1000


def level_with_best(regret: Floats) -> list[bool]:
    """Return whether each policy is level with the best, from (policies, seeds) regret at the horizon.

    Every pair of policies is compared by a t test paired over seeds, with Holm's adjustment for the number of
    all pairs. The best is chosen by its mean on the same seeds. This choice looks at all pairs, so an
    adjustment for the comparisons with the best alone would not suffice.
    """
    mean = regret.mean(axis=1)
    best = int(mean.argmin())
    first, second = np.triu_indices(len(regret), k=1)
    rejected = holm(paired_p(regret[first] - regret[second]))
    worse = {int(j if i == best else i) for i, j in zip(first[rejected], second[rejected], strict=True) if best in (i, j)}
    return [policy not in worse for policy in range(len(regret))]


def paired_p(difference: Floats) -> Floats:
    """Return two-sided p-values of Student's t test of each row, (tests, seeds); 1 for a single seed or equal policies."""
    from scipy.stats import ttest_1samp  # slow to import

    with warnings.catch_warnings(action="ignore"):  # of a single seed, and of rows without spread
        return np.asarray(np.nan_to_num(ttest_1samp(difference, 0.0, axis=1).pvalue, nan=1.0))


def holm(p: Floats) -> Flags:
    """Return which hypotheses Holm's procedure rejects.

    It rejects in order of p while the k-th smallest of m is at most LEVEL / (m − k + 1).

    >>> holm(np.array([0.04, 0.01, 0.03]))
    array([False,  True, False])
    """
    order = np.argsort(p)
    passed = np.logical_and.accumulate(p[order] <= LEVEL / np.arange(len(p), 0, -1))
    rejected = np.zeros(len(p), dtype=bool)
    rejected[order] = passed
    return rejected


def ranks(values: Floats | Sequence[float]) -> Floats:
    """Return places along the first axis: 1 for the least; equal values share the mean of their places.

    >>> ranks([3.0, 1.0, 3.0])
    array([2.5, 1. , 2.5])
    """
    from scipy.stats import rankdata  # slow to import

    return np.asarray(rankdata(values, axis=0))


def mean_rank_intervals(worlds: Sequence[tuple[Floats, Floats]]) -> Floats:
    """Return the (policies, 2) ends of the 95 % bootstrap interval of every mean rank.

    A world has the (policies, seeds) regret, with NaN where a policy did not run, and the (policies,)
    place that such a policy counts as. Seeds are resampled, the same in all worlds; worlds are not,
    so that intervals speak of these worlds only.
    """
    if not worlds:
        return np.empty((0, 2))
    n = worlds[0][0].shape[1]
    drawn = np.random.default_rng(0).integers(n, size=(RESAMPLES, n))
    total = np.zeros((len(worlds[0][0]), RESAMPLES))
    for regret, last in worlds:
        ran = ~np.isnan(regret[:, 0])
        total[ran] += ranks(regret[ran][:, drawn].mean(axis=2))
        total[~ran] += last[~ran, None]
    return np.quantile(total / len(worlds), [LEVEL / 2, 1 - LEVEL / 2], axis=1).T
