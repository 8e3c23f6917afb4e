"""Shadow and experiment on the page, in a real Chromium."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from chromium import CONTRAST, Browser, Tab, chromium, executable
from graphbandit import graphs
from graphbandit.serving import InitialState
from serving_zoo import Running, running

pytestmark = pytest.mark.skipif(executable() is None, reason="no Chromium here: apt-get install chromium, or set CHROMIUM")
TOKEN = "a-token-for-the-page"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture
def tab(browser: Browser) -> Iterator[Tab]:
    with browser.tab() as opened:
        opened.look(1280)
        yield opened


def use(server: Running, rounds: int) -> None:
    rng = np.random.default_rng(0)
    for _ in range(rounds):
        asked = {"requests": [{"user": str(rng.integers(120))} for _ in range(50)]}
        made = server.http.post("/v1/recommendations/batch", json=asked).raise_for_status().json()["decisions"]
        values = [float(one["arms"][0]["arm"] == "a") + 0.1 * rng.standard_normal() for one in made]
        rewards = [{"decision": one["decision"], "value": value} for one, value in zip(made, values, strict=True)]
        server.http.post("/v1/rewards", json={"rewards": rewards}).raise_for_status()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Running]:
    (tmp_path / "token").write_text(TOKEN)
    graph = graphs.watts_strogatz(120, 6, 0.05, seed=0)
    initial = InitialState(graph, ["a", "b", "c", "d"], np.eye(4), [{}] * 4, policy="linucb", epsilon=0.1)
    with running(tmp_path, initial, shadow="linucb:exploration=50", token_file=tmp_path / "token") as started:
        yield started


def opened(tab: Tab, server: Running) -> None:
    tab.before(f"sessionStorage.setItem('graphbandit-token', '{TOKEN}')")
    tab.open(f"{server.url}/")
    tab.until("document.querySelector('#policies-body table')")


def press(tab: Tab, action: str) -> None:
    tab.until(f"document.querySelector('[data-action={action}]')")
    tab.run(f"document.querySelector('[data-action={action}]').click()")


def test_both_policies_are_side_by_side_and_change_places_after_a_yes(server: Running, tab: Tab) -> None:
    use(server, 4)
    opened(tab, server)
    tab.until("document.querySelector('#policies-body').innerText.includes('200 decisions')")
    cells = tab.run("[...document.querySelectorAll('#policies-body .sides tbody td')].map((cell) => cell.innerText)")
    assert [cell.replace("\u200b", "") for cell in cells[:2]] == ["linucb:epsilon=0.1", "linucb:exploration=50,epsilon=0.1"]
    press(tab, "promote")
    tab.until("document.querySelector('.ask')?.textContent.includes('Put linucb:exploration=50,epsilon=0.1 in force')")
    assert server.http.get("/v1/policy").json()["in_force"] == "linucb:epsilon=0.1"  # nothing before the yes
    press(tab, "no")
    tab.until("!document.querySelector('.ask')")
    press(tab, "promote")
    press(tab, "yes-promote")
    tab.until("document.querySelector('[data-action=rollback]')")
    assert server.http.get("/v1/policy").json()["in_force"] == "linucb:exploration=50,epsilon=0.1"
    press(tab, "rollback")
    press(tab, "yes-rollback")
    tab.until("!document.querySelector('[data-action=rollback]') && !document.querySelector('.ask')")
    assert server.http.get("/v1/policy").json()["history"][-1]["what"] == "rolled back"
    assert tab.complaints == []


def test_an_experiment_is_begun_seen_and_ended(server: Running, tab: Tab) -> None:
    opened(tab, server)
    tab.run("document.querySelector('#share').value = '40'; document.querySelector('#guardrail').value = '0.5'")
    press(tab, "begin")
    press(tab, "yes-begin")
    tab.until("document.querySelector('#experiment-body .verdict')?.textContent === 'Too early to say'")
    begun = server.http.get("/v1/experiment").json()["running"]
    assert begun["share"] == 0.4 and begun["guardrail"] == 0.5
    use(server, 60)
    tab.until("document.querySelector('#experiment-body .verdict').textContent === 'The policy in force earns more'")
    text = tab.text("#experiment")
    assert "whole interval is below −0.50. It is not." in text and "of the weight of edges crosses" in text
    press(tab, "end")
    press(tab, "yes-end")
    tab.until("document.querySelector('#experiment').innerText.includes('asked for')")
    assert tab.text("#experiment-body .verdict") == "The treatment earned more"
    assert server.http.get("/v1/experiment").json()["running"] is None
    assert tab.complaints == []


def test_what_is_refused_is_said(server: Running, tab: Tab) -> None:
    opened(tab, server)
    press(tab, "promote")
    server.http.post("/v1/policy/promote", json={}).raise_for_status()  # somebody else was faster
    press(tab, "yes-promote")
    tab.until("document.querySelector('#policies [role=status]').textContent.includes('would not come into force')")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_fits_and_can_be_read(server: Running, tab: Tab, dark: bool) -> None:
    server.http.post("/v1/experiment", json={"share": 0.4, "guardrail": 0.1}).raise_for_status()
    use(server, 30)
    opened(tab, server)
    tab.until("document.querySelector('#experiment-body .verdict')")
    tab.look(1280, dark=dark)
    press(tab, "end")
    found = tab.run(CONTRAST)
    assert [entry for entry in found["texts"] if entry[1] < 4.5] == []
    for width in (320, 360, 768):
        tab.look(width, 800, phone=True, dark=dark)
        tab.until(f"document.documentElement.scrollWidth === {width}")
        beyond = "[...document.querySelectorAll('#policies *, #experiment *')].filter((e) => !e.closest('.scroll, .unseen')"
        tab.until(f"!{beyond} && e.getBoundingClientRect().right > {width}).length")
    assert [role for role, name in tab.names() if role in ("button", "spinbutton", "image", "table") and not name.strip()] == []


def test_without_a_shadow_there_are_no_such_sections(tmp_path: Path, tab: Tab) -> None:
    initial = InitialState(graphs.empty(3), ["a"], np.eye(1), [{}], policy="linucb")
    with running(tmp_path, initial) as server:
        tab.open(f"{server.url}/")
        tab.until("document.querySelector('#status').textContent === 'Live'")
        assert tab.run("document.querySelector('#policies').hidden && document.querySelector('#experiment').hidden")
        assert not any(address.endswith("/v1/shadow") for address in tab.requested)
