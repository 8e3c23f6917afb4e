"""`BuiltGraph`: the graph that was built, the candidates it was chosen from, and the verdict in words."""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import fill
from typing import Any

import numpy as np
from scipy import sparse

from ..display import as_html
from ..graph import UserGraph
from ..policies.adaptive.graph_report import ENOUGH_ROUNDS, times
from ..storage.atomic import AnyPath, write_bytes
from ..tables import write_table
from .judging import Candidate

WHAT = {
    "co-consumption": "users who took the same items, rare ones above all",
    "behaviour": "users whose choices are alike after factorisation",
    "tastes": "users whose learned tastes are alike",
    "attributes": "users with like attributes",
    "given": "the given graph",
}
"""The rule by which each candidate graph joins users."""
HEADINGS = ("candidate", "edges", "nats", "an event", "shuffled", "p")
LEGEND = "nats: log evidence of the later events, more than without a graph; shuffled: lowest to highest"


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
    judged_users: tuple[str, ...]  # the ids of the rows of the candidates' graphs
    said: tuple[str, ...]  # what was guessed and decided on the way

    @property
    def chosen(self) -> Candidate | None:
        """The candidate that was kept, or None."""
        return next((candidate for candidate in self.candidates if candidate.chosen), None)

    @property
    def helps(self) -> bool:
        """Return True if a graph helps."""
        return self.chosen is not None

    @property
    def verdict(self) -> str:
        """The verdict as a sentence or two."""
        n = len(self.candidates)
        if not n:
            return "No graph helps here: there is none, as no two users have anything in common."
        best = self.candidates[0]
        if best.n_events < ENOUGH_ROUNDS:
            return f"No graph helps here as far as one can see: {best.n_events} later events are too few to judge by."
        found = self.chosen
        if found is not None:
            return (
                f"A graph helps here: {found.name} ({described(found.name)}). {found.n_events:,} later events are "
                f"{times(found.difference)} as likely with it as with the best model without a graph "
                f"({found.per_event:+.2g} nats an event), and {times(found.over_shuffled)} as likely as with its users "
                f"shuffled. By chance, one of {n} candidates looks so good with probability {_chance(found.p * n)}."
            )
        if best.difference <= 0:
            why = f"{best.n_events:,} later events are no more likely with it than without a graph"
        elif best.over_shuffled <= best.difference / 2 or best.over_shuffled < 3:
            why = "it does little more for the later events than the same graph with its users shuffled"
        else:
            why = f"what it gains on {best.n_events:,} later events may be chance, with {n} candidates tried"
        return (
            f"No graph helps here: the best of {n} candidates is {best.name} ({described(best.name)}), and {why} "
            f"({best.difference:+,.1f} nats; shuffled {_range(best)})."
        )

    def __repr__(self) -> str:
        chosen = "no graph helps" if self.chosen is None else repr(self.chosen.name)
        return f"BuiltGraph({chosen} of {len(self.candidates)} candidates, {self.graph!r})"

    def __str__(self) -> str:
        lines = [fill(self.verdict, 100), ""]
        for name, edges, nats, rate, shuffled, p in (HEADINGS, *map(_cells, self.candidates)):
            lines.append(f"{name:28}{edges:>9}{nats:>11}{rate:>11}{shuffled:>20}{p:>9}")
        return "\n".join([*lines, "", LEGEND, "", *(fill(sentence, 100) for sentence in self.said)])

    def _repr_html_(self) -> str:
        return as_html(self.verdict, HEADINGS, map(_cells, self.candidates), [LEGEND, *self.said])

    def as_table(self) -> dict[str, Any]:
        """Everything but the graphs as plain JSON values."""
        rows = [
            {
                "name": candidate.name,
                "edges": candidate.n_edges,
                "events": candidate.n_events,
                "difference": candidate.difference,
                "per_event": candidate.per_event,
                "shuffled": list(candidate.shuffled),
                "p": candidate.p,
                "chosen": candidate.chosen,
            }
            for candidate in self.candidates
        ]
        size = {"users": self.graph.n_users, "edges": self.graph.n_edges, "judged_users": len(self.judged_users)}
        return {"verdict": self.verdict, "helps": self.helps, **size, "candidates": rows, "said": list(self.said)}

    def write(self, path: AnyPath) -> None:
        """Write the edges of the graph as a table with the columns user, friend and weight."""
        upper = sparse.triu(self.graph.adjacency, k=1).tocoo()
        ids = np.array(self.graph.ids, dtype=object)
        columns = {"user": ids[upper.row].tolist(), "friend": ids[upper.col].tolist(), "weight": upper.data.tolist()}
        write_table(path, columns)

    def picture(self, path: AnyPath) -> None:
        """Write a picture of all candidates and their shuffles, in the format that the name says: .png or .svg."""
        from .built_picture import draw

        write_bytes(path, draw(self, str(path)))


def described(name: str) -> str:
    """Describe which users a candidate joins; a blend has the edges of both of its parts."""
    return " and ".join(WHAT[part] for part in name.split(" + "))


def _cells(candidate: Candidate) -> tuple[str, ...]:
    gain = f"{candidate.difference:+,.1f}", f"{candidate.per_event:+.4f}"
    name = f"{candidate.name}{' *' * candidate.chosen}"
    return name, f"{candidate.n_edges:,}", *gain, _range(candidate), _chance(candidate.p)


def _range(candidate: Candidate) -> str:
    ends = candidate.shuffled
    return f"{min(ends):+,.0f} to {max(ends):+,.0f}" if ends else "-"


def _chance(p: float) -> str:
    return "<1e-6" if p < 1e-6 else f"{min(p, 1.0):.2g}"
