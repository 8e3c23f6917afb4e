"""How probable a choice is under a policy that samples: by drawing many more decisions."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import numpy as np

from ...compute.arrays import Floats
from . import kernels
from .decisions import Rankings, Requests

if TYPE_CHECKING:
    from .policy import Policy

PROPENSITY_DRAWS = 1000
"""Further decisions that are drawn to find how probable the one taken was."""


def other_normals(policy: Policy, draws: int) -> Floats:
    """(draws, n_normals) the draws of other decisions; none if one decides it all. The policy's generator does not move."""
    if not policy.is_sampling:
        return np.empty((0, policy.n_normals))
    ahead = copy.deepcopy(policy.rng).integers(2**63, size=4)  # hashed into a seed, which makes an unrelated stream
    return np.random.default_rng(ahead).standard_normal((draws, policy.n_normals))


def rank_each(policy: Policy, requests: Requests, rng: np.random.Generator, luck: Floats, ranked: Rankings) -> None:
    """`Policy.decide_many` for policies that are not optimistic, one user after the other."""
    start = requests.start
    for i, user in enumerate(requests.users.tolist()):
        own = slice(start[i], start[i + 1])
        arms, values = requests.table[requests.rows[own]], np.empty(start[i + 1] - start[i])
        items = requests.items[requests.rows[own]] if len(requests.items) else requests.items
        kernels.score_items(policy.state, user, arms, items, ranked.mean[own], ranked.bonus[own])
        normals = rng.standard_normal((1 + PROPENSITY_DRAWS if policy.is_sampling else 1, policy.n_normals))
        kernels.sample_items(policy.state, user, arms, items, normals[0], values)
        ranked.order[own] = np.lexsort((-luck[own], -values))
        ranked.propensity[i] = policy.choice_probabilities(user, arms, normals, items)[ranked.order[start[i]]]
