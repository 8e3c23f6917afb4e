"""The HTTP interface and the page.

| module | what is in it |
|---|---|
| `guard` | checks host, token, size and time of every request; counts and logs it afterwards |
| `decision_routes` | recommendations and rewards: Starlette routes with msgspec structs |
| `app` | the FastAPI application: every other route |
| `policy_routes` | policy, shadow, promotion, rollback and experiment |
| `schemas` | bodies of requests and responses; their limits are part of the OpenAPI document |
| `responses` | errors in one form |
| `dashboard` | serves the files of `page/`, with their Content-Security-Policy |
"""
