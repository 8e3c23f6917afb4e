"""Propensities: as often as they say, right on average in inverse propensity scoring, and for the
asking.
"""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphbandit import (
    AdaptiveGraphUCB,
    Choice,
    GraphUCB,
    HordeEpochGreedy,
    HordeTS,
    LinTS,
    LinUCB,
    Random,
    SpectralTS,
    Stochastic,
    compare,
    environments,
    graphs,
    signals,
    simulate,
)
from graphbandit.checks import check_policy
from graphbandit.compute.arrays import Floats
from graphbandit.experiments.kept_runs import file_name
from graphbandit.policies import Policy
from graphbandit.storage.archive import ArchiveError

GRAPH = graphs.from_edges([(0, 1), (1, 2), (2, 0), (2, 3)], n_users=5)
ARMS = signals.unit_arms(6, 3, seed=0)
ARMS[4] = ARMS[1]  # a tie, whatever is known
CALLS = 4000


def trained(policy: Any, rounds: int = 30) -> Any:
    rng = np.random.default_rng(1)
    truth = signals.smooth(GRAPH, 3, gamma=3, seed=2)
    for _ in range(rounds):
        user, x = int(rng.integers(5)), ARMS[rng.integers(6)]
        policy.update(user, x, float(x @ truth[user] + 0.3 * rng.standard_normal()))
    return policy


def frequencies(policy: Any, user: int, arms: Floats = ARMS) -> Floats:
    return np.bincount([policy.recommend(user, arms) for _ in range(CALLS)], minlength=len(arms)) / CALLS


def agree(found: Floats, expected: Floats, draws: float = np.inf) -> bool:
    """Within four standard errors of both, for every arm; an arm of probability 0 must not have
    come up.
    """
    error = np.sqrt(np.maximum(expected * (1 - expected), 0) * (1 / CALLS + 1 / draws))
    return bool(np.all(np.abs(found - expected) <= 4 * error + 1e-12))


SAMPLING: dict[str, Callable[[], Policy]] = {
    "LinTS": lambda: LinTS(GRAPH, 3, scale=0.5),
    "HordeTS": lambda: HordeTS(GRAPH, 3, sigma=0.5, solver="dense"),
    "SpectralTS": lambda: SpectralTS(GRAPH, 3, items=ARMS[:4], neighbours=2, scale=0.1),
}
EXACT: dict[str, Callable[[], Policy]] = {
    "Random": lambda: Random(GRAPH, 3),
    "LinUCB": lambda: LinUCB(GRAPH, 3),
    "GraphUCB": lambda: GraphUCB(GRAPH, 3),
    "joint draw": lambda: HordeTS(GRAPH, 3, sigma=0.5, solver="cg"),
    "epoch-greedy": lambda: HordeEpochGreedy(GRAPH, 3, rate=1.0),
    "softmax": lambda: Stochastic(LinUCB(GRAPH, 3), temperature=0.3),
    "epsilon": lambda: Stochastic(LinUCB(GRAPH, 3), epsilon=0.3),
    "both": lambda: Stochastic(GraphUCB(GRAPH, 3), epsilon=0.3, temperature=0.1),
    "always": lambda: Stochastic(LinUCB(GRAPH, 3), epsilon=1.0, temperature=0.1),
    "twice": lambda: Stochastic(Stochastic(LinUCB(GRAPH, 3), temperature=0.2), epsilon=0.5),
    "softmax of a sampler": lambda: Stochastic(LinTS(GRAPH, 3, scale=0.5), temperature=0.3),
}


@pytest.mark.parametrize("name", EXACT)
def test_exact_propensities_are_the_frequencies(name: str) -> None:
    policy = trained(EXACT[name]())
    for user in (0, 3):
        expected = policy.propensities(user, ARMS)
        assert expected.sum() == pytest.approx(1) and agree(frequencies(policy, user), expected)
        choice = policy.recommend(user, ARMS, propensity=True)
        assert choice.propensity == expected[choice.arm]  # not only close


@pytest.mark.compiled
@pytest.mark.parametrize("name", SAMPLING)
def test_sampled_propensities_are_the_frequencies(name: str) -> None:
    policy = trained(SAMPLING[name](), rounds=8)
    expected = policy.propensities(1, ARMS, draws=20_000)
    assert expected.sum() == pytest.approx(1) and expected.min() > 0 and (expected > 0.02).sum() > 2
    assert agree(frequencies(policy, 1), expected, 20_000)
    few = policy.propensities(1, ARMS, draws=1)
    assert few.min() >= 1 / 12 and few.sum() == pytest.approx(1)  # one draw, and one that favours none
    layer = Stochastic(policy, epsilon=0.5, seed=3)
    assert agree(layer.propensities(1, ARMS, draws=20_000), 0.5 * expected + 0.5 / 6, 5_000)


def test_by_hand() -> None:
    arms = [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]
    greedy = LinUCB(graphs.empty(1), 2, ridge=1.0, exploration=0.0)
    greedy.update(0, [1.0, 0.0], 1.0)  # values ½, 0, ½, 0
    assert greedy.propensities(0, arms).tolist() == [0.5, 0, 0.5, 0]
    assert greedy.recommend(0, arms[1:3], propensity=True) == Choice(1, 1.0)
    assert Random(graphs.empty(1), 2).propensities(0, arms).tolist() == [0.25] * 4
    soft = Stochastic(greedy, epsilon=0.2, temperature=0.25).propensities(0, arms)
    e2 = np.exp(2)
    np.testing.assert_allclose(soft, 0.8 * np.array([e2, 1, e2, 1]) / (2 + 2 * e2) + 0.05, rtol=1e-12)
    np.testing.assert_allclose(Stochastic(greedy, temperature=1e-9).propensities(0, arms), [0.5, 0, 0.5, 0], atol=1e-12)
    # a draw N(1, 1): one of two opposite arms, x = 1, wins with probability Φ(1)
    thompson = LinTS(graphs.empty(1), 1, ridge=1.0, scale=np.sqrt(2))
    thompson.update(0, [1.0], 2.0)
    assert thompson.propensities(0, [[1.0], [-1.0]], draws=100_000)[0] == pytest.approx(0.841345, abs=0.004)


@pytest.mark.parametrize("make", [*EXACT.values(), *SAMPLING.values(), lambda: Stochastic(LinTS(GRAPH, 3), epsilon=0.3)])
def test_asking_changes_nothing(make: Callable[[], Policy]) -> None:
    """Same arms, same state, same generator as a policy that was never asked; and a second question
    has the same answer.
    """
    policy = trained(make())
    twin = copy.deepcopy(policy)
    for user in range(5):
        asked = policy.propensities(user, ARMS)
        assert np.array_equal(asked, policy.propensities(user, ARMS))
        choice = policy.recommend(user, ARMS, propensity=True)
        assert isinstance(choice, Choice) and choice.arm == twin.recommend(user, ARMS) and 0 < choice.propensity <= 1
        assert choice.propensity == pytest.approx(asked[choice.arm], abs=2 / 1000)  # the same draws, and its own
        assert policy.rng.bit_generator.state == twin.rng.bit_generator.state
        policy.update(user, ARMS[choice.arm], 1.0)
        twin.update(user, ARMS[choice.arm], 1.0)
    assert np.array_equal(policy.theta, twin.theta)


@pytest.mark.compiled
def test_weights_are_right_on_average(monkeypatch: pytest.MonkeyPatch) -> None:
    """E[1{a chosen} / propensity] = 1 - (1 - p)^(draws + 1), and with an epsilon it is 1, however
    few the draws.
    """
    monkeypatch.setattr("graphbandit.policies.core.policy.PROPENSITY_DRAWS", 4)
    policy = trained(LinTS(GRAPH, 3, scale=0.5), rounds=8)
    arms = ARMS[:4]
    p = policy.propensities(1, arms, draws=100_000)
    for logger, expected in ((policy, 1 - (1 - p) ** 5), (Stochastic(policy, epsilon=0.2), np.ones(4))):
        weights = np.zeros((10_000, 4))
        for row in weights:
            arm, propensity = logger.recommend(1, arms, propensity=True)
            row[arm] = 1 / propensity
        error = weights.std(axis=0) / 100
        assert np.all(np.abs(weights.mean(axis=0) - expected) < 4 * error)
    assert np.any(1 - (1 - p) ** 5 < 0.8)  # so that the two differ


def test_inverse_propensity_scoring_finds_the_value_of_another_policy() -> None:
    graph = graphs.erdos_renyi(10, 0.4, seed=0)
    env = environments.Linear(
        graph, signals.smooth(graph, 3, gamma=5, seed=1), signals.unit_arms(30, 3, seed=2), sigma=0.1, pool=5
    )
    other = LinUCB(graph, 3, exploration=0.0)
    simulate(other, env, 20, seed=9)  # a fixed policy, learned elsewhere, and other than the logging one
    logging = Stochastic(LinUCB(graph, 3), epsilon=0.2)
    (rounds,) = env.rounds(6000, seed=3)
    earned, terms, truth, naive = [], [], [], []
    for t, user in enumerate(rounds.user.tolist()):
        offered = env.arms[rounds.pool[t]]
        arm, propensity = logging.recommend(user, offered, propensity=True)
        reward = float(rounds.mean[t, arm] + rounds.noise[t])
        logging.update(user, offered[arm], reward)
        wanted = other.propensities(user, offered)
        terms.append(wanted[arm] / propensity * reward)
        truth.append(float(wanted @ rounds.mean[t]))
        earned.append(reward)
        naive += [reward] if wanted[arm] else []
    error = np.std(np.array(terms) - truth) / np.sqrt(len(terms))
    assert error < 0.03 and abs(np.mean(terms) - np.mean(truth)) < 3 * error
    assert np.mean(earned) - np.mean(truth) > 5 * error  # it is not the value of the logging policy
    assert np.mean(naive) - np.mean(truth) > 3 * error  # nor that of the rounds in which both agree


@pytest.mark.compiled
@pytest.mark.parametrize("settings", [{"epsilon": 0.1}, {"temperature": 0.05}, {"epsilon": 0.1, "temperature": 0.02}, {}])
def test_generic_checks(settings: dict[str, Any]) -> None:
    check_policy(lambda graph, dim: Stochastic(LinUCB(graph, dim), **settings))


@pytest.mark.compiled
@pytest.mark.parametrize("inner", [lambda g, d: LinTS(g, d, scale=0.1), lambda g, d: HordeTS(g, d, solver="cg", period=7)])
def test_generic_checks_of_policies_that_draw_or_refresh(inner: Any) -> None:
    check_policy(lambda graph, dim: Stochastic(inner(graph, dim), epsilon=0.1))


@pytest.mark.parametrize("bits", [np.random.PCG64(3), np.random.MT19937(3), np.random.SFC64(3)])
def test_files(bits: Any, tmp_path: Path) -> None:
    inner = HordeTS(GRAPH, 3, solver="cg", period=4)
    policy = trained(Stochastic(Stochastic(inner, temperature=0.2), epsilon=0.25, seed=np.random.Generator(bits)))
    policy.save(tmp_path / "p.npz")
    loaded = Stochastic.load(tmp_path / "p.npz")
    assert repr(loaded) == repr(policy) and loaded.params == policy.params
    for _ in range(20):  # over several refreshes
        one, two = (p.recommend(2, ARMS, propensity=True) for p in (policy, loaded))
        assert one == two
        for p in (policy, loaded):
            p.update(2, ARMS[one.arm], 1.0)
    assert np.array_equal(policy.theta, loaded.theta)
    with pytest.raises(ArchiveError, match="holds a Stochastic, not a LinUCB"):
        LinUCB.load(tmp_path / "p.npz")


def test_policies_of_ones_own(tmp_path: Path) -> None:
    class Mine(LinUCB):
        """Not a word about it in POLICIES."""

    policy = trained(Stochastic(Mine(GRAPH, 3), epsilon=0.1))
    policy.save(tmp_path / "p.npz")
    assert type(Stochastic.load(tmp_path / "p.npz").policy) is Mine


def test_the_policy_inside_learns_as_it_would_alone() -> None:
    alone, inside = trained(GraphUCB(GRAPH, 3)), trained(Stochastic(GraphUCB(GRAPH, 3), epsilon=0.5))
    assert np.array_equal(alone.theta, inside.theta) and np.array_equal(alone.theta, inside.policy.theta)
    assert np.array_equal(alone.scores(1, ARMS), inside.scores(1, ARMS))


def test_first_place_of_a_ranking_is_a_decision() -> None:
    policy = trained(Stochastic(LinUCB(GRAPH, 3), epsilon=0.3, temperature=0.3))
    firsts = [policy.rank(1, ARMS, 2)[0] for _ in range(CALLS)]
    assert agree(np.bincount(firsts, minlength=6) / CALLS, policy.propensities(1, ARMS))


def test_reseeding_reaches_the_refreshes() -> None:
    traces = []
    for seed in (1, 1, 2):
        policy = Stochastic(HordeTS(GRAPH, 3, solver="cg", period=1), epsilon=0.0)
        policy.reseed(seed)
        traces.append(trained(policy).policy.state.drawn.copy())
    assert np.array_equal(traces[0], traces[1]) and not np.array_equal(traces[0], traces[2])


def test_runs_that_are_kept_know_the_settings(tmp_path: Path) -> None:
    env = environments.Linear(GRAPH, signals.smooth(GRAPH, 3, gamma=3, seed=2), ARMS)

    def file(epsilon: float = 0.1, **settings: Any) -> str | None:
        policy = Stochastic(AdaptiveGraphUCB(GRAPH, 3, **settings), epsilon=epsilon)
        return file_name("p", policy, env, horizon=5, seed=0)

    assert file() == file() and file(models=["graph"]) == file(models=["graph"])
    assert len({file(), file(0.2), file(models=["graph"]), file(alphas=[1.0]), file(half_life=9.0)}) == 5
    made = {"p": lambda graph, dim: Stochastic(LinUCB(graph, dim), epsilon=0.1)}
    assert [compare(made, lambda seed: env, 5, seeds=[0], keep=tmp_path).provenance["reused"] for _ in range(2)] == [0, 1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Stochastic("linucb"), "policy must be a Policy, but it is a str"),  # type: ignore[arg-type]
        (lambda: Stochastic(LinUCB(GRAPH, 3), epsilon=-0.1), "epsilon must be a share from 0 to 1, but it is -0.1"),
        (lambda: Stochastic(LinUCB(GRAPH, 3), epsilon=1.1), "epsilon must be a share from 0 to 1, but it is 1.1"),
        (lambda: Stochastic(LinUCB(GRAPH, 3), temperature=0.0), "temperature must be a positive number"),
        (lambda: LinTS(GRAPH, 3).propensities(0, ARMS, draws=0), "draws must be an integer of at least 1"),
        (lambda: LinTS(GRAPH, 3).propensities(9, ARMS), "user"),
    ],
)
def test_errors(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_methods_of_its_own_are_not_passed_over() -> None:
    class Stubborn(LinUCB):
        """Always the first."""

        def recommend(self, user: int, arms: Any, **_: Any) -> Any:
            return 0

    with pytest.raises(ValueError, match="policy must decide by its scores, but Stubborn has its own `recommend`"):
        Stochastic(Stubborn(GRAPH, 3))


OUTSIDER = """
from typing import NamedTuple
import numpy as np
from graphbandit import Stochastic, environments, graphs, simulate
from graphbandit.compute.compiler import compiled
from graphbandit.policies.core.kernels import register
from graphbandit.policies.core.policy import Policy

class MineState(NamedTuple):
    taste: np.ndarray

@compiled
def belief(state, user):
    return np.array([1.0, 0.0]), np.zeros((2, 2)), 0.0

@compiled
def update(state, user, x, item, reward):
    pass

register(MineState, belief=belief, update=update)

class Mine(Policy):
    State = MineState
    def __init__(self, graph, dim, *, seed=0):
        super().__init__(graph, dim, locals())
        self.state = self.build_state(taste=np.zeros(1))

def run():
    graph, arms = graphs.empty(2), np.eye(2)
    env = environments.Linear(graph, np.ones((2, 2)), arms)
    policy = Stochastic(Mine(graph, 2), epsilon=0.0)
    print(policy.recommend(0, arms), simulate(policy, env, 3).arm.tolist())
"""


@pytest.mark.compiled
def test_an_outsiders_edited_kernel_inside_acts_at_the_next_start(tmp_path: Path) -> None:
    def run(source: str) -> str:
        (tmp_path / "mine.py").write_text(source)
        command = [sys.executable, "-B", "-c", "import mine; mine.run()"]
        environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
        return subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True).stdout.strip()

    assert run(OUTSIDER) == "0 [0, 0, 0]"
    assert run(OUTSIDER.replace("[1.0, 0.0]", "[0.0, 1.0]")) == "1 [1, 1, 1]"


def test_whether_users_may_come_and_go_is_up_to_the_policy_inside() -> None:
    """A service asks before it logs the change."""
    assert Stochastic(LinUCB(GRAPH, 3), epsilon=0.1).user_rows().keys() == LinUCB(GRAPH, 3).user_rows().keys()
    assert Stochastic(LinUCB(GRAPH, 3), epsilon=0.1).removable_rows()
    with pytest.raises(ValueError, match="cannot remove a user's data from the one model that all users share"):
        Stochastic(LinUCB(GRAPH, 3, shared=True), epsilon=0.1).removable_rows()
