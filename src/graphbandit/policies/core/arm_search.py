"""The best arms of a catalogue without the scores of all of them, and yet the same ones, to the bit.

Of a policy whose scores are xᵀθ + b and scale · √φ(xᵀMx + σ² v), with the effect b and variance v of the arm's item, `outline`
writes θ, M and the numbers in φ. For a ball of arms with centre c and radius r

    xᵀθ ≤ cᵀθ + r ‖θ‖    and    √(xᵀMx) ≤ ‖Lᵀc‖ + r √λ,    M ≤ L Lᵀ, λ the largest eigenvalue of M.

Blocks of arms (`arm_blocks`) are looked at by falling bounds, until no bound reaches the k-th best arm found. Their arms are
scored in single precision, with a bound on the rounding. What may be among the k best, ties included, or have the largest
mean is then scored by the policy itself, as in a full scan.
"""

from __future__ import annotations

from functools import partial
from math import inf, sqrt
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...compute.arrays import Floats, Ints
from ...compute.compiler import compiled
from . import kernels
from .arm_blocks import BLOCK, Blocks, Singles
from .item_effects import ItemEffects, item_effect
from .score_bounds import SLACK, Lens, bound_blocks, focus, least_grown, most_grown, multiply_block, widths_of_block

GIVEN_UP = -1


class Asked(NamedTuple):
    """Arms to search, and what the policy needs to score them."""

    table: Floats  # (versions, d), features
    ids: Ints  # (versions,), items
    effects: ItemEffects  # those of the policy, or none
    blocks: Blocks
    mask: npt.NDArray[np.uint8]  # (versions,), 1 for arms that may be found; empty if all may


class FoundArms(NamedTuple):
    """Arms with scores by the policy. First `counts[0]` that may be the best, then up to `counts[1]` of the largest means."""

    version: Ints  # (room,)
    mean: Floats  # (room,)
    bonus: Floats  # (room,)
    counts: Ints  # (4,), the two above, blocks looked at, and arms whose bonus was computed in single precision


@compiled
def search(state: Any, user: int, asked: Asked, k: int, found: FoundArms) -> int:
    """Find the `k` best arms for a user; returns the number of arms with scores, or GIVEN_UP if there is no room for them."""
    dim = asked.table.shape[1]
    theta, metric, form = np.empty(dim), np.empty((dim, dim)), np.zeros(5)
    kernels.outline(state, user, theta, metric, form)
    n = find(theta, metric, form, asked, k, found)
    if n <= 0:
        return n
    many = max(n, dim)  # a policy may score fewer arms than features in another way
    arms, items = np.empty((many, dim)), np.empty(many, np.int64)
    mean, bonus = np.empty(many), np.empty(many)
    for a in range(many):
        version = found.version[a if a < n else 0]
        items[a] = asked.ids[version]
        for j in range(dim):
            arms[a, j] = asked.table[version, j]
    kernels.score_items(state, user, arms, items, mean, bonus)
    for a in range(n):
        found.mean[a], found.bonus[a] = mean[a], bonus[a]
        if not abs(mean[a] + bonus[a]) < inf:
            return GIVEN_UP
    return n


class Top(NamedTuple):
    """The best arms of many users, one row for each, best first."""

    version: Ints  # (n, k); -1 in the first place of a user whose search was given up
    mean: Floats  # (n, k)
    bonus: Floats  # (n, k)


@partial(compiled, nogil=True)
def search_many(state: Any, users: Ints, asked: Asked, order: Ints, found: FoundArms, top: Top) -> None:
    """`search` for many users; of arms with equal scores the one that is first by `order` comes first.

    `order` has a number for each version; `found` is room to work in. Without the interpreter lock: all cores search at once.
    """
    k = top.version.shape[1]
    for i in range(users.shape[0]):
        if search(state, users[i], asked, k, found) == GIVEN_UP:
            top.version[i, 0] = GIVEN_UP
            continue
        for place in range(k):
            best, most = place, found.mean[place] + found.bonus[place]
            for a in range(place + 1, found.counts[0]):
                value = found.mean[a] + found.bonus[a]
                if value > most or (value == most and order[found.version[a]] < order[found.version[best]]):
                    best, most = a, value
            top.version[i, place], top.mean[i, place], top.bonus[i, place] = (
                found.version[best],
                found.mean[best],
                found.bonus[best],
            )
            found.version[best], found.mean[best], found.bonus[best] = (
                found.version[place],
                found.mean[place],
                found.bonus[place],
            )


# Searching


@compiled
def sift_down(heap: Ints, keys: Floats, n: int, place: int) -> None:
    """Restore the order of a heap whose largest key is first, below one place."""
    moving = heap[place]
    while 2 * place + 1 < n:
        child = 2 * place + 1
        if child + 1 < n and keys[heap[child + 1]] > keys[heap[child]]:
            child += 1
        if not keys[heap[child]] > keys[moving]:
            break
        heap[place] = heap[child]
        place = child
    heap[place] = moving


@compiled
def keep_best(best: Floats, value: float) -> None:
    """Replace the smallest of the best values, which is the first of a heap."""
    place, n = 0, best.shape[0]
    while 2 * place + 1 < n:
        child = 2 * place + 1
        if child + 1 < n and best[child + 1] < best[child]:
            child += 1
        if not best[child] < value:
            break
        best[place] = best[child]
        place = child
    best[place] = value


class Candidates(NamedTuple):
    """Arms that may be what is searched for, with the most that they can score."""

    version: Ints
    most: Floats
    n: Ints  # (1,)


@compiled
def add_candidate(candidates: Candidates, version: int, most: float, least: float) -> bool:
    """Add an arm; if there is no room, drop those that score less than `least` first. False if there still is none."""
    if candidates.n[0] == candidates.version.shape[0]:
        drop_below(candidates, least)
        if 2 * candidates.n[0] > candidates.version.shape[0]:
            return False
    candidates.version[candidates.n[0]], candidates.most[candidates.n[0]] = version, most
    candidates.n[0] += 1
    return True


@compiled
def drop_below(candidates: Candidates, least: float) -> None:
    """Drop arms that cannot score so much."""
    kept = 0
    for k in range(candidates.n[0]):
        if candidates.most[k] >= least:
            candidates.version[kept], candidates.most[kept] = candidates.version[k], candidates.most[k]
            kept += 1
    candidates.n[0] = kept


class Progress(NamedTuple):
    """What has been found so far."""

    best: Floats  # (k,), at most the scores of the k best, the smallest first
    mean: Floats  # (1,), at most the largest mean
    good: Candidates  # for the k best
    high: Candidates  # for the largest mean
    scratch: Singles  # (3, BLOCK)


@compiled
def scan_block(lens: Lens, asked: Asked, b: int, bonus: float, progress: Progress, counts: Ints) -> bool:
    """Look at the arms of a block whose bonuses are at most `bonus`; False if there is no room for candidates."""
    blocks, masked = asked.blocks, asked.mask.shape[0] > 0
    mean, width, part = progress.scratch[0], progress.scratch[1], progress.scratch[2]
    multiply_block(blocks.x[b], lens.theta, mean)
    counts[2] += 1
    have_widths, length, least = False, blocks.longest[b], progress.mean[0]
    if bonus >= 0.0:
        least = min(least, progress.best[0] - bonus)
    if lens.with_items:
        least -= blocks.effect[b] + SLACK * abs(blocks.effect[b])
    least -= lens.mean_error * length + SLACK * (abs(least) + lens.norm * length)
    lowest = np.float32(least / lens.norm if lens.norm > 0.0 else -inf)
    lowest -= np.float32(1e-6) * abs(lowest)
    for a in range(blocks.filled[b]):
        if mean[a] < lowest:
            continue
        version = blocks.version[b, a]
        if masked and asked.mask[version] == 0:
            continue
        length = float(blocks.length[b, a])
        effect, spread = item_effect(asked.effects, blocks.item[b, a]) if lens.with_items else (0.0, 0.0)
        value, error = float(mean[a]) * lens.norm + effect, lens.mean_error * length
        error += SLACK * (abs(value) + abs(effect))
        if value + error >= progress.mean[0]:
            progress.mean[0] = max(progress.mean[0], value - error)
            if not add_candidate(progress.high, version, value + error, progress.mean[0]):
                return False
        if bonus < 0.0 or value + error + bonus < progress.best[0]:
            continue
        if not have_widths:
            widths_of_block(blocks.x[b], lens.factor, part, width)
            have_widths = True
        counts[3] += 1
        side, apart = sqrt(float(width[a])) * lens.size, lens.width_error * length
        low, high = max(0.0, side - apart) ** 2 + lens.noise * spread, (side + apart) ** 2 + lens.noise * spread
        most = lens.scale * sqrt(most_grown(low, high, lens.noise, lens.rounds, lens.growth, lens.peak))
        most = value + error + most * (1.0 + SLACK)
        if most >= progress.best[0]:
            least = lens.scale * sqrt(least_grown(low, high, lens.noise, lens.rounds, lens.growth))
            least = value - error + least * (1.0 - SLACK)
            if least > progress.best[0]:
                keep_best(progress.best, least)
            if not add_candidate(progress.good, version, most, progress.best[0]):
                return False
    return True


@compiled
def find(theta: Floats, metric: Floats, form: Floats, asked: Asked, k: int, found: FoundArms) -> int:
    """Write the arms that may be among the `k` best and then those that may have the largest mean; returns how many."""
    room, blocks, counts = found.version.shape[0], asked.blocks, found.counts
    n_blocks = blocks.used[0]
    for i in range(4):
        counts[i] = 0
    lens = focus(theta, metric, form)
    finite = lens.norm + lens.size + lens.scale + lens.noise + lens.stretch + lens.width_error
    if n_blocks == 0 or not finite < inf or lens.scale < 0.0:
        return GIVEN_UP
    values, means, bonuses, heap = np.empty(n_blocks), np.empty(n_blocks), np.empty(n_blocks), np.arange(n_blocks)
    bound_blocks(lens, blocks, means, bonuses)
    for b in range(n_blocks):
        values[b] = means[b] + bonuses[b]
    progress = Progress(
        np.full(k, -inf),
        np.full(1, -inf),
        Candidates(np.empty(room, np.int64), np.empty(room), np.zeros(1, np.int64)),
        Candidates(np.empty(room, np.int64), np.empty(room), np.zeros(1, np.int64)),
        np.empty((3, BLOCK), np.float32),
    )
    for place in range(n_blocks // 2 - 1, -1, -1):
        sift_down(heap, values, n_blocks, place)
    left = n_blocks
    while left > 0 and values[heap[0]] >= progress.best[0] and values[heap[0]] > -inf:
        b = heap[0]
        if not scan_block(lens, asked, b, bonuses[b], progress, counts):
            return GIVEN_UP
        means[b] = -inf
        left -= 1
        heap[0] = heap[left]
        sift_down(heap, values, left, 0)
    for place in range(left):
        b = heap[place]
        if means[b] >= progress.mean[0] and means[b] > -inf and not scan_block(lens, asked, b, -1.0, progress, counts):
            return GIVEN_UP
    drop_below(progress.good, progress.best[0])
    drop_below(progress.high, progress.mean[0])
    n, high = progress.good.n[0], progress.high.n[0]
    if n < k or n + high > room:
        return GIVEN_UP
    for a in range(n):
        found.version[a] = progress.good.version[a]
    for a in range(high):
        found.version[n + a] = progress.high.version[a]
    counts[0], counts[1] = n, n + high
    return int(n + high)
