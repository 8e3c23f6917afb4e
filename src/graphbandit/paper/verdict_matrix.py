"""The top of the report: which claim of which figure holds, in a matrix and in words, and the forms side by side.

All of it is made from the claims of this very run.
"""

from __future__ import annotations

import html
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from .claims import FORMS, Claim
from .figure_parts import Figure

SIGNS = {"holds": ("yes", "✓", "holds"), "does not hold": ("no", "✗", "fails"), "undecided": ("open", "?", "open")}
"""Verdict → style, sign and word: a verdict can be read without its colour."""
THEMES = {
    "theory of Δ, Ψ and the bound": ("delta-smoothness", "delta-norm", "psi-time", "bound", "appendix-d", "noise-term"),
    "the choice of the Laplacian (Remark 1)": ("remark-1",),
    "growth with the number of users": ("growth", "cost"),
    "regret on made-up graphs": ("regret-rbf", "regret-er", "regret-ba", "regret-ws"),
    "smoother users and denser graphs": (
        "smoothness-rbf",
        "sparsity-rbf",
        "sweep-er-p",
        "sweep-ba-m",
        "sweep-ws-p",
        "sweep-ws-m",
        "smoothness-graphs",
        "topology",
        "graphs",
    ),
    "the approximation of GraphUCB-Local (Lemma 1)": ("approximation",),
    "ratings (MovieLens and Netflix)": ("movielens", "netflix", "histograms"),
}
"""What the paper's figures are about; a figure beyond the paper has no theme."""
LOWER = re.compile(r"(.+) has lower regret than (.+)")
MOST_QUOTED = 6
"""Claims of one reason that are quoted; of more, the number is said."""


class Judged(Protocol):
    """What is needed of an outcome of a figure."""

    @property
    def figure(self) -> Figure: ...

    @property
    def claims(self) -> Sequence[Claim]: ...


class PlacedClaim(NamedTuple):
    """A claim with its figure and place."""

    figure: Figure
    number: int  # from 1, in its figure
    claim: Claim

    @property
    def beyond(self) -> bool:
        """Whether the paper does not say it."""
        return self.figure.beyond or self.claim.beyond

    @property
    def anchor(self) -> str:
        """The id of its box on the page."""
        return f"{self.figure.name}-{self.number}"


def all_claims(outcomes: Iterable[Judged]) -> list[PlacedClaim]:
    """The claims of all figures, in order."""
    return [PlacedClaim(one.figure, k, claim) for one in outcomes for k, claim in enumerate(one.claims, start=1)]


def matrix(outcomes: Iterable[Judged]) -> str:
    """Two tables: a row for each figure, a cell with sign and word for each of its claims; the paper's, and ours."""
    found = all_claims(outcomes)
    paper, beyond = ([placed for placed in found if placed.beyond == ours] for ours in (False, True))
    parts = [_table(paper, "The paper's claims")] if paper else []
    if beyond:
        body = _table(beyond, "What the paper does not say")
        parts.append(f"<details><summary>{len(beyond)} statements beyond the paper</summary>{body}</details>")
    return "".join(parts)


def _table(claims: Sequence[PlacedClaim], caption: str) -> str:
    by_figure: dict[str, list[PlacedClaim]] = defaultdict(list)
    for placed in claims:
        by_figure[placed.figure.name].append(placed)
    rows = "".join(
        f'<tr><th scope="row"><a href="#{name}" title="{name}">{html.escape(row[0].figure.title)}</a></th>'
        f"<td>{''.join(_cell(placed) for placed in row)}</td></tr>"
        for name, row in by_figure.items()
    )
    heads = (
        '<tr><th scope="col">figure</th><th scope="col">its claims: point at one to read it, click to see the numbers</th></tr>'
    )
    return f'<table class="matrix"><caption>{caption}</caption><thead>{heads}</thead><tbody>{rows}</tbody></table>'


def _cell(placed: PlacedClaim) -> str:
    style, sign, word = SIGNS[placed.claim.verdict]
    text = html.escape(f"{placed.claim.claim}: {word}")
    return f'<a class="{style}" href="#{placed.anchor}" title="{text}" aria-label="{text}">{sign} {word}</a>'


def in_words(outcomes: Iterable[Judged]) -> str:
    """What of the paper holds in these runs, what does not and why, as HTML; nothing without claims of the paper."""
    claims = [placed for placed in all_claims(outcomes) if not placed.beyond]
    if not claims:
        return ""
    parts = []
    orders = comparisons(claims)
    if orders:
        parts.append(f"<p><b>Who beats whom.</b> {html.escape(' '.join(orders))}</p>")
    parts += [_holding(claims), _failing(claims)]
    undecided = [placed for placed in claims if placed.claim.verdict == "undecided"]
    if undecided:
        text = (
            f"{_number(len(undecided), 'claim')} {'is' if len(undecided) == 1 else 'are'} open: the interval over these runs "
        )
        parts.append(f"<p><b>What is open.</b> {text}contains both answers, and only more runs can tell.</p>")
    themes = "; ".join(f"{name}: {_counted(part)}" for name, part in by_theme(claims).items())
    parts.append(f"<p><b>Theme by theme.</b> {html.escape(_capital(themes))}.</p>")
    return "".join(parts)


def by_theme(claims: Iterable[PlacedClaim]) -> dict[str, list[PlacedClaim]]:
    """The claims of every theme that has some."""
    themes = {figure: theme for theme, figures in THEMES.items() for figure in figures}
    found: dict[str, list[PlacedClaim]] = {theme: [] for theme in (*THEMES, "other figures")}
    for placed in claims:
        found[themes.get(placed.figure.name, "other figures")].append(placed)
    return {theme: part for theme, part in found.items() if part}


def comparisons(claims: Iterable[PlacedClaim]) -> list[str]:
    """A sentence for each algorithm that is said to have lower regret than others."""
    found: dict[str, list[PlacedClaim]] = defaultdict(list)
    for placed in claims:
        match = LOWER.fullmatch(placed.claim.claim)
        if match:
            found[match.group(1)].append(placed)
    sentences = []
    for first, part in found.items():
        held, failed, undecided = _tally(part)
        others = listed(dict.fromkeys(str(LOWER.sub(r"\2", placed.claim.claim)) for placed in part))
        rest = [f"higher in {failed}"] * bool(failed) + [f"open in {undecided}"] * bool(undecided)
        tail = f", {' and '.join(rest)}" if rest else ""
        sentences.append(
            f"{first} has lower regret than {others} in {held or 'none'} of {_number(len(part), 'comparison')}{tail}."
        )
    return sentences


def _holding(claims: Sequence[PlacedClaim]) -> str:
    """Claims that hold wherever they were tested, besides the comparisons of regret."""
    verdicts: dict[str, set[str]] = defaultdict(set)
    for placed in claims:
        verdicts[placed.claim.claim].add(placed.claim.verdict)
    kept: dict[str, list[PlacedClaim]] = defaultdict(list)
    for placed in claims:
        if verdicts[placed.claim.claim] == {"holds"} and not LOWER.fullmatch(placed.claim.claim):
            kept[placed.claim.claim].append(placed)
    if not kept:
        return ""
    items = "".join(f"<li>{_quoted(text, where)}</li>" for text, where in kept.items())
    return f"<p><b>What holds</b>, besides these comparisons:</p><ul>{items}</ul>"


def _failing(claims: Sequence[PlacedClaim]) -> str:
    """Claims that do not hold, together with those that have the same reason."""
    by_reason: dict[str, list[PlacedClaim]] = defaultdict(list)
    for placed in claims:
        if placed.claim.verdict == "does not hold":
            by_reason[placed.claim.explanation].append(placed)
    if not by_reason:
        return "<p><b>What does not hold.</b> No claim of the paper is refuted by these runs.</p>"
    items = []
    for reason, part in by_reason.items():
        places: dict[str, list[PlacedClaim]] = defaultdict(list)
        for placed in part:
            places[placed.claim.claim].append(placed)
        quoted = [_quoted(text, where) for text, where in list(places.items())[:MOST_QUOTED]]
        more = [f"and {len(places) - MOST_QUOTED} more"] * (len(places) > MOST_QUOTED)
        why = f" <i>Why:</i> {html.escape(reason)}" if reason else ""
        items.append(f"<li>{'; '.join(quoted + more)}.{why}</li>")
    return f"<p><b>What does not hold, and why:</b></p><ul>{''.join(items)}</ul>"


def _quoted(text: str, where: Sequence[PlacedClaim]) -> str:
    links = ", ".join(f'<a href="#{placed.anchor}">{placed.figure.name}</a>' for placed in where)
    return f"“{html.escape(text)}” ({links})"


def forms_table(outcomes: Iterable[Judged]) -> str:
    """Statements that were judged in several forms of an algorithm, a column for each form; nothing if there are none."""
    rows: dict[str, dict[str, PlacedClaim]] = defaultdict(dict)
    for placed in all_claims(outcomes):
        if placed.claim.form:
            rows[placed.claim.statement][placed.claim.form] = placed
    if not rows:
        return ""
    head = "".join(f'<th scope="col">{form}</th>' for form in FORMS)
    body = "".join(
        f'<tr><th scope="row">{html.escape(statement)}</th>{"".join(_form_cell(found.get(form), form) for form in FORMS)}</tr>'
        for statement, found in rows.items()
    )
    return (
        '<section id="side-by-side"><h2>Printed, released, recommended</h2><p class="caption">The same statements about three '
        "forms of the algorithms: the formulas as printed, what the published code computes, and what we would use.</p>"
        f'<table class="forms"><thead><tr><th scope="col">statement</th>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></section>"
    )


def _form_cell(placed: PlacedClaim | None, form: str) -> str:
    if placed is None:
        return f'<td data-form="{form}">–</td>'
    brief = f"<small>{html.escape(placed.claim.brief)}</small>" if placed.claim.brief else ""
    return f'<td data-form="{form}">{_cell(placed)}{brief}</td>'


def _tally(claims: Iterable[PlacedClaim]) -> tuple[int, int, int]:
    verdicts = [placed.claim.verdict for placed in claims]
    return verdicts.count("holds"), verdicts.count("does not hold"), verdicts.count("undecided")


def _counted(claims: Sequence[PlacedClaim]) -> str:
    """How many hold, fail and are open, in words: "all 5 hold", "2 of 6 hold, 1 fails, 3 are open"."""
    held, failed, undecided = _tally(claims)
    total = len(claims)
    if held == total:
        return "the only claim holds" if total == 1 else f"all {total} hold"
    rest = [f"{failed} {'fails' if failed == 1 else 'fail'}"] * bool(failed)
    rest += [f"{undecided} {'is' if undecided == 1 else 'are'} open"] * bool(undecided)
    return f"{held or 'none'} of {_number(total, 'claim')} {'holds' if held < 2 else 'hold'}, {', '.join(rest)}"


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def listed(names: Iterable[str]) -> str:
    """Join names by commas, and the last one by "and"."""
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
