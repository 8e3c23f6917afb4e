"""The simulated population of the demo."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from graphbandit.serving import Client
from graphbandit.serving.operations.demo_population import DemoPopulation
from serving_zoo import running


def test_the_population_of_the_demo_is_served_better_with_time(tmp_path: Path) -> None:
    population = DemoPopulation(seed=0)
    with running(tmp_path, population.initial_state("linucb", 0)) as server, Client(server.url) as client:
        values = [population.visit(client) for _ in range(60)]
        assert server.http.get("/v1/stats").json()["rewards"] == 60 and np.isfinite(values).all()
    chosen = population.initial_state("linucb", 0, epsilon=0.3, params={"ridge": 0.5})  # what `serve --demo` was told is heard
    assert (chosen.epsilon, chosen.params) == (0.3, {"ridge": 0.5})
