"""Figures of ours that explain the verdicts: forms of the algorithms, parts of the environment, and the strength α."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from .. import environments
from ..compute.arrays import Floats
from ..experiments import compare
from ..experiments.testbeds import POOL, SIGMA
from ..policies import GobLin, GraphUCB, GraphUCBLocal, LinUCB
from .algorithms import COMPETITORS, PRINTED_POLICIES, algorithms, tuned_baselines
from .chart import Chart, Panel, Series, curve
from .claims import QUARTER, REVERSED, Claim, all_hold, below, estimate, lower, mean_interval
from .figure import SETTINGS, Data, ReproduceSettings, Setting
from .regret import STOPS
from .synthetic import FAMILIES, NOISY, environment, existing, maker

FORMS = {"paper": "printed", "released": "released", "recommended": "recommended"}


def run(settings: ReproduceSettings) -> Data:
    """Measure every algorithm in all its forms on the four families: final regret, (runs, families)."""
    out: dict[str, list[Floats]] = {}
    for family in FAMILIES:
        make = maker(settings.setting, family)
        seeds = existing(make, range(settings.runs))
        for preset, form in FORMS.items():
            tuned = tuned_baselines(make, settings, preset if preset == "released" else "paper")
            result = compare(algorithms(tuned, preset=preset), make, settings.horizon, seeds=seeds, **settings.spreading)
            for name, runs in result.regret.items():
                out.setdefault(f"{name}|{form}", []).append(runs[:, -1])
    return {"regret": {name: np.array(rows).T for name, rows in out.items()}, "setting": settings.setting}


def by_place(names: list[str], values: dict[str, list[Floats]], title: str) -> Panel:
    """Return a panel with the mean and interval of every series at named places of the x axis."""
    series = []
    for name, runs in values.items():
        mean, low, high = np.array([mean_interval(part) for part in runs]).T
        style: Any = "dashed" if ", " in name else "line"
        series.append(Series(name, np.arange(len(runs)), mean, low, high, style))
    ticks = {float(k): name for k, name in enumerate(names)}
    return Panel(title, "", "cumulative regret, all users (log scale)", series, log_y=True, ticks=ticks)


def chart(data: Data) -> Chart:
    """Show the mean over the four families, by form; Algorithm 2 has the printed form only."""
    values: dict[str, list[Floats]] = {}
    for name, runs in data["regret"].items():
        values.setdefault(name.partition("|")[0], []).append(runs.mean(axis=1))
    return [by_place(list(FORMS.values()), values, f"Mean of four families: {SETTINGS[data['setting']]}")]


def claims(data: Data) -> list[Claim]:
    """Judge the orders of the text on all four families at once, in every form."""
    orders = [("GraphUCB", "GraphUCB-Local"), *((o, c) for o in ("GraphUCB", "GraphUCB-Local") for c in COMPETITORS)]
    out = []
    for form in FORMS.values():
        for first, second in orders:
            one, other = (data["regret"][f"{name}|{form}"] for name in (first, second))
            sides = [lower(a, b, comparisons=len(FAMILIES)) for a, b in zip(one.T, other.T, strict=True)]
            evidence = {f"difference, {label}": gap for label, (_, gap) in zip(FAMILIES.values(), sides, strict=True)}
            means = {f"mean of four families, {name}": estimate(v.mean(axis=1)) for name, v in ((first, one), (second, other))}
            text = f"{form.capitalize()} form: {first} has lower regret than {second} on all four families"
            out.append(Claim(text, all_hold(side for side, _ in sides), means | evidence, REVERSED))
    return out


PARTS: dict[str, tuple[Setting, bool, float]] = {
    # users and graph as in, arms fixed, ‖Θ‖ over √n
    "scripts": ("released", False, 1.0),
    "scripts,\nfixed arms": ("released", True, 1.0),
    "text,\npools": ("printed", False, 1.0),
    "text": ("printed", True, 1.0),
    "text,\n‖Θ‖ = n": ("printed", True, np.sqrt(20.0)),
}
SHOWN: dict[str, Any] = {**PRINTED_POLICIES, "LinUCB": LinUCB}


def mixture(part: str, family: str, seed: int) -> environments.Linear:
    """Return an environment with parts of the text and of the scripts."""
    setting, fixed, norm = PARTS[part]
    env = environment(setting, family, seed)
    return environments.Linear(env.graph, norm * env.truth, env.arms, sigma=SIGMA, pool=None if fixed else POOL)


def run_parts(settings: ReproduceSettings) -> Data:
    """Measure three algorithms in every mixture of environments: final regret, (runs, families, parts)."""
    seeds, out = range(settings.runs), np.empty((len(SHOWN), settings.runs, len(FAMILIES), len(PARTS)))
    for j, family in enumerate(FAMILIES):
        for k, part in enumerate(PARTS):
            result = compare(SHOWN, partial(mixture, part, family), settings.horizon, seeds=seeds, **settings.spreading)
            out[:, :, j, k] = [result.regret[name][:, -1] for name in SHOWN]
    return {"regret": dict(zip(SHOWN, out, strict=True))}


def chart_parts(data: Data) -> Chart:
    """Show the mean over the four families, by environment."""
    values = {name: [runs[..., k].mean(axis=1) for k in range(len(PARTS))] for name, runs in data["regret"].items()}
    return [by_place(list(PARTS), values, "Mean of four families")]


def claims_parts(data: Data) -> list[Claim]:
    """Judge GraphUCB against LinUCB in every mixture, on all families at once."""
    out = []
    for k, part in enumerate(PARTS):
        one, other = (data["regret"][name][..., k] for name in ("GraphUCB", "LinUCB"))
        sides = [lower(a, b, comparisons=len(FAMILIES))[0] for a, b in zip(one.T, other.T, strict=True)]
        evidence = {
            f"{n}, {label}": estimate(runs[:, j, k])
            for n, runs in data["regret"].items()
            for j, label in enumerate(FAMILIES.values())
        }
        place = part.replace("\n", " ")
        out.append(Claim(f"GraphUCB has lower regret than LinUCB on all families: {place}", all_hold(sides), evidence, STOPS))
    return out


ALPHAS = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0]


def by_alpha(alpha: float, sigma: float) -> dict[str, Any]:
    """Return every algorithm that has a strength of regularisation, at this strength."""
    return {
        "GraphUCB": partial(GraphUCB, alpha=alpha, sigma=sigma),
        "GraphUCB-Local": partial(GraphUCBLocal, alpha=alpha, sigma=sigma, preset="paper"),
        "Gob.Lin, λ = 0.1": partial(GobLin, scale=alpha),
        "LinUCB": partial(LinUCB, ridge=alpha, sigma=sigma),
        "GraphUCB, greedy": partial(GraphUCB, alpha=alpha, sigma=sigma, exploration=0.0),
    }


def run_alpha(settings: ReproduceSettings) -> Data:
    """Measure the final regret at every α, at both standard deviations of the noise."""
    alphas = settings.few(ALPHAS)
    out: Data = {"alphas": np.array(alphas), "setting": settings.setting, "noise": {}}
    for sigma in (SIGMA, NOISY):
        make = maker(settings.setting, "er", sigma=sigma)
        seeds = existing(make, range(settings.runs))
        rows = [compare(by_alpha(a, sigma), make, settings.horizon, seeds=seeds, **settings.spreading) for a in alphas]
        out["noise"][str(sigma)] = {name: np.array([row.regret[name][:, -1] for row in rows]).T for name in rows[0].names}
    return out


def chart_alpha(data: Data) -> Chart:
    """Show the final regret against α, a panel for each noise."""
    return [
        Panel(
            f"σ = {sigma}: {SETTINGS[data['setting']]}",
            "α (log scale)",
            "cumulative regret, all users (log scale)",
            [curve(name, data["alphas"], runs, style="dashed" if ", " in name else "line") for name, runs in part.items()],
            log_x=True,
            log_y=True,
        )
        for sigma, part in data["noise"].items()
    ]


def claims_alpha(data: Data) -> list[Claim]:
    """Judge the paper's α = 1 against every other value of the grid: good is a regret at most a quarter above.

    To compare with the best of the grid alone would be a choice after the fact.
    """
    one = int(np.argmin(np.abs(data["alphas"] - 1.0)))
    out = []
    for sigma, part in data["noise"].items():
        for name in ("GraphUCB", "GraphUCB-Local"):
            runs = part[name]
            others = [k for k in range(runs.shape[1]) if k != one]
            verdict = all_hold(below(runs[:, one] - (1 + QUARTER) * runs[:, k], comparisons=len(others)) for k in others)
            evidence = {f"α = {a:g}": estimate(runs[:, k]) for k, a in enumerate(data["alphas"])}
            text = f"At a noise of {sigma}, α = 1 is a good choice for {name} (regret within a quarter of every other α's)"
            out.append(Claim(text, verdict, evidence, "α should be of the order of σ² over the variance of Δ (errata E10)."))
    return out
