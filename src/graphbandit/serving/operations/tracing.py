"""OpenTelemetry traces: a span for every request.

Nothing of OpenTelemetry is imported unless the setting `traces` is on. Spans name routes, never users, tokens or
rewards.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Mapping
from importlib.metadata import entry_points
from typing import Any

from ... import __version__
from ...validate import missing_package

HEADERS = (b"traceparent", b"tracestate")
"""Headers of the W3C trace that a request is part of."""


class RequestTracer:
    """Makes spans of requests.

    Parameters
    ----------
    provider
        OpenTelemetry's tracer provider.
    is_own
        Shut the provider down with the service.
    """

    def __init__(self, provider: Any, is_own: bool = True) -> None:
        from opentelemetry import context, trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._provider, self._trace, self._context, self._is_own = provider, trace, context, is_own
        self._tracer = provider.get_tracer("graphbandit", __version__)
        self._propagator = TraceContextTextMapPropagator()

    @classmethod
    def from_environment(cls) -> RequestTracer:
        """Return a tracer with the exporter, sampler and service name of the standard OTEL_* variables."""
        try:
            from opentelemetry import trace
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
        except ImportError:
            raise ValueError(missing_package("the setting traces", "the OpenTelemetry SDK", "otel")) from None
        known = trace.get_tracer_provider()
        if isinstance(known, TracerProvider):  # a program around the service has set one up
            return cls(known, is_own=False)
        os.environ.setdefault("OTEL_SERVICE_NAME", "graphbandit")
        name = os.environ.get("OTEL_TRACES_EXPORTER", "otlp").strip()
        provider = TracerProvider(resource=Resource.create())
        if name != "none":
            provider.add_span_processor(BatchSpanProcessor(_exporter(name)))
        return cls(provider)

    async def trace_request(self, answer: Awaitable[int], method: str, route: str, headers: Mapping[bytes, bytes]) -> None:
        """Answer a request within a span, which continues the trace of its headers and gets the status of the response."""
        carrier = {name.decode(): headers[name].decode("latin-1") for name in HEADERS if name in headers}
        facts = {"http.request.method": method, "http.route": route}
        parent = self._propagator.extract(carrier) if carrier else self._context.Context()
        chosen: dict[str, Any] = dict(kind=self._trace.SpanKind.SERVER, attributes=facts)
        chosen |= dict(record_exception=False, set_status_on_exception=False)
        with self._tracer.start_as_current_span(f"{method} {route}", parent, **chosen) as span:
            status = 500
            try:
                status = await answer
            finally:
                span.set_attribute("http.response.status_code", status)
                if status >= 500:
                    span.set_status(self._trace.StatusCode.ERROR)

    def close(self) -> None:
        """Export the remaining spans."""
        if self._is_own:
            self._provider.shutdown()


def _exporter(name: str) -> Any:
    """Return the exporter of this name, by its entry point: `console` is in the SDK, `otlp` in a package of its own."""
    found = [entry for entry in entry_points(group="opentelemetry_traces_exporter") if entry.name == name]
    if not found:
        raise ValueError(
            f"OTEL_TRACES_EXPORTER is {name!r}, and no package has this exporter; try console or none, or "
            "pip install opentelemetry-exporter-otlp."
        )
    return found[0].load()()
