# ruff: noqa: E402  # the library must be there before what needs it is imported
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium", reason="gymnasium is not installed")

from gymnasium import ObservationWrapper
from gymnasium.utils.env_checker import check_env

import graphbandit as gb
from graphbandit import AdaptiveGraphUCB, LinTS, LinUCB, Random, Trace, environments, graphs, signals, simulate
from graphbandit.adapters.gymnasium import ENVIRONMENTS, GraphBanditEnv, PolicyAgent, run_policy
from graphbandit.environments import rounds as rounds_module

gymnasium.register_envs(gb.gymnasium)
IDS = [f"graphbandit/{name}-v0" for name in ENVIRONMENTS]


def small_world(pool: int | None = 4) -> environments.Linear:
    graph = graphs.erdos_renyi(6, 0.5, seed=0)
    theta = signals.smooth(graph, 3, gamma=7, seed=1)
    return environments.Linear(graph, theta, signals.unit_arms(9, 3, seed=2), sigma=0.1, pool=pool)


def all_hits() -> environments.Hits:
    return environments.Hits(graphs.complete(3), np.eye(4), [[1, 0, 0, 0], [0, 1, 1, 0], [0, 0, 0, 0]], candidates=2)


def same(left: Trace, right: Trace) -> bool:
    return all(np.array_equal(getattr(left, name), getattr(right, name)) for name in Trace._fields)


@pytest.mark.parametrize("name", IDS)
def test_registered_environments_pass_the_checker_without_warnings(name: str) -> None:
    env = gymnasium.make(name)
    check_env(env.unwrapped)
    assert env.spec.id == name and set(env.observation_space.spaces) == {"user", "arms"}


@pytest.mark.parametrize("environment", [small_world(), small_world(None), all_hits()], ids=["pool", "all", "hits"])
def test_any_environment_of_ours_passes_it(environment: environments.Environment) -> None:
    check_env(GraphBanditEnv(environment, horizon=5), skip_render_check=True)  # not registered: nothing can be rendered


def test_the_module_can_be_named_in_the_id() -> None:
    env = gymnasium.make("graphbandit.adapters.gymnasium:graphbandit/Linear-v0", n_users=7, dim=2, pool=None, n_arms=11)
    assert env.observation_space["user"].n == 7 and env.observation_space["arms"].shape == (11, 2) and env.action_space.n == 11


@pytest.mark.parametrize("name", IDS)
@pytest.mark.parametrize("policy", [LinUCB, LinTS], ids=lambda policy: policy.__name__)
def test_a_policy_does_what_it_does_in_simulate(name: str, policy: type[LinUCB | LinTS]) -> None:
    env = gymnasium.make(name, horizon=80)
    world = env.unwrapped.environment
    for seed in (0, 3):
        expected = simulate(policy(world.graph, 5, seed=1), world, 80, seed=seed)
        trace = run_policy(env, policy(world.graph, 5, seed=1), seed=seed)
        assert same(trace, expected)


@pytest.mark.compiled
def test_so_does_one_that_learns_about_items() -> None:
    env = GraphBanditEnv(small_world(), horizon=60)
    expected = simulate(AdaptiveGraphUCB(env.graph, 3), env.environment, 60, seed=2)
    trace = run_policy(env, AdaptiveGraphUCB(env.graph, 3), seed=2)
    assert same(trace, expected)


def test_blocks_of_rounds_leave_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    world = small_world()
    whole = run_policy(GraphBanditEnv(world, horizon=50), LinUCB(world.graph, 3))
    monkeypatch.setattr("graphbandit.environments.linear.CELLS_PER_BLOCK", 7 * 4)
    parts = run_policy(GraphBanditEnv(world, horizon=50), LinUCB(world.graph, 3))
    assert rounds_module.CELLS_PER_BLOCK > 1000 and np.array_equal(whole.reward, parts.reward)


def test_an_episode_is_truncated_at_its_horizon_and_the_next_is_another() -> None:
    env = GraphBanditEnv(small_world(), horizon=3)
    first, _ = env.reset(seed=5)
    steps = [env.step(0) for _ in range(3)]
    assert [step[3] for step in steps] == [False, False, True] and not any(step[2] for step in steps)
    assert all(step[0] in env.observation_space for step in steps)
    with pytest.raises(ValueError, match="the episode is over after 3 rounds; call reset"):
        env.step(0)
    second, _ = env.reset()
    assert not np.array_equal(first["arms"], second["arms"])
    trace = run_policy(env, Random(env.graph, 3), 7, seed=5)
    assert len(trace.arm) == 7 and trace.regret[-1] == trace.regret.max()


def test_regret_and_best_are_those_of_expected_rewards() -> None:
    world = small_world(None)
    env = GraphBanditEnv(world)
    observation, info = env.reset(seed=0)
    for action in range(9):
        means = observation["arms"] @ world.truth[observation["user"]]
        assert np.array_equal(world.arms[info["items"]], observation["arms"])
        observation, _, _, _, info = env.step(np.int64(action))
        assert info["best"] == means.argmax() and info["regret"] == pytest.approx(means.max() - means[action])
    for wrong in (9, -1, 0.5, "a"):
        with pytest.raises(ValueError, match="action must be one of the 9 arms on offer"):
            env.step(wrong)  # type: ignore[arg-type]


class OneArmLess(ObservationWrapper):  # type: ignore[misc]
    """An environment of another library: the same observations, but no items and no regret."""

    def observation(self, observation: dict[str, Any]) -> dict[str, Any]:
        return {"user": observation["user"], "arms": observation["arms"][:-1]}

    def reset(self, **options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        return super().reset(**options)[0], {}

    def step(self, action: int) -> tuple[Any, ...]:
        return (*super().step(action)[:4], {})


def test_an_agent_acts_in_environments_that_are_not_ours() -> None:
    env = OneArmLess(GraphBanditEnv(small_world(), horizon=20))
    trace = run_policy(env, LinUCB(env.unwrapped.graph, 3))
    assert trace.arm.max() < 3 and np.isnan(trace.regret).all()
    agent = PolicyAgent(LinUCB(env.unwrapped.graph, 3))
    observation, _ = env.reset(seed=0)
    agent.learn(observation, agent.act(observation), 1.0)
    assert agent.policy.theta.any()


def test_environments_run_in_vectors() -> None:
    envs = gymnasium.make_vec(IDS[0], num_envs=3, vectorization_mode="sync", pool=4)
    observation, _ = envs.reset(seed=1)
    assert observation["arms"].shape == (3, 4, 5)
    assert envs.step(np.zeros(3, dtype=np.int64))[1].shape == (3,)
    envs.close()
