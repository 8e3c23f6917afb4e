"""A first look in words, as one self-contained HTML page, and as the files that `serve` takes."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from importlib.resources import files as package_files
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np

from ..experiments.tune import describe
from ..plots.drawing import has_matplotlib, image_tag
from ..plots.evidence_plot import evidence
from ..plots.user_graphs import tastes
from ..policies import AdaptiveGraphUCB
from ..storage.atomic import AnyPath, write_text
from ..tables import write_table
from .assessment import FirstLook
from .replay import ADAPTIVE, LiftInterval, clustered_interval

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
    """Format a difference and its interval."""
    if found.verdict == "too few":
        return f"{number(found.value)} ({found.users} users are too few for an interval)" if found.users else "none"
    return f"{number(found.value)} ({number(found.low)} to {number(found.high)})"


def headline(found: FirstLook) -> list[str]:
    """Return the answer in a few sentences, the first of which says yes or no."""
    if found.evaluation is not None:
        return [found.built.sentence, *(standing.finding() for standing in found.evaluation.policies)]
    rival = next(one for one in found.played if one.name == found.rival)
    own = next(one for one in found.played if one.name == found.ours)
    lift, what = found.lifts[rival.name], "a plain baseline" if rival.is_plain else "another policy"
    said = {
        "more": f"Yes: {found.ours} earns the most here, more than {rival.name}",
        "less": f"No: {what} earns the most here, {rival.name}",
        "not told apart": f"Not clear: {found.ours} and {what}, {rival.name}, cannot be told apart here",
        "too few": "Not clear: there are too few users",
    }[lift.verdict]
    means = f"{own.reward.mean():.3f} against {rival.reward.mean():.3f} {what_is_counted(found)}"
    assert found.rounds is not None
    details = f"{means}, {span(lift)}, over {len(found.rounds):,} rounds."
    sentences = [f"{said}.", details]
    if not rival.is_plain:
        plain = max((one for one in found.played if one.is_plain), key=lambda one: float(one.reward.mean()))
        sentences.append(
            f"The best plain baseline is {plain.name}, {plain.reward.mean():.3f}: {span(found.lifts[plain.name])}."
        )
    return [*sentences, _graph_sentence(found, found.graph_lift)]


def _graph_sentence(found: FirstLook, graph: LiftInterval | None) -> str:
    if found.ours != ADAPTIVE or graph is None:
        return f"{found.built.sentence} So policies were played without a graph."
    effect = {
        "more": "earns more with it",
        "less": "earns less with it",
        "not told apart": "earns about the same with it and without it",
        "too few": "was played by too few users to say what it earns",
    }[graph.verdict]
    return f"{found.built.sentence} {ADAPTIVE} {effect}: {span(graph)} {what_is_counted(found)}."


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


def serve_line(folder: str) -> str:
    """Return the command that serves the best policy with the settings that were measured, trained on all events."""
    return f"graphbandit serve --config {folder}/serve.toml"


def serve_config(found: FirstLook, folder: str) -> str:
    """Return the settings of `serve` as TOML."""
    one = found.deployed
    files = {"graph": f"{folder}/edges.csv"} if one.uses_graph else {}
    files |= {"items": f"{folder}/items.csv", "history": f"{folder}/history.parquet", "store": f"sqlite:///{folder}/state.db"}
    lines = [f"# {one.name}", *(f"{name} = {json.dumps(value)}" for name, value in (files | {"policy": one.policy}).items())]
    return "\n".join([*lines, "", "[params]", *(f"{name} = {json.dumps(value)}" for name, value in one.params.items())]) + "\n"


def python_lines(found: FirstLook, folder: str) -> str:
    """Return Python code that makes the same policy and recommends."""
    one, width = found.deployed, sum(name[0] == "x" and name[1:].isdecimal() for name in found.items)
    graph = f"{folder}/edges.csv" if one.uses_graph else None
    user = next(iter(found.history["user"]))
    return f"""import graphbandit as gb

recommender = gb.Recommender(
    {graph!r},
    {f"{folder}/items.csv"!r},
    features=gb.Features.as_given({width}),
    policy={one.policy!r},
    params={dict(one.params)!r},
)
recommender.fit({f"{folder}/history.parquet"!r})
print(recommender.recommend({user!r}, k=5))"""


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
        lines += ["", f"For whom, against {found.rival}:"]
        lines += [f"  {group.name}: {span(group.lift)}" for group in found.by_group if group.lift.rounds]
    lines += ["", "What this cannot tell:", *(fill(f"- {one}", 100, subsequent_indent="  ") for one in cannot_tell(found))]
    lines += ["", f"The whole page: {folder}/index.html", f"To go on: {serve_line(folder)}"]
    return "\n".join(lines)


def write_look(found: FirstLook, folder: AnyPath) -> Path:
    """Write index.html, look.json, serve.toml, items.csv, history.parquet and, if a graph helps, edges.csv; return the page."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_table(folder / "items.csv", dict(found.items))
    write_table(folder / "history.parquet", {name: list(column) for name, column in found.history.items()})
    if found.built.helps:
        found.built.write(folder / "edges.csv")
    write_text(folder / "serve.toml", serve_config(found, str(folder)))
    write_text(folder / "look.json", json.dumps(look_table(found), indent=2, ensure_ascii=False))
    write_text(folder / "index.html", render(found, str(folder)))
    return folder / "index.html"


def look_table(found: FirstLook) -> dict[str, Any]:
    """Everything but vectors and policies as plain JSON values."""
    return {
        "events": found.n_events,
        "users": found.n_users,
        "items": found.n_items,
        "verdict": headline(found),
        "protocol": protocol(found),
        "deployed": found.deployed._asdict(),
        "policies": [{"policy": one.name, "mean": float(one.reward.mean()), "settings": one.settings} for one in found.played],
        "lifts": {name: _numbers(lift) for name, lift in found.lifts.items()},
        "for_whom": [{"users": group.name, **_numbers(group.lift)} for group in found.by_group],
        "graph": found.built.as_table(),
        "evaluation": None if found.evaluation is None else found.evaluation.as_table(),
        "cannot_tell": cannot_tell(found),
        "guessed": list(found.said),
        "features": found.features,
    }


def _numbers(found: Any) -> dict[str, Any]:
    table = {name: None if value != value else value for name, value in found._asdict().items()}
    return table | {"verdict": found.verdict}


escape = html.escape
MOST_DRAWN = 1000
"""Users of a graph that is drawn: more would be a blot."""


def render(found: FirstLook, folder: str) -> str:
    """Fill the template of the page; text from the data is escaped."""
    page = package_files(__package__) / "page"
    first, *rest = headline(found)
    parts = {
        "style": (page / "page.css").read_text(encoding="utf-8"),
        "name": escape(found.name),
        "verdict": escape(first),
        "more": "".join(f"<p>{escape(sentence)}</p>" for sentence in rest),
        "facts": facts(found),
        "policies": policies(found) if found.played else estimates(found),
        "protocol": escape(protocol(found)),
        "graph": graph(found),
        "groups": groups(found),
        "learned": learned(found),
        "serve": escape(serve_line(folder)),
        "deployed": escape(found.deployed.name),
        "python": escape(python_lines(found, folder)),
        "cannot": listed(cannot_tell(found)),
        "guessed": listed(found.said),
        "features": escape(found.features),
    }
    text = (page / "template.html").read_text(encoding="utf-8")
    for name, part in parts.items():
        text = text.replace(f"{{{{{name}}}}}", part)
    return text


def facts(found: FirstLook) -> str:
    """Return the sizes, as tiles."""
    shown = [("events", found.n_events), ("users", found.n_users), ("items", found.n_items)]
    shown.append(("edges", found.built.graph.n_edges))
    if found.rounds is not None:
        shown.append(("rounds played", len(found.rounds)))
    return "".join(f"<div><b>{value:,}</b><span>{name}</span></div>" for name, value in shown)


def policies(found: FirstLook) -> str:
    """Mean rewards of all contenders as bars with intervals, and the lift over each."""
    assert found.rounds is not None
    ranked = sorted(found.played, key=lambda one: -one.reward.mean())
    spans = [clustered_interval(one.reward, found.rounds.round_user) for one in ranked]
    ends = [value for span in spans for value in (span.value, span.low, span.high) if not np.isnan(value)]
    low, high = _axis(min(ends), max(ends))
    rows = []
    for one, span in zip(ranked, spans, strict=True):
        lift = found.lifts.get(one.name)
        settings = f"<small>{escape(describe(one.settings))}</small>" if one.settings else ""
        own = "—" if lift is None else _coloured(lift)
        mark = ' class="ours"' if one.name == found.ours else ""
        rows.append(
            f'<tr{mark}><th scope="row">{escape(one.name)}{settings}</th><td class="wide">{bar(span, low, high)}</td>'
            f"<td>{span.value:.3f}</td><td>{own}</td></tr>"
        )
    axis = f"{low:.3g} to {high:.3g} {what_is_counted(found)}"
    head = f"<tr><th>policy</th><th>{axis}</th><th>mean</th><th>lift over it</th></tr>"
    return f'<div class="scroll"><table><thead>{head}</thead><tbody>{"".join(rows)}</tbody></table></div>'


def estimates(found: FirstLook) -> str:
    """Off-policy estimates of all contenders."""
    assert found.evaluation is not None
    rows = []
    for one in found.evaluation.policies:
        shown = "—" if one.dr is None else f"{one.dr.value:.4g} ({one.dr.low:.4g} to {one.dr.high:.4g})"
        gain = "—" if one.gain is None else f"{one.gain.value:+.4g} ({one.gain.low:+.4g} to {one.gain.high:+.4g})"
        why = "".join(f"<small>{escape(warning)}</small>" for warning in one.warnings)
        rows.append(f'<tr><th scope="row">{escape(one.policy)}{why}</th><td>{shown}</td><td>{gain}</td></tr>')
    head = "<tr><th>policy</th><th>would earn a round</th><th>more than was logged</th></tr>"
    return f'<div class="scroll"><table><thead>{head}</thead><tbody>{"".join(rows)}</tbody></table></div>'


def graph(found: FirstLook) -> str:
    """Write the verdict on the graph, and all candidates."""
    built = found.built
    rows = [
        f'<tr{" class=ours" * (one is built.chosen)}><th scope="row">{escape(one.name)}<small>{escape(one.joins)}</small></th>'
        f"<td>{one.graph.n_edges:,}</td><td>{one.gain:+.2%}</td></tr>"
        for one in built.candidates
    ]
    head = "<tr><th>candidate</th><th>edges</th><th>share of later rewards’ variance gained</th></tr>"
    table = f'<div class="scroll"><table><thead>{head}</thead><tbody>{"".join(rows)}</tbody></table></div>' if rows else ""
    drawn = image_tag(built.figure(), built.sentence) if rows and has_matplotlib() else ""
    details = f"<details><summary>Details</summary><p>{escape(built.verdict.details())}</p></details>"
    return f"<p>{escape(built.sentence)}</p>{drawn}{table}{details}"


def groups(found: FirstLook) -> str:
    """Return the lift over LinUCB for newcomers and others, as intervals around zero."""
    shown = [group for group in found.by_group if group.lift.rounds]
    if not shown:
        return "<p>Nothing was played user by user.</p>"
    ends = [abs(end) for group in shown for end in group.lift[:3] if not np.isnan(end)]
    size = max(ends) * 1.1 or 1.0
    rows = "".join(
        f'<tr><th scope="row">{escape(group.name)}<small>{group.lift.users:,} users, {group.lift.rounds:,} rounds</small></th>'
        f'<td class="wide">{bar(group.lift, -size, size, zero=True)}</td><td>{_coloured(group.lift)}</td></tr>'
        for group in shown
    )
    head = f"<tr><th>users</th><th>{-size:.2g} to {size:+.2g}</th><th>lift over {escape(found.rival)}</th></tr>"
    return f'<div class="scroll"><table><thead>{head}</thead><tbody>{rows}</tbody></table></div>'


def learned(found: FirstLook) -> str:
    """Write what the policy says about the graph, and the items with the highest mean reward."""
    said = f"<p>{escape(found.learned)}</p>" if found.learned else ""
    if found.favourites:
        names = ", ".join(f"<b>{escape(name)}</b> ({value:.2f})" for name, value in found.favourites)
        said += f"<p>An average user is expected to like best: {names}.</p>"
    said += _pictures(found)
    return said or "<p>Policies were judged off-policy; none was left to ask.</p>"


def _pictures(found: FirstLook) -> str:
    """Plot the weights of the policy's models over time and, if the graph can be drawn, its users by taste."""
    policy = next((one.policy for one in found.played if one.name == ADAPTIVE), None)
    if not isinstance(policy, AdaptiveGraphUCB) or not has_matplotlib():
        return ""
    drawn = image_tag(evidence(policy, title="What decisions relied on"), "Weights of the models over time")
    if policy.n_users <= MOST_DRAWN:
        text = "The graph of users; neighbours with similar colours have similar tastes."
        drawn += image_tag(tastes(policy.graph, policy.theta, title="Users coloured by what was learned of them"), text)
    return drawn


def listed(sentences: Sequence[str]) -> str:
    """Sentences as a list."""
    return (
        "<ul>" + "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences) + "</ul>" if sentences else "<p>Nothing.</p>"
    )


def bar(found: LiftInterval, low: float, high: float, zero: bool = False) -> str:
    """Return a mean as a dot and its interval as a line, on an axis from low to high."""

    def at(value: float) -> float:
        return 2 + 96 * (min(max(value, low), high) - low) / (high - low)

    parts = []
    if zero:
        parts.append(f'<line class="zero" x1="{at(0):.1f}" x2="{at(0):.1f}" y1="0" y2="20"/>')
    if not np.isnan(found.low):
        parts.append(f'<line class="span" x1="{at(found.low):.1f}" x2="{at(found.high):.1f}" y1="10" y2="10"/>')
    text = span(found) if zero else f"{found.value:.4f}"
    return (
        f'<svg viewBox="0 0 100 20" preserveAspectRatio="none" role="img" aria-label="{escape(text)}">'
        f"<title>{escape(text)}</title>"
        f'{"".join(parts)}<line class="mean" x1="{at(found.value):.1f}" x2="{at(found.value):.1f}" y1="4" y2="16"/></svg>'
    )


def _axis(low: float, high: float) -> tuple[float, float]:
    room = 0.05 * (high - low) or 1.0
    return low - room, high + room


def _coloured(lift: LiftInterval) -> str:
    kind = {"more": "good", "less": "bad"}.get(lift.verdict, "even")
    return f'<span class="{kind}">{escape(span(lift))}</span>'
