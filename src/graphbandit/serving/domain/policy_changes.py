"""Which policy is in force: shadows, promotion, rollback and experiments, from the request to the
event and from the event to the state.

| event | what it does |
|---|---|
| SHADOW_BEGUN | a second policy learns the whole log so far, and follows from here on |
| SHADOW_ENDED | it is given up |
| PROMOTED | the policy in force and its shadow change places |
| ROLLED_BACK | they change places again: what was in force before is in force |
| EXPERIMENT_BEGUN | a share of the users, in whole clusters, gets the shadow's decisions |
| EXPERIMENT_ENDED | everybody gets the decisions of the policy in force |

A proposal raises `Conflict` if there is nothing to do. Since another event may come between a
proposal and its own, applying checks again.
"""

from __future__ import annotations

import secrets
import time
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...evaluation.anytime_interval import FEWEST_CLUSTERS
from ...recommending.errors import Conflict
from .drawn_clusters import cut_share, drawn_clusters, size_bound, user_clusters
from .events import Draft, Event, EventKind, encode, table_in
from .experiment import HoldoutExperiment, begin_body
from .shadow import PolicySpec

if TYPE_CHECKING:
    from .logged_recommender import LoggedRecommender

POLICY_KINDS = frozenset(EventKind(number) for number in range(11, 17))
"""Events that say which policy decides. No policy learns from them."""
NO_SHADOW = "there is no shadow: start the service with --shadow, for example --shadow adaptive:half_life=200."
EXPERIMENT_RUNS = "an experiment runs, which compares the two policies: end it first, with DELETE /v1/experiment."
NOTHING_TO_UNDO = "there is nothing to go back to: no policy was promoted, or its former one is gone."


class ProposedChange(NamedTuple):
    """A change of users, edges, arms or policies that is not in the log yet."""

    draft: Draft


def check_change(recommender: LoggedRecommender, kind: EventKind) -> None:
    """Raise `Conflict` if an event of this kind would have no effect."""
    is_ending = kind in (EventKind.ROLLED_BACK, EventKind.EXPERIMENT_ENDED)
    if recommender.experiment is not None and not is_ending:
        raise Conflict("experiment", EXPERIMENT_RUNS)
    if recommender.experiment is None and kind == EventKind.EXPERIMENT_ENDED:
        raise Conflict("experiment", "no experiment runs.")
    if recommender.shadow is None and kind not in (EventKind.SHADOW_BEGUN, EventKind.EXPERIMENT_ENDED):
        raise Conflict("policy", NO_SHADOW)


# From a request to the event.


def begin_shadow(recommender: LoggedRecommender, spec: PolicySpec) -> ProposedChange:
    """Let a second policy follow."""
    return _change(recommender, EventKind.SHADOW_BEGUN, spec.body())


def end_shadow(recommender: LoggedRecommender) -> ProposedChange:
    """Give up the shadow."""
    return _change(recommender, EventKind.SHADOW_ENDED, {})


def promote(recommender: LoggedRecommender) -> ProposedChange:
    """Let the shadow decide for everybody; the policy in force becomes the shadow."""
    return _change(recommender, EventKind.PROMOTED, {"switch": recommender.switches})


def roll_back(recommender: LoggedRecommender) -> list[ProposedChange]:
    """Undo the last promotion; a running experiment ends with it."""
    if not recommender.can_go_back:
        raise Conflict("policy", NOTHING_TO_UNDO)
    return _back(recommender, "asked for")


def guardrail_drafts(recommender: LoggedRecommender) -> list[ProposedChange]:
    """End the experiment and put the control in force, if the guardrail says so; else nothing."""
    experiment = recommender.experiment
    if experiment is None or not experiment.is_breached(experiment.difference()):
        return []
    return _back(recommender, "guardrail")


def _back(recommender: LoggedRecommender, reason: str) -> list[ProposedChange]:
    ended = [] if recommender.experiment is None else [end_experiment(recommender, reason)]
    return [*ended, _change(recommender, EventKind.ROLLED_BACK, {"switch": recommender.switches, "reason": reason})]


def begin_experiment(
    recommender: LoggedRecommender, share: float, guardrail: float | None = None, largest_cluster: int | None = None
) -> ProposedChange:
    """Draw clusters of users for a holdout that gets the shadow's decisions. Looks at every edge, so it takes a while."""
    check_change(recommender, EventKind.EXPERIMENT_BEGUN)
    seed = secrets.randbits(32)
    adjacency = recommender.policy.graph.adjacency[: len(recommender.names), : len(recommender.names)]
    bound = size_bound(len(recommender.rows), share) if largest_cluster is None else largest_cluster
    clusters = user_clusters(adjacency, bound, seed)
    n_clusters = int(clusters.max(initial=-1)) + 1
    holdout = drawn_clusters(n_clusters, share, seed)
    if min(len(holdout), n_clusters - len(holdout)) < FEWEST_CLUSTERS:
        advice = (
            "take a share nearer to 0.5, or smaller clusters"
            if n_clusters >= 2 * FEWEST_CLUSTERS
            else "there are too few users"
        )
        raise Conflict(
            "share",
            f"an experiment needs {FEWEST_CLUSTERS} clusters of users in each arm, but a share of {share:g} of the "
            f"{n_clusters} clusters here leaves one with fewer: {advice}.",
        )
    cut = cut_share(adjacency, np.isin(clusters, holdout))
    body = begin_body(clusters.tolist(), holdout, share, guardrail, seed, cut)
    return _change(recommender, EventKind.EXPERIMENT_BEGUN, body)


def end_experiment(recommender: LoggedRecommender, reason: str = "asked for") -> ProposedChange:
    """Let the policy in force decide for everybody again."""
    begun = None if recommender.experiment is None else recommender.experiment.begun
    return _change(recommender, EventKind.EXPERIMENT_ENDED, {"experiment": begun, "reason": reason})


def _change(recommender: LoggedRecommender, kind: EventKind, body: dict[str, Any]) -> ProposedChange:
    """Return the event. Processes that begin or end the same shadow after the same change, as replicas do that start together,
    propose the same key: one of the events is written."""
    check_change(recommender, kind)
    text, key = encode(body), None
    if kind in (EventKind.SHADOW_BEGUN, EventKind.SHADOW_ENDED):
        last = recommender.policy_history[-1]["event"] if recommender.policy_history else 0
        key = f"s{last}.{int(kind)}.{blake2b(text.encode(), digest_size=8).hexdigest()}"
    return ProposedChange(Draft(kind, time.time_ns() // 1000, text, key))


# From the event to the state.


def apply_policy_event(recommender: LoggedRecommender, event: Event) -> None:
    """Change which policy decides; raises a ValueError if the event no longer fits the state."""
    body = table_in(event.body)
    check_change(recommender, event.kind)
    match event.kind:
        case EventKind.SHADOW_BEGUN:
            if recommender.replays_aside:
                recommender.end_shadow()
                recommender.stale = True
                return
            spec = PolicySpec(body["policy"], body["params"], body["epsilon"], body["seed"])
            assert recommender.source is not None  # else `begin_shadow` would raise
            try:
                fresh = type(recommender).new(spec.initial_state(recommender.source.initial()), afresh=True)
                fresh.without = set(recommender.without)
                recommender.begin_shadow(fresh, spec, event.seq, POLICY_KINDS)
            except (TypeError, ValueError) as error:  # noted, so that a later request for the same shadow has another key
                recommender.note_change(event, f"shadow {spec.text} was refused", str(error))
                raise ValueError(f"shadow {spec.text} was refused: {error}") from None
            recommender.note_change(event, "a shadow began")
        case EventKind.SHADOW_ENDED:
            recommender.end_shadow()
            recommender.note_change(event, "the shadow ended")
        case EventKind.PROMOTED:
            _switch(recommender, event, body, "promoted", None)
        case EventKind.ROLLED_BACK:
            _switch(recommender, event, body, "rolled back", body.get("reason"))
        case EventKind.EXPERIMENT_BEGUN:
            experiment = HoldoutExperiment(event.seq, event.at, body)
            for row in range(len(experiment.clusters), len(recommender.names)):  # they joined since the draw
                experiment.joined(row, recommender.names[row], event.seq, dict(recommender.edges(row)))
            recommender.experiment = experiment
        case EventKind.EXPERIMENT_ENDED:
            if recommender.experiment is None or recommender.experiment.begun != body["experiment"]:
                raise Conflict("experiment", "no such experiment runs.")
            recommender.end_experiment(event.at, body["reason"])


def _switch(recommender: LoggedRecommender, event: Event, body: dict[str, Any], what: str, reason: str | None) -> None:
    if body["switch"] != recommender.switches:
        raise Conflict("policy", "the policies have changed places meanwhile.")
    recommender.switch(is_promotion=what == "promoted")
    recommender.note_change(event, what, reason)
