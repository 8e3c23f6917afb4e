"""What requests and answers look like. The limits here are part of the OpenAPI document."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, StringConstraints, Tag

from ...validate import LARGEST_FEATURE, LARGEST_REWARD

MOST_CANDIDATES = 1000
MOST_REQUESTS = 1000
MOST_REWARDS = 1000
MOST_PLACES = 100
MOST_FEATURES = 1000
MOST_ATTRIBUTES = 50
LONGEST_ID = 200
LARGEST_WEIGHT = 1e6
SMALLEST_WEIGHT = 1e-6

SLASH = "\ue000"
"""Stands for a slash inside an id while the path of a request is taken apart; not allowed in ids for that reason."""
PRINTABLE = "^[^\\u0000-\\u001f\\u007f\\ue000]*$"

Name = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_ID)]
"""Of something that must be there already, so that any other string is an unknown name."""
Id = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_ID, pattern=PRINTABLE)]
PathId = Annotated[Id, BeforeValidator(lambda value: value.replace(SLASH, "/") if isinstance(value, str) else value)]
Value = Annotated[float, Field(ge=-LARGEST_REWARD, le=LARGEST_REWARD, allow_inf_nan=False)]
Feature = Annotated[float, Field(ge=-LARGEST_FEATURE, le=LARGEST_FEATURE, allow_inf_nan=False)]
Weight = Annotated[float, Field(ge=SMALLEST_WEIGHT, le=LARGEST_WEIGHT, allow_inf_nan=False)]
Text = Annotated[str, StringConstraints(max_length=LONGEST_ID, pattern=PRINTABLE)]


class Model(BaseModel):
    """Types are taken literally, and a misspelt field is an error."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class RecommendationRequest(Model):
    """For whom, from what, how many."""

    user: Id
    candidates: Annotated[list[Name], Field(min_length=1, max_length=MOST_CANDIDATES)] | None = Field(
        None, description="Arms to choose from; all, if not given."
    )
    where: Annotated[dict[Text, Annotated[list[Text], Field(max_length=100)]], Field(max_length=MOST_ATTRIBUTES)] | None = (
        Field(None, description="Only arms whose attribute has one of these values.", examples=[{"topic": ["news"]}])
    )
    k: int = Field(1, ge=1, le=MOST_PLACES, description="How many arms, best first; fewer if there are not so many.")


class SingleRequest(RecommendationRequest):
    """One request, which can be growable_rows safely."""

    idempotency_key: Id | None = Field(None, description="A retry with the same key gets the decision of the first attempt.")


class BatchRequest(Model):
    """Many requests in one, decided together: one event of the log."""

    requests: Annotated[list[RecommendationRequest], Field(min_length=1, max_length=MOST_REQUESTS)]
    idempotency_key: Id | None = None


class ScoredArm(Model):
    """An arm and what the policy thinks of it."""

    arm: str
    mean: float = Field(description="Expected reward.")
    bonus: float = Field(description="What exploration adds to it.")


class DecisionAnswer(Model):
    """A decision, which is in the log by the time that it is answered."""

    decision: str = Field(description="To be given back with the reward.")
    user: str
    arms: list[ScoredArm] = Field(description="Best first.")
    propensity: float = Field(description="How probable it was that the first arm would be the first.")


class BatchAnswer(Model):
    """In the order of the requests."""

    decisions: list[DecisionAnswer]


class RewardRequest(Model):
    """What a decision earned."""

    decision: Annotated[str, StringConstraints(min_length=1, max_length=50, pattern=PRINTABLE)]
    value: Value
    arm: Id | None = Field(None, description="Which of the arms shown; the first, if not given.")


class RewardBatch(Model):
    """Many rewards: all of them are taken, or none."""

    rewards: Annotated[list[RewardRequest], Field(min_length=1, max_length=MOST_REWARDS)]


def _one_or_many(body: object) -> str:
    return "many" if isinstance(body, dict) and "rewards" in body else "one"


Rewards = Annotated[Annotated[RewardRequest, Tag("one")] | Annotated[RewardBatch, Tag("many")], Discriminator(_one_or_many)]
TAGS = ("one", "many")
"""Places in an error that are not fields."""


class RewardAnswer(Model):
    """All of them are on disk now."""

    accepted: int
    duplicates: int = Field(description="An arm of a decision has one reward: the first.")


class UserBody(Model):
    """A user's neighbours."""

    edges: Annotated[dict[Id, Weight], Field(max_length=1000)] = Field(default_factory=dict, description="Neighbour: weight.")


class EdgeBody(Model):
    """How alike two users are."""

    weight: Weight = 1.0


class ArmBody(Model):
    """What an arm is."""

    features: Annotated[list[Feature], Field(min_length=1, max_length=MOST_FEATURES)]
    attributes: Annotated[dict[Text, Text], Field(max_length=MOST_ATTRIBUTES)] = Field(default_factory=dict)


class Problem(Model):
    """One thing that is wrong."""

    loc: list[str | int] = Field(description="Where, the field's name last.")
    msg: str
    type: str


class Problems(Model):
    """Why a request was turned away."""

    detail: list[Problem]


class Done(Model):
    """A change that is on disk and in force."""

    event: int = Field(description="Its number in the log.")
