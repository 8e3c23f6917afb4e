"""The page at `/docs`: every endpoint with its fields and an example for curl, made from the OpenAPI
document.

It is plain HTML without any script, from this package alone, and holds no data: it can be read
without a token.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import RedirectResponse

from .dashboard import HEADERS

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


def add_reference(app: FastAPI) -> None:
    """Add the page, which is made when it is first asked for."""

    async def reference(request: Request) -> Response:
        if not hasattr(app.state, "reference"):
            app.state.reference = render(app.openapi())
        return Response(app.state.reference, headers=HEADERS, media_type="text/html")

    async def elsewhere(request: Request) -> Response:
        return RedirectResponse("/docs")

    app.add_route("/docs", reference, methods=["GET"], include_in_schema=False)
    app.add_route("/redoc", elsewhere, methods=["GET"], include_in_schema=False)


def render(document: Schema) -> str:
    """The page of an OpenAPI document.

    Examples
    --------
    >>> "<h1>tiny" in render({"info": {"title": "tiny", "version": "1"}, "paths": {}})
    True
    """
    info = document["info"]
    operations = [
        (path, method, found[method]) for path, found in document["paths"].items() for method in METHODS if method in found
    ]
    title = f"{escape(info['title'])} {escape(info['version'])}"
    contents = "".join(
        f'<li><a href="#{anchor(path, method)}">{method_name(method)} <code>{breakable(path)}</code></a></li>'
        for path, method, _ in operations
    )
    sections = "".join(operation(document, *found) for found in operations)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="description" content="Every endpoint of this service, with its fields and an example.">
<title>{title}: the API</title>
<link rel="icon" href="/assets/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/assets/reference.css">
</head>
<body>
<a class="skip" href="#main">Skip to the content</a>
<header>
<h1>{title}</h1>
<p>{escape(info.get("summary", ""))} The same as a document for programs:
<a href="/openapi.json">/openapi.json</a>. What the service is doing: <a href="/">the page</a>.</p>
<p>Send a token, if the service asks for one, as <code>-H "Authorization: Bearer $TOKEN"</code>.</p>
</header>
<nav aria-label="Endpoints"><ul>{contents}</ul></nav>
<main id="main">{sections}</main>
</body>
</html>
"""


def anchor(path: str, method: str) -> str:
    """The name of an endpoint in links.

    >>> anchor("/v1/users/{user}", "put")
    'put-v1-users-user'
    """
    return escape("-".join([method, *(part.strip("{}") for part in path.split("/") if part)]))


def method_name(method: str) -> str:
    """A method, with its colour."""
    return f'<span class="method {method}">{method.upper()}</span>'


def breakable(path: str) -> str:
    """A path that a narrow window may break after its slashes."""
    return escape(path).replace("/", "/<wbr>")


def operation(document: Schema, path: str, method: str, found: Schema) -> str:
    """The section of one endpoint."""
    name = anchor(path, method)
    parts = [f'<section aria-labelledby="{name}"><h2 id="{name}">{method_name(method)} <code>{breakable(path)}</code></h2>']
    parts.append(f"<p>{escape(found.get('description', ''))}</p>")
    rows = [
        (entry["name"], entry["schema"], entry.get("required", False), entry.get("description", ""))
        for entry in found.get("parameters", [])
    ]
    if rows:
        parts.append(table(document, "In the address", rows))
    body = body_schema(found.get("requestBody", {}))
    if body:
        parts += [table(document, title, rows) for title, rows in bodies(document, body)]
    parts.append(f"<h3>Example</h3><pre><code>{escape(curl(document, path, method, found, body))}</code></pre>")
    answers = found.get("responses", {})
    answer = body_schema(answers.get("200", {}))
    if answer.get("$ref") or answer.get("properties"):
        parts += [table(document, "Answer", rows) for _, rows in bodies(document, answer)]
    listed = "".join(
        f"<li><b>{escape(status)}</b> {escape(entry['description'])}</li>"
        for status, entry in answers.items()
        if status != "200"
    )
    if listed:
        parts.append(f"<details><summary>Other statuses</summary><ul>{listed}</ul></details>")
    return "".join([*parts, "</section>"])


def body_schema(holder: Schema) -> Schema:
    """The schema of a JSON body; empty without one."""
    found: Schema = holder.get("content", {}).get("application/json", {}).get("schema", {})
    return found


def resolved(document: Schema, schema: Schema) -> Schema:
    """A schema in place of a reference to it."""
    if "$ref" not in schema:
        return schema
    found: Schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return found


def choices(document: Schema, schema: Schema) -> list[Schema]:
    """What a schema may be, without null."""
    found = schema.get("anyOf") or schema.get("oneOf") or [schema]
    return [resolved(document, entry) for entry in found if entry.get("type") != "null"]


def bodies(document: Schema, schema: Schema) -> Iterator[tuple[str, list[tuple[str, Schema, bool, str]]]]:
    """(title, rows) of each form that a body may have."""
    found = [entry for entry in choices(document, resolved(document, schema)) if "properties" in entry]
    for number, entry in enumerate(found):
        required = entry.get("required", [])
        rows = [(name, field, name in required, field.get("description", "")) for name, field in entry["properties"].items()]
        yield ("Body" if number == 0 else "Or, as body"), rows


def table(document: Schema, title: str, rows: list[tuple[str, Schema, bool, str]]) -> str:
    """Fields with their kinds and limits."""
    lines = "".join(
        f'<tr><th scope="row"><code>{escape(name)}</code>{"" if required else "<small>optional</small>"}</th>'
        f"<td>{escape(kind(document, schema))}{' · ' + escape(text) if text else ''}</td></tr>"
        for name, schema, required, text in rows
    )
    return f"<h3>{title}</h3><table>{lines}</table>"


def kind(document: Schema, schema: Schema) -> str:
    """The kind of a field in words, with its limits.

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
    """The bounds of a value in words; empty without bounds.

    >>> limit({"minimum": 1, "maximum": 100}, "minimum", "maximum", "")
    '1 to 100'
    """
    low, high = schema.get(least), schema.get(most)
    if low is None:
        return "" if high is None else f"up to {high:g}{what}"
    return f"{low:g} or more{what}" if high is None else f"{low:g} to {high:g}{what}"


def example(document: Schema, schema: Schema, name: str = "") -> Any:
    """A value that fits a schema; of an object only what it needs, and what has an example."""
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
    """A command that uses an endpoint."""
    for entry in found.get("parameters", []):
        path = path.replace(f"{{{entry['name']}}}", str(EXAMPLES.get(entry["name"], "name")))
    words = ["curl -s" if method in ("get", "post") else f"curl -s -X {method.upper()}", f"localhost:8000{path}"]
    if path.endswith(".parquet"):
        words.append("-O")
    if not body:
        return " ".join(words)
    content = json.dumps(example(document, body)).replace("'", "'\\''")
    return " ".join([*words, "\\\n  -H 'content-type: application/json'", f"\\\n  -d '{content}'"])
