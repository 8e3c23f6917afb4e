"""Every policy × every generic check, for several values of every hyper-parameter."""

from __future__ import annotations

from typing import Any

import pytest

from graphbandit import (
    CLUB,
    POLICIES,
    CoLin,
    GobLin,
    GobLinBlock,
    GobLinMacro,
    GraphUCB,
    GraphUCBLocal,
    HordeEpochGreedy,
    HordeTS,
    LinTS,
    LinUCB,
    Random,
    graphs,
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
    if settings.get("shared") or settings.get("alpha2", 0.0) == 5.0:
        out.add("check_beats_random")  # one vector for users of all tastes
    if cls is HordeTS and settings.get("solver") == "cg" and settings.get("scale") != 0.0:
        out.add("check_valid_choices")  # one joint draw serves a batch of rounds: random, but the same when asked twice
    if settings.get("preset") == "paper" and cls is GraphUCBLocal:
        out.add("check_beats_random")  # Lemma 1 diverges (errata E11)
    return out


def test_every_policy_is_covered() -> None:
    assert set(SETTINGS) == set(POLICIES.values())


@pytest.mark.compiled
@pytest.mark.parametrize(("cls", "settings"), CASES)
@pytest.mark.parametrize("check", [pytest.param(check, id=check.__name__) for check in yield_checks()])
def test_generic_check(cls: Any, settings: dict[str, Any], check: Check) -> None:
    if check.__name__ not in skips(cls, settings):
        check(lambda graph, dim: cls(graph, dim, **settings))


def test_a_broken_policy_is_caught() -> None:
    class Forgetful(LinUCB):
        """Draws a new seed in every decision."""

        def recommend(self, user: int, arms: Any) -> int:
            self.reseed(None)
            return int(self._rng.integers(len(arms)))

    with pytest.raises(AssertionError) as caught:
        check_policy(lambda graph, dim: Forgetful(graph, dim))
    assert any("check_" in note for note in caught.value.__notes__)
    with pytest.raises(ValueError, match="do not exist: check_magic"):
        check_policy(lambda graph, dim: LinUCB(graph, dim), skip=["check_magic"])


BAD: list[tuple[type, dict[str, Any], str]] = [
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
