"""The best arms of a large catalogue, without scoring all of them exactly.

A policy with a `belief` scores an arm x, whose item has the effect b with the variance v, as xᵀθ + b + β √(xᵀ S x + v).
`ArmDirections` keeps u = x / ‖x‖ of every arm in single precision. One pass bounds all scores from above: by uᵀθ and the
largest eigenvalue of S, then by the leading eigenvectors of S and the next eigenvalue. Arms that reach the k-th largest lower
bound are then bounded in double precision. The policy scores what is left: the k best, with ties, and the largest mean.

Relative to ‖x‖ ‖θ‖, or ‖x‖ √λ₁ with λ₁ the largest eigenvalue of S, an inner product of d terms in single precision is wrong
by at most (d + 4) ε, ε = 2⁻²⁴, and rounding u changes a score by at most ε. Relative to ‖x‖² λ₁, double precision changes
xᵀ S x by less than δ = d² 10⁻¹⁵. `TINY` is larger than what double precision takes for 0.
"""

from __future__ import annotations

from functools import partial
from heapq import heapreplace
from math import inf, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ...compute.arrays import Floats, Ints
from ...compute.compiler import compiled
from ...validate import as_floats, check_features, check_items
from .item_effects import ItemEffects, has_effects, item_effect
from .kernels import Belief

if TYPE_CHECKING:
    from .policy import Policy

LEAST_ARMS, LEAST_SHARE = 2000, 20  # fewer arms are scored in full, which takes as long
BLOCK, FEW = 64, 4  # arms that are bounded together, and so few of them that each is bounded by itself
LEADING, SAMPLE = 8, 32  # eigenvectors of S in the second bound; one of so many blocks is looked at first
EPSILON, SLACK, TINY, HUGE = 2.0**-24, 1e-12, 1e-150, 1e150

Singles = npt.NDArray[np.float32]
Mask = npt.NDArray[np.uint8]
Arms = tuple[Singles, Floats, Ints, Mask]


def is_worth_searching(eligible: int, k: int, rows: int) -> bool:
    """Return True if a search for `k` of the eligible arms, among all rows, is faster than scoring the eligible arms."""
    return eligible >= LEAST_ARMS and LEAST_SHARE * k <= eligible and LEAST_SHARE * eligible >= rows


def best_first(values: Floats, luck: Floats, k: int) -> Ints:
    """Return the positions of the `k` largest values, best first; of equal values the one with the most luck is first."""
    worst = np.partition(values, len(values) - k)[len(values) - k]
    tied = np.flatnonzero(~(values < worst))  # to sort all of many arms would take longest
    return np.asarray(tied[np.lexsort((-luck[tied], -values[tied]))[:k]])


class ArmDirections:
    """Directions of arms in single precision, their lengths and items, by row. An arm that changes is a row that changes."""

    def __init__(self, dim: int) -> None:
        self.x: Singles = np.zeros((0, dim, BLOCK), np.float32)
        self.length, self.item, self.longest = np.zeros((0, BLOCK)), np.zeros((0, BLOCK), np.int64), 0.0

    def put(self, rows: Ints, arms: Floats, items: Ints) -> None:
        """Write the arms of some rows; amortised O(1) a row."""
        more = int(rows.max(initial=-1)) // BLOCK + 1 - len(self.x)
        if more > 0:
            more = max(more, len(self.x) // 2)
            self.x = np.concatenate([self.x, np.zeros((more, *self.x.shape[1:]), np.float32)])
            self.length, self.item = (np.concatenate([a, np.zeros((more, BLOCK), a.dtype)]) for a in (self.length, self.item))
        size = np.abs(arms).max(axis=1, initial=0.0)[:, None]  # squares of very small features would be 0
        scaled = np.divide(arms, size, out=np.zeros(arms.shape), where=size > 0.0)
        norm = np.sqrt(np.einsum("ij,ij->i", scaled, scaled))[:, None]
        block, place, length = rows // BLOCK, rows % BLOCK, (size * norm)[:, 0]
        self.x[block, :, place] = np.divide(scaled, norm, out=scaled, where=norm > 0.0)
        self.length[block, place], self.item[block, place] = length, items
        self.longest = max(self.longest, float(length.max(initial=0.0)))

    def contenders(self, belief: Belief, effects: ItemEffects, eligible: Mask, k: int) -> Ints | None:
        """Return the rows, of those with `eligible` = 1, that may be the `k` best or have the largest mean; None: score all."""
        theta, beta, norm = belief.theta, float(belief.beta), float(np.linalg.norm(belief.theta))
        if not np.isfinite(belief.S).all() or not 0.0 <= beta < HUGE or not self.longest * norm < HUGE:
            return None
        S = 0.5 * (belief.S + belief.S.T)
        values, vectors = np.linalg.eigh(S)
        largest = float(np.abs(values).max())
        if not self.longest * sqrt(largest) * (1.0 + beta) < HUGE:
            return None
        r, shares = min(LEADING, len(theta) - 1), np.maximum(values[::-1], 0.0) / (largest or 1.0)
        leading = vectors[:, ::-1][:, :r] * np.sqrt(shares[:r] - shares[r])
        axes = np.vstack([theta / (norm or 1.0), leading.T]).astype(np.float32)
        room = max(len(eligible) // 4, 4 * k, 64)
        row, upper, arms = np.empty(room, np.int64), np.empty((2, room)), (self.x, self.length, self.item, eligible)
        scales = np.array([norm, sqrt(largest), shares[r]])
        n, *least = find_contenders(arms, Belief(theta, S, beta), axes, scales, effects, k, row, upper)
        return row[:n][(upper[0, :n] >= least[0]) | (upper[1, :n] >= least[1])] if n >= k else None


class ArmCatalogue:
    """An (m, dim) array of arms, with the ids of their items if they have any, that `Policy.rank` need not score one by one.

    >>> from graphbandit import LinUCB, graphs
    >>> LinUCB(graphs.empty(1), 2).rank(0, ArmCatalogue([[0.0, 0.1], [0.0, 1.0]]), 1).tolist()
    [1]
    """

    def __init__(self, arms: npt.ArrayLike, *, items: npt.ArrayLike | None = None) -> None:
        features = as_floats(arms, "arms")
        self.arms = check_features(features, features.shape[1] if features.ndim == 2 else 0)
        self.items = check_items(items, len(self.arms))
        self._directions, self._eligible = ArmDirections(self.arms.shape[1]), np.ones(len(self.arms), np.uint8)
        self._directions.put(np.arange(len(self.arms)), self.arms, self.items if len(self.items) else np.array(-1))

    def __len__(self) -> int:
        return len(self.arms)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.array(self.arms, dtype=dtype, copy=copy)

    def contenders(self, policy: Policy, user: int, k: int) -> Ints | None:
        """Return the rows that may be among the `k` best; None if all must be scored."""
        belief = policy.search_belief(user)
        return None if belief is None else self._directions.contenders(belief, policy.item_table, self._eligible, k)


@compiled
def multiply_block(x: Singles, direction: Singles, out: Singles) -> None:
    """Write the inner products of the arms of a block with a direction."""
    for a in range(BLOCK):
        out[a] = x[0, a] * direction[0]
    for j in range(1, direction.shape[0]):
        for a in range(BLOCK):
            out[a] += x[j, a] * direction[j]


@partial(compiled, nogil=True)
def find_contenders(
    arms: Arms, belief: Belief, axes: Singles, scales: Floats, effects: ItemEffects, k: int, row: Ints, upper: Floats
) -> tuple[int, float, float]:
    """Write contenders with upper bounds; return their number, -1 if there are too many, and the lower bounds to reach.

    `axes` are θ / ‖θ‖ and r eigenvectors of S times √((λᵢ - λᵣ₊₁) / λ₁); `scales` are ‖θ‖, √λ₁ and λᵣ₊₁ / λ₁.
    """
    (x, length, item, eligible), (theta, S, beta), norm, root, rest = arms, belief, scales[0], scales[1], scales[2]
    dim, n_blocks, n, best, best_mean = x.shape[1], min(x.shape[0], -(-eligible.shape[0] // BLOCK)), 0, [-inf] * k, -inf
    single, delta = (dim + 4) * EPSILON, dim * dim * 1e-15
    apart = (1.0 + sqrt(axes.shape[0])) * single + sqrt(delta)
    mean, width, part = np.empty(BLOCK, np.float32), np.empty(BLOCK, np.float32), np.empty(BLOCK, np.float32)
    effect, spread, top, high = np.zeros(BLOCK), np.zeros(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    u, product, with_items = np.empty(dim), np.empty(dim), has_effects(effects)
    for turn in range(2 * n_blocks):  # a sample first: rows may be sorted by how good their arms are
        b = turn % n_blocks
        if (b % SAMPLE == 0) != (turn < n_blocks):
            continue
        left, here = 0, min(BLOCK, eligible.shape[0] - b * BLOCK)
        multiply_block(x[b], axes[0], mean)
        for a in range(here if with_items else 0):
            effect[a], spread[a] = item_effect(effects, item[b, a])
        for step in range(2):  # without and with the leading eigenvectors
            for a in range(BLOCK):
                width[a] = rest if step else 1.0
            for i in range(1, axes.shape[0] if step else 0):
                multiply_block(x[b], axes[i], part)
                for a in range(BLOCK):
                    width[a] += part[a] * part[a]
            for a in range(BLOCK):
                side = length[b, a] * root * (sqrt(width[a]) + apart)
                high[a] = length[b, a] * norm * (mean[a] + single) + effect[a] + SLACK * abs(effect[a]) + TINY
                top[a] = high[a] + beta * (sqrt(side * side + spread[a]) * (1.0 + SLACK) + TINY)
            left, least = 0, best[0]
            for a in range(here):
                left += eligible[b * BLOCK + a] & ((top[a] >= least) | (high[a] >= best_mean))
            if left <= FEW:
                break
        for a in range(here if left else 0):
            if eligible[b * BLOCK + a] == 0 or not (top[a] >= best[0] or high[a] >= best_mean):
                continue
            along, square = 0.0, 0.0
            for j in range(dim):
                u[j], product[j] = x[b, j, a], 0.0
            for j in range(dim):
                along += u[j] * theta[j]
                for i in range(dim):
                    product[i] += S[j, i] * u[j]
            for j in range(dim):
                square += u[j] * product[j]
            size, extra, middle = length[b, a], root * root * delta, length[b, a] * along + effect[a]
            error = size * norm * (EPSILON + SLACK) + SLACK * (abs(middle) + abs(effect[a])) + TINY
            low_side = size * max(0.0, sqrt(max(0.0, square - extra)) - 2.0 * EPSILON * root)
            side = size * (sqrt(max(0.0, square) + extra) + 2.0 * EPSILON * root)
            low = middle - error + beta * (sqrt(low_side * low_side + spread[a]) * (1.0 - SLACK) - TINY)
            most, most_mean = middle + error + beta * (sqrt(side * side + spread[a]) * (1.0 + SLACK) + TINY), middle + error
            if most < best[0] and most_mean < best_mean:
                continue
            if n == row.shape[0]:
                return -1, 0.0, 0.0
            row[n], upper[0, n], upper[1, n] = b * BLOCK + a, most, most_mean
            n, best_mean = n + 1, max(best_mean, middle - error)
            if low > best[0]:
                heapreplace(best, low)
    return n, best[0], best_mean
