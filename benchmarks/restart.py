"""Seconds to start the service with a million events in its log: from a snapshot, and from zero.

python benchmarks/restart.py
python benchmarks/restart.py --events 100000 --users 10000
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from graphbandit import graphs
from graphbandit.serving import EventStore, InitialState, RecommendationService, replay_from_zero
from graphbandit.serving.domain.events import DecisionRecord, Draft, EventKind, RewardRecord, encode, reward_key
from graphbandit.serving.domain.service_state import digest

DIM, N_ARMS, DEGREE = 10, 1000, 10


def initial_state(n_users: int, policy: str, seed: int = 0) -> InitialState:
    rng = np.random.default_rng(seed)
    ends = rng.integers(n_users, size=(n_users * DEGREE // 2, 2))
    ends = np.unique(np.sort(ends[ends[:, 0] != ends[:, 1]], axis=1), axis=0)
    graph = graphs.from_edges(ends, n_users=n_users)
    features = rng.standard_normal((N_ARMS, DIM))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    return InitialState(graph, [f"a{a}" for a in range(N_ARMS)], features, [{}] * N_ARMS, policy=policy)


def fill(service: RecommendationService, events: int, rest: int, seed: int = 1) -> None:
    """Log pairs of a decision and its reward; write a snapshot when `rest` events are left."""
    rng = np.random.default_rng(seed)
    n_users = len(service.state.names)
    for first in range(1, events, 2000):
        drafts = []
        for seq in range(first, min(first + 2000, events), 2):
            user, offer = int(rng.integers(n_users)), rng.integers(N_ARMS, size=20).tolist()
            value = float(rng.standard_normal())
            decision = DecisionRecord(user, offer, offer[:1], [0.1], [0.2], 1.0, 0.1)
            reward = RewardRecord(seq, 0, 0, value, user, offer[0])
            drafts.append(Draft(EventKind.DECIDED, seq, encode([decision]), None, user))
            drafts.append(Draft(EventKind.REWARDED, seq, encode(reward), reward_key(seq, 0, 0), user))
        service.apply(service.store.append(drafts).new)
        if service.snapshot_seq == 0 and service.state.seq >= events - rest:
            service.snapshot()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--users", type=int, default=100_000)
    parser.add_argument("--policy", default="adaptive")
    parser.add_argument("--rest", type=int, default=100_000, help="events after the snapshot")
    parser.add_argument("--zero", action="store_true", help="also replay from zero, and compare")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, url = Path(name), f"sqlite:///{name}/state.db"
        initial = initial_state(options.users, options.policy)
        service = RecommendationService.open(EventStore(url), folder / "snapshots", initial)
        start = time.perf_counter()
        fill(service, options.events, options.rest)
        print(f"| {service.store.last:,} events, {options.users:,} users, `{options.policy}` | seconds |\n|---|---:|")
        print(f"| to write them | {time.perf_counter() - start:.0f} |")
        expected = digest(*service.state.pack())
        service.store.close()
        for title in (f"snapshot and {options.rest:,} events after it", "snapshot of the end"):
            start = time.perf_counter()
            service = RecommendationService.open(EventStore(url), folder / "snapshots")
            print(f"| start from a {title} (to be under 10 s) | {time.perf_counter() - start:.1f} |", flush=True)
            assert digest(*service.state.pack()) == expected
            service.close()
        if options.zero:
            store = EventStore(url)
            store.open()
            start = time.perf_counter()
            state = replay_from_zero(store)
            print(f"| replay from zero | {time.perf_counter() - start:.0f} |")
            assert digest(*state.pack()) == expected
            store.close()


if __name__ == "__main__":
    from measurements import recorded  # type: ignore[import-not-found]

    recorded(main)
