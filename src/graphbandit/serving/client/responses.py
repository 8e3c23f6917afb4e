"""Responses of the service as types: plain dicts whose fields an editor and a type checker know."""

from __future__ import annotations

from typing import TypedDict


class ServedArm(TypedDict):
    """An arm that is shown, with its scores."""

    arm: str
    mean: float  # the expected reward
    bonus: float  # what exploration adds to it


class ServedDecision(TypedDict):
    """A decision, which is in the log of the service."""

    decision: str  # the id, to be sent with the reward
    user: str
    arms: list[ServedArm]  # best first
    propensity: float  # the probability that the first arm came first


class AcceptedRewards(TypedDict):
    """Numbers of new rewards and of duplicates; all of them are on disk."""

    accepted: int
    duplicates: int  # the log had them already: an arm of a decision has one reward, the first


class RetractedReward(TypedDict):
    """A retraction that is on disk."""

    event: int  # its number in the log
    in_force: bool  # whether the state is already that of a log without the reward


class LoggedChange(TypedDict):
    """A change that is on disk and in force."""

    event: int  # its number in the log


class ServiceProblem(TypedDict):
    """One problem of a request."""

    loc: list[str | int]  # where; the name of the field comes last
    msg: str
    type: str
