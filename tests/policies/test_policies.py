"""Every policy × every generic check, for several values of every hyper-parameter."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from graphbandit import POLICIES, LinUCB, Policy, graphs, signals
from graphbandit.checks import check_policy, yield_checks

PRESETS = [{"preset": preset} for preset in ("paper", "released", "recommended")]
SETTINGS: dict[str, list[dict[str, Any]]] = {
    "random": [{}, {"seed": 5}],
    "linucb": [
        {},
        *({"ridge": ridge} for ridge in (0.1, 7.0)),
        {"shared": True},
        {"radius": "log", "exploration": 0.2},
        {"radius": "constant", "exploration": 0.5, "shared": True},
        {"radius": "confidence-ball", "exploration": 0.01},
        {"norm": 1.0, "sigma": 0.1, "delta": 0.1},
        {"exploration": 0.0},
        {"item_effects": True},
    ],
    "lints": [{}, {"ridge": 0.1, "scale": 0.3}, {"ridge": 7.0, "shared": True}, {"scale": 0.0}],
    "graphucb": [
        *PRESETS,
        *({"alpha": alpha, "ridge": ridge} for alpha in (0.1, 7.0) for ridge in (0.1, 7.0)),
        {"solver": "push"},
        {"solver": "push", "alpha": 7.0, "ridge": 0.1, "tolerance": 1e-12},
        {"metric": "exact", "roughness": "least-squares", "laplacian_ridge": 0.1},
        {"exploration": 0.0, "sigma": 0.5, "delta": 0.5},
    ],
    "graphucb-local": [
        *PRESETS,
        *({"rule": rule, "alpha": alpha, "ridge": 1.0} for rule in ("jacobi", "gauss-seidel") for alpha in (0.1, 7.0)),
        {"rule": "algorithm-2", "alpha": 0.1, "ridge": 7.0},
        {"rule": "released", "alpha": 7.0, "metric": "exact"},
        {"rule": "gauss-seidel", "item_effects": True},
        {"exploration": 0.0},
    ],
    "adaptive": [
        {},
        {"solver": "local"},
        {"solver": "local", "half_life": 20.0},
        {"half_life": 20.0, "sigma": 0.1, "exploration": 0.5},
        {"alphas": [0.1], "slack": 1.0, "models": ["graph"], "temper": 1.0, "exploration": 0.0},
    ],
    "goblin": [
        {},
        {"preset": "released"},
        *({"scale": scale} for scale in (0.1, 7.0)),
        {"radius": "theory"},
        {"radius": "theory", "norm": 2.0, "sigma": 0.1, "scale": 0.1},
        {"radius": "constant", "exploration": 0.0},
    ],
    "goblin-block": [{"clusters": 3, "scale": 0.1}, {"clusters": 1}, {"clusters": 99, "radius": "theory"}],
    "goblin-macro": [{"clusters": 3, "scale": 0.1}, {"clusters": 99, "normalised": True}, {"clusters": 2, "radius": "theory"}],
    "club": [
        {},
        {"alpha2": 0.0},
        {"alpha2": 5.0, "radius": "theory", "exploration": 0.01},
        {"preset": "released", "alpha2": 0.15, "test": "before"},
        {"start": "graph"},
        {"start": "random", "radius": "constant"},
    ],
    "sclub": [
        {},
        {"alpha_theta": 0.0, "alpha_p": 0.0},
        {"alpha_theta": float("inf"), "alpha_p": float("inf")},
        {"alpha_theta": 0.3, "alpha_p": float("inf")},
        {"alpha_theta": 0.3, "alpha_p": 0.2, "radius": "theory", "exploration": 0.01},
        {"alpha_theta": 0.5, "radius": "constant", "exploration": 0.0},
    ],
    "dynucb": [
        {},
        {"preset": "released"},
        {"clusters": 1},
        {"clusters": 99, "start": "first"},
        {"clusters": 2, "centroid": "mean", "radius": "constant"},
        {"clusters": 3, "start": "first", "exploration": 0.0, "seed": 4},
    ],
    "community-ucb": [
        {},
        {"period": 10_000, "radius": "theory"},
        {"neighbours": 2, "kernel": 10.0, "period": 3},
        {"neighbours": 7, "kernel": 0.0, "resolution": 0.0, "radius": "constant"},
        {"resolution": 3.0, "radius": "theory", "sigma": 0.1, "delta": 0.1, "exploration": 0.0},
    ],
    "dccb": [
        {},
        {"lag": 0, "alpha2": 1.0},
        {"lag": 3, "alpha2": 0.0, "ridge": 0.1},
        {"max_lag": 4, "radius": "theory", "ridge": 7.0},
        {"alpha2": float("inf"), "radius": "constant", "exploration": 0.0},
    ],
    "dcb": [{}, {"lag": 0, "radius": "constant"}, {"lag": 3, "ridge": 0.1}, {"max_lag": 4, "radius": "theory", "ridge": 7.0}],
    "oful": [
        {},
        {"switch": 0.0, "ridge": 0.1},
        {"switch": 0.2, "ridge": 7.0, "norm": 2.0},
        {"shared": True, "switch": 0.5},
        {"sigma": 0.1, "delta": 0.1, "exploration": 0.2},
        {"exploration": 0.0},
    ],
    "spectral-ucb": [
        {},
        {"exploration": 0.1},
        {"neighbours": 3, "rank": 5, "norm": 0.5},
        {"neighbours": 0, "ridge": 7.0, "norm": 0.0, "sigma": 0.1, "delta": 0.1},
        {"neighbours": 4, "ridge": 0.1, "radius": "log", "exploration": 0.2, "shared": True},
        {"neighbours": 2, "radius": "constant", "exploration": 0.1, "horizon": 10},
        {"neighbours": 4, "exploration": 0.0},
    ],
    "spectral-ts": [
        {},
        {"scale": 0.1},
        {"neighbours": 3, "rank": 5, "norm": 0.5, "scale": 0.2},
        {"neighbours": 0, "ridge": 7.0, "norm": 0.0, "sigma": 0.1, "horizon": 10},
        {"neighbours": 4, "ridge": 0.1, "delta": 0.1, "shared": True},
        {"neighbours": 4, "scale": 0.0},
    ],
    "cofiba": [
        {},
        {"alpha2": float("inf")},
        {"alpha2": 0.0, "item_start": "complete", "item_clusters": 3},
        {"alpha2": 0.05, "start": "graph", "inherit": True, "tolerance": 0.3},
        {"item_start": "random", "item_clusters": 1, "exploration": 0.0},
        {"start": "random", "radius": "constant", "seed": 3},
    ],
    "colin": [
        {},
        *({"ridge": ridge, "radius": "log"} for ridge in (1.0, 7.0)),
        {"radius": "theory", "exploration": 1.0},
        {"radius": "theory", "norm": 2.0, "sigma": 0.1, "exploration": 0.5},
        {"exploration": 0.0},
    ],
    "tcb": [
        {},
        {"transfer": 0.0, "ridge": 7.0},
        {"transfer": 7.0, "translation": 0.1, "sweeps": 1},
        {"sweeps": 0, "exploration": 0.0},
    ],
    "horde-ts": [
        {},
        *({"strength": strength, "sigma": sigma} for strength in (0.1, 7.0) for sigma in (0.05, 1.0)),
        {"scale": 0.0},
        {"solver": "cg"},
        {"solver": "cg", "strength": 7.0, "period": 7, "tolerance": 1e-8},
        {"solver": "cg", "scale": 0.0, "period": 20},
    ],
    "horde-eg": [
        {},
        {"strength": 7.0, "sigma": 0.3, "rate": 0.2},
        {"rate": 0.0},
        {"solver": "cg", "rate": 0.5},
        {"solver": "cg", "period": 7, "strength": 0.1},
    ],
}
ALWAYS: dict[tuple[str, str], str] = {
    ("random", "check_beats_random"): "it is what the others must beat",
    ("item-mean", "check_beats_random"): "one mean serves users of all tastes",
    ("goblin-block", "check_user_order"): "k-means starts from a random user",
    ("goblin-macro", "check_user_order"): "k-means starts from a random user",
    ("goblin-macro", "check_beats_random"): "it ignores the differences within clusters",
}


def reason_to_skip(name: str, settings: dict[str, Any], check: str) -> str | None:
    """Return the reason why a check does not apply; None if it does. Nothing else is left out."""
    if (name, check) in ALWAYS:
        return ALWAYS[name, check]
    if check == "check_user_order":
        return unordered_users(name, settings)
    if check == "check_beats_random":
        if settings.get("shared") or settings.get("alpha2", 0.0) in (5.0, float("inf")):
            return "one vector serves users of all tastes"
        if name == "spectral-ts" and not settings:
            return "the article's v over-explores; the next setting has a tenth of it"
    if check == "check_best_first" and name == "horde-ts" and settings.get("solver") == "cg" and settings.get("scale") != 0.0:
        return "one joint draw serves a batch of rounds: random, but the same when asked twice"
    return None


def unordered_users(name: str, settings: dict[str, Any]) -> str | None:
    """Return the reason why results depend on how users are numbered."""
    if settings == {"solver": "push"}:
        return "it holds to the tolerance only; the next setting is nearly exact"
    if settings.get("start") == "random":
        return "the starting graph is drawn by row number"
    if name == "community-ucb" and settings.get("period") != 10_000:
        return "Louvain's method visits users in a random order, by number"
    if name in ("dcb", "dccb") and (settings.get("lag") != 0 or "alpha2" in settings):
        return "peers are drawn by number"
    if name == "dynucb" and settings.get("clusters", 4) not in (1, 99):
        return "clusters are drawn by row number"
    return None


def described(settings: dict[str, Any]) -> str:
    return ",".join(f"{name}={value}" for name, value in settings.items()) or "defaults"


def generated(cls: type[Policy]) -> list[dict[str, Any]]:
    """The defaults, and several values of every setting, from its range: for a policy that has no line above."""
    own = inspect.signature(cls).parameters
    flags = {name: (True, False) for name, part in own.items() if part.annotation == "bool"}
    values = flags | {name: cls.ranges[name].examples for name in own if name in cls.ranges}
    return [{}, *({name: value} for name, examples in values.items() for value in examples if value != own[name].default)]


CASES = [
    pytest.param(name, settings, id=f"{name}[{described(settings)}]")
    for name, cls in POLICIES.items()
    for settings in SETTINGS.get(name) or generated(cls)
]


def test_settings_are_of_policies_that_exist() -> None:
    assert set(SETTINGS) <= set(POLICIES)


def test_a_policy_without_a_line_is_tried_with_generated_settings() -> None:
    cases = generated(LinUCB)
    assert {} in cases and {"ridge": 7.0} in cases and {"radius": "log"} in cases and {"shared": True} in cases
    for settings in cases:
        LinUCB(graphs.empty(2), 2, **settings)


@pytest.mark.compiled
@pytest.mark.parametrize(("name", "settings"), CASES)
def test_generic_checks(name: str, settings: dict[str, Any]) -> None:
    """Every check, for every setting; an error names the check that failed."""
    cls: Any = POLICIES[name]
    left_out = [check.__name__ for check in yield_checks() if reason_to_skip(name, settings, check.__name__)]
    check_policy(lambda graph, dim: cls(graph, dim, **settings, **catalogue(cls, dim)), skip=left_out)


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
BAD: list[tuple[str, dict[str, Any], str]] = [
    ("adaptive", {"alphas": []}, r"alphas must be a list of one or more positive numbers, but it is \[\]"),
    ("adaptive", {"alphas": [1.0, -1.0]}, r"alphas must be a list of one or more positive numbers, but it is \[1.0, -1.0\]"),
    ("adaptive", {"slack": 0.0}, "slack must be a positive number"),
    ("adaptive", {"sigma": 0}, "sigma must be a positive number"),
    ("adaptive", {"half_life": 0}, "half_life must be a positive number"),
    ("adaptive", {"models": []}, r"models must be a list of one or more of alone, everyone, graph, both, but it is \[\]"),
    (
        "adaptive",
        {"models": ["friends"]},
        r"models must be a list of one or more of alone, everyone, graph, both, but it is \['friends'\]",
    ),
    ("adaptive", {"solver": "dense", "half_life": 9.0}, "solver must be 'auto' or 'local' with a half_life"),
    ("adaptive", {"solver": "push"}, "solver must be one of auto, dense, local"),
    ("adaptive", {"temper": 0}, "temper must be a probability"),
    ("linucb", {"ridge": 0}, "ridge must be a positive number, but it is 0"),
    ("linucb", {"ridge": float("nan")}, "ridge must be a positive number, but it is nan"),
    ("linucb", {"radius": "wide"}, "radius must be one of theory, log, constant, confidence-ball, but it is 'wide'"),
    ("linucb", {"exploration": -1}, "exploration must be zero or a positive number, but it is -1"),
    ("linucb", {"delta": 0}, "delta must be a probability above 0"),
    ("linucb", {"norm": -1}, "norm must be"),
    ("lints", {"scale": -0.1}, "scale must be zero or a positive number"),
    ("graphucb", {"ridge": -0.01}, "ridge must be a positive number, but it is -0.01"),
    ("graphucb", {"alpha": 0}, "alpha must be a positive number"),
    ("graphucb", {"alpha": "1"}, "alpha must be a positive number, but it is '1'"),
    ("graphucb", {"preset": "best"}, "preset must be one of paper, released, recommended"),
    ("graphucb", {"metric": "exactly"}, "metric must be one of"),
    ("graphucb", {"roughness": "none"}, "roughness must be one of estimate, least-squares"),
    ("graphucb", {"tolerance": 0}, "tolerance must be a positive number"),
    ("graphucb-local", {"rule": "sor"}, "rule must be one of jacobi, gauss-seidel, released, section-5, algorithm-2"),
    ("goblin", {"scale": 0}, "scale must be a positive number"),
    ("goblin-block", {"clusters": [0, 1]}, r"clusters must name a cluster for each of 3 users, but its shape is \(2,\)"),
    ("goblin-block", {"clusters": 0}, "clusters must be at least 1, but it is 0"),
    ("lints", {"delta": 5}, "delta must be a probability"),
    ("club", {"alpha2": -1}, "alpha2 must be zero or a positive number"),
    ("club", {"start": "tree"}, "start must be one of auto, complete, random, graph"),
    ("tcb", {"transfer": -1}, "transfer must be zero or a positive number, but it is -1"),
    ("tcb", {"translation": 0}, "translation must be a positive number, but it is 0"),
    ("tcb", {"sweeps": -1}, "sweeps must be .*, but it is -1"),
    ("colin", {"ridge": 0}, "ridge must be a positive number, but it is 0"),
    ("colin", {"radius": "wide"}, "radius must be one of theory, log, constant"),
    ("colin", {"norm": -1}, "norm must be zero or a positive number"),
    ("colin", {"weights": [[1, 0], [0, 1]]}, r"weights must be a matrix of shape \(3, 3\), but its shape is \(2, 2\)"),
    ("horde-ts", {"strength": 0}, "strength must be a positive number"),
    ("horde-ts", {"sigma": 0}, "sigma must be a positive number"),
    ("horde-ts", {"scale": -1}, "scale must be zero or a positive number"),
    ("horde-ts", {"tolerance": 0}, "tolerance must be a positive number"),
    ("horde-ts", {"solver": "push"}, "solver must be one of auto, dense, cg, but it is 'push'"),
    ("horde-ts", {"period": 2.5}, "period must be a positive integer, but it is 2.5"),
    ("horde-eg", {"rate": -1}, "rate must be zero or a positive number"),
    ("horde-eg", {"period": 0}, "period must be a positive integer, but it is 0"),
    ("club", {"start": "never"}, "start must be one of auto, complete, random, graph"),
    ("sclub", {"alpha_theta": -1}, "alpha_theta must be zero or a positive number, but it is -1"),
    ("sclub", {"alpha_p": float("nan")}, "alpha_p must be zero or a positive number, but it is nan"),
    ("sclub", {"alpha_p": "inf"}, "alpha_p must be zero or a positive number, but it is 'inf'"),
    ("sclub", {"exploration": float("inf")}, "exploration must be zero or a positive number"),
    ("sclub", {"radius": "wide"}, "radius must be one of theory, log, constant"),
    ("dynucb", {"clusters": 0}, "clusters must be a positive integer, but it is 0"),
    ("dynucb", {"clusters": True}, "clusters must be a positive integer, but it is True"),
    ("dynucb", {"centroid": "median"}, "centroid must be one of pooled, mean, but it is 'median'"),
    ("dynucb", {"start": "graph"}, "start must be one of random, first"),
    ("dynucb", {"radius": "theory"}, "radius must be one of log, constant, but it is 'theory'"),
    ("dynucb", {"preset": "recommended"}, "preset must be one of paper, released"),
    ("community-ucb", {"neighbours": 0}, "neighbours must be an integer of at least 1, but it is 0"),
    ("community-ucb", {"period": 2.5}, "period must be an integer of at least 1, but it is 2.5"),
    ("community-ucb", {"kernel": -1}, "kernel must be zero or a positive number"),
    ("community-ucb", {"resolution": float("inf")}, "resolution must be zero or a positive number"),
    ("dccb", {"alpha2": -1}, "alpha2 must be zero or a positive number"),
    ("dccb", {"alpha2": float("nan")}, "alpha2 must be zero or a positive number"),
    ("dccb", {"lag": -1}, "lag must be an integer of at least 0, but it is -1"),
    ("dcb", {"max_lag": True}, "max_lag must be an integer of at least 0, but it is True"),
    ("dcb", {"ridge": 0}, "ridge must be a positive number"),
    ("oful", {"switch": -0.1}, "switch must be zero or a positive number, but it is -0.1"),
    ("oful", {"norm": None}, "norm must be zero or a positive number, but it is None"),
    ("oful", {"ridge": 0}, "ridge must be a positive number"),
    ("spectral-ucb", {}, r"items must be the catalogue of arms, an \(m, 2\) array"),
    ("spectral-ucb", {"items": ITEMS, "neighbours": -1}, "neighbours must be zero or a positive integer, but it is -1"),
    ("spectral-ucb", {"items": ITEMS, "neighbours": 2.5}, "neighbours must be zero or a positive integer, but it is 2.5"),
    ("spectral-ucb", {"items": ITEMS, "rank": 0}, "rank must be an integer from 1, .*, to 9, the number of items, but it is 0"),
    ("spectral-ucb", {"items": ITEMS, "neighbours": 0, "rank": 8}, "rank must be an integer from 9, the number of components"),
    ("spectral-ucb", {"items": ITEMS, "rank": 10}, "rank must be an integer .* to 9, the number of items, but it is 10"),
    ("spectral-ucb", {"items": ITEMS, "horizon": 0}, "horizon must be a positive number, but it is 0"),
    ("spectral-ucb", {"items": ITEMS, "ridge": 0}, "ridge must be a positive number"),
    ("spectral-ucb", {"items": ITEMS, "radius": "wide"}, "radius must be one of theory, log, constant"),
    ("spectral-ts", {"items": ITEMS, "scale": -1}, "scale must be zero or a positive number"),
    ("spectral-ts", {"items": ITEMS, "norm": -1}, "norm must be zero or a positive number"),
    ("spectral-ts", {"items": ITEMS, "delta": 0}, "delta must be a probability"),
    ("cofiba", {}, r"items must be the catalogue of arms, an \(m, 2\) array"),
    ("cofiba", {"items": [[1.0]]}, r"items must be a finite \(m, 2\) array"),
    ("cofiba", {"items": [[1, 0]], "alpha2": float("nan")}, "alpha2 must be zero or a positive number, but it is nan"),
    ("cofiba", {"items": [[1, 0]], "tolerance": -1}, "tolerance must be zero or a positive number"),
    ("cofiba", {"items": [[1, 0]], "item_start": "graph"}, "item_start must be one of auto, complete, random"),
    ("cofiba", {"items": [[1, 0]], "item_clusters": 0}, "item_clusters must be at least 1, but it is 0"),
    ("cofiba", {"items": [[1, 0]], "radius": "theory"}, "radius must be one of log, constant, but it is 'theory'"),
    ("cofiba", {"items": [[1, 0]], "start": "tree"}, "start must be one of auto, complete, random, graph"),
]


@pytest.mark.parametrize("name", POLICIES)
def test_bad_settings(name: str) -> None:
    cls: Any = POLICIES[name]
    for settings, message in ((settings, message) for policy, settings, message in BAD if policy == name):
        with pytest.raises(ValueError, match=message):
            cls(graphs.from_edges([(0, 1)], n_users=3), 2, **settings)
    for dim in (0, -1, 2.5, True):
        with pytest.raises(ValueError, match="dim must be a positive integer"):
            cls(graphs.empty(3), dim)


def test_a_graph_must_be_one() -> None:
    for cls in POLICIES.values():
        with pytest.raises(ValueError, match="graph must be a UserGraph"):
            cls([[0, 1], [1, 0]], 2)  # type: ignore[arg-type, call-arg]


@pytest.mark.parametrize("name", POLICIES)
def test_every_setting_has_a_range_or_is_a_flag(name: str) -> None:
    """Hyper-parameters are declared once: the signature names them, `ranges` limits them, `params` collects them."""
    cls: type[Policy] = POLICIES[name]
    declared = inspect.signature(cls).parameters
    settings = {setting: part for setting, part in declared.items() if setting not in ("graph", "dim", "seed")}
    unchecked = {setting for setting, part in settings.items() if setting not in cls.ranges and part.annotation != "bool"}
    assert unchecked <= STRUCTURED, "say in `ranges` what these may be"
    own = set(cls.ranges) - set(Policy.ranges)
    assert own <= set(settings), "ranges of settings that do not exist"


STRUCTURED = {"clusters", "items", "rank", "weights", "policy", "settings"}
"""Settings that are arrays or functions, or limited by the data: the policy checks them itself."""
