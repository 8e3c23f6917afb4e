"""History in: imported rewards are events of the log, learned once, in order of time, and exported as what they are."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

from graphbandit.cli import app
from graphbandit.evaluation import read_decisions, read_export
from graphbandit.serving import EventStore, RecommendationService, Request, Reward, replay_from_zero
from graphbandit.serving.domain.events import EventKind
from graphbandit.serving.operations import importing
from graphbandit.serving.operations.importing import Imported, import_history
from graphbandit.tables import write_table
from serving_zoo import ARMS, USERS, fingerprint, recommend, reward, running, small_initial_state, write_input_files


def history(n: int = 25, seed: int = 0) -> dict[str, list[Any]]:
    """Rewards of known users and of two whom nobody knows, latest first."""
    rng = np.random.default_rng(seed)
    names = [*USERS, "new", "newer"]
    return {
        "user": [names[k] for k in rng.integers(len(names), size=n)],
        "arm": [ARMS[k] for k in rng.integers(len(ARMS), size=n)],
        "reward": rng.standard_normal(n).round(3).tolist(),
        "time": [f"2026-01-01T00:00:{59 - k:02d}" for k in range(n)],
        "propensity": [0.5] * (n - 1) + [None],
    }


def opened(folder: Path, policy: str = "adaptive") -> RecommendationService:
    return RecommendationService.open(
        EventStore(f"sqlite:///{folder}/state.db"), folder / "snapshots", small_initial_state(policy)
    )


def test_imported_rewards_are_learned_in_order_of_time_as_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "REWARDS_PER_EVENT", 4)
    write_table(tmp_path / "events.parquet", history())
    service = opened(tmp_path)
    assert import_history(service, tmp_path / "events.parquet") == Imported(25, 2, 0, False)
    kinds = [event.kind for page in service.store.read() for event in page]
    assert set(kinds) == {EventKind.IMPORTED} and len(kinds) == 1 + 7 + 1  # who joins, the rewards, the end
    by_hand = service.state.new(service.store.initial_state())
    by_hand.join_many(["new", "newer"])
    log = history()
    for row in reversed(range(25)):
        by_hand.learn([service.state.rows[log["user"][row]]], [ARMS.index(log["arm"][row])], [log["reward"][row]])
    for mine, other in zip(service.state.policy.pack()[1].items(), by_hand.policy.pack()[1].items(), strict=True):
        assert mine[0] == other[0] and np.allclose(mine[1], other[1], equal_nan=True), mine[0]
    assert fingerprint(service.state) == fingerprint(replay_from_zero(service.store))
    service.close()


def test_an_import_that_was_interrupted_goes_on_and_counts_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "REWARDS_PER_EVENT", 3)
    monkeypatch.setattr(importing, "EVENTS_PER_TRANSACTION", 2)
    (tmp_path / "whole").mkdir()
    path = tmp_path / "events.csv"
    write_table(path, {name: ["" if cell is None else cell for cell in column] for name, column in history(24).items()})
    whole = opened(tmp_path / "whole")
    import_history(whole, path)

    def stop(share: float) -> None:
        if share > 0.5:
            raise KeyboardInterrupt

    service = opened(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        import_history(service, path, on_import=stop)
    assert 0 < service.state.rewards < 24
    service.close()
    service = opened(tmp_path)
    done = import_history(service, path)
    assert service.state.rewards == 24 and 0 < done.rewards < 24 and not done.was_there
    assert import_history(service, path) == Imported(0, 0, 0, True)
    mine, other = service.state.policy.pack()[1], whole.state.policy.pack()[1]
    assert all(np.array_equal(mine[name], other[name], equal_nan=True) for name in other)
    service.close()
    whole.close()


def test_unknown_arms_and_rewards_out_of_range_are_errors_with_their_row(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text("user,arm,reward\nann,tea,1\nann,gin,1\nbob,tea,7\n")
    service = opened(tmp_path, "linucb")
    with pytest.raises(ValueError, match=r"events.csv: 1 bad row: 1 × there is no such arm \(first: record 2, 'gin'\)"):
        import_history(service, path)
    service.reward_range = (0.0, 1.0)
    said: list[str] = []
    assert import_history(service, path, skip_bad=True, say=said.append) == Imported(1, 0, 2, False)
    assert "2 bad rows skipped: 1 × there is no such arm (first: record 2, 'gin'); 1 × reward must lie" in said[-1]
    path.write_text("user,arm,reward\nann,tea,1\nbob,tea,7\n")
    with pytest.raises(ValueError, match=r"1 × reward must lie between 0 and 1 \(first: record 2, 7.0\)"):
        import_history(service, path)
    service.close()


def test_the_service_imports_before_it_serves_and_exports_what_it_imported(tmp_path: Path) -> None:
    write_table(tmp_path / "events.parquet", history())
    with running(tmp_path, small_initial_state(), history=tmp_path / "events.parquet") as server:
        assert server.http.get("/v1/stats").json()["total_rewards"] == 25
        reward(server, decision=recommend(server)["decision"], value=0.5)
        state = server.http.get("/v1/state").json()
    with running(tmp_path, history=tmp_path / "events.parquet") as server:  # once
        assert server.http.get("/v1/state").json() == state
        for name in ("decisions", "rewards", "arms"):
            (tmp_path / f"{name}.parquet").write_bytes(server.http.get(f"/v1/export/{name}.parquet").content)
    rows = parquet.read_table(io.BytesIO((tmp_path / "rewards.parquet").read_bytes())).to_pylist()
    assert [row["source"] for row in rows] == ["import"] * 25 + ["decision"]
    first, last = rows[0], history()
    assert first["decision"] is None and first["reward"] == last["reward"][-1] and first["propensity"] is None
    assert first["user"] == last["user"][-1] and first["time"].isoformat() == "2026-01-01T00:00:35+00:00"
    assert rows[1]["propensity"] == 0.5 and rows[-1]["decision"] is not None
    assert len(read_export(tmp_path).user) == 1  # one decision of the service
    assert (read_decisions(tmp_path / "rewards.parquet").propensity == 0.5).sum() == 24


def test_the_command_begins_a_store_and_says_what_it_did(tmp_path: Path) -> None:
    graph, arms = write_input_files(tmp_path)
    (tmp_path / "events.csv").write_text("uid,sku,rating\nann,tea,1\neve,cola,0\nann,gin,1\n")
    words = ["import", str(tmp_path / "events.csv"), "--store", f"sqlite:///{tmp_path}/state.db", "--quiet"]
    words += ["--graph", str(graph), "--items", str(arms), "--policy", "linucb", "--columns", "item=sku"]
    wrong = CliRunner().invoke(app, words)
    assert wrong.exit_code == 2 and "1 × there is no such arm (first: record 3, 'gin')" in wrong.output
    done = CliRunner().invoke(app, [*words, "--skip-bad"])
    assert done.exit_code == 0, done.output
    assert "2 rewards were imported; 1 users joined; 1 rows were skipped." in done.output
    again = CliRunner().invoke(app, [*words, "--skip-bad"])
    assert "is in the log already" in again.output
    service = opened(tmp_path)
    logged = service.recommend([Request("eve")])
    service.reward([Reward(logged.ids[0], 1.0)])
    assert service.state.rewards == 3
    service.close()
