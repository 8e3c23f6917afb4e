"""A simulated population that uses the service over HTTP: `graphbandit serve --demo`."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from ... import graphs, signals
from ...compute.arrays import Floats
from ...graph import UserGraph
from ..client import Client, ServiceError
from ..domain.initial_state import InitialState

logger = logging.getLogger("graphbandit.serving")
N_USERS, N_ARMS, DIM = 300, 60, 5
NOISE = 0.1
TOPICS = ("news", "music", "sport", "film", "books", "food")


class DemoPopulation:
    """Users on a small-world graph along which their preferences θ vary smoothly.

    Each visit offers ten arms, and the chosen arm earns xᵀθ plus noise.
    """

    def __init__(self, seed: int = 0, rate: float = 40.0) -> None:
        self.rate = rate
        self._rng = np.random.default_rng(seed)
        self._graph = graphs.watts_strogatz(N_USERS, 8, 0.05, seed=seed)
        self._truth: Floats = signals.smooth(self._graph, DIM, gamma=20, seed=seed + 1)
        self._features = signals.unit_arms(N_ARMS, DIM, seed=seed + 2)
        self._users = [f"user-{row}" for row in range(N_USERS)]
        self._arms = [f"{TOPICS[a % len(TOPICS)]}-{a // len(TOPICS)}" for a in range(N_ARMS)]

    def initial_state(
        self, policy: str, seed: int, epsilon: float = 0.0, params: Mapping[str, Any] | None = None
    ) -> InitialState:
        """Return the graph and the arms; the service does not see the preferences."""
        graph = UserGraph(self._graph.adjacency, self._users)
        attributes = [{"topic": name.split("-")[0]} for name in self._arms]
        chosen: dict[str, Any] = dict(policy=policy, params=dict(params or {}), epsilon=epsilon, seed=seed)
        return InitialState(graph, self._arms, self._features, attributes, **chosen)

    def start(self, url: str, token: str | None) -> None:
        """Use the service from a thread, until the process ends."""
        threading.Thread(target=self._run, args=(url, token), name="graphbandit-population", daemon=True).start()

    def _run(self, url: str, token: str | None) -> None:
        with Client(url, token, patience=600.0) as client:
            client.wait()
            logger.info("the simulated users have started", extra={"users": N_USERS, "arms": N_ARMS})
            while True:
                pause = self._rng.exponential(1.0 / self.rate)
                time.sleep(pause)
                try:
                    self.visit(client)
                except ServiceError as error:
                    logger.warning("a visit failed", extra={"reason": str(error)})

    def visit(self, client: Client) -> float:
        """Request a recommendation for a random user, send its reward, and return the reward."""
        user = int(self._rng.integers(N_USERS))
        offer = self._rng.choice(N_ARMS, 10, replace=False).tolist()
        decision = client.recommend(self._users[user], [self._arms[arm] for arm in offer])
        chosen = self._arms.index(decision["arms"][0]["arm"])
        value = float(self._features[chosen] @ self._truth[user] + NOISE * self._rng.standard_normal())
        client.reward(decision["decision"], value)
        return value
