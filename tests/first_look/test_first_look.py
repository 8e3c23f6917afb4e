"""The first look: honest about how it compares, right in worlds where the answer is known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from graphbandit.cli import app
from graphbandit.first_look import FirstLook, first_look, write_look
from graphbandit.first_look.output import as_text, cannot_tell, headline, protocol, python_lines, serve_line
from graphbandit.first_look.replay import (
    ADAPTIVE,
    ALONE,
    CONTENDERS,
    ITEM_MEAN,
    NO_GRAPH,
    SHARED,
    USER_RIDGE,
    clustered_interval,
    log_rounds,
    user_by_user,
)
from graphbandit.graph_building.events import read_events, split_events
from graphbandit.policies import POLICIES
from graphbandit.serving.operations import settings
from graphbandit.serving.operations.input_files import read_arms
from graphbandit.serving.operations.recommendation_service import RecommendationService
from graphbandit.serving.server import import_into_store, snapshot_folder
from graphbandit.serving.store.event_store import EventStore
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
    assert {one.name for one in look.played} >= {"at random", ITEM_MEAN, USER_RIDGE, ALONE, SHARED, "CLUB", NO_GRAPH}
    assert look.best.reward.mean() == max(one.reward.mean() for one in look.played if one.contender is not None)


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
    names, features, _ = read_arms(tmp_path / "look" / "items.csv")
    assert len(names) == N_ITEMS and features.shape[0] == N_ITEMS
    history = read_table(tmp_path / "look" / "history.parquet", EVENTS)
    assert len(history) == 3000 and set(history.codes("item")[1]) <= set(names)
    assert sorted(history.numbers("reward")) == pytest.approx(sorted(two_tastes()["reward"]))
    assert serve_line("look") in as_text(look, "look")
    table = json.loads((tmp_path / "look" / "look.json").read_text())
    assert table["users"] == N_USERS and table["lifts"]["at random"]["verdict"] == "more"
    assert all(sentence[:40] in as_text(look, "look").replace("\n", " ") for sentence in headline(look))


def test_what_is_printed_is_what_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python lines and the line of `serve` make the best policy with its settings, all items and the history."""
    monkeypatch.chdir(tmp_path)
    table = {"item": np.arange(N_ITEMS + 5), "kind": ["even", "odd"] * (N_ITEMS // 2) + ["new"] * 5}
    found = first_look(two_tastes(900), items=table)
    write_look(found, "look")
    names: dict[str, Any] = {}
    exec(python_lines(found, "look"), names)
    made, best = names["recommender"], found.deployed
    assert len(made.items) == N_ITEMS + 5 and made.n_events == 900 and made.policy.dim == made.features.dim
    assert made.policy.n_users >= N_USERS and type(made.policy) is POLICIES[best.policy]
    assert {name: made.policy.params[name] for name in best.params} == dict(best.params)
    assert made.recommend(0, k=3, where={"kind": "new"}).items
    line = serve_line("look").split()
    chosen = settings.load({}, Path(line[line.index("--config") + 1]), {})
    import_into_store(chosen)
    service = RecommendationService.open(EventStore(chosen.store), snapshot_folder(chosen), None)
    try:
        served = service.state
        assert type(served.policy) is type(made.policy) and len(served.arms) == N_ITEMS + 5 and served.rewards == 900
        for user in range(3):
            mine, theirs = made.recommend(user, k=4), served.ranked(served.rows[str(user)])[:4]
            assert [mean for _, mean, _ in theirs] == pytest.approx(list(mine.mean), abs=1e-6)
    finally:
        service.close()


def test_a_plain_baseline_that_is_best_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody likes the same items, and nothing else is to be learned."""
    rng = np.random.default_rng(4)
    user, item = rng.integers(N_USERS, size=2500), rng.integers(N_ITEMS, size=2500)
    look = first_look(
        {"user": user, "item": item, "reward": 0.2 * rng.permutation(N_ITEMS)[item] / 8 + rng.standard_normal(2500)}
    )
    first = headline(look)[0]
    assert look.lifts[look.rival].verdict == "more" or not first.startswith("Yes"), first
    better = look.lifts[look.rival].verdict == "less"
    assert better == first.startswith("No: "), first
    assert all(0.2 * 0 - 4 < value < 0.2 * 5 + 5 for _, value in look.favourites)


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
    sizes = [len(contender.settings()) for contender in CONTENDERS if not contender.is_plain]
    assert min(sizes) >= 6 and max(sizes) <= 8
    assert {len(contender.settings()) for contender in CONTENDERS if contender.is_plain} == {1}


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
