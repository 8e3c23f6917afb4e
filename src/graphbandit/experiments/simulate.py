"""One policy in one environment: the whole loop, compiled."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

from ..compute.arrays import Floats, Indices
from ..compute.compiler import compiled
from ..environments import Environment, Rounds
from ..environments.rounds import checked_graph, checked_rounds
from ..policies import Policy
from ..policies.core import kernels
from ..validate import check, count


class Learner(Protocol):
    """The part of a policy that the loop needs; without kernels it runs at the speed of Python."""

    def recommend(self, user: int, arms: Floats) -> int:
        """Return the row of `arms` to show."""
        ...

    def update(self, user: int, x: Floats, reward: float) -> None:
        """Learn from one reward."""
        ...


class Trace(NamedTuple):
    """The user, arm, reward and regret of each round."""

    user: Indices  # (t,), who appeared
    arm: Indices  # (t,), the arm shown, as a row of the catalogue
    reward: Floats  # (t,), what was seen
    regret: Floats  # (t,), cumulative pseudo-regret: expected rewards only, no noise in it

    def __repr__(self) -> str:
        return f"Trace({len(self.user):,} rounds, regret {self.regret[-1:].sum():.4g})"


def simulate(policy: Learner, environment: Environment, horizon: int, seed: int | np.random.Generator = 0) -> Trace:
    """Let `policy` act and learn for `horizon` rounds.

    The trace equals, bit for bit, that of a Python loop of `recommend` and `update` over the same
    rounds, with the rows of the catalogue as the ids of the items. `seed` is the environment's; the
    policy draws from its own generator.

    >>> from graphbandit import GraphUCB, environments, graphs, signals
    >>> graph = graphs.erdos_renyi(20, 0.4, seed=0)
    >>> env = environments.Linear(graph, signals.smooth(graph, 5, gamma=7, seed=1), signals.unit_arms(500, 5, seed=2), pool=50)
    >>> trace = simulate(GraphUCB(graph, 5), env, 1000, seed=0)
    >>> trace.arm.shape, bool(trace.regret[-1] < 60)
    ((1000,), True)
    """
    check("horizon", horizon, count())
    check_match(policy, environment)
    play = _play_by_kernels if _runs_by_kernels(policy) else _play_in_python
    trace = Trace(np.empty(horizon, np.int32), np.empty(horizon, np.int32), np.empty(horizon), np.empty(horizon))
    done = 0
    for rounds in checked_rounds(environment, horizon, seed):
        now = slice(done, done + len(rounds.user))
        part = Trace(trace.user[now], trace.arm[now], trace.reward[now], trace.regret[now])
        part.user[:] = rounds.user
        play(policy, environment.arms, rounds, part)
        done += len(rounds.user)
    np.cumsum(trace.regret, out=trace.regret)
    return trace


@compiled
def play_compiled(state: Any, rng: np.random.Generator, n_normals: int, arms: Floats, rounds: Rounds, trace: Trace) -> None:
    """Play all `rounds`: draw, decide, reward, learn.

    `trace.regret` receives the regret of each round, not yet summed.
    """
    offered = np.empty((rounds.pool.shape[1], arms.shape[1]))
    items = np.empty(rounds.pool.shape[1], np.int64)
    values = np.empty(rounds.pool.shape[1])
    normals = np.empty(n_normals)
    for t in range(rounds.user.shape[0]):
        user = np.int64(rounds.user[t])  # one integer type, or every kernel would be compiled twice
        best = rounds.mean[t, 0]
        for k in range(offered.shape[0]):
            items[k] = rounds.pool[t, k]
            for j in range(arms.shape[1]):
                offered[k, j] = arms[rounds.pool[t, k], j]
            best = max(best, rounds.mean[t, k])
        for k in range(n_normals):
            normals[k] = rng.standard_normal()
        kernels.draw(state, user, offered, items, normals, values)
        choice = kernels.choose(values, rng.random())
        reward = rounds.mean[t, choice] + rounds.noise[t]
        kernels.learn_item(state, user, offered[choice], items[choice], reward)
        trace.arm[t] = rounds.pool[t, choice]
        trace.reward[t] = reward
        trace.regret[t] = best - rounds.mean[t, choice]


def check_match(policy: Learner, environment: Environment) -> None:
    """Raise a ValueError unless the environment has usable arms, and the users and features of the policy.

    Compiled code does not check bounds, so a mismatch must not get that far.
    """
    checked_graph(environment.graph)
    arms = environment.arms
    if not isinstance(arms, np.ndarray) or arms.dtype != np.float64 or arms.ndim != 2 or not np.isfinite(arms).all():
        what = f"{arms.dtype} of shape {arms.shape}" if isinstance(arms, np.ndarray) else type(arms).__name__
        raise ValueError(
            f"arms of the environment must be a finite NumPy array of float64 with one row for each arm, but it is {what}; "
            "convert it with np.array(arms, dtype=float)."
        )
    if not isinstance(policy, Policy):
        return
    users, dim = environment.graph.n_users, environment.arms.shape[1]
    if (policy.n_users, policy.dim) != (users, dim):
        raise ValueError(
            f"policy is for {policy.n_users} users and {policy.dim} features, "
            f"but environment has {users} users and {dim} features."
        )


def _runs_by_kernels(policy: Learner) -> bool:
    """Return whether the compiled loop does what the policy's methods do: a subclass may override them."""
    return isinstance(policy, Policy) and policy.decides_by_kernels and policy.learns_by_kernels


def _play_by_kernels(policy: Any, arms: Floats, rounds: Rounds, trace: Trace) -> None:
    policy.reserve_items(len(arms))
    for now in policy.blocks(len(rounds.user)):
        part = Rounds(rounds.user[now], rounds.pool[now], rounds.mean[now], rounds.noise[now])
        seen = Trace(trace.user[now], trace.arm[now], trace.reward[now], trace.regret[now])
        play_compiled(policy.state, policy.rng, policy.n_normals, arms, part, seen)


def _play_in_python(policy: Learner, arms: Floats, rounds: Rounds, trace: Trace) -> None:
    for t, user in enumerate(rounds.user.tolist()):
        items = rounds.pool[t]
        offered = arms[items]
        if isinstance(policy, Policy):
            choice = policy.recommend(user, offered, items=items)
            reward = rounds.mean[t, choice] + rounds.noise[t]
            policy.update(user, offered[choice], reward, item=int(items[choice]))
        else:  # a learner of another library may have no items
            choice = policy.recommend(user, offered)
            reward = rounds.mean[t, choice] + rounds.noise[t]
            policy.update(user, offered[choice], reward)
        trace.arm[t] = items[choice]
        trace.reward[t] = reward
        trace.regret[t] = rounds.mean[t].max() - rounds.mean[t, choice]
