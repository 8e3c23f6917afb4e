"""The top of the report says what the claims of this run say, and nothing else."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from graphbandit.paper import FIGURES, Claim, Figure, coverage, forms
from graphbandit.paper.claims import FORMS, Verdict
from graphbandit.paper.report_page import FigureOutcome, claim_boxes
from graphbandit.paper.verdict_matrix import THEMES, all_claims, by_theme, comparisons, forms_table, in_words, matrix

WORDS: dict[Verdict, str] = {"holds": "✓ holds", "does not hold": "✗ fails", "undecided": "? open"}


def outcome(name: str, *claims: Claim, beyond: bool = False) -> FigureOutcome:
    figure = Figure(name, f"Title of {name}", "", lambda settings: {}, lambda data: None, beyond=beyond)  # type: ignore
    return FigureOutcome(figure, {}, list(claims))


def claim(text: str, verdict: Verdict, reason: str = "", **more: Any) -> Claim:
    return Claim(text, verdict, {"n": 1}, reason, **more)


def test_every_claim_has_a_cell_with_a_word_that_leads_to_its_box() -> None:
    entries = [
        outcome("regret-er", claim("A < B", "holds"), claim("B & C", "does not hold"), claim("D", "undecided")),
        outcome("controls", claim("E", "holds"), beyond=True),
    ]
    text = matrix(entries)
    assert re.findall(r">([✓✗?] \w+)</a>", text) == [WORDS[v] for v in ("holds", "does not hold", "undecided", "holds")]
    assert 'title="A &lt; B: holds"' in text and 'title="B &amp; C: fails"' in text and "A < B" not in text
    boxes = claim_boxes(entries[0]) + claim_boxes(entries[1])
    for target in re.findall(r'href="#([\w-]+-\d)"', text):
        assert f'id="{target}"' in boxes
    assert text.index("Title of regret-er") < text.index("1 statements beyond the paper") < text.index("Title of controls")


def test_the_words_follow_the_verdicts() -> None:
    def page(local: Verdict, reason: str) -> str:
        return in_words(
            [
                outcome("regret-er", claim("GraphUCB has lower regret than LinUCB", "holds")),
                outcome("regret-ba", claim("GraphUCB has lower regret than LinUCB", "undecided")),
                outcome("approximation", claim("Lemma 1 is close", local, reason)),
                outcome("controls", claim("an observation of ours", "does not hold"), beyond=True),
            ]
        )

    failing, holding = page("does not hold", "It explodes."), page("holds", "It explodes.")
    assert "GraphUCB has lower regret than LinUCB in 1 of 2 comparisons, open in 1." in failing
    assert "“Lemma 1 is close”" in failing and "<i>Why:</i> It explodes." in failing
    assert "No claim of the paper is refuted" in holding and "It explodes." not in holding
    assert holding.index("What holds") < holding.index("“Lemma 1 is close”")
    assert "1 claim is open" in failing and "observation of ours" not in failing
    assert "regret on made-up graphs: 1 of 2 claims holds, 1 is open" in failing.replace("Regret on", "regret on")
    assert in_words([outcome("controls", claim("ours", "holds"), beyond=True)]) == ""


def test_losses_are_said_too() -> None:
    entries = [outcome("netflix", *(claim(f"Local has lower regret than {name}", "does not hold") for name in "ABC"))]
    assert comparisons(all_claims(entries)) == ["Local has lower regret than A, B and C in none of 3 comparisons, higher in 3."]


def test_every_figure_of_the_paper_has_one_theme() -> None:
    named = [figure for figures in THEMES.values() for figure in figures]
    assert sorted(named) == sorted(name for name, figure in FIGURES.items() if not figure.beyond)
    other = by_theme(all_claims([outcome("new", claim("x", "holds"))]))
    assert list(other) == ["other figures"]


def test_forms_stand_side_by_side() -> None:
    verdicts: dict[str, Verdict] = {"printed": "does not hold", "released": "holds"}
    known = [
        claim(f"S, {form}", verdict, form=form, statement="S", brief=f"number of {form}") for form, verdict in verdicts.items()
    ]
    text = forms_table([outcome("coverage", *known, beyond=True)])
    row = text.split("<tbody>")[1]
    cells = re.findall(r'data-form="(\w+)">(.*?)</td>', row)
    assert [form for form, _ in cells] == list(FORMS)
    assert "✗ fails" in cells[0][1] and "number of printed" in cells[0][1] and "✓ holds" in cells[1][1] and cells[2][1] == "–"
    assert forms_table([outcome("coverage", claim("x", "holds"))]) == ""


def made_up(local: dict[str, float]) -> dict[str, Any]:
    noise = np.random.default_rng(0).normal(scale=0.1, size=(20, 4))
    levels = {"LinUCB": 60.0} | {f"GraphUCB, {form}": 20.0 for form in FORMS}
    levels |= {f"GraphUCB-Local, {form}": value for form, value in local.items()}
    regret = {name: value * (1 + noise * (1 + 0.1 * k)) for k, (name, value) in enumerate(levels.items())}
    return {"rounds": np.arange(1, 5), "curves": regret, "regret": regret}


def test_form_claims_both_ways() -> None:
    found = forms.claims(made_up({"printed": 90.0, "released": 30.0, "recommended": 10.0}))
    verdicts = {(one.statement.split(" on ")[0], one.form): one.verdict for one in found}
    assert verdicts["GraphUCB-Local has lower regret than LinUCB", "printed"] == "does not hold"
    assert verdicts["GraphUCB-Local has lower regret than LinUCB", "released"] == "holds"
    assert verdicts["GraphUCB has lower regret than GraphUCB-Local", "recommended"] == "does not hold"
    assert all(one.brief and one.reason for one in found)
    assert [len(panel.series) for panel in forms.chart(made_up(dict.fromkeys(FORMS, 30.0))).panels] == [4, 4]


def test_coverage_claims_know_their_form() -> None:
    regions = list(coverage.REGIONS)
    data = {"counts": np.ones((3, len(regions), 7, 2)), "exits": np.zeros((12, len(regions))), "regions": regions}
    found = [one for one in coverage.claims_coverage(data) if one.form]
    assert {(one.form, one.statement) for one in found} == {
        (form, f"The 99 % region of {name} holds the truth {when}")
        for form in FORMS
        for name in ("GraphUCB", "GraphUCB-Local")
        for when in ("99 % of the time", "at every round, in 99 % of the runs")
    }
