"""Write the OpenAPI document of the service to docs/reference/openapi.json, for clients in other languages: `make openapi`."""

from __future__ import annotations

import json
from pathlib import Path

from graphbandit.serving.http.app import create_app
from graphbandit.serving.operations.async_service import AsyncService

FILE = Path(__file__).parents[1] / "docs" / "reference" / "openapi.json"


def document() -> str:
    """Return the text of the document.

    Keys are sorted, so that a new version of a library changes few lines.
    """

    def no_runtime() -> AsyncService:
        raise AssertionError("a description needs no service")

    return json.dumps(create_app(no_runtime).openapi(), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(document(), encoding="utf-8", newline="\n")
    print(f"{FILE.name} has been written.")
