"""First contact with the package: names, reprs and tables in notebooks."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import graphbandit as gb
from graphbandit import display
from graphbandit.datasets import DATASETS, Factors
from graphbandit.diagnose import RewardLog, Verdict
from graphbandit.environments import Drifting, Hits, Linear, Rounds
from graphbandit.evaluation import DecisionLog, Evaluation, PolicyEstimates, Replay
from graphbandit.evaluation.estimators import Estimate
from graphbandit.experiments import Experiment, Interval, Tuned
from graphbandit.experiments.tune import Trial
from graphbandit.first_look import FirstLook
from graphbandit.first_look.replay import ADAPTIVE, ALONE, LiftInterval, LogRounds, PolicyResult
from graphbandit.graph_building import BuiltGraph, Candidate
from graphbandit.leaderboard import LeaderboardSettings
from graphbandit.leaderboard.board import Board
from graphbandit.paper import FIGURES, Claim
from graphbandit.paper.report import Outcome
from graphbandit.policies.adaptive.graph_report import Misled, Report

EVIL = "<script>alert('&')</script>"
GRAPH = gb.graphs.from_edges([(user, user + 1) for user in range(999)])
SMALL = gb.graphs.from_edges([(user, user + 1) for user in range(11)])
ARMS = gb.signals.unit_arms(40, 5, seed=0)
TASTES = gb.signals.unit_arms(12, 5, seed=1)

# Names


def test_dir_is_the_public_names_and_nothing_else() -> None:
    own = [
        "Features",
        "DelayedTrace",
        "Recommendation",
        "Recommender",
        "Result",
        "Trace",
        "UserGraph",
        "compare",
        "simulate",
        "simulate_delayed",
    ]
    modules = ["datasets", "environments", "graphs", "plots", "policies", "signals", "gymnasium", "obp", "sklearn"]
    policies = [*(cls.__name__ for cls in gb.POLICIES.values()), "POLICIES", "Policy", "Pending", "Stochastic"]
    answers = ["Choice", "Decision", "Removal", "Scores"]
    assert dir(gb) == sorted([*own, *modules, *policies, *answers, "__version__"])


@pytest.mark.parametrize("module", [gb, gb.graphs, gb.environments, gb.datasets, gb.policies, gb.signals, gb.plots])
def test_every_name_in_dir_is_there_and_is_ours(module: ModuleType) -> None:
    for name in dir(module):
        if name in ("gymnasium", "sklearn") and find_spec(name) is None:
            continue
        found = getattr(module, name)
        where = found.__name__ if isinstance(found, ModuleType) else getattr(found, "__module__", "graphbandit")
        assert where.split(".")[0] in ("graphbandit", "types", "typing"), name  # the last two: names for types


def test_a_star_import_gives_everything_but_the_adapters_and_needs_no_optional_library() -> None:
    program = """
import sys
from graphbandit import *
assert {"Recommender", "plots", "compare", "LinUCB"} <= set(globals()) and "sklearn" not in globals()
loaded = {"sklearn", "gymnasium", "obp", "matplotlib", "pandas", "fastapi", "ray"} & set(sys.modules)
assert not loaded, loaded
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# Reprs


def evaluation(policy: str = "LinUCB") -> Evaluation:
    estimate = Estimate(0.25, 0.01)
    found = PolicyEstimates(policy, estimate, estimate, None, estimate, None, None, ("a warning",))
    return Evaluation(1234, 600, 634, 12, 40, estimate, (found,), ("a note",))


def report(user: object = "ann") -> Report:
    weights = {"alone": 0.1, "everyone": 0.2, "graph": 0.7}
    return Report(verdict(), 500, 500.0, -10.0, -20.0, -30.0, weights, 1.0, 0.3, {0.9: 0.88}, (), (Misled(user, -9.0, 40),))


def verdict() -> Verdict:
    return Verdict("yes", 0.02, 0.01, 0.03, 0.001, 0.12, 0.10, (0.0, 0.001), 12, 11, 300)


def built(name: str = "co-consumption", said: str = "Guessed nothing.") -> BuiltGraph:
    return BuiltGraph(GRAPH, SMALL, (Candidate(name, SMALL, 0.02),), verdict(), ("ann", "bob"), (said,))


def look(said: str = "Guessed nothing.") -> FirstLook:
    rounds = LogRounds("rewards", np.zeros(1, int), np.zeros(1, int), np.ones(1), np.arange(30), [], [])
    played = tuple(PolicyResult(name, {}, np.full(30, earned), None) for name, earned in ((ALONE, 0.2), (ADAPTIVE, 0.4)))
    lift = LiftInterval(0.2, 0.1, 0.3, 30, 30)
    facts: dict[str, Any] = dict(name="log.csv", n_events=9000, n_users=30, n_items=40, said=(said,), features="")
    parts: dict[str, Any] = dict(built=built(said=said), rounds=rounds, played=played, lifts={ALONE: lift}, by_group=())
    return FirstLook(**facts, **parts, evaluation=None, learned="", favourites=(), items={"item": [said]})


def result(policy: str = "LinUCB") -> gb.Result:
    regret = {policy: np.array([[1.0, 60.0], [2.0, 64.0]]), "GraphUCB": np.array([[1.0, 30.0], [1.0, 31.0]])}
    return gb.Result(np.array([1, 1000]), (0, 1), regret, {name: np.ones(2) for name in regret})


def recommender(user: str = "ann", item: str = "tea", policy: str = "linucb") -> gb.Recommender:
    friends, items = {"user": [user], "friend": ["bob"]}, {"item": [item, "cola"], "kind": ["hot", "cold"]}
    return gb.Recommender(friends, items, policy=policy).fit({"user": [user, "bob"], "item": [item, "cola"], "reward": [1, 0]})


def trial(regret: float, **settings: Any) -> Trial:
    return Trial(settings, Interval(regret, regret - 1.0, regret + 1.0))


def outcome() -> Outcome:
    figure = next(iter(FIGURES.values()))
    return Outcome(figure, "printed", {"x": ARMS}, [Claim("GraphUCB wins. " * 20, "holds", {"x": ARMS})], 1.0)


T: Any = np.arange(1000)
RATINGS: Any = dict(user=[0, 1], item=[0, 0], value=[1, 2], user_ids=[7, 8], item_ids=[9])
CASES: dict[str, tuple[Callable[[], object], str]] = {
    "UserGraph": (lambda: GRAPH, "1000 999"),
    "Linear": (lambda: Linear(SMALL, TASTES, ARMS, pool=10), "12 11 40 5 10"),
    "Drifting": (lambda: Drifting(SMALL, [TASTES, -TASTES], ARMS, period=100), "12 11 40 5 2 100"),
    "Hits": (lambda: Hits(SMALL, ARMS, np.eye(12, 40), candidates=4), "12 11 40 5 4"),
    "Rounds": (lambda: Rounds(T, np.zeros((1000, 20), int), np.zeros((1000, 20)), T), "1,000 20"),
    "Trace": (lambda: gb.Trace(T, T, T, 0.5 * T), "1,000 499.5"),
    "DelayedTrace": (lambda: gb.DelayedTrace(T, T, T, 0.5 * T, T), "1,000 499.5 0"),
    "Result": (result, "2 1,000"),
    "Tuned": (lambda: Tuned({"alpha": 1.0}, [trial(5.0, alpha=1.0), trial(7.0, alpha=2.0)]), "alpha=1.0 2"),
    "Experiment": (
        lambda: Experiment(
            "small", 60, range(3), {"kind": "linear", "graph": {"kind": "erdos-renyi", "p": 0.4}}, {"a": {"policy": "linucb"}}
        ),
        "'small' 1 3 60",
    ),
    "Pending": (lambda: gb.Pending(gb.LinUCB(SMALL, 5)), "12 11 5 0"),
    "Stochastic": (lambda: gb.Stochastic(gb.LinUCB(SMALL, 5, ridge=2.0), epsilon=0.1), "12 11 5 ridge=2.0 epsilon=0.1"),
    "Recommender": (recommender, "2 LinUCB dim=3"),
    "Recommendation": (
        lambda: gb.Recommendation("r1", "ann", tuple(range(100)), (0.5,) * 100, (0.5,) * 100, 1.0),
        "'r1' 'ann' 0, 1",
    ),
    "Features": (
        lambda: gb.Features().fit({"item": [1, 2, 3], "price": [1.0, 2.0, 5.0], "kind": ["a", "b", "b"]}),
        "4 price kind",
    ),
    "Ratings": (lambda: gb.datasets.Ratings(**RATINGS), "2 1"),
    "Factors": (lambda: Factors(TASTES, ARMS, 0.0, 5.0), "12 40 5"),
    "Source": (lambda: DATASETS["lastfm"], "'lastfm'"),
    "Report": (report, "'yes' 500"),
    "RewardLog": (lambda: RewardLog(T % 12, np.ones((1000, 5)), T), "1,000 12 5"),
    "DecisionLog": (lambda: DecisionLog(T % 12, T % 40, np.ones(1000), T % 2, ARMS), "1,000 12 40 5"),
    "Evaluation": (evaluation, "1 1,234 12 40"),
    "PolicyEstimates": (lambda: evaluation().policies[0], "'LinUCB' 0.2500"),
    "Replay": (lambda: Replay(Estimate(0.25, 0.01), 500, 30.0, 0.1, 0.05, Estimate(1.0, 0.1)), "0.2500 500 10.0%"),
    "BuiltGraph": (built, "'co-consumption' 1 1000 999"),
    "Candidate": (lambda: built().candidates[0], "'co-consumption' +2.00%"),
    "Verdict": (verdict, "'yes' +2.00%"),
    "FirstLook": (look, "9,000 30 40"),
    "Board": (lambda: Board([], {}, {}, LeaderboardSettings(), {}), "0 10"),
    "Claim": (lambda: outcome().claims[0], "GraphUCB 'holds'"),
    "Figure": (lambda: outcome().figure, "Figure"),
    "Outcome": (outcome, "1 of 1"),
}


def check_repr(name: str, text: str, parts: str) -> None:
    assert text.startswith(f"{name}(") and text.endswith(")") and len(text) <= 120 and "\n" not in text, text
    assert "array(" not in text and " object at " not in text, text
    assert [part for part in parts.split() if part not in text] == [], text


@pytest.mark.parametrize("name", CASES)
def test_a_repr_is_one_short_line_with_the_numbers_that_matter(name: str) -> None:
    make, parts = CASES[name]
    check_repr(name, repr(make()), parts)


@pytest.mark.parametrize("name", gb.POLICIES)
def test_the_repr_of_a_policy_is_short(name: str) -> None:
    cls: Any = gb.POLICIES[name]
    policy = cls(SMALL, 5, **({"items": ARMS} if name in ("cofiba", "spectral-ucb", "spectral-ts") else {}))
    check_repr(cls.__name__, repr(policy), "n_users=12 5")
    assert len(repr(policy)) <= 100


def test_the_repr_of_a_policy_names_the_settings_that_were_changed(tmp_path: Path) -> None:
    assert repr(gb.GraphUCB(SMALL, 5)) == "GraphUCB(UserGraph(n_users=12, n_edges=11), 5)"
    released = gb.GraphUCB(SMALL, 5, preset="released", alpha=0.5, ridge=0.3)
    assert repr(released) == "GraphUCB(UserGraph(n_users=12, n_edges=11), 5, preset='released', alpha=0.5, ridge=0.3)"
    released.save(tmp_path / "policy.gb")
    assert repr(gb.GraphUCB.load(tmp_path / "policy.gb")) == repr(released)
    random = gb.Stochastic(gb.LinUCB(SMALL, 5), epsilon=0.3)
    assert repr(random).startswith("Stochastic(LinUCB(UserGraph(n_users=12, ") and "epsilon=0.3" in repr(random)


def test_a_long_list_of_settings_is_cut() -> None:
    settings: dict[str, Any] = dict(alpha2=0.123, ridge=2.0, start="complete", exploration=0.7, sigma=0.4, delta=0.03)
    check_repr("CLUB", repr(gb.CLUB(GRAPH, 25, **settings)), "n_users=1000 alpha2=0.123 …")


# HTML


HTML: dict[str, Callable[[], Any]] = {
    "Result": lambda: result(EVIL),
    "Tuned": lambda: Tuned({"policy": EVIL}, [trial(5.0, policy=EVIL)]),
    "Recommender": lambda: recommender(EVIL, EVIL),
    "Recommendation": lambda: recommender(EVIL, EVIL).recommend(EVIL, k=2),
    "Report": lambda: report(EVIL),
    "Evaluation": lambda: evaluation(EVIL),
    "BuiltGraph": lambda: built(said=EVIL),
    "FirstLook": lambda: replace(look(), evaluation=evaluation(EVIL), rounds=None, played=(), lifts={}),
}


def parsed(html: str) -> ElementTree.Element:
    return ElementTree.fromstring(f"<div>{html}</div>")  # stricter than a browser


@pytest.mark.parametrize("name", HTML)
def test_html_parses_and_text_is_escaped(name: str) -> None:
    found = HTML[name]()
    if name == "Recommender":
        found.notes.append(EVIL)
    page = parsed(found._repr_html_())
    assert {element.tag for element in page.iter()} <= {"div", "p", "b", "table", "tr", "th", "td"}
    assert EVIL in "".join(page.itertext())
    assert page.find("table") is not None and "array(" not in "".join(page.itertext())


def cells(html: str) -> list[list[str]]:
    return [["".join(cell.itertext()) for cell in row] for row in parsed(html).iter("tr")]


def test_html_says_what_the_text_says() -> None:
    assert cells(result()._repr_html_()) == [
        [part.strip() for part in line.strip("|").split("|")] for line in result().table().splitlines() if "---" not in line
    ]
    shown = recommender()
    assert cells(shown._repr_html_()) == [["users", "2"], ["items", "2"], ["events", "2"], ["policy", repr(shown.policy)]]
    assert [row[0] for row in cells(report()._repr_html_())] == ["model", "graph", "everyone", "alone"]
    assert [row[:2] for row in cells(look()._repr_html_())[1:]] == [[ADAPTIVE, "0.4000"], [ALONE, "0.2000"]]
    rows = [" ".join(row) for row in cells(built()._repr_html_())]
    lines = [" ".join(line.split()) for line in str(built()).splitlines()]
    assert rows and [row for row in rows if row not in lines] == []
    unseen = gb.Recommender({"user": ["ann"], "friend": ["bob"]})
    assert parsed(unseen._repr_html_()).find("table") is None and "not fitted" in unseen._repr_html_()


def test_a_table_without_headings_or_rows() -> None:
    assert display.as_html("t", ["a", "b"], []) == "<p><b>t</b></p>"
    assert cells(display.as_html("t", [], [["a", 1]])) == [["a", "1"]]


# Fitting


def test_fit_returns_the_object_itself(tmp_path: Path) -> None:
    items, events = {"item": [1, 2], "price": [1.0, 2.0]}, {"user": [7, 8, 7], "item": [1, 2, 2], "reward": [1.0, 0.0, 0.5]}
    made, features = gb.Recommender(items=items, policy="linucb"), gb.Features(context=["hour"])
    assert made.fit(events) is made and features.fit(items) is features and features.fit_context({"hour": [1, 2]}) is features
    made.observe(7, 1, 1.0)
    made.reward(made.recommend(7), 1.0)
    made.fit(events)
    made.save(tmp_path / "model.gb")
    assert made.n_events == gb.Recommender.load(tmp_path / "model.gb").n_events == 8
