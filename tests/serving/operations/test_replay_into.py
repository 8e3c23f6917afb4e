"""The same log under another policy: a new store in which it learned everything, and every id is valid."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from graphbandit.cli import app
from graphbandit.serving import EventStore, RecommendationService, Request, Reward, replay_from_zero
from graphbandit.serving.domain import proposals
from graphbandit.serving.operations.compaction import compact
from graphbandit.serving.operations.replay import replay_into
from graphbandit.serving.operations.verify import verify
from serving_zoo import USERS, fingerprint, small_initial_state


def used(folder: Path) -> list[str]:
    url = f"sqlite:///{folder}/old.db"
    service = RecommendationService.open(EventStore(url), folder / "old", small_initial_state("linucb", epsilon=0.1))
    ids = []
    for step in range(40):
        ids += service.recommend([Request(USERS[step % 5])], f"key-{step}").ids
        if step % 3:
            service.reward([Reward(ids[-1], step / 10)])
    service.change(proposals.put_user(service.state, "new", {"ann": 2.0}))
    service.retract(ids[4])
    service.close()
    compact(url, 10**18)
    return ids


def test_another_policy_learns_the_same_log(tmp_path: Path) -> None:
    ids = used(tmp_path)

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    old, new = f"sqlite:///{tmp_path}/old.db", f"sqlite:///{tmp_path}/new.db"
    shown: list[tuple[int, int]] = []
    settings = {"policy": "adaptive", "params": {"half_life": 50.0}}
    with pytest.raises(KeyboardInterrupt):
        replay_into(old, new, tmp_path / "new", settings, show=stop)
    done = replay_into(old, new, tmp_path / "new", settings, show=lambda done, total: shown.append((done, total)))
    assert done.decisions == 40 and done.rewards == 25 and done.refused == 0 and shown[-1] == (done.events, done.events)
    assert verify(new, tmp_path / "new").problems == []
    service = RecommendationService.open(EventStore(new), tmp_path / "new")
    assert service.snapshot_seq == done.events
    initial = service.store.initial_state()
    assert (initial.policy, initial.params, initial.epsilon) == ("adaptive", {"half_life": 50.0}, 0.1)
    assert fingerprint(service.state) == fingerprint(replay_from_zero(service.store))
    source = EventStore(old)
    source.attach()
    assert [event[:-1] for page in service.store.read() for event in page] == [
        event[:-1] for page in source.read() for event in page
    ]
    assert service.reward([Reward(ids[0], 1.0), Reward(ids[1], 5.0)]).duplicates == 1
    again = service.recommend([Request("ann")], "key-0")
    assert again.ids == [ids[0]] and not again.is_new
    service.close()
    with pytest.raises(ValueError, match="has a log already"):
        replay_into(old, new, tmp_path / "new", settings)


def test_the_command_takes_settings(tmp_path: Path) -> None:
    used(tmp_path)
    words = ["store", "replay", "--store", f"sqlite:///{tmp_path}/old.db", "--to", f"sqlite:///{tmp_path}/new.db", "--quiet"]
    for more, said in (
        (["--policy", "best"], "policy must be one of"),
        (["--set", "size"], "NAME=VALUE"),
        (["--set", "x=1"], "x"),
    ):
        wrong = CliRunner().invoke(app, [*words, *more])
        assert wrong.exit_code == 2 and said in wrong.output, wrong.output
        assert not (tmp_path / "new.db").exists()
    done = CliRunner().invoke(app, [*words, "--policy", "adaptive", "--set", "half_life=200", "--epsilon", "0"])
    assert done.exit_code == 0 and "40 decisions as they were made, 25 rewards learned." in done.output, done.output
