"""Monitoring of the shadow and of the guardrail of an experiment.

The counts since the start of the process are how often the shadow agrees with what was shown, and what both policies
expect. `graphbandit evaluate` estimates from an export what the shadow would have earned.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...policies import Policy
from ...recommending.named_policy import Ranking
from ..domain import policy_changes
from ..domain.events import DecisionRecord
from ..domain.initial_state import InitialState
from ..domain.policy_changes import ProposedChange
from ..domain.service_state import ServiceState
from ..domain.shadow import PolicySpec, parse_policy

logger = logging.getLogger("graphbandit.serving")
LOOK_EVERY, LOOK_GROWTH = 20, 1.005
"""Decisions of an experiment between two looks at its guardrail, or half a percent more of them: a look costs a few tenths of
a millisecond, and an interval does not change faster."""


class ShadowStats:
    """Counts of the shadow's decisions, reset whenever the two policies change."""

    def __init__(self) -> None:
        self._of: tuple[str | None, int] = None, 0
        self.compared = self.agreed = self.failed = 0
        self.expected_shown = self.expected_shadow = 0.0

    def _reset_if_changed(self, state: ServiceState) -> None:
        if self._of == (now := (state.policy_texts[1], state.switches)):
            return
        self._of = now
        self.compared = self.agreed = self.failed = 0
        self.expected_shown = self.expected_shadow = 0.0

    def decided(self, state: ServiceState, decisions: Sequence[DecisionRecord], shadows: Sequence[Ranking | None]) -> None:
        """Count decisions and what the shadow would have shown instead."""
        self._reset_if_changed(state)
        if not shadows:
            self.failed += sum(decision.policy is None for decision in decisions)
        for decision, other in zip(decisions, shadows, strict=False):
            if other is not None:
                self.compared += 1
                self.agreed += other.arms[0] == decision.arms[0]
                self.expected_shown += decision.mean[0]
                self.expected_shadow += other.mean[0]

    def table(self, state: ServiceState) -> dict[str, Any]:
        """Return the counts as JSON values; `shadow` is None without a shadow."""
        in_force, shadow = state.policy_texts
        if shadow is None:
            return {"in_force": in_force, "shadow": None}
        self._reset_if_changed(state)
        n = max(self.compared, 1)
        return {
            "in_force": in_force,
            "shadow": shadow,
            "can_roll_back": state.can_roll_back,
            "compared": self.compared,
            "failed": self.failed,
            "agreement": self.agreed / n if self.compared else None,
            "expected_shown": self.expected_shown / n if self.compared else None,
            "expected_shadow": self.expected_shadow / n if self.compared else None,
        }


class GuardrailMonitor:
    """Checks the guardrail of a running experiment."""

    def __init__(self) -> None:
        self._looked = (0, 0)  # experiment, decisions
        self._submitted = 0  # the experiment whose end waits to be written

    def due(self, state: ServiceState) -> list[ProposedChange]:
        """Return the events that end the experiment and put the control in force, if the guardrail is breached.

        They are returned once, until `failed` is called.
        """
        experiment = state.experiment
        if experiment is None or experiment.guardrail is None or self._submitted == experiment.begun:
            return []
        begun, decisions = self._looked
        if begun == experiment.begun and experiment.n_decisions < max(decisions + LOOK_EVERY, LOOK_GROWTH * decisions):
            return []
        self._looked = experiment.begun, experiment.n_decisions
        made = policy_changes.guardrail_proposals(state)
        if made:
            self._submitted = experiment.begun
            found = experiment.difference()
            treatment, control = state.policy_texts
            facts: dict[str, Any] = dict(treatment=treatment, control=control, low=found.low, high=found.high)
            facts |= dict(guardrail=experiment.guardrail, decisions=experiment.n_decisions)
            logger.critical("guardrail: the policy in force earns less than the control, which replaces it", extra=facts)
        return made

    def failed(self) -> None:
        """Record that the events could not be written, so that the next check submits them again."""
        self._submitted, self._looked = 0, (0, 0)


def follow_shadow(asked: str, state: ServiceState, commit: Callable[[ProposedChange], object]) -> None:
    """Make the store's shadow the one of the setting; "" leaves it unchanged, "none" ends it.

    A policy that is in force already, because it was promoted, needs no shadow.
    """
    if not asked or state.spec is None:
        return
    if state.experiment is not None:
        logger.warning("the setting shadow is ignored while an experiment is running", extra={"shadow": asked})
        return
    if asked.strip() == "none":
        if state.shadow is not None:
            commit(policy_changes.end_shadow(state))
        return
    wanted = parse_policy(asked, state.spec)
    if wanted in (state.spec, state.shadow_spec):
        return
    check_policy(wanted, state)
    logger.info("a shadow learns the log", extra={"shadow": wanted.text, "events": state.seq})
    commit(policy_changes.begin_shadow(state, wanted))


def check_policy(spec: PolicySpec, state: ServiceState) -> None:
    """Raise a ValueError if there is no such policy, or if it cannot take in users as the policy in force can."""
    nothing = InitialState(None, ["an arm"], np.ones((1, state.dim)), [{}])
    try:
        policy = spec.initial_state(nothing).make_policy()
    except TypeError as error:  # a setting that it does not have
        raise ValueError(f"shadow {spec.text} cannot be made: {error}.") from None
    for method in ("user_rows", "removable_rows"):
        if _takes(state.policy, method) and not _takes(policy, method):
            raise ValueError(f"shadow {spec.text} cannot take in or remove users while it runs, as the policy in force can.")


def _takes(policy: Policy, method: str) -> bool:
    try:
        getattr(policy, method)()
    except ValueError:
        return False
    return True
