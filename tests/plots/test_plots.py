"""Plots: what they show is right, colours can be told apart, and nothing is left behind in Matplotlib."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphbandit import AdaptiveGraphUCB, GraphUCB, LinUCB, Result, UserGraph, environments, graphs, plots, signals, simulate
from graphbandit.plots.drawing import draw_curve, log_scale, new_figure, spaced
from graphbandit.plots.palette import COLOURS, OTHERS
from graphbandit.plots.user_graphs import main_taste, taste_shades

VISION = {  # Machado, Oliveira & Fernandes 2009, complete loss of one kind of cones
    "normal": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def seen_as(shade: str, vision: Any) -> Any:
    """Return the colour in CIELAB, as a person with this vision sees it."""
    parts = np.array([int(shade[k : k + 2], 16) for k in (1, 3, 5)]) / 255
    light = np.asarray(vision) @ np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    matrix = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    x = matrix @ np.clip(light, 0, 1) / np.array([0.9505, 1.0, 1.089])
    f = np.where(x > 0.008856, np.cbrt(x), 7.787 * x + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("kind", VISION)
def test_colours_of_policies_can_be_told_apart(kind: str) -> None:
    seen = [seen_as(shade, VISION[kind]) for shade in COLOURS.values()]
    distances = [np.linalg.norm(one - other) for k, one in enumerate(seen) for other in seen[:k]]
    assert min(distances) > 15


def test_a_policy_has_one_colour_under_all_its_names() -> None:
    assert plots.colour("adaptive") == plots.colour("AdaptiveGraphUCB", 3) == COLOURS["AdaptiveGraphUCB"]
    assert not set(OTHERS) & set(COLOURS.values())


def test_importing_plots_imports_no_matplotlib() -> None:
    code = "import sys, graphbandit.plots; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env=dict(os.environ)).returncode == 0


def test_neighbours_are_drawn_closer_than_others() -> None:
    inside = [(a + base, b + base) for base in (0, 8, 16) for a in range(8) for b in range(a)]
    graph = graphs.from_edges([*inside, (0, 8), (9, 16)], n_users=30)  # three groups, and six users alone
    place = plots.layout(graph)
    assert place.shape == (30, 2) and np.abs(place).max() == pytest.approx(1.0)
    apart = np.linalg.norm(place[:, None] - place, axis=2)
    groups = np.repeat([0, 1, 2], 8)
    same = groups[:, None] == groups
    assert apart[:24, :24][same].max() < 0.5 * apart[:24, :24][~same].mean()
    assert apart[~np.eye(30, dtype=bool)].min() > 0.02  # nobody hides anybody
    assert np.array_equal(place, plots.layout(graph))


@pytest.mark.parametrize("n", [1, 2, 5, 400])
def test_graphs_of_all_sizes_can_be_drawn(n: int) -> None:
    graph = graphs.watts_strogatz(n, 4, 0.1, seed=0) if n > 4 else graphs.complete(n)
    assert np.isfinite(plots.layout(graph)).all()
    assert plots.picture(plots.tastes(graph, np.arange(float(n)))).startswith(b"\x89PNG")


def test_a_graph_too_large_to_be_seen_is_refused() -> None:
    with pytest.raises(ValueError, match="graph must have at most 2,000 users to be drawn, but it has 3,000"):
        plots.layout(graphs.empty(3000))


def test_tastes_are_compared_on_one_scale() -> None:
    graph = graphs.from_edges([(0, 1), (1, 2)], n_users=3)
    true = np.array([[0.0, 1.0], [0.0, 2.0], [0.0, 3.0]])
    figure = plots.tastes(graph, {"true": true, "learned": 0.5 * true})
    first, second, bar = figure.axes
    shown = [next(c.get_array() for c in axes.collections if c.get_array() is not None) for axes in (first, second)]
    assert np.allclose(np.array(shown), [[-1.0, 0.0, 1.0], [-1.5, -1.0, -0.5]])  # from the mean of the first
    assert "100%" in bar.get_xlabel()
    values, share = main_taste(true)
    assert np.allclose(values, [-1.0, 0.0, 1.0]) and share == 1.0
    low, _, high = taste_shades(values)
    assert low != high
    with pytest.raises(ValueError, match="theta must have a row for each of 3 users"):
        plots.tastes(graph, true[:2])
    with pytest.raises(ValueError, match="place must have a row of two"):
        plots.tastes(graph, true, place=np.zeros((2, 2)))


def test_users_who_were_seen_more_are_less_uncertain() -> None:
    policy = GraphUCB(graphs.empty(2), 2, preset="recommended")
    for k in range(20):
        policy.update(0, np.eye(2)[k % 2], 1.0 + 0.1 * (-1) ** k)
        policy.update(1, np.eye(2)[0], 1.0)
    known, other = plots.user_uncertainty(policy)
    assert known < other
    assert plots.picture(plots.uncertainty(policy)).startswith(b"\x89PNG")


def influence(policy: GraphUCB, x: Any) -> Any:
    """Return the oracle: the inverse of the system that `theta` solves, with one more observation of user j."""
    n, d = policy.n_users, policy.dim
    system = np.kron(policy.graph.laplacian().toarray(), np.eye(d)) + policy.params["ridge"] * np.eye(n * d)
    for user in range(n):
        rows = slice(user * d, (user + 1) * d)
        system[rows, rows] += policy.observations.gram[user]
    out = np.empty((n, n))
    for j in range(n):
        with_one = system.copy()
        with_one[j * d : (j + 1) * d, j * d : (j + 1) * d] += np.outer(x, x)
        inverse = np.linalg.inv(with_one)
        out[:, j] = [x @ inverse[i * d : (i + 1) * d, j * d : (j + 1) * d] @ x for i in range(n)]
    return out


def test_influence_is_that_of_the_formula() -> None:
    rng = np.random.default_rng(0)
    policy = GraphUCB(graphs.erdos_renyi(6, 0.5, seed=1), 2, alpha=1.0)
    for _ in range(30):
        policy.update(int(rng.integers(6)), rng.standard_normal(2), float(rng.standard_normal()))
    before, x = policy.theta, np.array([0.6, 0.8])
    assert np.allclose(plots.influence(policy, [x]), influence(policy, x), atol=1e-9)
    assert np.array_equal(policy.theta, before)  # the policy itself has learned nothing
    some = plots.influence(policy, [x], users=[4, 1])
    assert np.allclose(some, influence(policy, x)[np.ix_([4, 1], [4, 1])], atol=1e-9)


def test_nobody_learns_from_others_without_a_graph() -> None:
    found = plots.influence(LinUCB(graphs.complete(4), 2))
    assert np.all(found[~np.eye(4, dtype=bool)] == 0) and np.all(found.diagonal() > 0)
    assert plots.picture(plots.who_learns_from_whom(LinUCB(graphs.complete(4), 2))).startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="users must name 1 to 150 of 200 users, but there are 200"):
        plots.who_learns_from_whom(LinUCB(graphs.empty(200), 2))


def made_up_result(names: list[str], runs: int = 3) -> Result:
    rng = np.random.default_rng(0)
    regret = {name: np.cumsum(rng.random((runs, 10)) + k, axis=1) for k, name in enumerate(names)}
    return Result(np.arange(1, 11), tuple(range(runs)), regret, {name: np.ones(runs) for name in names})


def test_regret_shows_means_bands_and_names() -> None:
    result = made_up_result(["GraphUCB", "LinUCB", "cost in $ and $"])
    (axes,) = plots.regret(result).axes
    assert np.allclose(axes.lines[0].get_ydata(), result.regret["GraphUCB"].mean(axis=0))
    assert [line.get_color() for line in axes.lines[:2]] == [COLOURS["GraphUCB"], COLOURS["LinUCB"]]
    assert len(axes.collections) == 3
    assert {text.get_text() for text in axes.texts} >= {"GraphUCB", "LinUCB", "cost in $ and $"}
    (axes,) = plots.regret(result, policies=["LinUCB"], per_round=True).axes
    assert np.allclose(axes.lines[0].get_ydata(), (result.regret["LinUCB"] / result.rounds).mean(axis=0))
    assert not plots.regret(made_up_result(["LinUCB"], runs=1)).axes[0].collections  # one run has no interval
    with pytest.raises(ValueError, match=r"policies must be among GraphUCB, LinUCB, .* but there is no 'CLUB'"):
        plots.regret(result, policies=["CLUB"])


def test_names_at_the_ends_do_not_overlap() -> None:
    for heights in ([0.1, 0.1, 0.1], [0.0, 0.01, 0.02, 0.9], [0.5, 0.52, 0.58, 0.6], [0.98, 1.0]):
        found = np.array(spaced(heights, 0.07))
        assert np.diff(found).min() > 0.07 - 1e-6 and found.min() >= 0 and found.max() <= 1


@pytest.fixture(scope="module")
def learned() -> AdaptiveGraphUCB:
    graph = graphs.erdos_renyi(12, 0.4, seed=0)
    arms = signals.unit_arms(100, 3, seed=2)
    env = environments.Linear(graph, signals.smooth(graph, 3, gamma=7, seed=1), arms, sigma=0.1, pool=20)
    policy = AdaptiveGraphUCB(graph, 3)
    simulate(policy, env, 150, seed=0)
    return policy


def test_evidence_shows_the_weights_that_the_report_has(learned: AdaptiveGraphUCB) -> None:
    report = learned.report()
    top, low = plots.evidence(learned).axes
    assert f"neighbours alike {report.weights['graph']:.0%}" in [text.get_text() for text in top.texts]
    rounds, strength = np.asarray(top.lines[0].get_xdata()), np.asarray(low.lines[0].get_ydata())
    assert rounds[-1] == 150 and strength[-1] == pytest.approx(report.strength)
    with pytest.raises(ValueError, match="policy must have learned rewards"):
        plots.evidence(AdaptiveGraphUCB(graphs.empty(2), 2))


def test_coverage_shows_how_far_shares_are_from_nominal(learned: AdaptiveGraphUCB) -> None:
    (axes,) = plots.coverage({0.5: 0.4, 0.9: 0.95}, rounds=100).axes
    dots = [float(np.asarray(line.get_xdata())[0]) for line in axes.lines if line.get_marker() == "o"]
    assert dots == pytest.approx([-10, 5])
    assert plots.coverage(learned.report()).axes[0].get_yticklabels()[0].get_text() == "50 %"
    with pytest.raises(ValueError, match="levels and shares between 0 and 1, but it has 95"):
        plots.coverage({0.9: 95.0})
    with pytest.raises(ValueError, match="at least one level"):
        plots.coverage({})


def test_the_best_of_intervals_is_at_the_top() -> None:
    found = {"a": (2.0, 1.0, 3.0), "b": (1.0, float("nan"), float("nan")), "c": (5.0, 4.0, 6.0)}
    for best, order in (("lowest", ["b", "a", "c"]), ("highest", ["c", "a", "b"])):
        (axes,) = plots.intervals(found, label="regret", best=best).axes  # type: ignore[arg-type]
        assert [label.get_text() for label in axes.get_yticklabels()] == order
        assert axes.get_ylim()[0] > axes.get_ylim()[1]  # the first row is at the top
    with pytest.raises(ValueError, match="at least one entry"):
        plots.intervals({}, label="regret")


def test_figures_are_files_and_notebook_output(tmp_path: Path) -> None:
    import matplotlib

    drawn = plots.candidates([plots.JudgedGraph("friends", 4, 0.02, (0.01, 0.03), (0.001,), chosen=True)])
    assert drawn._repr_png_() == plots.picture(drawn)  # type: ignore[attr-defined]
    for suffix, start in (("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")):
        plots.save(drawn, tmp_path / f"x.{suffix}")
        assert (tmp_path / f"x.{suffix}").read_bytes().startswith(start)
    with pytest.raises(ValueError, match=r"path must end in \.png, \.pdf or \.svg"):
        plots.save(drawn, tmp_path / "x.gif")
    assert matplotlib.rcParams["text.parse_math"]  # the style of others is as it was


def test_users_have_their_names() -> None:
    graph = UserGraph([[0, 1], [1, 0]], ids=["ann", "b$b"])
    texts = [text.get_text() for text in plots.tastes(graph, [[0.0], [1.0]]).axes[0].texts]
    assert {"ann", "b$b"} <= set(texts)


def test_log_scales_have_plain_numbers(learned: AdaptiveGraphUCB) -> None:
    low = plots.evidence(learned).axes[1]
    texts = [low.yaxis.get_major_formatter()(value) for value in (0.001, 0.1, 10.0, 1000.0)]
    assert texts == ["0.001", "0.1", "10", "1,000"]
    assert low.yaxis.get_minor_formatter()(0.03) == ""


@pytest.mark.parametrize(
    ("low", "high"), [(16.75, 19), (2.1, 9.9), (0.021, 0.099), (0.9, 4.0), (1.2, 40), (3, 400), (0.5, 9e4)]
)
def test_a_log_axis_has_labels_however_short(low: float, high: float) -> None:
    figure, axes = new_figure(4, 3)
    draw_curve(axes, [1, 2], [low, high], colour="#000000")
    log_scale(axes)
    figure.canvas.draw()
    shown = [float(t.get_text().replace(",", "")) for t in axes.get_yticklabels(which="both") if t.get_text()]
    bottom, top = axes.get_ylim()
    inside = [value for value in shown if bottom <= value <= top]
    assert 2 <= len(inside) == len(set(inside)) <= 9, inside
