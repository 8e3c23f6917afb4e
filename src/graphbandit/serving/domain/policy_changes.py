"""Changes of the policy in force: shadows, promotion, rollback and experiments.

This module goes from the request to the event, and from the event to the state.

| event | what it does |
|---|---|
| SHADOW_BEGUN | a second policy learns the whole log so far, and follows from here on |
| SHADOW_ENDED | the second policy is dropped |
| PROMOTED | the policy in force and its shadow change places |
| ROLLED_BACK | they change places again: the policy that was in force before is in force |
| EXPERIMENT_BEGUN | a share of the users, in whole clusters, gets the shadow's decisions |
| EXPERIMENT_ENDED | everybody gets the decisions of the policy in force |

A proposal raises `Conflict` if there is nothing to do. Another event may come between a proposal and its own event,
so applying checks again.
"""

from __future__ import annotations

import secrets
import time
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...evaluation.anytime_interval import FEWEST_CLUSTERS
from ...recommending.errors import Conflict
from .events import Draft, Event, EventKind, encode, parse_body
from .experiment import HoldoutExperiment, experiment_body
from .shadow import PolicySpec
from .user_clusters import cluster_users, cross_edge_share, draw_holdout, largest_cluster_size

if TYPE_CHECKING:
    from .service_state import ServiceState

POLICY_KINDS = frozenset(EventKind(number) for number in range(11, 17))
"""Events that say which policy decides. No policy learns from them."""
NO_SHADOW = "there is no shadow: start the service with --shadow, for example --shadow adaptive:half_life=200."
EXPERIMENT_RUNS = "an experiment compares the two policies: end it first, with DELETE /v1/experiment."
NOTHING_TO_UNDO = "there is no promotion to undo: no policy was promoted, or the former one was dropped."


class ProposedChange(NamedTuple):
    """A change of users, edges, arms or policies that is not in the log yet."""

    draft: Draft


def check_change(state: ServiceState, kind: EventKind) -> None:
    """Raise `Conflict` if an event of this kind would have no effect."""
    is_ending = kind in (EventKind.ROLLED_BACK, EventKind.EXPERIMENT_ENDED)
    if state.experiment is not None and not is_ending:
        raise Conflict("experiment", EXPERIMENT_RUNS)
    if state.experiment is None and kind == EventKind.EXPERIMENT_ENDED:
        raise Conflict("experiment", "no experiment is running.")
    if state.shadow is None and kind not in (EventKind.SHADOW_BEGUN, EventKind.EXPERIMENT_ENDED):
        raise Conflict("policy", NO_SHADOW)


# From a request to the event.


def begin_shadow(state: ServiceState, spec: PolicySpec) -> ProposedChange:
    """Begin a shadow: a second policy that follows the log."""
    return _change(state, EventKind.SHADOW_BEGUN, spec.body())


def end_shadow(state: ServiceState) -> ProposedChange:
    """End the shadow."""
    return _change(state, EventKind.SHADOW_ENDED, {})


def promote(state: ServiceState) -> ProposedChange:
    """Let the shadow decide for everybody; the policy in force becomes the shadow."""
    return _change(state, EventKind.PROMOTED, {"switch": state.switches})


def roll_back(state: ServiceState) -> list[ProposedChange]:
    """Undo the last promotion; a running experiment ends with it."""
    if not state.can_roll_back:
        raise Conflict("policy", NOTHING_TO_UNDO)
    return _back(state, "asked for")


def guardrail_proposals(state: ServiceState) -> list[ProposedChange]:
    """End the experiment and put the control in force if the guardrail is breached; otherwise propose nothing."""
    experiment = state.experiment
    if experiment is None or not experiment.is_breached(experiment.difference()):
        return []
    return _back(state, "guardrail")


def _back(state: ServiceState, reason: str) -> list[ProposedChange]:
    ended = [] if state.experiment is None else [end_experiment(state, reason)]
    return [*ended, _change(state, EventKind.ROLLED_BACK, {"switch": state.switches, "reason": reason})]


def begin_experiment(
    state: ServiceState, share: float, guardrail: float | None = None, largest_cluster: int | None = None
) -> ProposedChange:
    """Draw clusters of users for a holdout that gets the shadow's decisions.

    This reads every edge, so it takes some seconds on a large graph.
    """
    check_change(state, EventKind.EXPERIMENT_BEGUN)
    seed = secrets.randbits(32)
    adjacency = state.policy.graph.adjacency[: len(state.names), : len(state.names)]
    bound = largest_cluster_size(len(state.rows), share) if largest_cluster is None else largest_cluster
    clusters = cluster_users(adjacency, bound, seed)
    n_clusters = int(clusters.max(initial=-1)) + 1
    holdout = draw_holdout(n_clusters, share, seed)
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
    cut = cross_edge_share(adjacency, np.isin(clusters, holdout))
    body = experiment_body(clusters.tolist(), holdout, share, guardrail, seed, cut)
    return _change(state, EventKind.EXPERIMENT_BEGUN, body)


def end_experiment(state: ServiceState, reason: str = "asked for") -> ProposedChange:
    """Put the policy in force in charge of all users again."""
    begun = None if state.experiment is None else state.experiment.begun
    return _change(state, EventKind.EXPERIMENT_ENDED, {"experiment": begun, "reason": reason})


def _change(state: ServiceState, kind: EventKind, body: dict[str, Any]) -> ProposedChange:
    """Return the event as a proposal.

    Replicas that start together and begin or end the same shadow propose the same key, so that only one of the events
    is written.
    """
    check_change(state, kind)
    text, key = encode(body), None
    if kind in (EventKind.SHADOW_BEGUN, EventKind.SHADOW_ENDED):
        last = state.policy_history[-1]["event"] if state.policy_history else 0
        key = f"s{last}.{int(kind)}.{blake2b(text.encode(), digest_size=8).hexdigest()}"
    return ProposedChange(Draft(kind, time.time_ns() // 1000, text, key))


# From the event to the state.


def apply_policy_event(state: ServiceState, event: Event) -> None:
    """Change which policy decides; a ValueError if the event no longer fits the state."""
    body = parse_body(event.body)
    check_change(state, event.kind)
    match event.kind:
        case EventKind.SHADOW_BEGUN:
            if state.defers_shadow_replay:
                state.end_shadow()
                state.stale = True
                return
            spec = PolicySpec(body["policy"], body["params"], body["epsilon"], body["seed"])
            assert state.source is not None  # else `begin_shadow` would raise
            try:
                fresh = type(state).new(spec.initial_state(state.source.initial()), afresh=True)
                fresh.retracted = set(state.retracted)
                state.begin_shadow(fresh, spec, event.seq, POLICY_KINDS)
            except (TypeError, ValueError) as error:  # noted, so that a later request for the same shadow has another key
                state.record_change(event, f"shadow {spec.text} was refused", str(error))
                raise ValueError(f"shadow {spec.text} was refused: {error}") from None
            state.record_change(event, "a shadow began")
        case EventKind.SHADOW_ENDED:
            state.end_shadow()
            state.record_change(event, "the shadow ended")
        case EventKind.PROMOTED:
            _switch(state, event, body, "promoted", None)
        case EventKind.ROLLED_BACK:
            _switch(state, event, body, "rolled back", body.get("reason"))
        case EventKind.EXPERIMENT_BEGUN:
            experiment = HoldoutExperiment(event.seq, event.at, body)
            for row in range(len(experiment.clusters), len(state.names)):  # they joined since the draw
                experiment.joined(row, state.names[row], event.seq, dict(state.edges(row)))
            state.experiment = experiment
        case EventKind.EXPERIMENT_ENDED:
            if state.experiment is None or state.experiment.begun != body["experiment"]:
                raise Conflict("experiment", "the experiment has ended already.")
            state.end_experiment(event.at, body["reason"])


def _switch(state: ServiceState, event: Event, body: dict[str, Any], what: str, reason: str | None) -> None:
    if body["switch"] != state.switches:
        raise Conflict("policy", "the policies were exchanged by another request: read GET /v1/policy and repeat this request.")
    state.switch(is_promotion=what == "promoted")
    state.record_change(event, what, reason)
