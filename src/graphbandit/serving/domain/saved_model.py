"""`SavedModel`: the saved `Recommender` that a log begins with.

It turns the context of a request, the attributes of an unknown user and the columns of an arm into vectors, as the
Recommender does. It never changes: what is learned is in the state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...compute.arrays import Floats
from ...recommending.errors import InvalidRequest
from ...recommending.named_policy import Attributes, NamedPolicy
from ...recommending.requests import AnyRequest, ResolvedRequest
from ...recommending.similar_users import EDGES, NEIGHBOURS
from ...validate import LARGEST_FEATURE

if TYPE_CHECKING:
    from ...recommending.recommender import Recommender

ATTRIBUTES = "@attributes"
"""The entry of a logged context that holds the attributes of a user that nobody knew."""
NO_SAVED_MODEL = "this service began without a saved model; start a new store with --model"


class SavedModel:
    """A saved Recommender, as the content of its file and as an object."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        found = self._recommender()
        self.catalogue, self.alike = found.catalogue, found.alike

    def _recommender(self) -> Recommender:
        from ...recommending.recommender import Recommender
        from ...recommending.recommender_file import from_bytes

        return from_bytes(Recommender, self.content, "the model")

    def load(self) -> NamedPolicy:
        """Return users, arms and policy with all that it had learned: new objects at every call."""
        return self._recommender().named

    def without(self, name: str) -> SavedModel:
        """Return the model without a person, or the same object if the model does not contain them.

        The person's row becomes that of a deleted user without a name. What the estimates of others owe to the person
        stays learned.
        """
        from ...recommending import recommender_file

        found = self._recommender()
        if not found.erase(name):
            return self
        return SavedModel(recommender_file.to_bytes(found))

    def vectors(self, plain: Floats, contexts: Sequence[Mapping[str, Any] | None]) -> Floats:
        """Return (rows, dim) vectors with the context of each row in place of the average context."""
        found = plain.copy()
        for row, context in enumerate(contexts):
            context_values = {name: value for name, value in (context or {}).items() if name != ATTRIBUTES}
            if context_values:
                found[row] = self.with_context(plain[row : row + 1], self.context_vector(context_values))[0]
        return found

    def with_context_columns(self, plain: Floats, columns: Mapping[str, Sequence[Any]]) -> Floats:
        """Return (rows, dim) vectors with contexts that are given as columns."""
        import pyarrow as pa

        return self.with_context(plain, self.catalogue.features.context_rows(pa.table(dict(columns)), len(plain)))

    def with_context(self, plain: Floats, context: Floats) -> Floats:
        """Return (rows, dim) vectors with a context in them."""
        return self.catalogue.whole(plain, context)

    @property
    def context_columns(self) -> list[str]:
        """Columns of the context that a request may contain."""
        return [encoder.column for encoder in self.catalogue.features.context_encoders]

    def context_vector(self, context: Mapping[str, Any]) -> Floats:
        """Return (1, width) the vector of a context, or raise `InvalidRequest`."""
        if not self.context_columns:
            raise InvalidRequest(
                "context", "context must be left out, because the model was fitted to events without columns of context."
            )
        try:
            found = self.catalogue.features.context_rows(dict(context))
        except (ValueError, TypeError) as error:
            raise InvalidRequest("context", str(error)) from None
        if not (np.abs(found) <= LARGEST_FEATURE).all():
            raise InvalidRequest("context", f"context must give features of at most {LARGEST_FEATURE:g} in size.")
        return found

    def near(self, name: str, attributes: Mapping[str, Any] | None, rows: Mapping[str, int], k: int) -> dict[int, float]:
        """Return rows and weights of the users most similar to an unknown user, or raise `InvalidRequest`."""
        if self.alike is None:
            if attributes:
                raise InvalidRequest(
                    "attributes", "attributes must be left out, because the model was made without a table of users."
                )
            return {}
        if not attributes:
            return self.alike.near(name, rows, k)
        try:
            return self.alike.near_attributes(attributes, rows, k)
        except (ValueError, TypeError) as error:
            raise InvalidRequest("attributes", str(error)) from None

    def arm(self, name: str, columns: Mapping[str, Any]) -> tuple[Floats, Attributes]:
        """Return the vector and the attributes of an arm from its columns in the table of items, or raise `InvalidRequest`."""
        if self.catalogue.transformer is not None or "item" in columns:
            raise InvalidRequest("columns", "columns must be those of the table of items, without the item itself.")
        try:
            table, vectors = self.catalogue.vectors({"item": [name], **{key: [value] for key, value in columns.items()}}, None)
            return vectors[0], self.catalogue.attributes(table)[0]
        except (ValueError, TypeError) as error:
            raise InvalidRequest("columns", str(error)) from None


def resolve_context(
    named: NamedPolicy, model: SavedModel | None, request: AnyRequest, found: ResolvedRequest
) -> ResolvedRequest:
    """Add the context to a resolved request, and to an unknown user the users with similar attributes."""
    context, attributes = request.context, request.attributes if found.name is not None else None
    if model is None:
        if request.context:
            raise InvalidRequest("context", f"context must be left out: {NO_SAVED_MODEL}.")
        if request.attributes:
            raise InvalidRequest("attributes", f"attributes must be left out: {NO_SAVED_MODEL}.")
        return found
    context_values: dict[str, Any] = dict(context or {})
    if context_values:
        found = found._replace(
            features=model.with_context(named.features[found.versions], model.context_vector(context_values))
        )
    if attributes and found.name is not None:
        found = found._replace(near=model.near(found.name, attributes, named.rows, NEIGHBOURS))
        context_values[ATTRIBUTES] = dict(attributes)
    return found._replace(context=context_values or None)


def newcomer_edges(
    named: NamedPolicy, model: SavedModel | None, name: str, context: Mapping[str, Any] | None
) -> dict[str, float]:
    """Return the edges with which a newcomer joins at its first reward: to the most similar users, if attributes are known."""
    if model is None:
        return {}
    found = model.near(name, (context or {}).get(ATTRIBUTES), named.rows, EDGES)
    return {named.names[row]: weight for row, weight in found.items()}
