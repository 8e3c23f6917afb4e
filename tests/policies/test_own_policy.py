"""The two policies of docs/howto/own_policy.md work wherever a policy of the package does."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from graphbandit import Pending, Random, Recommender, compare, environments, graphs, signals, simulate
from graphbandit.checks import check_policy
from graphbandit.cli import app
from graphbandit.policies import policy_class
from graphbandit.serving import EventStore, RecommendationService, Request, Reward, ServiceSettings
from graphbandit.serving.domain import proposals
from graphbandit.serving.operations.settings import load as load_settings
from graphbandit.serving.operations.shadow_monitor import follow_shadow
from graphbandit.serving.operations.warmup import warm_up
from graphbandit.serving.server import read_initial_state
from graphbandit.tables import write_table
from made_up_streams import arm_table, edge_table, stream, write_files
from serving_zoo import fingerprint, small_initial_state

NAMES = {"plain": "friends_plain:PlainFriends", "compiled": "friends_compiled:CompiledFriends"}
PAGE = Path(__file__).parents[2] / "docs" / "howto" / "own_policy.md"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder that Python imports from, with both classes of the page, in modules `friends_plain` and `friends_compiled`."""
    text, folder = PAGE.read_text(encoding="utf-8"), tmp_path_factory.mktemp("own")
    for name, fence in (("plain", "python"), ("compiled", "text")):
        code = re.findall(rf"```{fence}\n(.*?)```", text, flags=re.S)[0]
        code = code.partition("\n\ndef world")[0].replace("class Friends(", f"class {name.title()}Friends(")
        (folder / f"friends_{name}.py").write_text(code, encoding="utf-8")
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))


@pytest.fixture
def policies(folder: Path) -> dict[str, Any]:
    """The class `Friends` of the page, in plain NumPy and compiled."""
    return {kind: policy_class(NAMES[kind]) for kind in NAMES}


def test_a_policy_in_plain_numpy_is_one_short_class() -> None:
    code = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.S)[0]
    lines = code.partition("\n\ndef world")[0].splitlines()
    assert len([line for line in lines if line.strip()]) <= 40


@pytest.mark.parametrize("kind", ["plain", "compiled"])
def test_it_passes_the_checks(policies: dict[str, Any], kind: str) -> None:
    assert check_policy(lambda graph, dim: policies[kind](graph, dim, exploration=0.2)) == {}


def test_both_choose_the_same_arms(policies: dict[str, Any]) -> None:
    graph = graphs.erdos_renyi(10, 0.4, seed=0)
    env = environments.Linear(graph, signals.smooth(graph, 4, gamma=7, seed=0), signals.unit_arms(50, 4, seed=0), pool=10)
    one, other = (simulate(policies[kind](graph, 4), env, 100, seed=0) for kind in ("plain", "compiled"))
    assert np.mean(one.arm == other.arm) > 0.9  # the last bits differ, and decide between arms that tie


@pytest.mark.parametrize("kind", ["plain", "compiled"])
def test_a_service_compiles_it_and_decides_while_rewards_are_late(policies: dict[str, Any], kind: str) -> None:
    """The belief of a policy of one's own may be a plain tuple."""
    warm_up(small_initial_state(NAMES[kind]))
    pending = Pending(policies[kind](graphs.complete(2), 2))
    assert {pending.recommend(0, np.eye(2)).arm for _ in range(2)} == {0, 1}  # the first decision shrinks its own bonus
    assert pending.policy.beta(0) == 0.1 and pending.policy.user_precision(0).tolist() == [[1.0, 0.0], [0.0, 1.0]]


@pytest.mark.parametrize("kind", ["plain", "compiled"])
def test_it_works_in_a_recommender(policies: dict[str, Any], kind: str, tmp_path: Path) -> None:
    friends = {"user": ["ann", "bob"], "friend": ["bob", "eve"]}
    items = {"item": ["tea", "cola"], "kind": ["hot", "cold"]}
    events = {"user": ["ann", "bob", "eve"], "item": ["tea", "tea", "cola"], "reward": [1, 1, 0]}
    recommender = Recommender(friends, items, policy=policies[kind]).fit(events)
    found = recommender.recommend("ann", k=2)
    recommender.reward(found, 1.0)
    recommender.save(tmp_path / "model.gb")
    loaded = Recommender.load(tmp_path / "model.gb")
    assert loaded.recommend("ann").items == recommender.recommend("ann").items == ("tea",)


def world(seed: int) -> environments.Linear:
    graph = graphs.erdos_renyi(10, 0.4, seed=seed)
    theta = signals.smooth(graph, 4, gamma=7, seed=seed)
    return environments.Linear(graph, theta, signals.unit_arms(50, 4, seed=seed), pool=10)


def test_they_can_be_compared(policies: dict[str, Any]) -> None:
    result = compare(policies | {"random": Random}, world, 100, seeds=range(2), workers=1, progress=False)
    for kind in policies:
        assert result.difference(kind, "random").mean < 0


def test_an_experiment_file_names_it(folder: Path) -> None:
    text = (
        '[experiment]\nname = "own"\nhorizon = 50\nruns = 2\n\n[environment]\nkind = "linear"\nn_users = 8\n'
        'graph = { kind = "erdos-renyi", p = 0.5 }\n'
    )
    for kind, name in NAMES.items():
        text += f'\n[[policy]]\nname = "{kind}"\npolicy = "{name}"\nexploration = 0.2\n'
    path = folder / "experiment.toml"
    path.write_text(text, encoding="utf-8")
    done = CliRunner().invoke(app, ["run", str(path), "--out", str(folder / "results")])
    assert done.exit_code == 0, done.output
    assert "plain" in done.output and "compiled" in done.output
    path.write_text(text.replace("exploration", "exploratoin"), encoding="utf-8")
    done = CliRunner().invoke(app, ["run", str(path), "--out", str(folder / "results")])
    assert done.exit_code == 2 and "exploratoin" in done.output


@pytest.mark.parametrize("kind", NAMES)
def test_a_recommender_takes_it_by_name(folder: Path, kind: str) -> None:
    friends, items = {"user": ["ann", "bob"], "friend": ["bob", "eve"]}, {"item": ["tea", "cola"], "kind": ["hot", "cold"]}
    recommender = Recommender(friends, items, policy=NAMES[kind], params={"ridge": 2.0})
    assert type(recommender.policy).__name__ == f"{kind.title()}Friends" and recommender.policy.params["ridge"] == 2.0
    with pytest.raises(ValueError, match="which friends_plain:PlainFriends does not have; there are ridge"):
        Recommender(friends, items, policy=NAMES["plain"], params={"rigde": 2.0})


@pytest.mark.parametrize("kind", NAMES)
def test_a_model_is_fitted_and_served_with_it(folder: Path, tmp_path: Path, kind: str) -> None:
    write_table(tmp_path / "arms.parquet", arm_table())
    write_table(tmp_path / "edges.csv", edge_table())
    log = write_files(tmp_path / "log", stream(200), "shuffled")
    words = [log, "--arms", tmp_path / "arms.parquet", "--graph", tmp_path / "edges.csv", "--out", tmp_path / "model"]
    done = CliRunner().invoke(app, ["fit", *map(str, words), "--policy", NAMES[kind], "--set", "ridge=2"])
    assert done.exit_code == 0, done.output
    initial = read_initial_state(ServiceSettings(model=tmp_path / "model", policy=NAMES[kind]))
    assert initial is not None and initial.policy == NAMES[kind]
    assert initial.make_policy().params["ridge"] == 2


@pytest.mark.parametrize("kind", NAMES)
def test_a_service_decides_learns_and_starts_again_with_it(folder: Path, tmp_path: Path, kind: str) -> None:
    (tmp_path / "service.toml").write_text(f'policy = "{NAMES[kind]}"\n[params]\nexploration = 0.2\n', encoding="utf-8")
    settings = load_settings({}, tmp_path / "service.toml")
    initial = small_initial_state(settings.policy, params=settings.params, epsilon=0.1)
    store = f"sqlite:///{tmp_path}/state.db"
    service = RecommendationService.open(EventStore(store), tmp_path / "snapshots", initial)
    for user in ("ann", "bob", "new"):
        if user == "new":
            service.change(proposals.put_user(service.state, user, {"ann": 1.0}))
        logged = service.recommend([Request(user, k=2)])
        service.reward([Reward(name, 1.0) for name in logged.ids])
    follow_shadow(f"{NAMES[kind]}:ridge=3", service.state, service.change)
    before = fingerprint(service.state)
    service.close()
    again = RecommendationService.open(EventStore(store), tmp_path / "snapshots", None)
    assert fingerprint(again.state) == before and again.state.specs[1].params == {"ridge": 3}
    again.close()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing", "policy must be one of random, .*linucb, .* or module:Class for one of your own, but it is 'nothing'"),
        ("nowhere:Friends", "policy 'nowhere:Friends' cannot be imported: No module named 'nowhere'"),
        ("friends_plain:Enemies", "policy 'friends_plain:Enemies' cannot be imported: module 'friends_plain' has no attribute"),
        ("friends_plain:np", "must be a class derived from graphbandit.Policy, but it is <module 'numpy'"),
    ],
)
def test_a_name_that_is_no_policy(folder: Path, name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        policy_class(name)
