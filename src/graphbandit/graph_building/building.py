"""`build_graph`: candidates from the earlier events, judged on the later ones; the best, or none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse

from ..compute.arrays import Floats, Ints
from ..diagnose.judge import Verdict, centred, fit_prior, judge_rewards, scaled, user_sums, users_to_judge
from ..display import as_html
from ..graph import UserGraph
from ..storage.atomic import AnyPath, write_bytes
from ..tables import Source, write_table
from ..validate import check, count
from .candidate_graphs import Rows, alike_attributes, alike_behaviour, alike_tastes, blend, co_consumption, item_features
from .events import Inputs, Split, read_inputs, split_events

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Progress = Callable[[float, str], None]
"""`progress(share done, what is being done)`"""
BLEND = " + "
JOINED = {
    "co-consumption": "users who took the same items, rare ones above all",
    "behaviour": "users whose choices are alike after factorisation",
    "tastes": "users whose learned tastes are alike",
    "attributes": "users with like attributes",
    "given": "the given graph",
}
"""The users that each candidate graph joins."""
HEADINGS = ("candidate", "edges", "gain")


class Data(NamedTuple):
    """Data for the candidate graphs: some users, renumbered, and the events that may be used."""

    rows: Rows
    features: Floats  # of the items
    attributes: Floats | None
    given: sparse.csr_array | None
    neighbours: int
    seed: int


@dataclass(frozen=True, eq=False)
class Candidate:
    """A graph of the judged users, and the share of the variance of later rewards that it gains."""

    name: str
    graph: UserGraph  # from the earlier events
    gain: float

    def __repr__(self) -> str:
        return f"Candidate({self.name!r}, {self.gain:+.2%})"

    @property
    def joins(self) -> str:
        """The users that the graph joins; a blend has the edges of both of its parts."""
        return " and ".join(JOINED[part] for part in self.name.split(BLEND))


@dataclass(frozen=True, eq=False)
class BuiltGraph:
    """Result of `build`.

    The graph to use is made from all events. It must not be judged on them: for that there is
    `earlier`, and `candidates[…].graph`, which was made from the earlier events of the judged
    users alone.
    """

    graph: UserGraph  # of all users; without edges if none helps
    earlier: UserGraph  # the same from the earlier events alone, for a replay of the later ones
    candidates: tuple[Candidate, ...]  # the best first
    verdict: Verdict  # on the first candidate
    judged_users: tuple[str, ...]  # the ids of the rows of the candidates' graphs
    said: tuple[str, ...]  # what was guessed and decided on the way

    @property
    def helps(self) -> bool:
        """Return True if a graph helps."""
        return self.verdict.answer == "yes"

    @property
    def chosen(self) -> Candidate | None:
        """The candidate that was kept, or None."""
        return self.candidates[0] if self.helps else None

    @property
    def sentence(self) -> str:
        """The verdict, and the graph that it is about."""
        if not self.candidates:
            return self.verdict.sentence
        return f"{self.verdict.sentence} The best graph is {self.candidates[0].name!r}: {self.candidates[0].joins}."

    def __repr__(self) -> str:
        chosen = "no graph is used" if self.chosen is None else repr(self.chosen.name)
        return f"BuiltGraph({chosen} of {len(self.candidates)} candidates, {self.graph!r})"

    def __str__(self) -> str:
        lines = [fill(self.sentence, 100), ""]
        lines += [f"{name:28}{edges:>9}{gain:>9}" for name, edges, gain in (HEADINGS, *self.cells())]
        details = [
            "gain: share of the variance of later rewards, more than without a graph",
            self.verdict.details(),
            *self.said,
        ]
        return "\n".join([*lines, "", *(fill(sentence, 100) for sentence in details)])

    def _repr_html_(self) -> str:
        return as_html(self.sentence, HEADINGS, self.cells(), [self.verdict.details(), *self.said])

    def cells(self) -> list[tuple[str, str, str]]:
        """Return name, edges and gain of every candidate as text."""
        marked = {self.chosen.name: " *"} if self.chosen else {}
        return [(one.name + marked.get(one.name, ""), f"{one.graph.n_edges:,}", f"{one.gain:+.2%}") for one in self.candidates]

    def as_table(self) -> dict[str, Any]:
        """Return everything but the graphs as plain JSON values."""
        rows = [dict(name=one.name, edges=one.graph.n_edges, gain=one.gain) for one in self.candidates]
        size = {"users": self.graph.n_users, "edges": self.graph.n_edges, "judged_users": len(self.judged_users)}
        verdict = self.verdict.as_table() | {"sentence": self.sentence}
        return {"verdict": verdict, "helps": self.helps, **size, "candidates": rows, "said": list(self.said)}

    def write(self, path: AnyPath) -> None:
        """Write the edges of the graph as a table with the columns user, friend and weight."""
        upper = sparse.triu(self.graph.adjacency, k=1).tocoo()
        ids = np.array(self.graph.ids, dtype=object)
        columns = {"user": ids[upper.row].tolist(), "friend": ids[upper.col].tolist(), "weight": upper.data.tolist()}
        write_table(path, columns)

    def figure(self) -> Figure:
        """Plot all candidates, with the verdict as the title."""
        from ..plots.candidate_plot import JudgedGraph, candidates

        rows = [JudgedGraph(one.name, one.graph.n_edges, one.gain, chosen=one is self.chosen) for one in self.candidates]
        if rows:
            best = self.verdict
            rows[0] = JudgedGraph(
                rows[0].name, rows[0].n_edges, best.gain, (best.low, best.high), best.shuffled, rows[0].chosen
            )
        return candidates(rows, title=self.verdict.title, note=f"{self.verdict.n_rewards:,} later rewards")

    def picture(self, path: AnyPath) -> None:
        """Write a picture of all candidates, in the format that the name says: .png or .svg."""
        from ..plots.drawing import picture

        write_bytes(path, picture(self.figure(), "svg" if str(path).endswith(".svg") else "png"))


def build_graph(
    events: Source,
    *,
    attributes: Source | None = None,
    given: Source | UserGraph | None = None,
    items: Source | None = None,
    neighbours: int = 10,
    seed: int = 0,
    progress: Progress | None = None,
) -> BuiltGraph:
    """See `graphbandit.graphs.build`."""
    check("neighbours", neighbours, count())
    check("seed", seed, count(0))
    show = progress or (lambda done, note: None)
    show(0.0, "reading")
    inputs = read_inputs(events, attributes, given, items)
    if len(inputs.events.user_ids) < 3:
        raise ValueError(f"events must be of three or more users, but there are {len(inputs.events.user_ids)}.")
    split = split_events(inputs.events, seed)
    n_users, said = len(inputs.user_ids), (*inputs.said, *split.said)
    users = users_to_judge(inputs.given, n_users, seed)
    if len(users) < n_users:
        said += (f"Judged on {len(users):,} of {n_users:,} users, with all their events: more would take longer.",)
    place = np.full(n_users, -1)
    place[users] = np.arange(len(users))
    kept = np.flatnonzero(place[split.user] >= 0)
    n_earlier = int((kept < split.n_earlier).sum())
    show(0.05, "building candidates")
    judged = _rows(split, kept[:n_earlier], place, len(users), inputs)
    features = item_features(judged, inputs.items, seed)
    judge = judge_rewards(
        place[split.user[kept]], features[split.item[kept]], split.reward[kept], len(users), n_earlier, split.item[kept]
    )
    attributes_of = None if inputs.attributes is None else inputs.attributes[users]
    joined = None if inputs.given is None else sparse.csr_array(inputs.given[users][:, users])
    data = Data(judged, features, attributes_of, joined, neighbours, seed)
    graphs: dict[str, sparse.csr_array] = {}
    names = candidate_names(inputs)
    for turn, name in enumerate(names):
        show(0.1 + 0.5 * turn / len(names), name)
        adjacency = recipe(name, data)
        if adjacency.nnz and n_earlier < len(kept):
            graphs[name] = adjacency
    gains = {name: judge.gain(adjacency) for name, adjacency in graphs.items()}
    order = sorted(gains, key=lambda name: -gains[name])
    if len(order) > 1:
        both = BLEND.join(order[:2])
        graphs[both] = blend(graphs[order[0]], graphs[order[1]])
        gains[both] = judge.gain(graphs[both])
        order = sorted(gains, key=lambda name: -gains[name])
    show(0.7, "shuffled graphs")
    best = graphs[order[0]] if order else sparse.csr_array((len(users), len(users)))
    verdict = judge.verdict(best, seed=seed, n_tried=max(1, len(order)))
    chosen = order[0] if verdict.answer == "yes" else None
    show(0.95, "building the graph from all events")
    everybody = np.arange(n_users)
    before, final = (
        _whole(chosen, _rows(split, np.arange(end), everybody, n_users, inputs), inputs, neighbours, seed)
        for end in (split.n_earlier, len(split.user))
    )
    ids = tuple(inputs.user_ids[row] for row in users.tolist())
    show(1.0, "done")
    candidates = tuple(Candidate(name, UserGraph(graphs[name]), gains[name]) for name in order)
    return BuiltGraph(final, before, candidates, verdict, ids, said)


def _rows(split: Split, where: Ints, place: Ints, n_users: int, inputs: Inputs) -> Rows:
    parts = (place[split.user[where]], split.item[where], split.reward[where], split.taken[where])
    return Rows(*parts, n_users, len(inputs.events.item_ids))


def _whole(chosen: str | None, rows: Rows, inputs: Inputs, neighbours: int, seed: int) -> UserGraph:
    """Return the chosen graph over all users, from these events; without edges if none was chosen."""
    n_users = len(inputs.user_ids)
    if chosen is None:
        return UserGraph(sparse.csr_array((n_users, n_users)), inputs.user_ids)
    data = Data(rows, item_features(rows, inputs.items, seed), inputs.attributes, inputs.given, neighbours, seed)
    return UserGraph(recipe(chosen, data), inputs.user_ids)


def candidate_names(inputs: Inputs) -> list[str]:
    """Return the names of the candidates that can be made of these inputs."""
    names = ["co-consumption", "behaviour", "tastes"]
    return names + ["attributes"] * (inputs.attributes is not None) + ["given"] * (inputs.given is not None)


def recipe(name: str, data: Data) -> sparse.csr_array:
    """Return the adjacency of the candidate, or blend of candidates, of this name."""
    rows, k, seed = data.rows, data.neighbours, data.seed
    if BLEND in name:
        one, other = name.split(BLEND)
        return blend(recipe(one, data), recipe(other, data))
    if name == "given" and data.given is not None:
        return data.given
    if name == "attributes" and data.attributes is not None:
        return alike_attributes(data.attributes, k, seed)
    if name == "tastes":
        left = centred(rows.reward, len(rows.reward), rows.item)
        sums = user_sums(rows.user, data.features[rows.item], left, rows.n_users)
        return alike_tastes(scaled(sums, fit_prior(sums, len(left))), k, seed)
    make = {"co-consumption": co_consumption, "behaviour": alike_behaviour}[name]
    return make(rows, k, seed)
