"""A simulation with delayed and missing rewards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..compute.arrays import Floats, Indices, Ints
from ..environments import Environment, streams
from ..environments.rounds import checked_rounds
from ..policies import Pending, Policy
from ..validate import NOT_NEGATIVE, SHARE, check, count
from .simulate import check_match

Delays = int | Callable[[np.random.Generator, int], Ints]
NEVER = np.iinfo(np.int64).max


class DelayedTrace(NamedTuple):
    """The rounds of a simulation, and when each reward arrived."""

    user: Indices  # (t,), who appeared
    arm: Indices  # (t,), the arm shown, as a row of the catalogue
    reward: Floats  # (t,), the reward, also if it is lost
    regret: Floats  # (t,), cumulative pseudo-regret of all rounds
    known: Ints  # (t,), the reward arrives after the decision of this round; `NEVER` if it is lost

    def __repr__(self) -> str:
        lost = (self.known == NEVER).sum()
        return f"DelayedTrace({len(self.user):,} rounds, regret {self.regret[-1:].sum():.4g}, {lost:,} rewards lost)"

    def concentration(self, least: int = 5) -> float:
        """Return how much the pending decisions of a user concentrate on one arm; 1 means all of them.

        The mean, over rounds, of the share of the most shown arm among the pending decisions of the
        served user. Rounds count if `least` or more decisions of that user are pending; without
        such rounds the result is NaN.
        """
        shares = []
        pending: dict[int, list[tuple[int, int]]] = {}  # user → (round of the reward, arm)
        for t, (user, arm, known) in enumerate(zip(self.user.tolist(), self.arm.tolist(), self.known.tolist(), strict=True)):
            pending[user] = [one for one in pending.get(user, []) if one[0] >= t] + [(known, arm)]
            if len(pending[user]) >= least and known > t:
                (_, most), *_ = Counter(arm for _, arm in pending[user]).most_common(1)
                shares.append(most / len(pending[user]))
        return float(np.mean(shares)) if shares else float("nan")


def geometric(mean: float) -> Callable[[np.random.Generator, int], Ints]:
    """Return a function that draws geometrically distributed delays of 0, 1, 2, … rounds with this mean."""
    check("mean", mean, NOT_NEGATIVE)
    return lambda rng, size: rng.geometric(1.0 / (1.0 + mean), size).astype(np.int64) - 1


def simulate_delayed(
    policy: Policy,
    environment: Environment,
    horizon: int,
    *,
    delay: Delays = 0,
    missing: float = 0.0,
    condition: bool = True,
    max_age: int | None = None,
    seed: int | np.random.Generator = 0,
) -> DelayedTrace:
    """Run `simulate` with rewards that arrive `delay` rounds after the decision, through `Pending`.

    Users, arms and noise are those of `simulate` with the same seed; with a delay of 0 so is every
    number. The loop is not compiled.

    Parameters
    ----------
    delay : int or function
        The reward of round t arrives after the decision of round t + delay. A function
        `delay(rng, size)` draws the delays of `size` rounds, e.g. `geometric(20)`.
    missing : float
        Share of rewards that never arrive.
    condition, max_age
        As in `Pending`.

    Examples
    --------
    >>> from graphbandit import LinUCB, environments, graphs, signals
    >>> graph = graphs.empty(2)
    >>> env = environments.Linear(graph, signals.unit_arms(2, 3, seed=1), signals.unit_arms(20, 3, seed=2))
    >>> [round(simulate_delayed(LinUCB(graph, 3), env, 500, delay=d).regret[-1]) for d in (0, 10, 100)]
    [11, 22, 99]
    """
    check("horizon", horizon, count())
    check("missing", missing, SHARE)
    check_match(policy, environment)
    if isinstance(seed, np.random.Generator):
        seed = int(seed.integers(2**62))  # the same integer that `environment.rounds` would draw
    pending = Pending(policy, condition=condition, max_age=max_age)
    known = _arrivals(delay, missing, int(horizon), seed)
    due: dict[int, list[int]] = {}
    trace = DelayedTrace(np.empty(horizon, np.int32), np.empty(horizon, np.int32), np.empty(horizon), np.empty(horizon), known)
    t = 0
    for rounds in checked_rounds(environment, horizon, seed):
        for row, user in enumerate(rounds.user.tolist()):
            pool = rounds.pool[row]
            choice = pending.recommend(user, environment.arms[pool], items=pool, id=t).arm
            expected = rounds.mean[row, choice]
            trace.user[t], trace.arm[t] = user, rounds.pool[row, choice]
            trace.reward[t] = expected + rounds.noise[row]
            trace.regret[t] = rounds.mean[row].max() - expected
            due.setdefault(int(known[t]), []).append(t)
            for arrived in due.pop(t, ()):
                pending.reward(arrived, float(trace.reward[arrived]))
            t += 1
    np.cumsum(trace.regret, out=trace.regret)
    return trace


def _arrivals(delay: Delays, missing: float, horizon: int, seed: int) -> Ints:
    """Return the (t,) round in which each reward arrives.

    Delays and losses have streams of their own, the same for all policies.
    """
    delays, losses = streams(seed, "delays", "losses")
    if callable(delay):
        drawn = np.asarray(delay(delays, horizon))
        if drawn.shape != (horizon,) or drawn.dtype.kind not in "iu" or drawn.min() < 0:
            raise ValueError(f"delay must draw {horizon} integers of at least 0, but it drew {drawn!r}.")
    else:
        check("delay", delay, count(0))
        drawn = np.full(horizon, delay)
    known = np.arange(horizon, dtype=np.int64) + drawn
    known[losses.random(horizon) < missing] = NEVER
    return known
