"""The service: recommendations from a policy whose every decision and reward is in a durable log.
Needs the extra `serve`.

| module | what is in it |
|---|---|
| `domain/` | state, events and requests; no HTTP, no SQL |
| `store/` | the event log in SQL, snapshots |
| `operations/` | the service without HTTP, settings, statistics, export, a client |
| `http/` | the web application and the page |
| `start` | builds everything from the settings, and runs the server |
| `ray_serve` | the same service as a Ray Serve application |

Imports go one way: ray_serve → start → http → operations → store → domain.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..recommending.errors import InvalidRequest, UnknownName
    from ..recommending.requests import Request, Reward
    from .domain.initial_state import InitialState
    from .operations.client import Client, ServiceError
    from .operations.log_replay import replay_from_zero
    from .operations.recommendation_service import RecommendationService
    from .operations.settings import ServiceSettings
    from .start import serve
    from .store.database import Occupied, Unavailable
    from .store.event_store import EventStore

__all__ = [
    "Client",
    "EventStore",
    "InitialState",
    "InvalidRequest",
    "Occupied",
    "RecommendationService",
    "Request",
    "Reward",
    "ServiceError",
    "ServiceSettings",
    "Unavailable",
    "UnknownName",
    "replay_from_zero",
    "serve",
]

# Imported on first use: the client alone needs neither FastAPI nor SQLAlchemy.
_MODULES = {
    ".recommending.errors": ("InvalidRequest", "UnknownName"),
    "domain.initial_state": ("InitialState",),
    ".recommending.requests": ("Request", "Reward"),
    "operations.client": ("Client", "ServiceError"),
    "operations.log_replay": ("replay_from_zero",),
    "operations.recommendation_service": ("RecommendationService",),
    "operations.settings": ("ServiceSettings",),
    "start": ("serve",),
    "store.database": ("Occupied", "Unavailable"),
    "store.event_store": ("EventStore",),
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f".{module}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
