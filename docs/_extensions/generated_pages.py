"""Parts of pages that are generated when the site is built: policies, commands, HTTP API.

A page marks the place with a comment, `% generated: commands`, which is replaced before the page is parsed.

A page says where with a comment, `% generated: commands`, which is replaced before it is parsed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from command_text import commands_text
from http_text import http_text
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.typing import ExtensionMetadata

DOCS = Path(__file__).parents[1]
PLACE = re.compile(r"^% generated: (\w+)$", flags=re.M)


def commands() -> str:
    """Return every command with its options."""
    from typer.main import get_command

    from graphbandit.cli import app

    return commands_text(get_command(app))


def policies() -> str:
    """Return every policy that has a name, in a section of its own."""
    from graphbandit import POLICIES, Policy

    def section(kind: type[Policy]) -> str:
        # What it overrides is described once, with `Policy`.
        own = [
            member for member in vars(kind) if not member.startswith("_") and not hasattr(Policy, member) and member != "State"
        ]
        members = f"\n   :members: {', '.join(own)}" if own else ""
        return f"## {kind.__name__}\n\n```{{eval-rst}}\n.. autoclass:: graphbandit.{kind.__name__}{members}\n```"

    return "\n\n".join(map(section, POLICIES.values()))


def openapi() -> Mapping[str, Any]:
    """Return the OpenAPI document: the file in the repository, or the service's own."""
    kept = DOCS / "reference" / "openapi.json"
    if kept.exists():
        found: Mapping[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
        return found
    from graphbandit.serving.http.app import create_app

    def no_runtime() -> Any:
        raise AssertionError("The application is described, not started.")

    return create_app(no_runtime).openapi()


PARTS: dict[str, Callable[[], str]] = {"commands": commands, "policies": policies, "http": lambda: http_text(openapi())}


def fill(app: Sphinx, page: str, source: list[str]) -> None:
    """Insert the generated parts into the text of a page."""
    source[0] = PLACE.sub(lambda found: PARTS[found.group(1)](), source[0])


def always_outdated(app: Sphinx, env: BuildEnvironment, *changes: set[str]) -> list[str]:
    """List the pages with generated parts, which Sphinx would not read again when only the program changed."""
    return [page for page in env.found_docs if PLACE.search(Path(env.doc2path(page)).read_text(encoding="utf-8"))]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the generators."""
    app.connect("source-read", fill)
    app.connect("env-get-outdated", always_outdated)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
