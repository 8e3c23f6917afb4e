"""Settings of the service.

Flags override the environment, which overrides a TOML file, which overrides the defaults.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any, get_args, get_type_hints

from ...validate import NOT_NEGATIVE, SHARE, Range, check_all, count, one_of

PREFIX = "GRAPHBANDIT_"
OTHER_VARIABLES = ("GRAPHBANDIT_DATA",)  # of the package, but not of the service
SHORTEST_TOKEN = 16
RANGES = {
    "epsilon": SHARE,
    "seed": count(0),
    "port": Range("an integer between 1 and 65535", lambda port: count().holds(port) and port <= 65535),
    "rate": NOT_NEGATIVE,
    "drain": NOT_NEGATIVE,
    "largest_body": count(),
    "snapshot_every": count(),
    "log_level": one_of(("debug", "info", "warning", "error")),
}


@dataclass(frozen=True)
class ServiceSettings:
    """All settings. In the environment a name is written in capitals with the prefix
    GRAPHBANDIT_."""

    graph: Path | None = None
    arms: Path | None = None
    columns: str = ""  # which column of these files is which, as in user=uid,item=sku
    skip_bad: bool = False  # leave out rows of these files that cannot be read
    store: str = "sqlite:///state.db"
    create: bool = False  # begin a new log if the store has none
    standby: bool = False  # wait until no other process writes to the store, and take over
    drain: float = 0.0  # seconds for which requests are still answered after SIGTERM, while /ready says 503
    policy: str = "adaptive"
    params: Mapping[str, Any] = field(default_factory=dict)  # of the policy; a table [params] in TOML
    shadow: str = ""  # a second policy beside the first, as in adaptive:half_life=200; none ends it
    epsilon: float = 0.0  # share of decisions that are uniform, so that the log can be evaluated
    seed: int = 0
    host: str = "127.0.0.1"
    port: int = 8000
    token_file: Path | None = None
    rate: float = 10_000.0  # requests a second for each token; 0 for no limit
    largest_body: int = 8 * 2**20
    snapshots: Path | None = None  # folder; by default beside a SQLite file, else graphbandit-snapshots
    snapshot_every: int = 100_000  # events
    log_level: str = "info"

    def __post_init__(self) -> None:
        check_all(vars(self), RANGES)
        if not is_loopback(self.host) and self.token_file is None:
            raise ValueError(f"host {self.host} can be reached from outside, so a token_file is needed; see docs/service.md.")

    def tokens(self) -> list[str]:
        """The tokens of the file, one a line."""
        if self.token_file is None:
            return []
        tokens = [line.strip() for line in self.token_file.read_text().splitlines() if line.strip()]
        if not tokens:
            raise ValueError(f"token_file {self.token_file} holds no token; write one on a line of its own.")
        if any(len(token) < SHORTEST_TOKEN or not token.isascii() for token in tokens):
            raise ValueError(f"token_file {self.token_file}: a token must have {SHORTEST_TOKEN} or more ASCII characters.")
        return tokens

    def public(self) -> dict[str, Any]:
        """All settings by name, without passwords and tokens."""
        from sqlalchemy.engine import make_url

        table = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        return table | {"store": make_url(self.store).render_as_string(hide_password=True)}


def load(flags: Mapping[str, Any], config: Path | None = None, environment: Mapping[str, str] = os.environ) -> ServiceSettings:
    """The settings from all sources; a flag that is None was not given."""
    kinds = get_type_hints(ServiceSettings)
    chosen: dict[str, Any] = {}
    if config is not None:
        try:
            table = tomllib.loads(config.read_text())
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{config} is not TOML: {error}.") from None
        chosen |= {name: _convert(f"{config}: {name}", kinds, name, value) for name, value in table.items()}
    for variable, text in environment.items():
        name = variable.removeprefix(PREFIX).lower()
        if variable.startswith(PREFIX) and variable not in OTHER_VARIABLES:
            chosen[name] = _convert(variable, kinds, name, text)
    chosen |= {name: value for name, value in flags.items() if value is not None}
    return replace(ServiceSettings(), **chosen)


def _convert(source: str, kinds: Mapping[str, Any], name: str, value: Any) -> Any:
    if name not in kinds:
        raise ValueError(f"{source} is not a setting; there are {', '.join(kinds)}.")
    if name == "params":
        if not isinstance(value, dict):
            raise ValueError(f"{source} must be a table.")
        return value
    kind = next((part for part in get_args(kinds[name]) if part is not type(None)), kinds[name])
    if kind is bool:
        if str(value).lower() not in ("true", "false", "1", "0"):
            raise ValueError(f"{source} must be true or false, but it is {value!r}.")
        return str(value).lower() in ("true", "1")
    if isinstance(value, bool) or (kind in (int, float) and not isinstance(value, int | float | str)):
        raise ValueError(f"{source} must be a number, but it is {value!r}.")
    try:
        return kind(value)
    except (TypeError, ValueError):
        raise ValueError(f"{source} must be of the kind {kind.__name__}, but it is {value!r}.") from None


def is_loopback(host: str) -> bool:
    """Whether an address or name can be reached from this machine only."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
