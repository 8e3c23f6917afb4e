"""Bodies of requests and answers. The limits here are part of the OpenAPI document."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, StringConstraints, Tag

from ...validate import LARGEST_FEATURE, LARGEST_REWARD
from ..domain.limits import ENCODED_SLASH, LARGEST_WEIGHT, LONGEST_ID, SMALLEST_WEIGHT

MOST_CANDIDATES = 1000
MOST_EXCLUDED = 1000
MOST_REQUESTS = 1000
MOST_REWARDS = 1000
MOST_PLACES = 100
MOST_FEATURES = 1000
MOST_ATTRIBUTES = 50
LONGEST_CELL = 1000
PRINTABLE = "^[^\\u0000-\\u001f\\u007f\\ue000]*$"
"""Neither control characters nor ENCODED_SLASH."""

Name = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_ID)]
"""Id of something that exists; any other string is an unknown name, so that its characters need no
check."""
Id = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_ID, pattern=PRINTABLE)]
PathId = Annotated[Id, BeforeValidator(lambda value: value.replace(ENCODED_SLASH, "/") if isinstance(value, str) else value)]
Value = Annotated[float, Field(ge=-LARGEST_REWARD, le=LARGEST_REWARD, allow_inf_nan=False)]
Feature = Annotated[float, Field(ge=-LARGEST_FEATURE, le=LARGEST_FEATURE, allow_inf_nan=False)]
Weight = Annotated[float, Field(ge=SMALLEST_WEIGHT, le=LARGEST_WEIGHT, allow_inf_nan=False)]
Text = Annotated[str, StringConstraints(max_length=LONGEST_ID, pattern=PRINTABLE)]


Finite = Annotated[float, Field(allow_inf_nan=False)]
Plain = Annotated[str, StringConstraints(max_length=LONGEST_CELL)] | Finite | bool | None
Cell = Plain | Annotated[list[Plain], Field(max_length=MOST_FEATURES)]
Columns = Annotated[dict[Text, Cell], Field(max_length=MOST_ATTRIBUTES)]
"""Values of columns, as a row of a table has them."""


class Schema(BaseModel):
    """Strict: no conversion of types, and a misspelt field is an error."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class RecommendationRequest(Schema):
    """A user, the arms to choose from, and how many to show."""

    user: Id
    candidates: Annotated[list[Name], Field(min_length=1, max_length=MOST_CANDIDATES)] | None = Field(
        None, description="Arms to choose from; all if not given."
    )
    where: Annotated[dict[Text, Annotated[list[Text], Field(max_length=100)]], Field(max_length=MOST_ATTRIBUTES)] | None = (
        Field(None, description="Only arms whose attribute has one of these values.", examples=[{"topic": ["news"]}])
    )
    exclude: Annotated[list[Name], Field(max_length=MOST_EXCLUDED)] | None = Field(
        None, description="Arms that must not be shown, for example those that the user has seen."
    )
    context: Columns | None = Field(
        None, description="What the request says beyond its user, if the service began from a model.", examples=[{"hour": 20}]
    )
    attributes: Columns | None = Field(None, description="What is known of a user that nobody knows; as above.")
    k: int = Field(1, ge=1, le=MOST_PLACES, description="How many arms, best first; fewer if there are not so many.")


class SingleRequest(RecommendationRequest):
    """One request, which can be repeated safely if it has a key."""

    idempotency_key: Id | None = Field(None, description="A retry with the same key gets the decision of the first attempt.")


class BatchRequest(Schema):
    """Many requests that are decided together: one event of the log."""

    requests: Annotated[list[RecommendationRequest], Field(min_length=1, max_length=MOST_REQUESTS)]
    idempotency_key: Id | None = None


class ScoredArm(Schema):
    """An arm and what the policy thinks of it."""

    arm: str
    mean: float = Field(description="Expected reward.")
    bonus: float = Field(description="What exploration adds to it.")


class DecisionAnswer(Schema):
    """A decision. It is in the log."""

    decision: str = Field(description="Id, to be sent with the reward.")
    user: str
    arms: list[ScoredArm] = Field(description="Best first.")
    propensity: float = Field(description="Probability that the first arm came first.")


class BatchAnswer(Schema):
    """Decisions in the order of the requests."""

    decisions: list[DecisionAnswer]


class RewardRequest(Schema):
    """What a decision earned."""

    decision: Annotated[str, StringConstraints(min_length=1, max_length=50, pattern=PRINTABLE)]
    value: Value
    arm: Id | None = Field(None, description="Which of the arms shown; the first if not given.")


class RewardBatch(Schema):
    """Many rewards: all of them are accepted, or none."""

    rewards: Annotated[list[RewardRequest], Field(min_length=1, max_length=MOST_REWARDS)]


def _one_or_many(body: object) -> str:
    return "many" if isinstance(body, dict) and "rewards" in body else "one"


Rewards = Annotated[Annotated[RewardRequest, Tag("one")] | Annotated[RewardBatch, Tag("many")], Discriminator(_one_or_many)]
TAGS = ("one", "many")
"""Parts of the location of an error that are not fields."""


class RewardAnswer(Schema):
    """How many rewards are new. All of them are on disk."""

    accepted: int
    duplicates: int = Field(description="Rewards that the log had already: an arm of a decision has one reward, the first.")


class UserBody(Schema):
    """A user's neighbours."""

    edges: Annotated[dict[Id, Weight], Field(max_length=1000)] = Field(default_factory=dict, description="Neighbour: weight.")


class EdgeBody(Schema):
    """The weight of an edge: how alike two users are."""

    weight: Weight = 1.0


class ArmBody(Schema):
    """Features and attributes of an arm; or its columns, if the service began from a model."""

    features: Annotated[list[Feature], Field(min_length=1, max_length=MOST_FEATURES)] | None = None
    attributes: Annotated[dict[Text, Text], Field(max_length=MOST_ATTRIBUTES)] = Field(default_factory=dict)
    columns: Columns | None = Field(None, description="A row of the table of items, without the item itself.")


class Problem(Schema):
    """One thing that is wrong."""

    loc: list[str | int] = Field(description="Where; the name of the field comes last.")
    msg: str
    type: str


class Problems(Schema):
    """Why a request was refused."""

    detail: list[Problem]


class ChangeAnswer(Schema):
    """A change that is on disk and in force."""

    event: int = Field(description="Its number in the log.")


class RetractionAnswer(Schema):
    """A retraction that is on disk."""

    event: int = Field(description="Its number in the log.")
    in_force: bool = Field(description="Whether the state is already that of a log without the reward; it is replayed.")
