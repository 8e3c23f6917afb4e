"""Every policy, with its default settings, passes the quick generic checks as plain Python.

`test_policies.py` runs all checks on many settings, compiled; as Python that would take hours.
"""

from __future__ import annotations

import inspect
import os
from typing import Any

import pytest

from graphbandit import POLICIES, Policy, UserGraph, signals
from graphbandit.checks import Check, DoesNotApply, yield_checks

if os.environ.get("NUMBA_DISABLE_JIT") != "1":
    pytest.skip("this is for make test-nojit", allow_module_level=True)

SLOW = ("check_beats_random", "check_bounded_memory")  # thousands of rounds
BY_NUMBER = ("check_user_order",)  # `test_policies.py` knows for which policies it does not hold
QUICK = [check for check in yield_checks() if check.__name__ not in (*SLOW, *BY_NUMBER)]


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("check", QUICK, ids=lambda check: check.__name__)
def test_quick_check(name: str, check: Check) -> None:
    cls: Any = POLICIES[name]
    parameters = inspect.signature(cls).parameters
    clusters = {"clusters": 3} if "clusters" in parameters and parameters["clusters"].default is inspect.Parameter.empty else {}

    def make(graph: UserGraph, dim: int) -> Policy:
        items = {"items": signals.unit_arms(12, dim, seed=5)} if "items" in parameters else {}
        return cls(graph, dim, **clusters, **items)  # type: ignore[no-any-return]

    try:
        check(make)
    except DoesNotApply as reason:
        pytest.skip(str(reason))
