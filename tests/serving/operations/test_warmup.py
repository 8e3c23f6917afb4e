"""The warm-up compiles everything that a service may need."""

from __future__ import annotations

import numpy as np

from graphbandit.policies.core import kernels
from graphbandit.policies.core.kernels import Requests
from graphbandit.serving.operations.warmup import warm_up
from graphbandit.solvers.dense import Dense
from graphbandit.solvers.push import Push
from graphbandit.solvers.selection import DENSE_ROWS
from serving_zoo import small_initial_state


def test_a_warm_up_meets_every_form_that_a_policy_takes() -> None:
    """A service that has grown from few users to many calls no kernel that was not compiled."""
    initial = small_initial_state("graphucb")
    warm_up(initial)
    policy = initial.make_policy()
    known = {name: len(value.signatures) for name, value in vars(kernels).items() if hasattr(value, "signatures")}
    forms = {type(policy.state.solver)}
    while policy.n_users * policy.dim <= DENSE_ROWS:
        policy.add_user({policy.n_users - 1: 1.0})
    forms.add(type(policy.state.solver))
    policy.update_many([0], [[1.0, 0.0]], [1.0])
    one = np.ones(1, dtype=np.int64)
    policy.decide_many(Requests(0 * one, initial.features, 0 * one, np.arange(2), one), np.random.default_rng(0))
    policy.remove_user(3)
    assert forms == {Dense, Push}
    assert known == {name: len(value.signatures) for name, value in vars(kernels).items() if hasattr(value, "signatures")}
