"""Cost and error of GraphUCB's push solver: µs a round, pushes a round, and θ against a solve by conjugate gradients.

Two worlds on the graph of `rounds.py`: in one, users have nothing in common but with their
neighbours; in the other, all of them share half of their vector, which pushes alone spread slowly.
Errors are relative: ‖θ - θ*‖ / ‖θ*‖ over the users who were served, and the largest ‖θ_i - θ*_i‖
over the s of the solver, whose bound is tolerance / ridge. Prints Markdown.

    python benchmarks/push.py [--users 1000 10000 100000 1000000] [--rounds 20000] [--tolerance 0.01]
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from rounds import FixedRounds, catalogue, drawn, numpy_linucb, world  # type: ignore[import-not-found]

from graphbandit import GraphUCB, environments, signals, simulate
from graphbandit.compute.arrays import Floats
from graphbandit.solvers.selection import graphucb_prior

RIDGE = 0.01  # GraphUCB's default


def shared_world(n: int) -> environments.Linear:
    """Return the world of `rounds.py` with a vector that all users have in common."""
    env = world(n)
    mean = signals.unit_rows(np.random.default_rng(3).standard_normal((1, env.dim)))
    return environments.Linear(env.graph, signals.unit_rows(env.truth + mean), catalogue(env.dim), sigma=0.01, pool=env.pool)


def solved(policy: GraphUCB, alpha: float) -> Floats:
    """Return θ* by conjugate gradients on D^½ M D^-½, to a relative residual of 1e-6.

    Only users with data have a Gram matrix.
    """
    seen, dim = policy.state.seen, policy.dim
    prior, scale = graphucb_prior(policy.graph, alpha=alpha, ridge=RIDGE)
    users, diagonal = np.flatnonzero(seen.visits), prior.diagonal()[:, None]
    gram = seen.gram[users]
    inverse = np.linalg.inv(gram + diagonal[users, :, None] * np.eye(dim))

    def apply(z: Floats) -> Floats:
        image = np.asarray(prior @ z)
        image[users] += np.einsum("nij,nj->ni", gram, z[users])
        return image

    def precondition(z: Floats) -> Floats:
        image: Floats = z / diagonal
        image[users] = np.einsum("nij,nj->ni", inverse, z[users])
        return image

    residual = scale[:, None] * seen.bias
    z, step = np.zeros_like(residual), precondition(residual)
    direction, size = step, np.vdot(residual, step)
    goal = 1e-12 * size
    while size > goal:
        image = apply(direction)
        length = size / np.vdot(direction, image)
        z += length * direction
        residual -= length * image
        step = precondition(residual)
        size, before = np.vdot(residual, step), size
        direction = step + size / before * direction
    return np.asarray(z / scale[:, None])


def measure(env: environments.Linear, rounds: environments.Rounds, repeats: int, settings: dict[str, Any]) -> dict[str, float]:
    """Measure one policy: cost and pushes a round, and its errors after the last one."""
    horizon, seconds = len(rounds.user), []
    for _ in range(repeats):
        policy = GraphUCB(env.graph, env.dim, solver="push", **settings)
        begin = time.process_time()  # one thread: what else the machine does counts less than in elapsed time
        simulate(policy, FixedRounds(env, rounds), horizon)
        seconds.append(time.process_time() - begin)
    exact, served, solver = solved(policy, settings["alpha"]), policy.state.seen.visits > 0, policy.state.solver
    error = policy.theta - exact
    return {
        "micros": min(seconds) / horizon * 1e6,
        "pushes": float(solver.work[0]) / horizon,
        "relative": float(np.linalg.norm(error[served]) / np.linalg.norm(exact[served])),
        "largest": float(np.linalg.norm(error, axis=1).max() / solver.scale[0]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, nargs="+", default=[1_000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--rounds", type=int, default=20_000)
    parser.add_argument("--alpha", type=float, nargs="+", default=[0.1, 1.0, 10.0])
    parser.add_argument("--tolerance", type=float)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    settings = {} if options.tolerance is None else {"tolerance": options.tolerance}
    simulate(GraphUCB(world(20).graph, 5, solver="push"), world(20), 5)  # compiles
    print("| users | world | alpha | µs a round | of NumPy LinUCB | pushes | error, served users | largest error / s |")
    print("|---:|---|---:|---:|---:|---:|---:|---:|", flush=True)
    for n in options.users:
        for name, env in (("apart", world(n)), ("shared", shared_world(n))):
            rounds, baseline = drawn(env, options.rounds), numpy_linucb(env, min(options.rounds, 10_000))
            for alpha in options.alpha:
                found = measure(env, rounds, options.repeats, settings | {"alpha": alpha})
                print(
                    f"| {n:,} | {name} | {alpha:g} | {found['micros']:.1f} | {found['micros'] / baseline:.2f} "
                    f"| {found['pushes']:.1f} | {found['relative']:.4f} | {found['largest']:.3f} |",
                    flush=True,
                )


if __name__ == "__main__":
    from measurements import recorded  # type: ignore[import-not-found]

    recorded(main)
