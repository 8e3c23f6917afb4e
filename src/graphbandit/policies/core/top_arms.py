"""The best arms of a large catalogue, without scoring all of them exactly.

A policy with a `belief` scores an arm x with item effect b and effect variance v as

    xᵀθ + b + β √(xᵀ S x + v).

`ArmDirections` keeps u = x / ‖x‖ of every arm in single precision. One pass over these bounds every score from above: first by
uᵀθ and the largest eigenvalue of S, then by a few leading eigenvectors of S, with the next eigenvalue for all other directions.
Only arms whose bound reaches the k-th largest lower bound so far are bounded from both sides in double precision. The arms that
are left are returned, for the policy to score exactly: an upper bound is never below the score that the policy computes, so the
k best, ties included, and the arm with the largest mean are always among them.

Margins, relative to ‖x‖ ‖θ‖ and ‖x‖ √λ₁ with λ₁ the largest eigenvalue of S and ε = 2⁻²⁴: an inner product of d terms in single
precision is wrong by at most (d + 4) ε; rounding u to single precision changes a score by at most ε; computing xᵀSx in double
precision changes it by less than δ = d² 10⁻¹⁵. `TINY` covers what is too small for double precision.
"""

from __future__ import annotations

from math import inf, sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...compute.arrays import Floats, Ints
from ...compute.compiler import compiled, without_lock
from ...validate import as_floats, check_features, check_items
from .decisions import Belief
from .item_effects import ItemEffects, has_effects, item_effect

if TYPE_CHECKING:
    from .policy import Policy

LEAST_ARMS = 2000
"""Fewer arms are scored in full, which takes as long."""
LEAST_SHARE = 20
"""At most 1/LEAST_SHARE of the eligible arms may be wanted, and at least 1/LEAST_SHARE of the rows must be eligible."""
BLOCK = 64  # arms whose features are next to each other, so that the processor treats several at once
LEADING = 8  # eigenvectors of S in the second bound
EPSILON, SLACK, TINY, HUGE = 2.0**-24, 1e-12, 1e-150, 1e150

Singles = npt.NDArray[np.float32]
Mask = npt.NDArray[np.uint8]


def is_worth_searching(eligible: int, k: int, rows: int) -> bool:
    """Return True if a search for `k` of so many eligible arms, among all rows, is faster than scoring them."""
    return eligible >= LEAST_ARMS and LEAST_SHARE * k <= eligible and LEAST_SHARE * eligible >= rows


def best_first(values: Floats, luck: Floats, k: int) -> Ints:
    """Return the positions of the `k` largest values, best first; of equal values the one with the most luck is first."""
    worst = np.partition(values, len(values) - k)[len(values) - k]
    tied = np.flatnonzero(~(values < worst))  # to sort all of many arms would take longest
    return np.asarray(tied[np.lexsort((-luck[tied], -values[tied]))[:k]])


class ArmDirections:
    """Directions of arms in single precision, their lengths and items, by row. An arm that changes is a row that changes."""

    def __init__(self, dim: int) -> None:
        self.dim = dim
        self.x: Singles = np.zeros((0, dim, BLOCK), np.float32)
        self.length = np.zeros((0, BLOCK))
        self.item = np.full((0, BLOCK), -1)
        self.longest = 0.0

    def put(self, rows: Ints, arms: Floats, items: Ints) -> None:
        """Write the arms of some rows; amortised O(1) a row."""
        more = int(rows.max(initial=-1)) // BLOCK + 1 - len(self.x)
        if more > 0:
            more = max(more, len(self.x) // 2)
            self.x = np.concatenate([self.x, np.zeros((more, self.dim, BLOCK), np.float32)])
            self.length = np.concatenate([self.length, np.zeros((more, BLOCK))])
            self.item = np.concatenate([self.item, np.full((more, BLOCK), -1)])
        size = np.abs(arms).max(axis=1, initial=0.0)[:, None]  # squares of very small or large features would be 0 or infinite
        unit = np.divide(arms, size, out=np.zeros(arms.shape), where=size > 0.0)
        norm = np.sqrt(np.einsum("ij,ij->i", unit, unit))[:, None]
        block, place, length = rows // BLOCK, rows % BLOCK, (size * norm)[:, 0]
        self.x[block, :, place] = np.divide(unit, norm, out=unit, where=norm > 0.0)
        self.length[block, place], self.item[block, place] = length, items
        self.longest = max(self.longest, float(length.max(initial=0.0)))

    def contenders(self, belief: Belief, effects: ItemEffects, eligible: Mask, k: int) -> Ints | None:
        """Return the rows that may be among the `k` best or have the largest mean; None if a full scan is the better way.

        `eligible` has a 1 for each row that may be chosen; there must be at least `k`.
        """
        theta, S, beta = belief
        norm = float(np.linalg.norm(theta))
        if not np.isfinite(S).all() or not 0.0 <= beta < HUGE or not self.longest * norm < HUGE:
            return None
        S = 0.5 * (S + S.T)
        values, vectors = np.linalg.eigh(S)
        largest = max(float(values[-1]), -float(values[0]), 0.0)
        if not self.longest * sqrt(largest) * (1.0 + beta) < HUGE:
            return None
        shares = np.maximum(values[::-1] / largest, 0.0) if largest > 0.0 else np.zeros(len(values))
        r = min(LEADING, self.dim - 1)
        leading = vectors[:, ::-1][:, :r] * np.sqrt(shares[:r] - shares[r])
        user = UserBounds(
            (theta / norm if norm > 0.0 else theta).astype(np.float32),
            np.ascontiguousarray(leading.T.astype(np.float32)),
            float(shares[r]),
            theta,
            S,
            norm,
            sqrt(largest),
            float(beta),
        )
        room = max(len(eligible) // 8, 4 * k, 64)
        found = Contenders(np.empty(room, np.int64), np.empty(room), np.empty(room))
        n = find_contenders(self.x, self.length, self.item, eligible, user, effects, k, found)
        return found.row[:n] if n >= k else None


class ArmCatalogue:
    """An (m, dim) array of arms that `Policy.rank` need not score one by one.

    Parameters
    ----------
    arms : (m, dim) array
    items : m integers from 0 on, -1 if unknown, optional
        Ids of the arms.

    Examples
    --------
    >>> from graphbandit import LinUCB, graphs
    >>> policy = LinUCB(graphs.empty(1), 2, exploration=0.1)
    >>> policy.update(0, [1.0, 0.0], 1.0)
    >>> policy.rank(0, ArmCatalogue([[1.0, 0.0], [0.0, 1.0]]), 1).tolist()
    [0]
    """

    def __init__(self, arms: npt.ArrayLike, *, items: npt.ArrayLike | None = None) -> None:
        features = as_floats(arms, "arms")
        self.arms = check_features(features, features.shape[1] if features.ndim == 2 else 0)
        self.items = check_items(items, len(self.arms))
        self._directions = ArmDirections(self.arms.shape[1])
        rows = np.arange(len(self.arms))
        self._directions.put(rows, self.arms, self.items if len(self.items) else np.full(len(rows), -1))
        self._eligible: Mask = np.ones(len(rows), np.uint8)

    def __len__(self) -> int:
        return len(self.arms)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """Return the arms, for policies that score all of them."""
        return np.array(self.arms, dtype=dtype, copy=copy)

    def contenders(self, policy: Policy, user: int, k: int) -> Ints | None:
        """Return the rows that may be among the `k` best; None if all must be scored."""
        belief = policy.belief(user)
        return None if belief is None else self._directions.contenders(belief, policy.item_table, self._eligible, k)


class UserBounds(NamedTuple):
    """What the bounds of one user are computed from."""

    direction: Singles  # (d,), θ / ‖θ‖
    leading: Singles  # (r, d), √(λᵢ - λᵣ₊₁) / √λ₁ times the eigenvectors
    rest: float  # λᵣ₊₁ / λ₁
    theta: Floats
    S: Floats
    norm: float  # ‖θ‖
    root: float  # √λ₁
    beta: float


class Contenders(NamedTuple):
    """Arms that may be the best, with upper bounds."""

    row: Ints
    value: Floats  # of mean + bonus
    mean: Floats


@compiled
def multiply_block(x: Singles, direction: Singles, out: Singles) -> None:
    """Write the inner products of the arms of a block with a direction."""
    for a in range(BLOCK):
        out[a] = x[0, a] * direction[0]
    for j in range(1, direction.shape[0]):
        here = direction[j]
        for a in range(BLOCK):
            out[a] += x[j, a] * here


@compiled
def replace_least(heap: Floats, value: float) -> None:
    """Replace the smallest number of a heap, which is its first."""
    place = 0
    while 2 * place + 1 < heap.shape[0]:
        child = 2 * place + 1
        if child + 1 < heap.shape[0] and heap[child + 1] < heap[child]:
            child += 1
        if not heap[child] < value:
            break
        heap[place], place = heap[child], child
    heap[place] = value


@compiled
def drop_below(found: Contenders, n: int, value: float, mean: float) -> int:
    """Keep the contenders that reach one of two thresholds, and return how many do."""
    kept = 0
    for c in range(n):
        if found.value[c] >= value or found.mean[c] >= mean:
            found.row[kept], found.value[kept], found.mean[kept] = found.row[c], found.value[c], found.mean[c]
            kept += 1
    return kept


@compiled
def scan_blocks(
    x: Singles, length: Floats, item: Ints, eligible: Mask, user: UserBounds, effects: ItemEffects, k: int, found: Contenders
) -> int:
    """Write the contenders and return their number; -1 if there are too many."""
    dim, beta, root, norm = x.shape[1], user.beta, user.root, user.norm
    with_items, rows, n = has_effects(effects), eligible.shape[0], 0
    single, delta = (dim + 4) * EPSILON, dim * dim * 1e-15
    apart = (1.0 + sqrt(user.leading.shape[0])) * single + sqrt(delta)
    mean, width, part = np.empty(BLOCK, np.float32), np.empty(BLOCK, np.float32), np.empty(BLOCK, np.float32)
    effect, spread, most, high = np.zeros(BLOCK), np.zeros(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    u, product = np.empty(dim), np.empty(dim)
    best, best_mean = np.full(k, -inf), -inf
    for b in range((rows + BLOCK - 1) // BLOCK):
        multiply_block(x[b], user.direction, mean)
        if with_items:
            for a in range(BLOCK):
                effect[a], spread[a] = item_effect(effects, item[b, a])
        left, here = 0, min(BLOCK, rows - b * BLOCK)
        for step in range(2):
            left = 0
            for a in range(BLOCK):
                if step == 0:
                    width[a] = 1.0
            if step == 1:
                for a in range(BLOCK):
                    width[a] = user.rest
                for i in range(user.leading.shape[0]):
                    multiply_block(x[b], user.leading[i], part)
                    for a in range(BLOCK):
                        width[a] += part[a] * part[a]
            for a in range(BLOCK):
                high[a] = length[b, a] * norm * (mean[a] + single) + effect[a]
                high[a] += SLACK * abs(effect[a]) + TINY
                side = length[b, a] * root * (sqrt(width[a]) + apart)
                most[a] = high[a] + beta * (sqrt(side * side + spread[a]) * (1.0 + SLACK) + TINY)
            for a in range(here):
                left += eligible[b * BLOCK + a] & ((most[a] >= best[0]) | (high[a] >= best_mean))
            if left == 0:
                break
        if left == 0:
            continue
        for a in range(here):
            if eligible[b * BLOCK + a] == 0 or not (most[a] >= best[0] or high[a] >= best_mean):
                continue
            for j in range(dim):
                u[j], product[j] = x[b, j, a], 0.0
            along, square = 0.0, 0.0
            for j in range(dim):
                along += u[j] * user.theta[j]
                for i in range(dim):
                    product[i] += user.S[j, i] * u[j]
            for j in range(dim):
                square += u[j] * product[j]
            size, extra = length[b, a], root * root * delta
            middle = size * along + effect[a]
            error = size * norm * (EPSILON + SLACK) + SLACK * (abs(middle) + abs(effect[a])) + TINY
            low_side = size * max(0.0, sqrt(max(0.0, square - extra)) - root * 2.0 * EPSILON)
            side = size * (sqrt(max(0.0, square) + extra) + root * 2.0 * EPSILON)
            low = middle - error + beta * (sqrt(low_side * low_side + spread[a]) * (1.0 - SLACK) - TINY)
            top = middle + error + beta * (sqrt(side * side + spread[a]) * (1.0 + SLACK) + TINY)
            if top < best[0] and middle + error < best_mean:
                continue
            best_mean = max(best_mean, middle - error)
            if low > best[0]:
                replace_least(best, low)
            if n == found.row.shape[0]:
                n = drop_below(found, n, best[0], best_mean)
                if 2 * n > found.row.shape[0]:
                    return -1
            found.row[n], found.value[n], found.mean[n] = b * BLOCK + a, top, middle + error
            n += 1
    return drop_below(found, n, best[0], best_mean)


find_contenders = without_lock(scan_blocks)
