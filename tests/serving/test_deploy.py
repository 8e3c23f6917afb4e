"""The files of `deploy/` name settings that there are, and Ray Serve runs replicas that share one log."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import httpx
import pytest

from graphbandit.serving import EventStore, ServiceSettings
from graphbandit.serving.ray_serve import serve_app
from serving_zoo import free_port, new_database, small_initial_state

yaml: Any = pytest.importorskip("yaml")
DEPLOY = Path(__file__).parents[2] / "deploy"
SETTINGS = {entry.name for entry in fields(ServiceSettings)}


@pytest.mark.parametrize("name", ["Dockerfile", "graphbandit.service", "graphbandit@.service", "kubernetes.yaml"])
def test_variables_of_the_environment_are_settings(name: str) -> None:
    named = re.findall(r"GRAPHBANDIT_([A-Z_]+)", (DEPLOY / name).read_text())
    assert named and {variable.lower() for variable in named} <= SETTINGS


def test_a_log_that_was_lost_is_noticed() -> None:
    for unit in ("graphbandit.service", "graphbandit@.service"):
        assert "serve --require-existing" in (DEPLOY / unit).read_text()
    assert 'GRAPHBANDIT_REQUIRE_EXISTING, value: "true"' in (DEPLOY / "kubernetes.yaml").read_text()
    [app] = yaml.safe_load((DEPLOY / "ray-serve.yaml").read_text())["applications"]
    assert app["args"].keys() <= SETTINGS | {"config"} and app["args"]["require_existing"]


def test_no_file_binds_to_other_machines_without_a_proxy() -> None:
    for path in DEPLOY.iterdir():
        code = [line.partition("#")[0] for line in path.read_text().splitlines()]
        assert not re.search(r"0\.0\.0\.0|allow.direct", "\n".join(code), re.IGNORECASE), path


@pytest.mark.slow
def test_replicas_on_ray_serve_share_one_log(postgres: str, tmp_path: Path) -> None:
    ray = pytest.importorskip("ray")
    serve = pytest.importorskip("ray.serve")
    schema = pytest.importorskip("ray.serve.schema")
    content: dict[str, Any] = yaml.safe_load((DEPLOY / "ray-serve.yaml").read_text())
    schema.ServeDeploySchema.model_validate(content)
    url, port = new_database(postgres), free_port()
    store = EventStore(url)
    store.open(small_initial_state())
    store.close()
    (tmp_path / "token").write_text("a-token-of-this-test\n")
    args = {"store": url, "snapshots": str(tmp_path), "token_file": str(tmp_path / "token"), "require_existing": True}
    ray.init(num_cpus=4, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    try:
        serve.start(http_options={"host": "127.0.0.1", "port": port})
        app = serve_app(args)
        serve.run(app, name="graphbandit", route_prefix="/")
        headers = {"authorization": "Bearer a-token-of-this-test"}
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=60.0) as http:
            for _ in range(20):  # either replica
                made = http.post("/v1/recommendations", json={"user": "ann"})
                body = {"decision": made.raise_for_status().json()["decision"], "value": 1.0}
                assert http.post("/v1/rewards", json=body).json() == {"accepted": 1, "duplicates": 0}
        store = EventStore(url)
        store.attach()
        written = {event.epoch for page in store.read() for event in page}
        store.close()
        assert store.last == 40 and len(written) == 2
    finally:
        serve.shutdown()
        ray.shutdown()
