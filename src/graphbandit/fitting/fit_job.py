"""`FitJob`: what is to be fitted to what, read and checked."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..compute.arrays import Floats, Ints
from ..graph import UserGraph
from ..graphs import read_edges
from ..recommending import Features, Recommender
from ..recommending.policy_choice import PolicyChoice
from ..storage.columns import EDGES, EVENTS, ITEMS, is_feature
from ..storage.tables import Source, columns_by_table, read_table, skipped_rows
from ..validate import LARGEST_FEATURE
from .event_files import EventFiles
from .log_survey import PieceFacts, Survey, survey_log

Progress = Callable[[str, int, int], None]
"""`progress(what, rows, total)`: what is being done, and how far it is."""
Say = Callable[[str], None]


class FitTables(NamedTuple):
    """The tables of a job, and how to read them."""

    events: Path
    graph: Any  # table of edges, UserGraph or None
    arms: Source
    columns: Mapping[str, str] | None = None
    skip_bad: bool = False


class ChosenPolicy(NamedTuple):
    """The policy of a job."""

    policy: str = "adaptive"
    params: Mapping[str, Any] | None = None
    epsilon: float = 0.0
    seed: int = 0


class FitJob:
    """A log, a recommender without data to begin with, and who hears of it.

    Parameters
    ----------
    tables : FitTables
    chosen : ChosenPolicy
    progress, say : functions
        Hear how far it is, and sentences about what was guessed and skipped.
    """

    def __init__(self, tables: FitTables, chosen: ChosenPolicy, progress: Progress | None, say: Say | None) -> None:
        PolicyChoice.of(*chosen)  # a wrong setting is refused before anything is read
        self.chosen, self.skip_bad = chosen, tables.skip_bad
        self.progress: Progress = progress or (lambda what, done, total: None)
        self.say: Say = say or (lambda sentence: None)
        roles = {"events": (tables.events, EVENTS), "graph": (tables.graph, EDGES), "arms": (tables.arms, ITEMS)}
        said = columns_by_table(tables.columns or {}, roles)
        graph = tables.graph
        if graph is not None and not isinstance(graph, UserGraph):
            graph = read_edges(graph, columns=said["graph"], skip_bad=tables.skip_bad, say=self.say)
        arms = read_table(tables.arms, ITEMS, name="arms", columns=said["arms"], skip_bad=tables.skip_bad, say=self.say)
        given = sum(map(is_feature, arms.head))
        features = Features.as_given(given) if given else None
        self.recommender = Recommender(graph, arms, features=features, **chosen._asdict())
        self.users_given = len(self.recommender.user_names)
        self.arms = {name: version for version, name in enumerate(self.recommender.catalogue.names)}
        if not self.arms:
            raise ValueError(f"{arms.name} has no arms.")
        self.vectors: Floats = self.recommender.catalogue.whole_vectors(self.recommender.catalogue.rows)
        if not (np.abs(self.vectors) <= LARGEST_FEATURE).all():
            raise ValueError(f"{arms.name}: features must be finite and at most {LARGEST_FEATURE:g} in size.")
        self.items: Ints = np.arange(len(self.arms), dtype=np.int64)
        self.files = EventFiles(tables.events, said["events"], skip_bad=tables.skip_bad)
        for sentence in self.files.said:
            self.say(sentence)

    @property
    def dim(self) -> int:
        """Number of features."""
        return int(self.vectors.shape[1])

    def digest(self) -> str:
        """What tells this job from others."""
        graph = self.recommender.user_names.graph().adjacency
        said = dict(self.chosen._asdict(), skip_bad=self.skip_bad, files=self.files.digest())
        digest = hashlib.blake2b(json.dumps(said, sort_keys=True, default=str).encode(), digest_size=16)
        for names in (self.recommender.user_names.names, self.arms):
            digest.update("\n".join(names).encode())
        for array in (graph.data, graph.indices, graph.indptr, self.vectors):
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()

    def survey(self) -> Survey:
        """Look through the log; a ValueError if a row is bad, unless such rows are skipped."""

        def show(facts: PieceFacts, rows: int) -> None:
            if facts.bad and not self.skip_bad:
                raise ValueError(f"{facts.why}; --skip-bad leaves such rows out.")
            self.progress("checking", rows, self.files.rows)

        return survey_log(self.files, set(self.recommender.user_names.names), self.arms, show)

    def take(self, survey: Survey) -> None:
        """Let the users of the log join, and say what it is like."""
        if not survey.rows:
            raise ValueError(f"{self.files.root} has no rows that can be learned.")
        if survey.bad:
            self.say(skipped_rows(str(self.files.root), survey.bad, f"the first is {survey.why}"))
        low, high = survey.reward_range
        if low == high:
            self.say(f"{self.files.root}: all rewards are {low:g}, so that nothing can be learned of what users like less.")
        names = self.recommender.user_names
        names.adopt(survey.integer_users)
        names.add(survey.joining)

    def summary(self, survey: Survey) -> dict[str, Any]:
        """What a model was fitted to, as plain JSON values."""
        timed = [facts for facts in survey.facts if facts.times]
        span = [min(facts.earliest for facts in timed), max(facts.latest for facts in timed)] if timed else None
        names = self.recommender.user_names.names
        return {
            **self.chosen._asdict(),
            "params": dict(self.chosen.params or {}),
            "rows": survey.rows,
            "skipped": survey.bad + self.files.skipped,
            "users": len(names),
            "joined": len(survey.joining),
            "arms": len(self.arms),
            "dim": self.dim,
            "files": len(self.files.paths),
            "times": span,
            "time_kind": timed[0].times if timed else None,
        }
