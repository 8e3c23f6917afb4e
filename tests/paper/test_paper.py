"""The figures and the report: each figure runs small, claims are judged both ways, the page shows what was found."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from importlib import import_module
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from markupsafe import escape
from typer.testing import CliRunner

from graphbandit import paper
from graphbandit.cli import app
from graphbandit.experiments import TUNING_SEEDS
from graphbandit.experiments.testbeds import draw_graph
from graphbandit.paper import FIGURES, Claim, ReproduceSettings, coverage, estimation, real_data, regret, sweeps, variants
from graphbandit.paper.algorithms import LITERAL_LOCAL, RELEASED_GOBLIN, algorithms, tuned_baselines
from graphbandit.paper.chart import Panel, Series, curve, draw
from graphbandit.paper.claims import QUOTES
from graphbandit.paper.figure import SETTINGS, Data
from graphbandit.paper.report import BEYOND, Outcome, absent_figures, claim_table, marked, paper_numbers, tally, write_report
from graphbandit.paper.reproduce import MEASUREMENT, claims_list, load, reproduce, save, select
from graphbandit.paper.synthetic import FAMILIES, maker
from graphbandit.plots.drawing import picture

SMALL = ReproduceSettings(runs=2, horizon=40, quick=True)
SYNTHETIC = [name for name, figure in FIGURES.items() if not figure.sources]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("report")
    reproduce(SYNTHETIC, out, SMALL)
    return out


def test_every_function_that_measures_is_in_the_table() -> None:
    """A figure that a module defines and `figures.toml` lacks would never be made."""
    made = {figure.run.func for figure in FIGURES.values()}  # type: ignore[attr-defined]
    for name in MEASUREMENT:
        for key, value in vars(import_module(f"graphbandit.paper.{name}")).items():
            if key.split("_")[0] == "run" and getattr(value, "__module__", "") == f"graphbandit.paper.{name}":
                assert key == "compare_algorithms" or value in made, (name, key)


def test_every_quotation_is_used() -> None:
    """By a claim in a module, or by an entry of `figures.toml`."""
    folder = Path(paper.__file__).parent
    text = "".join(path.read_text() for path in (*folder.glob("*.py"), folder / "figures.toml"))
    steps = {f"{step}-step" for step in estimation.STEPS}
    assert [key for key in QUOTES if f'"{key}"' not in text and key not in steps] == []


def test_all_figures_of_the_paper_have_their_number() -> None:
    assert {int(number.rstrip("abcdef")) for number in paper_numbers()} == set(range(1, 12))
    assert all(figure.part != BEYOND for figure in FIGURES.values() if figure.numbers)
    assert list(paper_numbers())[:5] == ["1a", "1b", "2a", "2b", "3a"] and list(paper_numbers())[-1] == "11"
    assert (
        FIGURES["regret-er"].heading.startswith("Figures 2b and 7b: ")
        and FIGURES["psi-time"].heading == "Figure 1b: Ψ over time"
    )


@pytest.mark.compiled
def test_every_figure_has_its_files_and_claims(report: Path) -> None:
    claims = json.loads((report / "claims.json").read_text())
    pages = {beyond: (report / name).read_text() for beyond, name in ((False, "index.html"), (True, "beyond.html"))}
    for name in SYNTHETIC:
        figure = FIGURES[name]
        page, other = (pages[(figure.part == BEYOND) == here] for here in (True, False))
        for setting in figure.settings:
            stem = Outcome(figure, setting).picture("")[:-1]
            assert (report / f"{stem}.png").read_bytes().startswith(b"\x89PNG")
            assert (report / f"{stem}.pdf").read_bytes().startswith(b"%PDF") and f'src="{stem}.png"' in page
            environment = setting if figure.both else ""
            mine = [c for c in claims if c["figure"] == name and c["environment"] == environment]
            assert name == "graphs" or mine, name
            assert figure.part != BEYOND or all(c["beyond"] for c in mine)
        assert f'<section id="{name}">' in page and f'<section id="{name}">' not in other
    keys = {"figure", "environment", "claim", "quote", "where", "beyond", "verdict", "evidence", "reason"}
    for claim in claims:
        assert set(claim) == keys and claim["evidence"] and claim["beyond"] != bool(claim["quote"]) == bool(claim["where"])
    for page in pages.values():
        assert "{{" not in page and "http" not in page.split("</style>")[0] and len(page.encode()) < 2_000_000


@pytest.mark.compiled
def test_the_page_begins_with_the_regret_figures_then_the_claims(report: Path) -> None:
    page = (report / "index.html").read_text()
    cards, table, first_section = page.index('class="cards"'), page.index('<h2 id="claims">'), page.index("<section id=")
    assert cards < table < first_section
    opening = page[cards:table]
    for name in ("regret-rbf", "regret-er", "regret-ba", "regret-ws"):
        assert f"figures/{name}-printed.png" in opening and f"figures/{name}-released.png" in opening
    assert opening.count("The paper shows</b> GraphUCB lowest") == 8  # one of each two is hidden
    for whose in SETTINGS.values():
        assert opening.count(f"in {escape(whose)}, this order of the regrets per user: ") == 4
        assert f"in {escape(whose)} " in opening.split("forms that the authors' code has")[1]
    anchors = set(re.findall(r'<details id="([^"]+)"', page))
    assert set(re.findall(r'class="v \w+" href="#([^"]+)"', page)) <= anchors and len(anchors) > 100
    second = (report / "beyond.html").read_text()
    for one, other, name in ((page, second, "beyond"), (second, page, "index")):
        assert set(re.findall(r'href="#([^"]+)"', one)) <= set(re.findall(r'id="([^"]+)"', one))
        assert set(re.findall(rf'href="{name}\.html#([^"]+)"', one)) <= set(re.findall(r'id="([^"]+)"', other))
    for section in page[first_section:].split("<section id=")[1:-2]:
        captions = re.findall(r"<figcaption>([^<]*)", section)
        figure = FIGURES[section.split('"')[1]]
        expected = [f"The {whose.removeprefix('the ')}. " for whose in SETTINGS.values()] if figure.both else [""]
        assert [caption.replace("&#39;", "'") for caption in captions] == expected, figure.name


@pytest.mark.compiled
def test_a_second_call_runs_nothing(report: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise AssertionError("ran again")

    before = (report / "claims.json").read_text()
    for name in SYNTHETIC:
        monkeypatch.setitem(FIGURES, name, replace(FIGURES[name], run=fail))
    reproduce(["psi-time", "regret-er"], report, SMALL)  # the claims of all others are judged again too
    assert (report / "claims.json").read_text() == before
    with pytest.raises(AssertionError, match="ran again"):
        reproduce(["psi-time"], report, replace(SMALL, runs=3))


@pytest.mark.compiled
def test_asking_for_one_figure_draws_one(report: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []

    def counted(chart: Any) -> Any:
        drawn.append(len(chart))
        return draw(chart)

    monkeypatch.setattr("graphbandit.paper.reproduce.draw", counted)
    kept = ("claims.json", "figures/graphs-printed.png", "figures/alpha-released.pdf")
    before = {name: (report / name).read_bytes() for name in kept}
    outcomes = reproduce(["graphs"], report, SMALL, ["printed"])
    assert drawn == [4] and [o.figure.name for o in outcomes if o.setting == "released"] == SYNTHETIC
    assert {name: (report / name).read_bytes() for name in before} == before
    (report / "figures" / "alpha-released.pdf").unlink()  # a picture that is gone is drawn again
    reproduce(["graphs"], report, SMALL, ["printed"])
    assert len(drawn) == 3 and (report / "figures" / "alpha-released.pdf").read_bytes() == before["figures/alpha-released.pdf"]


@pytest.mark.compiled
def test_workers_do_not_change_the_numbers() -> None:
    for name, part in (("regret-er", "regret"), ("approximation", "errors")):
        one, two = (FIGURES[name].run(replace(SMALL, horizon=60, workers=w)) for w in (1, 2))
        assert all(np.array_equal(one[part][key], two[part][key]) for key in one[part])


def verdicts(claims: Any) -> list[bool | None]:
    """Return True for each claim that holds, False if it does not, None if the data decide nothing."""
    return [{"holds": True, "does not hold": False, "equal": None, "more runs needed": None}[claim.verdict] for claim in claims]


def made_up(order: dict[str, float], setting: str = "released") -> Data:
    noise = np.random.default_rng(0).normal(scale=0.1, size=(20, 1))
    curves = {name: (np.linspace(0, value, 5) + noise * np.linspace(0, 1, 5)) for name, value in order.items()}
    out: Data = {
        "rounds": np.arange(1.0, 6.0),
        "regret": curves,
        "tuned": {"Gob.Lin": 0.5, "CLUB": 0.2},
        "setting": setting,
        "title": "t",
    }
    return out | {"density": np.ones(20), "smoothness": np.ones(20), "note": "a sample", "least weight": 0.5}


RISING = {
    "GraphUCB": 10.0,
    "GraphUCB-Local": 11.0,
    LITERAL_LOCAL: 12.0,
    "Gob.Lin": 13.5,
    RELEASED_GOBLIN: 13.6,
    "CLUB": 35.0,
    "LinUCB": 60.0,
}


def test_regret_claims_both_ways() -> None:
    good = regret.claims(made_up(RISING))
    assert all(verdicts(good)) and len(good) == 27
    bad = regret.claims(made_up(dict(zip(RISING, (60.0, 80.0, 110.0, 30.0, 40.0, 15.0, 12.0), strict=True)), "printed"))
    wrong = {claim.claim for claim in bad if claim.verdict == "does not hold"}
    assert "GraphUCB has lower regret than LinUCB" in wrong and f"{LITERAL_LOCAL} has lower regret than CLUB" in wrong
    assert "The regret of GraphUCB-Local is above that of GraphUCB, by at most a quarter" in wrong
    assert all(claim.reason and claim.quote[1].startswith("Section 7.") for claim in bad)
    assert {"Gob.Lin has lower regret than LinUCB", f"{RELEASED_GOBLIN} has lower regret than CLUB"} <= wrong
    assert [c.claim.split(" has")[0] for c in bad if c.said == "poor"] == ["Gob.Lin", RELEASED_GOBLIN, "CLUB"]
    for name in (LITERAL_LOCAL, RELEASED_GOBLIN):  # both readings have the same claims
        own, other = (" ".join(c.claim for c in good).count(text) for text in (name.split(",")[0] + " has", f"{name} has"))
        assert own == other > 1
    far = {c.claim: c.verdict for c in regret.claims(made_up(RISING | {"Gob.Lin": 30.0}))}
    close = "The regret of Gob.Lin is above that of GraphUCB-Local, by at most a quarter"
    assert far[close] == "does not hold"
    better = {c.claim: c.verdict for c in regret.claims(made_up(RISING | {"Gob.Lin": 9.0}))}
    assert better[close] == "does not hold"  # close means neither far above nor below
    near = regret.claims(made_up(RISING | {"Gob.Lin": 12.0}))
    tight = {c.claim: c.verdict for c in near}
    assert all(c.reason == regret.NARROW for c in near if "at least a quarter" in c.claim)
    large = {text: v for text, v in tight.items() if text.startswith("The regret of GraphUCB is at least a quarter below")}
    assert list(large.values()) == ["does not hold", "holds"] and RELEASED_GOBLIN in list(large)[1]


def test_a_trend_must_hold_in_both_halves_of_the_axis() -> None:
    valley = sweep(0.0, "sparsity-rbf")
    valley["regret"] = {name: runs + 5 * np.abs(valley["density"] - 0.4) for name, runs in valley["regret"].items()}
    assert verdicts(sweeps.claims(valley)) == [False] * 3


def sweep(slope: float, name: str) -> Data:
    x, noise = np.linspace(0, 1, 5), np.random.default_rng(1).normal(scale=0.01, size=(20, 1))
    runs = dict.fromkeys(sweeps.GRAPH_POLICIES, 10 + slope * x + noise)
    out: Data = {"values": x, "regret": runs, "density": x, "smoothness": 1 - x, "skipped": {"7": 3}}
    return FIGURES[name].arguments | out | {"quote": FIGURES[name].arguments.get("quote", "")}


@pytest.mark.parametrize("name", [name for name, figure in FIGURES.items() if "varied" in figure.arguments])
def test_sweep_claims_both_ways(name: str) -> None:
    good, bad = (-0.5, 5.0) if name == "sweep-ws-p" else (-5.0, 5.0)
    assert all(verdicts(sweeps.claims(sweep(good, name))))
    failed = sweeps.claims(sweep(bad, name))
    assert set(verdicts(failed)) == {False} and all(claim.reason and "7" in str(claim.evidence) for claim in failed)
    assert {claim.beyond for claim in failed} == {name not in ("smoothness-rbf", "sparsity-rbf", "sweep-er-p")}


def test_smoothness_on_families_both_ways() -> None:
    x, noise = np.linspace(1, 5, 4), np.random.default_rng(2).normal(scale=0.01, size=(10, 4))
    x = 4 * x
    assert sweeps.at_smoothness(np.array([[4.0, 8.0, 12.0]]), np.array([12.0, 6.0, 4.0])) == pytest.approx([20 / 3])
    for far, holds in ((1.0, True), (9.0, False)):
        parts = {family: dict.fromkeys(sweeps.GRAPH_POLICIES, 9 + x + noise + far * (family == "ba")) for family in FAMILIES}
        data = {"families": {f: {"smoothness": x, "regret": part} for f, part in parts.items()}, "setting": "printed"}
        assert verdicts(sweeps.claims_families(data)) == [holds] * 3 and len(sweeps.chart_families(data)) == 2


def test_topology_claims_both_ways() -> None:
    noise = np.random.default_rng(4).normal(scale=0.1, size=(20, 1))
    for far, verdict in ((21.0, True), (28.0, False)):
        level = {"rbf": 20.0, "er": 20.0, "ba": far, "ws": 20.0}
        parts = {
            name: {"rounds": np.array([1.0]), "regret": {"GraphUCB": mean + noise, "LinUCB": 60 + noise}}
            for name, mean in level.items()
        }
        data = {"families": parts, "setting": "printed"}
        assert verdicts(regret.claims_topology(data)) == [verdict] and len(regret.chart_topology(data)[0].series) == 4


def test_all_topologies_have_as_many_edges() -> None:
    for setting in SETTINGS:
        for family in FAMILIES:
            assert regret.graph_with_edges(setting, family, 3).n_edges == regret.EDGES == 75


def test_estimation_claims_both_ways() -> None:
    noise = np.random.default_rng(5).normal(scale=1e-3, size=(5, 10))
    close = {"eq. (5)": 1 + noise, "Lemma 1 with V_i⁻¹": 1.01 + noise, "Lemma 1": 1.1 + noise, "ridge": 2 + noise}
    far = {"eq. (5)": 3 + noise, "Lemma 1 with V_i⁻¹": 9 + noise, "Lemma 1": 30 + noise, "ridge": 2 + noise}
    rounds = np.arange(1.0, 11.0)
    good, bad = (estimation.claims_approximation({"rounds": rounds, "errors": errors}) for errors in (close, far))
    assert verdicts(good) == [True] * 7 and verdicts(bad) == [False] * 7
    assert [claim.beyond for claim in good] == [False, True, False, True, False, False, False]
    assert [claim.evidence.get("within 3 % from round") for claim in good[:4:2]] == [1, "never"]
    nearer = np.linspace(2, 1, 10)
    holds = {"rounds": rounds, "left": nearer + noise, "right": 1 + 0 * noise, "share": np.ones((5, 10))}
    fails = {"rounds": rounds, "left": 3 - nearer + noise, "right": 1 + 0 * noise, "share": np.zeros((5, 10))}
    assert verdicts(estimation.claims_noise(holds)) == [True, True]
    assert verdicts(estimation.claims_noise(fails)) == [False, False]


def test_claims_about_forms_parts_and_alpha_both_ways() -> None:
    noise = np.random.default_rng(6).normal(scale=0.01, size=(10, 4))
    order = {name: value for name, value in RISING.items() if ", " not in name}
    for values, holds in ((list(order.values()), True), (list(order.values())[::-1], False)):
        level = dict(zip(order, values, strict=True))
        data: Data = {"regret": {f"{n}|{form}": v + noise for n, v in level.items() for form in variants.FORMS.values()}}
        data["setting"] = "printed"
        assert verdicts(variants.claims(data)) == [holds] * 21 and len(variants.chart(data)[0].series) == 5
        level[LITERAL_LOCAL] = level["GraphUCB-Local"]
        runs = {name: level[name] + np.repeat(noise[..., None], len(variants.PARTS), axis=2) for name in variants.SHOWN}
        assert verdicts(variants.claims_parts({"regret": runs})) == [holds] * len(variants.PARTS)
    steep = 5 + noise[:, :1] + np.array([[0.0, 2.0, 4.0]])
    flat = 5 + noise[:, :1] + np.array([[1.0, 0.0, 1.0]])
    for runs, holds in ((flat, True), (steep, False)):
        part = {"GraphUCB": runs, "GraphUCB-Local": runs}
        alpha = {"alphas": np.array([0.1, 1.0, 10.0]), "noise": {"0.01": part, "0.1": part}, "setting": "printed"}
        assert verdicts(variants.claims_alpha(alpha)) == [holds] * 4 and len(variants.chart_alpha(alpha)) == 2


def test_mixed_environments_have_the_parts_that_their_names_say() -> None:
    scripts, fixed, pools, text, large = (variants.mixture(part, "er", 0) for part in variants.PARTS)
    assert np.array_equal(scripts.truth, fixed.truth) and np.array_equal(pools.truth, text.truth)
    assert [env.pool for env in (scripts, fixed, pools, text)] == [50, None, 50, None]
    assert np.linalg.norm(large.truth) == pytest.approx(20) and np.linalg.norm(text.truth) == pytest.approx(np.sqrt(20))


def test_real_claims_both_ways() -> None:
    good = real_data.claims(made_up(RISING | {"Gob.Lin": 34.0, RELEASED_GOBLIN: 33.0, "CLUB": 30.0}) | {"name": "movielens"})
    assert all(verdicts(good)) and len(good) == 18
    falling = dict(zip(RISING, (60.0, 50.0, 40.0, 38.0, 39.0, 20.0, 10.0), strict=True))
    assert set(verdicts(real_data.claims(made_up(falling, "printed") | {"name": "netflix"}))) == {False}
    for level, wide, holds in ((12.0, 0.2, True), (30.0, 0.05, False)):
        parts = {"movielens": made_up(RISING)["regret"], "netflix": made_up(RISING | {"GraphUCB": level})["regret"]}
        spread = {"movielens": np.linspace(0.09, 0.11, 20), "netflix": wide + np.linspace(0.0, 0.01, 20)}
        assert verdicts(real_data.claims_histograms({"regret": parts, "spread": spread})) == [holds, holds]


def outcomes_of(*claims: Claim) -> list[Outcome]:
    return [Outcome(FIGURES["regret-er"], setting, made_up(RISING, setting), list(claims)) for setting in SETTINGS]


def test_the_table_of_claims_groups_by_quotation_and_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(QUOTES, "x", {"words": "“x” & y", "where": "Section 7"})
    said = Claim("<b> is lower", "holds", {"a": 1.0}, said="x")
    ours = Claim("ours", "does not hold", {"a": 1.0}, "why")
    outcomes = outcomes_of(said, ours)
    ((part, quotes),) = claim_table(outcomes).items()
    assert part == FIGURES["regret-er"].part and list(quotes) == [("“x” & y", "Section 7")]
    cells = quotes["“x” & y", "Section 7"]["<b> is lower"]
    assert {setting: [(label, anchor) for label, anchor, _ in found] for setting, found in cells.items()} == {
        setting: [("ER", f"regret-er-{setting}-1")] for setting in SETTINGS
    }
    assert tally(outcomes, "printed") == {"holds": 1}
    write_report(tmp_path / "index.html", outcomes, SMALL)
    page = (tmp_path / "index.html").read_text()
    assert "&lt;b&gt; is lower" in page and "<b> is lower" not in page and "“x” &amp; y" in page
    assert [claim["beyond"] for claim in claims_list(outcomes)] == [False, True] * 2


def test_marked_text_is_escaped() -> None:
    assert marked("run `a<b` at https://x.org/y") == (
        'run <code>a&lt;b</code> at <a href="https://x.org/y">https://x.org/y</a>'
    )


def test_figures_without_data_keep_their_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("GRAPHBANDIT_DATA", raising=False)
    outcomes = reproduce(["movielens", "netflix", "histograms"], tmp_path / "report", SMALL)
    assert all(outcome.missing for outcome in outcomes)
    page = (tmp_path / "report" / "index.html").read_text()
    for name, number in (("movielens", "4a"), ("netflix", "4b"), ("histograms", "11")):
        assert f"Figure {number}: " in page.split(f'<section id="{name}">')[1].split("</section>")[0]
    assert page.count("graphbandit datasets fetch movielens-1m") == 2  # 4a and 11, once each
    assert json.loads((tmp_path / "report" / "claims.json").read_text()) == []


def test_an_unreadable_archive_spoils_one_figure_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "ml-1m.zip").write_bytes(b"half an archive")
    settings = replace(SMALL, data=tmp_path)
    outcomes = reproduce(["movielens", "delta-smoothness"], tmp_path / "report", settings, ["printed"])
    assert [bool(outcome.missing) for outcome in outcomes] == [False, True]
    assert "ml-1m.zip" in outcomes[1].missing and outcomes[0].claims


@pytest.mark.compiled
def test_real_figures_on_the_archives(tmp_path: Path) -> None:
    folder = Path(os.environ.get("GRAPHBANDIT_DATA", Path(__file__).parents[3] / "shared" / "data"))
    if not (folder / "ml-1m.zip").exists():
        pytest.skip(f"the archives are not in {folder}; set GRAPHBANDIT_DATA to where they are")
    outcomes = reproduce(["movielens", "netflix", "histograms"], tmp_path, replace(SMALL, data=folder))
    assert [len(outcome.claims) for outcome in outcomes] == [18, 18, 16, 16, 2, 2]
    notes = [(outcome.data or {})["note"] for outcome in outcomes]
    histograms = [outcome.data or {} for outcome in outcomes[4:]]
    for data in histograms:  # no payoff lies outside the axis
        assert all(share.sum() == pytest.approx(1) for share in data["share"].values())
    assert [panel.title.split(":")[0] for panel in real_data.chart_histograms(histograms[0])] == [
        "MovieLens",
        "Netflix, sample",
    ]
    assert "sample" not in notes[0] and "Netflix prize, a sample of 1,200 users × 1,200 films" in notes[2]


def test_the_algorithms_have_the_presets_that_their_names_say() -> None:
    graph, tuned = draw_graph("er", 0), {"Gob.Lin": 0.3, "CLUB": 0.2}
    printed, released = (
        {name: make(graph, 5).params for name, make in algorithms(tuned, preset=preset, sigma=0.1).items()}
        for preset in ("paper", "released")
    )
    assert printed["GraphUCB-Local"]["rule"] == "section-5" and printed[LITERAL_LOCAL]["rule"] == "algorithm-2"
    assert printed["Gob.Lin"]["preset"] == "paper" and printed["Gob.Lin"]["exploration"] == 0.3
    assert printed["CLUB"]["alpha2"] == 0.2 and printed["LinUCB"]["sigma"] == printed["GraphUCB"]["sigma"] == 0.1
    assert released["GraphUCB-Local"]["rule"] == "released" and released["Gob.Lin"]["preset"] == "released"
    assert LITERAL_LOCAL not in released and RELEASED_GOBLIN not in released
    both = algorithms(tuned | {RELEASED_GOBLIN: 0.2})
    assert (
        both[RELEASED_GOBLIN](graph, 5).params["preset"] == "released"
        and both[RELEASED_GOBLIN](graph, 5).params["exploration"] == 0.2
    )
    with pytest.raises(ValueError, match="setting must be printed or released, but it is 'best'"):
        ReproduceSettings(setting="best")  # type: ignore[arg-type]


@pytest.mark.compiled
def test_tuning_uses_its_own_seeds() -> None:
    assert not set(TUNING_SEEDS) & set(range(1000))
    seen: list[int] = []

    def spy(seed: int) -> Any:
        seen.append(seed)
        return maker("released", "er")(seed)

    tuned_baselines(spy, replace(SMALL, horizon=20))
    assert set(seen) <= set(TUNING_SEEDS)


def test_results_survive_a_file(tmp_path: Path) -> None:
    data = {"a": np.arange(3.0), "b": {"c|d": np.ones((2, 2)), "e": [1, "x"]}, "n": 5}
    save(tmp_path / "x.npz", "key", data, 1.5)
    again, seconds = load(tmp_path / "x.npz", "key")
    assert again is not None and seconds == 1.5 and again["n"] == 5 and again["b"]["e"] == [1, "x"]
    assert np.array_equal(again["b"]["c|d"], np.ones((2, 2))) and load(tmp_path / "x.npz", "other")[0] is None
    (tmp_path / "x.npz").write_bytes(b"half")
    assert load(tmp_path / "x.npz", "key")[0] is None


def test_charts_are_drawn() -> None:
    chart = regret.chart(made_up(RISING))
    assert picture(draw(chart)).startswith(b"\x89PNG")
    assert chart[0].series[0].y[-1] == pytest.approx(10 / 20, abs=0.01)  # of one user
    assert [series.style for series in chart[0].series] == ["line", "line", "dashed", "line", "dashed", "line", "line"]
    many = curve("LinUCB", np.arange(50_000), np.random.default_rng(0).random((5, 50_000)))
    assert {len(part) for part in (many.x, many.y, many.low, many.high)} == {200}


def test_curves_and_labels_of_ticks_can_be_told_apart() -> None:
    """No label is cut or lies on another, and every axis has two, however short a logarithmic one is."""
    short = [Series(name, [1.0, 1000.0], [16.75 + k, 17.0 + 2 * k], style="line") for k, name in enumerate("ab")]
    sizes = {10.0: "10", 20.0: "20", 40.0: "40", 80.0: "80"}
    counts = np.tile([0.5, 2.0], (20, len(coverage.REGIONS), len(coverage.BINS), 1))
    charts = [
        regret.chart(made_up(RISING)),
        regret.chart(made_up(dict.fromkeys(RISING, 0.03))),
        sweeps.chart(sweep(1.0, "sweep-er-p") | {"axis": "p", "setting": "printed"}),
        coverage.chart({"counts": counts, "setting": "printed"}),
        [Panel("short", series=short, log_y=True), Panel("wide", series=short, log_x=True, log_y=True)],
        [Panel("ticks", series=[Series("a", list(sizes), [0.2, 0.5, 40.0, 9e3])], log_x=True, log_y=True, ticks=sizes)],
    ]
    for figure in map(draw, charts):
        figure.draw_without_rendering()
        for axes in figure.axes:
            shades = [line.get_color() for line in axes.get_lines()]
            assert len(set(shades)) == len(shades) > 0, axes.get_title(loc="left")
            for axis in (axes.xaxis, axes.yaxis):
                low, high = sorted(axis.get_view_interval())
                ticks = [tick for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()) if low <= tick.get_loc() <= high]
                labels = [tick.label1 for tick in ticks if tick.label1.get_text()]
                boxes = [label.get_window_extent() for label in labels]
                name = f"{axes.get_title(loc='left')}: {[label.get_text() for label in labels]} from {low} to {high}"
                assert len(boxes) > 1, name
                assert all(figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1 for box in boxes), name
                assert all(figure.bbox.y0 <= box.y0 and box.y1 <= figure.bbox.y1 for box in boxes), name
                assert not any(one.overlaps(other) for one, other in combinations(boxes, 2)), name


def test_command(tmp_path: Path) -> None:
    runner = CliRunner()
    wrong = runner.invoke(app, ["reproduce", "no-such-figure", "--out", str(tmp_path)])
    assert wrong.exit_code == 2 and "there is no figure 'no-such-figure'; there are regret-rbf" in wrong.output
    words = ["--runs", "2", "--workers", "1", "--out", str(tmp_path), "--quiet"]
    done = runner.invoke(app, ["reproduce", "graphs", "delta-smoothness", *words])
    assert done.exit_code == 0 and "claims of the paper in the text's environment: holds 1, does not hold 1" in done.output
    one = runner.invoke(app, ["reproduce", "graphs", "--setting", "released", *words])
    assert one.exit_code == 0 and len(json.loads((tmp_path / "claims.json").read_text())) == 4
    bad = runner.invoke(app, ["reproduce", "graphs", "--setting", "paper", *words])
    assert bad.exit_code == 2 and "setting must be printed or released" in bad.output
    absent = runner.invoke(app, ["reproduce", "graphs", "--data", "no/such/folder", "--out", str(tmp_path)])
    assert absent.exit_code == 2 and "no/such/folder does not exist" in absent.output.replace("\n", "")
    as_text = runner.invoke(app, ["reproduce", "delta-smoothness", "--json", *words])
    assert json.loads(as_text.stdout)[0]["figure"] == "delta-smoothness"
    assert [figure.name for figure in select(["graphs", "psi-time"])] == ["psi-time", "graphs"]


def test_a_complete_report_says_so() -> None:
    whole = [Outcome(figure, "printed") for figure in FIGURES.values()]
    assert absent_figures(whole, ReproduceSettings()) == "All 11 figures of the paper are here."
    broken = [replace(one, missing="A data set is bad.") if one.figure.name == "movielens" else one for one in whole]
    assert absent_figures(broken, ReproduceSettings()) == "Figure 4a of the paper is absent: a data set is bad."
