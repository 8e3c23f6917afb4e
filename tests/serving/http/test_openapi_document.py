"""The OpenAPI document in the repository is that of the application, and clients can be generated from it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from graphbandit.serving.http.app import create_app
from graphbandit.serving.operations.async_service import AsyncService

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "tools"))
import write_openapi  # noqa: E402

FILE = ROOT / "docs" / "reference" / "openapi.json"


def no_runtime() -> AsyncService:
    raise AssertionError


def test_the_file_is_what_the_application_says() -> None:
    """If this fails: `make openapi`, and look at the difference as a user of a generated client would."""
    assert json.loads(FILE.read_text(encoding="utf-8")) == create_app(no_runtime).openapi()


def test_the_file_is_the_same_in_every_process() -> None:
    program = "import sys; sys.path.insert(0, 'tools'); from write_openapi import document; sys.stdout.write(document())"
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"  # sets have another order there than here
    environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONIOENCODING": "utf-8", "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True)
    assert done.stdout.decode() == write_openapi.document() == FILE.read_text(encoding="utf-8"), done.stderr.decode()


def test_operations_have_names_of_their_own_and_know_the_token() -> None:
    document = json.loads(FILE.read_text(encoding="utf-8"))
    names = [found["operationId"] for methods in document["paths"].values() for found in methods.values()]
    assert len(set(names)) == len(names) > 20 and all(name.isidentifier() for name in names)
    assert {"recommend", "reward", "put_user", "ready"} <= set(names)
    assert document["components"]["securitySchemes"]["token"]["scheme"] == "bearer" and {} in document["security"]
