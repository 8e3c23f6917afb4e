"""How many connections there may be, how long each may take, and which one goes when there are too
many."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, OrderedDict
from ipaddress import IPv6Address, ip_address
from typing import Protocol

from ..operations.settings import ServiceSettings
from ..operations.stats import Stats

logger = logging.getLogger("graphbandit.serving")
RESERVED_DESCRIPTORS = 100  # for the store, snapshots, exports, and connections that are being closed
SELDOM = 60.0  # seconds between two lines about the same trouble


class Connection(Protocol):
    """What is asked of a connection here."""

    line: OrderedDict[Connection, None]  # where it stands among those of its address

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for the client, so that nothing is lost when it is closed."""

    def overdue(self, now: float) -> str | None:
        """Why it has waited too long; None if it has not."""

    def give_up(self, reason: str) -> None:
        """Close it."""


class SeldomLog:
    """Counts trouble that clients cause, and logs it at most once a minute for each kind: a flood
    of requests must not become a flood of lines."""

    def __init__(self, counts: Counter[str]) -> None:
        self.counts = counts
        self._logged: dict[str, tuple[float, int]] = {}  # when, and how many there were then

    def note(self, reason: str, message: str, address: str = "") -> None:
        """Count one case."""
        self.counts[reason] += 1
        at, before = self._logged.get(reason, (-SELDOM, 0))
        now = time.monotonic()
        if now - at >= SELDOM:
            self._logged[reason] = now, self.counts[reason]
            facts = {"reason": reason, "times": self.counts[reason] - before}
            logger.warning(message, extra=facts | ({"address": address} if address else {}))


class RequestBudget:
    """Requests a second that the connections of one address may make without a token. Whoever asks
    for more waits its turn, so that a refusal costs the service nothing."""

    def __init__(self, rate: float) -> None:
        self._rate, self._level, self._at = rate, rate, time.monotonic()

    def wait(self) -> float:
        """Take a turn; the seconds until it comes."""
        now = time.monotonic()
        self._level = min(self._rate, self._level + (now - self._at) * self._rate) - 1.0
        self._at = now
        return max(0.0, -self._level / self._rate)


class AddressConnections:
    """The connections of one address: longest without an answer first."""

    def __init__(self, rate: float) -> None:
        self.strangers: OrderedDict[Connection, None] = OrderedDict()  # have shown no token
        self.known: OrderedDict[Connection, None] = OrderedDict()
        self.budget = RequestBudget(rate)

    def __len__(self) -> int:
        return len(self.strangers) + len(self.known)

    def longest_waiting(self) -> Connection | None:
        """The connection that is missed least: one without a token if there is one."""
        return next((found for line in (self.strangers, self.known) for found in line if found.is_waiting), None)


class Connections:
    """All connections of a server. Belongs to its event loop.

    When there are too many, the new one takes the place of the one that has waited longest for its
    client; only if none waits is the new one refused. So silent connections lock nobody out. An
    address that has its share pays with its own; otherwise the address with the most pays.
    """

    def __init__(self, settings: ServiceSettings, stats: Stats) -> None:
        self.settings, self.stats = settings, stats
        self.log = SeldomLog(stats.refused)
        self.most = min(settings.most_connections, descriptor_limit() - RESERVED_DESCRIPTORS)
        if self.most < settings.most_connections:
            facts = {"asked": settings.most_connections, "in_force": self.most}
            logger.warning("most_connections is lowered to what the limit of open files allows", extra=facts)
        deadlines = (settings.head_deadline, settings.body_deadline, settings.keep_alive, settings.unread_deadline)
        self._period = min(1.0, min(deadlines) / 4)
        self._addresses: dict[str, AddressConnections] = {}
        self._places: dict[Connection, str] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._places)

    def admit(self, connection: Connection, host: str) -> bool:
        """Make room for a connection; False if there is none."""
        address = network(host)
        group = self._addresses.get(address)
        if group is not None and len(group) >= self.settings.most_connections_per_address and not self._close_one(group):
            self.log.note("address_full", "an address has too many connections at work", address)
            return False
        if len(self) >= self.most and not self._close_one(max(self._addresses.values(), key=len)):
            self.log.note("full", "there are too many connections at work", address)
            return False
        group = self._addresses.setdefault(address, AddressConnections(self.settings.stranger_rate))
        group.strangers[connection] = None
        connection.line = group.strangers
        self._places[connection] = address
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._period, self._sweep)
        return True

    def recognise(self, connection: Connection) -> None:
        """A connection has shown a token, or needs none."""
        address = self._places.get(connection)
        if address is not None:
            group = self._addresses[address]
            group.strangers.pop(connection, None)
            group.known[connection] = None
            connection.line = group.known

    def budget(self, connection: Connection) -> RequestBudget | None:
        """What the address of a connection may do without a token; None if there is no limit."""
        address = self._places.get(connection)
        return None if address is None or not self.settings.stranger_rate else self._addresses[address].budget

    def forget(self, connection: Connection) -> None:
        """A connection is gone."""
        address = self._places.pop(connection, None)
        if address is None:
            return
        connection.line.pop(connection, None)
        if not len(self._addresses[address]):
            del self._addresses[address]

    def _close_one(self, group: AddressConnections) -> bool:
        """Close the connection of a group that has waited longest; False if none waits."""
        found = group.longest_waiting()
        if found is None:
            return False
        self.log.note("crowded_out", "there are many connections: those that wait for their clients are closed")
        self.forget(found)
        found.give_up("crowded_out")
        return True

    def _sweep(self) -> None:
        """Close what is overdue. One timer for all costs less than one for each request."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        for connection in list(self._places):
            reason = connection.overdue(now)
            if reason is not None:
                if reason != "idle":
                    self.log.note(
                        reason, "connections are closed because their clients take too long", self._places[connection]
                    )
                connection.give_up(reason)
        self._timer = loop.call_later(self._period, self._sweep) if self._places else None


def network(host: str) -> str:
    """Whose an address is: itself, or the 64 bits of an IPv6 address that one customer gets.

    >>> network("192.0.2.1"), network("2001:db8::1"), network("::ffff:192.0.2.1"), network("")
    ('192.0.2.1', '2001:db8:0:0', '192.0.2.1', '')
    """
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if not isinstance(address, IPv6Address):
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return ":".join(f"{int(part, 16):x}" for part in address.exploded.split(":")[:4])


def descriptor_limit() -> int:
    """How many files and connections the process may have open at a time."""
    try:
        import resource
    except ImportError:  # not on Windows, which has no such limit
        return 2**20
    return min(resource.getrlimit(resource.RLIMIT_NOFILE)[0] % 2**63, 2**20)


def raise_descriptor_limit() -> None:
    """Allow the process as many open files as the system lets it have: the usual limit of a shell
    is 1,024, which is few connections."""
    try:
        import resource
    except ImportError:  # not on Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
