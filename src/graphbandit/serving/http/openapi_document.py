"""The OpenAPI document: what FastAPI makes of its routes, the endpoints beside FastAPI, and the bearer token, which the
guard checks before all of them."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from .decision_routes import described

TOKEN = {"type": "http", "scheme": "bearer", "description": "A line of the token file, if the service was started with one."}


class DescribedApp(FastAPI):
    """An application whose OpenAPI document other languages can generate a client from."""

    def openapi(self) -> dict[str, Any]:
        """The document. It is made when it is first asked for."""
        if self.openapi_schema is None:
            document = super().openapi()
            errors = document["paths"]["/v1/users/{user}"]["put"]["responses"]
            paths, schemas = described({status: entry for status, entry in errors.items() if status != "200"})
            document["paths"] = paths | document["paths"]
            document["components"]["schemas"] |= schemas
            document["components"]["securitySchemes"] = {"token": TOKEN}
            document["security"] = [{"token": []}, {}]  # a service without a token file asks for none
        assert self.openapi_schema is not None
        return self.openapi_schema
