"""The HTTP interface and the page.

| module | what is in it |
|---|---|
| `app` | the FastAPI application: every route |
| `experiment_routes` | policy, shadow, promotion, rollback and experiment: their routes and bodies |
| `schemas` | bodies of requests and responses; their limits are part of the OpenAPI document |
| `batching` | recommendations and rewards that arrive together are decided and written together |
| `heavy_line` | requests that weigh many arms are decided in slices, in a thread |
| `fast_path` | a protocol below ASGI that takes recommendations and rewards straight from the connection |
| `limited_protocol` | what a connection is at; refusals; requests that uvicorn's parser reads |
| `request_heads` | heads of requests that are plain enough for it |
| `request_bodies` | flow of bodies; ends and sizes of chunks |
| `connection_limits` | how many connections there may be, how long each may take, which one goes first |
| `guard` | host, token, rate and size of every request; counts and logs it afterwards |
| `responses` | responses as bytes, and errors in one form |
| `dashboard` | serves the files of `page/`, with their Content-Security-Policy |
| `openapi_document` | the OpenAPI document, with what the routes do not say |
| `reference_page` | the page at `/docs`, made from the OpenAPI document |
"""
