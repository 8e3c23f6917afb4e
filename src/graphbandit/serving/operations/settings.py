"""Settings of the service: flags over environment over TOML over defaults."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

from ..http.guard import is_loopback

PREFIX = "GRAPHBANDIT_"
SHORTEST_TOKEN = 16


@dataclass(frozen=True)
class Settings:
    """Everything that can be set. In the environment a name has the prefix GRAPHBANDIT_ and is written in capitals."""

    graph: Path | None = None
    arms: Path | None = None
    store: str = "sqlite:///state.db"
    policy: str = "adaptive"
    params: Mapping[str, Any] = field(default_factory=dict)  # of the policy; in TOML a table [params]
    epsilon: float = 0.0  # share of decisions that are uniform, for honest evaluation of the log
    seed: int = 0
    host: str = "127.0.0.1"
    port: int = 8000
    token_file: Path | None = None
    rate: float = 10_000.0  # requests a second for each token; 0: no limit
    largest_body: int = 8 * 2**20
    snapshots: Path | None = None  # folder; beside a SQLite file, else graphbandit-snapshots
    snapshot_every: int = 100_000
    log_level: str = "info"

    def __post_init__(self) -> None:
        if not 1 <= self.port <= 65535:
            raise ValueError(f"port must lie between 1 and 65535, but it is {self.port}.")
        if not 0 <= self.epsilon <= 1:
            raise ValueError(f"epsilon must lie between 0 and 1, but it is {self.epsilon}.")
        for name in ("rate", "seed"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must not be negative, but it is {getattr(self, name)}.")
        for name in ("largest_body", "snapshot_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be positive, but it is {getattr(self, name)}.")
        if self.log_level not in ("debug", "info", "warning", "error"):
            raise ValueError(f"log_level must be debug, info, warning or error, but it is {self.log_level!r}.")
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

    def shown(self) -> dict[str, Any]:
        """What is printed at the start: passwords and tokens are not."""
        from sqlalchemy.engine import make_url

        table = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        return table | {"store": make_url(self.store).render_as_string(hide_password=True)}


def load(flags: Mapping[str, Any], config: Path | None = None, environment: Mapping[str, str] = os.environ) -> Settings:
    """Settings from all sources; a flag that is None was not given."""
    kinds = get_type_hints(Settings)
    chosen: dict[str, Any] = {}
    if config is not None:
        try:
            table = tomllib.loads(config.read_text())
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{config} is not TOML: {error}.") from None
        chosen |= {name: _converted(f"{config}: {name}", kinds, name, value) for name, value in table.items()}
    for variable, text in environment.items():
        name = variable.removeprefix(PREFIX).lower()
        if variable.startswith(PREFIX) and name in kinds and name != "params":
            chosen[name] = _converted(variable, kinds, name, text)
    chosen |= {name: value for name, value in flags.items() if value is not None}
    return replace(Settings(), **chosen)


def _converted(source: str, kinds: Mapping[str, Any], name: str, value: Any) -> Any:
    if name not in kinds:
        raise ValueError(f"{source} is not a setting; there are {', '.join(kinds)}.")
    if name == "params":
        if not isinstance(value, dict):
            raise ValueError(f"{source} must be a table.")
        return value
    kind = next((part for part in get_args(kinds[name]) if part is not type(None)), kinds[name])
    if isinstance(value, bool) or (kind in (int, float) and not isinstance(value, int | float | str)):
        raise ValueError(f"{source} must be a number, but it is {value!r}.")
    try:
        return kind(value)
    except (TypeError, ValueError):
        raise ValueError(f"{source} must be of the kind {kind.__name__}, but it is {value!r}.") from None
