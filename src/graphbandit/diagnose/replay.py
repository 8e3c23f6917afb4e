"""A log through a policy."""

from __future__ import annotations

from ..policies import Policy
from .logs import Log


def replay(policy: Policy, log: Log) -> None:
    """Let a policy learn a whole log; equals, bit for bit, calling `policy.update` row by row."""
    if policy.dim != log.dim:
        raise ValueError(f"policy is for {policy.dim} features, but log has {log.dim}.")
    policy.update_many(log.rows_of(policy.graph), log.features, log.reward)
