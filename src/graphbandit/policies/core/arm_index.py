"""`ArmIndex`: the arms of a catalogue in blocks, kept up to date as arms and what is known of them change."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from ...compute.arrays import Floats, Ints
from .arm_blocks import BLOCK, Blocks, bound_effects, build_blocks, empty_blocks, insert_arms, remove_arms, with_room
from .item_effects import ItemEffects, has_effects

if TYPE_CHECKING:
    from .policy import Policy

REBUILT = 4  # blocks are built anew if more than 1/REBUILT of the arms have changed, or so many are half empty
FEW = 1024


class ArmIndex:
    """Which versions of which items are on offer, for `Policy.search`. Every item has one version at most.

    Changes are only noted; they are made by `refresh`, before the next search.

    >>> index = ArmIndex(2)
    >>> index.put(0, 0)
    >>> index.put(1, 1)
    >>> len(index)
    2
    """

    def __init__(self, dim: int) -> None:
        self.dim = dim
        self.blocks = empty_blocks(dim, 0, 0)
        self._version = np.empty(0, dtype=np.int64)  # of each item, -1: not on offer
        self._size = 0
        self._changed: set[int] | None = None  # items; None: so many that blocks are built anew
        self._learned: list[Ints] = []  # items whose effects have changed
        self._n_learned = 0.0
        self._effects: tuple[Any, ...] = ()  # what the bounds on effects were computed with
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return self._size

    def put(self, item: int, version: int) -> None:
        """Offer an item in this version."""
        if item >= len(self._version):
            more = max(item + 1 - len(self._version), len(self._version), 16)
            self._version = np.concatenate([self._version, np.full(more, -1)])
        self._size += self._version[item] < 0
        self._version[item] = version
        self._note(item)

    def put_many(self, items: Ints, versions: Ints) -> None:
        """Offer many items at once, none of which is on offer."""
        self._version = np.full(int(items.max(initial=-1)) + 1, -1)
        self._version[items] = versions
        self._size, self._changed = len(items), None

    def remove(self, item: int) -> None:
        """Offer an item no longer."""
        self._size -= self._version[item] >= 0
        self._version[item] = -1
        self._note(item)

    def _note(self, item: int) -> None:
        if self._changed is not None:
            self._changed.add(item)
            if REBUILT * len(self._changed) > max(self._size, FEW):
                self._changed = None

    def learned(self, items: Ints) -> None:
        """Say that the policy has learned from rewards of these items, one for each."""
        if self._effects:
            self._learned.append(items)
            self._n_learned += len(items)
            if len(self._learned) > FEW:  # nobody searches
                self._effects, self._learned = (), []

    def forget_effects(self) -> None:
        """Say that the policy may have learned of any items; only if it knows effects, `refresh` then looks at all of them."""
        self._learned = []
        self._n_learned = -1.0

    def refresh(self, policy: Policy, table: Floats, effects: ItemEffects | None = None) -> Blocks:
        """The blocks after all changes; `table` has the features of each version, `effects` are the policy's by default."""
        with self._lock:
            if self._changed is None or self._changed:
                self._change(table)
            self._follow_effects(policy, policy.item_table if effects is None else effects)
            return self.blocks

    def _change(self, table: Floats) -> None:
        changed, self._changed = self._changed, set()
        blocks = self.blocks
        if changed is None or blocks.used[0] * BLOCK > REBUILT * max(self._size, FEW):
            self._build(table)
            return
        if len(blocks.place) < len(self._version):
            room = np.full(len(self._version) - len(blocks.place), -1)
            blocks = self.blocks = blocks._replace(place=np.concatenate([blocks.place, room]))
        items = np.sort(np.fromiter(changed, np.int64, len(changed)))
        remove_arms(blocks, items)
        items = items[self._version[items] >= 0]
        done = 0
        while done < len(items):
            blocks = self.blocks = with_room(blocks, 2 + (len(items) - done) // BLOCK)
            done += insert_arms(table, self._version[items[done:]], items[done:], blocks)
        self._learned.append(items)

    def _build(self, table: Floats) -> None:
        items = np.flatnonzero(self._version >= 0)
        room = len(items) // BLOCK + len(items) // (8 * BLOCK) + 2
        blocks = empty_blocks(self.dim, room, len(self._version))
        build_blocks(table, self._version[items], items, blocks)
        self.blocks, self._effects = blocks, ()

    def _follow_effects(self, policy: Policy, effects: ItemEffects) -> None:
        """Bound the effects of items anew: where something was learned, or everywhere if that is not known."""
        blocks = self.blocks
        state: tuple[Any, ...] = (id(policy), str(effects.ridge), float(effects.learned[0]))
        n = float(effects.noise[1])
        if not has_effects(effects):  # all are 0, whatever is learned
            state = (id(policy), False)
        elif self._effects == state and self._n_learned == n and self._learned:
            places = blocks.place[np.concatenate(self._learned)]
            bound_effects(blocks, effects, np.unique(places[places >= 0] // BLOCK))
        if self._effects != state or (len(state) > 2 and self._n_learned != n):
            bound_effects(blocks, effects, np.arange(int(blocks.used[0])))
        self._effects, self._learned, self._n_learned = state, [], n
