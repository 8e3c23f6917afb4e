"""A first look as one self-contained HTML page, readable offline."""

from __future__ import annotations

import html
from collections.abc import Sequence
from importlib.resources import files as package_files

import numpy as np

from ..experiments.tune import describe
from ..plots.drawing import has_matplotlib, image_tag
from ..plots.evidence_plot import evidence
from ..plots.user_graphs import tastes
from ..policies import AdaptiveGraphUCB
from . import look_text
from .assessment import FirstLook
from .contenders import ADAPTIVE
from .lifts import LiftInterval, clustered_interval

escape = html.escape
MOST_DRAWN = 1000
"""Users of a graph that is drawn: more would be a blot."""


def render(found: FirstLook, folder: str) -> str:
    """The page: the template, filled. Whatever comes from the data is escaped."""
    page = package_files(__package__) / "page"
    first, *rest = look_text.headline(found)
    parts = {
        "style": (page / "page.css").read_text(encoding="utf-8"),
        "name": escape(found.name),
        "verdict": escape(first),
        "more": "".join(f"<p>{escape(sentence)}</p>" for sentence in rest),
        "facts": facts(found),
        "policies": policies(found) if found.played else estimates(found),
        "protocol": escape(look_text.protocol(found)),
        "graph": graph(found),
        "groups": groups(found),
        "learned": learned(found),
        "serve": escape(look_text.serve_line(found, folder)),
        "arguments": escape(f"{folder + '/edges.csv'!r}" if found.built.helps else ""),
        "events": escape(repr(found.name)),
        "cannot": listed(look_text.cannot_tell(found)),
        "guessed": listed(found.said),
        "features": escape(found.features),
    }
    text = (page / "template.html").read_text(encoding="utf-8")
    for name, part in parts.items():
        text = text.replace(f"{{{{{name}}}}}", part)
    return text


def facts(found: FirstLook) -> str:
    """The sizes, as tiles."""
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
    axis = f"{low:.3g} to {high:.3g} {look_text.what_is_counted(found)}"
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
    """The lift over LinUCB for newcomers and others, as intervals around zero."""
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
    head = f"<tr><th>users</th><th>{-size:.2g} to {size:+.2g}</th><th>lift over {escape(found.baseline)}</th></tr>"
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
    """A mean as a dot and its interval as a line, on an axis from low to high."""

    def at(value: float) -> float:
        return 2 + 96 * (min(max(value, low), high) - low) / (high - low)

    parts = []
    if zero:
        parts.append(f'<line class="zero" x1="{at(0):.1f}" x2="{at(0):.1f}" y1="0" y2="20"/>')
    if not np.isnan(found.low):
        parts.append(f'<line class="span" x1="{at(found.low):.1f}" x2="{at(found.high):.1f}" y1="10" y2="10"/>')
    text = look_text.span(found) if zero else f"{found.value:.4f}"
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
    return f'<span class="{kind}">{escape(look_text.span(lift))}</span>'
