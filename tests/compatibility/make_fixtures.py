"""How the files in data/v0.1.0 were made: by graphbandit 0.1.0, as of commit 9f3eeac, and by no other version.

Kept for the record. It uses modules of that version which later versions move and rename, so it runs against that version only:

    PYTHONPATH=<checkout of 9f3eeac>/src python make_fixtures.py

Every file is written by the code that a user of 0.1.0 would have called, and what that code then answered is written beside it
as `expected.json`. Floats are recorded in hexadecimal, which loses no bit. Two runs differ only in the random name of a store,
in the times that runs took, and in dates.
"""
# mypy: ignore-errors

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

DATA = Path(__file__).with_name("data") / "v0.1.0"
DIM = 4
EDGES = [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (4, 5)]
WEIGHTS = [1.0, 2.0, 1.0, 0.5, 1.0, 3.0]
NAMES = ("ann", "bob", "eve", "joe", "zoë", "李", "a/b")
CLUSTERS = [0, 0, 1, 1, 1, 2, 2]
FEW: dict[str, Any] = dict(alphas=[0.1, 1.0], slack=[0.1])  # these keep files small: the whole grid takes 100 kB
ONE: dict[str, Any] = dict(alphas=[0.3], slack=[0.1])
SETTINGS: dict[str, dict[str, Any]] = {
    "goblin-block": {"clusters": CLUSTERS},
    "goblin-macro": {"clusters": CLUSTERS},
    "adaptive": ONE,
    "graph-learner": {"settings": ONE, "k": 2, "period": 20},
    "dccb": {"max_lag": 3},
    "dcb": {"max_lag": 3},
    "spectral-ucb": {"rank": 4},
    "spectral-ts": {"rank": 4},
    "cofiba": {"item_clusters": 3},
}
# file: (policy, settings, ids)
VARIANTS: dict[str, tuple[str, dict[str, Any], Any]] = {
    "linucb-shared": ("linucb", {"shared": True, "radius": "log", "exploration": 0.3}, None),
    "linucb-string-ids": ("linucb", {}, NAMES),
    "linucb-integer-ids": ("linucb", {}, (10, 20, 30, 40, 50, 60, 70)),
    "lints-shared": ("lints", {"shared": True, "scale": 0.2}, None),
    "oful-shared": ("oful", {"shared": True}, None),
    "graphucb-dense": ("graphucb", {"solver": "dense"}, None),
    "graphucb-push": ("graphucb", {"solver": "push", "tolerance": 1e-4}, NAMES),
    "graphucb-local-gauss-seidel": ("graphucb-local", {"rule": "gauss-seidel"}, NAMES),
    "adaptive-dense": ("adaptive", {"solver": "dense", **FEW}, None),
    "adaptive-local": ("adaptive", {"solver": "local"}, None),
    "adaptive-thompson-dense": ("adaptive", {"solver": "dense", "thompson": True, **ONE}, None),
    "adaptive-thompson-local": ("adaptive", {"solver": "local", "thompson": True, **FEW}, None),
    "adaptive-half-life-dense": ("adaptive", {"solver": "dense", "half_life": 10.0, **ONE}, None),
    "adaptive-half-life-local": ("adaptive", {"solver": "local", "half_life": 10.0, **FEW}, NAMES),
    "adaptive-best-of-two-kinds": ("adaptive", {"models": ["alone", "graph"], "choice": "best", "sigma": 0.05, **ONE}, None),
    "graph-learner-without-given": ("graph-learner", {"policy": "linucb", "given": False, "k": 3, "period": 10}, None),
    "graph-learner-string-ids": (
        "graph-learner",
        {"settings": {"solver": "local", **FEW}, "k": 2, "period": 20},
        NAMES,
    ),
    "goblin-released": ("goblin", {"preset": "released"}, NAMES),
    "club-released": ("club", {"preset": "released", "start": "graph"}, NAMES),
    "horde-ts-cg": ("horde-ts", {"solver": "cg", "period": 7}, None),
    "horde-eg-cg": ("horde-eg", {"solver": "cg", "period": 7}, NAMES),
    "spectral-ucb-shared": ("spectral-ucb", {"shared": True, "rank": 6, "neighbours": 5}, None),
}
# file: (policy, settings); users and edges have come and gone before it was saved
LIVED: dict[str, tuple[str, dict[str, Any]]] = {
    "linucb-lived": ("linucb", {}),
    "graphucb-dense-lived": ("graphucb", {"solver": "dense"}),
    "graphucb-push-lived": ("graphucb", {"solver": "push"}),
    "graphucb-local-lived": ("graphucb-local", {}),
    "adaptive-dense-lived": ("adaptive", {"solver": "dense", **ONE}),
    "adaptive-local-lived": ("adaptive", {"solver": "local", **FEW}),
    "horde-ts-cg-lived": ("horde-ts", {"solver": "cg", "period": 7}),
    "graph-learner-lived": ("graph-learner", {"policy": "graphucb", "k": 2, "period": 15}),
}


def main() -> None:
    import graphbandit

    assert graphbandit.__version__ == "0.1.0", "these files are those of 0.1.0"
    shutil.rmtree(DATA, ignore_errors=True)
    DATA.mkdir(parents=True)
    world = make_world()
    save_policies(world)
    save_desks(world)
    save_runs(world)
    save_experiment()
    save_dataset()
    save_services()


def hexes(values: Any) -> Any:
    """Nested lists of floats, in hexadecimal."""
    return [hexes(value) for value in values] if np.ndim(values) else float(values).hex()


def write_lines(path: Path, table: dict[str, Any]) -> None:
    """JSON with one line for each entry."""
    rows = [f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in table.items()]
    path.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")


# Policies.


def make_world() -> SimpleNamespace:
    """The little world of test_golden.py."""
    from graphbandit import environments, graphs, signals

    graph = graphs.from_edges(EDGES, n_users=7, weights=WEIGHTS)
    theta = signals.smooth(graph, DIM, gamma=5.0, seed=1)
    arms = signals.unit_arms(30, DIM, seed=2)
    env = environments.Linear(graph, theta, arms, sigma=0.05, pool=8)
    return SimpleNamespace(graph=graph, theta=theta, arms=arms, env=env)


def save_policies(world: SimpleNamespace) -> None:
    from graphbandit import POLICIES, HordeTS, LinTS, LinUCB, Stochastic, graphs, simulate

    folder = DATA / "policies"
    folder.mkdir()
    table = dict(edges=EDGES, weights=WEIGHTS, n_users=7, sigma=0.05, pool=8)
    write_lines(folder / "world.json", table | dict(theta=world.theta.tolist(), arms=world.arms.tolist()))
    made: dict[str, tuple[str, Any]] = {}
    catalogues = ("spectral-ucb", "spectral-ts", "cofiba")

    def make(name: str, settings: dict[str, Any], ids: Any = None) -> Any:
        graph = (
            world.graph if ids is None else graphs.from_edges([(ids[i], ids[j]) for i, j in EDGES], weights=WEIGHTS, ids=ids)
        )
        return POLICIES[name](graph, DIM, **settings, **({"items": world.arms} if name in catalogues else {}))

    for name in POLICIES:
        made[name] = name, make(name, SETTINGS.get(name, {}))
    for file, (name, settings, ids) in VARIANTS.items():
        made[file] = name, make(name, settings, ids)
    for bits in ("MT19937", "Philox", "SFC64", "PCG64DXSM"):
        seed = np.random.Generator(getattr(np.random, bits)(3))
        made[f"lints-{bits.lower()}"] = "lints", LinTS(world.graph, DIM, scale=0.1, seed=seed)
    made["stochastic-epsilon"] = "stochastic", Stochastic(LinUCB(world.graph, DIM), epsilon=0.2)
    made["stochastic-temperature"] = "stochastic", Stochastic(make("linucb", {}, NAMES), temperature=0.1, seed=5)
    made["stochastic-over-lints"] = "stochastic", Stochastic(LinTS(world.graph, DIM, scale=0.1), epsilon=0.1)
    made["stochastic-over-adaptive"] = "stochastic", Stochastic(make("adaptive", {"solver": "local", **FEW}), epsilon=0.1)
    twice = Stochastic(HordeTS(world.graph, DIM, solver="cg", period=4), temperature=0.2)
    made["stochastic-twice-over-horde"] = "stochastic", Stochastic(twice, epsilon=0.25, seed=6)
    for _, policy in made.values():
        simulate(policy, world.env, 60, seed=3)
    for file, (name, settings) in LIVED.items():
        made[file] = name, lived(POLICIES[name](graphs.from_edges(EDGES, n_users=6, weights=WEIGHTS), DIM, **settings), world)
    expected = {}
    for file, (name, policy) in made.items():
        policy.save(folder / f"{file}.npz")
        expected[file] = {"policy": name, **observed(partial(type(policy).load, folder / f"{file}.npz"), world)}
        print(file, (folder / f"{file}.npz").stat().st_size, flush=True)
    write_lines(folder / "expected.json", expected)


def lived(policy: Any, world: SimpleNamespace) -> Any:
    """Six users become seven, edges change, one user is forgotten."""
    rng = np.random.default_rng(4)

    def learn(rounds: int) -> None:
        for _ in range(rounds):
            user, x = int(rng.integers(policy.n_users)), world.arms[rng.integers(30)]
            policy.update(user, x, float(x @ world.theta[user] + 0.05 * rng.standard_normal()))

    learn(20)
    policy.add_user({0: 1.0, 4: 0.5})
    learn(20)
    policy.add_edge(3, 5, 0.7)
    policy.set_weight(0, 1, 2.5)
    policy.remove_edge(4, 5)
    learn(10)
    policy.remove_user(2)
    learn(10)
    return policy


def observed(load: Any, world: SimpleNamespace) -> dict[str, Any]:
    """What the policy in a file thinks, and what it goes on to do."""
    from graphbandit import simulate

    policy = load()
    found: dict[str, Any] = opinions(policy, world)
    found["params"] = {name: np.asarray(value).tolist() for name, value in policy.params.items()}
    found["ids"] = None if policy.graph.ids is None else list(policy.graph.ids)
    found["edges"] = edges(policy.graph)
    found["arms"] = simulate(policy, world.env, 40, seed=9).arm.tolist()
    found["after"] = hexes(policy.theta)
    try:
        found["changed"] = hexes(changed(load(), world).theta)
    except ValueError as error:  # not every policy can take in users
        found["changed"], found["refusal"] = None, str(error)
    return found


def edges(graph: Any) -> list[list[float]]:
    """Both users of every edge, and its weight."""
    matrix = graph.adjacency.toarray()
    return [[i, j, matrix[i, j]] for i in range(len(matrix)) for j in range(i) if matrix[i, j]]


def opinions(policy: Any, world: SimpleNamespace) -> dict[str, Any]:
    scores = [policy.scores(user, world.arms[:1]) for user in range(policy.n_users)]
    return {"theta": hexes(policy.theta), "mean": hexes([s.mean for s in scores]), "bonus": hexes([s.bonus for s in scores])}


def changed(policy: Any, world: SimpleNamespace) -> Any:
    """A user comes, an edge comes, changes and goes, and a few rewards are learned in between."""
    ids = policy.graph.ids
    new = policy.add_user({0: 1.0, 3: 0.5}, id=None if ids is None else "new" if isinstance(ids[0], str) else 99)
    policy.update(new, world.arms[0], 0.5)
    policy.add_edge(1, 4, 0.3)
    policy.update(4, world.arms[1], -0.5)
    policy.set_weight(1, 4, 3.0)
    policy.update(1, world.arms[2], 1.0)
    policy.remove_edge(1, 4)
    policy.update(0, world.arms[3], 0.25)
    return policy


# Desks of pending decisions.


def save_desks(world: SimpleNamespace) -> None:
    from graphbandit import AdaptiveGraphUCB, LinTS, LinUCB, Pending, Stochastic

    folder = DATA / "pending"
    folder.mkdir()
    graph, arms = world.graph, world.arms[:6]
    made = {
        "linucb": Pending(LinUCB(graph, DIM, norm=1.0), max_age=30),
        # What it draws given unanswered decisions depends on the signs of eigenvectors, which no two processors share.
        "lints": Pending(LinTS(graph, DIM, scale=0.2), condition=False),
        "adaptive": Pending(AdaptiveGraphUCB(graph, DIM, solver="local", **FEW), max_age=25),
        "stochastic": Pending(Stochastic(LinUCB(graph, DIM), epsilon=0.2)),
    }
    expected = {}
    for name, desk in made.items():
        for t in range(40):
            decision = desk.recommend(t % 7, arms, id=f"d{t}" if t % 2 else None)
            if t % 3 == 0:
                desk.reward(decision.id, float(arms[decision.arm] @ world.theta[t % 7]))
        desk.expire("d37")
        desk.save(folder / f"{name}.npz")
        desk = Pending.load(folder / f"{name}.npz")
        found: dict[str, Any] = dict(ids=desk.ids, condition=desk.condition, max_age=desk.max_age)
        found |= dict(theta=hexes(desk.policy.theta), shown=[hexes(desk.shown(user)) for user in range(7)])
        found["late"] = [desk.reward("d39", 1.0), desk.reward("d37", 1.0)]
        found["decisions"] = []
        for t in range(40):
            decision = desk.recommend(t % 7, arms, propensity=True)
            found["decisions"].append([decision.id, decision.arm, decision.propensity.hex()])
            desk.reward(decision.id if t % 4 else desk.ids[0], 0.1 * (t % 5))
        found["after"] = hexes(desk.policy.theta)
        expected[name] = found
    write_lines(folder / "expected.json", expected)


# Kept runs, results, an experiment, a data set.


def save_runs(world: SimpleNamespace) -> None:
    from graphbandit import CLUB, AdaptiveGraphUCB, GraphUCB, LinUCB, compare

    policies = {"GraphUCB": GraphUCB, "LinUCB": LinUCB, "CLUB": CLUB, "adaptive": partial(AdaptiveGraphUCB, **FEW)}
    result = compare(policies, lambda seed: world.env, 50, seeds=[0, 1], keep=DATA / "runs")
    (DATA / "result").mkdir()
    result.save(DATA / "result" / "comparison.npz")
    table = dict(names=result.names, seeds=list(result.seeds), rounds=result.rounds.tolist(), provenance=result.provenance)
    table |= dict(regret={name: hexes(result.regret[name]) for name in result.names})
    table |= dict(seconds={name: hexes(result.seconds[name]) for name in result.names})
    table |= dict(final={name: hexes(result.final(name)) for name in result.names})
    write_lines(DATA / "result" / "expected.json", table)


EXPERIMENT = """\
[experiment]
name = "tiny"
horizon = 20
runs = 2

[environment]
kind = "linear"
graph = { kind = "erdos-renyi", p = 0.5 }
n_users = 6
dim = 3
n_arms = 20
pool = 5

[[policy]]
name = "GraphUCB"
policy = "graphucb"
alpha = 0.5

[[policy]]
name = "no graph"
policy = "graphucb"
graph = "empty"

[grid]
"environment.gamma" = [0, 5]
"""


def save_experiment() -> None:
    """The folder of `graphbandit run`. Its `results` are kept as `curves`, since git ignores folders called results here."""
    from graphbandit import Result

    folder = DATA / "experiment"
    folder.mkdir()
    (folder / "experiment.toml").write_text(EXPERIMENT)
    command(["run", str(folder / "experiment.toml"), "--out", str(folder), "--quiet"])
    (folder / "tiny" / "results").rename(folder / "tiny" / "curves")
    curves = {path.name: Result.load(path) for path in sorted((folder / "tiny" / "curves").iterdir())}
    expected = {name: {label: hexes(rows) for label, rows in result.regret.items()} for name, result in curves.items()}
    write_lines(folder / "expected.json", expected)


LASTFM = {
    "user_artists.dat": "userID\tartistID\tweight\r\n2\t51\t13883\r\n2\t52\t11690\r\n3\t52\t7\r\n9\t53\t21\r\n",
    "user_friends.dat": "userID\tfriendID\n2\t3\n3\t2\n3\t9\n9\t3\n",
    "user_taggedartists.dat": "userID\tartistID\ttagID\tday\tmonth\tyear\n"
    "2\t52\t13\t1\t4\t2009\n3\t52\t13\t1\t4\t2009\n2\t51\t15\t1\t4\t2009\n9\t53\t15\t1\t4\t2009\n",
}
WRITTEN = 1_767_225_600 * 10**9  # when its files were, in nanoseconds: the parsed copy knows them by name, size and time


def save_dataset() -> None:
    """A made-up data set in the layout of Last.fm, and the parsed copy that `datasets.load` leaves in the cache."""
    from graphbandit import datasets

    folder = DATA / "dataset"
    source = folder / "hetrec2011-lastfm-2k"
    source.mkdir(parents=True)
    for name, text in LASTFM.items():
        (source / name).write_bytes(text.encode())
        os.utime(source / name, ns=(WRITTEN, WRITTEN))
    with tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache
        ratings = datasets.load("lastfm", folder)
        (copy,) = Path(cache).rglob("*.npz")
        shutil.copy(copy, folder / "parsed.npz")
    table = {name: getattr(ratings, name).tolist() for name in ("user", "item", "value", "user_ids", "item_ids")}
    table |= dict(graph=ratings.graph.adjacency.toarray().tolist(), tags=ratings.item_tags.toarray().tolist())
    write_lines(folder / "expected.json", table | dict(written=WRITTEN))


# The service.

USERS = ("ann", "bob", "eve", "joe", "zoë", "kim")
ARMS = ("tea", "coffee", "a/b", "50%", "ünï", "milk")
STORES: dict[str, dict[str, Any]] = {  # what `graphbandit serve` is told, and the events after which there is a snapshot
    "adaptive": dict(policy="adaptive", params=FEW | {"solver": "local"}, at=(150, 230), until=330),
    "dense": dict(policy="adaptive", params=ONE, at=(60,), until=120),
    "stochastic": dict(policy="linucb", params={"sigma": 0.1}, epsilon=0.3, seed=7, at=(200, 300), until=450),
}


def save_services() -> None:
    folder = DATA / "service-sqlite"
    folder.mkdir()
    for name, told in STORES.items():
        place = folder / name
        place.mkdir()
        save_service(place, **told)
        write_lines(place / "expected.json", states(place))
        rows = [json.dumps(answer, ensure_ascii=False) for answer in answers(place)]
        (place / "answers.json").write_text("[\n" + ",\n".join(rows) + "\n]\n", encoding="utf-8")
    save_first_tables(folder / "dense", folder / "first-tables")
    save_export(folder / "stochastic", DATA / "export")


def beginning(policy: str, params: dict[str, Any], epsilon: float, seed: int) -> Any:
    from graphbandit.serving.beginning import Beginning

    from graphbandit import graphs

    graph = graphs.from_edges([*pairwise(USERS), ("ann", "eve")], weights=[1.0, 2.0, 1.0, 0.5, 1.0, 1.5], ids=USERS)
    features = np.random.default_rng(0).standard_normal((len(ARMS), 3))
    topics = [{"topic": "hot" if a < 3 else "odd", "size": str(a % 2)} for a in range(len(ARMS))]
    return Beginning(graph, ARMS, features, topics, policy=policy, params=params, epsilon=epsilon, seed=seed)


def save_service(
    folder: Path, policy: str, params: dict[str, Any], at: tuple[int, ...], until: int, epsilon: float = 0.0, seed: int = 0
) -> None:
    """A log with every kind of event. Snapshots are those of the service; the last events come after the last of them."""
    from graphbandit.serving.service import Service

    from graphbandit.serving import service as module
    from graphbandit.serving.store import Store

    clock = iter(range(1_767_225_600_000_000, 2**62, 1_500_000))
    module.now = lambda: next(clock)
    service = Service.open(Store(url(folder)), folder / "state.db.snapshots", beginning(policy, params, epsilon, seed))
    story = Story(service, seed)
    while service.recommender.seq < until:
        story.go_on()
        if service.recommender.seq in at:
            service.snapshot()
    assert service.recommender.seq == until and not service.recommender.refused
    kinds = {event.kind for page in service.store.read() for event in page}
    assert kinds == set(module.Kind) - ({module.Kind.USER_DELETED} if epsilon else set())
    service.store.close()  # as if the process had been killed: no snapshot of the end
    (folder / "state.db.lock").unlink()
    assert {path.name for path in folder.iterdir()} == {"state.db", "state.db.snapshots"}
    assert len(list((folder / "state.db.snapshots").iterdir())) == len(at)


class Story:
    """One event after another, of all kinds."""

    def __init__(self, service: Any, seed: int) -> None:
        self.service, self.rng = service, np.random.default_rng([seed, 11])
        self.open: list[tuple[str, Any]] = []  # decisions that wait for a reward
        self.tastes: dict[str, Any] = {}
        self.new = 0
        self.has_epsilon = bool(service.store.beginning().epsilon)

    def go_on(self) -> None:
        """Write one more event."""
        service, rng, number = self.service, self.rng, self.service.recommender.seq
        users, arms = list(service.recommender.rows), list(service.recommender.arms)
        user, other = (users[k] for k in rng.choice(len(users), 2, replace=False))
        arm = arms[rng.integers(len(arms))]
        if number % 10 == 5:
            which = number // 10 % 10
            # With a share of uniform decisions the service of 0.1.0 takes in no users and forgets none.
            self.change(7 if which in (0, 8, 9) and self.has_epsilon else which, user, other, arm)
        elif number % 2 and self.open:
            name, decision = self.open.pop(int(rng.integers(len(self.open))))
            place = int(rng.integers(len(decision.arms)))
            self.commit(service.reward(self.outcome(name, decision, place), decision))
        elif number % 30 == 4:
            self.decide([self.wish(name) for name in users[:3]])
        else:
            self.decide([self.wish(user)], key=f"key-{number}" if number % 3 == 0 else None)

    def change(self, which: int, user: str, other: str, arm: str) -> None:
        service, rng = self.service, self.rng
        self.new += 1
        joined = [(a, b) for a in service.recommender.rows for b in service.recommender.rows if a < b and self.weight(a, b)]
        apart = [(a, b) for a in service.recommender.rows for b in service.recommender.rows if a < b and not self.weight(a, b)]
        features = rng.standard_normal(3).round(3).tolist()
        drafts = {
            0: lambda: service.put_user(f"new {self.new}", {user: 1.0, other: 0.25}),
            1: lambda: service.put_arm(f"arm {self.new}", features, {"topic": "new"}),
            2: lambda: service.put_edge(*apart[0], 0.75),
            3: lambda: service.put_arm(arm, features, {"topic": "hot", "changed": "yes"}),
            4: lambda: service.put_edge(*joined[0], 2.25),
            5: lambda: service.delete_edge(*joined[-1]),
            6: lambda: service.delete_arm(arm),
            7: lambda: service.put_user(user, {other: 1.25}),
            8: lambda: service.delete_user(user),
            9: lambda: service.put_user(f"alone {self.new}", {}),
        }
        self.commit(drafts[which]())

    def weight(self, a: str, b: str) -> float:
        rows = self.service.recommender.rows
        return self.service.recommender.weight(rows[a], rows[b])

    def wish(self, user: str) -> Any:
        from graphbandit.serving.recommender import Wish

        arms = list(self.service.recommender.arms)
        form = int(self.rng.integers(4))
        if form == 0:
            return Wish(user, candidates=arms[:4], k=2)
        return Wish(user, where={"topic": ["hot", "odd"]}) if form == 1 else Wish(user, k=int(self.rng.integers(1, 4)))

    def decide(self, wishes: list[Any], key: str | None = None) -> None:
        made, draft = self.service.decide(wishes, key)
        event = self.commit(draft)
        self.open += [(f"{event.seq}.{item}", decision) for item, decision in enumerate(made)]

    def outcome(self, name: str, decision: Any, place: int) -> Any:
        from graphbandit.serving.service import Outcome

        state = self.service.recommender
        user, version = state.names[decision.user], decision.arms[place]
        taste = self.tastes.setdefault(user, np.array([1.0, -0.5, 0.25]) + 0.3 * self.rng.standard_normal(3))
        value = float(round(taste @ state.features[version] + 0.1 * self.rng.standard_normal(), 4))
        return Outcome(name, value, state.versions[version])

    def commit(self, draft: Any) -> Any:
        (event,) = self.service.commit([draft])
        return event


def url(folder: Path) -> str:
    return f"sqlite:///{folder}/state.db"


def states(folder: Path) -> dict[str, Any]:
    """What is found in a store when it is opened: from the last snapshot, and by a replay of the whole log."""
    from graphbandit.serving.recommender import Wish
    from graphbandit.serving.service import Service, replayed_from_zero

    from graphbandit.serving.store import Store

    with tempfile.TemporaryDirectory() as name:
        place = Path(shutil.copytree(folder, Path(name) / "copy"))
        service = Service.open(Store(url(place)), place / "state.db.snapshots")
        state, zero = service.recommender, replayed_from_zero(service.store)
        assert hexes(zero.policy.theta) == hexes(state.policy.theta) and zero.arms == state.arms and zero.rows == state.rows
        users = sorted(state.rows)
        found = dict(events=state.seq, snapshot=service.saved, decisions=state.decisions, rewards=state.rewards)
        found |= dict(rows=state.rows, names=state.names, gone=sorted(state.gone), arms=state.arms, versions=state.versions)
        found |= dict(attributes=[dict(entry) for entry in state.attributes], features=hexes(state.features))
        found |= dict(theta=hexes(state.policy.theta), edges=edges(state.policy.graph))
        found |= dict(latest=state.latest.tolist())
        found["scores"] = {
            user: [[arm, mean.hex(), bonus.hex()] for arm, mean, bonus in state.ranked(state.rows[user])] for user in users
        }
        wishes = [Wish(users[0], k=3), Wish(users[1], k=2), Wish(users[2], candidates=list(state.arms)[:3])]
        found["wishes"] = [wish._asdict() for wish in wishes]
        found["decided"] = [
            [d.user, d.candidates, d.arms, hexes(d.mean), hexes(d.bonus), d.propensity.hex(), d.best.hex()]
            for d in service.decide(wishes)[0]
        ]
        service.store.close()
    return found


def answers(folder: Path) -> list[dict[str, Any]]:
    """What `graphbandit serve` answers over HTTP when it is started on a copy of the store."""
    import httpx

    expected = json.loads((folder / "expected.json").read_text())
    users, arms = sorted(expected["rows"]), sorted(expected["arms"])
    asked: list[tuple[str, str, Any]] = [("GET", f"/v1/users/{quoted(user)}", None) for user in users[:3]]
    asked += [("GET", f"/v1/users/{quoted(user)}/explanation", None) for user in users[-4:]]
    asked += [("GET", f"/v1/users/{quoted(user)}/history?limit=5", None) for user in users[:3]]
    asked += [("GET", f"/v1/arms/{quoted(arm)}", None) for arm in arms]
    log = [json.loads(row) for row in log_rows(folder)]
    retry = next(row for row in log if row["key"] == "kkey-6")
    rewarded = next(row for row in log if row["kind"] == 2)
    known = {tuple(json.loads(row["body"])[:2]) for row in log if row["kind"] == 2}
    waiting = [row for row in log if row["kind"] == 1 and row["who"] is not None and (row["seq"], 0) not in known]
    late = next(row for row in waiting if row["who"] not in expected["gone"])
    first = json.loads(rewarded["body"])
    user = expected["names"][json.loads(retry["body"])[0][0]]
    asked += [("POST", "/v1/recommendations", {"user": users[0], "k": 3})]
    asked += [("POST", "/v1/recommendations", {"user": user, "idempotency_key": "key-6"})]  # the decision of long ago
    batch = {"requests": [{"user": name, "where": {"topic": ["hot", "new"]}, "k": 2} for name in users[:3]]}
    asked += [("POST", "/v1/recommendations/batch", batch)]
    asked += [("POST", "/v1/rewards", {"decision": f"{first[0]}.{first[1]}", "value": 9.0, "arm": arm_of(expected, first)})]
    asked += [("POST", "/v1/rewards", {"decision": f"{late['seq']}.0", "value": 0.5})]
    asked += [("GET", f"/v1/users/{quoted(users[0])}/explanation", None)]
    with tempfile.TemporaryDirectory() as name:
        place = Path(shutil.copytree(folder, Path(name) / "copy"))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        words = [sys.executable, "-m", "graphbandit.cli", "serve", "--store", url(place), "--port", str(port)]
        process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60.0) as http:
            for _ in range(1200):
                try:
                    if http.get("/ready").status_code == 200:
                        break
                except httpx.TransportError:
                    pass
                time.sleep(0.1)
            found = []
            for method, path, body in asked:
                answer = http.request(method, path, json=body)
                assert answer.status_code == 200, (path, answer.text)
                found.append({"method": method, "path": path, "body": body, "answer": answer.json()})
        process.send_signal(signal.SIGTERM)
        process.communicate()
        assert process.returncode == 0
    return found


def arm_of(expected: dict[str, Any], reward: list[Any]) -> str:
    return expected["versions"][reward[5]]


def quoted(name: str) -> str:
    from urllib.parse import quote

    return quote(name, safe="")


def log_rows(folder: Path) -> list[str]:
    """The log as JSON lines, read without graphbandit."""
    import sqlite3

    connection = sqlite3.connect(f"file:{folder}/state.db?mode=ro&immutable=1", uri=True)
    names = ("seq", "kind", "at", "body", "key", "who", "previous")
    rows = connection.execute(f"SELECT {', '.join(names)} FROM graphbandit_events ORDER BY seq").fetchall()
    connection.close()
    return [json.dumps(dict(zip(names, row, strict=True))) for row in rows]


def save_first_tables(newer: Path, folder: Path) -> None:
    """The log of another store in version 1 of the tables, before events were linked. The snapshots of that store fit."""
    import sqlite3

    from graphbandit.serving import store as module
    from graphbandit.serving import tables

    folder.mkdir()
    engine = module._engine(module._checked(url(folder)), "BEGIN IMMEDIATE")
    with engine.begin() as connection:
        assert tables.migrate(connection, tables.MIGRATIONS[:1]) == 1
    engine.dispose()
    connection = sqlite3.connect(folder / "state.db")
    connection.execute("ATTACH ? AS newer", (f"{newer}/state.db",))
    connection.execute("INSERT INTO graphbandit_beginning SELECT * FROM newer.graphbandit_beginning")
    columns = "seq, kind, at, body, key, who"
    connection.execute(f"INSERT INTO graphbandit_events ({columns}) SELECT {columns} FROM newer.graphbandit_events")
    connection.commit()
    connection.execute("DETACH newer")
    connection.close()
    for left in newer.glob("state.db-*"):
        left.unlink()
    assert {path.name for path in folder.iterdir()} == {"state.db"}


# The exported log.


def save_export(store: Path, folder: Path) -> None:
    """The three Parquet files of the service, the edges, and what `evaluate` and `diagnose` say about them."""
    from graphbandit.serving.service import Service

    from graphbandit.serving import export
    from graphbandit.serving.store import Store

    folder.mkdir()
    with tempfile.TemporaryDirectory() as name:
        place = Path(shutil.copytree(store, Path(name) / "copy"))
        service = Service.open(Store(url(place)), place / "state.db.snapshots")
        (folder / "decisions.parquet").write_bytes(b"".join(export.decisions(service)))
        (folder / "rewards.parquet").write_bytes(b"".join(export.rewards(service)))
        columns = export.arm_columns(service.recommender)
        (folder / "arms.parquet").write_bytes(export.arm_table(service.store, columns, service.recommender.seq))
        service.store.close()
    friends = [*pairwise(USERS), ("ann", "eve")]
    (folder / "edges.csv").write_text("user,friend\n" + "".join(f"{a},{b}\n" for a, b in friends), encoding="utf-8")
    files = ["--graph", str(folder / "edges.csv"), "--json", "--quiet"]
    policies = ["--policies", "linucb,graphucb", "--set", "linucb.ridge=0.5"]
    write_lines(folder / "evaluate.json", json.loads(command(["evaluate", str(folder), *policies, *files])))
    told = json.loads(command(["diagnose", str(folder / "rewards.parquet"), *files, "--shuffles", "1"]))
    del told["report"]["trail"], told["curves"]["strength"]  # at first ratios of nearly nothing, which no two processors share
    write_lines(folder / "diagnose.json", told)


def command(words: list[str]) -> str:
    """What a command prints."""
    done = subprocess.run([sys.executable, "-m", "graphbandit.cli", *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


if __name__ == "__main__":
    main()
