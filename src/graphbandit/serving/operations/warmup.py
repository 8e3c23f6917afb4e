"""Warm-up: compiles what later requests need before the service is ready.

Changes of users and edges have kernels of their own, and a policy may switch to another solver when it has many
users. Kernels are compiled when they are first called, which would block the event loop for many seconds.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import numpy as np

from ... import graphs
from ...policies import Policy
from ...policies.core.kernels import Requests
from ...policies.core.top_arms import LEAST_ARMS, ArmCatalogue
from ...solvers.selection import DENSE_ROWS, fits_dense
from ..domain.initial_state import InitialState
from ..domain.service_state import ServiceState

CATALOGUE = 2 * LEAST_ARMS  # arms: enough for what only large catalogues need
logger = logging.getLogger("graphbandit.serving")


def warm_up(initial: InitialState) -> None:
    """Call every change on a small and a large policy, so that it is compiled."""
    start = time.perf_counter()
    many = DENSE_ROWS // initial.dim + 2
    for n in (3, many) if fits_dense(initial.graph or graphs.empty(1), initial.dim) else (many,):
        path = graphs.from_edges([(user, user + 1) for user in range(n - 1)], n_users=n)
        _exercise(replace(initial, graph=path, model=None).make_policy(), n)
    logger.info("warm-up finished", extra={"seconds": round(time.perf_counter() - start, 3)})


def compile_state(initial: InitialState) -> None:
    """Compile everything that a service with this initial state needs: decisions, learning, and changes."""
    ServiceState.new(initial).warm_up()
    warm_up(initial)


def compile_policy(policy: str, epsilon: float = 0.0) -> None:
    """Compile what a service with this policy needs; its graph and arms do not matter."""
    features = np.random.default_rng(0).standard_normal((CATALOGUE, 2))
    names = [f"arm-{arm}" for arm in range(CATALOGUE)]
    graph = graphs.from_edges([("ann", "bob"), ("bob", "eve")])
    compile_state(InitialState(graph, names, features, [{}] * CATALOGUE, policy=policy, epsilon=epsilon))


def _exercise(policy: Policy, n: int) -> None:
    one, arm = np.ones(1, dtype=np.int64), np.ones((1, policy.dim))
    policy.decide_many(Requests(0 * one, arm, 0 * one, np.arange(2), one, 0 * one), np.random.default_rng(0))
    ArmCatalogue(arm).contenders(policy, 0, 1)  # a small catalogue may become a large one
    policy.update_many([0], arm, [1.0], items=[0])
    moments = getattr(policy, "moments", None)
    if moments is not None:
        moments(0)
    changes: list[Callable[[], object]] = [
        lambda: policy.add_user({0: 1.0}),
        lambda: policy.add_edge(0, 2),
        lambda: policy.set_weight(0, 2, 2.0),
        lambda: policy.remove_edge(0, 2),
        lambda: policy.remove_user(n),
    ]
    for change in changes:
        with suppress(ValueError):  # the policy refuses this change, or refused one that it depends on
            change()
