"""A client of the service that needs nothing but the standard library.

| module | what is in it |
|---|---|
| `service_client` | `Client`: one method for each thing that one asks of the service |
| `http_calls` | connections that are kept open, attempts, retries, and `ServiceError` |
| `answers` | what the service answers, as types |

This folder is also the package `graphbandit_client` of the distribution `graphbandit-client` (`client/`
in the repository). So it imports nothing of graphbandit.
"""

from __future__ import annotations

from .answers import AcceptedRewards, LoggedChange, RetractedReward, ServedArm, ServedDecision, ServiceProblem
from .http_calls import ServiceError
from .service_client import Client

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
