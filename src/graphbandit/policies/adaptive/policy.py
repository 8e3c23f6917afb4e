"""AdaptiveGraphUCB: evidence chooses how strongly the graph ties users, or not at all.

There are three kinds of models of the users, each at every strength τ of a grid. All learn the same
data. With noise N(0, σ²):

| kind | prior of the users' vectors | posterior |
|---|---|---|
| `alone` | θ_i ~ N(0, σ²/τ I), independent | exact |
| `graph` | θ smooth on the graph | exact (`joint.py`) or one user at a time (`relaxed.py`) |
| `everyone` | θ_i = μ + δ_i, δ_i ~ N(0, σ²/τ I), μ ~ N(0, σ²/(0.3 τ) I) | exact (`hierarchy.py`) |

The graph prior is the symmetric one behind the random-walk system: sqrt(D_i) θ_i has the precision
τ (I - ρ D^-½ W D^-½) / σ², ρ = 1/(1 + slack). Given its neighbours, θ_i then has the mean
ρ Σ_j P_ij θ_j, P = D⁻¹W, and the precision τ/σ², whatever its degree. Read literally, the same
scaling makes the noise of user i σ²/D_i. We take σ² for everybody, in the evidence and in the
confidence: exact for regular graphs, an approximation for others (docs/explanation/adaptive.md has its measured
coverage).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np

from ...compute.adjacency import change_links, links_of
from ...compute.arrays import Floats, Ints
from ...compute.growable import growable_zeros
from ...compute.observations import no_observations, observation_rows
from ...graph import UserGraph
from ...solvers import DENSE_ROWS
from ...storage.archive import Arrays
from ...validate import POSITIVE, PROBABILITY, list_of, one_of, optional
from ..core.item_effects import no_items
from ..core.live_users import Changes
from ..core.policy import Policy, Seed
from .evidence import EVERYONE, KINDS, Evidence, no_evidence, weigh
from .graph_models import Moments
from .graph_report import Report, graph_report
from .hierarchy import hierarchy
from .joint import Joint, joint_models, rebuild_joint
from .learning import LEVELS, remove_from_common
from .mixture import AdaptiveState, FadingState, mix_models
from .relaxed import Relaxed, relax_users, relaxed_models, relaxed_rows
from .trials import no_trials

ALPHAS = tuple(np.geomspace(1e-4, 30.0, 9).tolist())
LOOSENESS = 0.3  # μ ~ N(0, σ² / (LOOSENESS τ) I)
TRAIL = 63  # rows: rounds 1, 2, 4, … up to 2⁶²


class AdaptiveGraphUCB(Policy):
    """Learns how strong the graph is, and stops using one that does not help. Nothing to tune.

    Keeps three kinds of models of the users, each at every strength of a grid: each user for
    itself, all users around a common vector, neighbours alike. All learn the same data. A model's
    evidence is how well it predicted every reward before that was seen, up to a constant. The
    user's vector has the mean and covariance of the evidence-weighted mixture, and the arm is
    argmax xᵀθ_i + exploration · m · s, with s² = xᵀ C_i x. The number of deviations m is 1 for arms
    that are as well known as the user's rounds allow, and grows like sqrt(2 log n_i) for arms that
    were given up early. The noise level is learned as well.

    Parameters
    ----------
    alphas : list of float, optional
        Strengths τ of the prior, in units of the noise variance: given its neighbours, a user's
        coordinate deviates with variance σ²/τ. The default, nine values from 1e-4 to 30, suits
        features of norm about 1.
    sigma : float, optional
        Standard deviation of the noise, if it is known; otherwise each model estimates its own.
    exploration : float
        Multiplies the bonus; 0 is greedy.
    models : names among "alone", "everyone", "graph"
        Which kinds may act. `alone` and `graph` have evidence in any case. `everyone` tells what
        people like, to users without neighbours too. Without it a round is cheaper, and there are
        more hits on Last.fm.
    choice : {"average", "best"}
        Act with the evidence-weighted average of the models, or with the single best one.
    temper : float
        Evidence is raised to this power. 1 is Bayes' rule; less keeps more models in play, since
        none of them is true.
    slack : list of float
        How loosely a user is tied to its neighbours' mean rather than to 0; there are graph models
        with each of these values.
    half_life : float, optional
        For tastes that drift: after this many observations of a user an old one of the same user
        counts half. Evidence fades at the same pace.
    solver : {"auto", "dense", "local"}
        Posterior of the graph models: exact, O((n dim)²) a round and strength; or one user at a
        time with the uncertainty of its neighbours to first order, at a cost that depends on the
        degree only. `auto` takes `dense` up to 256 rows.
    thompson : bool
        Draw the user's vector from N(θ_i, exploration² C_i) in every decision, in place of the
        bonus. Nothing grows then.
    item_effects : bool
        Whether to learn, of items whose ids are given, what each earns beyond its features: y =
        xᵀθ_i + b_item + noise. Where items have no effects, none are found.
    item_ridge : float, optional
        Pseudo-observations that an item earns nothing; learned by default.
    trials : bool
        Whether rewards decide if `everyone` and the effects of items take part: in some rounds
        decisions are made without them, more often the better that goes. Only where rewards are
        mostly noise to all models; elsewhere evidence decides. For a single user `everyone` is not
        on trial.
    growing_bonus : bool
        False leaves the bonus at one deviation: a little better in short runs, and
        linear regret in some long ones.

    References
    ----------
    The evidence is the prequential one of Dawid 1984, its power that of Grünwald & van Ommen 2017
    ("Inconsistency of Bayesian inference for misspecified linear models"). The graph prior is that
    of Yang, Dong & Toni 2020. The growing bonus follows Lai 1987 ("Adaptive treatment allocation
    and the multi-armed bandit problem") and MOSS (Audibert & Bubeck 2009).

    Examples
    --------
    >>> from graphbandit import environments, graphs, signals, simulate
    >>> graph = graphs.erdos_renyi(20, 0.4, seed=0)
    >>> env = environments.Linear(graph, signals.smooth(graph, 5, gamma=7, seed=1), signals.unit_arms(500, 5, seed=2), pool=50)
    >>> policy = AdaptiveGraphUCB(graph, 5)
    >>> trace = simulate(policy, env, 1000, seed=0)
    >>> bool(trace.regret[-1] < 25)
    True
    """

    State = AdaptiveState
    ranges = Policy.ranges | {
        "alphas": optional(list_of(POSITIVE, "positive numbers")),
        "sigma": optional(POSITIVE),
        "models": list_of(one_of(KINDS), f"of {', '.join(KINDS)}"),
        "choice": one_of(("average", "best")),
        "temper": PROBABILITY,
        "slack": list_of(POSITIVE, "positive numbers"),
        "half_life": optional(POSITIVE),
        "solver": one_of(("auto", "dense", "local")),
    }

    def __init__(
        self,
        graph: UserGraph,
        dim: int,
        *,
        alphas: Sequence[float] | None = None,
        sigma: float | None = None,
        exploration: float = 1.0,
        models: Sequence[str] = KINDS,
        choice: Literal["average", "best"] = "average",
        temper: float = 0.1,
        slack: Sequence[float] = (0.03, 0.3),
        half_life: float | None = None,
        solver: Literal["auto", "dense", "local"] = "auto",
        thompson: bool = False,
        item_effects: bool = True,
        item_ridge: float | None = None,
        trials: bool = True,
        growing_bonus: bool = True,
        seed: Seed = 0,
    ) -> None:
        super().__init__(graph, dim, locals())
        strengths, slacks = _ascending(ALPHAS if alphas is None else alphas), _ascending(slack)
        self.params |= {"alphas": strengths.tolist(), "models": list(models), "slack": slacks.tolist()}
        dense = solver == "dense" or (solver == "auto" and graph.n_users * dim <= DENSE_ROWS)
        rhos = 1.0 / (1.0 + slacks)
        keep = 1.0 if half_life is None else 0.5 ** (1.0 / half_life)
        evidence = self._no_evidence(len(rhos), len(strengths), keep)
        others = evidence.usable.copy()
        others[EVERYONE] = 0.0
        self.state = self.build_state(
            seen=no_observations(graph.n_users, self.dim),
            solver=joint_models(graph, self.dim, strengths=strengths, rhos=rhos)
            if dense
            else relaxed_models(graph, self.dim, len(rhos) * len(strengths)),
            common=hierarchy(strengths if "everyone" in models else strengths[:0], self.dim, LOOSENESS),
            evidence=evidence,
            strength=strengths,
            gain=growable_zeros(graph.n_users),
            trail=np.zeros((TRAIL, 2 + len(KINDS))),
            inside=np.zeros(len(LEVELS), dtype=np.int64),
            rounds=np.zeros(1, dtype=np.int64),
            rho=rhos,
            keep=keep,
            best_only=choice == "best",
            items=no_items(item_effects, item_ridge),
            trials=no_trials(others, trials and graph.n_users > 1 and 0.0 < others.sum() < evidence.usable.sum()),
            item_trials=no_trials(np.zeros(0), trials and item_effects and item_ridge is None),
        )
        self._choose_type()

    def _choose_type(self) -> None:
        """The type of a state says what its kernels are compiled with."""
        self.state = FadingState(*self.state) if self.state.keep < 1.0 else self.state

    @classmethod
    def unpack(cls, header: dict[str, Any], arrays: Arrays) -> Self:
        """The policy of which `pack` gave header and arrays."""
        policy = super().unpack(header, arrays)
        policy._choose_type()
        return policy

    def _no_evidence(self, n_slacks: int, n_strengths: int, keep: float) -> Evidence:
        """A row for each kind of models, and one for each slack of the graph models."""
        models, kinds = self.params["models"], (*KINDS, *["graph"] * (n_slacks - 1))
        return no_evidence(
            usable=np.array([float(kind in models) for kind in kinds]),
            kept=np.array([float(kind != "everyone" or kind in models) for kind in kinds]),
            n_strengths=n_strengths,
            sigma=self.params["sigma"],
            temper=float(self.params["temper"]),
            fade=keep ** (1.0 / self.n_users),
        )

    @property
    def n_normals(self) -> int:
        """A draw of the user's vector needs one for each feature."""
        return self.dim if self.state.thompson else 0

    def moments(self, user: int) -> Moments:
        """Mean and covariance of a user's vector."""
        moments = Moments(np.empty(self.dim), np.empty((self.dim, self.dim)))
        mix_models(self.state, self.check_user(user), self._weights(), moments)
        return moments

    def _weights(self) -> Floats:
        """(kinds, strengths) the weight of every model, by its evidence."""
        weight: Floats = np.empty_like(self.state.evidence.squares)
        weigh(self.state.evidence, self.state.evidence.usable, self.state.best_only, weight)
        return weight

    def user_precision(self, user: int) -> Floats:
        """The inverse covariance: in this metric the user's credible region is a ball."""
        return np.asarray(np.linalg.inv(self.moments(user)[1]))

    def report(self) -> Report:
        """Does the graph help? Evidence, coverage and misled users; `str` says it in words."""
        return graph_report(self.state, self.graph)

    def beta(self, user: int, level: float = 0.99) -> float:
        """The radius of the credible region of this probability, under the model."""
        from scipy.special import chdtri

        self.check_user(user)
        return float(np.sqrt(chdtri(self.dim, 1.0 - level)))

    def user_rows(self) -> dict[str, Any]:
        own = relaxed_rows("solver") if isinstance(self.state.solver, Relaxed) else {}
        return observation_rows("seen") | {"gain": 0.0} | own

    def forget_user(self, user: int) -> None:
        """Take a user's data out of the common vectors; its past rounds stay in the evidence."""
        remove_from_common(self.state, user)

    def follow_graph(self, users: Ints, changes: Changes) -> None:
        state = self.state
        if isinstance(state.solver, Relaxed):
            links = links_of(self.graph) if changes is None else change_links(state.solver.links, changes)
            solver: Joint | Relaxed = state.solver._replace(links=links)
        elif self.params["solver"] == "auto" and self.n_users * self.dim > DENSE_ROWS:
            means, users = state.solver.theta, np.arange(self.n_users)
            solver = relaxed_models(self.graph, self.dim, len(means))
            solver.theta[: means.shape[1]] = means.transpose(1, 0, 2)
        else:
            solver = joint_models(self.graph, self.dim, strengths=state.strength, rhos=state.rho)
            rebuild_joint(solver, state.seen)
        evidence = state.evidence._replace(fade=state.keep ** (1.0 / self.n_users))
        self.state = state._replace(solver=solver, evidence=evidence)
        if isinstance(solver, Relaxed):
            relax_users(solver, state.seen, users, state.strength, state.rho)

    def estimates(self, users: Ints) -> Floats:
        return np.array([self.moments(user)[0] for user in users.tolist()]).reshape(len(users), self.dim)


def _ascending(values: Sequence[float]) -> Floats:
    return np.array(sorted({float(value) for value in values}))
