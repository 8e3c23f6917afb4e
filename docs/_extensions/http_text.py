"""An OpenAPI document as Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from command_text import cell
from openapi_text import METHODS, bodies, body_schema, curl, kind

Schema = Mapping[str, Any]


def http_text(document: Schema) -> str:
    """Return every endpoint, with its fields, an example for curl, and its statuses.

    >>> http_text({"info": {"title": "tiny", "version": "1"}, "paths": {}})
    ''
    """
    operations = [
        (path, method, found[method]) for path, found in document["paths"].items() for method in METHODS if method in found
    ]
    said = Counter(status for *_, found in operations for status in statuses(found))
    common = [status for status, times in said.items() if times > len(operations) / 2]
    parts = ["Most endpoints may also answer:\n\n" + "\n".join(f"- {status}" for status in sorted(common))] if common else []
    for operation in operations:
        parts += operation_text(document, *operation)
        others = [status for status in statuses(operation[-1]) if status not in common]
        parts += ["Other statuses:\n\n" + "\n".join(f"- {status}" for status in others)] if others else []
    return "\n\n".join(parts)


def statuses(operation: Schema) -> list[str]:
    """List the error responses of an endpoint."""
    answers = operation.get("responses", {})
    return [f"**{status}** {cell(entry['description'])}" for status, entry in answers.items() if status != "200"]


def operation_text(document: Schema, path: str, method: str, found: Schema) -> Iterator[str]:
    """Yield the parts of the section of one endpoint."""
    yield f"## {method.upper()} {path}"
    yield "\n\n".join(cell(block) for block in found.get("description", "").split("\n\n"))
    parameters = [
        (entry["name"], entry["schema"], entry.get("required", False), entry.get("description", ""))
        for entry in found.get("parameters", [])
    ]
    if parameters:
        yield table(document, "In the address", parameters)
    body = body_schema(found.get("requestBody", {}))
    if body:
        yield from (table(document, title, rows) for title, rows in bodies(document, body))
    yield f"```sh\n{curl(document, path, method, found, body)}\n```"
    answer = body_schema(found.get("responses", {}).get("200", {}))
    if answer.get("$ref") or answer.get("properties"):
        yield from (table(document, "Answer", rows) for _, rows in bodies(document, answer))


def table(document: Schema, title: str, rows: list[tuple[str, Schema, bool, str]]) -> str:
    """Return a table of fields with their kinds and limits."""
    lines = [
        f"| `{name}`{'' if required else ', optional'} | {cell(kind(document, schema))} | {cell(text)} |"
        for name, schema, required, text in rows
    ]
    return "\n".join([f"| {title} | kind | |", "|---|---|---|", *lines])
