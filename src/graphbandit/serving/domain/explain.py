"""Explanations of recommendations: a user's own data, the neighbours' contribution, and the uncertainty."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nlargest, nsmallest
from typing import Any

import numpy as np

from ...compute.arrays import Floats
from ...policies import AdaptiveGraphUCB, Policy, Stochastic
from ...policies.adaptive.evidence import BOTH, EVERYONE
from ...policies.adaptive.graph_report import model_weights
from .events import Event, EventKind, decision_id, parse_decisions, parse_retraction, parse_reward
from .service_state import ServiceState

MOST_NEIGHBOURS = 50
MOST_ARMS = 10
MOST_UNCERTAIN = 5


def explanation(state: ServiceState, user: str) -> dict[str, Any]:
    """Return a user's own data, the neighbours' share of the estimate, and what is uncertain."""
    row = state.row(user)
    policy = learning_policy(state.policy)
    table: dict[str, Any] = {"user": user, "own": {"rewards": learned_rewards(policy, row)}}
    table["arms"], uncertain = arm_tables(state, row)
    table["neighbours"] = neighbours(state, row)
    if isinstance(policy, AdaptiveGraphUCB):
        theta, covariance = policy.moments(row)
        table["estimate"] = theta.tolist()
        table["shares"] = shares(policy, row, theta)
        spread = np.sqrt(np.maximum(np.diag(covariance), 0.0))
        table["uncertain"] = {
            "overall": float(np.sqrt(np.mean(spread**2))),
            "features": [{"feature": int(k), "sd": float(spread[k])} for k in np.argsort(-spread, kind="stable")[:5]],
            "arms": uncertain,
        }
    else:
        table["uncertain"] = {"arms": uncertain}
    return table


def learning_policy(policy: Policy) -> Policy:
    """Return the policy that learns, without the wrapper that randomises its decisions."""
    return policy.policy if isinstance(policy, Stochastic) else policy


def learned_rewards(policy: Policy, row: int) -> int | None:
    """Return the number of a user's rewards that were learned; None if the policy has no counts per user."""
    try:
        visits = policy.observations.visits
    except AttributeError:  # it keeps no observations
        return None
    return int(visits[row]) if len(visits) >= policy.n_users else None


def arm_tables(state: ServiceState, row: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the best arms of a user, best first, and the arms with the largest bonus."""
    arms = [{"arm": arm, "mean": mean, "bonus": bonus} for arm, mean, bonus in state.ranked(row)]
    return arms[:MOST_ARMS], nlargest(MOST_UNCERTAIN, arms, key=lambda arm: arm["bonus"])


def shares(policy: AdaptiveGraphUCB, row: int, theta: Floats) -> dict[str, float]:
    """Return the shares of the estimate that come from the user's own data, its neighbours and all users.

    Every model's mean is V⁻¹(b + τ g): V⁻¹b comes from the user's own data, τV⁻¹g from the prior mean g, which is
    that of the neighbours or of all users. The shares are the lengths of the three parts, scaled to add up to 1; all
    are 0 before the first reward.
    """
    state = policy.state
    weight = model_weights(state)
    own, everyone = np.zeros(policy.dim), np.zeros(policy.dim)
    # V = A + τI from the eigenvalues of A: with large features rounding would make it singular, whatever τ is.
    values, vectors = np.linalg.eigh(state.seen.gram[row])
    for k, tau in enumerate(state.strength):
        inverse = vectors / (np.maximum(values, 0.0) + tau) @ vectors.T
        own += weight[:, k].sum() * inverse @ state.seen.bias[row]
        for kind, model in ((EVERYONE, k), (BOTH, k + len(state.strength))):
            everyone += weight[kind, k] * tau * inverse @ state.common.mean[model]
    lengths = [float(np.linalg.norm(part)) for part in (own, theta - own - everyone, everyone)]
    total = sum(lengths) or 1.0
    return {name: length / total for name, length in zip(("own", "neighbours", "everyone"), lengths, strict=True)}


def uncertainty(policy: Policy, row: int) -> float | None:
    """Return the root mean square of the standard deviations of a user's estimate."""
    policy = learning_policy(policy)
    if not isinstance(policy, AdaptiveGraphUCB):
        return None
    covariance = policy.moments(row)[1]
    return float(np.sqrt(max(0.0, np.trace(covariance) / policy.dim)))


def neighbours(state: ServiceState, row: int) -> list[dict[str, Any]]:
    """Return the user's neighbours, largest weight first."""
    policy = learning_policy(state.policy)
    near = state.edges(row)
    total = sum(weight for _, weight in near) or 1.0
    return [
        {
            "user": state.names[other],
            "weight": weight,
            "share": weight / total,
            "rewards": learned_rewards(policy, other),
            "uncertainty": uncertainty(policy, other),
        }
        for other, weight in nsmallest(MOST_NEIGHBOURS, near, key=lambda edge: (-edge[1], edge[0]))
    ]


def neighbourhood(state: ServiceState, user: str) -> dict[str, Any]:
    """Return a user, its neighbours, and the edges among them, as nodes and edges of a drawing."""
    row = state.row(user)
    near = neighbours(state, row)
    policy = learning_policy(state.policy)
    own: dict[str, Any] = dict(user=user, rewards=learned_rewards(policy, row), uncertainty=uncertainty(policy, row))
    nodes = [own, *({name: node[name] for name in own} for node in near)]
    rows = {state.row(node["user"]): node["user"] for node in nodes}
    # Pairs of those drawn are few; one of them may have a hundred thousand neighbours.
    pairs = [(one, other) for one in rows for other in sorted(rows) if one < other]
    edges = [
        {"a": rows[one], "b": rows[other], "weight": weight} for one, other in pairs if (weight := state.weight(one, other)) > 0
    ]
    return {"user": user, "nodes": nodes, "edges": edges}


def summary(state: ServiceState) -> dict[str, Any]:
    """Return the size of the state, and the evidence for and against the graph."""
    policy = learning_policy(state.policy)
    table: dict[str, Any] = {
        "policy": type(policy).__name__,
        "users": len(state.rows),
        "arms": len(state.arms),
        "edges": state.policy.graph.n_edges,
        "events": state.seq,
        "total_decisions": state.decisions,
        "total_rewards": state.rewards,
        "example": next(iter(state.rows), None),  # an id to look at, for someone who knows none
        "shadow": state.policy_texts[1],
        "evidence": None,
    }
    if isinstance(policy, AdaptiveGraphUCB):
        report = policy.report().as_table()
        misled = [entry | {"user": state.names[entry["user"]]} for entry in report["misled"][:20]]
        table["evidence"] = report | {"misled": misled}
    return table


def history(state: ServiceState, events: Sequence[Event]) -> list[dict[str, Any]]:
    """Return decisions and rewards with the names of arms, in the order of the events."""
    return [entry for event in events for entry in _entries(state, event)]


def _entries(state: ServiceState, event: Event) -> list[dict[str, Any]]:
    at = event.at / 1e6
    if event.kind == EventKind.REWARDED:
        reward = parse_reward(event.body)
        name = decision_id(reward.epoch, reward.decision, reward.item)
        return [{"kind": "reward", "time": at, "decision": name, "arm": state.versions[reward.version], "value": reward.value}]
    if event.kind == EventKind.RETRACTED:
        taken = parse_retraction(event.body)
        name = decision_id(taken.epoch, taken.decision, taken.item)
        return [{"kind": "retraction", "time": at, "decision": name, "place": taken.place}]
    return [
        {
            "kind": "decision",
            "time": at,
            "decision": decision_id(event.epoch, event.seq, index),
            "arms": [state.versions[version] for version in decision.arms],
            "mean": decision.mean,
            "bonus": decision.bonus,
            "propensity": decision.propensity,
            **({} if decision.context is None else {"context": decision.context}),
        }
        for index, decision in enumerate(parse_decisions(event.body))
    ]
