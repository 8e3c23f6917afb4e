"""What the shadow would have done, counted since the start of the process: how often it agrees with
what was shown, what each of the two expects, and what the shadow would have earned.

The last is an estimate by inverse propensities. A decision showed arm a first with probability p;
if the shadow would have shown a first too, its reward counts 1/p times, else not at all. On average
this is what the shadow's choices would have earned, if every arm had a chance: only with epsilon
above 0.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from math import sqrt
from typing import Any

import numpy as np

from ...policies import Policy
from ...recommending.named_policy import Ranking
from ..domain import policy_changes
from ..domain.events import DecisionRecord, reward_key
from ..domain.initial_state import InitialState
from ..domain.logged_recommender import LoggedRecommender
from ..domain.policy_changes import ProposedSwitch
from ..domain.shadow import PolicySpec, parse_policy

logger = logging.getLogger("graphbandit.serving")
REMEMBERED = 50_000
"""Decisions whose rewards are waited for."""
LOOK_EVERY, LOOK_GROWTH = 20, 1.005
"""Decisions of an experiment between two looks at its guardrail, or half a percent more of them: a look costs a few tenths of
a millisecond, and an interval does not change faster."""


class ShadowStats:
    """Counters, which begin anew whenever the two policies change."""

    def __init__(self) -> None:
        self._of: tuple[str | None, int] = None, 0
        self._clear()

    def _clear(self) -> None:
        self.compared = self.agreed = self.failed = 0
        self.expected_shown = self.expected_shadow = 0.0
        self.rewards = self.matched = 0  # rewards of decisions that were compared; those where both chose alike
        self.earned = self._weights = self._weighted = self._squares = 0.0
        self._waiting: OrderedDict[str, float] = OrderedDict()  # key of the reward: weight

    def decided(
        self, state: LoggedRecommender, seq: int, decisions: Sequence[DecisionRecord], shadows: Sequence[Ranking | None]
    ) -> None:
        """Count what the shadow would have shown in place of these decisions."""
        if state.shadow_spec is None:
            return
        if self._of != (now := (state.shadow_spec.text, state.switches)):
            self._of = now
            self._clear()
        if not shadows:
            self.failed += sum(decision.policy is None for decision in decisions)
        for item, (decision, other) in enumerate(zip(decisions, shadows, strict=False)):
            if other is None:
                continue
            is_same = other.arms[0] == decision.arms[0]
            self.compared += 1
            self.agreed += is_same
            self.expected_shown += decision.mean[0]
            self.expected_shadow += other.mean[0]
            self._waiting[reward_key(seq, item, 0)] = 1.0 / decision.propensity if is_same else 0.0
        while len(self._waiting) > REMEMBERED:
            self._waiting.popitem(last=False)

    def rewarded(self, key: str | None, value: float) -> None:
        """Count a reward, if its decision was compared and it is that of the first arm."""
        weight = None if key is None else self._waiting.pop(key, None)
        if weight is None:
            return
        self.rewards += 1
        self.matched += weight > 0
        self.earned += value
        self._weights += weight
        self._weighted += weight * value
        self._squares += (weight * value) ** 2

    def table(self, state: LoggedRecommender) -> dict[str, Any]:
        """The shadow as JSON values; `shadow` is None without one."""
        in_force = None if state.spec is None else state.spec.text
        if state.shadow_spec is None:
            return {"in_force": in_force, "shadow": None}
        if self._of != (state.shadow_spec.text, state.switches):
            self._clear()
        n = max(self.compared, 1)
        return {
            "in_force": in_force,
            "shadow": state.shadow_spec.text,
            "can_go_back": state.can_go_back,
            "compared": self.compared,
            "failed": self.failed,
            "agreement": self.agreed / n if self.compared else None,
            "expected_shown": self.expected_shown / n if self.compared else None,
            "expected_shadow": self.expected_shadow / n if self.compared else None,
            "rewards": self.rewards,
            "mean_reward": self.earned / self.rewards if self.rewards else None,
            "estimate": self.estimate() if state.spec is not None and state.spec.epsilon > 0 else None,
        }

    def estimate(self) -> dict[str, Any] | None:
        """What the shadow would have earned per rewarded decision, with its standard error; None before two rewards."""
        n = self.rewards
        if n < 2:
            return None
        mean = self._weighted / n
        variance = max(0.0, self._squares / n - mean**2) / (n - 1)
        return {"mean": mean, "error": sqrt(variance), "matched": self.matched}


class ExperimentWatch:
    """Looks at the guardrail of a running experiment."""

    def __init__(self) -> None:
        self._looked = (0, 0)  # experiment, decisions
        self._submitted = 0  # the experiment whose end waits to be written

    def due(self, state: LoggedRecommender) -> list[ProposedSwitch]:
        """The events that end the experiment and put the control in force, if its guardrail is breached and nobody has
        submitted them yet."""
        experiment = state.experiment
        if experiment is None or experiment.guardrail is None or self._submitted == experiment.begun:
            return []
        begun, decisions = self._looked
        if begun == experiment.begun and experiment.n_decisions < max(decisions + LOOK_EVERY, LOOK_GROWTH * decisions):
            return []
        self._looked = experiment.begun, experiment.n_decisions
        made = policy_changes.guardrail_drafts(state)
        if made:
            self._submitted = experiment.begun
            found = experiment.difference()
            facts: dict[str, Any] = dict(
                treatment=_text(state.spec), control=_text(state.shadow_spec), low=found.low, high=found.high
            )
            facts |= dict(guardrail=experiment.guardrail, decisions=experiment.n_decisions)
            logger.critical("guardrail: the policy in force earns less than the control, which is put in force", extra=facts)
        return made

    def failed(self) -> None:
        """The events could not be written: the next look submits them again."""
        self._submitted, self._looked = 0, (0, 0)


def _text(spec: Any) -> str | None:
    return None if spec is None else str(spec.text)


def follow_shadow(asked: str, state: LoggedRecommender, commit: Callable[[ProposedSwitch], object]) -> None:
    """Make the store's shadow the one that was asked for at the start; "" leaves it as it is, "none" ends it.

    A policy that is in force already needs no shadow of its own: it was promoted since.
    """
    if not asked or state.spec is None:
        return
    if state.experiment is not None:
        logger.warning("an experiment runs: its policies stay, whatever the setting says", extra={"shadow": asked})
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


def check_policy(spec: PolicySpec, state: LoggedRecommender) -> None:
    """Raise a ValueError if there is no such policy, or if it could not take users as the one in force does."""
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
