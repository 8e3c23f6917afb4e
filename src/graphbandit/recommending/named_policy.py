"""`NamedPolicy`: users and arms by name around a policy. Decides, and changes users, edges and arms.

The features of an arm are a *version*: a row that never changes, so that a late reward is learned
with the features that were shown. The library's `Recommender` and the service are built on this.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..compute.arrays import Floats, Ints
from ..graph import UserGraph
from ..policies import Policy
from ..policies.core.kernels import Belief, Requests
from ..policies.core.top_arms import ArmDirections, Mask, best_first, is_worth_searching
from ..validate import NOT_KNOWN
from .errors import InvalidRequest, UnknownName
from .offered_arms import OfferedArms, Pool
from .requests import AnyRequest, Filter, ResolvedRequest
from .unknown_users import UNKNOWN_USER, UnknownUsers

Attributes = Mapping[str, str | list[str]]
"""What one can filter arms by: text, or a list of tags, of which one is enough."""
CACHED_FILTERS = 1000
"""Filters whose eligible arms are cached until the arms change."""
CACHED_ARMS = 10_000_000
"""Eligible arms that are cached, of all filters together, about."""


class Ranking(NamedTuple):
    """A decision about one request: the arms to show, best first."""

    arms: list[int]  # versions
    mean: list[float]
    bonus: list[float]
    propensity: float  # probability that the first arm came first
    best: float  # the largest mean among the candidates


class NamedPolicy:
    """A policy that knows users and arms by name.

    >>> from graphbandit import LinUCB, graphs
    >>> from graphbandit.recommending.requests import Request
    >>> named = NamedPolicy(LinUCB(graphs.from_edges([(0, 1)]), 2), ["ann", "bob"])
    >>> named.put_arm("tea", np.array([1.0, 0.0]), {"topic": "drinks"})
    >>> [ranking] = named.rank([named.resolve(Request("ann", where={"topic": ["drinks"]}))], np.random.default_rng(0))
    >>> [named.versions[version] for version in ranking.arms]
    ['tea']
    """

    def __init__(self, policy: Policy, names: list[str], gone: Iterable[int] = ()) -> None:
        self.policy = policy
        self.names = names  # of all rows, deleted users included
        self.gone = set(gone)  # rows of deleted users
        self.rows = {name: row for row, name in enumerate(names) if row not in self.gone}
        self.arms: dict[str, int] = {}  # name: newest version
        self.versions: list[str] = []  # the arm of each version
        self.attributes: list[Attributes] = []  # of each version
        self.catalogue = 0  # number of the last change of the arms
        self.since: list[int] = []  # of each version: the change that offered it,
        self.until: list[int | None] = []  # and the one that ended that; None: it is offered
        self.item_ids: dict[str, int] = {}  # name: id of the item, for deleted arms too; in order of first versions
        self._features = np.empty((0, policy.dim))
        self._version_items = np.empty(0, dtype=np.int64)  # id of each version's item, -1 where there is no version yet
        self._offered = OfferedArms()
        self._directions = ArmDirections(policy.dim)  # of the newest version of each item
        self._newest = np.empty(0, dtype=np.int64)  # version of each item, -1 if it is not offered
        self._changed: list[int] = []  # items whose directions are out of date
        self._lock = threading.Lock()
        self._eligible: dict[tuple[tuple[str, tuple[str, ...]], ...], Pool] = {}  # filter: arms
        self.unknown_users = UnknownUsers()

    @property
    def dim(self) -> int:
        """Number of features."""
        return self.policy.dim

    @property
    def features(self) -> Floats:
        """(versions, dim) features of every version of every arm."""
        return self._features[: len(self.versions)]

    @property
    def version_items(self) -> Ints:
        """(versions,) the id of each version's item."""
        return self._version_items[: len(self.versions)]

    # Reading: nothing below changes the state.

    def row(self, user: str, field: str = "user") -> int:
        """Return the row of a user."""
        row = self.rows.get(user)
        if row is None:
            raise UnknownName(field, f"there is no user {user!r}.")
        return row

    def version(self, arm: str, field: str = "arm") -> int:
        """Return the newest version of an arm."""
        version = self.arms.get(arm)
        if version is None:
            raise UnknownName(field, f"there is no arm {arm!r}.")
        return version

    def weight(self, a: int, b: int) -> float:
        """Weight of the edge between two rows; 0 if there is none."""
        return self.policy.live_graph.weight(a, b)

    def edges(self, row: int) -> list[tuple[int, float]]:
        """Return the neighbours of a row and the weights of the edges."""
        return self.policy.live_graph.edges_of(row)

    def resolve(self, request: AnyRequest) -> ResolvedRequest:
        """Look up the names in a request: user row and eligible arm versions.

        A user that nobody knows has the row `UNKNOWN_USER`.
        """
        versions, pool = self._eligible_versions(request)
        if len(versions) == 0:
            raise InvalidRequest("candidates", "no arm is eligible.")
        is_all = request.candidates is None and not request.where and not request.exclude
        row = self.rows.get(request.user, UNKNOWN_USER)
        by_filter = self._filter(request) if request.candidates is None and not is_all else None
        name = request.user if row == UNKNOWN_USER else None
        return ResolvedRequest(row, versions, min(request.k, len(versions)), is_all, name, pool=pool, filter=by_filter)

    def _filter(self, request: AnyRequest) -> dict[str, Any]:
        """Return the filter by which `eligible_at` finds the same arms later: shorter in a log than the arms."""
        where = {name: list(values) for name, values in (request.where or {}).items()}
        excluded = sorted({self.arms[name] for name in request.exclude or () if name in self.arms})
        return {"where": where, "exclude": excluded, "catalogue": self.catalogue}

    def _eligible_versions(self, request: AnyRequest) -> tuple[Ints, Pool | None]:
        """Return the candidates, less those that the filter leaves out or the request excludes.

        Also as a pool if there is no list of candidates.
        """
        if request.candidates is None:
            pool = self.matching(request.where or {})
            if request.exclude:
                pool = pool.without(self._offered.births(request.exclude))
            return pool.versions, pool
        try:
            versions = list(map(self.arms.__getitem__, request.candidates))
        except KeyError as error:
            raise UnknownName("candidates", f"there is no arm {error.args[0]!r}.") from None
        if len(set(versions)) != len(versions):
            versions = list(dict.fromkeys(versions))
        if request.where:
            versions = [version for version in versions if _matches(self.attributes[version], request.where)]
        if request.exclude:
            excluded = {self.arms.get(name) for name in request.exclude}  # an unknown arm is excluded anyway
            versions = [version for version in versions if version not in excluded]
        return np.array(versions, dtype=np.int64), None

    def rank(self, requests: Sequence[ResolvedRequest], draws: np.random.Generator) -> list[Ranking]:
        """Rank the eligible arms of each request; one call of the policy for all users it knows."""
        known = [request for request in requests if request.user != UNKNOWN_USER]
        if len(known) == len(requests):
            return self._rank_known(known, draws)
        ranked = iter(self._rank_known(known, draws) if known else ())
        return [self._rank_newcomer(request, draws) if request.user == UNKNOWN_USER else next(ranked) for request in requests]

    def _rank_known(self, requests: Sequence[ResolvedRequest], draws: np.random.Generator) -> list[Ranking]:
        if not any(self._is_searched(request) for request in requests):
            return self._scan(requests, draws)
        # One after the other. All have the random numbers that a scan of all would give them.
        ends = list(accumulate(len(request.versions) for request in requests))
        luck, rankings = draws.random(ends[-1]), []
        for request, end in zip(requests, ends, strict=True):
            own = luck[end - len(request.versions) : end]
            ranking = self._search(request, own, draws) if self._is_searched(request) else None
            rankings += self._scan([request], draws, own) if ranking is None else [ranking]
        return rankings

    def _is_searched(self, request: ResolvedRequest) -> bool:
        """Return True if the best arms of a request are searched for, if possible, and not all of them scored."""
        return request.pool is not None and request.features is None and self.is_large(request.pool, request.k)

    def is_large(self, pool: Pool, k: int) -> bool:
        """Return True if a search for `k` arms of the pool is faster than scoring all of them."""
        return is_worth_searching(len(pool), k, len(self.item_ids))

    def eligible(self, pool: Pool) -> Mask:
        """Return a 1 for each item whose newest version is in the pool."""
        if pool.is_all:
            return (self._newest >= 0).view(np.uint8)
        return pool.mask(self._version_items, len(self._newest))

    def contenders(self, belief: Belief, eligible: Mask, k: int) -> Ints | None:
        """Return the versions that may be among the `k` best or have the largest mean; None if all must be scored."""
        self.refresh_directions()
        rows = self._directions.contenders(belief, self.policy.item_table, eligible, k)
        return None if rows is None else self._newest[rows]

    def refresh_directions(self) -> None:
        """Copy the features of arms that have changed to the table in single precision."""
        with self._lock:
            if self._changed:
                items = np.unique(self._changed)
                items = items[self._newest[items] >= 0]
                self._directions.put(items, self._features[self._newest[items]], items)
                self._changed = []

    def _search(self, request: ResolvedRequest, luck: Floats, draws: np.random.Generator) -> Ranking | None:
        """Rank as `_scan` does, without scoring all arms; None if all must be scored."""
        policy, pool, belief = self.policy, request.pool, self.policy.search_belief(request.user)
        assert pool is not None
        versions = None if belief is None else self.contenders(belief, self.eligible(pool), request.k)
        if versions is None:
            return None
        places = self._offered.places(pool, versions)
        order = np.argsort(places)
        versions, places = versions[order], places[order]
        mean, bonus = policy.scores(request.user, self._features[versions], items=self._version_items[versions])
        values, best = mean + bonus, float(mean.max())
        tied = versions[values == values.max()]
        if policy.decides_uniformly(draws):
            versions = pool.versions[best_first(np.zeros(len(luck)), luck, request.k)]
            mean, bonus = policy.scores(request.user, self._features[versions], items=self._version_items[versions])
        else:
            first = best_first(values, luck[places], request.k)
            versions, mean, bonus = versions[first], mean[first], bonus[first]
        chance = 1.0 / len(tied) if versions[0] in tied else 0.0
        propensity = (1.0 - policy.epsilon) * chance + policy.epsilon / len(luck)
        return Ranking(versions.tolist(), mean.tolist(), bonus.tolist(), propensity, best)

    def _scan(
        self, requests: Sequence[ResolvedRequest], draws: np.random.Generator, luck: Floats | None = None
    ) -> list[Ranking]:
        """Score all arms of all requests."""
        users, places = np.array([request.user for request in requests]), np.array([request.k for request in requests])
        rows = np.concatenate([request.versions for request in requests])
        start = np.array([0, *accumulate([len(request.versions) for request in requests])])
        if any(request.features is not None for request in requests):  # vectors that depend on the request's context
            table = np.concatenate([self._vectors(request) for request in requests])
            asked = Requests(users, table, np.arange(len(rows)), start, places, self._version_items[rows])
        else:
            asked = Requests(users, self._features, rows, start, places, self._version_items)
        ranked = self.policy.decide_many(asked, draws, luck)
        # The arms shown, for all requests at once: reading an array one number at a time is slow.
        end = np.cumsum(places)
        shown = np.repeat(start[:-1], places)
        shown += ranked.order[shown + np.arange(end[-1]) - np.repeat(end - places, places)]
        arms, mean, bonus = rows[shown].tolist(), ranked.mean[shown].tolist(), ranked.bonus[shown].tolist()
        best, propensity = np.maximum.reduceat(ranked.mean, start[:-1]).tolist(), ranked.propensity.tolist()
        rankings, first = [], 0
        for i, last in enumerate(end.tolist()):
            rankings.append(Ranking(arms[first:last], mean[first:last], bonus[first:last], propensity[i], best[i]))
            first = last
        return rankings

    def _rank_newcomer(self, request: ResolvedRequest, draws: np.random.Generator) -> Ranking:
        versions = request.versions
        vectors, items = self._vectors(request), self._version_items[versions]
        scores = self.unknown_users.scores(self.policy, request.name, vectors, items, request.near)
        order, propensity = self.unknown_users.order(self.policy, scores, request.k, draws)
        shown = versions[order].tolist(), scores.mean[order].tolist(), scores.bonus[order].tolist()
        return Ranking(*shown, propensity, float(scores.mean.max()))

    def _vectors(self, request: ResolvedRequest) -> Floats:
        """(m, dim) the features of the request's arms."""
        return self._features[request.versions] if request.features is None else request.features

    def matching(self, where: Filter) -> Pool:
        """Return the arms on offer that a filter leaves."""
        if not where:
            return self._offered.pool()
        key = tuple((name, tuple(where[name])) for name in sorted(where))
        found = self._eligible.get(key)
        if found is None:
            cached = list(self._eligible.values())  # a copy, since another thread may add a filter meanwhile
            if len(cached) >= CACHED_FILTERS or sum(map(len, cached)) > CACHED_ARMS:
                self._eligible.clear()
            found = self._offered.some(version for version in self.arms.values() if _matches(self.attributes[version], where))
            self._eligible[key] = found
        return found

    def places(self, pool: Pool, names: Iterable[str]) -> Ints:
        """Where the arms of these names stand in a pool; those that are not in it are left out."""
        return pool.places(self._offered.births(names))

    def ranked(self, user: int) -> list[tuple[str, float, float]]:
        """All arms with mean and bonus, as the user would be shown them now."""
        versions = self._offered.pool().versions
        if len(versions) == 0:
            return []
        draws = np.random.default_rng(0)
        if self.policy.is_optimistic:  # `rank` chooses one place after the other, which takes long for all of them
            mean, bonus = self.policy.scores(user, self._features[versions], items=self._version_items[versions])
            order = np.lexsort((-draws.random(len(versions)), -(mean + bonus)))
            names = [self.versions[version] for version in versions[order].tolist()]
            return list(zip(names, mean[order].tolist(), bonus[order].tolist(), strict=True))
        [ranking] = self._scan([ResolvedRequest(user, versions, len(versions), True)], draws)
        return [(self.versions[v], mean, bonus) for v, mean, bonus in zip(*ranking[:3], strict=True)]

    def matching_versions(self, where: Filter) -> Ints:
        """Every version with these attributes, whether it is offered or not."""
        return np.array([v for v, attributes in enumerate(self.attributes) if _matches(attributes, where)], dtype=np.int64)

    # Changes.

    def learn(
        self, users: npt.ArrayLike, versions: Sequence[int] | Ints, rewards: npt.ArrayLike, features: Floats | None = None
    ) -> None:
        """Learn rewards of arms in the versions that were shown; `features` if these depended on the context."""
        x = self._features[versions] if features is None else features
        items = self._version_items[versions]
        self.policy.update_many(users, x, rewards, items=items)
        self.unknown_users.learned += len(versions)

    def put_arm(self, name: str, features: Floats, attributes: Attributes) -> None:
        """Add an arm, or a new version of one."""
        version = len(self.versions)
        if version == len(self._features):
            more = max(16, version)
            self._features = np.concatenate([self._features, np.empty((more, self._features.shape[1]))])
            self._version_items = np.concatenate([self._version_items, np.full(more, NOT_KNOWN)])
        self._features[version] = features
        self._version_items[version] = self.item_ids.setdefault(name, len(self.item_ids))
        self.versions.append(name)
        self.attributes.append(dict(attributes))
        self._arms_changed(name)
        self.since.append(self.catalogue)
        self.until.append(None)
        self.arms[name] = version
        self._offered.put(name, version)
        item = self.item_ids[name]
        if item >= len(self._newest):
            self._newest = np.concatenate([self._newest, np.full(max(16, item), -1)])
        self._newest[item] = version
        self._changed.append(item)
        self._eligible.clear()

    def delete_arm(self, name: str) -> None:
        """Stop offering an arm; nothing happens if there is none of this name."""
        self._arms_changed(name)
        if self.arms.pop(name, None) is not None:
            self.policy.remove_item(self.item_ids[name])  # the name may return as something else
            self._offered.remove(name)
            self._newest[self.item_ids[name]] = -1
        self._eligible.clear()

    def _arms_changed(self, name: str) -> None:
        """Count a change of the arms, which ends the version of this arm."""
        self.catalogue += 1
        if name in self.arms:
            self.until[self.arms[name]] = self.catalogue

    def put_user(self, name: str, edges: Mapping[str, float]) -> int:
        """Add a user with its neighbours, or add neighbours of one; its row. Unknown neighbours are left out."""
        near = {self.rows[other]: weight for other, weight in edges.items() if other in self.rows and other != name}
        if name not in self.rows and len(self.names) == self.policy.n_users:
            self.rows[name] = self.policy.add_user(near)
            self.names.append(name)
            return self.rows[name]
        if name not in self.rows:  # the row that stood for nobody, as a graph needs one
            self.rows[name] = len(self.names)
            self.names.append(name)
        for other, weight in near.items():
            self.set_edge(self.rows[name], other, weight)
        return self.rows[name]

    def join_many(self, names: Sequence[str]) -> None:
        """Add all users that are new, without edges. Costs as much as all users, however few join."""
        new = [name for name in dict.fromkeys(names) if name not in self.rows]
        policy, first = self.policy, len(self.names)
        n = max(policy.n_users, first + len(new))
        if n > policy.n_users:
            bigger = policy.graph.adjacency.copy()
            bigger.resize((n, n))
            policy.set_graph(UserGraph(bigger))
        self.names += new
        self.rows |= {name: first + k for k, name in enumerate(new)}

    def delete_user(self, name: str) -> None:
        """Forget a user; nothing happens if there is none of this name."""
        row = self.rows.get(name)
        if row is not None:
            self.policy.remove_user(row)
            self.gone.add(row)
            del self.rows[name]

    def set_edge(self, a: int, b: int, weight: float) -> None:
        """Join two rows, change the weight of their edge, or, with weight 0, part them."""
        known = self.weight(a, b) > 0
        if weight > 0 and known:
            self.policy.set_weight(a, b, weight)
        elif weight > 0:
            self.policy.add_edge(a, b, weight)
        elif known:
            self.policy.remove_edge(a, b)

    # Files.

    def restore_arms(self, header: Mapping[str, Any], features: Floats) -> None:
        """Set the arms from what `arms_table` returned, and their features."""
        self.arms, self.versions, self.attributes = header["arms"], header["versions"], header["attributes"]
        self._features = features
        self.catalogue, self.since, self.until = header["catalogue"], header["since"], header["until"]
        items = [self.item_ids.setdefault(name, len(self.item_ids)) for name in self.versions]
        self._version_items = np.array(items, dtype=np.int64)
        self._offered, self._directions = OfferedArms(self.arms), ArmDirections(self.dim)
        newest = self._offered.pool().versions
        self._newest = np.full(len(self.item_ids), -1)
        self._newest[self._version_items[newest]] = newest
        self._changed = self._version_items[newest].tolist()

    def arms_table(self) -> dict[str, Any]:
        """Return the arms as plain JSON values, copied; their features are `features`."""
        arms = dict(arms=self.arms.copy(), versions=self.versions.copy(), attributes=self.attributes.copy())
        return arms | dict(catalogue=self.catalogue, since=self.since.copy(), until=self.until.copy())


def _matches(attributes: Attributes, where: Filter) -> bool:
    return all(_has(attributes.get(name), values) for name, values in where.items())


def _has(attribute: str | list[str] | None, values: Sequence[str]) -> bool:
    return any(tag in values for tag in attribute) if isinstance(attribute, list) else attribute in values
