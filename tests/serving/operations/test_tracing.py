"""OpenTelemetry: spans of requests on both ways, and nothing at all when it is off."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from graphbandit.serving.operations.tracing import RequestTracer
from serving_zoo import Running, free_port, running, small_initial_state

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return an exporter that keeps spans in memory, for services with `traces`."""
    export = pytest.importorskip("opentelemetry.sdk.trace.export", reason="needs opentelemetry-sdk")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    kept, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(export.SimpleSpanProcessor(kept))
    monkeypatch.setattr(RequestTracer, "from_environment", classmethod(lambda cls: cls(provider)))
    return kept


def by_trace(exported: Any) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for span in exported.get_finished_spans():
        found.setdefault(f"{span.context.trace_id:032x}", []).append(span)
    return found


@pytest.mark.parametrize("chunked", [False, True])  # the fast path, and the framework
def test_a_request_is_a_span_in_the_trace_of_its_caller(tmp_path: Path, exported: Any, chunked: bool) -> None:
    headers = {"traceparent": f"00-{TRACE}-{PARENT}-01", "content-type": "application/json"}
    body = b'{"user":"ann"}'
    with running(tmp_path, small_initial_state(), traces=True) as server:
        content: Any = iter([body]) if chunked else body
        answer = server.http.post("/v1/recommendations", content=content, headers=headers)
        told = b'{"decision":"%s","value":0.123456}' % answer.json()["decision"].encode()
        content = iter([told]) if chunked else told
        assert server.http.post("/v1/rewards", content=content, headers=headers).status_code == 200
    spans = by_trace(exported)[TRACE]
    requests = [span for span in spans if span.kind.name == "SERVER"]
    assert [span.name for span in requests] == ["POST /v1/recommendations", "POST /v1/rewards"]
    assert all(f"{span.parent.span_id:016x}" == PARENT for span in requests)
    assert all(span.attributes["http.response.status_code"] == 200 for span in requests)
    text = "".join(span.to_json() for span in spans)
    assert "ann" not in text and "0.123456" not in text


def test_changes_and_views_are_traced_by_route(tmp_path: Path, exported: Any) -> None:
    with running(tmp_path, small_initial_state(), traces=True) as server:
        assert server.http.put("/v1/users/secret-name").status_code == 200
        assert server.http.get("/v1/users/nobody").status_code == 404
    spans = [span for group in by_trace(exported).values() for span in group]
    names = [span.name for span in spans]
    assert "PUT /v1/users" in names and "GET /v1/users" in names
    assert "secret-name" not in "".join(span.to_json() for span in spans)


def test_a_trace_that_is_not_sampled_is_not_recorded(tmp_path: Path, exported: Any) -> None:
    with running(tmp_path, small_initial_state(), traces=True) as server:
        headers = {"traceparent": f"00-{TRACE}-{PARENT}-00"}
        assert server.http.post("/v1/recommendations", json={"user": "ann"}, headers=headers).status_code == 200
    assert TRACE not in by_trace(exported)


def test_without_the_setting_nothing_of_it_is_imported(tmp_path: Path) -> None:
    lines = (
        "import sys, graphbandit.serving.server",
        "print(sorted(name for name in sys.modules if name.startswith('opentelemetry.sdk')))",
    )
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    with running(tmp_path, small_initial_state()) as server:
        assert guard_of(server).tracer is None


def guard_of(server: Running) -> Any:
    return server.server.config.app


def test_a_missing_sdk_and_an_unknown_exporter_are_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(ValueError, match=r"needs the OpenTelemetry SDK: install graphbandit with its extra otel"):
        RequestTracer.from_environment()
    monkeypatch.undo()
    pytest.importorskip("opentelemetry.sdk.trace", reason="needs opentelemetry-sdk")
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "carrier-pigeon")
    with pytest.raises(ValueError, match="carrier-pigeon"):
        RequestTracer.from_environment()


def test_spans_go_to_the_console_as_the_environment_says(tmp_path: Path) -> None:
    pytest.importorskip("opentelemetry.sdk.trace", reason="needs opentelemetry-sdk")
    script = """
import sys
from pathlib import Path
from serving_zoo import recommend, running, small_initial_state
with running(Path(sys.argv[1]), small_initial_state(), traces=True) as server:
    recommend(server)
"""
    environment = os.environ | {"OTEL_TRACES_EXPORTER": "console", "OTEL_SERVICE_NAME": "shop", "NUMBA_DISABLE_JIT": "1"}
    environment["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])
    command = [sys.executable, "-c", script, str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert '"name": "POST /v1/recommendations"' in done.stdout and '"service.name": "shop"' in done.stdout
    assert free_port()
