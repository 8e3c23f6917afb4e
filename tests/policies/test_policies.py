"""Every policy × every generic check, for several values of every hyper-parameter."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from graphbandit import (
    CLUB,
    COFIBA,
    DCB,
    DCCB,
    OFUL,
    POLICIES,
    SCLUB,
    AdaptiveGraphUCB,
    CoLin,
    CommunityUCB,
    DynUCB,
    GobLin,
    GobLinBlock,
    GobLinMacro,
    GraphLearner,
    GraphUCB,
    GraphUCBLocal,
    HordeEpochGreedy,
    HordeTS,
    LinTS,
    LinUCB,
    Random,
    SpectralTS,
    SpectralUCB,
    graphs,
    signals,
)
from graphbandit.checks import Check, check_policy, yield_checks

PRESETS = [{"preset": preset} for preset in ("paper", "released", "recommended")]
SETTINGS: dict[type, list[dict[str, Any]]] = {
    Random: [{}, {"seed": 5}],
    LinUCB: [
        {},
        *({"ridge": ridge} for ridge in (0.1, 7.0)),
        {"shared": True},
        {"radius": "log", "exploration": 0.2},
        {"radius": "constant", "exploration": 0.5, "shared": True},
        {"norm": 1.0, "sigma": 0.1, "delta": 0.1},
        {"exploration": 0.0},
    ],
    LinTS: [{}, {"ridge": 0.1, "scale": 0.3}, {"ridge": 7.0, "shared": True}, {"scale": 0.0}],
    GraphUCB: [
        *PRESETS,
        *({"alpha": alpha, "ridge": ridge} for alpha in (0.1, 7.0) for ridge in (0.1, 7.0)),
        {"solver": "push"},
        {"solver": "push", "alpha": 7.0, "ridge": 0.1, "tolerance": 1e-12},
        {"metric": "exact", "roughness": "least-squares", "laplacian_ridge": 0.1},
        {"exploration": 0.0, "sigma": 0.5, "delta": 0.5},
    ],
    GraphUCBLocal: [
        *PRESETS,
        *({"rule": rule, "alpha": alpha, "ridge": 1.0} for rule in ("jacobi", "gauss-seidel") for alpha in (0.1, 7.0)),
        {"rule": "lemma-1", "alpha": 0.1, "ridge": 7.0},
        {"rule": "released", "alpha": 7.0, "metric": "exact"},
        {"exploration": 0.0},
    ],
    AdaptiveGraphUCB: [
        {},
        {"solver": "local"},
        {"solver": "local", "half_life": 20.0, "choice": "best"},
        {"thompson": True, "exploration": 0.5},
        {"half_life": 20.0, "sigma": 0.1},
        {"alphas": [0.1], "slack": [1.0], "models": ["graph"], "temper": 1.0, "exploration": 0.0},
    ],
    GraphLearner: [
        {},
        {"policy": "graphucb-local", "k": 3, "period": 5, "growth": 0.0},
        {"policy": "graphucb", "settings": {"preset": "recommended"}, "given": False, "period": 7},
        {"settings": {"thompson": True, "solver": "local", "half_life": 20.0}, "k": 2},
    ],
    GobLin: [
        {},
        {"preset": "released"},
        *({"scale": scale} for scale in (0.1, 7.0)),
        {"radius": "theory"},
        {"radius": "theory", "norm": 2.0, "sigma": 0.1, "scale": 0.1},
        {"radius": "constant", "exploration": 0.0},
    ],
    GobLinBlock: [{"clusters": 3, "scale": 0.1}, {"clusters": 1}, {"clusters": 99, "radius": "theory"}],
    GobLinMacro: [{"clusters": 3, "scale": 0.1}, {"clusters": 99, "normalised": True}, {"clusters": 2, "radius": "theory"}],
    CLUB: [
        {},
        {"alpha2": 0.0},
        {"alpha2": 5.0, "radius": "theory", "exploration": 0.01},
        {"deletion": "theory", "alpha2": 0.3},
        {"preset": "released", "alpha2": 0.15, "test": "before"},
        {"start": "graph", "spare_unseen": True},
        {"start": "random", "radius": "constant"},
    ],
    SCLUB: [
        {},
        {"alpha_theta": 0.0, "alpha_p": 0.0},
        {"alpha_theta": float("inf"), "alpha_p": float("inf")},
        {"alpha_theta": 0.3, "alpha_p": float("inf")},
        {"alpha_theta": 0.3, "alpha_p": 0.2, "radius": "theory", "exploration": 0.01},
        {"alpha_theta": 0.5, "radius": "constant", "exploration": 0.0},
    ],
    DynUCB: [
        {},
        {"preset": "released"},
        {"clusters": 1},
        {"clusters": 99, "start": "first"},
        {"clusters": 2, "centroid": "mean", "radius": "constant"},
        {"clusters": 3, "start": "first", "exploration": 0.0, "seed": 4},
    ],
    CommunityUCB: [
        {},
        {"period": 10_000, "radius": "theory"},
        {"neighbours": 2, "kernel": 10.0, "period": 3},
        {"neighbours": 7, "kernel": 0.0, "resolution": 0.0, "radius": "constant"},
        {"resolution": 3.0, "radius": "theory", "sigma": 0.1, "delta": 0.1, "exploration": 0.0},
    ],
    DCCB: [
        {},
        {"lag": 0, "alpha2": 1.0},
        {"lag": 3, "alpha2": 0.0, "ridge": 0.1},
        {"max_lag": 4, "radius": "theory", "ridge": 7.0},
        {"alpha2": float("inf"), "radius": "constant", "exploration": 0.0},
    ],
    DCB: [{}, {"lag": 0, "radius": "constant"}, {"lag": 3, "ridge": 0.1}, {"max_lag": 4, "radius": "theory", "ridge": 7.0}],
    OFUL: [
        {},
        {"switch": 0.0, "ridge": 0.1},
        {"switch": 0.2, "ridge": 7.0, "norm": 2.0},
        {"shared": True, "switch": 0.5},
        {"sigma": 0.1, "delta": 0.1, "exploration": 0.2},
        {"exploration": 0.0},
    ],
    SpectralUCB: [
        {},
        {"exploration": 0.1},
        {"neighbours": 3, "rank": 5, "norm": 0.5},
        {"neighbours": 0, "ridge": 7.0, "norm": 0.0, "sigma": 0.1, "delta": 0.1},
        {"neighbours": 4, "ridge": 0.1, "radius": "log", "exploration": 0.2, "shared": True},
        {"neighbours": 2, "radius": "constant", "exploration": 0.1, "horizon": 10},
        {"neighbours": 4, "exploration": 0.0},
    ],
    SpectralTS: [
        {},
        {"scale": 0.1},
        {"neighbours": 3, "rank": 5, "norm": 0.5, "scale": 0.2},
        {"neighbours": 0, "ridge": 7.0, "norm": 0.0, "sigma": 0.1, "horizon": 10},
        {"neighbours": 4, "ridge": 0.1, "delta": 0.1, "shared": True},
        {"neighbours": 4, "scale": 0.0},
    ],
    COFIBA: [
        {},
        {"alpha2": float("inf")},
        {"alpha2": 0.0, "item_start": "complete", "item_clusters": 3},
        {"alpha2": 0.05, "start": "graph", "inherit": True, "tolerance": 0.3},
        {"item_start": "random", "item_clusters": 1, "exploration": 0.0},
        {"start": "random", "radius": "constant", "seed": 3},
    ],
    CoLin: [
        {},
        *({"ridge": ridge, "radius": "log"} for ridge in (1.0, 7.0)),
        {"radius": "theory", "exploration": 1.0},
        {"radius": "theory", "norm": 2.0, "sigma": 0.1, "exploration": 0.5},
        {"exploration": 0.0},
    ],
    HordeTS: [
        {},
        *({"strength": strength, "sigma": sigma} for strength in (0.1, 7.0) for sigma in (0.05, 1.0)),
        {"scale": 0.0},
        {"solver": "cg"},
        {"solver": "cg", "strength": 7.0, "period": 7, "tolerance": 1e-8},
        {"solver": "cg", "scale": 0.0, "period": 20},
    ],
    HordeEpochGreedy: [
        {},
        {"strength": 7.0, "sigma": 0.3, "rate": 0.2},
        {"rate": 0.0},
        {"solver": "cg", "rate": 0.5},
        {"solver": "cg", "period": 7, "strength": 0.1},
    ],
}
# By name, with the reason; nothing else is left out.
SKIPS: dict[type, tuple[str, ...]] = {
    Random: ("check_beats_random",),  # it is what the others must beat
    GobLinBlock: ("check_user_order",),  # k-means starts from a random user
    GobLinMacro: ("check_user_order", "check_beats_random"),  # and it throws the differences within clusters away
}
CASES = [pytest.param(cls, case, id=f"{cls.__name__}-{k}") for cls, cases in SETTINGS.items() for k, case in enumerate(cases)]


def skips(cls: type, settings: dict[str, Any]) -> set[str]:
    out = set(SKIPS.get(cls, ()))
    if settings == {"solver": "push"}:
        out.add("check_user_order")  # holds to the tolerance only; the next setting is nearly exact
    if settings.get("start") == "random":
        out.add("check_user_order")  # the starting graph is drawn by row number
    if cls is CommunityUCB and settings.get("period") != 10_000:
        out.add("check_user_order")  # Louvain's method visits users in a random order, by number
    if cls in (DCB, DCCB) and (settings.get("lag") != 0 or "alpha2" in settings):
        out.add("check_user_order")  # peers are drawn by number
    if settings.get("shared") or settings.get("alpha2", 0.0) in (5.0, float("inf")):
        out.add("check_beats_random")  # one vector for users of all tastes
    if cls is SpectralTS and not settings:
        out.add("check_beats_random")  # the article's v over-explores; the next setting has a tenth of it
    if cls is HordeTS and settings.get("solver") == "cg" and settings.get("scale") != 0.0:
        out.add("check_valid_choices")  # one joint draw serves a batch of rounds: random, but the same when asked twice
    if settings.get("preset") == "paper" and cls is GraphUCBLocal:
        out.add("check_beats_random")  # Lemma 1 diverges (errata E11)
    if cls is GraphLearner and settings.get("settings", {}).get("solver") == "local":
        out.add("check_user_order")  # on a new graph the means are brought up to date one after the other, by number
    if cls is DynUCB and settings.get("clusters", 4) not in (1, 99):
        out.add("check_user_order")  # clusters are drawn by row number
    return out


def test_every_policy_is_covered() -> None:
    assert set(SETTINGS) == set(POLICIES.values())


@pytest.mark.compiled
@pytest.mark.parametrize(("cls", "settings"), CASES)
@pytest.mark.parametrize("check", [pytest.param(check, id=check.__name__) for check in yield_checks()])
def test_generic_check(cls: Any, settings: dict[str, Any], check: Check) -> None:
    if check.__name__ not in skips(cls, settings):
        check(lambda graph, dim: cls(graph, dim, **settings, **catalogue(cls, dim)))


def catalogue(cls: type, dim: int) -> dict[str, Any]:
    """The items of the generic checks' world (in three dimensions), for policies that must know them."""
    return {"items": signals.unit_arms(12, dim, seed=5)} if "items" in inspect.signature(cls).parameters else {}


def test_a_broken_policy_is_caught() -> None:
    class Forgetful(LinUCB):
        """Draws a new seed in every decision."""

        def recommend(self, user: int, arms: Any, **_: Any) -> Any:
            self.reseed(None)
            return int(self.rng.integers(len(arms)))

    with pytest.raises(AssertionError) as caught:
        check_policy(lambda graph, dim: Forgetful(graph, dim))
    assert any("check_" in note for note in caught.value.__notes__)
    with pytest.raises(ValueError, match="do not exist: check_magic"):
        check_policy(lambda graph, dim: LinUCB(graph, dim), skip=["check_magic"])


ITEMS = signals.unit_arms(9, 2, seed=0)
BAD: list[tuple[type, dict[str, Any], str]] = [
    (AdaptiveGraphUCB, {"alphas": []}, r"alphas must be a list of one or more positive numbers, but it is \[\]"),
    (
        AdaptiveGraphUCB,
        {"alphas": [1.0, -1.0]},
        r"alphas must be a list of one or more positive numbers, but it is \[1.0, -1.0\]",
    ),
    (AdaptiveGraphUCB, {"slack": [0.0]}, r"slack must be a list of one or more positive numbers, but it is \[0.0\]"),
    (AdaptiveGraphUCB, {"sigma": 0}, "sigma must be a positive number"),
    (AdaptiveGraphUCB, {"half_life": 0}, "half_life must be a positive number"),
    (AdaptiveGraphUCB, {"models": []}, r"models must be a list of one or more of alone, everyone, graph, but it is \[\]"),
    (
        AdaptiveGraphUCB,
        {"models": ["friends"]},
        r"models must be a list of one or more of alone, everyone, graph, but it is \['friends'\]",
    ),
    (AdaptiveGraphUCB, {"choice": "worst"}, "choice must be one of average, best"),
    (AdaptiveGraphUCB, {"solver": "push"}, "solver must be one of auto, dense, local"),
    (AdaptiveGraphUCB, {"temper": 0}, "temper must be a probability"),
    (LinUCB, {"ridge": 0}, "ridge must be a positive number, but it is 0"),
    (LinUCB, {"ridge": float("nan")}, "ridge must be a positive number, but it is nan"),
    (LinUCB, {"radius": "wide"}, "radius must be one of theory, log, constant, but it is 'wide'"),
    (LinUCB, {"exploration": -1}, "exploration must be zero or a positive number, but it is -1"),
    (LinUCB, {"delta": 0}, "delta must be a probability above 0"),
    (LinUCB, {"norm": -1}, "norm must be"),
    (LinTS, {"scale": -0.1}, "scale must be zero or a positive number"),
    (GraphUCB, {"ridge": -0.01}, "ridge must be a positive number, but it is -0.01"),
    (GraphUCB, {"alpha": 0}, "alpha must be a positive number"),
    (GraphUCB, {"alpha": "1"}, "alpha must be a positive number, but it is '1'"),
    (GraphUCB, {"preset": "best"}, "preset must be one of paper, released, recommended"),
    (GraphUCB, {"metric": "exactly"}, "metric must be one of"),
    (GraphUCB, {"roughness": "none"}, "roughness must be one of estimate, least-squares"),
    (GraphUCB, {"tolerance": 0}, "tolerance must be a positive number"),
    (GraphUCBLocal, {"rule": "sor"}, "rule must be one of jacobi, gauss-seidel, released, lemma-1"),
    (GobLin, {"scale": 0}, "scale must be a positive number"),
    (GobLinBlock, {"clusters": [0, 1]}, r"clusters must name a cluster for each of 3 users, but its shape is \(2,\)"),
    (GobLinBlock, {"clusters": 0}, "clusters must be at least 1, but it is 0"),
    (LinTS, {"delta": 5}, "delta must be a probability"),
    (CLUB, {"alpha2": -1}, "alpha2 must be zero or a positive number"),
    (CLUB, {"start": "tree"}, "start must be one of auto, complete, random, graph"),
    (CoLin, {"ridge": 0}, "ridge must be a positive number, but it is 0"),
    (CoLin, {"radius": "wide"}, "radius must be one of theory, log, constant"),
    (CoLin, {"norm": -1}, "norm must be zero or a positive number"),
    (CoLin, {"weights": [[1, 0], [0, 1]]}, r"weights must be a matrix of shape \(3, 3\), but its shape is \(2, 2\)"),
    (HordeTS, {"strength": 0}, "strength must be a positive number"),
    (HordeTS, {"sigma": 0}, "sigma must be a positive number"),
    (HordeTS, {"scale": -1}, "scale must be zero or a positive number"),
    (HordeTS, {"tolerance": 0}, "tolerance must be a positive number"),
    (HordeTS, {"solver": "push"}, "solver must be one of auto, dense, cg, but it is 'push'"),
    (HordeTS, {"period": 2.5}, "period must be a positive integer, but it is 2.5"),
    (HordeEpochGreedy, {"rate": -1}, "rate must be zero or a positive number"),
    (HordeEpochGreedy, {"period": 0}, "period must be a positive integer, but it is 0"),
    (CLUB, {"deletion": "never"}, "deletion must be one of practice, theory, released"),
    (SCLUB, {"alpha_theta": -1}, "alpha_theta must be zero or a positive number, but it is -1"),
    (SCLUB, {"alpha_p": float("nan")}, "alpha_p must be zero or a positive number, but it is nan"),
    (SCLUB, {"alpha_p": "inf"}, "alpha_p must be zero or a positive number, but it is 'inf'"),
    (SCLUB, {"exploration": float("inf")}, "exploration must be zero or a positive number"),
    (SCLUB, {"radius": "wide"}, "radius must be one of theory, log, constant"),
    (DynUCB, {"clusters": 0}, "clusters must be a positive integer, but it is 0"),
    (DynUCB, {"clusters": True}, "clusters must be a positive integer, but it is True"),
    (DynUCB, {"centroid": "median"}, "centroid must be one of pooled, mean, but it is 'median'"),
    (DynUCB, {"start": "graph"}, "start must be one of random, first"),
    (DynUCB, {"radius": "theory"}, "radius must be one of log, constant, but it is 'theory'"),
    (DynUCB, {"preset": "recommended"}, "preset must be one of paper, released"),
    (CommunityUCB, {"neighbours": 0}, "neighbours must be an integer of at least 1, but it is 0"),
    (CommunityUCB, {"period": 2.5}, "period must be an integer of at least 1, but it is 2.5"),
    (CommunityUCB, {"kernel": -1}, "kernel must be zero or a positive number"),
    (CommunityUCB, {"resolution": float("inf")}, "resolution must be zero or a positive number"),
    (DCCB, {"alpha2": -1}, "alpha2 must be zero or a positive number"),
    (DCCB, {"alpha2": float("nan")}, "alpha2 must be zero or a positive number"),
    (DCCB, {"lag": -1}, "lag must be an integer of at least 0, but it is -1"),
    (DCB, {"max_lag": True}, "max_lag must be an integer of at least 0, but it is True"),
    (DCB, {"ridge": 0}, "ridge must be a positive number"),
    (OFUL, {"switch": -0.1}, "switch must be zero or a positive number, but it is -0.1"),
    (OFUL, {"norm": None}, "norm must be zero or a positive number, but it is None"),
    (OFUL, {"ridge": 0}, "ridge must be a positive number"),
    (SpectralUCB, {}, r"items must be the catalogue of arms, an \(m, 2\) array"),
    (SpectralUCB, {"items": ITEMS, "neighbours": -1}, "neighbours must be zero or a positive integer, but it is -1"),
    (SpectralUCB, {"items": ITEMS, "neighbours": 2.5}, "neighbours must be zero or a positive integer, but it is 2.5"),
    (SpectralUCB, {"items": ITEMS, "rank": 0}, "rank must be an integer from 1, .*, to 9, the number of items, but it is 0"),
    (SpectralUCB, {"items": ITEMS, "neighbours": 0, "rank": 8}, "rank must be an integer from 9, the number of components"),
    (SpectralUCB, {"items": ITEMS, "rank": 10}, "rank must be an integer .* to 9, the number of items, but it is 10"),
    (SpectralUCB, {"items": ITEMS, "horizon": 0}, "horizon must be a positive number, but it is 0"),
    (SpectralUCB, {"items": ITEMS, "ridge": 0}, "ridge must be a positive number"),
    (SpectralUCB, {"items": ITEMS, "radius": "wide"}, "radius must be one of theory, log, constant"),
    (SpectralTS, {"items": ITEMS, "scale": -1}, "scale must be zero or a positive number"),
    (SpectralTS, {"items": ITEMS, "norm": -1}, "norm must be zero or a positive number"),
    (SpectralTS, {"items": ITEMS, "delta": 0}, "delta must be a probability"),
    (COFIBA, {}, r"items must be the catalogue of arms, an \(m, 2\) array"),
    (COFIBA, {"items": [[1.0]]}, r"items must be a finite \(m, 2\) array"),
    (COFIBA, {"items": [[1, 0]], "alpha2": float("nan")}, "alpha2 must be zero or a positive number, but it is nan"),
    (COFIBA, {"items": [[1, 0]], "tolerance": -1}, "tolerance must be zero or a positive number"),
    (COFIBA, {"items": [[1, 0]], "item_start": "graph"}, "item_start must be one of auto, complete, random"),
    (COFIBA, {"items": [[1, 0]], "item_clusters": 0}, "item_clusters must be at least 1, but it is 0"),
    (COFIBA, {"items": [[1, 0]], "radius": "theory"}, "radius must be one of log, constant, but it is 'theory'"),
    (COFIBA, {"items": [[1, 0]], "start": "tree"}, "start must be one of auto, complete, random, graph"),
]


@pytest.mark.parametrize(("cls", "settings", "message"), BAD)
def test_bad_settings(cls: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cls(graphs.from_edges([(0, 1)], n_users=3), 2, **settings)


@pytest.mark.parametrize("cls", POLICIES.values())
def test_bad_dim(cls: Any) -> None:
    for dim in (0, -1, 2.5, True):
        with pytest.raises(ValueError, match="dim must be a positive integer"):
            cls(graphs.empty(3), dim)


def test_a_graph_must_be_one() -> None:
    for cls in POLICIES.values():
        with pytest.raises(ValueError, match="graph must be a UserGraph"):
            cls([[0, 1], [1, 0]], 2)  # type: ignore[arg-type, call-arg]


def test_repr_names_the_settings() -> None:
    assert repr(GraphUCB(graphs.empty(3), 2, alpha=0.5)).startswith(
        "GraphUCB(UserGraph(n_users=3, n_edges=0), 2, preset='paper', alpha=0.5, ridge=0.01"
    )
