"""The generic checks: none is missing from its table, and one that does not apply says so."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from graphbandit import LinTS, LinUCB, checks, graphs
from graphbandit.checks import CHECKS, DoesNotApply, check_policy, yield_checks


def test_every_check_is_in_the_table() -> None:
    written = {name for name, _ in inspect.getmembers(checks, inspect.isfunction) if name.startswith("check_")}
    assert written - {"check_policy"} == {check.__name__ for check in CHECKS}
    assert len(set(CHECKS)) == len(CHECKS) and all(check.__doc__ for check in CHECKS)


def test_no_check_ends_early_without_a_word() -> None:
    for check in CHECKS:
        assert "return" not in inspect.getsource(check).replace(check.__doc__ or "", ""), check.__name__


def test_a_check_that_does_not_apply_gives_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def sampling(graph: Any, dim: int) -> LinTS:
        return LinTS(graph, dim, scale=0.5)

    with pytest.raises(DoesNotApply, match="rankings are random"):
        checks.check_best_first(sampling)
    checks.check_best_first(lambda graph, dim: LinUCB(graph, dim))
    monkeypatch.setattr(checks, "CHECKS", (checks.check_valid_choices, checks.check_best_first))
    assert check_policy(sampling) == {"check_best_first": "its rankings are random."}
    assert check_policy(sampling, skip=["check_best_first"]) == {}


def test_a_wrong_order_is_caught() -> None:
    class Reversed(LinUCB):
        """Ranks the worst arm first."""

        def rank(self, user: int, arms: Any, k: int, **_: Any) -> Any:
            return super().rank(user, arms, len(arms))[::-1][:k]

    assert Reversed(graphs.empty(2), 2).rank(0, [[1.0, 0.0], [0.0, 1.0]], 2).shape == (2,)
    with pytest.raises(AssertionError):
        checks.check_best_first(lambda graph, dim: Reversed(graph, dim))


def test_checks_are_left_out_by_name() -> None:
    assert [check.__name__ for check in yield_checks(skip=["check_errors"])] == [
        check.__name__ for check in CHECKS if check.__name__ != "check_errors"
    ]
