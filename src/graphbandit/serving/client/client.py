"""The client: one method for each operation of the service."""

from __future__ import annotations

import ssl
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, cast
from urllib.parse import quote

from .connection import HttpConnection, ServiceError
from .responses import AcceptedRewards, LoggedChange, RetractedReward, ServedDecision


class Client(HttpConnection):
    """A client of the service, with persistent connections and retries; threads may share it.

    A call is retried if there is no response, or if its status is 429, 502, 503 or 504: after growing pauses, or
    after the seconds of the Retry-After header. Retries are safe: decisions are sent with an idempotency key, and
    every other call is idempotent.

    Parameters
    ----------
    url : str
        Like http://127.0.0.1:8000.
    token : str, optional
        The bearer token, if the service asks for one.
    timeout : float
        Seconds in which an attempt must connect, and then be answered.
    patience : float
        Seconds for all attempts of a call.
    context : ssl.SSLContext, optional
        For https with certificates of your own.

    Examples
    --------
    No connection is made before the first call:

    >>> with Client("http://127.0.0.1:8000", patience=10.0) as client:
    ...     client.url
    'http://127.0.0.1:8000'
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout: float = 5.0,
        patience: float = 30.0,
        context: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(url, token, timeout, patience, context)

    def recommend(
        self,
        user: str,
        candidates: Sequence[str] | None = None,
        *,
        where: Mapping[str, Sequence[str]] | None = None,
        exclude: Sequence[str] | None = None,
        k: int = 1,
        context: Mapping[str, Any] | None = None,
        attributes: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> ServedDecision:
        """Choose `k` arms for a user, best first.

        Parameters
        ----------
        user : str
        candidates : sequence of str, optional
            Arms to choose from; all by default.
        where : mapping, optional
            Allowed values of attributes: {attribute: values}.
        exclude : sequence of str, optional
            Arms that must not be shown.
        k : int
            Number of arms.
        context, attributes : mapping, optional
            Columns of context of the request, and attributes of an unknown user: for a service that began
            with a saved model.
        idempotency_key : str, optional
            A later call with the same key gets the same decision. By default every call has its own key.
        """
        said: dict[str, Any] = {"user": user, "k": k}
        for name, names in (("candidates", candidates), ("exclude", exclude)):
            if names is not None:
                said[name] = list(names)
        if where is not None:
            said["where"] = {name: list(values) for name, values in where.items()}
        for name, columns in (("context", context), ("attributes", attributes)):
            if columns is not None:
                said[name] = dict(columns)
        return cast(ServedDecision, self.call("POST", "/v1/recommendations", said | _key(idempotency_key)))

    def recommend_many(
        self, requests: Sequence[Mapping[str, Any]], *, idempotency_key: str | None = None
    ) -> list[ServedDecision]:
        """Choose arms for many users.

        A request has `user` and, optionally, `candidates`, `where`, `exclude`, `k`, `context` and `attributes`.
        """
        body = {"requests": [dict(request) for request in requests]} | _key(idempotency_key)
        return list(self.call("POST", "/v1/recommendations/batch", body)["decisions"])

    def reward(self, decision: str, value: float, arm: str | None = None) -> AcceptedRewards:
        """Report what a decision earned; the reward is on disk when this returns."""
        said = {"decision": decision, "value": value} | ({} if arm is None else {"arm": arm})
        return cast(AcceptedRewards, self.call("POST", "/v1/rewards", said))

    def reward_many(self, rewards: Sequence[Mapping[str, Any]]) -> AcceptedRewards:
        """Report many rewards, each with `decision`, `value` and, optionally, `arm`: all are accepted, or none."""
        return cast(AcceptedRewards, self.call("POST", "/v1/rewards", {"rewards": [dict(reward) for reward in rewards]}))

    def retract(self, decision: str, arm: str | None = None) -> RetractedReward:
        """Take back the reward of a decision; the state is replayed without it in the background."""
        path = _path("rewards", decision) + ("" if arm is None else f"?arm={quote(arm, safe='')}")
        return cast(RetractedReward, self.call("DELETE", path))

    def put_user(self, user: str, edges: Mapping[str, float] | None = None) -> LoggedChange:
        """Add a user, or neighbours of an existing user."""
        return cast(LoggedChange, self.call("PUT", _path("users", user), {"edges": dict(edges or {})}))

    def put_edge(self, a: str, b: str, weight: float = 1.0) -> LoggedChange:
        """Connect two users, or change the weight of their edge."""
        return cast(LoggedChange, self.call("PUT", _path("edges", a, b), {"weight": weight}))

    def put_arm(self, arm: str, features: Sequence[float], attributes: Mapping[str, str] | None = None) -> LoggedChange:
        """Add an arm, or replace its features and attributes."""
        said = {"features": list(features), "attributes": dict(attributes or {})}
        return cast(LoggedChange, self.call("PUT", _path("arms", arm), said))

    def put_item(self, arm: str, columns: Mapping[str, Any]) -> LoggedChange:
        """Add or replace an arm by its row of the table of items: for a service that began with a saved model."""
        return cast(LoggedChange, self.call("PUT", _path("arms", arm), {"columns": dict(columns)}))

    def delete(self, kind: str, *names: str) -> None:
        """Delete ("users", name), ("edges", a, b) or ("arms", name).

        A 404 is ignored if the response to an earlier attempt was lost, because that attempt may have deleted it.
        """
        try:
            self.call("DELETE", _path(kind, *names))
        except ServiceError as error:
            if error.status != 404 or not error.may_have_executed:
                raise

    def user(self, user: str) -> dict[str, Any]:
        """Return a user, its neighbours, and the uncertainty of their estimates."""
        return self.call("GET", _path("users", user))

    def edge(self, a: str, b: str) -> dict[str, Any]:
        """Return the weight of an edge."""
        return self.call("GET", _path("edges", a, b))

    def arm(self, arm: str) -> dict[str, Any]:
        """Return the current features and attributes of an arm."""
        return self.call("GET", _path("arms", arm))

    def explanation(self, user: str) -> dict[str, Any]:
        """Return the sources and the uncertainty of a user's estimate, and its best arms."""
        return self.call("GET", _path("users", user) + "/explanation")

    def history(self, user: str, limit: int = 50) -> dict[str, Any]:
        """Return the newest decisions and rewards of a user."""
        return self.call("GET", f"{_path('users', user)}/history?limit={limit:d}")

    def policy(self) -> dict[str, Any]:
        """Return the policy in force, its shadow, and the history of changes."""
        return self.call("GET", "/v1/policy")

    def shadow(self) -> dict[str, Any]:
        """Return how often the shadow agrees with what was shown, and what both policies expect."""
        return self.call("GET", "/v1/shadow")

    def promote(self, policy: str | None = None) -> dict[str, Any]:
        """Put the shadow in force; the service refuses if the shadow is not `policy`.

        The request names the policy, so that a retry cannot undo the promotion.
        """
        return self.call("POST", "/v1/policy/promote", {"policy": policy or self.shadow()["shadow"]})

    def roll_back(self) -> dict[str, Any]:
        """Undo the last promotion."""
        return self.call("POST", "/v1/policy/rollback", {"policy": self.shadow()["shadow"]})

    def experiment(self) -> dict[str, Any]:
        """Return the running experiment and the last one."""
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
        """Return statistics since the start of the service."""
        return self.call("GET", "/v1/stats")

    def state(self) -> dict[str, Any]:
        """Return the number of the last event, and a hash of the whole state."""
        return self.call("GET", "/v1/state")

    def is_alive(self) -> bool:
        """Return True if the process answers; there is one attempt."""
        return self.attempt("GET", "/health", None).status == 200

    def is_ready(self) -> bool:
        """Return True if the service is ready for requests; there is one attempt."""
        return self.attempt("GET", "/ready", None).status == 200

    def wait(self) -> None:
        """Wait until the service is ready; raise a ServiceError after `patience` seconds."""
        self.call("GET", "/ready")


def _key(given: str | None) -> dict[str, str]:
    return {"idempotency_key": uuid.uuid4().hex if given is None else given}


def _path(kind: str, *names: str) -> str:
    return "/".join([f"/v1/{kind}", *(quote(name, safe="") for name in names)])
