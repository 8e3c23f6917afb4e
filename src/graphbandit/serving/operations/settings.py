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
from typing import Any, NamedTuple, get_args, get_type_hints

from ...validate import LARGEST_REWARD, NOT_NEGATIVE, POSITIVE, SHARE, Range, check_all, count, one_of

PREFIX = "GRAPHBANDIT_"
OTHER_VARIABLES = ("GRAPHBANDIT_DATA",)  # of the package, but not of the service
MOST_WORK = 10_000_000  # about a second
SHORTEST_TOKEN = 16
READ = "read"
RANGES = {
    "epsilon": SHARE,
    "seed": count(0),
    "port": Range("an integer between 1 and 65535", lambda port: count().holds(port) and port <= 65535),
    "most_work": count(),
    "largest_body": count(),
    "most_requests": count(),
    "body_deadline": POSITIVE,
    "keep_alive": POSITIVE,
    "shutdown_notice": NOT_NEGATIVE,
    "shutdown_deadline": POSITIVE,
    "snapshot_every": count(),
    "log_level": one_of(("debug", "info", "warning", "error")),
}


class Token(NamedTuple):
    """A secret that a client sends with every request."""

    secret: str
    may_write: bool = True


@dataclass(frozen=True)
class ServiceSettings:
    """All settings of the service.

    In the environment a name is written in capitals with the prefix GRAPHBANDIT_.

    Examples
    --------
    >>> settings = ServiceSettings(policy="linucb", port=9000)
    >>> settings.store, settings.port
    ('sqlite:///state.db', 9000)
    """

    graph: Path | None = None
    items: Path | None = None
    model: Path | None = None  # a saved Recommender, in place of graph, items and policy
    columns: str = ""  # which column of these files is which, as in user=uid,item=sku
    skip_bad: bool = False  # leave out rows of these files that cannot be read
    history: Path | None = None  # table of rewards from before, imported once
    store: str = "sqlite:///state.db"
    require_existing: bool = False  # refuse to start if the store has no log: it was lost
    policy: str = "adaptive"
    params: Mapping[str, Any] = field(default_factory=dict)  # of the policy; a table [params] in TOML
    shadow: str = ""  # a second policy beside the first, as in adaptive:half_life=200; none ends it
    epsilon: float = 0.0  # share of decisions that are uniform, so that the log can be evaluated
    seed: int = 0
    host: str = "127.0.0.1"
    allow_direct: bool = False  # bind to an address that other machines reach, without deploy/nginx.conf in front
    port: int = 8000
    token_file: Path | None = None
    largest_body: int = 8 * 2**20
    most_work: int = MOST_WORK  # decisions × arms of one request
    most_requests: int = 2000  # that are handled at once
    body_deadline: float = 60.0  # seconds for a body to arrive; all that follow are in seconds, too
    keep_alive: float = 75.0  # until the next request of a connection
    shutdown_notice: float = 0.0  # after SIGTERM: not ready, but requests are answered
    shutdown_deadline: float = 10.0  # after that: for requests that have begun
    snapshots: Path | None = None  # folder; by default beside a SQLite file, else graphbandit-snapshots
    snapshot_every: int = 100_000  # events
    log_level: str = "info"
    reward_low: float = -LARGEST_REWARD  # rewards outside are refused
    reward_high: float = LARGEST_REWARD
    traces: bool = False  # OpenTelemetry, as the OTEL_* variables say

    def __post_init__(self) -> None:
        check_all(vars(self), RANGES)
        if not -LARGEST_REWARD <= self.reward_low < self.reward_high <= LARGEST_REWARD:
            raise ValueError(
                f"reward_low must be below reward_high, and both within {LARGEST_REWARD:g} of 0, "
                f"but they are {self.reward_low:g} and {self.reward_high:g}."
            )
        if not is_loopback(self.host) and not (self.allow_direct and self.token_file is not None):
            raise ValueError(
                f"host {self.host} can be reached from other machines: give a token_file, put a proxy in front "
                "(deploy/nginx.conf) and bind to 127.0.0.1, or say --allow-direct as well; see docs/howto/service.md."
            )

    def tokens(self) -> list[Token]:
        """Return the tokens of the token file as it is now."""
        return [] if self.token_file is None else read_tokens(self.token_file)

    def public(self) -> dict[str, Any]:
        """Return all settings by name, without passwords and tokens."""
        from sqlalchemy.engine import make_url

        table = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        return table | {"store": make_url(self.store).render_as_string(hide_password=True)}


def read_tokens(file: Path) -> list[Token]:
    """Return the tokens of a file, one a line; the word `read` before a token makes it read-only."""
    tokens: list[Token] = []
    # utf-8-sig: editors of Windows may put a byte order mark before the first token
    for line in filter(None, map(str.strip, file.read_text(encoding="utf-8-sig").splitlines())):
        word, _, rest = line.partition(" ")
        tokens.append(Token(rest.strip(), may_write=False) if word == READ else Token(line))
    if not tokens:
        raise ValueError(f"token_file {file} holds no token; write one on a line of its own.")
    if any(len(token.secret) < SHORTEST_TOKEN or not token.secret.isascii() for token in tokens):
        raise ValueError(f"token_file {file}: a token must have {SHORTEST_TOKEN} or more ASCII characters.")
    tokens = list(dict.fromkeys(tokens))
    if len({token.secret for token in tokens}) < len(tokens):
        raise ValueError(f"token_file {file}: a token occurs twice, once as read-only; remove one of the lines.")
    return tokens


def load(flags: Mapping[str, Any], config: Path | None = None, environment: Mapping[str, str] = os.environ) -> ServiceSettings:
    """Return the settings from all sources; a flag that is None was not given."""
    kinds = get_type_hints(ServiceSettings)
    chosen: dict[str, Any] = {}
    if config is not None:
        try:
            table = tomllib.loads(config.read_text(encoding="utf-8-sig"))
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
    """Return True if an address or name can be reached from this machine only."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
