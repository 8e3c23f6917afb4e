"""Fuzzing: schemathesis makes requests from the OpenAPI document, and no response may be a server error.

python benchmarks/fuzz.py                  # some thousand requests
python benchmarks/fuzz.py --examples 50
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from serving_zoo import Running, running, small_initial_state

KNOWN = {"user": "ann", "a": "ann", "b": "bob", "arm": "tea", "decision": "1.0"}


def fuzz(server: Running, examples: int) -> Counter[int]:
    """Send `examples` requests to every endpoint; return the number of responses by status.

    Raise on a server error.
    """
    server.http.post("/v1/recommendations", json={"user": "ann"}).raise_for_status()
    schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    statuses: Counter[int] = Counter()
    quiet: dict[str, Any] = dict(deadline=None, database=None, suppress_health_check=list(HealthCheck))
    limits = settings(max_examples=examples, derandomize=True, **quiet)
    for found in schema.get_all_operations():
        operation: Any = found.ok()  # type: ignore[union-attr]
        right, wrong = (operation.as_strategy(generation_mode=mode) for mode in GenerationMode)

        @limits
        @given(right | wrong, st.booleans())
        def send(case: Any, familiar: bool) -> None:
            if familiar:  # names that exist lead further than to 404
                for part in (case.path_parameters, case.body):
                    if isinstance(part, dict):
                        part |= {name: value for name, value in KNOWN.items() if name in part}
            response = case.call(headers=server.headers)
            statuses[response.status_code] += 1
            case.validate_response(response, checks=[not_a_server_error])

        send()
    return statuses


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=300, help="requests to each endpoint")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    with (
        warnings.catch_warnings(),
        tempfile.TemporaryDirectory() as name,
        running(Path(name), small_initial_state()) as server,
    ):
        warnings.simplefilter("ignore")
        statuses = fuzz(server, options.examples)
    print(f"{sum(statuses.values()):,} requests, no server error; answers by status: {dict(sorted(statuses.items()))}")


if __name__ == "__main__":
    from measurements import recorded  # type: ignore[import-not-found]

    recorded(main)
