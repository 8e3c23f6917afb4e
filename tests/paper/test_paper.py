"""The paper's figures: each runs small, and its claims are judged both ways on made-up results."""

from __future__ import annotations

import json
import os
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from graphbandit import GraphUCB, LinUCB, environments, graphs, paper
from graphbandit.cli import app
from graphbandit.experiments import TUNING_SEEDS
from graphbandit.experiments.testbeds import FAMILIES, draw_graph, world
from graphbandit.paper import (
    FIGURES,
    Figure,
    ReproduceSettings,
    controls,
    delays,
    estimation,
    learned_graphs,
    newcomers,
    real_data,
    regret_curves,
    sweeps,
    theory,
)
from graphbandit.paper.chart import as_json, curve, render
from graphbandit.paper.claims import UNDECIDED, alike, all_hold, below, lower
from graphbandit.paper.figure_parts import Data
from graphbandit.paper.lineup import algorithms, tuned_baselines
from graphbandit.paper.reproduce import load, reproduce, save, select
from graphbandit.plots import colour

SMALL = ReproduceSettings(runs=2, horizon=40, quick=True)
SYNTHETIC = [name for name, figure in FIGURES.items() if not figure.sources]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("report")
    reproduce(SYNTHETIC, out, SMALL)
    return out


def test_every_figure_is_in_the_table() -> None:
    """A figure that a module defines and the table lacks would never be made."""
    defined: list[Figure] = []
    for path in sorted(Path(paper.__file__).parent.glob("*.py")):
        if path.stem not in ("__init__", "figure_list"):
            for value in vars(import_module(f"graphbandit.paper.{path.stem}")).values():
                parts = value if isinstance(value, list | tuple) else [value]
                defined += [part for part in parts if isinstance(part, Figure)]
    assert sorted(figure.name for figure in defined) == sorted(FIGURES)
    assert all(figure is FIGURES[figure.name] for figure in defined)


@pytest.mark.compiled
def test_every_figure_has_its_files_and_claims(report: Path) -> None:
    claims = json.loads((report / "claims.json").read_text())
    page = (report / "index.html").read_text()
    for name in SYNTHETIC:
        assert (report / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (report / "figures" / f"{name}.pdf").read_bytes().startswith(b"%PDF")
        assert f'id="{name}"' in page
        assert name == "graphs" or any(claim["figure"] == name for claim in claims), name
    for claim in claims:
        assert set(claim) == {"figure", "claim", "beyond", "verdict", "holds", "evidence", "reason"}
        assert claim["holds"] == (claim["verdict"] == "holds") and claim["evidence"]
    assert "{{" not in page.split("<script>")[0] and "http" not in page.split("</style>")[0]
    assert len(page.encode()) < 100_000 * len(SYNTHETIC)  # a report of all figures stays below 4 MB


@pytest.mark.compiled
def test_a_second_call_runs_nothing(report: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise AssertionError("ran again")

    before = (report / "claims.json").read_text()
    for name in SYNTHETIC:
        monkeypatch.setitem(FIGURES, name, type(FIGURES[name])(**{**vars(FIGURES[name]), "run": fail}))
    reproduce(["psi-time", "regret-er"], report, SMALL)  # the claims of all others are judged again too
    assert (report / "claims.json").read_text() == before
    with pytest.raises(AssertionError, match="ran again"):
        reproduce(["psi-time"], report, ReproduceSettings(runs=3, horizon=40, quick=True))


@pytest.mark.compiled
def test_asking_for_one_figure_draws_one(report: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []

    def counted(chart: Any, suffix: Any) -> bytes:
        drawn.append(suffix)
        return render(chart, suffix)

    monkeypatch.setattr("graphbandit.paper.reproduce.render", counted)
    before = {name: (report / name).read_bytes() for name in ("claims.json", "figures/graphs.png", "figures/alpha.pdf")}
    outcomes = reproduce(["graphs"], report, SMALL)
    assert drawn == ["png", "pdf"] and [outcome.figure.name for outcome in outcomes] == SYNTHETIC
    assert {name: (report / name).read_bytes() for name in before} == before
    page = (report / "index.html").read_text()
    (report / "figures" / "alpha.pdf").unlink()  # a picture that is gone is drawn again
    reproduce(["graphs"], report, SMALL)
    assert len(drawn) == 6 and (report / "figures" / "alpha.pdf").read_bytes() == before["figures/alpha.pdf"]
    assert (report / "index.html").read_text().count('href="figures/') == page.count('href="figures/') == 2 * len(SYNTHETIC)


@pytest.mark.compiled
def test_workers_do_not_change_the_numbers(tmp_path: Path) -> None:
    one, two = (FIGURES["regret-er"].run(ReproduceSettings(runs=2, horizon=60, quick=True, workers=w)) for w in (1, 2))
    assert one["tuned"] == two["tuned"]
    for name in one["regret"]:
        assert np.array_equal(one["regret"][name], two["regret"][name])
    one, two = (FIGURES["psi-time"].run(ReproduceSettings(runs=2, horizon=60, workers=w)) for w in (1, 2))
    assert np.array_equal(one["psi"], two["psi"], equal_nan=True)
    one, two = (FIGURES["approximation"].run(ReproduceSettings(runs=2, horizon=60, workers=w)) for w in (1, 2))
    assert all(np.array_equal(one["errors"][name], two["errors"][name]) for name in one["errors"])


def made_up(order: dict[str, float]) -> Data:
    noise = np.random.default_rng(0).normal(scale=0.1, size=(20, 1))
    curves = {name: (np.linspace(0, value, 5) + noise * np.linspace(0, 1, 5)) for name, value in order.items()}
    out: Data = {"rounds": np.arange(1.0, 6.0), "regret": curves, "tuned": {"Gob.Lin": 0.5, "CLUB": 0.2}, "preset": "paper"}
    return out | {"sparsity": np.ones(20), "smoothness": np.ones(20)}


def verdicts(claims: Any) -> list[bool | None]:
    """True if a claim holds, False if it does not, None if it is undecided."""
    return [{"holds": True, "does not hold": False, "undecided": None}[claim.verdict] for claim in claims]


def test_regret_claims_both_ways() -> None:
    rising = {"GraphUCB": 10.0, "GraphUCB-Local": 20.0, "Gob.Lin": 30.0, "CLUB": 35.0, "LinUCB": 60.0}
    assert all(verdicts(regret_curves.claims(made_up(rising))))
    falling = dict(zip(rising, reversed(rising.values()), strict=True))
    assert set(verdicts(regret_curves.claims(made_up(falling)))) == {False}
    assert all(claim.reason for claim in regret_curves.claims(made_up(falling)))
    assert verdicts(regret_curves.fixed_claims(made_up(rising))) == [True]
    assert verdicts(regret_curves.fixed_claims(made_up(falling))) == [False]


def test_a_tie_is_not_a_win() -> None:
    values = np.random.default_rng(0).normal(size=20)
    assert lower(values, values[::-1])[0] == "undecided"
    assert lower(values - 1, values)[0] == "holds" and lower(values + 1, values)[0] == "does not hold"
    assert lower(values, values)[0] == "does not hold" and lower(values[:1], values[:1] + 9)[0] == "undecided"


def test_what_is_alike_needs_evidence_too() -> None:
    noise = np.random.default_rng(0).normal(size=20)
    for spread, shift, verdict in ((0.1, 1.0, "holds"), (0.1, 3.0, "does not hold"), (0.1, -3.0, "does not hold")):
        assert alike(10 + shift + spread * noise, np.full(20, 10.0))[0] == verdict
    assert alike(10 + 20 * noise, np.full(20, 10.0))[0] == "undecided"  # no difference was found, nor could it have been


def test_one_part_refutes_the_whole() -> None:
    assert all_hold(["holds", "undecided", "does not hold"]) == "does not hold"
    assert all_hold(["holds", "undecided"]) == "undecided" and all_hold(["holds", "holds"]) == "holds"


def test_one_of_many_comparisons_refutes_only_if_it_is_clear() -> None:
    values = np.array([0.5, 1.0, 2.0, 3.0, 0.5])
    assert below(values) == "does not hold" and below(values, comparisons=40) == "undecided"
    assert below(-values) == below(-values, comparisons=40) == "holds"


@pytest.mark.parametrize("preset", ["paper", "released"])
def test_the_reason_of_a_preset_explains_no_undecided_claim(preset: str) -> None:
    """Noise of 30 runs larger than every difference: nothing is decided, whatever the preset."""
    rng = np.random.default_rng(3)
    names = ("GraphUCB", "GraphUCB-Local", "Gob.Lin", "CLUB", "LinUCB", "LinUCB, radius of CLUB", "GraphUCB, complete graph")
    values = rng.normal(size=(30, len(names)))
    values -= values.mean(axis=0)  # equal means
    curves = {name: 10 + values[:, [k]] for k, name in enumerate(names)}
    data = made_up({}) | {"regret": curves, "preset": preset, "source": "x", "graph": {}}
    found = regret_curves.claims(data) + regret_curves.fixed_claims(data) + real_data.claims_ratings(data, name="movielens")
    assert {(claim.verdict, claim.explanation) for claim in found} == {("undecided", UNDECIDED)}


def sweep(slope: float) -> Data:
    x, noise = np.linspace(0, 1, 5), np.random.default_rng(1).normal(scale=0.01, size=(20, 1))
    runs = {name: 10 + slope * x + noise for name in ("GraphUCB", "GraphUCB-Local")}
    return {"values": x, "regret": runs, "sparsity": x, "smoothness": 1 - x}


@pytest.mark.parametrize("name", sweeps.SWEEPS)
def test_sweep_claims_both_ways(name: str) -> None:
    good, bad = (-0.5, 5.0) if name == "sweep-ws-p" else (-5.0, 5.0)
    assert all(verdicts(sweeps.claims(sweep(good), name=name)))
    failed = sweeps.claims(sweep(bad), name=name)
    assert set(verdicts(failed)) == {False} and all(claim.reason for claim in failed)


def test_smoothness_on_graphs_both_ways() -> None:
    x = np.tile(np.linspace(1, 5, 4), (10, 1))
    for sign, holds in ((1.0, True), (-1.0, False)):
        data = {"smoothness": {f: x for f in FAMILIES}, "regret": {}, "policies": ["GraphUCB", "GraphUCB-Local"]}
        noise = np.random.default_rng(2).normal(scale=0.01, size=x.shape)
        data["regret"] = {f"{p}|{f}": 9 + sign * x + noise for p in ("GraphUCB", "GraphUCB-Local") for f in FAMILIES}
        assert verdicts(sweeps.claims_graphs(data)) == [holds, holds]


def test_theory_claims_both_ways() -> None:
    grid = np.tile(np.arange(6.0), (5, 1)) + np.random.default_rng(3).normal(scale=0.01, size=(5, 6))
    assert verdicts(theory.claims_delta({"smoothness": grid, "delta": grid**2})) == [True]
    assert verdicts(theory.claims_delta({"smoothness": grid, "delta": -grid})) == [False]
    rounds = np.arange(1.0, 21.0)
    rise = np.linspace(0.1, 0.6, 20)[None, :, None] + np.random.default_rng(4).normal(scale=1e-3, size=(5, 20, 4))
    assert verdicts(theory.claims_psi({"rounds": rounds, "psi": rise})) == [True, True]
    one_falls = rise.copy()
    one_falls[:, :, 2] = 1.2 - rise[:, :, 2]  # the mean over users rises, and is inside
    assert verdicts(theory.claims_psi({"rounds": rounds, "psi": one_falls})) == [False, False]
    late = rise.copy()
    late[:, :5, 1] = np.nan  # served late
    assert verdicts(theory.claims_psi({"rounds": rounds, "psi": late})) == [True, True]
    bound = {"rounds": rounds, "regret": rise, "printed": 2 * rise, "root": 0.5 * rise, "linucb": rise}
    assert verdicts(theory.claims_bound(bound)) == [True, False, False, True]


def test_estimation_claims_both_ways() -> None:
    noise = np.random.default_rng(5).normal(scale=1e-3, size=(5, 10))
    close = {"Eq. 5": 1 + noise, "Lemma 1": 1.1 + noise, "ridge": 2 + noise}
    far = {"Eq. 5": 3 + noise, "Lemma 1": 30 + noise, "ridge": 2 + noise}
    rounds = np.arange(1.0, 11.0)
    assert verdicts(estimation.claims_approximation({"rounds": rounds, "errors": close})) == [True, True, True]
    assert verdicts(estimation.claims_approximation({"rounds": rounds, "errors": far})) == [False, False, False]
    nearer = np.linspace(2, 1, 10)
    good = {"rounds": rounds, "left": nearer + noise, "right": 1 + 0 * noise, "share": np.ones((5, 10))}
    bad = {"rounds": rounds, "left": 3 - nearer + noise, "right": 1 + 0 * noise, "share": np.zeros((5, 10))}
    assert verdicts(estimation.claims_noise(good)) == [True, True]
    assert verdicts(estimation.claims_noise(bad)) == [False, False]


def test_other_claims_both_ways() -> None:
    noise = np.random.default_rng(6).normal(scale=0.01, size=(10, 1))
    flat, steep = 5 + noise + np.array([[1.0, 0.0, 1.0]]), 5 + noise + np.array([[0.0, 2.0, 4.0]])
    alphas = np.array([0.1, 1.0, 10.0])
    good, bad = ({"alphas": alphas, "regret": {"GraphUCB": r, "GraphUCB-Local": r}, "suggested": 0.1} for r in (flat, steep))
    assert verdicts(controls.claims_alpha(good)) == [True, True] and verdicts(controls.claims_alpha(bad)) == [False, False]
    rough = 5 + np.random.default_rng(7).normal(scale=8.0, size=(10, 3))  # too rough to say that 1 is good
    assert verdicts(controls.claims_alpha(good | {"regret": {"GraphUCB": rough, "GraphUCB-Local": rough}})) == [None, None]
    names = ("GraphUCB", "greedy", "complete graph", "shuffled graph", "no graph", "LinUCB")
    for sign, holds in ((1.0, True), (-1.0, False)):
        curves = {name: 5 + noise + sign * (name != "GraphUCB") for name in names}
        worlds = {place: {"regret": curves} for place in ("pools", "fixed arms")}
        assert verdicts(controls.claims_controls({"worlds": worlds})) == [holds] * 8


def test_delay_claims_both_ways() -> None:
    noise = np.random.default_rng(7).normal(scale=0.01, size=(10, 2, 3, 1, 4, 2))
    data: Data = {}
    for sign, holds in ((1.0, True), (-1.0, False)):
        runs = 2.0 + noise + sign * np.array([0.0, 0.5]).reshape(1, 1, 1, 2, 1, 1)
        data = {"runs": runs, "delays": delays.DELAYS, "places": list(delays.PLACES), "horizon": 10}
        assert verdicts(delays.claims_delays(data)) == [holds] * 12
    data["runs"][..., 1, 1] = np.nan  # too few unanswered decisions at a short delay
    assert [len(panel.series[0].x) for panel in delays.chart_delays(data).panels] == [4, 4, 3, 3]


def test_real_claims_both_ways() -> None:
    rising = {"GraphUCB": 10.0, "GraphUCB-Local": 20.0, "CLUB": 30.0, "Gob.Lin": 35.0, "LinUCB": 60.0}
    falling = dict(zip(rising, reversed(rising.values()), strict=True))
    controls_too = {"LinUCB, radius of CLUB": 30.0, "GraphUCB, complete graph": 10.0}
    good, bad = (made_up(order | controls_too) | {"source": "x", "graph": {}} for order in (rising, falling))
    assert all(verdicts(real_data.claims_ratings(good, name="movielens")))
    assert set(verdicts(real_data.claims_ratings(bad, name="movielens"))) == {False}
    assert len(real_data.claims_ratings(good, name="netflix")) == 6
    noise = np.random.default_rng(7).normal(scale=0.01, size=10)
    narrow, wide = {"movielens": 1 + noise, "netflix": 2 + noise}, {"movielens": 2 + noise, "netflix": 1 + noise}
    for spread, holds in ((narrow, True), (wide, False), ({"movielens": 1 + noise, "netflix": 1 + noise}, None)):
        assert verdicts(real_data.claims_histograms({"spread": spread, "relative": spread, "rated": {"movielens": "x"}})) == [
            holds
        ]
    names = list(real_data.hit_policies(draw_graph("er", 0)))
    for sign, holds in ((1.0, True), (-1.0, False)):
        hits = {name: (0.5 + sign * 0.1 * name.startswith("friendship") + noise)[:, None] for name in names}
        assert verdicts(real_data.claims_hits({"hits": hits, "tuned": {name: {} for name in names}})) == [holds] * 6


def test_learned_graph_claims_both_ways() -> None:
    noise = np.random.default_rng(9).normal(scale=0.1, size=(20, 1))
    for sign, holds in ((1.0, True), (-1.0, False)):
        level = {"blended": 10 - sign, "learned": 10.0, "given graph": 10 + sign, "shuffled graph": 12.0}
        level |= {name: 10 + sign for name in learned_graphs.CLUSTERING}
        if not holds:
            level["given graph"] = 8.0
        part = {"rounds": np.arange(1, 3), "regret": {name: np.full((20, 2), value) + noise for name, value in level.items()}}
        data: Data = {"worlds": {name: part for name in (*FAMILIES, learned_graphs.RIGHT, learned_graphs.WRONG)}}
        assert verdicts(learned_graphs.claims(data)) == [holds] * 8
        assert len(learned_graphs.chart(data).panels) == 6
        share = {
            name: np.full((5, 2), value) + noise[:5]
            for name, value in {"learned": 0.3, "LinUCB for all": 0.3 - sign / 10}.items()
        }
        share["LinUCB per user"] = share["LinUCB for all"]
        tuned: Data = {"LinUCB for all": {}, "LinUCB per user": {}}
        hits: Data = {"rounds": np.array([1, 100]), "hits": share, "tuned": tuned}
        assert verdicts(learned_graphs.claims_hits(hits)) == [holds, holds]
        assert len(real_data.chart_hits(hits).panels[0].series) == 3


def test_newcomers_claims_both_ways() -> None:
    noise = np.random.default_rng(8).normal(scale=0.01, size=(10, newcomers.FIRST))
    for sign, holds in ((1.0, True), (-1.0, False), (0.0, None)):
        hits = {name: 0.5 + noise[:, ::-1] for name in ("GraphUCB, edges left out", "LinUCB")}
        hits["GraphUCB"] = 0.5 + 0.1 * sign + noise
        assert verdicts(newcomers.claims({"hits": hits})) == [holds] * 4
    assert len(newcomers.chart({"hits": hits}).panels[0].series) == 3


def test_newcomers_bring_their_edges_or_not() -> None:
    """Two camps with opposite tastes: with its edges a newcomer is served the right arm at once."""
    graph = graphs.from_edges([(i, j) for camp in (range(10), range(10, 20)) for i in camp for j in camp if i < j])
    truth = np.repeat([[1.0], [-1.0]], 10, axis=0)
    env = environments.Linear(graph, truth, np.array([[1.0], [-1.0]]), sigma=0.0, pool=None)

    def offers(users: Any, rng: np.random.Generator) -> newcomers.Offers:
        pool = np.tile(np.arange(2, dtype=np.int32), (len(users), 1))
        return newcomers.Offers(users, pool, truth[users] * np.array([1.0, -1.0]), np.zeros(len(users)))

    policies = {"GraphUCB": lambda g, d: GraphUCB(g, d, exploration=0.0), "LinUCB": LinUCB}
    hits = newcomers.run_world(env, offers, 200, policies, seed=0)
    assert hits["GraphUCB"].tolist() == [1.0] * newcomers.FIRST
    assert hits["GraphUCB, edges left out"][0] < 1.0 and hits["LinUCB"][0] < 1.0


def test_without_data_the_report_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("GRAPHBANDIT_DATA", raising=False)
    entries = reproduce(["movielens", "lastfm"], tmp_path / "report", SMALL)
    assert all("graphbandit datasets fetch" in entry.missing for entry in entries)
    assert "graphbandit datasets fetch" in (tmp_path / "report" / "index.html").read_text()
    assert json.loads((tmp_path / "report" / "claims.json").read_text()) == []


def test_an_unreadable_archive_spoils_one_figure_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "ml-1m.zip").write_bytes(b"half an archive")
    settings = ReproduceSettings(runs=2, horizon=40, quick=True, data=tmp_path)
    entries = reproduce(["movielens", "delta-smoothness"], tmp_path / "report", settings)
    assert [bool(entry.missing) for entry in entries] == [False, True]
    assert "ml-1m.zip" in entries[1].missing and entries[0].claims


@pytest.mark.compiled
def test_real_figures_on_the_archives(tmp_path: Path) -> None:
    folder = Path(os.environ.get("GRAPHBANDIT_DATA", Path(__file__).parents[3] / "shared" / "data"))
    if not (folder / "ml-1m.zip").exists():
        pytest.skip(f"the archives are not in {folder}; set GRAPHBANDIT_DATA to where they are")
    settings = ReproduceSettings(runs=2, horizon=40, quick=True, data=folder)
    entries = reproduce(
        ["movielens", "netflix", "histograms", "lastfm", "newcomers-lastfm", "learned-graph-lastfm"], tmp_path, settings
    )
    assert [len(entry.claims) for entry in entries] == [7, 6, 1, 6, 18, 2]


def test_the_lineup_follows_the_preset() -> None:
    graph = draw_graph("er", 0)
    tuned = {"Gob.Lin": 0.3, "CLUB": 0.2}
    printed, released = (algorithms(preset, tuned) for preset in ("paper", "released"))
    assert printed["GraphUCB-Local"](graph, 5).params["rule"] == "lemma-1"
    assert released["GraphUCB-Local"](graph, 5).params["rule"] == "released"
    assert released["Gob.Lin"](graph, 5).params["preset"] == "released"
    assert printed["Gob.Lin"](graph, 5).params["exploration"] == 0.3 and printed["CLUB"](graph, 5).params["alpha2"] == 0.2
    with pytest.raises(ValueError, match="preset must be paper or released, but it is 'best'"):
        ReproduceSettings(preset="best")


@pytest.mark.compiled
def test_tuning_uses_its_own_seeds_and_finds_the_best() -> None:
    assert not set(TUNING_SEEDS) & set(range(1000))
    seen: list[int] = []

    def spy(seed: int) -> Any:
        seen.append(seed)
        return world("er")(seed)

    tuned_baselines(spy, ReproduceSettings(runs=2, horizon=20, quick=True))
    assert set(seen) <= set(TUNING_SEEDS)


def test_results_survive_a_file(tmp_path: Path) -> None:
    data = {"a": np.arange(3.0), "b": {"c|d": np.ones((2, 2)), "e": [1, "x"]}, "n": 5}
    save(tmp_path / "x.npz", "key", data, 1.5)
    again, seconds = load(tmp_path / "x.npz", "key")
    assert again is not None and seconds == 1.5 and again["n"] == 5 and again["b"]["e"] == [1, "x"]
    assert np.array_equal(again["b"]["c|d"], np.ones((2, 2)))
    assert load(tmp_path / "x.npz", "other")[0] is None
    (tmp_path / "x.npz").write_bytes(b"half")
    assert load(tmp_path / "x.npz", "key")[0] is None


def test_charts_are_drawn_and_described() -> None:
    chart = regret_curves.chart(made_up({"GraphUCB": 1.0, "LinUCB": 2.0}), title="t")
    assert render(chart, "png").startswith(b"\x89PNG")
    many = curve("LinUCB", np.arange(50_000), np.random.default_rng(0).random((5, 50_000)))
    assert {len(part) for part in (many.x, many.y, many.low or [], many.high or [])} == {200}
    described = as_json(chart)
    json.dumps(described)
    assert described["panels"][0]["series"][0]["colour"] == colour("GraphUCB")


def test_command(tmp_path: Path) -> None:
    runner = CliRunner()
    wrong = runner.invoke(app, ["reproduce", "no-such-figure", "--out", str(tmp_path)])
    assert wrong.exit_code == 2 and "there is no figure 'no-such-figure'; there are delta-smoothness" in wrong.output
    done = runner.invoke(
        app, ["reproduce", "graphs", "delta-smoothness", "--runs", "2", "--workers", "1", "--out", str(tmp_path), "--quiet"]
    )
    assert done.exit_code == 0 and "1 of 1 claims hold" in done.output
    names = {claim["figure"] for claim in json.loads((tmp_path / "claims.json").read_text())}
    again = runner.invoke(app, ["reproduce", "graphs", "--runs", "2", "--out", str(tmp_path), "--quiet"])
    assert again.exit_code == 0 and names == {claim["figure"] for claim in json.loads((tmp_path / "claims.json").read_text())}
    absent = runner.invoke(app, ["reproduce", "graphs", "--data", "no/such/folder", "--out", str(tmp_path)])
    assert absent.exit_code == 2 and "no/such/folder does not exist" in absent.output.replace("\n", "")
    as_text = runner.invoke(app, ["reproduce", "delta-smoothness", "--runs", "2", "--out", str(tmp_path), "--quiet", "--json"])
    assert json.loads(as_text.stdout)[0]["figure"] == "delta-smoothness"
    assert [figure.name for figure in select(["graphs", "psi-time"])] == ["psi-time", "graphs"]
