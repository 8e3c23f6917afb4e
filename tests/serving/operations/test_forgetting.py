"""A person who is forgotten never was: equal states, no byte of the name, everybody else's ids valid."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from graphbandit.cli import app
from graphbandit.serving import EventStore, InitialState, RecommendationService, Request, Reward, UnknownName, replay_from_zero
from graphbandit.serving.domain import policy_changes, proposals
from graphbandit.serving.domain.events import Draft, EventKind, encode
from graphbandit.serving.domain.experiment import experiment_body
from graphbandit.serving.domain.policy_changes import ProposedChange
from graphbandit.serving.domain.service_state import digest
from graphbandit.serving.domain.shadow import parse_policy
from graphbandit.serving.operations.compaction import compact
from graphbandit.serving.operations.forgetting import forget_user, initial_state_without
from graphbandit.serving.operations.importing import import_history
from graphbandit.serving.operations.verify import verify
from graphbandit.serving.store.snapshots import Snapshots
from graphbandit.tables import write_table
from serving_zoo import ARMS, USERS, fingerprint, new_database, small_initial_state

PERSON = "Wilhelmina-31415"
OTHERS = (*USERS, "kim")


def opened(folder: Path, policy: str, person: str | None, url: str | None = None) -> RecommendationService:
    """Open a service whose graph has the person among its first users, or does not."""
    folder.mkdir(exist_ok=True)
    initial = small_initial_state(policy)
    if person is not None:
        from graphbandit import graphs

        graph = graphs.from_edges(
            [(person, "ann"), (person, "eve"), ("ann", "bob"), ("bob", "eve")], ids=["ann", person, "bob", "eve"]
        )
    else:
        from graphbandit import graphs

        graph = graphs.from_edges([("ann", "bob"), ("bob", "eve")], ids=["ann", "bob", "eve"])
    initial = InitialState(graph, ARMS, initial.features, initial.attributes, policy=policy)
    return RecommendationService.open(EventStore(url or f"sqlite:///{folder}/state.db"), folder / "snapshots", initial)


def use(service: RecommendationService, person: str | None, folder: Path) -> list[tuple[str, int]]:
    """Make the same history for all others, with or without the person; return ids of open decisions with their step."""
    rng, state, ids = np.random.default_rng(0), service.state, list[tuple[str, int]]()
    log: dict[str, list[Any]] = {
        "user": ["ann", PERSON, "lea", PERSON],
        "arm": ["tea"] * 4,
        "reward": [1.0, 2.0, 3.0, 4.0],
        "propensity": [0.5] * 4,
    }
    kept = [k for k, name in enumerate(log["user"]) if person or name != PERSON]
    write_table(folder / "log.parquet", {name: [column[k] for k in kept] for name, column in log.items()})
    import_history(service, folder / "log.parquet")
    (folder / "log.parquet").unlink()
    for step in range(25):
        user, value, arm = OTHERS[int(rng.integers(6))], float(rng.standard_normal()), ARMS[int(rng.integers(5))]
        requests = [Request(user, [arm]), *([Request(person, [arm])] if person else []), Request("bob", ["tea"])]
        batch = service.recommend(requests, f"batch-{step}-{person}" if step % 2 else None)
        names = batch.ids if not person else [batch.ids[0], batch.ids[2]]
        service.reward([Reward(names[0], value)])
        ids.append((names[1], step))
        if person:
            single = service.recommend([Request(person, [arm])], f"{person}-{step}").ids[0]
            service.reward([Reward(batch.ids[1], 9.0), Reward(single, -9.0)])
            if step == 7:
                service.retract(single)
        edges: dict[str, float] = {"ann": 1.0} | ({person: 2.0} if person else {})
        if step == 5:
            service.change(proposals.put_user(state, "zed", edges))
        if step == 9 and person:
            service.change(proposals.put_edge(service.state, person, "zed", 3.0))
            service.change(proposals.delete_user(service.state, person))  # and comes back
        if step == 12:
            service.change(proposals.put_user(service.state, "yan", {"zed": 0.5}))
    return ids


def never_were(service: RecommendationService) -> str:
    """Return a hash of the state without the numbers of its events."""
    header, arrays = service.state.pack()
    return digest(
        {name: value for name, value in header.items() if name not in ("seq", "chain", "retracted")},
        {name: array for name, array in arrays.items() if name != "latest"},
    )


def bytes_with(folder: Path, text: str) -> list[str]:
    return [str(path) for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


@pytest.mark.parametrize("archive", [False, True])
@pytest.mark.parametrize("policy", ["linucb", "adaptive"])
def test_the_state_is_that_of_a_log_in_which_they_never_were(tmp_path: Path, policy: str, archive: bool) -> None:
    without = opened(tmp_path / "without", policy, None)
    use(without, None, tmp_path / "without")
    folder = tmp_path / "with"
    service = opened(folder, policy, PERSON)
    ids = use(service, PERSON, folder)
    service.close()
    url = f"sqlite:///{folder}/state.db"
    if archive:
        compact(url, service.state.seq and _time_of(url, 60))
    assert bytes_with(folder, PERSON)
    done = forget_user(url, PERSON, folder / "snapshots")
    assert done.was_known and done.events > 50
    assert bytes_with(folder, PERSON) == []
    assert verify(url, folder / "snapshots").problems == []
    service = RecommendationService.open(EventStore(url), folder / "snapshots")
    assert service.snapshot_seq == service.state.seq  # a new snapshot was written
    assert fingerprint(service.state) == fingerprint(replay_from_zero(service.store))
    assert never_were(service) == never_were(without)
    assert PERSON not in service.state.names
    open_ids = [name for name, step in ids if step > 20]
    assert service.reward([Reward(name, 1.0) for name in open_ids]).accepted == 4
    [epoch, seq, _] = open_ids[0].split(".")
    with pytest.raises(UnknownName):
        service.reward([Reward(f"{epoch}.{seq}.1", 1.0)])  # theirs, in the same batch
    service.close()
    without.close()
    assert not forget_user(url, PERSON, folder / "snapshots").was_known  # again


def test_a_shadow_and_an_experiment_forget_as_well(tmp_path: Path) -> None:
    """The state of both policies, the clusters and the sums of the experiment are those of a log without the person."""
    states = []
    for person, folder in ((None, tmp_path / "without"), (PERSON, tmp_path / "with")):
        service = opened(folder, "linucb", person)
        state = service.state
        assert state.spec is not None
        service.change(policy_changes.begin_shadow(state, parse_policy("adaptive", state.spec)))
        rows = {"ann": 0, PERSON: 1, "bob": 0, "eve": 1}
        body = experiment_body([cluster for name, cluster in rows.items() if person or name != PERSON], [1], 0.5, None, 0, 0.0)
        service.change(ProposedChange(Draft(EventKind.EXPERIMENT_BEGUN, 1, encode(body))))
        for step in range(12):
            for user in ("ann", "bob", "eve", *([person] if person else [])):
                made = service.recommend([Request(user, [ARMS[step % 5]])])
                service.reward([Reward(made.ids[0], float(step % 3))])
        service.close()
        states.append(service)
    without, service = states
    url, snapshots = f"sqlite:///{tmp_path}/with/state.db", tmp_path / "with" / "snapshots"
    assert forget_user(url, PERSON, snapshots).was_known
    assert verify(url, snapshots).problems == [] and bytes_with(tmp_path / "with", PERSON) == []
    found = RecommendationService.open(EventStore(url), snapshots)
    mine, theirs = found.state, without.state
    assert mine.shadow is not None and theirs.shadow is not None
    assert mine.policy.theta.tolist() == theirs.policy.theta.tolist()
    assert mine.shadow.theta.tolist() == theirs.shadow.theta.tolist()
    assert mine.experiment is not None and theirs.experiment is not None
    assert mine.experiment.pack()[1]["sums"].tolist() == theirs.experiment.pack()[1]["sums"].tolist()
    assert fingerprint(mine) == fingerprint(replay_from_zero(found.store))
    found.close()


def _time_of(url: str, seq: int) -> int:
    store = EventStore(url)
    store.attach()
    event = store.find(seq)
    store.close()
    assert event is not None
    return event.at


@pytest.mark.parametrize("when", ["insert_events", "remove_orphans"])
def test_killed_in_between_it_is_done_or_not_begun(tmp_path: Path, when: str) -> None:
    service = opened(tmp_path, "linucb", PERSON)
    use(service, PERSON, tmp_path)
    service.close()
    url = f"sqlite:///{tmp_path}/state.db"
    compact(url, _time_of(url, 60))
    script = f"""
import os, signal
from pathlib import Path
from graphbandit.serving.operations import forgetting
setattr(forgetting, {when!r}, lambda *given: os.kill(os.getpid(), signal.SIGKILL))
forgetting.forget_user({url!r}, {PERSON!r}, Path({str(tmp_path / "snapshots")!r}))
"""
    done = subprocess.run([sys.executable, "-c", script], env=os.environ | {"NUMBA_DISABLE_JIT": "1"}, check=False)
    assert done.returncode == -signal.SIGKILL
    assert verify(url).problems == []
    forget_user(url, PERSON, tmp_path / "snapshots")
    assert bytes_with(tmp_path, PERSON) == [] and verify(url, tmp_path / "snapshots").problems == []


def test_a_snapshot_from_before_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed after its commit, `forget_user` leaves snapshots whose rows the log does not have any more."""
    service = opened(tmp_path, "linucb", PERSON)
    service.recommend([Request("ann")])  # no event speaks of the person, who is only in the initial state
    service.close()
    url = f"sqlite:///{tmp_path}/state.db"
    with monkeypatch.context() as patch:
        patch.setattr(Snapshots, "remove_all", lambda self: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            forget_user(url, PERSON, tmp_path / "snapshots")
    assert bytes_with(tmp_path / "snapshots", PERSON)
    service = RecommendationService.open(EventStore(url), tmp_path / "snapshots")
    assert PERSON not in service.state.names and not bytes_with(tmp_path / "snapshots", PERSON)
    service.reward([Reward(service.recommend([Request("eve")]).ids[0], 1.0)])
    assert fingerprint(service.state) == fingerprint(replay_from_zero(service.store))
    service.close()
    assert verify(url, tmp_path / "snapshots").problems == []


def test_on_postgresql(tmp_path: Path, postgres: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    url = new_database(postgres)
    without = opened(tmp_path / "without", "linucb", None)
    use(without, None, tmp_path / "without")
    service = opened(tmp_path, "linucb", PERSON, url)
    use(service, PERSON, tmp_path)
    service.close()
    compact(url, _time_of(url, 60))
    forget_user(url, PERSON, tmp_path / "snapshots")
    store = EventStore(url)
    service = RecommendationService.open(store, tmp_path / "snapshots")
    assert never_were(service) == never_were(without)
    assert all(PERSON not in event.body + str(event.key) for page in store.read() for event in page)
    service.close()
    without.close()


def test_the_only_user_of_a_graph_leaves_nobody() -> None:
    from graphbandit import graphs

    alone = InitialState(graphs.from_edges([], ids=["ann"]), ["tea"], np.eye(1), [{}])
    assert initial_state_without(alone, "ann").users == [] and initial_state_without(alone, "bob") is alone


def test_a_model_forgets_the_name(tmp_path: Path) -> None:
    from graphbandit import Recommender

    people: dict[str, Any] = {"user": ["ann", PERSON, "eve"], "age": [20, 30, 40]}
    recommender = Recommender({"user": ["ann"], "friend": [PERSON]}, {"item": ["tea", "cola"], "price": [1, 2]}, users=people)
    recommender.fit({"user": ["ann", PERSON, "eve"], "item": ["tea", "cola", "cola"], "reward": [1.0, 0.0, 0.5]})
    recommender.recommend(PERSON)
    recommender.save(tmp_path / "model.gb")
    initial = InitialState.from_model((tmp_path / "model.gb").read_bytes())
    (tmp_path / "model.gb").unlink()
    service = RecommendationService.open(EventStore(f"sqlite:///{tmp_path}/state.db"), tmp_path / "snapshots", initial)
    logged = service.recommend([Request(PERSON), Request("eve")])
    service.reward([Reward(logged.ids[0], 1.0), Reward(logged.ids[1], 1.0)])
    service.close()
    forget_user(f"sqlite:///{tmp_path}/state.db", PERSON, tmp_path / "snapshots")
    assert bytes_with(tmp_path, PERSON) == []
    service = RecommendationService.open(EventStore(f"sqlite:///{tmp_path}/state.db"), tmp_path / "snapshots")
    state = service.state
    assert [state.policy.n_observations(state.rows[name]) for name in ("ann", "eve")] == [1, 2]
    assert fingerprint(service.state) == fingerprint(replay_from_zero(service.store))
    service.close()


def test_the_command(tmp_path: Path) -> None:
    service = opened(tmp_path, "linucb", PERSON)
    use(service, PERSON, tmp_path)
    service.close()
    words = [
        "store",
        "forget-user",
        PERSON,
        "--store",
        f"sqlite:///{tmp_path}/state.db",
        "--snapshots",
        str(tmp_path / "snapshots"),
    ]
    done = CliRunner().invoke(app, [*words, "--quiet"])
    assert done.exit_code == 0 and "is erased" in done.output, done.output
    assert "there is no user" in CliRunner().invoke(app, [*words, "--quiet"]).output


@pytest.mark.parametrize("archive", [False, True])
def test_keys_of_events_about_others_lose_the_name(tmp_path: Path, archive: bool) -> None:
    service = opened(tmp_path, "linucb", PERSON)
    keys = [f"ann-for-{PERSON}", f"{PERSON}_2", f"x{PERSON}9", "plain"]
    ids = [service.recommend([Request("ann", ["tea"])], key).ids[0] for key in keys]
    service.recommend([Request("bob"), Request("eve")], f"batch {PERSON}")
    service.change(proposals.put_user(service.state, "zed", {}))
    service.close()
    url = f"sqlite:///{tmp_path}/state.db"
    if archive:
        compact(url, _time_of(url, 6))
    done = forget_user(url, PERSON, tmp_path / "snapshots")
    assert done.was_known and done.events == 3
    store = EventStore(url)
    store.attach()
    found = [event.key for page in store.read() for event in page]
    assert found == [None, None, f"kx{PERSON}9", "kplain", None, None]  # a word that only contains the name stays
    store.close()
    assert verify(url, tmp_path / "snapshots").problems == []
    service = RecommendationService.open(EventStore(url), tmp_path / "snapshots")
    service.recommend([Request("ann", ["tea"])], f"late-{PERSON}")
    if not archive:
        assert service.recommend([Request("ann", ["tea"])], "plain").ids == [ids[3]]
        assert service.reward([Reward(name, 1.0) for name in ids]).accepted == 4
    service.close()
    assert forget_user(url, PERSON, tmp_path / "snapshots").events == 1  # though nobody is called so any more
    assert not forget_user(url, PERSON, tmp_path / "snapshots").was_known
