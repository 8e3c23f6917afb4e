"""What would another policy earn? Trained on the first part of a log and judged on the rest, and replayed from the start."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np

from ..compute.arrays import Floats, Ints
from ..experiments.compare import fresh_policy
from ..graph import UserGraph
from ..policies import Policy, Random
from . import estimators
from .estimators import Estimate, Overlap
from .logs import DecisionLog
from .replay import Replay, replay
from .rewards import predictors, with_constant

MakePolicy = Callable[..., Policy]
Progress = Callable[[int, int, str], None]
"""`progress(steps done, steps in all, what is being done)`."""
BASELINE = "random"
FEW = 30  # effective rounds
FEW_OUTCOMES = 10  # clicks, say


@dataclass(frozen=True)
class Standing:
    """What the log says about one policy; None where it says nothing."""

    policy: str
    dr: Estimate | None
    snips: Estimate | None
    ips: Estimate | None
    gain: Estimate | None  # doubly robust, less what was logged in the same rounds
    overlap: Overlap | None
    replay: Replay | None
    warnings: tuple[str, ...]  # why the estimates of the policy as trained deserve no trust

    @property
    def replay_warnings(self) -> tuple[str, ...]:
        """The same about the replay."""
        if self.replay is None:
            return ()
        return _warnings(f"{self.policy}, replay", self.replay.average, self.replay.rounds, self.replay.outcomes)

    def finding(self) -> str:
        """One sentence about the policy as trained."""
        if self.dr is None or self.gain is None or self.warnings:
            return f"The log cannot tell what {self.policy} would earn."
        what = f"{self.policy} would earn {self.dr.value:.4g} a round ({self.dr.low:.4g} to {self.dr.high:.4g})"
        more = f"({self.gain.low:+.4g} to {self.gain.high:+.4g})"
        if self.gain.low > 0:
            return f"{what}, more than what was logged, by {self.gain.value:.4g} {more}."
        if self.gain.high < 0:
            return f"{what}, less than what was logged, by {-self.gain.value:.4g} {more}."
        return f"{what}; whether that is more than what was logged cannot be told {more}."

    def as_table(self) -> dict[str, Any]:
        """Plain JSON values."""
        seen = self.overlap
        return {
            "policy": self.policy,
            **{name: getattr(self, name) and getattr(self, name).as_table() for name in ("dr", "snips", "ips", "gain")},
            "overlap": seen and {**seen._asdict(), "average": seen.average.as_table()},
            "replay": self.replay and self.replay.as_table(),
            "sentence": self.finding(),
            "warnings": [*self.warnings, *self.replay_warnings],
        }


@dataclass(frozen=True)
class Evaluation:
    """What a log says about several policies."""

    rounds: int  # with a reward
    trained: int  # on so many, the first ones
    evaluated: int  # on so many of the rest
    users: int
    arms: int
    logged: Estimate  # mean reward of the evaluated rounds, as they were
    standings: tuple[Standing, ...]
    notes: tuple[str, ...]  # about the log

    def __getitem__(self, policy: str) -> Standing:
        return {standing.policy: standing for standing in self.standings}[policy]

    def as_table(self) -> dict[str, Any]:
        """Everything as plain JSON values."""
        counts = {name: getattr(self, name) for name in ("rounds", "trained", "evaluated", "users", "arms")}
        standings = [standing.as_table() for standing in self.standings]
        return {**counts, "logged": self.logged.as_table(), "policies": standings, "notes": list(self.notes)}


def evaluate(
    log: DecisionLog,
    graph: UserGraph,
    policies: Mapping[str, MakePolicy],
    *,
    share: float = 0.5,
    missing: float | None = None,
    uniform: bool = False,
    by_user: bool = False,
    floor: float | None = None,
    seed: int = 0,
    progress: Progress = lambda done, total, note: None,
) -> Evaluation:
    """Estimate what each policy, and a uniformly random one, would earn.

    Parameters
    ----------
    log : DecisionLog
        In order of time.
    graph : UserGraph
        Its users are those of the log, and maybe more.
    policies : name → function
        `function(graph, dim)` makes a fresh policy, as in `compare`.
    share : float
        Of the log, on which policies are trained, from all rewards; what follows judges them as they then are.
    missing : float, optional
        The reward of rounds that got none; by default they are left out.
    uniform : bool
        Propensities that are not known are those of a uniform choice.
    by_user : bool
        Intervals for users who are a sample of many more, or whose rounds depend on each other: wider.
    floor : float, optional
        Of `replay`.
    seed : int
        Of the policies and of the replay.

    Examples
    --------
    >>> from graphbandit import LinUCB, Random, environments, graphs, signals
    >>> graph = graphs.erdos_renyi(5, 0.5, seed=0)
    >>> env = environments.Linear(graph, signals.smooth(graph, 3, gamma=7, seed=1), signals.unit_arms(6, 3, seed=2), sigma=0.3)
    >>> from graphbandit.evaluation import record
    >>> found = evaluate(record(Random(graph, 3), env, 600), graph, {"linucb": LinUCB})
    >>> found["linucb"].gain.low > 0
    True
    """
    if not 0 <= share < 1:
        raise ValueError(f"share must be at least 0 and below 1, but it is {share!r}.")
    if missing is not None and not np.isfinite(missing):
        raise ValueError(f"missing must be a number, but it is {missing!r}.")
    log = (log.with_uniform_propensities() if uniform else log).answered(missing)
    first = int(share * len(log))
    if not len(log):
        raise ValueError("log has no rounds with a reward: there is nothing to evaluate on.")
    user, known = log.rows_of(graph), log.propensity > 0
    known[:first] = False
    makers = {BASELINE: Random, **policies}
    total = 1 + 2 * len(makers)
    progress(0, total, "the reward model")
    model = predictors(log, graph, user, first) if known.any() else np.empty((0, 0))
    standings = []
    for done, (name, make) in enumerate(makers.items()):
        progress(1 + 2 * done, total, name)

        def fresh(make: MakePolicy = make) -> Policy:
            return cast(Policy, fresh_policy(make, graph, log.arms, seed=seed))

        judged = _judge(train(fresh(), log, user, first), log, user, known, model) if known.any() else None
        progress(2 + 2 * done, total, f"{name}, replay")
        usable = log.propensity > 0
        online = replay(fresh(), log.rounds(usable), floor=floor, seed=seed) if usable.any() else None
        standings.append(_standing(name, judged, log.reward[known], user[known] if by_user else None, online))
    progress(total, total, "")
    judged_on = known if known.any() else np.arange(len(log)) >= first
    logged = estimators.mean(log.reward[judged_on], user[judged_on] if by_user else None)
    counts = dict(rounds=len(log), trained=first, evaluated=int(known.sum()), users=len(np.unique(user)), arms=len(log.arms))
    return Evaluation(**counts, logged=logged, standings=tuple(standings), notes=(*log.notes, *_notes(log, first, known)))


def train(policy: Policy, log: DecisionLog, user: Ints, rounds: int) -> Policy:
    """Let a policy learn from the first rounds of a log, whoever chose in them; `user` are rows of its graph."""
    for t in range(rounds):
        policy.update(int(user[t]), log.arms[log.arm[t]], float(log.reward[t]))
    return policy


class _Judged(NamedTuple):
    """(rounds,) each, as `estimators` has them."""

    weight: Floats
    target: Floats
    predicted: Floats
    expected: Floats


def _judge(policy: Policy, log: DecisionLog, user: Ints, known: Any, model: Floats) -> _Judged:
    """The policy as it is, in every round of which the propensity is known; it learns no more."""
    rows, first = np.flatnonzero(known), len(log) - len(model)
    target, predicted, expected = np.empty(len(rows)), np.empty(len(rows)), np.empty(len(rows))
    features, chances = with_constant(log.arms), dict[int, Floats]()
    for k, t in enumerate(rows.tolist()):
        offer, who = log.offer(t), int(user[t])
        if log.offered is not None or who not in chances:  # the same arms to a policy that stays as it is
            chances[who] = policy.propensities(who, log.arms[offer])
        q = features[offer] @ model[t - first]
        shown = int(np.flatnonzero(offer == log.arm[t])[0])
        target[k], predicted[k], expected[k] = chances[who][shown], q[shown], chances[who] @ q
    return _Judged(target / log.propensity[rows], target, predicted, expected)


def _standing(name: str, judged: _Judged | None, reward: Floats, groups: Ints | None, online: Replay | None) -> Standing:
    if judged is None:
        return Standing(name, None, None, None, None, None, online, ())
    weight, target, predicted, expected = judged
    psi = estimators.doubly_robust(weight, reward, predicted, expected)
    forms = (psi, estimators.snips(weight, reward), estimators.ips(weight, reward), psi - reward)
    dr, snips, ips, gain = (estimators.mean(form, groups) for form in forms)
    seen = estimators.overlap(weight, target, reward)
    if seen.outcomes == 0 and np.ptp(reward) > 0:  # no spread was seen, but there is one
        dr, snips, ips, gain = (Estimate(estimate.value, np.nan) for estimate in (dr, snips, ips, gain))
    return Standing(name, dr, snips, ips, gain, seen, online, _warnings(name, seen.average, seen.effective, seen.outcomes))


def _warnings(name: str, average: Estimate, effective: float, outcomes: float) -> tuple[str, ...]:
    """Why the numbers of this policy deserve no trust."""
    found, off = [], average.value - 1.0
    if abs(off) > 3 * average.error + 1e-9:
        why = "much of what it would do was never or hardly ever done" if off < 0 else "the propensities cannot be right"
        found.append(f"{name}: the weights average {average.value:.2g}, where 1 is due; {why}.")
    if effective < FEW:
        found.append(f"{name}: it rests on {effective:.3g} rounds' worth of weight; a append_rows log is needed.")
    elif outcomes == 0:
        found.append(
            f"{name}: all rounds that count had the same reward, so that there is no interval; a append_rows log is needed."
        )
    elif outcomes < FEW_OUTCOMES:
        seen = f"the rarer reward was seen {outcomes:.1f} times, by weight"
        found.append(f"{name}: {seen}, too few for a normal interval; a append_rows log is needed.")
    return tuple(found)


def _notes(log: DecisionLog, first: int, known: Any) -> list[str]:
    """What must be known about the log."""
    notes, rest = [], len(log) - first
    lost = rest - int(known.sum())
    if lost == rest:
        notes.append(
            "No evaluated round has a propensity above 0: IPS, SNIPS and doubly robust need them. "
            "If the log was made by uniformly random choices, say so (uniform)."
        )
    elif lost:
        notes.append(f"{lost:,} of {rest:,} evaluated rounds have no propensity above 0 and are left out.")
    certain = known & (log.propensity == 1) & (log.sizes > 1)
    if certain.any():
        notes.append(
            f"In {certain.sum() / known.sum():.0%} of the evaluated rounds the choice was certain (propensity 1) though others "
            "were on offer: the log cannot tell what those would have earned. Let the logging policy leave something to chance."
        )
    return notes
