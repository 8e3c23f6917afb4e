"""A client that needs the standard library only.

It retries with growing pauses; idempotency keys make that safe.
"""

from __future__ import annotations

import http.client
import json
import random
import time
import uuid
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlsplit

RETRIED_STATUSES = {429, 502, 503, 504}


class ServiceError(Exception):
    """The service refused a request, or did not answer, in which case `status` is 0."""

    def __init__(self, status: int, problems: Sequence[Mapping[str, Any]]) -> None:
        super().__init__("; ".join(f"{'.'.join(map(str, entry['loc']))}: {entry['msg']}" for entry in problems))
        self.status, self.problems = status, problems


class Client:
    """One connection to the service. Threads must not share it.

    Parameters
    ----------
    url : str
        Like http://127.0.0.1:8000.
    token : str, optional
    timeout : float
        Seconds for one attempt.
    patience : float
        Seconds for all attempts of a call. A call is repeated if there is no answer, or if its
        status is 429, 502, 503 or 504.
    """

    def __init__(self, url: str, token: str | None = None, *, timeout: float = 5.0, patience: float = 30.0) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"url must be like http://127.0.0.1:8000, but it is {url!r}.")
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(parts.hostname, parts.port, timeout=timeout)
        self._base = parts.path.rstrip("/")
        self._headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {token}"} if token else {})
        self._patience = patience

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._connection.close()

    def recommend(
        self,
        user: str,
        candidates: Sequence[str] | None = None,
        *,
        where: Mapping[str, Sequence[str]] | None = None,
        k: int = 1,
        context: Mapping[str, Any] | None = None,
        attributes: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Choose arms for a user: a dict with decision, user, arms and propensity. `context` of the request and
        `attributes` of a user that nobody knows are for a service that began from a model."""
        said = {name: dict(value) for name, value in (("context", context), ("attributes", attributes)) if value is not None}
        return self.call("POST", "/v1/recommendations", _request(user, candidates, where, k) | said | _key())

    def recommend_many(self, requests: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Choose arms for many users; a request has `user` and, optionally, `candidates`, `where`,
        `k`, `context` and `attributes`."""
        answer = self.call("POST", "/v1/recommendations/batch", {"requests": list(requests)} | _key())
        return list(answer["decisions"])

    def reward(self, decision: str, value: float, arm: str | None = None) -> dict[str, Any]:
        """Report what a decision earned; the reward is on disk when this returns."""
        return self.call("POST", "/v1/rewards", {"decision": decision, "value": value} | ({} if arm is None else {"arm": arm}))

    def reward_many(self, rewards: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Many rewards, each with `decision`, `value` and, if you like, `arm`."""
        return self.call("POST", "/v1/rewards", {"rewards": list(rewards)})

    def retract(self, decision: str, arm: str | None = None) -> dict[str, Any]:
        """Take back the reward of a decision; the state is replayed without it in the background."""
        return self.call("DELETE", _path("rewards", decision) + ("" if arm is None else f"?arm={quote(arm, safe='')}"))

    def put_user(self, user: str, edges: Mapping[str, float] | None = None) -> None:
        """Add a user, or neighbours of an existing user."""
        self.call("PUT", _path("users", user), {"edges": dict(edges or {})})

    def put_edge(self, a: str, b: str, weight: float = 1.0) -> None:
        """Connect two users, or change the weight of their edge."""
        self.call("PUT", _path("edges", a, b), {"weight": weight})

    def put_arm(self, arm: str, features: Sequence[float], attributes: Mapping[str, str] | None = None) -> None:
        """Add an arm, or replace its features and attributes."""
        self.call("PUT", _path("arms", arm), {"features": list(features), "attributes": dict(attributes or {})})

    def put_item(self, arm: str, columns: Mapping[str, Any]) -> None:
        """Add an arm, or describe it anew, by a row of the table of items: for a service that began from a model."""
        self.call("PUT", _path("arms", arm), {"columns": dict(columns)})

    def delete(self, kind: str, *names: str) -> None:
        """Delete ("users", name), ("edges", a, b) or ("arms", name). After a retry it is no error
        if it is gone already."""
        self.call("DELETE", _path(kind, *names))

    def explanation(self, user: str) -> dict[str, Any]:
        """Why a user is shown what it is shown."""
        return self.call("GET", _path("users", user) + "/explanation")

    def policy(self) -> dict[str, Any]:
        """Which policy is in force, its shadow, and how that came about."""
        return self.call("GET", "/v1/policy")

    def shadow(self) -> dict[str, Any]:
        """What the shadow would have shown, beside what was shown."""
        return self.call("GET", "/v1/shadow")

    def promote(self, policy: str | None = None) -> dict[str, Any]:
        """Put the shadow in force; refused unless it is `policy`, if that is given. The request names the policy, so that
        a retry cannot undo it."""
        return self.call("POST", "/v1/policy/promote", {"policy": policy or self.shadow()["shadow"]})

    def roll_back(self) -> dict[str, Any]:
        """Undo the last promotion."""
        return self.call("POST", "/v1/policy/rollback", {"policy": self.shadow()["shadow"]})

    def experiment(self) -> dict[str, Any]:
        """The running experiment and the last one."""
        return self.call("GET", "/v1/experiment")

    def begin_experiment(
        self, share: float, *, guardrail: float | None = None, largest_cluster: int | None = None
    ) -> dict[str, Any]:
        """Hold out a share of the users, in whole clusters; they get the shadow's decisions."""
        chosen = {"share": share, "guardrail": guardrail, "largest_cluster": largest_cluster}
        return self.call("POST", "/v1/experiment", {name: value for name, value in chosen.items() if value is not None})

    def end_experiment(self) -> dict[str, Any]:
        """End the experiment."""
        return self.call("DELETE", "/v1/experiment")

    def stats(self) -> dict[str, Any]:
        """Statistics since the start of the service."""
        return self.call("GET", "/v1/stats")

    def wait(self) -> None:
        """Wait until the service is ready."""
        self.call("GET", "/ready")

    def call(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """Send any request and return the answer; raises ServiceError if it is refused, or after
        `patience` seconds."""
        end, pause, attempts = time.monotonic() + self._patience, 0.05, 0
        while True:
            status, answer = self.attempt(method, path, None if body is None else json.dumps(body, allow_nan=False))
            attempts += 1
            if status < 300 and status:
                return dict(answer)
            if method == "DELETE" and status == 404 and attempts > 1:
                return {}
            if (status and status not in RETRIED_STATUSES) or time.monotonic() + pause > end:
                problems = answer.get("detail") if isinstance(answer, dict) else None
                raise ServiceError(status, problems or [{"loc": ["service"], "msg": str(answer)}])
            time.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(2.0, 2.0 * pause)

    def attempt(self, method: str, path: str, body: str | None) -> tuple[int, Any]:
        """Send a request once; its status and answer, or 0 and the reason if there was none."""
        try:
            self._connection.request(method, self._base + path, None if body is None else body.encode(), self._headers)
            response = self._connection.getresponse()
            content = response.read()
            return response.status, json.loads(content)
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()  # the next attempt makes a new connection
            return 0, f"no answer ({error!r})"
        except ValueError:
            return response.status, "the answer is not JSON"


def _request(user: str, candidates: Sequence[str] | None, where: Mapping[str, Sequence[str]] | None, k: int) -> dict[str, Any]:
    request: dict[str, Any] = {"user": user, "k": k}
    if candidates is not None:
        request["candidates"] = list(candidates)
    if where is not None:
        request["where"] = {name: list(values) for name, values in where.items()}
    return request


def _key() -> dict[str, str]:
    return {"idempotency_key": uuid.uuid4().hex}


def _path(kind: str, *names: str) -> str:
    return "/".join([f"/v1/{kind}", *(quote(name, safe="") for name in names)])
