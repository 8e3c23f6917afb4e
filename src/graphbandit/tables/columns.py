"""Roles of columns, found by the names that people use for users, items, rewards and edges.

Names are compared without case, spaces, hyphens and underscores, so that `User ID`, `user_id` and
`userId` are one name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

PRODUCTS = ("product", "offer", "ad", "business", "bookmark", "document", "content", "action")
CREATIVE_WORKS = ("movie", "film", "artist", "article", "song", "track", "book", "video", "news")
NAMES: dict[str, tuple[tuple[str, ...], ...]] = {
    "user": (
        ("user",),
        ("userid", "uid"),
        ("memberid", "customerid", "visitorid", "accountid", "personid", "readerid", "listenerid", "playerid", "clientid"),
        ("username", "member", "customer", "visitor", "account", "person", "reader", "listener", "player", "client"),
    ),
    "item": (
        ("item", "arm"),
        ("itemid", "armid", "iid"),
        ("sku", "asin", *(f"{thing}id" for thing in (*PRODUCTS, *CREATIVE_WORKS))),
        (*PRODUCTS, *CREATIVE_WORKS),
    ),
    "reward": (
        ("reward",),
        ("rating", "click", "clicked", "stars"),
        ("score", "label", "value", "y"),
        ("plays", "playcount", "listens", "purchases", "views"),
        ("count", "weight"),
    ),
    "time": (
        ("time",),
        ("timestamp",),
        ("datetime", "eventtime", "ts", "unixtime"),
        ("date", "createdat", "created"),
    ),
    "propensity": (("propensity",), ("pscore", "propensityscore"), ("prob", "probability")),
    "candidates": (("candidates",),),
    "weight": (("weight",), ("strength", "similarity"), ("value", "count", "score")),
}
"""For each role the names that people use, the surest first; the first group with a match decides."""

PAIRS = (
    ("user", "friend"),
    ("userid", "friendid"),
    ("source", "target"),
    ("sourceid", "targetid"),
    ("src", "dst"),
    ("from", "to"),
    ("fromid", "toid"),
    ("a", "b"),
    ("u", "v"),
    ("i", "j"),
    ("left", "right"),
    ("user1", "user2"),
    ("userid1", "userid2"),
    ("usera", "userb"),
    ("node1", "node2"),
    ("id1", "id2"),
    ("follower", "followee"),
    ("followerid", "followeeid"),
    ("truster", "trustee"),
    ("user", "contact"),
    ("userid", "contactid"),
    ("user", "neighbour"),
    ("user", "neighbor"),
)
"""The names that people give to the two ends of an edge."""

NONE = "none"
"""Value of `columns` for a role that no column plays."""
ID_ROLES = ("user", "friend", "item")
NUMBER_ROLES = ("reward", "propensity", "weight")

SaidColumns = Mapping[str, str | Sequence[str]]
"""Columns given for several tables: the column of a role, or several names for tables that differ."""


@dataclass(frozen=True)
class Roles:
    """Roles of the columns of one kind of table.

    Parameters
    ----------
    what : str
        What a row is, in the plural, for sentences.
    needed, optional : tuples of roles
        An optional column may be missing.
    may_be_empty : tuple of roles
        Numbers of which a cell may be empty.
    by_position : tuple of roles
        The order of the columns in a file without a header.
    """

    what: str
    needed: tuple[str, ...]
    optional: tuple[str, ...] = ()
    may_be_empty: tuple[str, ...] = ()
    by_position: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        """Needed and optional roles."""
        return (*self.needed, *self.optional)

    def without(self, *roles: str) -> Roles:
        """Return the same roles without some.

        >>> EVENTS.without("item").needed
        ('user', 'reward')
        """
        kept = ([role for role in part if role not in roles] for part in (self.needed, self.optional, self.by_position))
        needed, optional, by_position = map(tuple, kept)
        return replace(self, needed=needed, optional=optional, by_position=by_position)

    def allow_missing(self, *roles: str) -> Roles:
        """Return the same roles, of which some columns may be missing.

        >>> EVENTS.allow_missing("reward").needed
        ('user', 'item')
        """
        needed = tuple(role for role in self.needed if role not in roles)
        return replace(self, needed=needed, optional=(*roles, *self.optional))

    def allow_empty(self, *roles: str) -> Roles:
        """Return the same roles, of which some cells may be empty."""
        return replace(self, may_be_empty=(*self.may_be_empty, *roles))


EVENTS = Roles(
    "events",
    ("user", "item", "reward"),
    ("time", "propensity", "candidates"),
    may_be_empty=("propensity",),
    by_position=("user", "item", "reward", "time"),
)
"""Users, items and rewards."""
EDGES = Roles("edges", ("user", "friend"), ("weight",), by_position=("user", "friend", "weight"))
"""Edges between users."""
ITEMS = Roles("items", ("item",), by_position=("item",))
"""Items and their attributes."""
USERS = Roles("users", ("user",), by_position=("user",))
"""Users and their attributes."""


class Found(NamedTuple):
    """The column of each role."""

    positions: dict[str, int]  # of the column of each role
    said: tuple[str, ...]  # what was guessed


def plain_name(name: str) -> str:
    """Normalise a name for comparison.

    >>> plain_name(" User-ID ")
    'userid'
    """
    return re.sub(r"[\s_\-]+", "", name).casefold()


def feature_columns(head: Sequence[str]) -> list[str]:
    """Return the names x0, x1, … of the features in `head`; x0 if there is none, so that a check names it.

    >>> feature_columns(["user", "x1", "x0", "xylophone"])
    ['x0', 'x1']
    """
    dim = sum(is_feature(name) for name in head)
    return [f"x{k}" for k in range(max(1, dim))]


def is_feature(name: str) -> bool:
    """Return True if a column is a feature: x0, x1, and so on."""
    return name[:1] == "x" and name[1:].isdecimal()


def parse_columns(text: str | None) -> dict[str, str | tuple[str, ...]]:
    """Return the roles and columns of an option. A role may be there several times, for files that name it differently.

    >>> parse_columns("user=uid,item=sku,item=url")
    {'user': 'uid', 'item': ('sku', 'url')}
    """
    found: dict[str, list[str]] = {}
    for word in (text or "").split(","):
        if not word.strip():
            continue
        role, equals, column = (part.strip() for part in word.partition("="))
        role = "item" if role == "arm" else role
        if not equals or not column or role not in ("friend", *NAMES):
            roles = ", ".join(("user", "friend", *(role for role in NAMES if role != "user")))
            raise ValueError(f"columns {word.strip()!r} must be ROLE=COLUMN, as in user=uid,item=sku; roles are {roles}.")
        found.setdefault(role, []).append(column)
    return {role: names[0] if len(names) == 1 else tuple(names) for role, names in found.items()}


def find_roles(
    header: str, head: Sequence[str], roles: Roles | None, columns: Mapping[str, str] | None, has_header: bool = True
) -> Found:
    """Return the place of each role, or raise a ValueError that lists the choices.

    Parameters
    ----------
    header : str
        The place of the names, for errors.
    head : names
        Those of the columns; two of one name are an error.
    roles : Roles, optional
        Without them, only what `columns` says counts.
    columns : mapping of roles to names, optional
        What the caller says; the rest is found by the names that people use. NONE stands for no column.
    has_header : bool
        Without a header, roles go by position.

    Examples
    --------
    >>> find_roles("log.csv", ["when", "User ID", "sku", "click"], EVENTS, {"time": "when"}).positions
    {'time': 0, 'user': 1, 'item': 2, 'reward': 3}
    """
    positions: dict[str, int] = {}
    there = f"there are {', '.join(head[:20]) or 'none'}"
    if len(set(head)) < len(head):
        twice = next(name for name in head if list(head).count(name) > 1)
        raise ValueError(f"{header}: there are two columns {twice}.")
    columns = {"item" if role == "arm" else role: column for role, column in (columns or {}).items()}
    for role, column in columns.items():
        if roles is not None and role not in roles.all:
            raise ValueError(
                f"columns names the role {role!r}, which {roles.what} do not have; there are {', '.join(roles.all)}."
            )
        if column in head:
            positions[role] = list(head).index(column)
        elif column != NONE or roles is None or role in roles.needed:
            raise ValueError(f"{header}: the column {column}, which columns names, is missing; {there}.")
    if roles is None:
        return Found(positions, ())
    if not has_header:
        free = [place for place in range(len(head)) if place not in positions.values()]
        positions |= zip([role for role in roles.by_position if role not in columns], free, strict=False)
    elif "friend" in roles.needed:
        _find_pair(header, head, positions)
    for role in roles.all:
        if role not in positions and role not in columns and has_header and role in NAMES:
            _find(header, head, role, positions)
        if role not in positions and role in roles.needed:
            shown = "item (or arm)" if role == "item" else role
            hint = f" If it is there, {_option(role)}." * bool(head)
            raise ValueError(f"{header}: the column {shown} is missing; {there}.{hint}")
    return Found(positions, _said(head, positions, columns, has_header))


def _find(header: str, head: Sequence[str], role: str, positions: dict[str, int]) -> None:
    last = (("id",),) if role in ("user", "item") and len(positions) == 0 else ()  # the id of a table of users or items
    for group in (*NAMES[role], *last):
        free = [place for place in range(len(head)) if place not in positions.values()]
        matches = [place for place in free if plain_name(head[place]) in group]
        exact = [place for place in matches if head[place] in group]
        if len(matches) > 1 and len(exact) != 1:
            raise _ambiguous(header, role, [head[place] for place in matches])
        if matches:
            positions[role] = (exact or matches)[0]
            return


def _find_pair(header: str, head: Sequence[str], positions: dict[str, int]) -> None:
    if {"user", "friend"} <= positions.keys():
        return
    plain = [plain_name(name) for name in head]
    found: list[list[int]] = []
    for names in PAIRS:
        ends = zip(("user", "friend"), names, strict=True)
        pair = [positions.get(role, plain.index(name) if name in plain else -1) for role, name in ends]
        if min(pair) >= 0 and pair[0] != pair[1] and pair not in found:
            found.append(pair)
            if names == PAIRS[0]:
                break  # these are the names of the roles themselves
    if len(found) > 1:
        raise _ambiguous(header, "user and friend", [" and ".join(head[place] for place in pair) for pair in found])
    if found:
        positions["user"], positions["friend"] = found[0]


def _option(role: str) -> str:
    return f'say which one it is: --columns {role}=NAME, or columns={{"{role}": NAME}}'


def _ambiguous(header: str, role: str, choices: Sequence[str]) -> ValueError:
    return ValueError(f"{header}: several columns could be {role}: {', '.join(choices)}; {_option(role.split()[0])}.")


def unrecognised_reward(header: str, choices: Sequence[str]) -> ValueError:
    """Return the error for columns that look like rewards, but whose names say nothing.

    >>> print(unrecognised_reward("log.csv", ["liked"]))
    log.csv: no column is known to be the reward, but one could be: liked; say which one it is: --columns reward=NAME, \
or columns={"reward": NAME}. If none is, say reward=none.
    """
    could = "one could be" if len(choices) == 1 else "some could be"
    listed = f"no column is known to be the reward, but {could}: {', '.join(choices)}"
    return ValueError(f"{header}: {listed}; {_option('reward')}. If none is, say reward={NONE}.")


def _said(head: Sequence[str], positions: Mapping[str, int], columns: Mapping[str, str], has_header: bool) -> tuple[str, ...]:
    guessed = [(role, head[place]) for role, place in positions.items() if role not in columns]
    named = ", ".join(f"{column} is {role}" for role, column in guessed if not has_header or column not in (role, "arm"))
    how = (
        "by the names of the columns,"
        if has_header
        else "the first row is all numbers, so there is no header; by position, column"
    )
    return (f"{how} {named}",) if named else ()
