"""Parts of an OpenAPI document in words: kinds and limits of fields, and an example for curl."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

METHODS = ("get", "post", "put", "delete")
LIMITS = (
    ("minimum", "maximum", ""),
    ("minLength", "maxLength", " characters"),
    ("minItems", "maxItems", " entries"),
    ("minProperties", "maxProperties", " entries"),
)
"""(least, most, of what) in a schema."""
EXAMPLES = {"user": "ann", "a": "ann", "b": "bob", "arm": "tea", "decision": "k3xq7a.17.0", "candidates": ["tea", "cola"]}
Schema = Mapping[str, Any]


def body_schema(holder: Schema) -> Schema:
    """Return the schema of a JSON body; empty without one."""
    found: Schema = holder.get("content", {}).get("application/json", {}).get("schema", {})
    return found


def resolved(document: Schema, schema: Schema) -> Schema:
    """Return a schema with a reference replaced by its target."""
    if "$ref" not in schema:
        return schema
    found: Schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return found


def choices(document: Schema, schema: Schema) -> list[Schema]:
    """Return the alternatives of a schema, without null."""
    found = schema.get("anyOf") or schema.get("oneOf") or [schema]
    return [resolved(document, entry) for entry in found if entry.get("type") != "null"]


def bodies(document: Schema, schema: Schema) -> Iterator[tuple[str, list[tuple[str, Schema, bool, str]]]]:
    """Yield (title, rows) of each form that a body may have."""
    found = [entry for entry in choices(document, resolved(document, schema)) if "properties" in entry]
    for number, entry in enumerate(found):
        required = entry.get("required", [])
        rows = [(name, field, name in required, field.get("description", "")) for name, field in entry["properties"].items()]
        yield ("Body" if number == 0 else "Or, as body"), rows


def kind(document: Schema, schema: Schema) -> str:
    """Describe the type of a field, with its limits.

    >>> kind({}, {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 3})
    'list of string, 1 to 3 entries'
    """
    names = []
    for entry in choices(document, schema):
        name = str(entry.get("type", "any"))
        if "properties" in entry:
            name = f"{{{', '.join(entry['properties'])}}}"
        elif entry.get("type") == "array":
            name = f"list of {kind(document, entry.get('items', {})).partition(', ')[0]}"
            if "{" in name:
                name = f"list of {kind(document, entry['items'])}"
        elif values := entry.get("additionalProperties") or next(iter(entry.get("patternProperties", {}).values()), None):
            name = f"object of {kind(document, values).partition(', ')[0]}"
        if "enum" in entry:
            name = " or ".join(map(str, entry["enum"]))
        names.append(", ".join([name, *filter(None, (limit(entry, *found) for found in LIMITS))]))
    default = schema.get("default")
    return " or ".join(names) + ("" if default is None or default == {} else f"; {default} if not given")


def limit(schema: Schema, least: str, most: str, what: str) -> str:
    """Describe the bounds of a value; empty without bounds.

    >>> limit({"minimum": 1, "maximum": 100}, "minimum", "maximum", "")
    '1 to 100'
    """
    low, high = schema.get(least), schema.get(most)
    if low is None:
        return "" if high is None else f"up to {high:g}{what}"
    return f"{low:g} or more{what}" if high is None else f"{low:g} to {high:g}{what}"


def example(document: Schema, schema: Schema, name: str = "") -> Any:
    """Return a value that fits a schema; an object has only its required fields and those with an example."""
    if name in EXAMPLES:
        return EXAMPLES[name]
    if schema.get("examples"):
        return schema["examples"][0]
    entry = choices(document, schema)[0]
    if "properties" in entry:
        needed = [field for field in entry["properties"] if field in entry.get("required", []) or field == "candidates"]
        return {field: example(document, entry["properties"][field], field) for field in needed}
    match entry.get("type"):
        case "array":
            return [example(document, entry["items"])]
        case "object":
            return {}
        case "number":
            return 1.0
        case "integer":
            return 1
    return "text"


def curl(document: Schema, path: str, method: str, found: Schema, body: Schema) -> str:
    """Return a curl command for an endpoint."""
    for entry in found.get("parameters", []):
        path = path.replace(f"{{{entry['name']}}}", str(EXAMPLES.get(entry["name"], "name")))
    words = ["curl -s" if method in ("get", "post") else f"curl -s -X {method.upper()}", f"localhost:8000{path}"]
    if path.endswith(".parquet"):
        words.append("-O")
    if not body:
        return " ".join(words)
    content = json.dumps(example(document, body)).replace("'", "'\\''")
    return " ".join([*words, "\\\n  -H 'content-type: application/json'", f"\\\n  -d '{content}'"])
