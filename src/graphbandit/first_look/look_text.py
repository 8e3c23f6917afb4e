"""A first look in words: the verdict, what the data cannot tell, how to go on."""

from __future__ import annotations

from textwrap import fill

from .assessment import FirstLook
from .contenders import ADAPTIVE
from .lifts import LiftInterval

HITS_UNIT = "hits a choice"
REWARDS_UNIT = "reward a choice"


def what_is_counted(found: FirstLook) -> str:
    """Name the unit of a reward."""
    return HITS_UNIT if found.rounds is not None and found.rounds.protocol == "hits" else REWARDS_UNIT


def number(value: float) -> str:
    """Three digits, with a sign.

    >>> number(0.12345), number(-3.0)
    ('+0.123', '-3.000')
    """
    return f"{value:+.3f}" if abs(value) < 100 else f"{value:+,.0f}"


def span(found: LiftInterval) -> str:
    """A difference and its interval."""
    if found.verdict == "too few":
        return f"{number(found.value)} ({found.users} users are too few for an interval)" if found.users else "none"
    return f"{number(found.value)} ({number(found.low)} to {number(found.high)})"


def headline(found: FirstLook) -> list[str]:
    """The answer in a few sentences, the first of which says yes or no."""
    if found.evaluation is not None:
        return [found.built.sentence, *(standing.finding() for standing in found.evaluation.policies)]
    base = found.baseline
    lift, graph = found.lifts[base], found.graph_lift
    said = {
        "more": f"Yes: {found.ours} earns more than a tuned LinUCB here",
        "less": f"No: {found.ours} earns less than a tuned LinUCB here",
        "not told apart": f"Not clear: {found.ours} and a tuned LinUCB cannot be told apart here",
        "too few": "Not clear: there are too few users",
    }[lift.verdict]
    assert found.rounds is not None
    own = next(float(one.reward.mean()) for one in found.played if one.name == found.ours)
    details = f"{own:.3f} {what_is_counted(found)}, {span(lift)} against {base}, over {len(found.rounds):,} rounds."
    better = [name for name, other in found.lifts.items() if other.verdict == "less" and name != base]
    more = [f"{' and '.join(better)}, tuned, {'earns' if len(better) == 1 else 'earn'} more still."] if better else []
    return [f"{said}.", details, *more, _graph_sentence(found, graph)]


def _graph_sentence(found: FirstLook, graph: LiftInterval | None) -> str:
    if found.ours != ADAPTIVE or graph is None:
        return f"{found.built.sentence} So AdaptiveGraphUCB was played without edges, and GraphUCB-Local not at all."
    effect = {
        "more": "earns more with it",
        "less": "earns less with it",
        "not told apart": "earns about the same with it and without it",
        "too few": "was played by too few users to say what it earns",
    }[graph.verdict]
    name = found.built.chosen.name if found.built.chosen is not None else ""
    return (
        f"The graph that predicts later events best is {name!r}; {ADAPTIVE} {effect}: {span(graph)} {what_is_counted(found)}."
    )


def protocol(found: FirstLook) -> str:
    """Describe how the policies were compared."""
    if found.rounds is None:
        return (
            "The log has propensities, so that the reward of other choices can be estimated from it (off-policy, doubly "
            "robust): policies are trained on the first half of the log and judged on the rest."
        )
    if found.rounds.protocol == "hits":
        return (
            "The log has only what was taken, so this is a replay with drawn items: in every round a policy chooses among "
            "one item that the user took later and up to 24 that it never took, drawn by popularity, so that to know what "
            "is popular is worth nothing, or less. Hits are not clicks: an item that was never shown may have been liked."
        )
    return (
        "The log has no propensities, so this is a replay of what was shown: in every round a policy chooses half of up to "
        "ten items that the user rewarded later, one after the other, and learns the reward of each. Whoever chose these "
        "items chose well or badly before us: what nobody tried is not in the log."
    )


def cannot_tell(found: FirstLook) -> list[str]:
    """List the questions that the data cannot answer."""
    sentences = []
    if found.rounds is not None:
        sentences.append(
            "What items that were never shown would have earned: there are no propensities. Serve with --epsilon to log some."
        )
        if found.rounds.protocol == "hits":
            sentences.append("Whether an item was seen and not wanted, or never seen: a miss may be either.")
        per_user = len(found.rounds) / max(1, len(set(found.rounds.round_user.tolist())))
        sentences.append(f"What exploration is worth: a user has {per_user:.1f} rounds here, too few for it to pay.")
        sentences.append("How a policy changes what users do next: a replay takes their later events as they are.")
    if not any("in order of time" in sentence for sentence in found.said):
        sentences.append(
            "What came first: without times, later events are a part of each user's rows, and drift cannot be seen."
        )
    if found.n_users < 100:
        sentences.append(f"Much about differences between users: there are {found.n_users}.")
    sentences.append("Whether tastes will stay as they are. `AdaptiveGraphUCB(half_life=...)` follows those that drift.")
    return sentences


def serve_line(found: FirstLook, folder: str) -> str:
    """The command that serves what was looked at, trained on its events, without a graph if none helps."""
    files = f"--graph {folder}/edges.csv " * found.built.helps + f"--items {folder}/arms.csv --history {folder}/history.parquet"
    return f"graphbandit serve {files} --store sqlite:///{folder}/state.db --epsilon 0.05"


def played_table(found: FirstLook) -> tuple[tuple[str, str, str], list[tuple[str, str, str]]]:
    """Return headings and rows of a table: what each policy earned, the best first, and the lift over it."""
    best_first = sorted(found.played, key=lambda one: -one.reward.mean())
    lifts = {name: span(lift) for name, lift in found.lifts.items()}
    rows = [(one.name, f"{one.reward.mean():.4f}", lifts.get(one.name, "")) for one in best_first]
    return ("policy", what_is_counted(found), f"lift of {found.ours}"), rows


def as_text(found: FirstLook, folder: str) -> str:
    """Return the text that the command prints."""
    lines = [fill(sentence, 100) for sentence in headline(found)]
    if found.played:
        headings, rows = played_table(found)
        lines += ["", *(f"{name:38}{earned:>16}   {lift}" for name, earned, lift in (headings, *rows))]
    if found.by_group:
        lines += ["", f"For whom, against {found.baseline}:"]
        lines += [f"  {group.name}: {span(group.lift)}" for group in found.by_group if group.lift.rounds]
    lines += ["", "What this cannot tell:", *(fill(f"- {one}", 100, subsequent_indent="  ") for one in cannot_tell(found))]
    lines += ["", f"The whole page: {folder}/index.html", f"To go on: {serve_line(found, folder)}"]
    return "\n".join(lines)
