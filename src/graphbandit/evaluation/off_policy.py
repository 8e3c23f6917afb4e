"""`evaluate`: estimates of what policies would earn.

Each policy is trained on the first part of a log and judged on the rest. It is also replayed, as a learner,
from the start of the log.

The same policies are also replayed from the start of the log, as learners.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt

from ..compute.arrays import Floats, Ints
from ..experiments.compare import fresh_policy
from ..graph import UserGraph
from ..policies import Policy, Random
from ..validate import FINITE, FRACTION, check, optional
from . import estimators
from .decision_log import DecisionLog
from .estimators import Estimate
from .policy_estimates import Evaluation, PolicyEstimates, log_notes, trust_warnings
from .replay import Replay, replay
from .reward_model import predictors, with_constant

MakePolicy = Callable[..., Policy]
Progress = Callable[[int, int, str], None]
"""`progress(steps done, all steps, current step)`."""
BASELINE = "random"


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
        It must contain the users of the log; it may have more.
    policies : name → function
        `function(graph, dim)` makes a fresh policy, as in `compare`.
    share : float
        Policies are trained on this share of the log, the first rounds, from all rewards. Then they
        are frozen and judged on the rest.
    missing : float, optional
        The reward of rounds without one; by default these rounds are left out.
    uniform : bool
        Take unknown propensities to be those of a uniformly random choice.
    by_user : bool
        Cluster standard errors by user: for users who are a sample of many more, or whose rounds
        depend on each other. Intervals are wider.
    floor : float, optional
        The `floor` of `replay`.
    seed : int
        Seed of the policies and of the replay.

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
    check("share", share, FRACTION)
    check("missing", missing, optional(FINITE))
    log = (log.with_uniform_propensities() if uniform else log).with_rewards(missing)
    first = int(share * len(log))
    if not len(log):
        raise ValueError("log has no rounds with a reward: there is nothing to evaluate on.")
    user, known = log.rows_of(graph), log.propensity > 0
    replayed = log.rounds(known) if known.any() else None
    known[:first] = False
    makers = {BASELINE: Random, **policies}
    total = 1 + 2 * len(makers)
    progress(0, total, "the reward model")
    model = predictors(log, graph, user, first) if known.any() else np.empty((0, 0))
    estimates = []
    for done, (name, make) in enumerate(makers.items()):
        progress(1 + 2 * done, total, name)

        def fresh(make: MakePolicy = make) -> Policy:
            return cast(Policy, fresh_policy(make, graph, log.arms, seed=seed))

        judged = _judge(train(fresh(), log, user, first), log, user, known, model) if known.any() else None
        progress(2 + 2 * done, total, f"{name}, replay")
        online = None if replayed is None else replay(fresh(), replayed, floor=floor, seed=seed)
        estimates.append(_policy_estimates(name, judged, log.reward[known], user[known] if by_user else None, online))
    progress(total, total, "")
    judged_on = known if known.any() else np.arange(len(log)) >= first
    logged = estimators.mean(log.reward[judged_on], user[judged_on] if by_user else None)
    counts = dict(rounds=len(log), trained=first, evaluated=int(known.sum()), users=len(np.unique(user)), arms=len(log.arms))
    notes = (*log.notes, *log_notes(log, first, known))
    return Evaluation(**counts, logged=logged, policies=tuple(estimates), notes=notes)


def train(policy: Policy, log: DecisionLog, user: Ints, rounds: int) -> Policy:
    """Train a policy on the first rounds of a log and return it; `user` are rows of its graph."""
    arm = log.arm[:rounds]
    policy.update_many(user[:rounds], log.arms[arm], log.reward[:rounds], items=arm)
    return policy


class _Judged(NamedTuple):
    """(rounds,) arrays, named as in the table in `estimators`."""

    weight: Floats
    target: Floats
    predicted: Floats
    expected: Floats


def _judge(policy: Policy, log: DecisionLog, user: Ints, known: npt.NDArray[np.bool_], model: Floats) -> _Judged:
    """Return what the estimators need for every round with a known propensity; the policy is unchanged."""
    rows, first = np.flatnonzero(known), len(log) - len(model)
    target, predicted, expected = np.empty(len(rows)), np.empty(len(rows)), np.empty(len(rows))
    features, chances = with_constant(log.arms), dict[int, Floats]()
    for k, t in enumerate(rows.tolist()):
        offer, who = log.offer(t), int(user[t])
        # A frozen policy that is offered all arms has the same probabilities in every round of a
        # user.
        if log.offered is not None or who not in chances:
            chances[who] = policy.propensities(who, log.arms[offer], items=offer)
        q = features[offer] @ model[t - first]
        shown = int(np.flatnonzero(offer == log.arm[t])[0])
        target[k], predicted[k], expected[k] = chances[who][shown], q[shown], chances[who] @ q
    return _Judged(target / log.propensity[rows], target, predicted, expected)


def _policy_estimates(
    name: str, judged: _Judged | None, reward: Floats, groups: Ints | None, online: Replay | None
) -> PolicyEstimates:
    if judged is None:
        return PolicyEstimates(name, None, None, None, None, None, online, ())
    weight, target, predicted, expected = judged
    psi = estimators.doubly_robust(weight, reward, predicted, expected)
    forms = (psi, estimators.snips(weight, reward), estimators.ips(weight, reward), psi - reward)
    dr, snips, ips, gain = (estimators.mean(form, groups) for form in forms)
    seen = estimators.overlap(weight, target, reward)
    if seen.outcomes == 0 and np.ptp(reward) > 0:  # the rounds that count do not show the spread of the rewards
        dr, snips, ips, gain = (Estimate(estimate.value, np.nan) for estimate in (dr, snips, ips, gain))
    return PolicyEstimates(
        name, dr, snips, ips, gain, seen, online, trust_warnings(name, seen.average, seen.effective, seen.outcomes)
    )
