"""`build_graph`: candidates from the earlier events, judged on the later ones; the best, or none."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import sparse

from ..compute.arrays import Floats, Ints
from ..diagnose import RewardLog
from ..graph import UserGraph
from ..policies.adaptive.graph_report import CLEAR, ENOUGH_ROUNDS
from ..tables import Source
from ..validate import check, count
from .built_graph import BuiltGraph
from .candidate_graphs import alike_attributes, alike_behaviour, alike_tastes, blend, co_consumption
from .common_taste import CommonTaste, common_taste
from .event_split import Split, split_events
from .event_tables import Inputs, read_inputs
from .item_vectors import Rows, item_features
from .judging import LEADERS, Candidate, Judge, compare_with_shuffled
from .user_sample import sample_users

Progress = Callable[[float, str], None]
"""`progress(share done, what is being done)`"""
BLEND = " + "


class Material(NamedTuple):
    """Data for the candidate graphs: some users, renumbered, and the events that may be used."""

    rows: Rows
    taste: CommonTaste
    attributes: Floats | None
    given: sparse.csr_array | None
    neighbours: int
    seed: int


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
    show(0.05, "building candidates")
    n_users = len(inputs.user_ids)
    earlier = _rows(split, inputs, np.arange(split.n_earlier))
    users = sample_users(earlier.user, n_users, len(split.user), inputs.given, seed)
    judged = _of_users(earlier, users, n_users)
    taste = common_taste(judged, item_features(earlier, inputs.items, seed))
    judge = _new_judge(split, users, n_users, taste, seed)
    material = _material(judged, taste, inputs, users, neighbours, seed)
    graphs = {name: recipe(name, material) for name in names_of(inputs)}
    graphs = {name: adjacency for name, adjacency in graphs.items() if adjacency.nnz}
    candidates = _compared(judge, graphs, show)
    chosen = next((name for name, candidate in candidates.items() if candidate.chosen), None)
    show(0.95, "building the graph from all events")
    before, final = (
        _whole(chosen, _rows(split, inputs, np.arange(end)), inputs, neighbours, seed)
        for end in (split.n_earlier, len(split.user))
    )
    ranked = sorted(candidates.values(), key=lambda candidate: (not candidate.chosen, -candidate.difference))
    ids = tuple(inputs.user_ids[row] for row in users.tolist())
    show(1.0, "done")
    said = (*inputs.said, *split.said, *_said(split, users, n_users))
    return BuiltGraph(final, before, tuple(ranked), ids, said)


def _whole(chosen: str | None, rows: Rows, inputs: Inputs, neighbours: int, seed: int) -> UserGraph:
    """The chosen graph over all users, from these events; without edges if none was chosen."""
    n_users = len(inputs.user_ids)
    if chosen is None:
        return UserGraph(sparse.csr_array((n_users, n_users)), inputs.user_ids)
    taste = common_taste(rows, item_features(rows, inputs.items, seed))
    return UserGraph(recipe(chosen, _material(rows, taste, inputs, None, neighbours, seed)), inputs.user_ids)


def names_of(inputs: Inputs) -> list[str]:
    """The candidates that can be made of these inputs."""
    names = ["co-consumption", "behaviour", "tastes"]
    return names + ["attributes"] * (inputs.attributes is not None) + ["given"] * (inputs.given is not None)


def recipe(name: str, material: Material) -> sparse.csr_array:
    """The adjacency of the candidate, or blend of candidates, of this name."""
    if BLEND in name:
        one, other = name.split(BLEND)
        return blend(recipe(one, material), recipe(other, material))
    if name == "given" and material.given is not None:
        return material.given
    if name == "attributes" and material.attributes is not None:
        return alike_attributes(material.attributes, material.neighbours, material.seed)
    if name == "tastes":
        return alike_tastes(material.rows, material.taste, material.neighbours, material.seed)
    make = {"co-consumption": co_consumption, "behaviour": alike_behaviour}[name]
    return make(material.rows, material.neighbours, material.seed)


def _compared(judge: Judge, graphs: dict[str, sparse.csr_array], show: Progress) -> dict[str, Candidate]:
    """All candidates and the blend of the best two, judged; at most one is chosen."""
    if not graphs or len(judge.log) - judge.n_earlier < 1:
        return {}
    steps, total, found = 0, 2 * (len(graphs) + 1) + LEADERS, {}

    def step(note: str) -> None:
        nonlocal steps
        show(0.1 + 0.85 * min(1.0, steps / total), note)
        steps += 1

    for name, adjacency in graphs.items():
        step(name)
        found[name] = judge.candidate(name, UserGraph(adjacency))
    order = sorted(found, key=lambda name: -found[name].difference)
    if len(order) > 1:
        both = BLEND.join(order[:2])
        step(both)
        found[both] = judge.candidate(both, UserGraph(blend(graphs[order[0]], graphs[order[1]])))
        clearly = found[both].difference > found[order[0]].difference + CLEAR
        order = [both, *order] if clearly else [order[0], both, *order[1:]]
    if next(iter(found.values())).n_events < ENOUGH_ROUNDS:
        return found
    return compare_with_shuffled(judge, found, order, step)


def _rows(split: Split, inputs: Inputs, where: Ints) -> Rows:
    parts = (split.user[where], split.item[where], split.reward[where], split.taken[where])
    return Rows(*parts, len(inputs.user_ids), len(inputs.events.item_ids))


def _of_users(rows: Rows, users: Ints, n_users: int) -> Rows:
    """The rows of some users, who are renumbered."""
    place = _places(users, n_users)
    kept = place[rows.user] >= 0
    return Rows(place[rows.user[kept]], rows.item[kept], rows.reward[kept], rows.taken[kept], len(users), rows.n_items)


def _places(users: Ints, n_users: int) -> Ints:
    place = np.full(n_users, -1, dtype=np.int64)
    place[users] = np.arange(len(users))
    return place


def _new_judge(split: Split, users: Ints, n_users: int, taste: CommonTaste, seed: int) -> Judge:
    place = _places(users, n_users)
    kept = place[split.user] >= 0
    item = split.item[kept]
    left = (split.reward[kept] - taste.level[item]) / taste.scale
    log = RewardLog(place[split.user[kept]], taste.features[item], left)
    return Judge(log, int(kept[: split.n_earlier].sum()), seed)


def _material(rows: Rows, taste: CommonTaste, inputs: Inputs, users: Ints | None, neighbours: int, seed: int) -> Material:
    """Return the data for candidate graphs of these users; None means all users."""
    attributes, given = inputs.attributes, inputs.given
    if users is not None:
        attributes = None if attributes is None else attributes[users]
        given = None if given is None else sparse.csr_array(given[users][:, users])
    return Material(rows, taste, attributes, given, neighbours, seed)


def _said(split: Split, users: Ints, n_users: int) -> list[str]:
    if len(users) == n_users:
        return []
    return [f"Judged on {len(users):,} of {n_users:,} users, with all their events: more would take longer."]
