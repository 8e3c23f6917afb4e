"""The first look: honest about how it compares, right in worlds where the answer is known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.main import get_command
from typer.testing import CliRunner

from graphbandit.cli import app
from graphbandit.first_look import FirstLook, first_look, write_look
from graphbandit.first_look.contenders import ADAPTIVE, ALONE, CONTENDERS, NO_GRAPH, SHARED
from graphbandit.first_look.lifts import clustered_interval
from graphbandit.first_look.log_rounds import log_rounds, user_by_user
from graphbandit.first_look.look_text import as_text, cannot_tell, headline, protocol, serve_line
from graphbandit.graph_building.events import read_events, split_events
from graphbandit.serving.operations.input_files import read_arms, read_graph
from graphbandit.tables import EVENTS, read_table

N_USERS, N_ITEMS = 60, 40


def two_tastes(n_events: int = 3000, seed: int = 0) -> dict[str, Any]:
    """Users and items of two kinds; a user likes its own kind."""
    rng = np.random.default_rng(seed)
    user, item = rng.integers(N_USERS, size=n_events), rng.integers(N_ITEMS, size=n_events)
    reward = 3.0 + 1.0 * (user % 2 == item % 2) + 0.5 * rng.standard_normal(n_events)
    return {"user": user, "item": item, "reward": reward, "time": np.arange(n_events)}


@pytest.fixture(scope="module")
def look() -> FirstLook:
    return first_look(two_tastes())


def test_tastes_that_differ_are_found(look: FirstLook) -> None:
    assert look.rounds is not None and look.rounds.protocol == "rewards"
    assert look.lifts["at random"].verdict == "more" and look.lifts[SHARED].verdict == "more"
    assert (look.n_events, look.n_users, look.n_items) == (3000, N_USERS, N_ITEMS)
    assert "replay of what was shown" in protocol(look)
    assert {one.name for one in look.played} >= {"at random", ALONE, SHARED, "CLUB", NO_GRAPH}


def test_the_page_has_pictures_if_they_can_be_drawn(look: FirstLook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Candidate graphs; and, if our policy has used one, what it believed in and its users by taste."""
    used = any(one.name == ADAPTIVE for one in look.played)
    assert write_look(look, tmp_path / "with").read_text().count('<img class="plot"') == 1 + 2 * used
    monkeypatch.setattr("graphbandit.plots.drawing.find_spec", lambda name: None)
    assert "<img" not in write_look(look, tmp_path / "without").read_text()


def test_the_page_and_the_files_of_serve_are_written(look: FirstLook, tmp_path: Path) -> None:
    page = write_look(look, tmp_path / "look").read_text()
    for part in (*headline(look), *cannot_tell(look), *look.said, "graphbandit serve"):
        assert part.split("'")[0].split("`")[0] in page
    assert "{{" not in page and "http" not in page.replace("http://www.w3.org", "")
    names, features, _ = read_arms(tmp_path / "look" / "arms.csv")
    assert len(names) == N_ITEMS and features.shape[0] == N_ITEMS
    if look.built.helps:
        assert read_graph(tmp_path / "look" / "edges.csv").n_edges == look.built.graph.n_edges
    history = read_table(tmp_path / "look" / "history.parquet", EVENTS)
    assert len(history) == 3000 and set(history.codes("item")[1]) <= set(names)
    assert sorted(history.numbers("reward")) == pytest.approx(sorted(two_tastes()["reward"]))
    assert "--history look/history.parquet" in as_text(look, "look")
    _, name, *words = serve_line(look, "look").split()
    get_command(app).commands[name].make_context(name, words)  # type: ignore[attr-defined]  # it takes these options
    table = json.loads((tmp_path / "look" / "look.json").read_text())
    assert table["users"] == N_USERS and table["lifts"]["at random"]["verdict"] == "more"
    assert all(sentence[:40] in as_text(look, "look").replace("\n", " ") for sentence in headline(look))


def test_names_of_the_data_are_escaped(tmp_path: Path) -> None:
    events = two_tastes(300)
    events["item"] = [f"<script>{k}" for k in events["item"]]
    page = write_look(first_look(events), tmp_path).read_text()
    assert "<script>" not in page and "&lt;script&gt;" in page


def test_a_log_of_what_was_taken_is_a_replay_of_hits() -> None:
    rng = np.random.default_rng(1)
    user = rng.integers(N_USERS, size=1200)
    item = 2 * rng.integers(N_ITEMS // 2, size=1200) + user % 2  # everybody takes its own kind
    found = first_look({"user": user, "item": item})
    assert found.rounds is not None and found.rounds.protocol == "hits"
    assert all(rewards.sum() == 1 for rewards in found.rounds.rewards)
    assert found.lifts["at random"].verdict == "more" and "only what was taken" in protocol(found)
    seen = set(zip(user.tolist(), item.tolist(), strict=True))
    events = read_events({"user": user, "item": item})[0]
    for who, offer, rewards in list(zip(found.rounds.round_user, found.rounds.offers, found.rounds.rewards, strict=True))[:200]:
        for thing, reward in zip(offer, rewards, strict=True):
            pair = (int(events.user_ids[who]), int(events.item_ids[thing]))
            assert (pair in seen) == (reward == 1), "what was never taken is no hit"


def test_a_log_with_propensities_is_judged_off_policy(tmp_path: Path) -> None:
    events = two_tastes(800) | {"propensity": np.full(800, 1 / N_ITEMS)}
    found = first_look(events)
    assert found.evaluation is not None and found.rounds is None and "propensities" in protocol(found)
    assert "would earn a round" in write_look(found, tmp_path).read_text()


def test_nothing_that_is_judged_was_learned() -> None:
    """Rounds are of later events; settings are tuned on earlier ones."""
    events = read_events(two_tastes())[0]
    split = split_events(events, 0)
    n, everybody = split.n_earlier, np.ones(N_USERS, dtype=np.int64)
    rounds = log_rounds(split, split.reward, n, len(split.user), everybody, 0)
    assert len(rounds.user) == n and np.array_equal(rounds.item, split.item[:n])
    later = set(zip(split.user[n:].tolist(), split.item[n:].tolist(), strict=True))
    assert all(
        (int(who), int(thing)) in later for who, offer in zip(rounds.round_user, rounds.offers, strict=True) for thing in offer
    )
    order, first = user_by_user(split.user[:n], 0.7)
    assert sorted(order.tolist()) == list(range(n)) and 0.65 * n < first < 0.75 * n


def test_intervals_take_the_rounds_of_a_user_as_one() -> None:
    rng = np.random.default_rng(2)
    covered = 0
    for _ in range(200):
        user = np.repeat(np.arange(50), 20)
        values = np.repeat(rng.standard_normal(50), 20) + rng.standard_normal(1000)
        found = clustered_interval(values, user)
        covered += found.low <= 0 <= found.high
    assert 180 <= covered <= 199
    assert clustered_interval(np.ones(10), np.arange(10)).verdict == "too few"


def test_all_contenders_are_tuned_with_the_same_effort() -> None:
    sizes = [len(contender.settings()) for contender in CONTENDERS]
    assert min(sizes) >= 6 and max(sizes) <= 8


def test_the_command_writes_and_says(tmp_path: Path) -> None:
    lines = ["userID,artistID,weight"]
    events = two_tastes(400)
    lines += [f"{u},{i},{r:.3f}" for u, i, r in zip(events["user"], events["item"], events["reward"], strict=True)]
    (tmp_path / "log.csv").write_text("\n".join(lines))
    result = CliRunner().invoke(app, ["start", str(tmp_path / "log.csv"), "--out", str(tmp_path / "out"), "--quiet"])
    assert result.exit_code == 0, result.output
    assert "userID is user, artistID is item, weight is reward" in result.output
    assert "What this cannot tell" in result.output and (tmp_path / "out" / "index.html").exists()
    for name in ("none.csv", "none.parquet"):
        missing = CliRunner().invoke(app, ["start", str(tmp_path / name), "--out", str(tmp_path / "out")])
        assert missing.exit_code == 2 and f"{name}: No such file" in missing.output


def test_a_graph_that_matters_is_used() -> None:
    """Friends like the same kind, rewards are scarce: the given graph is judged beside the others."""
    rng = np.random.default_rng(3)
    pairs = [(i, j) for i in range(N_USERS) for j in range(i + 2, min(i + 8, N_USERS), 2)]
    friends = {"user": [i for i, _ in pairs], "friend": [j for _, j in pairs]}
    found = first_look(two_tastes(800, seed=int(rng.integers(100))), graph=friends)
    assert "given" in {candidate.name for candidate in found.built.candidates}
    if found.built.helps:
        assert ADAPTIVE in {one.name for one in found.played} and found.graph_lift is not None
