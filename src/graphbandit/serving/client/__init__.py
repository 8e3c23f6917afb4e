"""A client of the service that needs only the standard library.

| module | what is in it |
|---|---|
| `client` | `Client`: one method for each operation of the service |
| `connection` | `HttpConnection`: persistent connections, retries, and `ServiceError` |
| `responses` | the responses of the service, as types |

This folder is also the package `graphbandit_client` of the distribution `graphbandit-client` (`client/` in the
repository). So it imports nothing of graphbandit.
"""

from __future__ import annotations

from .client import Client
from .connection import ServiceError
from .responses import AcceptedRewards, LoggedChange, RetractedReward, ServedArm, ServedDecision, ServiceProblem

__version__ = "0.2.0"
__all__ = [
    "AcceptedRewards",
    "Client",
    "LoggedChange",
    "RetractedReward",
    "ServedArm",
    "ServedDecision",
    "ServiceError",
    "ServiceProblem",
]
