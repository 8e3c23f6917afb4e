"""Open Bandit Pipeline (`obp`): its `bandit_feedback` to and from a `DecisionLog`, and a policy of ours with its methods.

Nothing here needs the package: its data are dictionaries of arrays, and its simulator asks for methods, not for a class.
In `obp`, all actions can be chosen in every round and a round has a context; here a round has a user, and an arm has features.
One column of the context is therefore the user.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from copy import deepcopy
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ..compute.arrays import Floats, Ints
from ..evaluation import DecisionLog
from ..policies import Policy
from ..validate import as_floats, check, check_between, count, is_integer

BanditFeedback = dict[str, Any]
RoundFeatures = Literal["arms", "cross"] | Callable[[Floats], npt.ArrayLike]


def to_bandit_feedback(
    log: DecisionLog, *, user_context: npt.ArrayLike | None = None, expected_reward: npt.ArrayLike | None = None
) -> BanditFeedback:
    """Return the `bandit_feedback` of a log, in which all arms were on offer in every round.

    Parameters
    ----------
    log : DecisionLog
        With a reward in every round; `log.with_rewards` says what to do about those without.
    user_context : (n_users, k) array, optional
        What is known about each user. The context of a round is the number of its user, followed by that user's row.
        Give one (one-hot rows, attributes) if a model of `obp` is to learn from the context: a number alone is no feature.
    expected_reward : (n_rounds, n_actions) array, optional
        Where it is known, as in a simulation.

    Examples
    --------
    >>> log = DecisionLog([0, 1], [1, 0], [0.5, 0.9], [1.0, 0.0], [[1.0, 0.0], [0.0, 1.0]])
    >>> feedback = to_bandit_feedback(log)
    >>> feedback["n_rounds"], feedback["action"].tolist(), feedback["context"].tolist()
    (2, [1, 0], [[0.0], [1.0]])
    """
    if (log.sizes != len(log.arms)).any():
        raise ValueError("log must offer all arms in every round: Open Bandit Pipeline has the same arms in every round.")
    if np.isnan(log.reward).any():
        raise ValueError("log must have a reward in every round; use log.with_rewards(0) or log.with_rewards(None).")
    feedback: BanditFeedback = {
        "n_rounds": len(log),
        "n_actions": len(log.arms),
        "context": log.user[:, None].astype(np.float64),
        "action_context": log.arms.copy(),
        "action": log.arm.copy(),
        "position": np.zeros(len(log), dtype=np.int64),
        "reward": log.reward.copy(),
        "pscore": None if np.isnan(log.propensity).any() else log.propensity.copy(),
    }
    if user_context is not None:
        table = as_floats(user_context, "user_context")
        if table.ndim != 2 or len(table) <= log.user.max(initial=-1):
            n_users = log.user.max(initial=-1) + 1
            raise ValueError(f"user_context must have a row for each of {n_users} users, but its shape is {table.shape}.")
        feedback["context"] = np.hstack([feedback["context"], table[log.user]])
    if expected_reward is not None:
        feedback["expected_reward"] = as_floats(expected_reward, "expected_reward")
    return feedback


def from_bandit_feedback(
    feedback: Mapping[str, Any],
    *,
    users: npt.ArrayLike | None = None,
    user_column: int | None = None,
    arms: npt.ArrayLike | None = None,
    ids: Sequence[Hashable] | None = None,
) -> DecisionLog:
    """Return the log of a `bandit_feedback`; its `notes` list what is left out.

    Parameters
    ----------
    feedback : mapping
        With `action`, `reward` and, if they are known, `pscore`, `n_actions`, `action_context`, `context`.
        A round of several positions is several rounds here, as `obp` stores it: each with its own propensity.
    users : (n_rounds,) array, optional
        The user of each round, as a row number of the graph or a position in `ids`.
    user_column : int, optional
        The column of `context` that holds these numbers, if `users` is not given. With neither, all rounds are of one user.
    arms : (n_actions, dim) array, optional
        Features of the actions, in place of `action_context`; without both, an indicator of each action.
    ids : sequence of hashables, optional
        The names of the users.

    Examples
    --------
    >>> feedback = {"n_actions": 2, "action": [1, 0], "reward": [1, 0], "pscore": [0.5, 0.5], "context": [[3.0], [4.0]]}
    >>> log = from_bandit_feedback(feedback, user_column=0)
    >>> log.user.tolist(), log.arms.tolist(), log.propensity.tolist()
    ([3, 4], [[1.0, 0.0], [0.0, 1.0]], [0.5, 0.5])
    """
    missing = [name for name in ("action", "reward") if feedback.get(name) is None]
    if missing:
        raise ValueError(f"feedback must have {' and '.join(missing)}, but its keys are {', '.join(map(str, feedback))}.")
    action = np.asarray(feedback["action"], dtype=np.int64)
    context = feedback.get("context")
    if arms is None:
        arms = feedback.get("action_context")
    if arms is None:
        arms = np.eye(int(feedback.get("n_actions") or action.max(initial=0) + 1))
    pscore = feedback.get("pscore")
    notes = []
    left_out = (0 if context is None else np.shape(context)[1]) - (users is None and user_column is not None)
    if left_out:
        notes.append(f"{left_out} columns of the context are left out: here a round has a user, and features belong to arms.")
    if np.unique(np.zeros(1) if feedback.get("position") is None else feedback["position"]).size > 1:
        notes.append("each position of a list is a round of its own.")
    return DecisionLog(
        _users(users, user_column, context, len(action)),
        action,
        np.full(len(action), np.nan) if pscore is None else pscore,
        feedback["reward"],
        arms,  # type: ignore[arg-type]  # whatever it is, the log checks it
        ids=ids,
        notes=tuple(notes),
    )


def _users(users: Any, user_column: int | None, context: Any, n_rounds: int) -> Ints:
    """Return the (n_rounds,) users as integers, or raise a ValueError."""
    if users is None and user_column is None:
        return np.zeros(n_rounds, np.int64)
    if users is None:
        if context is None:
            raise ValueError("user_column must be left out, because feedback has no context.")
        table = as_floats(context, "context")
        check_between("user_column", user_column, 0, table.shape[1] - 1, "the last column of the context")
        users = table[:, user_column]
    numbers = as_floats(users, "users")
    if (numbers != np.round(numbers)).any() or (numbers < 0).any():
        raise ValueError("users must be integers of at least 0 (rows of the graph or positions in ids), but some are not.")
    return numbers.astype(np.int64)


class BanditPolicy:
    """A policy of ours with the attributes and methods of a contextual policy of `obp`.

    Parameters
    ----------
    policy : Policy
        Untrained. It is copied: `initialize` returns to this state.
    arms : (n_actions, k) array
        Features of the actions; `np.eye(n_actions)` if nothing is known about them.
    user_column : int, optional
        The column of the context that holds the user, a row number of the graph; None if there is one user.
    features : {"arms", "cross"} or callable
        The features of an action in a round: "arms" are those of `arms` alone; "cross" multiplies each of them with each of
        the other columns of the context, so that with `np.eye(n_actions)` every action has a model of its own, as in
        `obp.policy.LinUCB`; a callable returns all (n_actions, dim) of them for the other columns of the context.
    len_list : int
        Actions to choose in a round.
    batch_size : int
        Rewards are learned in batches of this size.

    Examples
    --------
    >>> from graphbandit import LinUCB, graphs
    >>> shell = BanditPolicy(LinUCB(graphs.empty(3), 2), np.eye(2), user_column=0)
    >>> shell.update_params(action=1, reward=1.0, context=np.array([[2.0]]))
    >>> shell.select_action(np.array([[2.0]])).tolist()
    [1]
    """

    def __init__(
        self,
        policy: Policy,
        arms: npt.ArrayLike,
        *,
        user_column: int | None = None,
        features: RoundFeatures = "arms",
        len_list: int = 1,
        batch_size: int = 1,
    ) -> None:
        self.arms = as_floats(arms, "arms")
        if self.arms.ndim != 2:
            raise ValueError(f"arms must have a row for each action, but its shape is {self.arms.shape}.")
        if not callable(features) and features not in ("arms", "cross"):
            raise ValueError(f"features must be 'arms', 'cross' or a function of the context, but it is {features!r}.")
        self.n_actions = len(self.arms)
        check_between("len_list", len_list, 1, self.n_actions, "the number of actions")
        self.user_column, self.features = user_column, features
        self.len_list, self.batch_size = int(len_list), int(check("batch_size", batch_size, count()))
        self.policy_name = type(policy).__name__
        self._untrained = deepcopy(policy)
        self.initialize()

    @property
    def policy_type(self) -> Any:
        """`PolicyType.CONTEXTUAL` of `obp` if it is installed, otherwise the text "contextual"."""
        try:
            from obp.policy.policy_type import PolicyType
        except ImportError:
            return "contextual"
        return PolicyType.CONTEXTUAL

    def initialize(self) -> None:
        """Forget everything that was learned."""
        self.policy = deepcopy(self._untrained)
        self.n_trial = 0
        self.action_counts: Ints = np.zeros(self.n_actions, dtype=np.int64)
        self._batch: list[tuple[int, Floats, float, int]] = []

    def select_action(self, context: npt.ArrayLike) -> Ints:
        """Return the (len_list,) actions to show, best first, in a context of shape (1, dim_context)."""
        user, features = self._round(context)
        items = np.arange(self.n_actions)
        if self.len_list == 1:
            return np.array([self.policy.recommend(user, features, items=items)])
        return self.policy.rank(user, features, self.len_list, items=items)

    def update_params(self, action: int, reward: Any, context: npt.ArrayLike) -> None:
        """Learn the reward of an action in a context of shape (1, dim_context)."""
        if not is_integer(action) or not 0 <= action < self.n_actions:
            raise ValueError(f"action must be an integer from 0 to {self.n_actions - 1}, but it is {action!r}.")
        user, features = self._round(context)
        self.n_trial += 1
        self.action_counts[action] += 1
        # The reward samplers of `obp` return arrays of one number.
        self._batch.append((user, features[action], float(np.asarray(reward).reshape(())), int(action)))
        if self.n_trial % self.batch_size == 0:
            users, X, rewards, items = zip(*self._batch, strict=True)
            self.policy.update_many(users, np.array(X), rewards, items=items)
            self._batch.clear()

    def action_dist(self, context: npt.ArrayLike) -> Floats:
        """Return the (n_rounds, n_actions, 1) probability of each action in each context.

        `OffPolicyEvaluation` of `obp` calls it.
        """
        rows = [self._round(row) for row in as_floats(context, "context")[:, None, :]]
        items = np.arange(self.n_actions)
        return np.array([self.policy.propensities(user, features, items=items) for user, features in rows])[:, :, None]

    def _round(self, context: npt.ArrayLike) -> tuple[int, Floats]:
        """Return the user of a context, and the (n_actions, dim) features of the actions in it."""
        row = as_floats(context, "context")
        if row.ndim != 2 or len(row) != 1:
            raise ValueError(f"context must have the shape (1, dim_context), but its shape is {row.shape}.")
        user, rest = 0, row[0]
        if self.user_column is not None:
            check_between("user_column", self.user_column, 0, row.shape[1] - 1, "the last column of the context")
            user = int(_users(rest[[self.user_column]], None, None, 1)[0])
            rest = np.delete(rest, self.user_column)
        if callable(self.features):
            return user, as_floats(self.features(rest), "features")
        if self.features == "arms":
            return user, self.arms
        return user, np.einsum("ak,c->akc", self.arms, rest).reshape(self.n_actions, -1)
