"""Any history of a store, whatever was interrupted, loses no acknowledged event and duplicates none.

Its state is that of a replay from zero. Processes serve, import, compact, forget, are copied, and are killed before
or after any commit, rename or removal of a file.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from sqlalchemy import Connection

from graphbandit.serving import EventStore, RecommendationService, Request, Reward, UnknownName, replay_from_zero
from graphbandit.serving.domain import proposals
from graphbandit.serving.domain.events import EventKind, decision_id, parse_decisions, parse_import, parse_reward
from graphbandit.serving.operations import compaction
from graphbandit.serving.operations.compaction import compact
from graphbandit.serving.operations.forgetting import forget_user
from graphbandit.serving.operations.importing import import_history
from graphbandit.serving.operations.verify import verify
from graphbandit.serving.store.database import Database
from graphbandit.serving.store.event_archive import archive_folder
from serving_zoo import USERS, fingerprint, new_database, small_initial_state

PEOPLE = (*USERS, "new", "newer")
people = st.sampled_from(PEOPLE)
deeds = st.lists(
    st.one_of(
        st.tuples(st.just("decide"), people),
        st.tuples(st.just("reward"), st.integers(0, 9)),
        st.tuples(st.just("retract"), st.integers(0, 9)),
        st.tuples(st.just("put"), people, people),
        st.tuples(st.just("delete"), people),
        st.tuples(st.just("snapshot")),
    ),
    max_size=6,
)
kills = st.integers(3, 40)  # boundaries, after those of `open`; a process that passes fewer of them ends by itself


class Killed(BaseException):
    """The process has ended."""


class Life:
    """A process that ends at a boundary: before or after a commit, a rename, or the removal of a file.

    After its end, it does nothing any more.
    """

    def __init__(self, end: int | None) -> None:
        self.left = end

    def boundary(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left <= 0:
                raise Killed

    @contextmanager
    def lived(self) -> Iterator[None]:
        patch = pytest.MonkeyPatch()
        transaction = Database.transaction

        @contextmanager
        def guarded(database: Database, limit: float | None = None) -> Iterator[Connection]:
            with transaction(database, limit) as connection:
                yield connection
                self.boundary()
            self.boundary()

        patch.setattr(Database, "transaction", guarded)
        for owner, name in ((Path, "replace"), (Path, "unlink"), (Database, "vacuum")):
            patch.setattr(owner, name, self._around(getattr(owner, name)))
        try:
            yield
        except Killed:
            pass
        finally:
            patch.undo()

    def _around(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            self.boundary()
            result = original(*given, **named)
            self.boundary()
            return result

        return call


class StoreMachine(RuleBasedStateMachine):
    """One store, and what was acknowledged."""

    new_store: Callable[[], str]  # set by the test
    copy_of: Callable[[str], str]

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="graphbandit-histories-"))
        self.patch = pytest.MonkeyPatch()
        self.patch.chdir(self.folder)
        self.patch.setattr(compaction, "PART", 3)
        self.url, self.snapshots = self.__class__.new_store(), self.folder / "snapshots"
        self.decided: dict[str, str] = {}  # id: user; of decisions that were acknowledged
        self.rewarded: dict[str, float] = {}  # id: value
        self.maybe: dict[str, float] = {}  # the same, without an answer
        self.imported: dict[int, int] = {}  # table: rewards of it that must be there
        self.thinned: set[int] = set()  # tables of which rows may have been forgotten
        self.files = 0  # that were imported, or begun
        self.given_out: set[str] = set()  # ids, also of what was given up
        self.unknown: set[str] = set()  # people of whom a kill left it open whether they are forgotten
        with closing(EventStore(self.url)) as store:
            store.open(small_initial_state())

    def live(self, end: int | None) -> AbstractContextManager[None]:
        self.life = Life(end)
        return self.life.lived()

    def teardown(self) -> None:
        self.patch.undo()
        shutil.rmtree(self.folder, ignore_errors=True)

    @rule(one=deeds, two=deeds, end=kills, is_clean=st.booleans())
    def serve(self, one: list[tuple[Any, ...]], two: list[tuple[Any, ...]], end: int | None, is_clean: bool) -> None:
        """Serve with one process on SQLite, and with two that take turns on PostgreSQL."""
        services: list[RecommendationService] = []
        with self.live(end):
            try:
                for _ in range(1 if self.url.startswith("sqlite") else 2):
                    services.append(RecommendationService.open(EventStore(self.url), self.snapshots))
                for first, second in zip_longest([("decide", "ann"), ("reward", 0), *one], [None, *two]):
                    for service, deed in ((services[0], first), (services[-1], second)):
                        if deed is not None:
                            service.apply(service.store.follow())
                            self.do(service, *deed)
                states = []
                for service in services:
                    service.commit([])
                    states.append(fingerprint(service.state))
                assert len(set(states)) == 1
                for service in services if is_clean else []:
                    service.close()
            finally:
                for service in services:
                    service.snapshots.close()
                    service.store.close()

    def do(self, service: RecommendationService, name: str, *given: Any) -> None:
        state = service.state
        ids = list(self.decided)
        try:
            if name == "decide":
                [made] = service.recommend([Request(given[0])]).ids
                assert made not in self.given_out
                self.given_out.add(made)
                self.decided[made] = given[0]
            elif name == "snapshot":
                service.snapshot()
            elif name == "put":
                service.change(proposals.put_user(state, given[0], {given[1]: 1.0} if given[1] in state.rows else {}))
            elif name == "delete":
                service.change(proposals.delete_user(state, given[0]))
            elif ids and name == "reward":
                decision = ids[-1 - given[0] % len(ids)]
                value = self.rewarded.get(decision, self.maybe.get(decision, 0.1 * len(self.rewarded)))
                self.maybe[decision] = value
                assert sum(service.reward([Reward(decision, value)])) == 1
                self.rewarded[decision] = self.maybe.pop(decision)
            elif ids:
                service.retract(ids[-1 - given[0] % len(ids)])
        except UnknownName as error:
            if name not in ("put", "delete", "retract") and "archived" not in str(error) and not self.unknown:
                raise
            if name == "reward":
                self.maybe.pop(decision, None)
        except ValueError:  # refused: an edge to itself
            assert name == "put"

    @rule(who=people, again=st.booleans(), end=kills)
    def import_table(self, who: str, again: bool, end: int | None) -> None:
        """Import a table that is new, or run an import again that may have been interrupted."""
        if not again or not self.files:
            self.files += 1
            path = self.folder / f"{self.files}.csv"
            path.write_text(f"user,arm,reward\n{who},tea,{self.files}\nann,coffee,0.5\n{who},tea,0.25\n")
        path = self.folder / f"{self.files}.csv"
        is_whole = False
        with self.live(end):
            service = None
            try:
                service = RecommendationService.open(EventStore(self.url), self.snapshots)
                import_history(service, path)
                is_whole = True
                service.close()
            finally:
                if service is not None:
                    service.snapshots.close()
                    service.store.close()
        if is_whole:
            self.imported[self.files] = 0 if self.files in self.thinned else 3

    @rule(share=st.sampled_from([0.3, 0.7, 1.0]), end=kills)
    def compact(self, share: float, end: int | None) -> None:
        with closing(EventStore(self.url)) as store:
            store.attach()
            at = [event.at for page in store.read() for event in page]
        with self.live(end):
            try:
                compact(self.url, at[int(share * (len(at) - 1))] if at else 0)
            except ValueError as error:
                if "a copy of" not in str(error):
                    raise

    @rule(who=people, end=kills)
    def forget(self, who: str, end: int | None) -> None:
        is_done = False
        with self.live(end):
            try:
                forget_user(self.url, who, self.snapshots)
                is_done = True
            except ValueError as error:
                if "a copy of" not in str(error):
                    raise
                return
        self.unknown.add(who)
        self.thinned |= set(range(1, self.files + 1))
        self.imported = dict.fromkeys(self.imported, 0)
        if is_done:
            self.unknown.discard(who)
            for name in [name for name, user in self.decided.items() if user == who]:
                for known in (self.decided, self.rewarded, self.maybe):
                    known.pop(name, None)

    @rule(one=deeds, has_archive=st.booleans(), is_restored=st.booleans())
    def copy(self, one: list[tuple[Any, ...]], has_archive: bool, is_restored: bool) -> None:
        """Copy the database, and perhaps the folder of its archive. The original goes on; then the copy may take its place."""
        url = self.__class__.copy_of(self.url)
        with closing(EventStore(url)) as store:
            store.attach()
            own = archive_folder(store.database.url, store.name)
            if has_archive and store.archive.folder.is_dir() and own != store.archive.folder:
                shutil.copytree(store.archive.folder, own)
        kept: tuple[Any, ...] = dict(self.decided), dict(self.rewarded), dict(self.maybe)
        imported, unknown = dict(self.imported), set(self.unknown)
        self.serve(one, [], None, True)
        assert verify(url).problems == []
        if is_restored:  # what came after the copy is given up
            self.url, self.imported, self.unknown = url, imported, unknown
            self.decided, self.rewarded, self.maybe = kept

    @invariant()
    def nothing_is_lost_or_twice(self) -> None:
        assert verify(self.url).problems == []
        service = RecommendationService.open(EventStore(self.url), self.snapshots)
        try:
            assert fingerprint(service.state) == fingerprint(replay_from_zero(service.store))
            log = [event for page in service.store.read() for event in page]
        finally:
            service.snapshots.close()
            service.store.close()
        rewards = [parse_reward(event.body) for event in log if event.kind == EventKind.REWARDED]
        found = {decision_id(one.epoch, one.decision, one.item): one.value for one in rewards}
        made = [
            decision_id(event.epoch, event.seq, item)
            for event in log
            if event.kind == EventKind.DECIDED
            for item, _ in enumerate(parse_decisions(event.body))
        ]
        assert len(found) == len(rewards) and len(set(made)) == len(made)

        def sure(known: dict[str, Any]) -> dict[str, Any]:
            return {name: value for name, value in known.items() if self.decided[name] not in self.unknown}

        assert sure(self.decided).keys() <= set(made)
        assert sure(self.rewarded).items() <= found.items()
        assert found.keys() - self.rewarded.keys() <= self.maybe.keys()
        assert all(found[name] == value for name, value in self.maybe.items() if name in found)
        tables = [parse_import(event.body) for event in log if event.kind == EventKind.IMPORTED]
        ended = [table.file for table in tables if table.file is not None]
        assert len(ended) == len(set(ended)) and {f"{number}.csv" for number in self.imported} <= set(ended)
        assert sum(self.imported.values()) <= sum(len(table.users) for table in tables) <= 3 * self.files


def histories(kind: type[StoreMachine], n: int, steps: int) -> None:
    run_state_machine_as_test(kind, settings=settings(max_examples=n, stateful_step_count=steps, deadline=None))


def on_sqlite() -> type[StoreMachine]:
    def new() -> str:
        return f"sqlite:///{Path.cwd()}/{len(list(Path.cwd().glob('*.db')))}.db"

    def copied(source: str) -> str:
        target = new()
        before, after = (sqlite3.connect(url.removeprefix("sqlite:///")) for url in (source, target))
        before.backup(after)
        before.close()
        after.close()
        return target

    return type("OnSqlite", (StoreMachine,), {"new_store": staticmethod(new), "copy_of": staticmethod(copied)})


def on_postgresql(server: str) -> type[StoreMachine]:
    def new() -> str:
        return new_database(server)

    def copied(source: str) -> str:
        return new_database(server, source.split("?")[0].rsplit("/", 1)[1])

    return type("OnPostgresql", (StoreMachine,), {"new_store": staticmethod(new), "copy_of": staticmethod(copied)})


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_few_histories(kind: str, request: pytest.FixtureRequest) -> None:
    machine = on_sqlite() if kind == "sqlite" else on_postgresql(request.getfixturevalue("postgres"))
    histories(machine, 6 if kind == "sqlite" else 3, 8)


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
@pytest.mark.parametrize("tool", ["serve", "import_table", "compact", "forget"])
def test_a_process_is_killed_at_every_boundary(tool: str, kind: str, request: pytest.FixtureRequest) -> None:
    machine = on_sqlite() if kind == "sqlite" else on_postgresql(request.getfixturevalue("postgres"))
    store = machine()
    some: list[tuple[Any, ...]] = [("decide", "bob"), ("put", "new", "bob"), ("reward", 0)]
    given: dict[str, tuple[Any, ...]] = {"serve": (some, some), "import_table": ("newer", False), "compact": (0.7,)}
    more = (True,) if tool == "serve" else ()
    try:
        store.serve(some, some, None, True)
        store.compact(0.5, None)
        end, is_dead = 0, True
        while is_dead:
            end += 1
            store.serve(some, [], None, False)
            getattr(store, tool)(*given.get(tool, ("ann",)), end, *more)
            is_dead = store.life.left is not None and store.life.left <= 0
            store.nothing_is_lost_or_twice()
        assert end > 8
    finally:
        store.teardown()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_many_histories(kind: str, request: pytest.FixtureRequest) -> None:
    machine = on_sqlite() if kind == "sqlite" else on_postgresql(request.getfixturevalue("postgres"))
    histories(machine, 150 if kind == "sqlite" else 60, 12)
