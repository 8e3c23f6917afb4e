"""Bodies of requests and responses, except those of recommendations and rewards (`decision_routes`).

The limits are part of the OpenAPI document.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from ...validate import LARGEST_FEATURE
from ..domain.events import ENCODED_SLASH, LARGEST_WEIGHT, LONGEST_ID, SMALLEST_WEIGHT

MOST_FEATURES = 1000
MOST_ATTRIBUTES = 50
LONGEST_CELL = 1000
PRINTABLE = "^[^\\u0000-\\u001f\\u007f\\ue000]*$"
"""Neither control characters nor ENCODED_SLASH."""

Id = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_ID, pattern=PRINTABLE)]
PathId = Annotated[Id, BeforeValidator(lambda value: value.replace(ENCODED_SLASH, "/") if isinstance(value, str) else value)]
Feature = Annotated[float, Field(ge=-LARGEST_FEATURE, le=LARGEST_FEATURE, allow_inf_nan=False)]
Weight = Annotated[float, Field(ge=SMALLEST_WEIGHT, le=LARGEST_WEIGHT, allow_inf_nan=False)]
Text = Annotated[str, StringConstraints(max_length=LONGEST_ID, pattern=PRINTABLE)]


Finite = Annotated[float, Field(allow_inf_nan=False)]
Plain = Annotated[str, StringConstraints(max_length=LONGEST_CELL)] | Finite | bool | None
Cell = Plain | Annotated[list[Plain], Field(max_length=MOST_FEATURES)]
Columns = Annotated[dict[Text, Cell], Field(max_length=MOST_ATTRIBUTES)]
"""Values of columns, as a row of a table has them."""


class Schema(BaseModel):
    """Base of all bodies: types are not converted, and an unknown field is an error."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class UserBody(Schema):
    """A user's neighbours."""

    edges: Annotated[dict[Id, Weight], Field(max_length=1000)] = Field(default_factory=dict, description="Neighbour: weight.")


class EdgeBody(Schema):
    """The weight of an edge: how alike two users are."""

    weight: Weight = 1.0


class ArmBody(Schema):
    """Features and attributes of an arm, or its columns if the service began with a saved model."""

    features: Annotated[list[Feature], Field(min_length=1, max_length=MOST_FEATURES)] | None = None
    attributes: Annotated[dict[Text, Text], Field(max_length=MOST_ATTRIBUTES)] = Field(default_factory=dict)
    columns: Columns | None = Field(None, description="A row of the table of items, without the item itself.")


class Problem(Schema):
    """One problem of a request."""

    loc: list[str | int] = Field(description="Where; the name of the field comes last.")
    msg: str
    type: str


class Problems(Schema):
    """The problems of a refused request."""

    detail: list[Problem]


class ChangeAnswer(Schema):
    """A change that is on disk and in force."""

    event: int = Field(description="Its number in the log.")


class RetractionAnswer(Schema):
    """A retraction that is on disk."""

    event: int = Field(description="Its number in the log.")
    in_force: bool = Field(description="Whether the state is already that of a log without the reward; it is replayed.")


ERRORS: dict[int | str, dict[str, Any]] = {
    401: {"model": Problems, "description": "No token, or a wrong one."},
    403: {"model": Problems, "description": "The token may only read."},
    404: {"model": Problems, "description": "A user, arm, edge or decision that does not exist."},
    409: {"model": Problems, "description": "The request does not fit what has happened meanwhile, or an earlier one."},
    413: {"model": Problems, "description": "The body is too large."},
    415: {"model": Problems, "description": "The body is not JSON."},
    422: {"model": Problems, "description": "Something is wrong with a field, which is named."},
    429: {"model": Problems, "description": "Too many requests."},
    503: {"model": Problems, "description": "The store cannot be used now, or the service is starting; try again."},
}
