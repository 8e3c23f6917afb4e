"""Our environments as gymnasium's, registered as `graphbandit/…`, and policies of ours that act in them.

Importing this module registers the environments: `gymnasium.register_envs(graphbandit.gymnasium)` says so to the reader, and
`gymnasium.make("graphbandit.adapters.gymnasium:graphbandit/Linear-v0")` imports it by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from .. import graphs, signals
from ..compute.arrays import Floats, Ints
from ..environments import Drifting, Environment, Hits, Linear, Rounds
from ..experiments import Trace
from ..graph import UserGraph
from ..policies import Policy
from ..validate import check, count

Observation = dict[str, Any]
"""`user`, a row of the graph, and `arms`, the (pool, dim) features on offer to it."""


class GraphBanditEnv(gymnasium.Env):  # type: ignore[misc]  # untyped where gymnasium is missing
    """Any environment of ours as one of gymnasium's: an episode is the first `horizon` rounds of a seed.

    An observation is a dictionary of the `user` and of the features of the `arms` on offer, one row each; an action is one of
    these rows. `reset(seed=s)` starts the rounds that `simulate(…, seed=s)` plays; without a seed it draws a new one.
    What is random about a round does not depend on actions.

    `info["items"]` are the arms on offer, as rows of the catalogue. After a step, `info["regret"]` is what the action cost
    in expectation and `info["best"]` the action that costs nothing.

    Parameters
    ----------
    environment : Environment
        For instance a `Linear`, a `Drifting`, or a `Hits` made from a data set.
    horizon : int
        Rounds in an episode.

    Examples
    --------
    >>> from graphbandit import graphs
    >>> env = GraphBanditEnv(Linear(graphs.complete(2), [[1.0], [2.0]], [[1.0], [3.0]], sigma=0.0))
    >>> observation, info = env.reset(seed=0)
    >>> observation["arms"].tolist(), env.action_space
    ([[1.0], [3.0]], Discrete(2))
    >>> observation, reward, terminated, truncated, info = env.step(0)
    >>> info["best"], info["regret"] == 2 * reward
    (1, True)
    """

    metadata: dict[str, Any] = {"render_modes": []}

    def __init__(self, environment: Environment, *, horizon: int = 1000) -> None:
        self.environment, self.horizon = environment, int(check("horizon", horizon, count()))
        first = next(iter(environment.rounds(1, 0)))
        pool, dim = first.pool.shape[1], environment.arms.shape[1]
        largest = float(np.abs(environment.arms).max()) or 1.0
        arms = spaces.Box(-largest, largest, (pool, dim), dtype=np.float64)
        self.observation_space = spaces.Dict({"user": spaces.Discrete(environment.graph.n_users), "arms": arms})
        self.action_space = spaces.Discrete(pool)
        self._blocks: Iterator[Rounds] = iter(())
        self._rounds, self._at, self._played = first, 0, 0

    @property
    def graph(self) -> UserGraph:
        """The graph of the users, which a policy may know."""
        return self.environment.graph

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observation, dict[str, Any]]:
        """Start the rounds of this seed, or of a new one, and return the first observation."""
        super().reset(seed=seed)
        stream = int(self.np_random.integers(2**62)) if seed is None else seed
        # One more than the horizon, for the observation after the last round; a longer stream starts with the same rounds.
        self._blocks = iter(self.environment.rounds(self.horizon + 1, stream))
        self._rounds, self._at, self._played = next(self._blocks), 0, 0
        return self._observation(), {"items": self._items()}

    def step(self, action: int | np.integer[Any]) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Show an arm; return the next observation, the reward, whether the episode is over, and the best arm."""
        if not self.action_space.contains(action):
            raise ValueError(f"action must be one of the {self.action_space.n} arms on offer, but it is {action!r}.")
        if self._played == self.horizon:
            raise ValueError(f"the episode is over after {self.horizon} rounds; call reset.")
        mean, noise = self._rounds.mean[self._at], self._rounds.noise[self._at]
        self._at, self._played = self._at + 1, self._played + 1
        if self._at == len(self._rounds.user):
            self._rounds, self._at = next(self._blocks), 0
        info = {"regret": float(mean.max() - mean[action]), "best": int(mean.argmax()), "items": self._items()}
        return self._observation(), float(mean[action] + noise), False, self._played == self.horizon, info

    def _observation(self) -> Observation:
        return {"user": np.int64(self._rounds.user[self._at]), "arms": self.environment.arms[self._rounds.pool[self._at]]}

    def _items(self) -> Ints:
        return np.array(self._rounds.pool[self._at], dtype=np.int64)


class PolicyAgent:
    """A policy of ours as an agent: `act` chooses an action, `learn` receives its reward.

    It works in any environment whose observations have a `user` and `arms`; `info["items"]`, if given, names the arms.

    Examples
    --------
    >>> from graphbandit import LinUCB
    >>> env = gymnasium.make("graphbandit/Linear-v0", pool=3)
    >>> agent = PolicyAgent(LinUCB(env.unwrapped.graph, 5))
    >>> observation, info = env.reset(seed=0)
    >>> action = agent.act(observation, info)
    >>> after, reward, *_ = env.step(action)
    >>> agent.learn(observation, action, reward, info)
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def act(self, observation: Observation, info: dict[str, Any] | None = None) -> int:
        """Return the action that the policy chooses."""
        items = (info or {}).get("items")
        return self.policy.recommend(int(observation["user"]), observation["arms"], items=items)

    def learn(self, observation: Observation, action: int, reward: float, info: dict[str, Any] | None = None) -> None:
        """Learn the reward of an action; `observation` and `info` are those that it was chosen from."""
        items = (info or {}).get("items")
        known = {} if items is None else {"item": int(items[action])}
        self.policy.update(int(observation["user"]), observation["arms"][action], float(reward), **known)


def run_policy(env: Any, policy: Policy, steps: int | None = None, *, seed: int | None = 0) -> Trace:
    """Let a policy act and learn for `steps` steps, by default to the end of the episode, and return the trace.

    In a `GraphBanditEnv` the trace equals that of `simulate` in its environment with this seed, bit for bit; `simulate` is
    compiled and much faster. If an episode ends earlier, the next one is that of a new seed, and the policy goes on.

    Parameters
    ----------
    env : gymnasium environment
        With observations of a `user` and `arms`, wrapped or not.
    policy : Policy
    steps : int, optional
    seed : int, optional
        Of the first episode.

    Examples
    --------
    >>> from graphbandit import LinUCB
    >>> env = gymnasium.make("graphbandit/Linear-v0", horizon=20)
    >>> len(run_policy(env, LinUCB(env.unwrapped.graph, 5)).reward)
    20
    """
    if steps is not None:
        check("steps", steps, count())
    agent = PolicyAgent(policy)
    user: list[int] = []
    arm: list[int] = []
    rewards: list[float] = []
    regrets: list[float] = []
    observation, info = env.reset(seed=seed)
    over = False
    while len(arm) != steps and not (over and steps is None):
        if over:
            observation, info = env.reset()
        action = agent.act(observation, info)
        after, reward, terminated, truncated, later = env.step(action)
        agent.learn(observation, action, reward, info)
        user.append(int(observation["user"]))
        arm.append(int(info["items"][action]) if "items" in info else action)
        rewards.append(float(reward))
        regrets.append(float(later.get("regret", np.nan)))
        observation, info, over = after, later, terminated or truncated
    return Trace(np.array(user, np.int32), np.array(arm, np.int32), np.array(rewards), np.cumsum(regrets))


# The registered environments


def linear_env(
    *, n_users: int = 20, n_arms: int = 500, dim: int = 5, gamma: float = 7.0, world: int = 0, horizon: int = 1000, **more: Any
) -> GraphBanditEnv:
    """Return `graphbandit/Linear-v0`: users whose tastes vary smoothly over a random graph.

    A larger `gamma` makes them smoother. `world` draws graph, tastes and arms; the seed of `reset` draws the
    rounds. `more` has `sigma` and `pool` of `Linear`; by default 50 arms are on offer.
    """
    graph, arms = _graph(n_users, world), signals.unit_arms(n_arms, dim, seed=world)
    theta = signals.smooth(graph, dim, gamma=gamma, seed=world)
    return GraphBanditEnv(Linear(graph, theta, arms, **{"pool": 50, **more}), horizon=horizon)


def drifting_env(
    *, n_users: int = 20, n_arms: int = 500, dim: int = 5, gamma: float = 7.0, world: int = 0, horizon: int = 1000, **more: Any
) -> GraphBanditEnv:
    """Return `graphbandit/Drifting-v0`: `linear_env` with tastes that move to others as smooth.

    `more` has settings of `Drifting`; by default 50 arms are on offer, and the period is 500 rounds.
    """
    graph, arms = _graph(n_users, world), signals.unit_arms(n_arms, dim, seed=world)
    theta = [signals.smooth(graph, dim, gamma=gamma, seed=3 * world + phase) for phase in range(3)]
    return GraphBanditEnv(Drifting(graph, theta, arms, **{"pool": 50, "period": 500, **more}), horizon=horizon)


def hits_env(
    *, n_users: int = 20, n_items: int = 500, dim: int = 5, liked: int = 20, gamma: float = 7.0, world: int = 0, **more: Any
) -> GraphBanditEnv:
    """Return `graphbandit/Hits-v0`: one item on offer is among the user's `liked` favourites and earns 1, the others 0.

    `more` has settings of `Hits`, and `horizon`.
    """
    horizon = more.pop("horizon", 1000)
    graph, items = _graph(n_users, world), signals.unit_arms(n_items, dim, seed=world)
    taste: Floats = signals.smooth(graph, dim, gamma=gamma, seed=world) @ items.T
    favourites = taste >= np.sort(taste, axis=1)[:, [-liked]]
    return GraphBanditEnv(Hits(graph, items, favourites.astype(np.float64), **more), horizon=horizon)


def _graph(n_users: int, world: int) -> UserGraph:
    """Return a random graph in which a user has about 8 neighbours."""
    return graphs.erdos_renyi(n_users, min(1.0, 8 / max(1, n_users - 1)), seed=world)


ENVIRONMENTS: dict[str, Callable[..., GraphBanditEnv]] = {"Linear": linear_env, "Drifting": drifting_env, "Hits": hits_env}

for _name, _maker in ENVIRONMENTS.items():
    if (_id := f"graphbandit/{_name}-v0") not in gymnasium.registry:
        gymnasium.register(_id, f"{__name__}:{_maker.__name__}")
