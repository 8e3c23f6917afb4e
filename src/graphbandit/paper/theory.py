"""Figure 1 and Theorem 1: Δ, Ψ, and the bounds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import signals
from ..compute.arrays import Floats
from ..experiments import Trace, simulate
from ..experiments.testbeds import DIM, N_USERS
from .algorithms import PRINTED_POLICIES
from .chart import Chart, Panel, Series, curve
from .claims import REVERSED, Claim, above, below, estimate, observed
from .figure import SETTINGS, Data, ReproduceSettings
from .synthetic import ALPHA, FAMILIES, RIDGE, checkpoints, environment

GAMMAS = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
ROUNDING = 1e-9


def user_precision(gram: Floats, row: Floats, inverses: Any) -> Floats:
    """Return Λ_i of eq. (10): A_i + 2α I + α² Σ_j L_ij² A_j⁻¹, where `row` is L_i."""
    return np.asarray(gram + 2 * ALPHA * np.eye(DIM) + ALPHA**2 * np.tensordot(row**2, inverses, 1))


def run_delta(settings: ReproduceSettings) -> Data:
    """Measure ‖Δ_i‖ / ‖θ_i‖ of every user and tr(ΘᵀℒΘ) by family: (runs, γ, users) and (runs, γ)."""
    out: Data = {"gammas": np.array(GAMMAS, float), "setting": settings.setting, "ratio": {}, "delta": {}, "smoothness": {}}
    for family in FAMILIES:
        worlds = [[environment(settings.setting, family, s, gamma=g) for g in GAMMAS] for s in range(settings.runs)]
        delta = np.array([[np.linalg.norm(w.graph.laplacian() @ w.truth, axis=1) for w in row] for row in worlds])
        norms = np.array([[np.linalg.norm(w.truth, axis=1) for w in row] for row in worlds])
        out["delta"][family], out["ratio"][family] = delta, delta / norms
        out["smoothness"][family] = np.array([[signals.smoothness(w.graph, w.truth) for w in row] for row in worlds])
    return out


def chart_delta(data: Data) -> Chart:
    """Show every run as a point and the mean as a curve; on the right, the users with ‖Δ_i‖ above ‖θ_i‖."""
    x, y = data["smoothness"]["rbf"], data["delta"]["rbf"].mean(axis=2)
    order = np.argsort(x.mean(axis=0))
    series = [Series("one run", x.ravel(), y.ravel(), style="points"), curve("mean", x.mean(axis=0)[order], y[:, order])]
    shares = [curve(FAMILIES[f], data["gammas"], (ratio > 1 + ROUNDING).mean(axis=2)) for f, ratio in data["ratio"].items()]
    return [
        Panel(f"RBF: {SETTINGS[data['setting']]}", "tr(ΘᵀℒΘ) (smaller: smoother)", "mean of ‖Δ_i‖ over users", series),
        Panel("Users with ‖Δ_i‖ > ‖θ_i‖", "γ (larger: smoother)", "share of users", shares),
    ]


def claims_delta(data: Data) -> list[Claim]:
    """Judge the trend by rank correlation, run by run, and the inequality for every user."""
    from scipy.stats import spearmanr

    pairs = zip(data["smoothness"]["rbf"], data["delta"]["rbf"].mean(axis=2), strict=True)
    ranks = np.array([spearmanr(a, b).statistic for a, b in pairs])
    largest = max(float(ratio.max()) for ratio in data["ratio"].values())
    shares = {
        f"γ = {gamma:g}": {FAMILIES[f]: round(float((r[:, k] > 1 + ROUNDING).mean()), 3) for f, r in data["ratio"].items()}
        for k, gamma in enumerate(data["gammas"])
    }
    reason = "A user and the average of its neighbours can lie on opposite sides of 0; only ‖Δ_i‖ ≤ 2 follows (errata E32)."
    found = {"largest ‖Δ_i‖ / ‖θ_i‖": round(largest, 3), "share of users above 1": shares}
    grows, most = "‖Δ_i‖ grows together with tr(ΘᵀℒΘ)", "‖Δ_i‖ is at most ‖θ_i‖ for every user"
    return [
        Claim(grows, above(ranks), {"rank correlation": estimate(ranks)}, REVERSED, "delta"),
        Claim(most, observed(largest <= 1 + ROUNDING), found, reason, "norms"),
    ]


LONG = 50
"""Times the horizon, for the limit of Ψ."""


def single_user_rate(count: Any, norm: Any) -> Any:
    """Return the rate in eq. (14) and (16): (√(d log N) + √α ‖·‖) √(d N log N) after N rounds of a user."""
    logs = np.log(count)
    return (np.sqrt(DIM * logs) + np.sqrt(ALPHA) * norm) * np.sqrt(DIM * count * logs)


def widths(env: Any, trace: Trace) -> Iterator[Floats]:
    """Yield the two sums of eq. (13) after every round, (2, n_users): Σ ‖x‖² in Λ_i⁻¹ and in V_i⁻¹."""
    laplacian = env.graph.laplacian().toarray()
    gram = np.tile(RIDGE * np.eye(DIM), (len(laplacian), 1, 1))
    inverse, sums = np.linalg.inv(gram), np.zeros((2, len(laplacian)))
    for user, x in zip(trace.user.tolist(), env.arms[trace.arm], strict=True):
        gram[user] += np.outer(x, x)  # eq. (13): the matrices already contain x
        inverse[user] = np.linalg.inv(gram[user])
        metrics = np.stack([user_precision(gram[user], laplacian[user], inverse), gram[user] + ALPHA * np.eye(DIM)])
        sums[:, user] += np.linalg.solve(metrics, np.stack([x, x])[..., None])[..., 0] @ x
        yield sums


def psi_run(seed: int, setting: Any, horizon: int, rounds: Any, policy: str = "GraphUCB") -> dict[str, Floats]:
    """Measure one run at c rounds, (c, n_users) each.

    `psi` is Ψ_i,T of eq. (13), `regret` that of every user, `printed` and `root` eq. (14) with Ψ and with √Ψ, `linucb`
    eq. (16). NaN for a user who was not served yet, and in the bounds for one who was served once: log 1 = 0.
    """
    env = environment(setting, "er", seed)
    trace = simulate(PRINTED_POLICIES[policy](env.graph, DIM), env, horizon, seed)
    rough = np.linalg.norm(env.graph.laplacian() @ env.truth, axis=1)
    paid, norms = np.diff(trace.regret, prepend=0.0), np.linalg.norm(env.truth, axis=1)
    served, regret = np.zeros((2, N_USERS))
    names = ("psi", "regret", "printed", "root", "linucb")
    out, wanted = {name: np.empty((len(rounds), N_USERS)) for name in names}, {int(r): k for k, r in enumerate(rounds)}
    for t, (user, (width, plain)) in enumerate(zip(trace.user.tolist(), widths(env, trace), strict=True)):
        served[user] += 1
        regret[user] += paid[t]
        if t + 1 in wanted:
            psi = width / np.where(served > 0, plain, np.nan)
            count = np.where(served > 1, served, np.nan)
            rate = single_user_rate(count, rough)
            values = (psi, regret, rate * psi, rate * np.sqrt(psi), single_user_rate(count, norms))
            for name, value in zip(names, values, strict=True):
                out[name][wanted[t + 1]] = value
    return out


def run_psi(settings: ReproduceSettings) -> Data:
    """Measure Ψ of every user over time, and in a quarter of the runs for 50 times as long."""
    rounds = checkpoints(settings.horizon, 100)
    long = settings.horizon * (5 if settings.quick else LONG)
    runs = settings.over_runs(psi_run, settings.setting, settings.horizon, rounds)
    later = checkpoints(long, 30)
    few = settings.over_runs(psi_run, settings.setting, long, later, runs=max(2, settings.runs // 4))
    return {
        "rounds": rounds.astype(float),
        "psi": np.array([run["psi"] for run in runs]),  # (runs, c, n)
        "long_rounds": later.astype(float),
        "long": np.array([run["psi"] for run in few]),
        "setting": settings.setting,
    }


def chart_psi(data: Data) -> Chart:
    """Show the mean over users and the users with the least and the largest Ψ."""
    summaries: dict[str, Any] = {"mean over users": np.nanmean, "least": np.nanmin, "largest": np.nanmax}
    short, long = (
        [curve(name, data[x], form(data[y], axis=2)) for name, form in summaries.items()]
        for x, y in (("rounds", "psi"), ("long_rounds", "long"))
    )
    return [
        Panel(f"Ψ over time: {SETTINGS[data['setting']]}", "round", "Ψ_i,T", short),
        Panel(f"{data['long_rounds'][-1]:,.0f} rounds", "round (log scale)", "Ψ_i,T", long, log_x=True),
    ]


NEAR_ONE = 0.9


def claims_psi(data: Data) -> list[Claim]:
    """Judge the interval and the limit for every user: Lemma 3 is about each of them, not about a mean."""
    psi = data["psi"]
    least, largest = float(np.nanmin(psi)), float(np.nanmax(psi))
    start = int(np.searchsorted(data["rounds"], 0.1 * data["rounds"][-1]))
    rise = np.nanmin(psi[:, -1] - psi[:, start], axis=1)  # of those served in the first tenth
    rounds = {f"mean of Ψ at {data[x][-1]:,.0f} rounds": np.nanmean(data[y][:, -1], axis=1) for x, y in WINDOWS.items()}
    ends: dict[str, Any] = {name: estimate(values) for name, values in rounds.items()}
    ends |= {"range over users at the horizon": [round(float(end(psi[:, -1])), 3) for end in (np.nanmin, np.nanmax)]}
    slow = "Ψ approaches 1 with the logarithm of T only (errata E37)."
    inside = {"smallest": round(least, 4), "largest": round(largest, 4)}
    close = f"Ψ comes close to 1 (above {NEAR_ONE:g} on average) within {data['long_rounds'][-1]:,.0f} rounds"
    last = np.nanmean(data["long"][:, -1], axis=1)
    late, later = above(last, NEAR_ONE), last - rounds[f"mean of Ψ at {data['rounds'][-1]:,.0f} rounds"][: len(last)]
    rises = ends | {"least rise of a user": estimate(rise)}
    return [
        Claim("Ψ lies in (0, 1) for every user at all times", observed(least > 0 and largest < 1), inside, "", "lemma-3"),
        Claim("Ψ rises for every user", above(rise), rises, "For at least one user, Ψ decreases.", "lemma-3"),
        Claim("Ψ still rises after the horizon, on average", above(later), ends, slow, "lemma-3"),
        Claim(close, late, ends, slow, "lemma-3"),
    ]


WINDOWS = {"rounds": "psi", "long_rounds": "long"}
FORMS = {"printed": "Ψ", "root": "√Ψ"}
LARGER = "For a user with ‖Δ_i‖ above ‖θ_i‖ it can be higher (errata E32)."


def run_bound(settings: ReproduceSettings) -> Data:
    """Measure the regret of every user beside eq. (14) in both forms and eq. (16), each with constant 1."""
    rounds = checkpoints(settings.horizon, 100)
    rounds = rounds[rounds > min(4 * N_USERS, settings.horizon // 2)]
    out: Data = {"rounds": rounds.astype(float), "setting": settings.setting, "policies": {}}
    for policy in PRINTED_POLICIES:
        runs = settings.over_runs(psi_run, settings.setting, settings.horizon, rounds, policy)
        out["policies"][policy] = {name: np.array([run[name] for run in runs]) for name in runs[0] if name != "psi"}
    return out


def chart_bound(data: Data) -> Chart:
    """Show sums over users: the measured regret divided by the bound."""
    labels = {"printed": "(14), Ψ as printed", "root": "(14), √Ψ as the proof gives", "linucb": "(16), of LinUCB"}
    panels = []
    for policy in ("GraphUCB", "GraphUCB-Local"):
        part = data["policies"][policy]
        paid = part["regret"].sum(axis=2)
        series = [curve(label, data["rounds"], paid / np.nansum(part[name], axis=2)) for name, label in labels.items()]
        panels.append(Panel(f"{policy}: {SETTINGS[data['setting']]}", "round", "regret / bound", series))
    return panels


def claims_bound(data: Data) -> list[Claim]:
    """Judge whether eq. (14) lies above the regret of every user, and below eq. (16)."""
    out = []
    for policy, part in data["policies"].items():
        said = "theorem-1" if policy == "GraphUCB" else "remark-2"
        for name, form in FORMS.items():
            bound, regret = part[name][:, -1], part["regret"][:, -1]
            worst = np.nanmax(regret / bound, axis=1)
            evidence = {
                "largest regret / bound of a user": estimate(worst),
                "of all users together": estimate(np.nansum(regret, axis=1) / np.nansum(bound, axis=1)),
                "share of users above the bound": round(float(np.nanmean((regret > bound)[~np.isnan(bound)])), 4),
            }
            text = f"With constant 1 and {form}, the bound (14) lies above the regret of every user of {policy}"
            why = "The regret of a user is above it."
            out.append(Claim(text, below(worst, 1.0), evidence, why, said if name == "printed" else ""))
            ratio = np.nanmax(bound / part["linucb"][:, -1], axis=1)
            found: dict[str, Any] = {
                "largest (14) / (16) of a user": estimate(ratio),
                "in any run": round(float(ratio.max()), 4),
            }
            text = f"With {form}, the bound (14) of {policy} is lower than LinUCB's (16) for every user"
            out.append(Claim(text, below(ratio, 1.0), found, LARGER, "norms" if name == "printed" else ""))
    return out
