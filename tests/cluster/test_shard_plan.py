from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from graphbandit.cli import app
from graphbandit.cluster.shard_plan import ShardPlan, divide, plan_folder
from graphbandit.cluster.sharded_server import begin_shards
from graphbandit.serving import InitialState, ServiceSettings
from serving_zoo import USERS, small_initial_state

pytestmark = pytest.mark.filterwarnings("ignore:Passing xadj:DeprecationWarning")


def test_a_plan_is_the_same_after_a_file(tmp_path: Path) -> None:
    plan, parts = divide(small_initial_state(), 2)
    assert ShardPlan.read(tmp_path / "service") is None
    plan.write(tmp_path / "service")
    again = ShardPlan.read(tmp_path / "service")
    assert again is not None and again.as_table() == plan.as_table() and again.partition["cut_share"] <= 0.5
    for number, part in enumerate(parts):
        own = [user for user in USERS if plan.router.shard_of(user) == number]
        assert own and set(own) <= set(part.users)
    assert [name.name for name in (tmp_path / "service").iterdir()] == ["cluster.json"]


def test_a_plan_that_there_is_already_is_kept() -> None:
    plan, _ = divide(small_initial_state(), 2)
    same, parts = divide(small_initial_state(), 2, plan)
    assert same is plan and len(parts) == 2


def test_a_service_may_begin_without_users() -> None:
    whole = small_initial_state()
    nobody = InitialState(None, whole.arms, whole.features, whole.attributes, policy="linucb")
    plan, parts = divide(nobody, 3)
    assert plan.n_shards == len(parts) == 3 and plan.partition["method"] == "by name"


def test_the_folder_of_a_plan(tmp_path: Path) -> None:
    assert plan_folder(ServiceSettings(store=f"sqlite:///{tmp_path}/service")) == tmp_path / "service"
    assert plan_folder(ServiceSettings(store="postgresql://me@db/x", snapshots=tmp_path)) == tmp_path
    (tmp_path / "state.db").touch()
    with pytest.raises(ValueError, match="store must be a folder"):
        plan_folder(ServiceSettings(store=f"sqlite:///{tmp_path}/state.db"))
    (tmp_path / "cluster.json").write_text(json.dumps({"format": 1, "policy": "linucb"}))  # of a policy, not of a service
    with pytest.raises(ValueError, match="must be the plan of a service"):
        ShardPlan.read(tmp_path)
    (tmp_path / "cluster.json").write_text(json.dumps({"format": 99}))
    with pytest.raises(ValueError, match=r"cluster\.json has format 99, but this version of graphbandit reads only format 1"):
        ShardPlan.read(tmp_path)


def test_what_a_service_of_shards_does_not_offer_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    for name, value in (("shadow", "linucb"), ("standby", True), ("model", tmp_path), ("history", tmp_path)):
        settings = ServiceSettings(store=f"sqlite:///{tmp_path}/service", create=True, **{name: value})  # type: ignore[arg-type]
        with pytest.raises(ValueError, match=f"{name} is not offered"):
            begin_shards(settings, 2)
    assert not (tmp_path / "service").exists()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--shards", "2"], "shards and address are for --engine ray"),
        (["--engine", "spark"], "engine must be"),
        (["--engine", "ray", "--demo"], "demo runs in one process"),
    ],
)
def test_options_that_do_not_fit_are_refused_with_a_sentence(options: list[str], sentence: str) -> None:
    done = CliRunner().invoke(app, ["serve", *options])
    assert done.exit_code == 2 and sentence in " ".join(done.output.split())
