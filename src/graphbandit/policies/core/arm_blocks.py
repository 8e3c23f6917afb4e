"""Arms in blocks of similar ones, laid out so that a processor scores several at once.

A block has up to `BLOCK` arms: a centre c, a radius r with ‖x - c‖ ≤ r for all of them, and their features in single
precision, one feature of all arms after the other. Centres are laid out in the same way. `arm_search` bounds a block by its
centre and radius, and looks at its arms only if the bound says that one of them may be among the best.

A new arm goes to the block with the nearest centre, which is divided if it is full. So a change costs about as much as the
arms in a block, and a look at the centres.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...compute.arrays import Floats, Ints
from ...compute.compiler import compiled
from .item_effects import ItemEffects, item_effect

BLOCK = 64
"""Arms in a block, and blocks whose centres are laid out together."""
SAMPLE = 64  # rows that say in which direction the arms of a node differ most
ROUNDING = 6.0e-8  # of single precision, relative
TINY = 1e-30  # rounding of numbers too small for single precision is far below it

Singles = npt.NDArray[np.float32]


class Blocks(NamedTuple):
    """The arms of a catalogue; arrays have room for more blocks than are used."""

    x: Singles  # (blocks, d, BLOCK)
    length: Singles  # (blocks, BLOCK), ‖x‖, rounded up
    version: Ints  # (blocks, BLOCK), row of the table of features
    item: Ints  # (blocks, BLOCK)
    centre: Singles  # (blocks / BLOCK, d, BLOCK)
    radius: Floats  # (blocks,)
    longest: Floats  # (blocks,), the largest ‖x‖
    filled: Ints  # (blocks,), arms
    effect: Floats  # (blocks,), at least the effect of each item
    spread: Floats  # (blocks,), at least the variance of each effect, in units of σ²
    used: Ints  # (1,), blocks
    place: Ints  # (items,), block · BLOCK + position, or -1


def empty_blocks(dim: int, room: int, n_items: int) -> Blocks:
    """No arms, and room for so many blocks."""
    room = -(-max(room, 1) // BLOCK) * BLOCK
    return Blocks(
        x=np.zeros((room, dim, BLOCK), np.float32),
        length=np.zeros((room, BLOCK), np.float32),
        version=np.full((room, BLOCK), -1),
        item=np.full((room, BLOCK), -1),
        centre=np.zeros((room // BLOCK, dim, BLOCK), np.float32),
        radius=np.zeros(room),
        longest=np.zeros(room),
        filled=np.zeros(room, np.int64),
        effect=np.zeros(room),
        spread=np.zeros(room),
        used=np.zeros(1, np.int64),
        place=np.full(n_items, -1),
    )


def with_room(blocks: Blocks, more: int) -> Blocks:
    """The same with room for at least so many more blocks; amortised O(1) a block."""
    wanted = int(blocks.used[0]) + more
    if wanted <= len(blocks.radius):
        return blocks
    bigger = empty_blocks(blocks.x.shape[1], max(wanted, len(blocks.radius) + len(blocks.radius) // 4), 0)
    for name in ("x", "length", "version", "item", "centre", "radius", "longest", "filled", "effect", "spread"):
        getattr(bigger, name)[: len(getattr(blocks, name))] = getattr(blocks, name)
    return bigger._replace(used=blocks.used, place=blocks.place)


# Building


@compiled
def build_blocks(table: Floats, versions: Ints, items: Ints, blocks: Blocks) -> None:
    """Divide arms into blocks of similar ones by halves, each along the direction in which its arms differ most."""
    order, keys = np.arange(versions.shape[0]), np.empty(versions.shape[0])
    firsts, ends, waiting = np.empty(128, np.int64), np.empty(128, np.int64), 1
    firsts[0], ends[0] = 0, versions.shape[0]
    direction = np.empty(table.shape[1])
    while waiting > 0:
        waiting -= 1
        first, end = firsts[waiting], ends[waiting]
        if end - first <= BLOCK:
            b = blocks.used[0]
            blocks.used[0] += 1
            for k in range(first, end):
                write_arm(blocks, b, k - first, table[versions[order[k]]], versions[order[k]], items[order[k]])
            blocks.filled[b] = end - first
            fit_ball(blocks, b)
            continue
        widest_direction(table, versions, order[first:end], direction)
        for k in range(first, end):
            total, row = 0.0, versions[order[k]]
            for j in range(direction.shape[0]):
                total += table[row, j] * direction[j]
            keys[k] = total
        middle = first + BLOCK * max(1, (end - first) // (2 * BLOCK))  # blocks are full, but for the last
        divide(keys, order, first, end, middle)
        firsts[waiting], ends[waiting] = middle, end
        firsts[waiting + 1], ends[waiting + 1] = first, middle
        waiting += 2


@compiled
def widest_direction(table: Floats, versions: Ints, order: Ints, direction: Floats) -> None:
    """Write about the first principal axis of a sample of these arms."""
    dim, step = direction.shape[0], max(1, order.shape[0] // SAMPLE)
    n = (order.shape[0] + step - 1) // step
    sample, centre, turned = np.empty((n, dim)), np.zeros(dim), np.empty(dim)
    for k in range(n):
        for j in range(dim):
            sample[k, j] = table[versions[order[k * step]], j]
            centre[j] += sample[k, j] / n
    widest, most = 0, -1.0
    for k in range(n):
        total = 0.0
        for j in range(dim):
            sample[k, j] -= centre[j]
            total += sample[k, j] * sample[k, j]
        if total > most:
            widest, most = k, total
    for j in range(dim):
        direction[j] = sample[widest, j]
    for _ in range(4):
        for j in range(dim):
            turned[j] = 0.0
        for k in range(n):
            along = 0.0
            for j in range(dim):
                along += sample[k, j] * direction[j]
            for j in range(dim):
                turned[j] += along * sample[k, j]
        total = 0.0
        for j in range(dim):
            total += turned[j] * turned[j]
        if not total > 0.0:
            return
        for j in range(dim):
            direction[j] = turned[j] / sqrt(total)


@compiled
def divide(keys: Floats, order: Ints, first: int, end: int, middle: int) -> None:
    """Reorder first … end so that no key before `middle` is larger than one behind it."""
    while end - first > 1:
        a, b, c = keys[first], keys[(first + end) // 2], keys[end - 1]
        pivot = max(min(a, b), min(max(a, b), c))
        i, j = first, end - 1
        while i <= j:
            while keys[i] < pivot:
                i += 1
            while keys[j] > pivot:
                j -= 1
            if i <= j:
                keys[i], keys[j] = keys[j], keys[i]
                order[i], order[j] = order[j], order[i]
                i += 1
                j -= 1
        if middle <= j:
            end = j + 1
        elif middle >= i:
            first = i
        else:
            return


@compiled
def write_arm(blocks: Blocks, b: int, position: int, x: Floats, version: int, item: int) -> None:
    """Write an arm into a block."""
    total = 0.0
    for j in range(x.shape[0]):
        blocks.x[b, j, position] = np.float32(x[j])
        total += x[j] * x[j]
    blocks.length[b, position] = np.float32(sqrt(total) * (1.0 + 4.0 * ROUNDING) + TINY)
    blocks.version[b, position], blocks.item[b, position] = version, item
    blocks.place[item] = b * BLOCK + position


@compiled
def fit_ball(blocks: Blocks, b: int) -> None:
    """Compute centre and radius of a block afresh."""
    n = blocks.filled[b]
    for j in range(blocks.x.shape[1]):
        total = 0.0
        for a in range(n):
            total += blocks.x[b, j, a]
        blocks.centre[b // BLOCK, j, b % BLOCK] = np.float32(total / max(1, n))
    blocks.radius[b] = blocks.longest[b] = 0.0
    for a in range(n):
        cover(blocks, b, a)


@compiled
def cover(blocks: Blocks, b: int, position: int) -> None:
    """Make the ball large enough for an arm of the block, which is in single precision here."""
    total, length = 0.0, np.float64(blocks.length[b, position])
    for j in range(blocks.x.shape[1]):
        apart = np.float64(blocks.x[b, j, position]) - np.float64(blocks.centre[b // BLOCK, j, b % BLOCK])
        total += apart * apart
    blocks.radius[b] = max(blocks.radius[b], sqrt(total) * (1.0 + 1e-12) + ROUNDING * length + TINY)
    blocks.longest[b] = max(blocks.longest[b], length)


# Changes


@compiled
def insert_arms(table: Floats, versions: Ints, items: Ints, blocks: Blocks) -> int:
    """Add arms, as many as there is room for; returns how many."""
    for k in range(versions.shape[0]):
        if blocks.used[0] + 1 >= blocks.radius.shape[0]:
            return k
        x = table[versions[k]]
        b = nearest_block(blocks, x)
        if blocks.filled[b] == BLOCK:
            halve(blocks, b)
            b = nearest_of(blocks, b, blocks.used[0] - 1, x)
        write_arm(blocks, b, blocks.filled[b], x, versions[k], items[k])
        blocks.filled[b] += 1
        if blocks.filled[b] == 1:
            fit_ball(blocks, b)
        else:
            cover(blocks, b, blocks.filled[b] - 1)
    return int(versions.shape[0])


@compiled
def nearest_block(blocks: Blocks, x: Floats) -> int:
    """The block with the nearest centre; a new one if there is none."""
    if blocks.used[0] == 0:
        blocks.used[0] = 1
        return 0
    distance, best, least = np.empty(BLOCK, np.float32), 0, np.inf
    for group in range((blocks.used[0] + BLOCK - 1) // BLOCK):
        for a in range(BLOCK):
            distance[a] = 0.0
        for j in range(x.shape[0]):
            here = np.float32(x[j])
            for a in range(BLOCK):
                apart = blocks.centre[group, j, a] - here
                distance[a] += apart * apart
        for a in range(min(BLOCK, blocks.used[0] - group * BLOCK)):
            if distance[a] < least:
                best, least = group * BLOCK + a, distance[a]
    return best


@compiled
def nearest_of(blocks: Blocks, a: int, b: int, x: Floats) -> int:
    """The one of two blocks with the nearer centre."""
    near_a, near_b = 0.0, 0.0
    for j in range(x.shape[0]):
        near_a += (blocks.centre[a // BLOCK, j, a % BLOCK] - x[j]) ** 2
        near_b += (blocks.centre[b // BLOCK, j, b % BLOCK] - x[j]) ** 2
    return a if near_a <= near_b else b


@compiled
def halve(blocks: Blocks, b: int) -> None:
    """Move half of a full block into a new one, by the feature in which its arms differ most."""
    new, widest, most = blocks.used[0], 0, -1.0
    for j in range(blocks.x.shape[1]):
        total, square = 0.0, 0.0
        for a in range(BLOCK):
            value = np.float64(blocks.x[b, j, a])
            total += value
            square += value * value
        if square - total * total / BLOCK > most:
            widest, most = j, square - total * total / BLOCK
    keys, order = np.empty(BLOCK), np.arange(BLOCK)
    for a in range(BLOCK):
        keys[a] = blocks.x[b, widest, a]
    divide(keys, order, 0, BLOCK, BLOCK // 2)
    blocks.used[0] += 1
    moving = np.sort(order[BLOCK // 2 :])
    for k in range(moving.shape[0]):
        move_arm(blocks, b, moving[k], new, k)
    blocks.filled[new] = BLOCK - BLOCK // 2
    blocks.filled[b] = BLOCK
    for k in range(moving.shape[0] - 1, -1, -1):  # from the last, so that those which fill the gaps stay
        blocks.filled[b] -= 1
        if moving[k] != blocks.filled[b]:
            move_arm(blocks, b, blocks.filled[b], b, moving[k])
    blocks.effect[new], blocks.spread[new] = blocks.effect[b], blocks.spread[b]
    fit_ball(blocks, b)
    fit_ball(blocks, new)


@compiled
def move_arm(blocks: Blocks, b: int, position: int, to: int, there: int) -> None:
    """Copy an arm to another place."""
    for j in range(blocks.x.shape[1]):
        blocks.x[to, j, there] = blocks.x[b, j, position]
    blocks.length[to, there] = blocks.length[b, position]
    blocks.version[to, there], blocks.item[to, there] = blocks.version[b, position], blocks.item[b, position]
    blocks.place[blocks.item[to, there]] = to * BLOCK + there


@compiled
def remove_arm(blocks: Blocks, item: int) -> None:
    """Take out an arm; the last one of its block takes its place."""
    if blocks.place[item] < 0:
        return
    b, position = blocks.place[item] // BLOCK, blocks.place[item] % BLOCK
    blocks.filled[b] -= 1
    if position != blocks.filled[b]:
        move_arm(blocks, b, blocks.filled[b], b, position)
    blocks.version[b, blocks.filled[b]] = blocks.item[b, blocks.filled[b]] = -1
    blocks.place[item] = -1


@compiled
def remove_arms(blocks: Blocks, items: Ints) -> None:
    """Take out the arms of these items; nothing happens where there is none."""
    for item in items:
        remove_arm(blocks, item)


@compiled
def bound_effects(blocks: Blocks, effects: ItemEffects, which: Ints) -> None:
    """Compute the bounds of some blocks on the effects of their items; those of an item never shown hold in any case."""
    for b in which:
        most, spread = item_effect(effects, effects.mass.shape[0])
        for a in range(blocks.filled[b]):
            effect, variance = item_effect(effects, blocks.item[b, a])
            most, spread = max(most, effect), max(spread, variance)
        blocks.effect[b], blocks.spread[b] = most, spread
