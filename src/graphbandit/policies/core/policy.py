"""`Policy`: the Python shell that every policy shares around its compiled kernels."""

from __future__ import annotations

import copy
import inspect
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal, Self, overload

import numpy as np
import numpy.typing as npt

from ...compute.arrays import Floats, Ints
from ...display import shorten
from ...graph import UserGraph
from ...live_graph import LiveGraph
from ...storage import archive
from ...validate import (
    NO_ITEMS,
    NOT_KNOWN,
    NOT_NEGATIVE,
    POSITIVE,
    PROBABILITY,
    SWITCH,
    Range,
    as_floats,
    check,
    check_all,
    check_features,
    check_item,
    check_items,
    check_observation,
    check_observations,
    check_places,
    count,
    is_number,
    one_of,
    optional,
)
from . import kernels, policy_file
from .item_effects import ItemEffects, ItemIntervals, effect_intervals, n_rows, no_items, observe_item, reset_item, with_room
from .kernels import Belief, Choice, Rankings, Requests, Scores
from .live_users import LiveUsers
from .ridge import RADII
from .top_arms import ArmCatalogue, best_first, is_worth_searching

Seed = int | np.random.Generator | np.random.SeedSequence | None
PROPENSITY_DRAWS = 1000
"""Further decisions that are drawn to find how probable the one taken was."""
NO_NORMALS = np.empty(0)
NO_ITEM_EFFECTS = no_items()
NOT_SETTINGS = ("self", "graph", "dim", "seed")
COMMON_RANGES: dict[str, Range] = {
    "ridge": POSITIVE,
    "alpha": POSITIVE,
    "sigma": NOT_NEGATIVE,
    "delta": PROBABILITY,
    "norm": optional(NOT_NEGATIVE),
    "exploration": NOT_NEGATIVE,
    "item_ridge": optional(POSITIVE),
    "scale": optional(NOT_NEGATIVE),
    "radius": one_of(RADII),
    **dict.fromkeys(("shared", "thompson", "item_effects", "inherit"), SWITCH),
}
"""Ranges of the settings that several policies share."""


class Policy(LiveUsers):
    """Recommends arms to the users of a graph and learns from their rewards. Not thread-safe: one writer per policy.

    A subclass declares its settings as keyword arguments of `__init__` and their ranges in `ranges`, sets `State` to the type
    of its compiled state, calls `super().__init__(graph, dim, locals())` and builds `self.state`. `lints.py` is an example.
    What else it may override is at the end of this class and of `LiveUsers`.
    """

    State: ClassVar[type]
    ranges: ClassVar[dict[str, Range]] = COMMON_RANGES
    """Allowed values of the settings, by name. A policy with further ones adds them: `ranges = Policy.ranges | {…}`."""

    def __init__(self, graph: UserGraph, dim: int, given: Mapping[str, Any]) -> None:
        """Check the arguments in `given`, the `locals()` of the subclass's `__init__`, and collect its settings in `params`."""
        if not isinstance(graph, UserGraph):
            raise ValueError(f"graph must be a UserGraph (see graphbandit.graphs), but it is a {type(graph).__name__}.")
        if not count().holds(dim):
            raise ValueError(f"dim must be a positive integer, but it is {dim!r}.")
        declared = given.get("__class__", type(self))  # whose `__init__` it is: a class derived from it may have another one
        self.params = {name: given[name] for name in inspect.signature(declared).parameters if name not in NOT_SETTINGS}
        check_all(self.params, self.ranges)
        self.live_graph = LiveGraph(graph)
        self.dim = int(dim)
        self.rng = np.random.default_rng(given.get("seed", 0))
        self._since_refresh = 0  # observations

    def __repr__(self) -> str:
        """Return the graph and dim, or the policy inside a wrapper, and the settings that were changed."""
        usual = {name: parameter.default for name, parameter in inspect.signature(type(self)).parameters.items()}
        usual |= getattr(self, "presets", {}).get(self.params.get("preset"), {})
        shown = {
            name: value for name, value in self.params.items() if name in usual and name != "policy" and np.ndim(value) == 0
        }
        changed = shorten(", ".join(f"{name}={value!r}" for name, value in shown.items() if value != usual[name]), 50)
        inside = repr(self.policy) if hasattr(self, "policy") else f"{self.graph!r}, {self.dim}"
        return f"{type(self).__name__}({', '.join(filter(None, [inside, changed]))})"

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
        """Return the row of `arms`, an (m, dim) array, to show to `user` now; with `propensity`, a `Choice`.

        A `Choice` has the probability of the decision too. `items` are the ids of the arms, m integers from 0 on, -1 if
        unknown (docs/explanation/items.md). A policy that samples is asked what it would choose under 1000 further draws. The
        draw of the decision itself counts as one more: a weight 1/propensity is right on average, at most 1001
        (docs/explanation/propensities.md).
        """
        user, features = self.check_user(user), check_features(arms, self.dim)
        ids = check_items(items, len(features))
        others = self.other_normals(PROPENSITY_DRAWS) if propensity else None  # before the generator moves
        normals = self.draw_normals()[None, :]
        if self.draws_from_belief:
            arm = kernels.decide(self.beliefs(np.array([user])), self.item_table, features, ids, normals, self.rng.random())
        else:
            arm = kernels.choose(self.values(user, features, ids, normals)[0], self.rng.random())
        if others is None:
            return int(arm)
        return Choice(int(arm), float(self.choice_probabilities(user, features, np.vstack([normals, others]), ids)[arm]))

    def propensities(
        self, user: int, arms: npt.ArrayLike, draws: int = PROPENSITY_DRAWS, *, items: npt.ArrayLike | None = None
    ) -> Floats:
        """Return the probability with which `recommend` would choose each row of `arms` now, (m,); changes nothing.

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
        chances = self.choice_probabilities(user, features, self.other_normals(draws), ids)
        return np.asarray((draws * chances + 1.0 / len(features)) / (draws + 1))

    def rank(self, user: int, arms: npt.ArrayLike | ArmCatalogue, k: int, *, items: npt.ArrayLike | None = None) -> Ints:
        """Return the `k` best rows of `arms` for `user`, best first; ties in random order.

        An `ArmCatalogue` of many arms is searched, and not all of them scored (docs/howto/catalogues.md).
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
        return np.asarray(rows[best_first(self.values(user, features, ids, normals[None, :])[0], luck, k)])

    def scores(self, user: int, arms: npt.ArrayLike, *, items: npt.ArrayLike | None = None) -> Scores:
        """Return the estimate and the exploration bonus of every row of `arms`; changes nothing."""
        user, features = self.check_user(user), check_features(arms, self.dim)
        return self.score(user, features, check_items(items, len(features)))

    def score(self, user: int, arms: Floats, items: Ints) -> Scores:
        """Return `scores` of arguments that have been checked."""
        scores = Scores(np.empty(len(arms)), np.empty(len(arms)))
        if self.scores_from_belief:
            kernels.score_arms(self.beliefs(np.array([user])), self.item_table, arms, items, *scores)
        else:
            kernels.scores(self.state, user, arms, items, *scores)
        return scores

    def decide_many(self, requests: Requests, rng: np.random.Generator, luck: Floats | None = None) -> Rankings:
        """`rank` for many users at once, with scores and propensities. For services: nothing is checked.

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
        self.score_many(requests, Scores(ranked.mean, ranked.bonus))
        if self.is_optimistic:
            kernels.rank_scored(requests, luck, ranked)
        else:
            self._rank_by_draws(requests, rng, luck, ranked)
        return ranked

    def score_many(self, requests: Requests, scores: Scores) -> None:
        """Write the scores of all candidates of many users."""
        if self.scores_from_belief:
            kernels.score_beliefs(self.beliefs(requests.users), self.item_table, requests, *scores)
        else:
            kernels.score_requests(self.state, requests, *scores)

    def _rank_by_draws(self, requests: Requests, rng: np.random.Generator, luck: Floats, ranked: Rankings) -> None:
        """Rank the candidates of one request after the other by drawn values."""
        start = requests.start
        for i, user in enumerate(requests.users.tolist()):
            own = slice(start[i], start[i + 1])
            arms = requests.table[requests.rows[own]]
            items = requests.items[requests.rows[own]] if len(requests.items) else requests.items
            normals = rng.standard_normal((1 + PROPENSITY_DRAWS if self.is_sampling else 1, self.n_normals))
            ranked.order[own] = np.lexsort((-luck[own], -self.values(user, arms, items, normals[:1])[0]))
            ranked.propensity[i] = self.choice_probabilities(user, arms, normals, items)[ranked.order[start[i]]]

    # What decisions are made from

    def belief(self, user: int) -> Belief:
        """Return what the policy thinks of a user: θ, S and β.

        A policy of your own may override this method, and `learn`, in place of registering compiled functions.

        >>> from graphbandit import LinUCB, graphs
        >>> theta, S, beta = LinUCB(graphs.empty(1), 2, ridge=4.0, radius="constant").belief(0)
        >>> theta.tolist(), S.tolist(), float(beta)
        ([0.0, 0.0], [[0.25, 0.0], [0.0, 0.25]], 1.0)
        """
        theta, S, beta = self.beliefs(np.array([self.check_user(user)]))
        return Belief(theta[0], S[0], float(beta[0]))

    def beliefs(self, users: Ints) -> Belief:
        """Return the beliefs about several users, one row each."""
        n = len(users)
        out = Belief(np.empty((n, self.dim)), np.empty((n, self.dim, self.dim)), np.empty(n))
        if type(self).belief is Policy.belief:
            if not self.has_belief:
                raise ValueError(f"{type(self).__name__} has no belief of the form θ, S, β: its scores depend on the item.")
            kernels.fill_beliefs(self.state, users, out)
        else:
            for row, user in enumerate(users.tolist()):
                out.theta[row], out.S[row], out.beta[row] = self.belief(user)
        return out

    def search_belief(self, user: int) -> Belief | None:
        """Return the belief by which the best of many arms can be searched for; None if all of them must be scored."""
        return Belief(*self.belief(user)) if self.is_optimistic and self.scores_from_belief else None

    @property
    def epsilon(self) -> float:
        """Share of decisions that are uniform."""
        return 0.0

    def decides_uniformly(self, rng: np.random.Generator) -> bool:
        """Return True if a decision is uniform, after drawing what `decide_many` draws for it."""
        del rng
        return False

    @property
    def has_belief(self) -> bool:
        """True if the policy has a belief about each user, as `belief` returns it."""
        return type(self).belief is not Policy.belief or type(self.state) in kernels.HAS_BELIEF

    @property
    def scores_from_belief(self) -> bool:
        """True if scores follow from `belief`."""
        return type(self).belief is not Policy.belief or type(self.state) not in kernels.OWN_SCORES

    @property
    def draws_from_belief(self) -> bool:
        """True if the values to maximise follow from `belief`."""
        return type(self).belief is not Policy.belief or type(self.state) not in kernels.OWN_DRAWS

    def values(self, user: int, arms: Floats, items: Ints, normals: Floats) -> Floats:
        """Return the values to maximise under each row of `normals`, (draws, m)."""
        values = np.empty((len(normals), len(arms)))
        if self.draws_from_belief:
            kernels.values_of(self.beliefs(np.array([user])), self.item_table, arms, items, normals, values)
        else:
            kernels.draw_many(self.state, user, arms, items, normals, values)
        return values

    def choice_probabilities(self, user: int, arms: Floats, normals: Floats, items: Ints = NO_ITEMS) -> Floats:
        """Return the probability of each arm, (m,), averaged over the rows of `normals`; ties share that of their row."""
        values = self.values(user, arms, items, normals)
        best = values == values.max(axis=1, keepdims=True)
        return np.asarray((best / best.sum(axis=1, keepdims=True)).mean(axis=0))

    def other_normals(self, draws: int) -> Floats:
        """Return the draws of other decisions, (draws, n_normals), without moving the generator; none if one decides it all."""
        if not self.is_sampling:
            return np.empty((0, self.n_normals))
        ahead = copy.deepcopy(self.rng).integers(2**63, size=4)  # hashed into a seed, which makes an unrelated stream
        return np.random.default_rng(ahead).standard_normal((draws, self.n_normals))

    # Learning

    def update(self, user: int, x: npt.ArrayLike, reward: float, *, item: int = NOT_KNOWN) -> None:
        """Learn that showing features `x`, those of `item`, to `user` earned `reward`.

        The model, xᵀθ, has no intercept: if rewards do not average to zero, give every arm a feature that is always 1.
        """
        user, features, item = self.check_user(user), as_floats(x, "x"), check_item(item)
        usable = features.shape == (self.dim,) and is_number(reward)
        if not self.learns_by_kernels:
            check_observation(x, reward, self.dim)
        if usable and item >= 0 and item >= self.item_room:
            check_observation(x, reward, self.dim)  # before anything grows
            self.reserve_items(item + 1)
        if not self.learns_by_kernels and self.learns_items and item >= 0:
            features, reward = self.without_effect(user, features, item, float(reward))
        if not usable or self.learn(user, features, item, float(reward)) is False:
            check_observation(x, reward, self.dim)  # raises: it refuses what the kernel does
        self.count_rounds(1)

    def learn(self, user: int, x: Floats, item: int, reward: float) -> bool | None:
        """Learn from one observation; False, and nothing learned, if a number in it is not finite or too large.

        A policy of your own may override this method, and `belief`; `x` and `reward` have been checked then.
        """
        return bool(kernels.learn(self.state, user, x, item, reward))

    def without_effect(self, user: int, x: Floats, item: int, reward: float) -> tuple[Floats, float]:
        """Let the item learn, as `kernels.learn_with_items` does, and return the weighted features and the net reward."""
        theta, S, _ = self.belief(user)
        root, effect = observe_item(self.state.items, item, user, reward - float(x @ theta), 1.0 + float(x @ S @ x))
        return root * x, root * (reward - effect)

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

    def compile(self) -> None:
        """Compile what decisions and updates need, so that no later call waits for the compiler."""
        none = np.zeros(1, dtype=np.int64)
        arms = np.empty((0, self.dim))
        self.decide_many(Requests(none[:0], arms, none[:0], none, none[:0], none[:0]), np.random.default_rng(0))
        if self.learns_by_kernels:
            kernels.learn_many(self.state, none[:0], arms, none[:0], np.empty(0))

    def effects_of(self, items: npt.ArrayLike, *, cautious: bool = False) -> ItemIntervals:
        """Return the effects of these items, which their features do not explain, and the standard deviations of the effects.

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
        """Return the number of observations until `refresh` is due."""
        return self.period - self._since_refresh if self.period else sys.maxsize

    # Files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the whole policy to one file: graph, settings, state and random generator."""
        archive.write(path, "policy", *self.pack())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Return the policy that `save` wrote, or that is in the folder of a model; it continues where it stopped."""
        return policy_file.load(cls, path)

    def pack(self) -> tuple[dict[str, Any], archive.Arrays]:
        """Header and arrays of the file."""
        return policy_file.pack(self, self._since_refresh)

    @classmethod
    def unpack(cls, header: dict[str, Any], arrays: archive.Arrays) -> Self:
        """Return the policy of which `pack` gave header and arrays."""
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
        """Return True if the policy learns effects of items: its state then has a table of them, called `items`."""
        table = getattr(self.state, "items", None)
        return isinstance(table, ItemEffects) and table.enabled

    @property
    def item_table(self) -> ItemEffects:
        """The table of item effects; empty if the policy learns none."""
        return self.state.items if self.learns_items else NO_ITEM_EFFECTS

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
        """Return True if the values to maximise are mean + bonus, without draws."""
        return self.n_normals == 0

    @property
    def is_sampling(self) -> bool:
        """Return True if the probability of a choice can only be estimated from many drawn decisions."""
        return self.n_normals > 0

    @property
    def draws_values(self) -> bool:
        """Return True if the values to maximise are drawn, as in Thompson sampling; random decisions do not count."""
        return not self.is_optimistic

    @property
    def decides_by_kernels(self) -> bool:
        """Return True if the compiled loop decides as `recommend` does: False if a subclass overrides that method."""
        return type(self).recommend is Policy.recommend and type(self).belief is Policy.belief

    @property
    def learns_by_kernels(self) -> bool:
        """Return True if the compiled loop learns as `update` does: False if a subclass overrides that method."""
        return type(self).update is Policy.update and type(self).learn is Policy.learn

    @property
    def period(self) -> int:
        """Observations between two calls of `refresh`; 0 if the policy needs none."""
        return 0

    def refresh(self) -> None:
        """Work that is not done in every round, in Python: clustering by a graph library, solving a large system."""

    # What policies are built with

    def build_state(self, **arrays: Any) -> Any:
        """Return a `State` of these arrays; numbers that are not given are the settings of the same name, NaN for None.

        A field `items` that is not given is the table of item effects that the settings ask for.
        """
        if "items" in self.State._fields and "items" not in arrays:  # type: ignore[attr-defined]
            arrays["items"] = no_items(self.params["item_effects"], self.params.get("item_ridge"))
        numbers = {name: number for name, number in policy_file.number_fields(self.State).items() if name not in arrays}
        values = {
            name: float("nan") if self.params[name] is None else number(self.params[name]) for name, number in numbers.items()
        }
        return self.State(**arrays, **values)

    def model_row(self, user: int) -> int:
        """Return the row of a user's model: its own index, or 0 if all users share one."""
        user = self.check_user(user)
        return 0 if self.params.get("shared") else user

    def draw_normals(self) -> Floats:
        """(n_normals,) the draws of one decision."""
        return self.rng.standard_normal(self.n_normals) if self.n_normals else NO_NORMALS

    # What users of a policy ask about a confidence region

    def beta(self, user: int) -> float:
        """Return β, the radius of the region of confidence of this user now."""
        return float(self.belief(user)[2])

    def user_precision(self, user: int) -> Floats:
        """Return S⁻¹, (dim, dim), the metric in which the region of confidence of this user is a ball."""
        return np.asarray(np.linalg.inv(self.belief(user)[1]))


def unpack_policy(header: dict[str, Any], arrays: archive.Arrays) -> Policy:
    """Return the policy of which `pack` gave header and arrays, of whatever class the header names."""
    return policy_classes()[header["policy"]].unpack(header, arrays)


def policy_classes(base: type[Policy] = Policy) -> dict[str, type[Policy]]:
    """Return `base` and all its subclasses by name, those that a user has defined too."""
    found = {base.__name__: base}
    for subclass in base.__subclasses__():
        found |= policy_classes(subclass)
    return found
