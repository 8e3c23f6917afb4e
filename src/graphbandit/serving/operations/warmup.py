"""What a service compiles beside its first requests: changes of users and edges, and the form a policy takes when it grows.

A policy may take another solver when its users become many, and the kernels of that are compiled when they are first called: in
the event loop that would be a standstill of many seconds.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import numpy as np

from ... import graphs
from ...compute.compiler import COMPILER
from ...policies import Policy
from ...policies.core.kernels import Requests
from ...solvers import DENSE_ROWS, fits_dense
from ..domain.initial_state import Beginning

logger = logging.getLogger("graphbandit.serving")


def rehearse(beginning: Beginning) -> None:
    """Let policies like that of a beginning live through everything: one with many users, and before that one with few."""
    start = time.perf_counter()
    many = DENSE_ROWS // beginning.dim + 2
    for n in (3, many) if fits_dense(beginning.graph, beginning.dim) else (many,):
        path = graphs.from_edges([(user, user + 1) for user in range(n - 1)], n_users=n)
        _live_through(replace(beginning, graph=path).make_policy(), n)
    logger.info("changes rehearsed", extra={"seconds": round(time.perf_counter() - start, 3)})


def rehearse_aside(beginning: Beginning) -> None:
    """The same in a thread; a failure is logged, and costs no more than a wait later."""

    def work() -> None:
        try:
            rehearse(beginning)
        except Exception:
            logger.exception("changes could not be rehearsed: the first ones may take long")

    threading.Thread(target=work, name=COMPILER, daemon=True).start()


def _live_through(policy: Policy, n: int) -> None:
    one, arm = np.ones(1, dtype=np.int64), np.ones((1, policy.dim))
    policy.decide_many(Requests(0 * one, arm, 0 * one, np.arange(2), one), np.random.default_rng(0))
    policy.update_many([0], arm, [1.0])
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
        with suppress(ValueError):  # what the policy refuses, or cannot do because of that
            change()
