"""Coverage of the experiment's anytime-valid interval under continuous monitoring.

Worlds are simulated in which the true difference is known. One line for each: the share of runs in
which the interval, looked at after every step, contained the difference at all times; the same for
an interval of fixed time (Student's, cluster-robust) looked at as often, and at the end only; how
much wider ours is at the end; and how often a difference of two, four and six standard errors of
the end is found at some time.

    python benchmarks/interval_coverage.py [--runs 1000] [--steps 300]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import stats

from graphbandit.compute.arrays import Floats
from graphbandit.evaluation.anytime_interval import ClusterSums, arm_mean, boundary, degrees_of_freedom, scale_for

ALPHA = 0.05


class World(NamedTuple):
    """Two arms' clusters of users, the rate of their decisions, and their rewards."""

    name: str
    treatment: int  # clusters
    control: int
    lasting: float = 0.0  # standard deviation of the clusters' lasting effects
    kind: str = "normal"
    unequal: float = 0.0  # sigma of the lognormal sizes of clusters
    drift: str = "none"
    visits: float = 3.0  # decisions of a cluster in a step


WORLDS = (
    World("no effects", 100, 100),
    World("lasting cluster effects", 50, 50, 0.5),
    World("lasting effects, share 0.2", 80, 20, 0.5),
    World("10 clusters an arm", 10, 10),
    World("90 and 10 clusters", 90, 10),
    World("10 clusters an arm, effects", 10, 10, 0.5),
    World("40 and 10, effects, unequal", 40, 10, 0.5, unequal=0.7),
    World("unequal clusters, effects", 60, 60, 0.5, unequal=1.0),
    World("heavy tails", 50, 50, 0.5, "heavy"),
    World("heavy tails, 10 an arm", 10, 10, 0.5, "heavy"),
    World("purchases, 5 in 100", 50, 50, 0.3, "purchases"),
    World("clicks, 2 in 100", 50, 50, 0.3, "clicks"),
    World("clicks, 2 in 100, 10 an arm", 10, 10, 0.3, "clicks"),
    World("a wave common to all", 50, 50, 0.5, drift="wave"),
    World("effects new every 30 steps", 50, 50, 0.5, drift="days"),
    World("effects that wander", 50, 50, 0.3, drift="wander"),
)


def simulate(world: World, runs: int, steps: int, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    """Return the (runs, steps, clusters) decisions, sums of rewards, and rewards other than 0, so far.

    There is no difference between the arms.
    """
    n = world.treatment + world.control
    size = rng.lognormal(-0.5 * world.unequal**2, world.unequal, (runs, 1, n))
    rate = np.broadcast_to(world.visits * size, (runs, steps, n))
    lasting = world.lasting * rng.standard_normal((runs, 1, n))
    at = np.arange(steps)[None, :, None]
    if world.drift == "wave":  # rewards and visits go up and down; clusters come at hours of their own
        rate = rate * (1.0 + 0.8 * np.sin(2 * np.pi * (at / 60.0 + rng.random((runs, 1, n)))))
        lasting = lasting + 0.8 * np.sin(2 * np.pi * at / 60.0) + at / steps
    elif world.drift == "days":
        lasting = world.lasting * np.repeat(rng.standard_normal((runs, steps // 30 + 1, n)), 30, axis=1)[:, :steps]
    elif world.drift == "wander":
        lasting = lasting + np.cumsum(rng.standard_normal((runs, steps, n)), axis=1) * world.lasting / np.sqrt(steps)
    came = rng.poisson(rate).astype(np.float64)
    if world.kind == "clicks":
        rewards = rng.binomial(came.astype(np.int64), np.clip(0.02 * np.exp(lasting), 0.0, 1.0)).astype(np.float64)
        rewarded = rewards
    elif world.kind == "purchases":  # few, and of very unequal size: lognormal with sigma 1.5
        rewarded = rng.binomial(came.astype(np.int64), 0.05).astype(np.float64)
        rewards = drawn_sums(rng.lognormal(-1.125, 1.5, int(rewarded.sum())), rewarded) * np.exp(lasting)
    elif world.kind == "heavy":  # Student's with 3 degrees of freedom, each decision drawn
        rewards, rewarded = drawn_sums(rng.standard_t(3.0, int(came.sum())), came) + came * lasting, came
    else:
        rewards, rewarded = came * lasting + np.sqrt(came) * rng.standard_normal(came.shape), came
    return tuple(np.cumsum(part, axis=1) for part in (came, rewards, rewarded))  # type: ignore[return-value]


def drawn_sums(drawn: Floats, counts: Floats) -> Floats:
    """Return the drawn numbers, summed in consecutive groups of these sizes."""
    ends = np.cumsum(counts.ravel().astype(np.int64))
    sums = np.concatenate([[0.0], np.cumsum(drawn)])
    return np.asarray(np.diff(sums[ends], prepend=0.0).reshape(counts.shape))


class Looks(NamedTuple):
    """(runs, steps) estimates and intervals after every step; NaN where there is no interval."""

    estimate: Floats
    ours: Floats  # half width
    fixed: Floats


def look(world: World, sums: tuple[Floats, Floats, Floats]) -> Looks:
    """Return the estimate and both intervals at all times."""
    one = arm_mean(ClusterSums(*(part[..., : world.treatment] for part in sums)))
    other = arm_mean(ClusterSums(*(part[..., world.treatment :] for part in sums)))
    variance, ready = one.variance + other.variance, one.is_ready & other.is_ready
    first = ready.argmax(axis=1)
    scale = np.array([[scale_for(float(row[at]), ALPHA)] for row, at in zip(variance, first, strict=True)])
    with np.errstate(invalid="ignore"):
        freedom, error = degrees_of_freedom(one, other), np.sqrt(variance)
        ours = error * boundary(variance, freedom, scale, ALPHA)
        fixed = error * stats.t.isf(ALPHA / 2, freedom)
    return Looks(one.mean - other.mean, np.where(ready, ours, np.nan), np.where(ready, fixed, np.nan))


def covers(estimate: Floats, half: Floats) -> npt.NDArray[np.bool_]:
    """Return whether each run's interval contains 0 at all times."""
    return np.asarray(~(np.abs(estimate) > half).any(axis=1))


def found(looks: Looks, effect: Floats) -> float:
    """Return the share of runs in which a difference of this size is found at some time."""
    return float(((np.abs(looks.estimate + effect) > looks.ours) & (looks.estimate + effect > 0)).any(axis=1).mean())


def measure(world: World, runs: int, steps: int, seed: int = 0) -> dict[str, float]:
    """Return the table row of a world."""
    rng, parts = np.random.default_rng(seed), []
    step = max(1, int(1e7 // (steps * (world.treatment + world.control))))
    for start in range(0, runs, step):
        parts.append(look(world, simulate(world, min(step, runs - start), steps, rng)))
    looks = Looks(*(np.concatenate(part) for part in zip(*parts, strict=True)))
    error = looks.estimate[:, -1].std()
    return {
        "ours, always": float(covers(looks.estimate, looks.ours).mean()),
        "fixed, always": float(covers(looks.estimate, looks.fixed).mean()),
        "fixed, at the end": float(covers(looks.estimate[:, -1:], looks.fixed[:, -1:]).mean()),
        "width": float(np.nanmedian(looks.ours[:, -1] / looks.fixed[:, -1])),
        "2 errors": found(looks, 2.0 * error),
        "4 errors": found(looks, 4.0 * error),
        "6 errors": found(looks, 6.0 * error),
    }


def main(say: Callable[[str], None] = print) -> None:
    """Measure and print all worlds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=300)
    chosen = parser.parse_args()
    head = None
    for world in WORLDS:
        row = measure(world, chosen.runs, chosen.steps)
        if head is None:
            head = list(row)
            say(f"| world | {' | '.join(head)} |")
            say("|---|" + "---:|" * len(head))
        say(
            f"| {world.name} | "
            + " | ".join(f"{row[name]:.3f}" if name != "width" else f"{row[name]:.2f}" for name in head)
            + " |"
        )


if __name__ == "__main__":
    from measurements import recorded  # type: ignore[import-not-found]

    recorded(main)
