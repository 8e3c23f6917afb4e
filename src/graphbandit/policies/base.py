"""`Policy`: the Python shell that every policy shares around its compiled kernels."""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, Self, overload

import numpy as np
import numpy.typing as npt
from scipy import sparse

from .. import archive
from ..graph import UserGraph
from ..jit import Floats, Ints
from ..live import LiveGraph
from ..observations import Observations
from . import kernels
from .live import Live

Seed = int | np.random.Generator | np.random.SeedSequence | None
NO_NOISE = np.empty(0)
DRAWS = 1000
"""Further decisions that are drawn to find how probable the one taken was."""
GENERATORS: dict[str, Any] = {name: getattr(np.random, name) for name in ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")}


class Scores(NamedTuple):
    """What a policy thinks of each arm: its estimate, and the bonus that exploration adds."""

    mean: Floats
    bonus: Floats


class Choice(NamedTuple):
    """What was chosen, and how probable it was that this would be chosen: a line of a log for off-policy evaluation."""

    arm: int
    propensity: float


class Rankings(NamedTuple):
    """Decisions about many users with everything that a log of them needs; candidates of all users one after the other."""

    order: Ints  # (candidates,), for each user the positions of its candidates, best first, as many as there are places
    mean: Floats  # (candidates,)
    bonus: Floats  # (candidates,)
    propensity: Floats  # (users,), of the first arm being the first


class Policy(Live):
    """Recommends arms to the users of a graph and learns from their rewards.

    A subclass sets `State` to the type of its compiled state and builds one in `__init__`; everything else is here. Not
    thread-safe: one writer per policy.
    """

    State: ClassVar[type]
    state_parts: ClassVar[dict[str, type]] = {}
    """Types of the tuples nested in the state, by name, so that a file can be turned back into them."""
    quadratic: ClassVar[bool] = True
    """Whether bonus² is one quadratic form in the features for all arms: what is unanswered then shrinks all of them."""

    @property
    def period(self) -> int:
        """Observations between two calls of `refresh`; 0 if the policy needs none."""
        return 0

    def refresh(self) -> None:
        """Work that is not done in every round, in Python: clustering by a graph library, solving a large system."""

    def __init__(self, graph: UserGraph, dim: int, state: Any, params: dict[str, Any], seed: Seed, noise: int = 0) -> None:
        self.graph = graph
        self.dim = dim
        self.params = params
        self._state = state
        self._noise = noise  # standard normals that a decision needs
        self._since = 0  # observations since the last refresh
        self._rng = np.random.default_rng(seed)

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in self.params.items() if np.ndim(value) == 0)
        return f"{type(self).__name__}({self.graph!r}, {self.dim}, {settings})"

    def reseed(self, seed: Seed) -> None:
        """Replace the generator that breaks ties and draws samples."""
        self._rng = np.random.default_rng(seed)

    @overload
    def recommend(self, user: int, arms: npt.ArrayLike, *, propensity: Literal[False] = False) -> int: ...

    @overload
    def recommend(self, user: int, arms: npt.ArrayLike, *, propensity: Literal[True]) -> Choice: ...

    def recommend(self, user: int, arms: npt.ArrayLike, *, propensity: bool = False) -> int | Choice:
        """The row of `arms`, an (m, dim) array, to show to `user` now; with `propensity`, a `Choice` with its probability.

        A policy that samples is asked what it would choose under 1000 further draws. The draw of the decision itself counts as
        one more: a weight 1/propensity then is right on average, and never above 1001 (docs/policies.md, "Propensities").
        """
        user, features = self._check_user(user), self._checked_arms(arms)
        others = self._others(DRAWS) if propensity else None  # before the decision, which moves the generator on
        noise = self._draw_noise()
        arm = int(kernels.decide(self._state, user, features, noise, self._rng.random()))
        if others is None:
            return arm
        return Choice(arm, float(self._chances(user, features, np.vstack([noise, others]))[arm]))

    def propensities(self, user: int, arms: npt.ArrayLike, draws: int = DRAWS) -> Floats:
        """(m,) the probability with which `recommend` would choose each row of `arms` now; changes nothing.

        Exact, unless the policy samples: then from `draws` draws and one more that favours no arm, so that none has
        probability 0. The standard error is sqrt(p (1 - p) / draws), at most 0.016 with 1000.

        >>> from graphbandit import LinUCB, graphs
        >>> LinUCB(graphs.empty(1), 2).propensities(0, [[1, 0], [0, 1], [0, 0]]).tolist()
        [0.5, 0.5, 0.0]
        """
        user, features = self._check_user(user), self._checked_arms(arms)
        check_count(draws=draws)
        if not self._is_sampling:
            return self._chances(user, features, np.zeros((1, self._noise)))
        chances = self._chances(user, features, self._others(draws))
        return np.asarray((draws * chances + 1.0 / len(features)) / (draws + 1))

    def rank(self, user: int, arms: npt.ArrayLike, k: int) -> Ints:
        """The `k` best rows of `arms` for `user`, best first; ties in random order."""
        user, features = self._check_user(user), self._checked_arms(arms)
        check_places(k, len(features))
        values = np.empty(len(features))
        kernels.all_values(self._state, user, features, self._draw_noise(), values)
        dealt = self._rng.permutation(len(features))
        return dealt[np.argsort(-values[dealt], kind="stable")][:k]

    def decide_many(
        self, users: Ints, table: Floats, rows: Ints, start: Ints, places: Ints, draws: np.random.Generator
    ) -> Rankings:
        """`rank` for many users, with scores and propensities, compiled in one go. For services, which have checked everything.

        User i is offered the arms `table[rows[start[i] : start[i + 1]]]`, of which the best `places[i]` are put in order.
        Chance comes from `draws`, so that nothing in the policy changes: what is rebuilt from a log of rewards does not depend
        on the decisions that it was asked for.

        >>> from graphbandit import LinUCB, graphs
        >>> one, two = np.ones(1, dtype=np.int64), np.arange(2)
        >>> policy = LinUCB(graphs.empty(1), 2)
        >>> ranked = policy.decide_many(0 * one, np.eye(2), two, 2 * two, one, np.random.default_rng(0))
        >>> ranked.propensity.tolist()
        [0.5]
        """
        offered, luck = len(rows), draws.random(len(rows))
        ranked = Rankings(np.zeros(offered, dtype=np.int64), np.empty(offered), np.empty(offered), np.empty(len(users)))
        if self._is_optimistic:
            kernels.rank_many(self._state, users, table, rows, start, places, luck, *ranked)
            return ranked
        for i, user in enumerate(users.tolist()):
            own = slice(start[i], start[i + 1])
            arms, values = table[rows[own]], np.empty(start[i + 1] - start[i])
            ranked.mean[own], ranked.bonus[own] = self.scores(user, arms)
            noise = draws.standard_normal((1 + DRAWS if self._is_sampling else 1, self._noise))
            kernels.all_values(self._state, user, arms, noise[0], values)
            ranked.order[own] = np.lexsort((luck[own], -values))
            ranked.propensity[i] = self._chances(user, arms, noise)[ranked.order[start[i]]]
        return ranked

    @property
    def _is_optimistic(self) -> bool:
        """Whether the values to maximise are mean + bonus, without noise."""
        return self._noise == 0

    def scores(self, user: int, arms: npt.ArrayLike) -> Scores:
        """Estimate and exploration bonus of every row of `arms`; changes nothing."""
        user, features = self._check_user(user), self._checked_arms(arms)
        scores = Scores(np.empty(len(features)), np.empty(len(features)))
        kernels.all_scores(self._state, user, features, scores.mean, scores.bonus)
        return scores

    def update(self, user: int, x: npt.ArrayLike, reward: float) -> None:
        """Learn that showing features `x` to `user` earned `reward`."""
        user = self._check_user(user)
        features = _as_floats(x, "x")
        if features.shape != (self.dim,):
            raise ValueError(f"x must be a vector of length {self.dim}, but its shape is {features.shape}.")
        if not _is_number(reward):
            raise ValueError(f"reward must be a number, but it is {reward!r}.")
        if not kernels.learn(self._state, user, features, float(reward)):
            if not abs(reward) <= kernels.LARGEST_REWARD:
                raise ValueError(f"reward must be finite and at most {kernels.LARGEST_REWARD:g} in size, but it is {reward!r}.")
            raise ValueError(f"x must be finite and at most {kernels.LARGEST_FEATURE:g} in size, but it is {features}.")
        self.count_rounds(1)

    def update_many(self, users: npt.ArrayLike, X: npt.ArrayLike, rewards: npt.ArrayLike) -> None:
        """Learn a batch, row by row: the same numbers as calls of `update`, compiled. Nothing changes if one row is bad.

        >>> from graphbandit import LinUCB, graphs
        >>> policy = LinUCB(graphs.empty(2), 2)
        >>> policy.update_many([0, 1], [[1.0, 0.0], [0.0, 1.0]], [1.0, 0.5])
        >>> policy.theta.tolist()
        [[0.5, 0.0], [0.0, 0.25]]
        """
        who, features, values = checked_batch(self._live, self.dim, users, X, rewards)
        if type(self).update is not Policy.update:  # a subclass that learns in its own way
            for row, user in enumerate(who.tolist()):
                self.update(user, features[row], float(values[row]))
            return
        done = 0
        while done < len(who):  # in one go, unless a refresh is due in between
            now = slice(done, min(len(who), done + self.until_refresh))
            kernels.learn_many(self._state, who[now], features[now], values[now])
            self.count_rounds(now.stop - done)
            done = now.stop

    def unit(self, user: int) -> float:
        """The bonus of an arm about which one reward would tell as much as is known: bonus / unit = sqrt(xᵀ V⁻¹ x) with V in
        observations. By default `beta`, or 1 if a policy has none."""
        beta = getattr(self, "beta", None)
        return 1.0 if beta is None else float(beta(user))

    def count_rounds(self, rounds: int) -> None:
        """Note that the state has taken in so many observations, at most `until_refresh` of them, and refresh if it is time."""
        self._since += rounds
        if self.period and self._since >= self.period:
            self._since = 0
            self.refresh()

    @property
    def until_refresh(self) -> int:
        """How many observations may follow before `refresh` is due."""
        return self.period - self._since if self.period else sys.maxsize

    @property
    def theta(self) -> Floats:
        """(n_users, dim) the current estimate for every user, as a copy."""
        raise NotImplementedError

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the whole policy to one file: graph, settings, state and random generator."""
        archive.write(path, "policy", *self._packed())

    def _packed(self) -> tuple[dict[str, Any], archive.Arrays]:
        """Header and arrays of the file."""
        arrays, numbers = _flatten(self._state)
        adjacency = self.graph.adjacency
        arrays |= {"graph.data": adjacency.data, "graph.indices": adjacency.indices, "graph.indptr": adjacency.indptr}
        header = {
            "policy": type(self).__name__,
            "dim": self.dim,
            "noise": self._noise,
            "since": self._since,
            "params": {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in self.params.items()},
            "numbers": numbers,
            "ids": plain_ids(self.graph.ids),
            "generator": self._rng.bit_generator.state,
        }
        return header, arrays

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The policy that `save` wrote; it continues bit for bit where the saved one stopped."""
        header, arrays = archive.read(path, "policy")
        if header["policy"] != cls.__name__:
            raise archive.ArchiveError(f"{path} holds a {header['policy']}, not a {cls.__name__}.")
        try:
            policy = cls._unpacked(header, arrays)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise archive.ArchiveError(f"{path} is damaged: it lacks a part of a {cls.__name__} ({error!r}).") from None
        if any(grams.shape[1:] != (policy.dim, policy.dim) for grams in _grams(policy._state)):
            raise archive.ArchiveError(f"{path} is damaged: its arrays are not those of dimension {policy.dim}.")
        return policy

    @classmethod
    def _unpacked(cls, header: dict[str, Any], arrays: archive.Arrays) -> Self:
        """The policy of which `_packed` gave header and arrays."""
        policy = cls.__new__(cls)
        csr = tuple(arrays.pop(f"graph.{part}") for part in ("data", "indices", "indptr"))
        n = len(csr[2]) - 1
        graph = UserGraph(sparse.csr_array(csr, shape=(n, n)), header["ids"])
        state = _unflatten(cls.State, arrays, header["numbers"], cls.state_parts)
        Policy.__init__(policy, graph, header["dim"], state, header["params"], None, header["noise"])
        policy._rng = read_generator(header["generator"])
        policy._since = header["since"]
        return policy

    def _draw_noise(self) -> Floats:
        return self._rng.standard_normal(self._noise) if self._noise else NO_NOISE

    @property
    def _is_sampling(self) -> bool:
        """Whether the noise has to be drawn many times to know the probability of a choice."""
        return self._noise > 0

    def _others(self, draws: int) -> Floats:
        """(draws, noise) what other decisions would be made of; none if one says it all. The generator does not move."""
        if not self._is_sampling:
            return np.empty((0, self._noise))
        ahead = copy.deepcopy(self._rng).integers(2**63, size=4)  # hashed into a seed, which makes an unrelated stream
        return np.random.default_rng(ahead).standard_normal((draws, self._noise))

    def _chances(self, user: int, arms: Floats, noise: Floats) -> Floats:
        """(m,) how probable each arm is, on average over the rows of `noise`: the best under a row share its probability."""
        chances = np.zeros(len(arms))
        kernels.count_wins(self._state, user, arms, noise, chances)
        return chances / len(noise)

    def _checked_arms(self, arms: npt.ArrayLike) -> Floats:
        features = _as_floats(arms, "arms")
        if features.ndim != 2 or features.shape[1] != self.dim or len(features) == 0:
            raise ValueError(
                f"arms must be an array with one row of {self.dim} features for each of one or more arms, "
                f"but its shape is {features.shape}."
            )
        if not kernels.all_usable(features):
            row, column = np.argwhere(~(np.abs(features) <= kernels.LARGEST_FEATURE))[0]
            raise ValueError(
                f"arms must be finite and at most {kernels.LARGEST_FEATURE:g} in size, "
                f"but arms[{row}, {column}] is {features[row, column]}; scale the features."
            )
        return features


def checked_batch(
    graph: UserGraph | LiveGraph, dim: int, users: npt.ArrayLike, X: npt.ArrayLike, rewards: npt.ArrayLike
) -> tuple[Ints, Floats, Floats]:
    """The columns of a batch of observations, or a ValueError that names the first row that is bad."""
    features, values = _as_floats(X, "X"), _as_floats(rewards, "rewards")
    names = np.asarray(users)
    if names.ndim != 1 or values.shape != names.shape or features.shape != (len(names), dim):
        raise ValueError(
            f"users, X and rewards must have shapes (k,), (k, {dim}) and (k,), "
            f"but they are {names.shape}, {features.shape} and {values.shape}."
        )
    if len(names) == 0:
        return np.empty(0, dtype=np.int64), features, values
    if names.dtype.kind not in "iu" or names.min() < 0 or names.max() >= graph.n_users:
        for row, user in enumerate(users):  # type: ignore[arg-type]
            try:
                graph.check_user(user)
            except ValueError as error:
                raise ValueError(f"users[{row}] is wrong: {error}") from None
    for name, column, largest in (("X", features, kernels.LARGEST_FEATURE), ("rewards", values, kernels.LARGEST_REWARD)):
        usable = np.abs(column) <= largest  # NaN is not
        if not usable.all():
            row = np.argwhere(~usable)[0, 0]
            raise ValueError(f"{name}[{row}] must be finite and at most {largest:g} in size, but it is {column[row]}.")
    return names.astype(np.int64), features, values


def check_positive(**values: float) -> None:
    """Raise a ValueError that names the first argument that is not a positive finite number."""
    for name, value in values.items():
        if not _is_number(value) or not 0 < value < np.inf:
            raise ValueError(f"{name} must be a positive number, but it is {value!r}.")


def check_not_negative(**values: float) -> None:
    """Raise a ValueError that names the first argument that is negative or not finite."""
    for name, value in values.items():
        if not _is_number(value) or not 0 <= value < np.inf:
            raise ValueError(f"{name} must be zero or a positive number, but it is {value!r}.")


def check_probability(**values: float) -> None:
    """Raise a ValueError that names the first argument outside (0, 1]."""
    for name, value in values.items():
        if not _is_number(value) or not 0 < value <= 1:
            raise ValueError(f"{name} must be a probability above 0 and up to 1, but it is {value!r}.")


def check_count(least: int = 1, **values: int) -> None:
    """Raise a ValueError that names the first argument that is not an integer of at least `least`."""
    for name, value in values.items():
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
            raise ValueError(f"{name} must be an integer of at least {least}, but it is {value!r}.")


def check_places(k: int, n_arms: int) -> None:
    """Raise a ValueError unless so many arms can be ranked."""
    if not isinstance(k, int | np.integer) or not 1 <= k <= n_arms:
        raise ValueError(f"k must lie between 1 and the number of arms, {n_arms}, but it is {k!r}.")


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> int:
    """The position of `value` among `choices`, or a ValueError that lists them."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, but it is {value!r}.")
    return choices.index(value)


def check_dim(graph: UserGraph, dim: int) -> int:
    """`dim` as a positive int; a graph that is none is noticed here too."""
    if not isinstance(graph, UserGraph):
        raise ValueError(f"graph must be a UserGraph (see graphbandit.graphs), but it is a {type(graph).__name__}.")
    if not isinstance(dim, int | np.integer) or isinstance(dim, bool) or dim < 1:
        raise ValueError(f"dim must be a positive integer, but it is {dim!r}.")
    return int(dim)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def _as_floats(values: npt.ArrayLike, name: str) -> Floats:
    try:
        if np.iscomplexobj(values):
            raise TypeError
        array = np.ascontiguousarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be an array of numbers, but it is {values!r}.") from None
    # A read-only array is another type to the compiler: a copy is cheaper than a second compilation.
    return array if array.flags.writeable else array.copy()


def plain_ids(ids: Sequence[Hashable] | None) -> list[Hashable] | None:
    """User ids as a file can hold them, or a ValueError."""
    plain = [name.item() if isinstance(name, np.generic) else name for name in ids or ()]
    odd = next((name for name in plain if not isinstance(name, str | int)), None)
    if odd is not None:
        raise ValueError(f"a policy can be saved when its user ids are strings or integers, but one is {odd!r}.")
    return None if ids is None else plain


def read_generator(state: dict[str, Any]) -> np.random.Generator:
    """The generator that a file describes."""
    bits = GENERATORS[state["bit_generator"]]()
    # Large and small numbers together would become floats, which cannot hold 64 bits.
    inner = {name: np.array(part, np.uint64) if isinstance(part, list) else part for name, part in state["state"].items()}
    bits.state = state | {"state": inner}
    return np.random.Generator(bits)


def _grams(state: Any) -> Iterator[Floats]:
    """The Gram matrices of all observations in the state."""
    for part in state:
        if isinstance(part, Observations):
            yield part.gram
        elif isinstance(part, tuple):
            yield from _grams(part)


def _flatten(state: Any, prefix: str = "") -> tuple[archive.Arrays, dict[str, Any]]:
    """The arrays and the plain numbers of nested named tuples, under dotted names."""
    arrays: archive.Arrays = {}
    numbers: dict[str, Any] = {}
    for name, value in state._asdict().items():
        if isinstance(value, tuple):
            numbers[f"{prefix}{name}"] = type(value).__name__
            inner_arrays, inner_numbers = _flatten(value, f"{prefix}{name}.")
            arrays |= inner_arrays
            numbers |= inner_numbers
        elif isinstance(value, np.ndarray):
            arrays[f"{prefix}{name}"] = value
        else:
            numbers[f"{prefix}{name}"] = value
    return arrays, numbers


def _unflatten(kind: type, arrays: archive.Arrays, numbers: dict[str, Any], parts: dict[str, type], prefix: str = "") -> Any:
    values = {}
    for name in kind._fields:  # type: ignore[attr-defined]
        key = f"{prefix}{name}"
        if key in arrays:
            values[name] = arrays[key]
        elif isinstance(numbers[key], str):
            values[name] = _unflatten(parts[numbers[key]], arrays, numbers, parts, f"{key}.")
        else:
            values[name] = numbers[key]
    return kind(**values)
