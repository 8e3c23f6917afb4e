"""Events of made-up users, as tables."""

from __future__ import annotations

from typing import Any

import numpy as np

Columns = dict[str, Any]


def grouped_events(n_users: int = 40, n_items: int = 12, n: int = 2500, seed: int = 0) -> Columns:
    """Return events of users of two groups with opposite tastes, in order of time."""
    rng = np.random.default_rng(seed)
    user, item = rng.integers(n_users, size=n), rng.integers(n_items, size=n)
    reward = np.where(user % 2 == item % 2, 1.0, -1.0) + rng.standard_normal(n)
    return named(user, item, reward, np.arange(n))


def unrelated_events(n_users: int = 40, n_items: int = 30, n: int = 2500, seed: int = 0) -> tuple[Columns, Columns]:
    """Return events of users with independent tastes, and the features of the items."""
    rng = np.random.default_rng(seed)
    tastes, features = rng.standard_normal((n_users, 3)), rng.standard_normal((n_items, 3))
    user, item = rng.integers(n_users, size=n), rng.integers(n_items, size=n)
    reward = (tastes[user] * features[item]).sum(axis=1) + rng.standard_normal(n)
    items = {"item": [f"i{k}" for k in range(n_items)], **{f"x{k}": features[:, k] for k in range(3)}}
    return named(user, item, reward, np.arange(n)), items


def named(user: Any, item: Any, reward: Any, time: Any) -> Columns:
    """Return the columns of a table, with names in place of numbers."""
    return {"user": [f"u{k}" for k in user], "item": [f"i{k}" for k in item], "reward": reward, "time": time}


def ring(n_users: int) -> Columns:
    """Return friendships of every user with the next but one, who is of the same group."""
    return {"user": [f"u{k}" for k in range(n_users)], "friend": [f"u{(k + 2) % n_users}" for k in range(n_users)]}


def people(n_users: int) -> Columns:
    """Return an attribute that names the group, and one without information."""
    age = np.random.default_rng(3).integers(20, 60, size=n_users)
    return {
        "user": [f"u{k}" for k in range(n_users)],
        "side": ["even" if k % 2 == 0 else "odd" for k in range(n_users)],
        "age": age,
    }
