"""Against the shapes that Open Bandit Pipeline documents: its package does not install on the Pythons that we support."""

from __future__ import annotations

import enum
import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from graphbandit import LinUCB, Random, UserGraph, environments, graphs, signals
from graphbandit.adapters.obp import BanditPolicy, from_bandit_feedback, to_bandit_feedback
from graphbandit.evaluation import DecisionLog, evaluate, record


def synthetic_feedback(n_rounds: int = 300, n_actions: int = 4, dim: int = 3, seed: int = 0) -> dict[str, Any]:
    """Return a uniform log in the form of `SyntheticBanditDataset.obtain_batch_bandit_feedback`."""
    rng = np.random.default_rng(seed)
    context = rng.normal(size=(n_rounds, dim))
    expected = 1 / (1 + np.exp(-context @ rng.normal(size=(dim, n_actions))))
    action = rng.integers(n_actions, size=n_rounds)
    return {
        "n_rounds": n_rounds,
        "n_actions": n_actions,
        "context": context,
        "action_context": np.eye(n_actions, dtype=int),
        "action": action,
        "position": None,
        "reward": rng.binomial(1, expected[np.arange(n_rounds), action]),
        "expected_reward": expected,
        "pi_b": np.full((n_rounds, n_actions, 1), 1 / n_actions),
        "pscore": np.full(n_rounds, 1 / n_actions),
    }


class DisjointLinUCB:
    """The rule of `obp.policy.LinUCB`: one ridge regression for each action on the context, A = I + Σ x xᵀ."""

    def __init__(self, dim: int, n_actions: int, epsilon: float) -> None:
        self.gram, self.bias = np.array([np.eye(dim)] * n_actions), np.zeros((n_actions, dim))
        self.epsilon = epsilon

    def select_action(self, context: np.ndarray[Any, Any]) -> int:
        inverse = np.linalg.inv(self.gram)
        width = np.sqrt(np.einsum("i,aij,j->a", context[0], inverse, context[0]))
        mean = np.einsum("i,aij,aj->a", context[0], inverse, self.bias)
        return int(np.argmax(mean + self.epsilon * width))

    def update_params(self, action: int, reward: float, context: np.ndarray[Any, Any]) -> None:
        self.gram[action] += np.outer(context[0], context[0])
        self.bias[action] += reward * context[0]


def log_of_a_simulation(rounds: int = 50) -> tuple[DecisionLog, UserGraph]:
    graph = graphs.erdos_renyi(5, 0.5, seed=0)
    world = environments.Linear(graph, signals.smooth(graph, 2, gamma=7, seed=1), signals.unit_arms(4, 2, seed=2))
    return record(Random(graph, 2), world, rounds), graph


def test_a_log_survives_the_way_there_and_back() -> None:
    log, graph = log_of_a_simulation()
    feedback = to_bandit_feedback(log)
    assert set(feedback) == {"n_rounds", "n_actions", "context", "action_context", "action", "position", "reward", "pscore"}
    assert feedback["context"].shape == (50, 1) and feedback["action_context"].shape == (4, 2)
    assert all(feedback[key].shape == (50,) for key in ("action", "position", "reward", "pscore"))
    assert all(feedback[key].dtype.kind == "i" for key in ("action", "position"))
    back = from_bandit_feedback(feedback, user_column=0)
    for name in ("user", "arm", "propensity", "reward", "arms"):
        assert np.array_equal(getattr(back, name), getattr(log, name)), name
    assert back.notes == () and evaluate(back, graph, {"linucb": LinUCB})["linucb"].policy == "linucb"


def test_what_is_known_about_users_follows_their_number() -> None:
    log, _ = log_of_a_simulation()
    about = np.arange(10.0).reshape(5, 2)
    feedback = to_bandit_feedback(log, user_context=about, expected_reward=np.zeros((50, 4)))
    assert np.array_equal(feedback["context"][:, 1:], about[log.user]) and feedback["expected_reward"].shape == (50, 4)
    back = from_bandit_feedback(feedback, user_column=0)
    assert np.array_equal(back.user, log.user)
    assert back.notes == ("2 columns of the context are left out: here a round has a user, and features belong to arms.",)
    with pytest.raises(ValueError, match=r"user_context must have a row for each of 5 users, but its shape is \(2, 2\)"):
        to_bandit_feedback(log, user_context=about[:2])


def test_their_feedback_is_read_with_users_of_ours() -> None:
    feedback = synthetic_feedback()
    users = np.arange(300) % 3
    log = from_bandit_feedback(feedback, users=users, ids=["ann", "bob", "eve"])
    assert len(log) == 300 and np.array_equal(log.arms, np.eye(4)) and log.ids == ["ann", "bob", "eve"]
    assert np.array_equal(log.user, users) and np.array_equal(log.reward, feedback["reward"])
    assert from_bandit_feedback(feedback).user.max() == 0
    assert from_bandit_feedback(feedback, arms=np.ones((4, 7))).dim == 7
    lists = feedback | {"position": np.arange(300) % 3, "pscore": None, "action_context": None}
    of_lists = from_bandit_feedback(lists, users=users)
    assert "each position of a list is a round of its own." in of_lists.notes and np.isnan(of_lists.propensity).all()
    assert np.array_equal(of_lists.arms, np.eye(4))


def test_what_cannot_be_said_there_is_refused() -> None:
    zero, one, half, nothing = np.array([0]), np.array([1]), np.array([0.5]), np.array([np.nan])
    some = DecisionLog(zero, one, half, half, np.eye(3), np.array([0, 1]), np.array([0, 2]))
    with pytest.raises(ValueError, match="log must offer all arms in every round"):
        to_bandit_feedback(some)
    with pytest.raises(ValueError, match="log must have a reward in every round"):
        to_bandit_feedback(DecisionLog(zero, one, half, nothing, np.eye(3)))
    assert to_bandit_feedback(DecisionLog(zero, one, nothing, half, np.eye(3)))["pscore"] is None
    with pytest.raises(ValueError, match="feedback must have action and reward, but its keys are context"):
        from_bandit_feedback({"context": [[0.0]]})
    with pytest.raises(ValueError, match="users must be integers of at least 0"):
        from_bandit_feedback(synthetic_feedback(), user_column=0)
    with pytest.raises(ValueError, match="user_column must lie between 0 and the last column of the context, 2"):
        from_bandit_feedback(synthetic_feedback(), user_column=3)
    with pytest.raises(ValueError, match="user_column must be left out, because feedback has no context"):
        from_bandit_feedback({"action": [0], "reward": [1]}, user_column=0)


@pytest.mark.parametrize("epsilon", [0.3, 1.0])
def test_crossed_with_the_context_linucb_is_theirs(epsilon: float) -> None:
    feedback = synthetic_feedback()
    theirs = DisjointLinUCB(3, 4, epsilon)
    ours = BanditPolicy(
        LinUCB(graphs.empty(1), 12, ridge=1.0, radius="constant", exploration=epsilon), np.eye(4), features="cross"
    )
    rng = np.random.default_rng(1)
    for t, (context, expected) in enumerate(zip(feedback["context"][:, None], feedback["expected_reward"], strict=True)):
        if t < 4:  # both learn every action once: before that, their ties go to the first action, ours to a random one
            for policy in (ours, theirs):
                policy.update_params(t, expected[t], context)
            continue
        chosen = ours.select_action(context)
        assert chosen.shape == (1,) and chosen[0] == theirs.select_action(context)
        reward = rng.binomial(1, expected[chosen[0]])
        ours.update_params(action=chosen[0], reward=reward, context=context)
        theirs.update_params(chosen[0], reward, context)
    assert ours.n_trial == ours.action_counts.sum() == 300


def run_bandit_simulation(feedback: dict[str, Any], policy: Any, contextual: Any) -> np.ndarray[Any, Any]:
    """Replay a log as the simulator of `obp` does: the policy learns where its choice is the logged one."""
    chosen = []
    for action, reward, position, context in zip(
        feedback["action"], feedback["reward"], feedback["position"], feedback["context"], strict=True
    ):
        assert policy.policy_type == contextual
        selected = policy.select_action(context.reshape(1, -1))
        if action == selected[position]:
            policy.update_params(action=action, reward=reward, context=context.reshape(1, -1))
        chosen.append(selected)
    return np.array(chosen)


def test_their_simulator_runs_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    class PolicyType(enum.Enum):
        CONTEXT_FREE = 0
        CONTEXTUAL = 1

    log, graph = log_of_a_simulation(200)
    feedback = to_bandit_feedback(log)
    shell = BanditPolicy(LinUCB(graph, 2), log.arms, user_column=0, len_list=2)
    first = run_bandit_simulation(feedback, shell, "contextual")
    assert first.shape == (200, 2) and (first[:, 0] != first[:, 1]).all() and 0 < shell.n_trial < 200
    modules = {name: ModuleType(name) for name in ("obp", "obp.policy", "obp.policy.policy_type")}
    modules["obp.policy.policy_type"].PolicyType = PolicyType  # type: ignore[attr-defined]
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    shell.initialize()
    assert shell.n_trial == 0 and not shell.policy.theta.any()
    assert np.array_equal(run_bandit_simulation(feedback, shell, PolicyType.CONTEXTUAL), first)
    shares = shell.action_dist(feedback["context"])
    assert shares.shape == (200, 4, 1) and shares.sum(axis=1) == pytest.approx(1)


def test_batches_are_learned_when_they_are_full() -> None:
    untrained = LinUCB(graphs.empty(2), 2)
    shell = BanditPolicy(untrained, np.eye(2), user_column=1, batch_size=3)
    context = np.array([[0.5, 1.0]])
    for trial in range(1, 7):
        shell.update_params(trial % 2, np.array([1.0]), context)
        assert shell.policy.observations.visits[1] == 3 * (trial // 3)
    assert not untrained.theta.any() and shell.policy_name == "LinUCB"


def test_features_may_be_a_function_of_the_context() -> None:
    shell = BanditPolicy(LinUCB(graphs.empty(2), 1), np.eye(3), user_column=0, features=lambda rest: rest[:, None] * [1.0])
    shell.update_params(0, 1.0, np.array([[1.0, 1.0, 0.0, 0.0]]))
    assert shell.policy.theta.tolist() == [[0.0], [0.5]]


def test_errors_are_sentences() -> None:
    policy = LinUCB(graphs.empty(2), 2)
    for wrong, words in [
        ({"features": "product"}, "features must be 'arms', 'cross' or a function"),
        ({"len_list": 3}, "len_list must lie between 1 and the number of actions, 2"),
        ({"batch_size": 0}, "batch_size must be an integer of at least 1"),
    ]:
        with pytest.raises(ValueError, match=words):
            BanditPolicy(policy, np.eye(2), **wrong)  # type: ignore[arg-type]
    shell = BanditPolicy(policy, np.eye(2), user_column=0)
    with pytest.raises(ValueError, match=r"context must have the shape \(1, dim_context\), but its shape is \(3,\)"):
        shell.select_action(np.zeros(3))
    with pytest.raises(ValueError, match="action must be an integer from 0 to 1, but it is 2"):
        shell.update_params(2, 1.0, np.zeros((1, 1)))
    with pytest.raises(ValueError, match="user must be an integer from 0 to 1"):
        shell.select_action(np.array([[5.0]]))
