"""The leaderboard: worlds, grids, ranks of made-up results, and a small board end to end."""

from __future__ import annotations

import inspect
import json
import math
import re
import sys
import zipfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from graphbandit import GraphUCB, LinUCB, graphs, signals
from graphbandit.cli import app
from graphbandit.environments import Hits, Linear
from graphbandit.experiments import TUNING_SEEDS, testbeds
from graphbandit.experiments.compare import policy_for
from graphbandit.experiments.kept_runs import file_name
from graphbandit.leaderboard import GRIDS, WORLDS, LeaderboardSettings, board, leaderboard, worlds
from graphbandit.leaderboard.board import Board, Cell, available, quick_grid, state_bytes, tune_and_run
from graphbandit.leaderboard.grids import CHOSEN, LARGEST_GRID, Grid, usual_grid
from graphbandit.leaderboard.report import markdown, render, summary, write
from graphbandit.leaderboard.statistics import level_with_best, mean_rank_intervals, ranks
from graphbandit.policies import POLICIES
from made_up import LAYOUTS

SYNTHETIC = [name for name, world in WORLDS.items() if not world.sources]
SMALL = LeaderboardSettings(seeds=2, quick=True)


def test_there_are_nineteen_worlds() -> None:
    assert len(WORLDS) == 19 and len(SYNTHETIC) == 15
    assert [name for name in SYNTHETIC if WORLDS[name].horizon > 1000] == ["er-noisy-long"]
    assert [name for name, world in WORLDS.items() if world.hits] == ["lastfm", "delicious"]
    for world in WORLDS.values():
        assert world.tuning_seeds == (2 if world.hits else 3) and world.tuning_seeds <= len(TUNING_SEEDS)


def test_every_world_is_in_the_table() -> None:
    """Every function that makes an environment from a seed is used by a world of the table."""
    used = {made_by(world.make) for world in WORLDS.values()}
    for module in (worlds, testbeds):
        for name, function in inspect.getmembers(module, inspect.isfunction):
            makes = str(inspect.signature(function).return_annotation).startswith("environments.")
            if function.__module__ == module.__name__ and makes and "seed" in inspect.signature(function).parameters:
                assert function in used or name == "with_arms", f"{name} is used by no world"
    assert all(name == world.name for name, world in WORLDS.items())
    for family in testbeds.FAMILIES:
        assert {family, f"{family}-fixed"} <= set(WORLDS)


def made_by(make: Any) -> Any:
    """Return the function inside of partial ones."""
    return made_by(make.func) if isinstance(make, partial) else make


def test_every_world_is_described_in_the_documentation() -> None:
    page = (Path(__file__).parents[2] / "docs" / "results" / "leaderboard.md").read_text()
    table = page.partition("## Worlds")[2].partition("## Tuning")[0]
    assert {name.removesuffix("-fixed") for name in WORLDS} <= set(re.findall(r"`([a-z-]+)`", table)) and "`-fixed`" in table


def test_chosen_grids_are_of_policies_that_exist() -> None:
    assert set(CHOSEN) <= set(POLICIES) and list(GRIDS) == list(POLICIES)
    assert usual_grid(LinUCB) == Grid({"ridge": [0.01, 0.1], "exploration": [0.01, 0.1, 0.3]})
    assert usual_grid(POLICIES["random"]) == Grid()


@pytest.mark.parametrize("name", SYNTHETIC)
def test_worlds_are_functions_of_the_seed(name: str) -> None:
    first, again, other = (WORLDS[name].make(seed) for seed in (3, 3, 4))
    assert isinstance(first, Linear) and isinstance(again, Linear) and isinstance(other, Linear)
    assert np.array_equal(first.truth, again.truth) and np.array_equal(first.arms, again.arms)
    assert (first.graph.adjacency != again.graph.adjacency).nnz == 0
    assert not np.array_equal(first.truth, other.truth) and not np.array_equal(first.arms, other.arms)
    assert first.truth.shape == (20, 5) and first.sigma == (0.3 if "noisy" in name else 0.01)
    assert (len(first.arms), first.pool) == ((100, None) if name.endswith(("-fixed", "-long")) else (500, 50))
    assert np.linalg.norm(first.arms, axis=1) == pytest.approx(np.ones(len(first.arms)))


def test_communities_are_dense_inside_and_alike() -> None:
    inside, between, near, far = [], [], [], []
    same = (np.arange(20) % 3)[:, None] == np.arange(20) % 3
    others = ~np.eye(20, dtype=bool)
    for seed in range(20):
        env = testbeds.communities(seed)
        joined = env.graph.adjacency.toarray() > 0
        inside.append(joined[same & others].mean())
        between.append(joined[~same].mean())
        distance = np.linalg.norm(env.truth[:, None] - env.truth, axis=2)
        near.append(distance[same].max())
        far.append(distance[~same].mean())
    assert np.mean(inside) == pytest.approx(testbeds.INSIDE, abs=0.05)
    assert np.mean(between) == pytest.approx(testbeds.BETWEEN, abs=0.02)
    assert max(near) <= 2 * testbeds.INDIVIDUAL + 1e-12 < np.mean(far)


def test_an_unrelated_graph_says_nothing() -> None:
    def likeness(name: str) -> float:
        values = []
        for seed in range(30):
            env = WORLDS[name].make(seed)
            assert isinstance(env, Linear)
            values.append((env.truth @ env.truth.T)[env.graph.adjacency.toarray() > 0].mean())
        return float(np.mean(values))

    assert abs(likeness("unrelated")) < 0.03 and likeness("er") > 0.3


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_has_a_grid_that_it_accepts(name: str) -> None:
    assert name in GRIDS, f"{name} needs a line in leaderboard/grids.py"
    grid, env = GRIDS[name], WORLDS["er-fixed"].make(0)
    assert math.prod(map(len, grid.tuned.values())) <= LARGEST_GRID
    for setting, values in grid.tuned.items():
        usual = {other: others[0] for other, others in grid.tuned.items()}
        for value in values:
            made: Any = policy_for(env, partial(grid.policy(name), **usual | {setting: value}))
            assert type(made) is POLICIES[name]
            shown = made.params.get(setting)
            assert shown is None or np.ndim(shown) or shown == value
    assert math.prod(map(len, quick_grid(grid).tuned.values())) <= 2


def test_block_clusters_grow_with_the_users() -> None:
    grid = GRIDS["goblin-block"]
    for n, count in ((20, 4), (50, 10)):
        made = grid.policy("goblin-block")(graphs.erdos_renyi(n, 0.5, seed=1), 2, group=5)
        assert made.params["clusters"].max() + 1 == count


def test_ranks() -> None:
    assert ranks([30.0, 10.0, 20.0]).tolist() == [3, 1, 2]
    assert ranks([1.0, 1.0, 5.0, 1.0]).tolist() == [2, 2, 4, 2]
    assert ranks([]).tolist() == []


def test_equal_policies_are_level_on_nearly_all_boards() -> None:
    """22 policies, equal in truth, 10 seeds; what a seed adds to all policies does not matter."""
    rng = np.random.default_rng(0)
    boards = [rng.standard_normal((22, 10)) + 5 * rng.standard_normal(10) for _ in range(300)]
    assert np.mean([not all(level_with_best(board)) for board in boards]) <= 0.08


def test_worse_policies_are_told_from_the_best() -> None:
    rng = np.random.default_rng(1)
    board = rng.standard_normal((22, 10)) + 5 * rng.standard_normal(10) + np.r_[0.0, 0.0, np.full(20, 6.0)][:, None]
    assert level_with_best(board) == [True, True, *[False] * 20]
    same = np.array([[1.0, 2.0], [1.0, 2.0], [3.0, 4.0]])  # no spread at all
    assert level_with_best(same) == [True, True, False] and level_with_best(same[:, :1]) == [True] * 3


def test_intervals_of_mean_ranks() -> None:
    """Wide where policies are equal, a point where one always wins; one that did not run is last."""
    rng = np.random.default_rng(2)
    regret = rng.standard_normal((4, 10)) + np.array([-50.0, 0.0, 0.0, np.nan])[:, None]
    ends = mean_rank_intervals([(regret, np.full(4, 4.0))] * 2)
    assert ends[0].tolist() == [1, 1] and ends[3].tolist() == [4, 4] and ends[1].tolist() == ends[2].tolist() == [2, 3]


def made_up(values: dict[tuple[str, str], list[float]], unfit: dict[tuple[str, str], str] | None = None) -> Board:
    cells = {key: Cell(*key, np.array(regret), {"ridge": 1.0}, ["ridge"], 2.5, 4000) for key, regret in values.items()}
    cells |= {key: Cell(*key, reason=reason) for key, reason in (unfit or {}).items()}
    names = dict.fromkeys(world for _, world in cells)
    grids = {policy: Grid({"ridge": [0.1, 1.0]}) for policy, _ in cells}
    return Board([WORLDS[name] for name in names], cells, {"netflix": "get it"}, LeaderboardSettings(seeds=3), grids)


BOARD = made_up(
    {
        ("a", "er"): [10.0, 12.0, 11.0],
        ("b", "er"): [10.5, 11.4, 11.6],
        ("c", "er"): [20.0, 22.0, 21.0],
        ("a", "lastfm"): [9000.0, 9100.0, 9050.0],
        ("c", "lastfm"): [8000.0, 8100.0, 8050.0],
    },
    {("b", "lastfm"): "it needs 18 GB of <memory>."},
)


def test_ranks_and_mean_ranks_of_made_up_results() -> None:
    content = summary(BOARD)
    er, lastfm = content["worlds"]
    assert [(row["policy"], row["rank"], row["level"]) for row in er["policies"]] == [
        ("a", 1, True),
        ("b", 2, True),
        ("c", 3, False),
    ]
    assert [row["policy"] for row in lastfm["policies"]] == ["c", "a", "b"]
    assert er["policies"][0]["regret"]["mean"] == 11 and er["policies"][0]["regret"]["low"] < 11
    assert lastfm["policies"][0]["hits"]["mean"] == pytest.approx(0.195)
    overall = {
        row["policy"]: (row["mean_rank"], row["ran"], row["worlds"], row["level_with_best"]) for row in content["policies"]
    }
    assert overall == {"a": (1.5, 2, 2, 1), "b": (2.5, 1, 2, 1), "c": (2.0, 2, 2, 1)}
    assert {row["policy"]: row["mean_rank_interval"] for row in content["policies"]}["c"] == [2.0, 2.0]
    assert json.loads(json.dumps(content, allow_nan=False)) == content


def test_a_policy_that_does_not_fit_is_shown_with_its_reason() -> None:
    content = summary(BOARD)
    text, page = markdown(content), render(content)
    assert "| b | **2** | does not fit (1) |" in text and "1. Does not fit: it needs 18 GB" in text
    assert "| b | 2.5 | 2.0 – 2.5 | 1 of 2 |" in text and "| a | 1.5 | 1.5 – 2.0 | 2 of 2 |" in text
    assert "does not fit: it needs 18 GB of &lt;memory&gt;." in page and 'href="#note-1"' in page and 'id="note-1"' in page
    assert "netflix: get it" in text and "get it" in page


def test_the_page_escapes_names_and_needs_nothing_from_outside() -> None:
    odd = '<b>"x"</b>'
    board = made_up({(odd, "er"): [1.0, 2.0, 3.0], ("plain", "er"): [2.0, 3.0, 5.0]})
    board.cells[odd, "er"].settings["note"] = "<i>"
    page = render(summary(replace(board, missing={"netflix": "<script>"})))
    assert odd not in page and "&lt;b&gt;&quot;x&quot;&lt;/b&gt;" in page
    assert "<i>'" not in page and page.count("<script>") == 1 and "{{" not in page
    assert page.count('src="data:image/png;base64,') == 1
    for outside in ("http:", "https:", "src=", "@import", "url("):
        assert outside not in page.replace('src="data:', "")
    assert 'name="viewport"' in page and "prefers-color-scheme: dark" in page


def test_the_board_is_written_without_matplotlib_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphbandit.plots.drawing.find_spec", lambda name: None)
    assert "<img" not in render(summary(BOARD))


def test_a_small_board_from_end_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["leaderboard", "--quick", "--seeds", "2", "--workers", "1", "--quiet", "--out", str(tmp_path)]
    words += ["--worlds", "er,communities-fixed", "--policies", "random", "--policies", "linucb"]
    seen: list[Any] = []
    module: Any = sys.modules["graphbandit.experiments.compare"]  # the package has a function of this name
    simulate = module.simulate

    def counted(policy: Any, environment: Any, horizon: int, seed: int) -> Any:
        seen.append((type(policy).__name__, horizon, seed))
        return simulate(policy, environment, horizon, seed)

    monkeypatch.setattr(module, "simulate", counted)
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert len(seen) == 2 * ((1 + 2) + (2 + 2))  # worlds × (tuning + reported runs), for random and for linucb
    assert {seed for _, _, seed in seen} == {0, 1, TUNING_SEEDS[0]}
    content = json.loads((tmp_path / "leaderboard.json").read_text())
    assert [world["world"] for world in content["worlds"]] == ["er", "communities-fixed"]
    assert [row["policy"] for row in content["policies"]] == ["linucb", "random"] and content["policies"][0]["mean_rank"] == 1
    entry = content["worlds"][0]["policies"][0]
    assert entry["bytes"] > 0 and entry["micros"] > 0 and set(entry["settings"]) == set(GRIDS["linucb"].tuned)
    assert "linucb" in (tmp_path / "leaderboard.md").read_text() and "linucb" in (tmp_path / "index.html").read_text()
    seen.clear()
    again = CliRunner().invoke(app, [*words, "--json"])
    assert again.exit_code == 0 and not seen  # nothing is run again
    printed = json.loads(again.stdout)
    assert printed["worlds"] == content["worlds"]


def test_wrong_names_and_sizes_are_answered(tmp_path: Path) -> None:
    for words, answer in (
        (["--worlds", "mars"], "there is no world 'mars'; there are rbf"),
        (["--policies", "best"], "there is no policy 'best'; there are random"),
        (["--data", "no/such/folder"], "no/such/folder does not exist"),
    ):
        done = CliRunner().invoke(app, ["leaderboard", "--quiet", "--out", str(tmp_path), *words])
        assert done.exit_code == 2 and answer in done.output.replace("\n", "")


def test_a_policy_without_a_grid_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(GRIDS, "club")
    with pytest.raises(ValueError, match="policy 'club' has no grid"):
        leaderboard(tmp_path, SMALL, worlds=["er"])


def test_refusals_become_reasons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def report(done: int, total: int) -> None:
        del done, total

    world = replace(WORLDS["er"], horizon=5, tuning_horizon=5, tuning_seeds=1)
    refused = tune_and_run("linucb", Grid({"ridge": [-1.0]}), world, SMALL, tmp_path, report)
    assert "ridge must be a positive number" in refused.reason and not len(refused.regret)
    monkeypatch.setattr(board, "LARGEST_STATE", 100)
    large = tune_and_run("linucb", GRIDS["linucb"], world, SMALL, tmp_path, report)
    assert "its state takes" in large.reason


def test_state_bytes_counts_nested_arrays() -> None:
    env = WORLDS["er"].make(0)
    assert state_bytes(GraphUCB(env.graph, 5)) > state_bytes(LinUCB(env.graph, 5)) > 20 * 25 * 8


def test_without_data_the_board_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("GRAPHBANDIT_DATA", raising=False)
    board = leaderboard(tmp_path, SMALL, worlds=["movielens", "delicious"], policies=["random"])
    assert not board.worlds and "graphbandit datasets fetch movielens-1m" in board.missing["movielens"]
    write(tmp_path, summary(board))
    assert "graphbandit datasets fetch delicious" in (tmp_path / "leaderboard.md").read_text()


def made_up_archives(folder: Path) -> None:
    """Write data sets of 60 users and 80 items, in the official layouts."""
    rng = np.random.default_rng(0)
    taste, kind = rng.random((60, 10)), rng.random((80, 10))
    stars = np.clip(np.ceil(taste @ kind.T), 1, 5).astype(int)
    pairs = [(u, i) for u in range(60) for i in range(80) if rng.random() < 0.4]
    friends = sorted({(u, v) for u in range(60) for v in (rng.integers(60), (u + 1) % 60) if u != v})
    tags = [(u, i, 7 * i % 30 + k) for u, i in pairs[::2] for k in range(2)]
    artists = "userID\tartistID\tweight\n" + "".join(f"{u}\t{i}\t{stars[u, i]}\n" for u, i in pairs)
    known = "userID\tfriendID\n" + "".join(f"{u}\t{v}\n{v}\t{u}\n" for u, v in friends)
    tagged = "userID\tartistID\ttagID\tday\tmonth\tyear\n" + "".join(f"{u}\t{i}\t{t}\t1\t4\t2009\n" for u, i, t in tags)
    texts = {
        "movielens-100k": {"u.data": "".join(f"{u + 1}\t{i + 1}\t{stars[u, i]}\t1\n" for u, i in pairs)},
        "lastfm": {"user_artists.dat": artists, "user_friends.dat": known, "user_taggedartists.dat": tagged},
    }
    for name, files in texts.items():
        archive, inside, _ = LAYOUTS[name]
        with zipfile.ZipFile(folder / archive, "w") as file:
            for member, text in files.items():
                file.writestr(inside + member, text)


def made(world: worlds.World) -> tuple[LinUCB, Any]:
    environment = world.make(3)
    return LinUCB(environment.graph, environment.arms.shape[1]), environment


def test_real_worlds_with_made_up_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("GRAPHBANDIT_DATA", raising=False)
    made_up_archives(tmp_path)
    settings = replace(SMALL, data=tmp_path)
    present, missing = available(["movielens", "netflix", "lastfm"], settings)
    assert [world.name for world in present] == ["movielens", "lastfm"] and set(missing) == {"netflix"}
    films, hits = (world.make(0) for world in present)
    assert films.graph.n_users == 50 and films.arms.shape == (80, 10)
    assert not np.array_equal(films.graph.adjacency.toarray(), present[0].make(1).graph.adjacency.toarray())
    assert isinstance(hits, Hits) and hits.graph.n_users == 60 and hits is present[1].make(1)
    # Workers of a cluster do not have the files: their worlds have the data in them, and are the same.
    for near, far in zip(present, available(["movielens", "lastfm"], replace(settings, engine="ray"))[0], strict=True):
        assert file_name("a", *made(far), horizon=50, seed=3) == file_name("a", *made(near), horizon=50, seed=3)
        assert str(tmp_path) in repr(near.make) and str(tmp_path) not in repr(far.make)
    board = leaderboard(tmp_path / "out", settings, worlds=["movielens", "lastfm"], policies=["random", "lints"])
    content = summary(board)
    assert [world["measure"] for world in content["worlds"]] == ["regret", "share of hits"]
    shares = {row["policy"]: row["hits"]["mean"] for row in content["worlds"][1]["policies"]}
    assert 0 < shares["random"] < 0.2 and all(0 <= share <= 1 for share in shares.values())
    assert signals.density(hits.graph) < 0.2
