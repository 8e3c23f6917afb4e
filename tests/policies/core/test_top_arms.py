"""The search in a large catalogue chooses what a full scan chooses, to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphbandit import LinTS, LinUCB, Stochastic, graphs
from graphbandit.policies.core import top_arms
from graphbandit.policies.core.item_effects import ItemEffects, add_item_effects, no_items, with_room
from graphbandit.policies.core.kernels import Belief, linear_scores
from graphbandit.policies.core.top_arms import ArmCatalogue, ArmDirections, best_first

KINDS = ["unit", "duplicates", "grid", "zeros", "sizes", "tiny", "huge", "sorted", "alike"]


def some_arms(kind: str, m: int, dim: int, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    x = rng.standard_normal((m, dim))
    match kind:
        case "unit":
            x /= np.linalg.norm(x, axis=1)[:, None]
        case "duplicates":
            x = x[rng.integers(1 + m // 10, size=m)]
        case "grid":  # many exact ties
            x = np.round(x)
        case "zeros":
            x *= rng.random((m, 1)) < 0.3
        case "sizes":
            x *= 10.0 ** rng.uniform(-20, 5, size=(m, 1))
        case "tiny":
            x *= 1e-150
        case "huge":
            x *= 1e6 / np.abs(x).max()
        case "sorted":
            x = x[np.argsort(x[:, 0])]
        case _:  # the scores differ by less than single precision can tell
            x = x[:1] + 1e-9 * x
    return x


def some_belief(kind: str, beta: float, dim: int, rng: np.random.Generator) -> Belief:
    theta, half = rng.standard_normal(dim), rng.standard_normal((dim, dim))
    match kind:
        case "flat":
            S = np.eye(dim)
        case "low rank":
            S = half[:, :1] @ half[:, :1].T
        case "nothing learned":
            theta, S = np.zeros(dim), 100.0 * np.eye(dim)
        case "zero":
            theta, S = np.zeros(dim), np.zeros((dim, dim))
        case "large":
            theta, S = 1e20 * theta, 1e100 * half @ half.T
        case "small":
            theta, S = 1e-120 * theta, 1e-200 * half @ half.T
        case _:
            S = half @ half.T
    return Belief(theta, S, beta)


def some_effects(known: int, rng: np.random.Generator) -> ItemEffects:
    effects = no_items(enabled=known > 0, ridge=2.0 if known > 0 else None)
    effects = with_room(effects, known)
    if known:
        effects.mass[:] = rng.integers(0, 3, size=known)
        effects.total[:] = effects.mass * np.round(rng.standard_normal(known), 1)
    return effects


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    kind=st.sampled_from(KINDS),
    belief_kind=st.sampled_from(["plain", "flat", "low rank", "nothing learned", "zero", "large", "small"]),
    beta=st.sampled_from([0.0, 1e-3, 1.0, 100.0]),
    m=st.integers(1, 700),
    dim=st.integers(1, 40),
    with_items=st.booleans(),
    share=st.sampled_from([1.0, 0.5, 0.05]),
    all_of_them=st.booleans(),
    seed=st.integers(0, 10_000),
)
def test_the_best_are_among_the_contenders(
    kind: str, belief_kind: str, beta: float, m: int, dim: int, with_items: bool, share: float, all_of_them: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    arms, belief = some_arms(kind, m, dim, rng), some_belief(belief_kind, beta, dim, rng)
    items = rng.permutation(2 * m)[:m] if with_items else np.full(m, -1)
    effects = some_effects(m if with_items else 0, rng)  # half of the items are new
    eligible = (rng.random(m) < share).astype(np.uint8)
    eligible[0] = 1
    among = np.flatnonzero(eligible)
    k = len(among) if all_of_them else int(rng.integers(1, 1 + min(len(among), 12)))
    directions = ArmDirections(dim)
    directions.put(np.arange(m), rng.standard_normal((m, dim)), np.full(m, -1))
    directions.put(np.arange(m), arms, items)  # rows that change
    found = directions.contenders(belief, effects, eligible, k)
    if found is None:  # too many tie, or scores are too large: the caller scores all
        return
    mean, bonus = np.empty(m), np.empty(m)
    linear_scores(*belief, arms, mean, bonus)
    add_item_effects(effects, items, beta, mean, bonus)
    values, luck = mean + bonus, rng.random(m)
    wanted = among[best_first(values[among], luck[among], k)]
    chosen = np.sort(found)
    assert eligible[chosen].all() and len(set(chosen.tolist())) == len(chosen)
    assert np.array_equal(chosen[best_first(values[chosen], luck[chosen], k)], wanted)
    assert np.count_nonzero(values[chosen] == values[wanted[0]]) == np.count_nonzero(values[among] == values[wanted[0]])
    assert mean[chosen].max() == mean[among].max()


@pytest.mark.parametrize("dim", [1, 3, 10, 32])
@pytest.mark.parametrize("kind", ["unit", "sizes", "huge", "sorted"])
def test_few_contenders_are_left(kind: str, dim: int) -> None:
    rng = np.random.default_rng(dim)
    directions, arms = ArmDirections(dim), some_arms(kind, 20_000, dim, rng)
    directions.put(np.arange(len(arms)), arms, np.full(len(arms), -1))
    if kind == "unit" and dim == 1:
        return  # which are 1 and -1
    for beta in (0.0, 1.0, 10.0):
        belief = some_belief("plain", beta, dim, rng)
        found = directions.contenders(belief, no_items(), np.ones(len(arms), np.uint8), 10)
        assert found is not None and len(found) <= 12


def test_scores_that_are_not_numbers_are_left_to_a_full_scan() -> None:
    directions = ArmDirections(2)
    directions.put(np.arange(2), np.eye(2), np.full(2, -1))
    for belief in (Belief(np.ones(2), np.full((2, 2), np.inf), 1.0), Belief(np.full(2, np.nan), np.eye(2), 1.0)):
        assert directions.contenders(belief, no_items(), np.ones(2, np.uint8), 1) is None
    assert directions.contenders(Belief(np.ones(2), np.eye(2), np.inf), no_items(), np.ones(2, np.uint8), 1) is None


@pytest.mark.parametrize("with_items", [False, True])
def test_a_catalogue_is_ranked_as_an_array_of_its_arms(with_items: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(top_arms, "LEAST_ARMS", 50)
    rng = np.random.default_rng(0)
    arms, items = np.round(rng.standard_normal((300, 3)), 1), rng.permutation(300) if with_items else None
    policy, catalogue = LinUCB(graphs.empty(2), 3, item_effects=True, item_ridge=1.0), ArmCatalogue(arms, items=items)
    for seed in range(5):
        for row in rng.integers(300, size=20).tolist():
            policy.update(0, arms[row], 5.0 * rng.random(), item=row if items is None else int(items[row]))
        ranked = []
        for choices in (catalogue, arms):
            policy.reseed(seed)
            ranked.append((policy.rank(0, choices, 7, items=items).tolist(), policy.rng.random()))
        assert ranked[0] == ranked[1]
        assert catalogue.contenders(policy, 0, 7) is not None
    for other in (LinTS(graphs.empty(2), 3), Stochastic(LinUCB(graphs.empty(2), 3), epsilon=0.5)):
        assert len(set(other.rank(0, catalogue, 5).tolist())) == 5  # which score all arms


def test_a_catalogue_names_what_is_wrong() -> None:
    with pytest.raises(ValueError, match="arms must be"):
        ArmCatalogue([1.0, 2.0])
    with pytest.raises(ValueError, match=r"items\[1\] must"):
        ArmCatalogue(np.eye(2), items=[1, -2])
    with pytest.raises(ValueError, match="one row of 3 features"):
        LinUCB(graphs.empty(1), 3).rank(0, ArmCatalogue(np.eye(2)), 1)
    with pytest.raises(ValueError, match="k must lie"):
        LinUCB(graphs.empty(1), 2).rank(0, ArmCatalogue(np.eye(2)), 3)
