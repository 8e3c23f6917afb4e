"""`judge`: does a graph of users help to predict their later rewards? The only place that decides it.

Rewards are centred: the mean, the effects of items and a taste that all users share are taken out. Users' own tastes θ_i
around it are estimated from the earlier rewards, once alone and once with the graph,

    θ_i ~ N(0, Σ / τ)   or   θ ~ N(0, (τ (I - w S))⁻¹ ⊗ Σ),   S = D^-1/2 W D^-1/2,

with Σ and the noise estimated from the earlier rewards, τ and w from a small grid. Each estimate predicts the later rewards.
The *gain* of the graph is the share of their variance that is predicted with the graph and not without it, less what graphs
with the users shuffled gain on average. Everything follows from the sums of each user, so that a shuffle costs a few sweeps.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy import sparse

from ..compute.arrays import Floats, Indices, Ints
from ..compute.compiler import compiled
from ..compute.linalg import dot, multiply
from ..display import as_html

EARLIER = 0.6
"""Share of the rewards that are learned; the others judge."""
SHUFFLES = 19
KNOWN = 0.5  # least share of the later rewards that are of users with earlier ones, in a split of the whole log by time
PSEUDO_EVENTS = 5.0
"""Average rewards that are added to those of an item, so that a single one does not decide."""
TIGHTNESS = (1.0, 3.0, 9.0)  # τ with the graph
ALONE = (0.5, 1.0, 2.0, 4.0, 8.0)  # τ without it
TAUS = sorted({*TIGHTNESS, *ALONE})
TIES = (0.2, 0.6, 0.9)  # w
SWEEPS = 12
STEPS = 25  # of the expectation-maximisation
SMALLEST = 1e-4  # share of the noise variance below which a direction of taste is not told from none
FEWEST_USERS, FEWEST_REWARDS = 10, 30  # for an answer
MOST_USERS = 4_000  # that judge; of more, a ball in the graph
LITTLE = 0.1  # a gain below this share of what tastes could explain at most, and
MINOR = 0.5  # below this share of what is predicted without the graph, is none; so is a smaller one than
NEXT_TO_NOTHING = 0.001  # this share of the variance
LEVEL = 0.05
Answer = Literal["yes", "no", "not clear"]


class UserSums(NamedTuple):
    """Sums over rewards, from which linear models of all users follow."""

    gram: Floats  # (n, d, d), Σ x xᵀ of each user
    response: Floats  # (n, d), Σ y x
    squares: float  # Σ y² of all users


class TastePrior(NamedTuple):
    """The distribution of tastes over users."""

    mean: Floats  # (d,), the taste that all share
    root: Floats  # (d, d), Σ = root rootᵀ
    noise: float  # standard deviation


@dataclass(frozen=True)
class Verdict:
    """Answer to "does the graph help?", with the gain that it rests on. Shares are of the variance of later rewards."""

    answer: Answer
    gain: float  # share predicted with the graph and not without it, less what shuffled graphs gain
    low: float  # 95 % interval
    high: float
    least: float  # a smaller gain is none
    with_graph: float  # share predicted
    without: float
    shuffled: tuple[float, ...]  # gains of the graph with its users shuffled
    n_users: int
    n_edges: int
    n_rewards: int  # that judged
    n_tried: int = 1  # graphs that this one is the best of

    @property
    def title(self) -> str:
        """The verdict in a few words."""
        return {"yes": "The graph helps", "no": "The graph does not help"}.get(self.answer, "Not clear whether the graph helps")

    @property
    def sentence(self) -> str:
        """The verdict in one or two sentences."""
        best = f" ({self.n_tried} graphs were tried)" if self.n_tried > 1 else ""
        if self.n_rewards < FEWEST_REWARDS or self.n_users < FEWEST_USERS:
            return f"Not clear: {self.n_rewards:,} later rewards of {self.n_users:,} users are too few to judge a graph{best}."
        if not self.n_edges:
            return "No: there is no graph, as no two users are joined."
        shown = f"{self.gain:+.2%} of the variance of later rewards, 95 % interval {self.low:+.2%} to {self.high:+.2%}"
        return {
            "yes": f"Yes, the graph helps: it predicts {self.gain:.2%} of the variance of later rewards that is not predicted "
            f"without it (95 % interval {self.low:.2%} to {self.high:.2%}){best}.",
            "no": f"No, the graph does not help: {shown}; without it {self.without:.2%} are predicted{best}.",
            "not clear": f"Not clear: the graph may help or not ({shown}){best}. More rewards would tell.",
        }[self.answer]

    def __repr__(self) -> str:
        return f"Verdict({self.answer!r}, gain {self.gain:+.2%})"

    def __str__(self) -> str:
        return f"{self.sentence} {self.details()}"

    def details(self) -> str:
        """Return the numbers behind the answer."""
        ends = (min(self.shuffled), max(self.shuffled)) if self.shuffled else (0.0, 0.0)
        return (
            f"{self.n_rewards:,} later rewards of {self.n_users:,} users with {self.n_edges:,} edges; predicted with it: "
            f"{self.with_graph:.2%}, without: {self.without:.2%}; gains of {len(self.shuffled)} graphs with users shuffled: "
            f"{ends[0]:+.2%} to {ends[1]:+.2%}."
        )

    def _repr_html_(self) -> str:
        rows = [("with the graph", f"{self.with_graph:.2%}"), ("without it", f"{self.without:.2%}")]
        return as_html(self.sentence, ["later rewards predicted", "share of variance"], rows, [self.details()])

    def as_table(self) -> dict[str, Any]:
        """Return everything as plain JSON values."""
        return asdict(self) | {"shuffled": list(self.shuffled), "sentence": self.sentence}


def user_sums(user: Ints, x: Floats, y: Floats, n_users: int) -> UserSums:
    """Return the sums over some rewards y of items with features x."""
    dim = x.shape[1]
    gram = np.empty((n_users, dim, dim))
    for i in range(dim):
        for j in range(i + 1):
            gram[:, i, j] = gram[:, j, i] = np.bincount(user, x[:, i] * x[:, j], n_users)
    response = np.column_stack([np.bincount(user, x[:, i] * y, n_users) for i in range(dim)])
    return UserSums(gram, np.asarray(response, float), float(y @ y))


def item_effects(item: Ints, y: Floats, n_items: int) -> Floats:
    """Return the mean of every item, shrunken to 0."""
    return np.asarray(np.bincount(item, y, n_items) / (np.bincount(item, minlength=n_items) + PSEUDO_EVENTS))


def centred(y: Floats, n_earlier: int, item: Ints | None) -> Floats:
    """Return rewards less their mean and the effects of items, both of the earlier ones."""
    left = np.asarray(y - y[:n_earlier].mean())
    if item is None:
        return left
    return np.asarray(left - item_effects(item[:n_earlier], left[:n_earlier], int(item.max()) + 1)[item])


def fit_prior(sums: UserSums, n_rewards: float) -> TastePrior:
    """Fit the shared taste by ridge regression, and by expectation-maximisation how users' tastes vary around it."""
    dim = sums.gram.shape[1]
    mean = np.linalg.solve(sums.gram.sum(axis=0) + np.eye(dim), sums.response.sum(axis=0))
    gram, response, squares = shifted(sums, mean)
    largest = max(squares / n_rewards, 1e-12)
    noise = largest
    covariance = 0.1 * noise * np.eye(dim) / max(float(np.trace(gram.sum(axis=0))) / n_rewards, 1e-12)
    for _ in range(STEPS):
        posterior = np.linalg.inv(gram / noise + np.linalg.inv(covariance))
        own = (posterior @ response[:, :, None])[:, :, 0] / noise
        fitted = 2.0 * float((own * response).sum()) - float(np.einsum("ni,nij,nj->", own, gram, own))
        error = squares - fitted + float(np.einsum("nij,nji->", gram, posterior))
        noise = max(error / n_rewards, 1e-9 * largest)
        covariance = posterior.mean(axis=0) + own.T @ own / len(own) + SMALLEST * noise * np.eye(dim)
    return TastePrior(np.asarray(mean), np.asarray(np.linalg.cholesky(covariance), float), float(np.sqrt(noise)))


def shifted(sums: UserSums, mean: Floats) -> UserSums:
    """Return the sums after the shared taste is subtracted from the rewards."""
    total, left = sums.response.sum(axis=0), sums.response - sums.gram @ mean
    return UserSums(sums.gram, left, sums.squares - float(2 * total @ mean - mean @ sums.gram.sum(axis=0) @ mean))


def scaled(sums: UserSums, prior: TastePrior) -> UserSums:
    """Return the sums in units in which tastes have mean 0 and covariance I, and the noise has variance 1."""
    gram, response, squares = shifted(sums, prior.mean)
    root, noise = prior.root, prior.noise
    return UserSums(root.T @ gram @ root / noise**2, response @ root / noise**2, squares / noise**2)


@compiled
def sweep_users(
    inverse: Floats,
    response: Floats,
    start: Indices,
    neighbour: Indices,
    weight: Floats,
    tie: float,
    sweeps: int,
    theta: Floats,
) -> None:
    """Solve (A_i + τ I) θ_i = b_i + tie Σ_j S_ij θ_j for all users by Gauss-Seidel sweeps; `inverse` is (A_i + τ I)⁻¹."""
    target, dim = np.empty(theta.shape[1]), theta.shape[1]
    for _ in range(sweeps):
        for user in range(theta.shape[0]):
            for k in range(dim):
                target[k] = 0.0
            for edge in range(start[user], start[user + 1]):
                for k in range(dim):
                    target[k] += weight[edge] * theta[neighbour[edge], k]
            for k in range(dim):
                target[k] = response[user, k] + tie * target[k]
            multiply(inverse[user], target, theta[user])


@compiled
def predicted(gram: Floats, response: Floats, theta: Floats, out: Floats) -> None:
    """Write 2 bᵀθ - θᵀAθ of every user: by how much θ lowers the squared error."""
    product = np.empty(theta.shape[1])
    for user in range(theta.shape[0]):
        multiply(gram[user], theta[user], product)
        out[user] = 2.0 * dot(response[user], theta[user]) - dot(product, theta[user])


class Judge:
    """Later rewards of some users, and what predicts them without a graph."""

    def __init__(self, earlier: UserSums, later: UserSums, n_earlier: float, n_later: float, variance: float) -> None:
        prior = fit_prior(earlier, max(1.0, n_earlier))
        self.earlier, self.later = scaled(earlier, prior), scaled(later, prior)
        self.n_later = n_later
        self.total = max(variance * n_later, 1e-12) / prior.noise**2  # squared deviations of the later rewards
        self.active = np.flatnonzero(np.einsum("nii->n", earlier.gram) + np.einsum("nii->n", later.gram) > 0)
        dim = earlier.gram.shape[1]
        self._inverse = {tau: np.asarray(np.linalg.inv(self.earlier.gram + tau * np.eye(dim)), float) for tau in TAUS}
        alone = [self._score(self._without(tau)) for tau in ALONE]
        self.alone = max(alone, key=lambda one: float(one.sum()))
        self.possible = float(np.einsum("nii->", self.later.gram))  # of the total, if all tastes were known

    def _without(self, tau: float) -> Floats:
        return np.asarray((self._inverse[tau] @ self.earlier.response[:, :, None])[:, :, 0]).copy()

    def _score(self, theta: Floats) -> Floats:
        out = np.empty(len(theta))
        predicted(self.later.gram, self.later.response, np.ascontiguousarray(theta), out)
        return out

    def scores(self, adjacency: sparse.csr_array) -> Floats:
        """Return by how much the best model with the graph lowers the squared error of each user."""
        degree = np.asarray(adjacency.sum(axis=1)).ravel()
        root = np.sqrt(np.where(degree > 0, degree, 1.0))
        row = np.repeat(np.arange(len(root)), np.diff(adjacency.indptr))
        weight = adjacency.data / (root[row] * root[adjacency.indices])
        start, neighbour = adjacency.indptr.astype(np.int32), adjacency.indices.astype(np.int32)
        found = []
        for tau in TIGHTNESS:
            theta = self._without(tau)
            for tie in TIES:
                sweep_users(self._inverse[tau], self.earlier.response, start, neighbour, weight, tie * tau, SWEEPS, theta)
                found.append(self._score(theta))
        return max(found, key=lambda one: float(one.sum()))

    def gain(self, adjacency: sparse.csr_array) -> float:
        """Return the share of the variance that is predicted with a graph and not without it."""
        return float((self.scores(adjacency) - self.alone).sum()) / self.total

    def verdict(self, adjacency: sparse.csr_array, shuffles: int = SHUFFLES, seed: int = 0, n_tried: int = 1) -> Verdict:
        """Judge a graph; only active users change places in a shuffle. The interval of the best of several graphs is wider."""
        lead = (self.scores(adjacency) - self.alone) / self.total
        others = []
        for turn in range(shuffles if adjacency.nnz else 0):
            place = np.arange(adjacency.shape[0])
            place[self.active] = np.random.default_rng([seed, turn]).permutation(self.active)
            others.append(self.gain(sparse.csr_array(adjacency[place][:, place])))
        chance = np.array(others if len(others) > 1 else [0.0, 0.0])
        n, own = len(self.active), float(lead.sum())
        gain = own - max(0.0, float(chance.mean()))
        error = n * float(np.var(lead[self.active])) * n / max(1, n - 1) + float(chance.var(ddof=1)) * (1 + 1 / len(chance))
        from scipy.special import stdtrit  # slow to import

        def width(level: float) -> float:
            return float(stdtrit(max(1, min(n, shuffles) - 1), 1.0 - level / 2)) * float(np.sqrt(error))

        room = max(0.0, self.possible - float(self.alone.sum())) / self.total
        explained = float(self.alone.sum()) / self.total
        least = max(NEXT_TO_NOTHING, min(LITTLE * room, MINOR * explained))
        enough = n >= FEWEST_USERS and self.n_later >= FEWEST_REWARDS
        low, high = gain - width(LEVEL / n_tried), gain + width(LEVEL)
        answer: Answer = "not clear"
        if not adjacency.nnz:
            answer = "no"
        elif enough and low > 0 and gain > least:
            answer = "yes"
        elif enough and high < least:
            answer = "no"
        counts = n, adjacency.nnz // 2, round(self.n_later), n_tried
        return Verdict(answer, gain, low, high, least, explained + own, explained, tuple(others), *counts)


def split_rewards(user: Ints) -> tuple[Ints, int]:
    """Return an order in which the earlier rewards come first, and how many these are.

    The first 60 % are the earlier ones; of each user, if most later rewards would be of users without any before.

    >>> split_rewards(np.array([0, 0, 1, 1, 0, 1, 1, 1, 1, 0]))
    (array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]), 6)
    >>> split_rewards(np.array([0, 0, 0, 1, 1, 1]))
    (array([0, 1, 2, 3, 4, 5]), 4)
    >>> split_rewards(np.array([0, 0, 0, 1, 1, 1, 2, 2, 2]))
    (array([0, 1, 3, 4, 6, 7, 2, 5, 8]), 6)
    """
    n_earlier = round(EARLIER * len(user))
    if np.isin(user[n_earlier:], user[:n_earlier]).mean(dtype=float) >= KNOWN if n_earlier < len(user) else True:
        return np.arange(len(user)), n_earlier
    return split_by_user(user, np.arange(len(user)))


def split_by_user(user: Ints, order: Ints, share: float = EARLIER) -> tuple[Ints, int]:
    """Return `order` with the first share of every user's rewards, at least one, before all others, and their number."""
    mine = order[np.argsort(user[order], kind="stable")]
    _, start, count = np.unique(user[mine], return_index=True, return_counts=True)
    rank = np.arange(len(mine)) - np.repeat(start, count)
    first = np.zeros(len(user), dtype=bool)
    first[mine] = rank < np.repeat(np.maximum(1, np.round(share * count)), count)
    return np.concatenate([order[first[order]], order[~first[order]]]), int(first.sum())


def users_to_judge(adjacency: sparse.csr_array | None, n_users: int, seed: int, most: int = MOST_USERS) -> Ints:
    """Return users in ascending order: all, or a ball in the graph, as a random sample would have hardly any edges."""
    if n_users <= most:
        return np.arange(n_users)
    rng = np.random.default_rng(seed)
    order = rng.permutation(n_users)
    if adjacency is not None and adjacency.nnz:
        from scipy.sparse.csgraph import breadth_first_order

        first = int(rng.choice(np.flatnonzero(np.diff(adjacency.indptr))))
        ball = breadth_first_order(adjacency, first, directed=False, return_predecessors=False)
        order = np.concatenate([ball, order[~np.isin(order, ball)]])
    return np.sort(order[:most]).astype(np.int64)


def with_constant(x: Floats) -> Floats:
    """Return the features with one that is always 1, for the level of each user, unless there is one."""
    return x if len(x) and (np.ptp(x, axis=0) == 0).any() else np.column_stack([np.ones(len(x)), x])


def judge_rewards(user: Ints, x: Floats, reward: Floats, n_users: int, n_earlier: int, item: Ints | None = None) -> Judge:
    """Return a judge by a log in order of time, whose first `n_earlier` rewards are learned."""
    y, x = centred(reward, n_earlier, item), with_constant(x)
    first, last = slice(0, n_earlier), slice(n_earlier, None)
    later = reward[last]
    known, judged = (user_sums(user[part], x[part], y[part], n_users) for part in (first, last))
    return Judge(known, judged, n_earlier, len(later), float(later.var()) if len(later) else 0.0)
