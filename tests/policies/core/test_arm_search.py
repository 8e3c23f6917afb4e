"""Parts of the search in large catalogues: bounds, luck, the index as arms come and go, and catalogues for `Policy.rank`."""

from __future__ import annotations

import numpy as np
import pytest
from graphbandit.policies.core.arm_blocks import BLOCK
from graphbandit.policies.core.arm_catalogue import ArmCatalogue
from graphbandit.policies.core.arm_index import ArmIndex
from graphbandit.policies.core.luck import Luck
from graphbandit.policies.core.score_bounds import grown, largest_eigenvalue, least_grown, most_grown, peak_of

from graphbandit import LinTS, LinUCB, Stochastic, graphs
from graphbandit.policies.core import catalogue_choice


@pytest.mark.parametrize("kind", [np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.SFC64])
def test_luck_is_what_the_generator_would_have_drawn(kind: type[np.random.BitGenerator]) -> None:
    rng, other = np.random.Generator(kind(1)), np.random.Generator(kind(1))
    rng.integers(2**31, dtype=np.uint32), other.integers(2**31, dtype=np.uint32)  # half a number is left over
    luck, drawn = Luck(rng, 1000), other.random(1000)
    few, many = np.array([999, 0, 7]), np.arange(0, 1000, 2)
    assert np.array_equal(luck.some(few), drawn[few]) and np.array_equal(luck.span(5, 9), drawn[5:9])
    assert np.array_equal(luck.some(many), drawn[many]) and np.array_equal(luck.span(5, 9), drawn[5:9])
    assert rng.integers(2**31, dtype=np.uint32) == other.integers(2**31, dtype=np.uint32)
    assert rng.standard_normal() == other.standard_normal()


def test_a_bonus_that_grows_stays_within_its_bounds() -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        noise, rounds = 10 ** rng.uniform(-3, 1), 10 ** rng.uniform(-1, 3)
        low, high = np.sort(noise * 10 ** rng.uniform(-3, 3, size=2))
        shape = noise, rounds, 2.0
        peak = peak_of(*shape)
        inside = [grown(value, *shape) for value in np.linspace(low, high, 200)]
        assert max(inside) <= most_grown(low, high, *shape, peak) * (1 + 1e-12)
        assert min(inside) >= least_grown(low, high, *shape) * (1 - 1e-12)


@pytest.mark.parametrize("dim", [1, 3, 20, 40])
def test_the_largest_eigenvalue_is_bounded_closely(dim: int) -> None:
    half = np.random.default_rng(dim).standard_normal((dim, dim))
    for matrix in (half @ half.T, np.eye(dim), np.zeros((dim, dim)), 1e-150 * np.eye(dim)):
        largest = np.linalg.eigvalsh(matrix)[-1]
        assert largest * (1 - 1e-9) <= largest_eigenvalue(matrix) <= 1.7 * largest


def test_an_index_follows_arms_that_come_change_and_go() -> None:
    rng, dim = np.random.default_rng(0), 3
    table, policy = rng.standard_normal((20_000, dim)), LinUCB(graphs.empty(1), dim)
    index, version = ArmIndex(dim), 0
    offered: dict[int, int] = {}
    for step in range(40):
        for item in rng.integers(3000, size=2000 if step in (0, 20) else 100).tolist():
            if rng.random() < 0.3 and item in offered:
                index.remove(item)
                del offered[item]
            else:
                index.put(item, version)
                offered[item] = version
                version += 1
        blocks = index.refresh(policy, table)
        assert len(index) == len(offered)
        found = {}
        for b in range(blocks.used[0]):
            for a in range(blocks.filled[b]):
                item, row = blocks.item[b, a], blocks.version[b, a]
                found[int(item)] = int(row)
                assert blocks.place[item] == b * BLOCK + a
                assert np.array_equal(blocks.x[b, :, a], table[row].astype(np.float32))
                centre = blocks.centre[b // BLOCK, :, b % BLOCK].astype(float)
                assert np.linalg.norm(table[row] - centre) <= blocks.radius[b]
                assert np.linalg.norm(table[row]) <= blocks.length[b, a] <= blocks.longest[b]
        assert found == offered


@pytest.mark.parametrize("items", [False, True])
def test_a_catalogue_is_ranked_as_an_array_of_its_arms(items: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue_choice, "LEAST_ARMS", 50)
    rng = np.random.default_rng(0)
    arms, ids = rng.standard_normal((300, 3)), rng.permutation(300) if items else None
    policy, catalogue = LinUCB(graphs.empty(2), 3, item_effects=True, item_ridge=1.0), ArmCatalogue(arms, items=ids)
    for _ in range(5):
        for row in rng.integers(300, size=20).tolist():
            policy.update(0, arms[row], 5.0 * rng.random(), item=row if ids is None else int(ids[row]))
        assert policy.rank(0, catalogue, 7).tolist() == policy.rank(0, arms, 7, items=ids).tolist()
    for other in (LinTS(graphs.empty(2), 3), Stochastic(LinUCB(graphs.empty(2), 3), epsilon=0.5)):
        assert len(set(other.rank(0, catalogue, 5).tolist())) == 5  # which score all arms


def test_ties_in_a_catalogue_are_broken_at_random(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue_choice, "LEAST_ARMS", 50)
    policy, arms = LinUCB(graphs.empty(1), 2), 0.1 * np.random.default_rng(0).random((400, 2))
    arms[[3, 50, 399]] = [1.0, 0.0]
    firsts = [int(policy.rank(0, ArmCatalogue(arms), 2)[0]) for _ in range(40)]
    assert set(firsts) == {3, 50, 399}


def test_a_catalogue_names_what_is_wrong() -> None:
    with pytest.raises(ValueError, match="arms must be"):
        ArmCatalogue([1.0, 2.0])
    with pytest.raises(ValueError, match="items must be distinct"):
        ArmCatalogue(np.eye(2), items=[1, 1])
    with pytest.raises(ValueError, match="one row of 3 features"):
        LinUCB(graphs.empty(1), 3).rank(0, ArmCatalogue(np.eye(2)), 1)
    with pytest.raises(ValueError, match="k must lie"):
        LinUCB(graphs.empty(1), 2).rank(0, ArmCatalogue(np.eye(2)), 3)
