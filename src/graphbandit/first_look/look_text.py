"""A first look in words: the verdict, what the data cannot tell, how to go on."""

from __future__ import annotations

from textwrap import fill

from .contenders import ADAPTIVE
from .lifts import Interval
from .look import FirstLook

HITS_UNIT = "hits a choice"
REWARDS_UNIT = "reward a choice"


def unit(look: FirstLook) -> str:
    """What is counted."""
    return HITS_UNIT if look.rounds is not None and look.rounds.protocol == "hits" else REWARDS_UNIT


def number(value: float) -> str:
    """Three digits, with a sign.

    >>> number(0.12345), number(-3.0)
    ('+0.123', '-3.000')
    """
    return f"{value:+.3f}" if abs(value) < 100 else f"{value:+,.0f}"


def span(found: Interval) -> str:
    """A difference and its interval."""
    if found.verdict == "too few":
        return f"{number(found.value)} ({found.users} users are too few for an interval)" if found.users else "none"
    return f"{number(found.value)} ({number(found.low)} to {number(found.high)})"


def headline(look: FirstLook) -> list[str]:
    """The answer in a few sentences, the first of which says yes or no."""
    if look.evaluation is not None:
        return [look.built.verdict, *(standing.finding() for standing in look.evaluation.standings)]
    base = look.baseline
    lift, graph = look.lifts[base], look.graph_lift
    said = {
        "more": f"Yes: {look.best} earns more than a tuned LinUCB here",
        "less": f"No: {look.best} earns less than a tuned LinUCB here",
        "not told apart": f"Not clear: {look.best} and a tuned LinUCB cannot be told apart here",
        "too few": "Not clear: there are too few users",
    }[lift.verdict]
    assert look.rounds is not None
    own = next(float(one.reward.mean()) for one in look.played if one.name == look.best)
    details = f"{own:.3f} {unit(look)}, {span(lift)} against {base}, over {len(look.rounds):,} rounds."
    better = [name for name, other in look.lifts.items() if other.verdict == "less" and name != base]
    more = [f"More still {'earns' if len(better) == 1 else 'earn'} {', '.join(better)}."] if better else []
    return [f"{said}.", details, *more, _graph_sentence(look, graph)]


def _graph_sentence(look: FirstLook, graph: Interval | None) -> str:
    if look.best != ADAPTIVE or graph is None:
        return f"{look.built.verdict} What is compared here learns users together, without edges."
    effect = {
        "more": "earns more with it",
        "less": "earns less with it",
        "not told apart": "earns about the same with it and without it",
        "too few": "was played by too few users to say what it earns",
    }[graph.verdict]
    name = look.built.chosen.name if look.built.chosen is not None else ""
    return f"The graph that predicts later events best is {name!r}; {ADAPTIVE} {effect}: {span(graph)} {unit(look)}."


def protocol(look: FirstLook) -> str:
    """How the policies were compared, honestly."""
    if look.rounds is None:
        return (
            "The log has propensities, so that the reward of other choices can be estimated from it (off-policy, doubly "
            "robust): policies are trained on the first half of the log and judged on the rest."
        )
    if look.rounds.protocol == "hits":
        return (
            "The log has only what was taken, so this is a replay with drawn items: in every round a policy chooses among "
            "one item that the user took later and up to 24 that it never took, drawn by popularity. Hits are not clicks: "
            "an item that was never shown may have been liked."
        )
    return (
        "The log has no propensities, so this is a replay of what was shown: in every round a policy chooses half of up to "
        "ten items that the user rewarded later, one after the other, and learns the reward of each. Whoever chose these "
        "items chose well or badly before us: what nobody tried is not in the log."
    )


def cannot_tell(look: FirstLook) -> list[str]:
    """What the data cannot tell."""
    found = []
    if look.rounds is not None:
        found.append(
            "What items that were never shown would have earned: there are no propensities. Serve with --epsilon to log some."
        )
        if look.rounds.protocol == "hits":
            found.append("Whether an item was seen and not wanted, or never seen: a miss may be either.")
        per_user = len(look.rounds) / max(1, len(set(look.rounds.round_user.tolist())))
        found.append(f"What exploration is worth: a user has {per_user:.1f} rounds here, too few for it to pay.")
        found.append("How a policy changes what users do next: a replay takes their later events as they are.")
    if not any("in order of time" in sentence for sentence in look.said):
        found.append("What came first: without times, later events are a part of each user's rows, and drift cannot be seen.")
    if look.n_users < 100:
        found.append(f"Much about differences between users: there are {look.n_users}.")
    found.append("Whether tastes will stay as they are. `AdaptiveGraphUCB(half_life=...)` follows those that drift.")
    return found


def serve_line(folder: str) -> str:
    """The command that serves what was looked at."""
    files = f"--graph {folder}/edges.csv --arms {folder}/arms.csv"
    return f"graphbandit serve {files} --store sqlite:///{folder}/state.db --epsilon 0.05"


def as_text(look: FirstLook, folder: str) -> str:
    """What the command prints."""
    lines = [fill(sentence, 100) for sentence in headline(look)]
    if look.played:
        lines += ["", f"{'policy':38}{unit(look):>16}   lift of {look.best}"]
        for one in sorted(look.played, key=lambda one: -one.reward.mean()):
            own = span(look.lifts[one.name]) if one.name in look.lifts else ""
            lines.append(f"{one.name:38}{one.reward.mean():>16.4f}   {own}")
    if look.by_group:
        lines += ["", f"For whom, against {look.baseline}:"]
        lines += [f"  {group.name}: {span(group.lift)}" for group in look.by_group if group.lift.rounds]
    lines += ["", "What this cannot tell:", *(fill(f"- {one}", 100, subsequent_indent="  ") for one in cannot_tell(look))]
    lines += ["", f"The whole page: {folder}/index.html", f"To go on: {serve_line(folder)}"]
    return "\n".join(lines)
