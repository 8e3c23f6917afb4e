"""The service: recommendations from a policy whose every decision and reward is in a durable log.

It needs the extra `serve`.

| module | what is in it |
|---|---|
| `domain/` | state, events and requests; no HTTP, no SQL |
| `store/` | the event log in SQL, snapshots |
| `operations/` | the service without HTTP: group commit, replay, settings, statistics, export |
| `http/` | the web application and the page |
| `client/` | a client for Python programs, which is also a distribution of its own |
| `server` | builds everything from the settings, and runs the server |
| `ray_serve` | the same service as a Ray Serve application |

Imports go one way: ray_serve → server → http → operations → store → domain. The client imports nothing of the
package.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..recommending.errors import InvalidRequest as InvalidRequest
    from ..recommending.errors import UnknownName as UnknownName
    from ..recommending.requests import Request as Request
    from ..recommending.requests import Reward as Reward
    from .client import Client as Client
    from .client import ServiceError as ServiceError
    from .domain.initial_state import InitialState as InitialState
    from .operations.recommendation_service import RecommendationService as RecommendationService
    from .operations.replay import replay_from_zero as replay_from_zero
    from .operations.settings import ServiceSettings as ServiceSettings
    from .server import serve as serve
    from .store.database import StoreInUse as StoreInUse
    from .store.database import Unavailable as Unavailable
    from .store.event_store import EventStore as EventStore

# Imported on first use: the client alone needs neither FastAPI nor SQLAlchemy.
_MODULES = {
    ".recommending.errors": ("InvalidRequest", "UnknownName"),
    "client": ("Client", "ServiceError"),
    "domain.initial_state": ("InitialState",),
    ".recommending.requests": ("Request", "Reward"),
    "operations.replay": ("replay_from_zero",),
    "operations.recommendation_service": ("RecommendationService",),
    "operations.settings": ("ServiceSettings",),
    "server": ("serve",),
    "store.database": ("StoreInUse", "Unavailable"),
    "store.event_store": ("EventStore",),
}
__all__ = sorted(name for names in _MODULES.values() for name in names)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f".{module}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
