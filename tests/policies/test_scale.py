"""Units do not matter: rewards or features in other units give the same choices and the same estimates in those units.

With rewards times c, parameters in units of reward (sigma, bounds on ‖θ‖, widths) are multiplied by c too, and estimates
are c times what they were. With features times f, penalties (ridge, alpha, strengths) are multiplied by f², bounds on ‖θ‖
divided by f, and estimates are f times smaller. A policy that learns the noise needs none of the former.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from graphbandit import OFUL, AdaptiveGraphUCB, GraphUCB, GraphUCBLocal, LinTS, LinUCB, graphs
from graphbandit.policies.core.policy import Policy

DIM, ROUNDS = 3, 120
GRAPH = graphs.watts_strogatz(16, 4, 0.1, seed=1)
RNG = np.random.default_rng(2)
TRUTH = RNG.standard_normal(DIM) + 0.5 * RNG.standard_normal((16, DIM))
STRENGTHS = (1e-3, 0.01, 0.1, 1.0, 30.0)
Make = Callable[[float, float], Policy]


def adaptive(c: float, f: float, **settings: Any) -> Policy:
    """It learns the scale of rewards; its strengths are penalties."""
    return AdaptiveGraphUCB(GRAPH, DIM, alphas=[tau * f**2 for tau in STRENGTHS], **settings)


def graphucb(c: float, f: float, **settings: Any) -> Policy:
    return GraphUCB(GRAPH, DIM, alpha=0.5 * f**2, ridge=0.02 * f**2, sigma=0.1 * c, **settings)


POLICIES: dict[str, tuple[Make, float]] = {
    # policy in units (c, f), and how far its estimates may differ: the prior of AdaptiveGraphUCB's σ² has a rate of 1e-20, and
    # rounding may decide whether the push stops
    "AdaptiveGraphUCB dense": (partial(adaptive, solver="dense"), 1e-6),
    "AdaptiveGraphUCB local": (partial(adaptive, solver="local"), 1e-6),
    "GraphUCB dense": (partial(graphucb, solver="dense"), 1e-9),
    "GraphUCB dense, recommended": (partial(graphucb, solver="dense", preset="recommended"), 1e-9),
    "GraphUCB push": (partial(graphucb, solver="push"), 1e-6),
    "GraphUCB push, tight": (partial(graphucb, solver="push", tolerance=1e-8), 1e-6),
    "GraphUCBLocal": (lambda c, f: GraphUCBLocal(GRAPH, DIM, alpha=0.5 * f**2, ridge=0.02 * f**2, sigma=0.1 * c), 1e-9),
    "LinUCB": (lambda c, f: LinUCB(GRAPH, DIM, ridge=0.1 * f**2, sigma=0.1 * c), 1e-9),
    "LinUCB, norm": (lambda c, f: LinUCB(GRAPH, DIM, ridge=0.1 * f**2, sigma=0.1 * c, norm=2.0 * c / f), 1e-9),
    "LinTS": (lambda c, f: LinTS(GRAPH, DIM, ridge=0.1 * f**2, scale=0.1 * c), 1e-9),
    "OFUL": (lambda c, f: OFUL(GRAPH, DIM, ridge=0.1 * f**2, sigma=0.1 * c, norm=2.0 * c / f), 1e-9),
}


def lived(make: Make, c: float, f: float) -> tuple[list[int], Any, Any]:
    """Choices, estimates and final scores of a policy in a world with these units, the latter in the original ones."""
    policy, rng = make(c, f), np.random.default_rng(5)
    choices = []
    for _ in range(ROUNDS):
        user, arms = int(rng.integers(16)), rng.standard_normal((5, DIM))
        arm = policy.recommend(user, f * arms)
        choices.append(arm)
        policy.update(user, f * arms[arm], c * (arms[arm] @ TRUTH[user] + 0.1 * rng.standard_normal()))
    scores = policy.scores(3, f * rng.standard_normal((5, DIM)))
    return choices, policy.estimates(np.arange(16)) * f / c, np.array([scores.mean, scores.bonus]) / c


REWARD_UNITS = [(c, 1.0) for c in (1e-6, 1e-3, 1e3, 1e6)]
"""All that docs/explanation/adaptive.md promises. In other units of features, single decisions of AdaptiveGraphUCB differ."""
UNITS = REWARD_UNITS + [(1.0, f) for f in (1e-3, 1e-1, 1e1, 1e3)] + [(1e-4, 1e2), (1e4, 1e-2)]


@pytest.mark.parametrize("name", POLICIES)
def test_other_units_give_the_same_choices_and_estimates(name: str) -> None:
    make, tolerance = POLICIES[name]
    choices, theta, scores = lived(make, 1.0, 1.0)
    assert len(set(choices)) == 5
    for c, f in REWARD_UNITS if "Adaptive" in name else UNITS:
        others = lived(make, c, f)
        assert others[0] == choices, (c, f)
        np.testing.assert_allclose(others[1], theta, rtol=tolerance, atol=tolerance, err_msg=f"{c, f}")
        np.testing.assert_allclose(others[2], scores, rtol=tolerance, atol=tolerance, err_msg=f"{c, f}")
