"""`Policy`: the Python shell that every policy shares around its compiled kernels."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal, Self, overload

import numpy as np
import numpy.typing as npt

from ...compute.arrays import Floats, Ints
from ...graph import UserGraph
from ...live_graph import LiveGraph
from ...storage import archive
from ...validate import (
    NO_ITEMS,
    NOT_KNOWN,
    Range,
    as_floats,
    check,
    check_features,
    check_item,
    check_items,
    check_observation,
    check_observations,
    check_places,
    count,
    is_number,
)
from . import hyperparameters, kernels, policy_file
from .decisions import Belief, Choice, Rankings, Requests, Scores
from .hyperparameters import COMMON_RANGES
from .item_effects import ItemEffects, ItemIntervals, effect_intervals, n_rows, no_items, reset_item, with_room
from .live_users import LiveUsers
from .propensity import PROPENSITY_DRAWS, other_normals, rank_each
from .top_arms import ArmCatalogue, best_first, is_worth_searching

Seed = int | np.random.Generator | np.random.SeedSequence | None
NO_NORMALS = np.empty(0)
NO_ITEM_EFFECTS = no_items()


class Policy(LiveUsers):
    """Recommends arms to the users of a graph and learns from their rewards. Not thread-safe: one writer per policy.

    A subclass declares its settings as keyword arguments of `__init__` and their ranges in `ranges`, sets `State` to the type
    of its compiled state, calls `super().__init__(graph, dim, locals())` and builds `self.state`. `lints.py` is an example.
    What else it may override is at the end of this class and of `LiveUsers`.
    """

    State: ClassVar[type]
    ranges: ClassVar[dict[str, Range]] = COMMON_RANGES
    """Allowed values of the settings, by name. A policy with further ones adds them: `ranges = Policy.ranges | {…}`."""
    has_quadratic_bonus: ClassVar[bool] = True
    """True if bonus² is a quadratic form in the features, or grows from one: pending decisions then shrink all bonuses."""

    def __init__(self, graph: UserGraph, dim: int, given: Mapping[str, Any]) -> None:
        """Check the arguments in `given`, the `locals()` of the subclass's `__init__`, and collect its settings in `params`."""
        self.params = hyperparameters.collect(type(self), {**given, "graph": graph, "dim": dim}, self.ranges)
        self.live_graph = LiveGraph(graph)
        self.dim = int(dim)
        self.rng = np.random.default_rng(given.get("seed", 0))
        self._since_refresh = 0  # observations

    def __repr__(self) -> str:
        return hyperparameters.short_repr(self)

    def reseed(self, seed: Seed) -> None:
        """Replace the generator that breaks ties and draws samples."""
        self.rng = np.random.default_rng(seed)

    # Decisions

    @overload
    def recommend(
        self, user: int, arms: npt.ArrayLike, *, items: npt.ArrayLike | None = None, propensity: Literal[False] = False
    ) -> int: ...

    @overload
    def recommend(
        self, user: int, arms: npt.ArrayLike, *, items: npt.ArrayLike | None = None, propensity: Literal[True]
    ) -> Choice: ...

    def recommend(
        self, user: int, arms: npt.ArrayLike, *, items: npt.ArrayLike | None = None, propensity: bool = False
    ) -> int | Choice:
        """The row of `arms`, an (m, dim) array, to show to `user` now; with `propensity`, a `Choice` with its probability.

        `items` are the ids of the arms, m integers from 0 on, -1 if unknown (docs/explanation/items.md).
        A policy that samples is asked what it would choose under 1000 further draws. The draw of the decision itself counts as
        one more: a weight 1/propensity is right on average, at most 1001 (docs/explanation/propensities.md).
        """
        user, features = self.check_user(user), check_features(arms, self.dim)
        ids = check_items(items, len(features))
        others = other_normals(self, PROPENSITY_DRAWS) if propensity else None  # before the generator moves
        normals = self.draw_normals()
        arm = int(kernels.decide(self.state, user, features, ids, normals, self.rng.random()))
        if others is None:
            return arm
        return Choice(arm, float(self.choice_probabilities(user, features, np.vstack([normals, others]), ids)[arm]))

    def propensities(
        self, user: int, arms: npt.ArrayLike, draws: int = PROPENSITY_DRAWS, *, items: npt.ArrayLike | None = None
    ) -> Floats:
        """(m,) the probability with which `recommend` would choose each row of `arms` now; changes nothing.

        Exact, unless the policy samples: then from `draws` draws and one more that favours no arm, so that none has
        probability 0. The standard error is sqrt(p (1 - p) / draws), at most 0.016 with 1000.

        >>> from graphbandit import LinUCB, graphs
        >>> LinUCB(graphs.empty(1), 2).propensities(0, [[1, 0], [0, 1], [0, 0]]).tolist()
        [0.5, 0.5, 0.0]
        """
        user, features = self.check_user(user), check_features(arms, self.dim)
        ids = check_items(items, len(features))
        check("draws", draws, count())
        if not self.is_sampling:
            return self.choice_probabilities(user, features, np.zeros((1, self.n_normals)), ids)
        chances = self.choice_probabilities(user, features, other_normals(self, draws), ids)
        return np.asarray((draws * chances + 1.0 / len(features)) / (draws + 1))

    def rank(self, user: int, arms: npt.ArrayLike | ArmCatalogue, k: int, *, items: npt.ArrayLike | None = None) -> Ints:
        """Return the `k` best rows of `arms` for `user`, best first; ties in random order.

        Of a large `ArmCatalogue` only the arms that may be among the best are scored (docs/howto/catalogues.md).
        """
        user, rows = self.check_user(user), None
        if isinstance(arms, ArmCatalogue):
            features, ids = arms.arms, arms.items
            check_features(features[:1], self.dim)
        else:
            features = check_features(arms, self.dim)
            ids = check_items(items, len(features))
        check_places(k, len(features))
        if isinstance(arms, ArmCatalogue) and is_worth_searching(len(arms), k, len(arms)):
            rows = arms.contenders(self, user, k)
        normals, luck = self.draw_normals(), self.rng.random(len(features))
        if rows is None:
            rows = np.arange(len(features))
        else:
            rows.sort()
            features, ids, luck = features[rows], ids[rows] if len(ids) else ids, luck[rows]
        values = np.empty(len(features))
        kernels.sample_items(self.state, user, features, ids, normals, values)
        return np.asarray(rows[best_first(values, luck, k)])

    def scores(self, user: int, arms: npt.ArrayLike, *, items: npt.ArrayLike | None = None) -> Scores:
        """Estimate and exploration bonus of every row of `arms`; changes nothing."""
        user, features = self.check_user(user), check_features(arms, self.dim)
        ids = check_items(items, len(features))
        scores = Scores(np.empty(len(features)), np.empty(len(features)))
        kernels.score_items(self.state, user, features, ids, scores.mean, scores.bonus)
        return scores

    def decide_many(self, requests: Requests, rng: np.random.Generator, luck: Floats | None = None) -> Rankings:
        """`rank` for many users, with scores and propensities, in one compiled call. For services: nothing is checked.

        Randomness comes from `rng`, so that nothing in the policy changes: a policy that is rebuilt from a log of rewards
        does not depend on the decisions that it was asked for.

        >>> from graphbandit import LinUCB, graphs
        >>> one, two = np.ones(1, dtype=np.int64), np.arange(2)
        >>> requests = Requests(users=0 * one, table=np.eye(2), rows=two, start=2 * two, places=one)
        >>> LinUCB(graphs.empty(1), 2).decide_many(requests, np.random.default_rng(0)).propensity.tolist()
        [0.5]
        """
        offered = len(requests.rows)
        luck = rng.random(offered) if luck is None else luck
        ranked = Rankings(np.zeros(offered, np.int64), np.empty(offered), np.empty(offered), np.empty(len(requests.users)))
        if self.is_optimistic:
            rank_many = kernels.rank_many if offered < kernels.LONG_SCAN else kernels.rank_many_aside
            rank_many(self.state, requests, luck, ranked)
        else:
            rank_each(self, requests, rng, luck, ranked)
        return ranked

    def belief(self, user: int) -> Belief | None:
        """Return θ, S and β of a user's scores; None if they are not of the form xᵀθ + β √(xᵀ S x)."""
        if not self.is_optimistic or type(self.state) not in kernels.OUTLINED:
            return None
        theta, metric, form = np.empty(self.dim), np.empty((self.dim, self.dim)), np.zeros(5)
        kernels.outline(self.state, self.check_user(user), theta, metric, form)
        return Belief(theta, metric, float(form[0])) if form[1:4].tolist() == [1.0, 0.0, 0.0] else None

    # Learning

    def update(self, user: int, x: npt.ArrayLike, reward: float, *, item: int = NOT_KNOWN) -> None:
        """Learn that showing features `x`, those of `item`, to `user` earned `reward`.

        The model, xᵀθ, has no intercept: if rewards do not average to zero, give every arm a feature that is always 1.
        """
        user, features, item = self.check_user(user), as_floats(x, "x"), check_item(item)
        usable = features.shape == (self.dim,) and is_number(reward)
        if usable and item >= 0 and item >= self.item_room:
            check_observation(x, reward, self.dim)  # before anything grows
            self.reserve_items(item + 1)
        if not usable or not kernels.learn(self.state, user, features, item, float(reward)):
            check_observation(x, reward, self.dim)  # raises: it refuses what the kernel does
        self.count_rounds(1)

    def update_many(
        self, users: npt.ArrayLike, X: npt.ArrayLike, rewards: npt.ArrayLike, *, items: npt.ArrayLike | None = None
    ) -> None:
        """Learn a batch, row by row: the same numbers as calls of `update`, compiled. Nothing changes if one row is bad.

        >>> from graphbandit import LinUCB, graphs
        >>> policy = LinUCB(graphs.empty(2), 2)
        >>> policy.update_many([0, 1], [[1.0, 0.0], [0.0, 1.0]], [1.0, 0.5])
        >>> policy.theta.tolist()
        [[0.5, 0.0], [0.0, 0.25]]
        """
        who, features, values = check_observations(users, X, rewards, self.dim, self.n_users, self.check_user)
        ids = check_items(items, len(who))
        if not self.learns_by_kernels:
            for row, user in enumerate(who.tolist()):
                known = {"item": int(ids[row])} if len(ids) else {}
                self.update(user, features[row], float(values[row]), **known)
            return
        self.reserve_items(int(ids.max(initial=NOT_KNOWN)) + 1)
        for block in self.blocks(len(who)):
            kernels.learn_many(self.state, who[block], features[block], ids[block], values[block])

    def effects_of(self, items: npt.ArrayLike, *, cautious: bool = False) -> ItemIntervals:
        """What these items earn for everybody beyond their features, and the standard deviation of that.

        Zeros for ids of -1, and where no effects have been found. Decisions are more cautious with items that were shown a few
        times only; with `cautious` the numbers are those of decisions.

        >>> from graphbandit import LinUCB, graphs
        >>> policy = LinUCB(graphs.empty(2), 1, item_effects=True, item_ridge=1.0)
        >>> for _ in range(100):
        ...     policy.update(0, [1.0], 1.0, item=7)
        ...     policy.update(1, [1.0], 0.0, item=8)
        >>> mean, deviation = policy.effects_of([7, 8, -1])
        >>> bool(mean[0] > mean[1]), float(mean[2])
        (True, 0.0)
        """
        ids = check_items(items, np.size(np.asarray(items)))
        return effect_intervals(self.state.items if self.learns_items else no_items(), ids, cautious)

    def remove_item(self, item: int) -> None:
        """Forget the effect of an item, in O(1), so that its id is that of a new one. What users learned from it stays."""
        check("item", item, count(0))
        if self.learns_items:
            reset_item(self.state.items, int(item))

    def blocks(self, rounds: int) -> Iterator[slice]:
        """Divide so many rounds into slices between two calls of `refresh`; a slice is counted when the next is asked for."""
        done = 0
        while done < rounds:
            block = slice(done, min(rounds, done + self.until_refresh))
            yield block
            self.count_rounds(block.stop - block.start)
            done = block.stop

    def count_rounds(self, rounds: int) -> None:
        """Count observations that the state has learned, at most `until_refresh` of them, and refresh if it is time."""
        self._since_refresh += rounds
        if self.period and self._since_refresh >= self.period:
            self._since_refresh = 0
            self.refresh()

    @property
    def until_refresh(self) -> int:
        """How many observations may follow before `refresh` is due."""
        return self.period - self._since_refresh if self.period else sys.maxsize

    # Files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the whole policy to one file: graph, settings, state and random generator."""
        archive.write(path, "policy", *self.pack())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The policy that `save` wrote, or that is in the folder of a model; it continues bit for bit where it stopped."""
        return policy_file.load(cls, path)

    def pack(self) -> tuple[dict[str, Any], archive.Arrays]:
        """Header and arrays of the file."""
        return policy_file.pack(self, self._since_refresh)

    @classmethod
    def unpack(cls, header: dict[str, Any], arrays: archive.Arrays) -> Self:
        """The policy of which `pack` gave header and arrays."""
        policy = cls.__new__(cls)
        graph, policy.state = policy_file.unpack(cls.State, header, arrays)
        policy.restore(graph, header)
        return policy

    def restore(self, graph: UserGraph, header: dict[str, Any]) -> None:
        """Set everything but the state from the header of a file."""
        self.live_graph, self.dim, self.params = LiveGraph(graph), header["dim"], header["params"]
        self.rng = policy_file.generator(header["generator"])
        self._since_refresh = header["since"]

    # What a policy may override

    @property
    def learns_items(self) -> bool:
        """Whether the policy learns effects of items: its state then has a table of them, called `items`."""
        table = getattr(self.state, "items", None)
        return isinstance(table, ItemEffects) and table.enabled

    @property
    def item_table(self) -> ItemEffects:
        """What has been learned of items; an empty table if nothing is."""
        return self.state.items if self.learns_items else NO_ITEM_EFFECTS

    @property
    def epsilon(self) -> float:
        """Share of decisions that are uniform."""
        return 0.0

    def decides_uniformly(self, rng: np.random.Generator) -> bool:
        """Return True if a decision is uniform, after drawing what `decide_many` draws for it."""
        del rng
        return False

    @property
    def item_room(self) -> int:
        """Items with ids below this can be learned from; there is no bound if the policy learns no effects."""
        return n_rows(self.state.items) if self.learns_items else sys.maxsize

    def reserve_items(self, n: int) -> None:
        """Make room for items 0 to n - 1 in the state, which compiled code cannot do; amortised O(1) an item."""
        if n > self.item_room:
            self.state = self.state._replace(items=with_room(self.state.items, n))

    @property
    def n_normals(self) -> int:
        """Standard normal draws that a decision needs; 0 unless the policy samples."""
        return 0

    @property
    def is_optimistic(self) -> bool:
        """Whether the values to maximise are mean + bonus, without draws."""
        return self.n_normals == 0

    @property
    def is_sampling(self) -> bool:
        """Whether many decisions have to be drawn to know the probability of a choice."""
        return self.n_normals > 0

    @property
    def draws_values(self) -> bool:
        """Whether the values to maximise are drawn, as in Thompson sampling, beside any decisions at random."""
        return not self.is_optimistic

    @property
    def decides_by_kernels(self) -> bool:
        """Whether the compiled loop decides as `recommend` does: not if a subclass has replaced that method."""
        return type(self).recommend is Policy.recommend

    @property
    def learns_by_kernels(self) -> bool:
        """Whether the compiled loop learns as `update` does: not if a subclass has replaced that method."""
        return type(self).update is Policy.update

    @property
    def period(self) -> int:
        """Observations between two calls of `refresh`; 0 if the policy needs none."""
        return 0

    def refresh(self) -> None:
        """Work that is not done in every round, in Python: clustering by a graph library, solving a large system."""

    def bonus_scale(self, user: int) -> float:
        """Scale β such that bonus = β √(xᵀV⁻¹x), with V in observations. By default `beta`, or 1 if a policy has none."""
        beta = getattr(self, "beta", None)
        return 1.0 if beta is None else float(beta(user))

    def quadratic_scores(self, user: int, arms: Floats, items: Ints) -> Scores:
        """Scores with bonus² as a quadratic form: `scores`, unless `grow_bonus` makes the bonus from such a one."""
        return self.scores(user, arms, items=items if len(items) else None)

    def grow_bonus(self, user: int, bonus: Floats, pending: int = 0) -> Floats:
        """The bonus of `scores` from that of `quadratic_scores`, after `pending` more observations of the user."""
        del user, pending
        return bonus

    # What policies are built with

    def build_state(self, **arrays: Any) -> Any:
        """A `State` of these arrays; numbers that are not given are the settings of the same name, NaN for None."""
        return hyperparameters.build_state(self.State, self.params, arrays)

    def model_row(self, user: int) -> int:
        """The row of a user's model: its own index, or 0 if all users share one."""
        user = self.check_user(user)
        return 0 if self.params.get("shared") else user

    def draw_normals(self) -> Floats:
        """(n_normals,) the draws of one decision."""
        return self.rng.standard_normal(self.n_normals) if self.n_normals else NO_NORMALS

    def choice_probabilities(self, user: int, arms: Floats, normals: Floats, items: Ints = NO_ITEMS) -> Floats:
        """(m,) the probability of each arm, on average over the rows of `normals`: the best under a row share its part."""
        chances = np.zeros(len(arms))
        kernels.count_wins(self.state, user, arms, items, normals, chances)
        return chances / len(normals)
