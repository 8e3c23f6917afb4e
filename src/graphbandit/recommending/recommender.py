"""`Recommender`: names in, names out. Tables of friends, items and events around a policy."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Self, Unpack

import numpy as np

from ..compute.arrays import Floats, Ints
from ..display import as_html, shown_progress
from ..policies import Policy
from ..tables import EDGES as EDGE_ROLES
from ..tables import EVENTS, ITEMS, USERS, Reading, SaidColumns, Source, Table, read_table, split_columns, unmatched_ids
from ..validate import check, count
from . import recommender_file
from .behaviour import behaviour_vectors, unseen_items
from .catalogue_table import CatalogueTable
from .errors import UnknownName
from .features import Features
from .ids import filter_texts, id_text, id_texts
from .named_policy import NamedPolicy
from .open_recommendations import OpenRecommendations, Recommendation, check_reward
from .policy_choice import PolicyChoice
from .rank_everybody import Ids, RankAllOptions, rank_all
from .requests import Request
from .similar_users import EDGES, NEIGHBOURS, SimilarUsers
from .user_names import UserNames, read_users

CHUNK = 10_000  # events whose vectors are in memory at once


class Recommender:
    """Learns from events and recommends items to users, all by their own ids.

    Parameters
    ----------
    graph : table of friends, UserGraph or NetworkX graph, optional
        A path or a frame with two columns of users, such as user and friend or source and target,
        and perhaps a weight. Without it users have no edges.
    items : table, optional
        A column of ids, and whatever is known of the items. Without it, items are those of the
        first events, described by who took them.
    policy : str, function of a graph and a dimension, or object
        A name in `graphbandit.POLICIES`, "adaptive" by default; or any object with `recommend(user, arms)` and
        `update(user, x, reward)`, or a function that makes one.
    users : table, optional
        Attributes of users, for those of whom nothing else is known.
    features : Features, or a scikit-learn transformer, optional
        How items become vectors; guessed by default, and `print(recommender.features)` says how.
    params : mapping, optional
        Settings of the policy.
    epsilon : float
        Share of decisions that are uniform, for off-policy evaluation.
    columns : mapping of roles to columns, optional
        Which column is which, where its name does not say it: {"item": "url"}.
    skip_bad : bool
        Leave out rows of these tables that cannot be used, and count them in `notes`.
    seed : int

    Notes
    -----
    A user whom nobody has seen is served at once, from what everybody likes and what its attributes
    say. It joins with its first reward or edge. Ids of integer columns come back as integers.

    Examples
    --------
    >>> friends = {"user": ["ann", "bob"], "friend": ["bob", "eve"]}
    >>> items = {"item": ["tea", "cola", "milk"], "kind": ["hot", "cold", "cold"], "price": [2, 3, 1]}
    >>> recommender = Recommender(friends, items, policy="linucb", params={"exploration": 0.1})
    >>> recommender.fit({"user": ["ann", "bob"], "item": ["tea", "cola"], "reward": [1, 0]})
    Recommender(3 users, 3 items, 2 events, LinUCB, dim=4)
    >>> found = recommender.recommend("ann", k=2, exclude=["milk"])
    >>> found.items
    ('tea', 'cola')
    >>> recommender.reward(found, 1.0)
    >>> recommender.recommend("nobody has seen me", where={"kind": "hot"}).items
    ('tea',)
    """

    def __init__(
        self,
        graph: Any = None,
        items: Source | None = None,
        *,
        policy: str | Callable[..., Any] | Any = "adaptive",
        users: Source | None = None,
        features: Any = None,
        params: Mapping[str, Any] | None = None,
        epsilon: float = 0.0,
        columns: SaidColumns | None = None,
        skip_bad: bool = False,
        seed: int = 0,
    ) -> None:
        self._choice = PolicyChoice.of(policy, params, epsilon, seed)
        given = split_columns(columns or {}, {"graph": (graph, EDGE_ROLES), "items": (items, ITEMS), "users": (users, USERS)})
        self.notes: list[str] = []  # what was guessed or left out, as sentences
        reading: Reading = dict(skip_bad=skip_bad, say=self.notes.append)
        self.user_names: UserNames = read_users(graph, **reading | {"columns": given["graph"]})
        self.catalogue = CatalogueTable.read(items, features, **reading | {"columns": given["items"]})
        self.alike = None if users is None else SimilarUsers.read(users, **reading | {"columns": given["users"]})
        self._named: NamedPolicy | None = None
        self._shown = OpenRecommendations()
        self._draws = np.random.default_rng(seed)
        self._only_taken = False  # whether events have no rewards that differ
        self.n_events = 0  # learned so far

    def __repr__(self) -> str:
        if (named := self._named) is None:
            return f"Recommender({len(self.user_names):,} users, not fitted)"
        sizes = f"{len(named.rows):,} users, {len(named.arms):,} items, {self.n_events:,} events"
        return f"Recommender({sizes}, {type(named.policy).__name__}, dim={named.dim})"

    def _repr_html_(self) -> str:
        if (named := self._named) is None:
            return as_html(repr(self), [], [])
        sizes = {"users": len(named.rows), "items": len(named.arms), "events": self.n_events}
        rows = [*((name, f"{n:,}") for name, n in sizes.items()), ("policy", repr(self.policy))]
        return as_html("Recommender", [], rows, self.notes)

    @property
    def named(self) -> NamedPolicy:
        """The policy with its names; it is built when it is first needed."""
        if self._named is None:
            self._named = self._build(None)
        return self._named

    @property
    def policy(self) -> Policy:
        """The policy, which knows users and items by number: `named` has the names."""
        return self.named.policy

    @property
    def features(self) -> Features:
        """From columns to vectors."""
        return self.catalogue.features

    @property
    def users(self) -> list[Hashable]:
        """Ids of all users that it knows."""
        return [self.user_names.out(name) for name in (self.user_names.names if self._named is None else self._named.rows)]

    @property
    def items(self) -> list[Hashable]:
        """Ids of all items on offer."""
        return [self.catalogue.out(name) for name in self.named.arms]

    # Learning

    def fit(
        self,
        events: Source,
        *,
        columns: Mapping[str, str] | None = None,
        skip_bad: bool = False,
        progress: Callable[[float], None] | bool = True,
    ) -> Self:
        """Learn a log of events: user, item, reward, and perhaps time and context columns; may be called again.

        Events are learned in order of time. Users and items that are new join. Columns that play no
        role are the context of an event, if they are there at the first call. Where there are no
        rewards, or all are equal, an item that the user did not take is drawn beside each event, by
        popularity, and learned as 0.

        `progress` is a function of the share that is done; True shows a bar in a terminal.
        """
        table = read_table(events, EVENTS.allow_missing("reward"), columns=columns, skip_bad=skip_bad, name="events")
        table.check_columns("user", "item")
        self.notes += table.said
        user, user_ids = table.codes("user")
        item, item_ids = table.codes("item")
        reward = table.numbers("reward") if table.has("reward") else np.ones(len(table))
        order = table.order()
        first = self._named is None
        strangers = unmatched_ids("users of the events", user_ids, self.user_names.names, "the graph")
        if first and len(self.user_names) and strangers is not None:
            missing = len(set(user_ids) - set(self.user_names.names))
            self._warn(f"{strangers} Such users have no edges.", missing / len(user_ids))
        if self._named is None:
            self.user_names.adopt(table.is_integer("user"))
            self.catalogue.adopt(table.is_integer("item"))
            if not self.catalogue.ready:
                self.catalogue.describe(item_ids, behaviour_vectors(user[order], item[order], reward[order]))
            self._named = self._build(table, user_ids)
        self._join_all(user_ids)
        self._add_unknown_items(item_ids)
        named = self._named
        rows = np.array([named.rows[name] for name in user_ids], dtype=np.int64)[user]
        newest = np.array([named.arms[name] for name in item_ids], dtype=np.int64)
        versions = newest[item]
        context = self.features.context_rows(table, len(table))
        self._only_taken = self._only_taken or (first and np.ptp(reward) == 0 and len(item_ids) > 1)
        unseen = unseen_items(user, item, self._draws) if self._only_taken else None
        if unseen is not None:
            self.notes.append(
                "events: rewards are all equal, so an item that the user did not take is learned beside each, as 0."
            )
            reward = np.ones(len(reward))
        with shown_progress(progress) as show:
            for start in range(0, len(order), CHUNK):
                part = order[start : start + CHUNK]
                self._learn(rows[part], versions[part], reward[part], context[part])
                if unseen is not None:
                    other = part[unseen[part] >= 0]
                    self._learn(rows[other], newest[unseen[other]], np.zeros(len(other)), context[other])
                self.n_events += len(part)
                show(min(1.0, (start + CHUNK) / len(order)))
        return self

    def observe(self, user: Hashable, item: Hashable, reward: float, *, context: Mapping[str, Any] | None = None) -> None:
        """Learn that a user got an item, whoever chose it, and what it earned."""
        check_reward(reward)
        version, vector = self._version(item), self.features.context_rows(context)
        row = self._join(id_text(user, "user"))
        self._learn(np.array([row]), np.array([version]), np.array([float(reward)]), vector)
        self.n_events += 1

    def reward(self, recommendation: Recommendation | str, reward: float, *, item: Hashable | None = None) -> None:
        """Learn what a recommendation earned: its first item, or the one that is named. Each may be rewarded once."""
        check_reward(reward)
        name = recommendation if isinstance(recommendation, str) else recommendation.id
        shown = self._shown.find(name)
        names = [self.named.versions[version] for version in shown.versions]
        place = self._shown.place_of(name, names, None if item is None else id_text(item, "item"))
        context, row = self.features.context_rows(shown.context), self._join(shown.user, attributes=shown.attributes)
        self._learn(np.array([row]), np.array([shown.versions[place]]), np.array([float(reward)]), context)
        self._shown.close(name, place)
        self.n_events += 1

    def _learn(self, rows: Ints, versions: Ints, rewards: Floats, context: Floats) -> None:
        named = self.named
        named.learn(rows, versions, rewards, self.catalogue.whole(named.features[versions], context))

    # Deciding

    def recommend(
        self,
        user: Hashable,
        k: int = 1,
        *,
        candidates: Iterable[Hashable] | None = None,
        exclude: Iterable[Hashable] | None = None,
        where: Mapping[str, Any] | None = None,
        context: Mapping[str, Any] | None = None,
        attributes: Mapping[str, Any] | None = None,
    ) -> Recommendation:
        """Return the `k` best items for a user, fewer if not so many are eligible.

        Parameters
        ----------
        user : id
            It need not be known.
        candidates, exclude : ids of items, optional
            What to choose from, all by default, and what not to show.
        where : mapping of columns to a value or a list of values, optional
            Only items that have one of these values.
        context : mapping, optional
            Values of context columns; a missing one is average.
        attributes : mapping, optional
            Attributes of a newcomer who is not in the table of users, by its columns; a missing one is average.
        """
        check("k", k, count())
        named = self.named
        request = Request(
            id_text(user, "user"),
            id_texts(candidates, "candidates"),
            filter_texts(where, self.catalogue.filters),
            k,
            id_texts(exclude, "exclude"),
        )
        resolved = named.resolve(request)
        if attributes and resolved.name is not None:
            resolved = resolved._replace(near=self._near(named, resolved.name, NEIGHBOURS, attributes))
        if self.features.context_width:
            vector = self.features.context_rows(context)
            resolved = resolved._replace(features=self.catalogue.whole(named.features[resolved.versions], vector))
        elif context:
            raise ValueError("context is given, but no events had context columns when the recommender was fitted.")
        [ranking] = named.rank([resolved], self._draws)
        name = self._shown.add(request.user, ranking.arms, context, attributes)
        items = tuple(self.catalogue.out(named.versions[version]) for version in ranking.arms)
        return Recommendation(name, user, items, tuple(ranking.mean), tuple(ranking.bonus), ranking.propensity)

    def rank_all(self, k: int, path: str | os.PathLike[str], **options: Unpack[RankAllOptions]) -> int:
        """Write the `k` best items of every user to a Parquet file; how many rows. See `rank_everybody.rank_all`."""
        ids = Ids(self.user_names.out, self.catalogue.out, self.catalogue.filters)
        return rank_all(self.named, k, path, ids=ids, **options)

    # Users, edges and items that come and go

    def add_friends(self, user: Hashable, friends: Mapping[Hashable, float] | Iterable[Hashable]) -> None:
        """Join a user with others, known or new: `add_friends("zoe", ["ann", "bob"])`, or with weights `{"ann": 2.0}`."""
        names = id_texts(friends, "friends") or []
        weights = list(friends.values()) if isinstance(friends, Mapping) else [1.0] * len(names)
        for name in names:
            self._join(name)
        self._join(id_text(user, "user"), {name: float(weight) for name, weight in zip(names, weights, strict=True)})

    def remove_user(self, user: Hashable) -> None:
        """Forget a user: its data and its edges."""
        name = id_text(user, "user")
        self.named.row(name)
        self.named.delete_user(name)

    def erase(self, user: Hashable) -> bool:
        """Remove a user and its name everywhere, attributes and open recommendations too; return False if it was unknown.

        The row stays, without a name. The influence on the estimates of others stays.
        """
        name, named = id_text(user, "user"), self.named
        rows = [row for row, known in enumerate(named.names) if known == name]
        named.delete_user(name)
        for row in rows:
            named.names[row] = ""
        is_alike = self.alike is not None and self.alike.erase(name)
        return self._shown.erase(name) or is_alike or bool(rows)

    def add_items(self, items: Source, *, columns: Mapping[str, str] | None = None) -> None:
        """Offer the items of a table; one that is there already is described anew."""
        named = self.named
        table, vectors = self.catalogue.vectors(items, columns)
        for name, vector, attributes in zip(table.codes("item")[1], vectors, self.catalogue.attributes(table), strict=True):
            named.put_arm(name, vector, attributes)

    def remove_item(self, item: Hashable) -> None:
        """Offer an item no longer; what users learned from it stays."""
        self._version(item)
        self.named.delete_arm(id_text(item, "item"))

    # Files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one file: policy, names, features, open recommendations. Nothing is pickled."""
        recommender_file.save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, features: Any = None) -> Self:
        """Return the recommender that `save` wrote; it goes on bit for bit. A transformer of your own must be given again."""
        return recommender_file.load(cls, path, features)

    def pack(self) -> dict[str, Any]:
        """Open recommendations, the random generator, what rewards mean and how many were learned, as plain JSON values."""
        counts = dict(only_taken=bool(self._only_taken), events=self.n_events)
        return dict(open=self._shown.as_table(), draws=self._draws.bit_generator.state, **counts)

    def restore(self, header: Mapping[str, Any], named: NamedPolicy) -> None:
        """Set what `pack` returned, and the policy."""
        self._shown, self._only_taken = OpenRecommendations.from_table(header["open"]), header["only_taken"]
        self.n_events = header["events"]
        self._draws.bit_generator.state = header["draws"]
        self._connect(named)
        self._named = named

    # Building

    def _build(self, events: Table | None, users: Sequence[str] = ()) -> NamedPolicy:
        """Return the policy, once the width of its vectors is known."""
        if events is not None:
            self.catalogue.fit_context(events)
        if not self.catalogue.ready:
            raise ValueError("items are not known: give a table of them to Recommender, or call fit(events) first.")
        self.user_names.add(users)
        graph = self.user_names.graph()
        policy = self._choice.make(graph, self.features.dim)
        named = NamedPolicy(policy, list(self.user_names.names))
        for name, vector, attributes in self.catalogue.entries():
            named.put_arm(name, vector, attributes)
        self._connect(named)
        self.notes += [f"features: {line.strip()}" for line in str(self.features).splitlines()[1:]]
        return named

    def _connect(self, named: NamedPolicy) -> None:
        """Let attributes speak for users that nobody has seen."""
        if self.alike is not None:
            named.unknown_users.near = lambda name: self._near(named, name)

    def _near(
        self, named: NamedPolicy, name: str, k: int = NEIGHBOURS, attributes: Mapping[str, Any] | None = None
    ) -> dict[int, float]:
        if self.alike is None:
            raise ValueError("attributes are given, but the recommender was made without a table of users.")
        return self.alike.near_attributes(attributes, named.rows, k) if attributes else self.alike.near(name, named.rows, k)

    def _join(self, name: str, edges: Mapping[str, float] | None = None, attributes: Mapping[str, Any] | None = None) -> int:
        """Return the row of a user, who joins if need be."""
        named = self.named
        if name in named.rows and not edges:
            return named.rows[name]
        if name not in named.rows and not edges and self.alike is not None:
            near = self._near(named, name, EDGES, attributes)
            edges = {named.names[row]: weight for row, weight in near.items()}
        return named.put_user(name, edges or {})

    def _join_all(self, names: Sequence[str]) -> None:
        """Let many users join at once, which costs as much as all users."""
        named = self.named
        new = [name for name in names if name not in named.rows]
        if self.alike is not None or len(new) <= 3:
            for name in new:
                self._join(name)
            return
        named.join_many(new)

    def _add_unknown_items(self, names: Sequence[str]) -> None:
        named = self.named
        new = [name for name in names if name not in named.arms]
        found = unmatched_ids("items of the events", names, named.arms, "the table of items")
        for name in new:
            named.put_arm(name, self.catalogue.unknown(), {})
        if new:
            self._warn(f"{found} Nothing is known of such items but their rewards.", len(new) / len(names))

    def _warn(self, sentence: str, share: float) -> None:
        """Note what does not match, and warn if it is most."""
        self.notes.append(sentence)
        if share > 0.5:
            warnings.warn(sentence, stacklevel=4)

    def _version(self, item: Hashable) -> int:
        version = self.named.arms.get(id_text(item, "item"))
        if version is None:
            raise UnknownName("item", f"there is no item {item!r}; add it with add_items.")
        return version
