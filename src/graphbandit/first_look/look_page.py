"""A first look as one self-contained HTML page, readable offline."""

from __future__ import annotations

import html
from collections.abc import Sequence
from importlib.resources import files as package_files

import numpy as np

from ..experiments.tune import describe
from ..graph_building.built_graph import described
from . import look_text
from .lifts import Interval, interval
from .look import FirstLook

escape = html.escape


def render(look: FirstLook, folder: str) -> str:
    """The page: the template, filled. Whatever comes from the data is escaped."""
    page = package_files(__package__) / "page"
    first, *rest = look_text.headline(look)
    parts = {
        "style": (page / "page.css").read_text(encoding="utf-8"),
        "name": escape(look.name),
        "verdict": escape(first),
        "more": "".join(f"<p>{escape(sentence)}</p>" for sentence in rest),
        "facts": facts(look),
        "policies": policies(look) if look.played else estimates(look),
        "protocol": escape(look_text.protocol(look)),
        "graph": graph(look),
        "groups": groups(look),
        "learned": learned(look),
        "serve": escape(look_text.serve_line(folder)),
        "cannot": listed(look_text.cannot_tell(look)),
        "guessed": listed(look.said),
        "features": escape(look.features),
    }
    text = (page / "template.html").read_text(encoding="utf-8")
    for name, part in parts.items():
        text = text.replace(f"{{{{{name}}}}}", part)
    return text


def facts(look: FirstLook) -> str:
    """The sizes, as tiles."""
    shown = [("events", look.n_events), ("users", look.n_users), ("items", look.n_items)]
    shown.append(("edges", look.built.graph.n_edges))
    if look.rounds is not None:
        shown.append(("rounds played", len(look.rounds)))
    return "".join(f"<div><b>{value:,}</b><span>{name}</span></div>" for name, value in shown)


def policies(look: FirstLook) -> str:
    """Mean rewards of all contenders as bars with intervals, and the lift over each."""
    assert look.rounds is not None
    ranked = sorted(look.played, key=lambda one: -one.reward.mean())
    spans = [interval(one.reward, look.rounds.round_user) for one in ranked]
    ends = [value for span in spans for value in (span.value, span.low, span.high) if not np.isnan(value)]
    low, high = _axis(min(ends), max(ends))
    rows = []
    for one, span in zip(ranked, spans, strict=True):
        lift = look.lifts.get(one.name)
        settings = f"<small>{escape(describe(one.settings))}</small>" if one.settings else ""
        own = "—" if lift is None else _coloured(lift)
        mark = ' class="ours"' if one.name == look.best else ""
        rows.append(
            f'<tr{mark}><th scope="row">{escape(one.name)}{settings}</th><td class="wide">{bar(span, low, high)}</td>'
            f"<td>{span.value:.3f}</td><td>{own}</td></tr>"
        )
    head = f"<tr><th>policy</th><th>{low:.3g} to {high:.3g} {look_text.unit(look)}</th><th>mean</th><th>lift over it</th></tr>"
    return f'<div class="scroll"><table><thead>{head}</thead><tbody>{"".join(rows)}</tbody></table></div>'


def estimates(look: FirstLook) -> str:
    """Off-policy estimates of all contenders."""
    assert look.evaluation is not None
    rows = []
    for one in look.evaluation.standings:
        shown = "—" if one.dr is None else f"{one.dr.value:.4g} ({one.dr.low:.4g} to {one.dr.high:.4g})"
        gain = "—" if one.gain is None else f"{one.gain.value:+.4g} ({one.gain.low:+.4g} to {one.gain.high:+.4g})"
        why = "".join(f"<small>{escape(warning)}</small>" for warning in one.warnings)
        rows.append(f'<tr><th scope="row">{escape(one.policy)}{why}</th><td>{shown}</td><td>{gain}</td></tr>')
    head = "<tr><th>policy</th><th>would earn a round</th><th>more than was logged</th></tr>"
    return f'<div class="scroll"><table><thead>{head}</thead><tbody>{"".join(rows)}</tbody></table></div>'


def graph(look: FirstLook) -> str:
    """The verdict on the graph, and all candidates."""
    rows = []
    for one in look.built.candidates:
        shuffled = f"{min(one.shuffled):+,.0f} to {max(one.shuffled):+,.0f}" if one.shuffled else "–"
        mark = ' class="ours"' if one.chosen else ""
        rows.append(
            f'<tr{mark}><th scope="row">{escape(one.name)}<small>{escape(described(one.name))}</small></th>'
            f"<td>{one.n_edges:,}</td><td>{one.difference:+,.0f}</td><td>{shuffled}</td></tr>"
        )
    head = "<tr><th>candidate</th><th>edges</th><th>nats more than without</th><th>its users shuffled</th></tr>"
    table = f'<div class="scroll"><table><thead>{head}</thead><tbody>{"".join(rows)}</tbody></table></div>' if rows else ""
    return f"<p>{escape(look.built.verdict)}</p>{table}"


def groups(look: FirstLook) -> str:
    """The lift over LinUCB for newcomers and others, as intervals around zero."""
    shown = [group for group in look.by_group if group.lift.rounds]
    if not shown:
        return "<p>Nothing was played user by user.</p>"
    ends = [abs(end) for group in shown for end in group.lift[:3] if not np.isnan(end)]
    size = max(ends) * 1.1 or 1.0
    rows = "".join(
        f'<tr><th scope="row">{escape(group.name)}<small>{group.lift.users:,} users, {group.lift.rounds:,} rounds</small></th>'
        f'<td class="wide">{bar(group.lift, -size, size, zero=True)}</td><td>{_coloured(group.lift)}</td></tr>'
        for group in shown
    )
    head = f"<tr><th>users</th><th>{-size:.2g} to {size:+.2g}</th><th>lift over {escape(look.baseline)}</th></tr>"
    return f'<div class="scroll"><table><thead>{head}</thead><tbody>{rows}</tbody></table></div>'


def learned(look: FirstLook) -> str:
    """What the policy says of the graph, and what everybody likes."""
    said = f"<p>{escape(look.learned)}</p>" if look.learned else ""
    if look.favourites:
        names = ", ".join(f"<b>{escape(name)}</b> ({value:.2f})" for name, value in look.favourites)
        said += f"<p>An average user is expected to like best: {names}.</p>"
    return said or "<p>Policies were judged off-policy; none was left to ask.</p>"


def listed(sentences: Sequence[str]) -> str:
    """Sentences as a list."""
    return (
        "<ul>" + "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences) + "</ul>" if sentences else "<p>Nothing.</p>"
    )


def bar(found: Interval, low: float, high: float, zero: bool = False) -> str:
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


def _coloured(lift: Interval) -> str:
    kind = {"more": "good", "less": "bad"}.get(lift.verdict, "even")
    return f'<span class="{kind}">{escape(look_text.span(lift))}</span>'
