"""The page at `/`: over HTTP, and in a real Chromium."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from chromium import CONTRAST, Browser, Tab, chromium, executable
from graphbandit.serving.http import dashboard
from serving_zoo import Running, running, small_initial_state

PAGE = Path(dashboard.__file__).parent / "page"
EVIL = "<img src=x onerror=\"document.title='owned'\">"
TOKEN = "a-token-for-the-page"

# Answers of the service can be replaced, and what is asked for is counted; time runs a hundred
# times as fast.
STAGE = """
  window.asked = []; window.waits = []; window.answer = () => null;
  const really = window.fetch, later = window.setTimeout;
  window.setTimeout = (what, wait) => { waits.push(wait); return later(what, wait / 100); };
  window.fetch = (path, options) => {
    asked.push(path);
    const [status, body] = answer(path) ?? [];
    if (status === 0) return Promise.reject(new TypeError("down"));
    return status ? Promise.resolve(new Response(JSON.stringify(body), { status })) : really(path, options);
  };
"""
needs_chromium = pytest.mark.skipif(executable() is None, reason="no Chromium here: apt-get install chromium, or set CHROMIUM")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture
def tab(browser: Browser) -> Iterator[Tab]:
    with browser.tab() as opened:
        opened.look(1280)
        yield opened


@pytest.fixture(scope="module")
def lively(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Rewards have come, and a user and an arm have names that would like to be markup."""
    with running(tmp_path_factory.mktemp("lively"), small_initial_state("adaptive")) as server:
        server.http.put(f"/v1/users/{quote(EVIL, safe='')}", json={"edges": {"ann": 2.0, "bob": 1.0}}).raise_for_status()
        server.http.put(f"/v1/arms/{quote(EVIL, safe='')}", json={"features": [3.0, 3.0]}).raise_for_status()
        for number in range(60):
            body = {"user": ("ann", "bob", "zoë", EVIL)[number % 4], "k": 1 + number % 2}
            made = server.http.post("/v1/recommendations", json=body).raise_for_status().json()
            server.http.post("/v1/rewards", json={"decision": made["decision"], "value": number / 60}).raise_for_status()
        server.http.post("/v1/recommendations", json={"user": "ann", "k": 5}).raise_for_status()
        yield server


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Nothing has happened, and the policy knows no evidence."""
    with running(tmp_path_factory.mktemp("fresh"), small_initial_state()) as server:
        yield server


def show(tab: Tab, server: Running, user: str) -> None:
    tab.open(f"{server.url}/#user={quote(user, safe='')}")
    tab.until(f"document.querySelector('.who')?.textContent === {json.dumps(user)}")


def stage(tab: Tab, server: Running) -> None:
    """Open the page with made-up data."""
    tab.before(STAGE)
    tab.open(f"{server.url}/")
    tab.until("document.querySelector('#status').textContent === 'Live'")


# Over HTTP


def test_page_and_files_may_load_nothing_from_elsewhere(fresh: Running) -> None:
    for path in ("/", "/favicon.ico", *(f"/assets/{file.name}" for file in PAGE.iterdir() if file.name != "index.html")):
        answer = fresh.http.get(path)
        assert answer.status_code == 200, path
        policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
        assert policy["default-src"] == "'none'" and policy["require-trusted-types-for"] == "'script'"
        assert set(policy.values()) <= {"'none'", "'self'", "'script'"}
        assert answer.headers["x-content-type-options"] == "nosniff"
        addresses = set(re.findall(r"https?://[^\s\"']+", answer.text))
        assert addresses <= {"http://www.w3.org/2000/svg"}, path


def test_files_are_kept_until_they_change(fresh: Running) -> None:
    first = fresh.http.get("/assets/main.js")
    assert first.headers["content-type"].startswith("text/javascript") and first.headers["cache-control"] == "no-cache"
    again = fresh.http.get("/assets/main.js", headers={"if-none-match": first.headers["etag"]})
    assert again.status_code == 304 and not again.content
    assert fresh.http.head("/").status_code == 200


@pytest.mark.parametrize("name", ["nothing.js", "..%2fdashboard.py", "%2e%2e%2fdashboard.py", "page", ""])
def test_no_other_file_can_be_had(fresh: Running, name: str) -> None:
    answer = fresh.http.get(f"/assets/{name}")
    assert answer.status_code == 404 and answer.json()["detail"][0]["msg"]


def test_page_is_no_part_of_the_api(fresh: Running) -> None:
    assert not {"/", "/favicon.ico", "/assets/{name}"} & set(fresh.http.get("/openapi.json").json()["paths"])


def test_files_are_installed_with_the_package() -> None:
    settings = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())
    patterns = settings["tool"]["setuptools"]["package-data"]["graphbandit"]
    assert len(list(PAGE.iterdir())) > 5
    for file in PAGE.iterdir():
        assert any(fnmatch(f"serving/http/page/{file.name}", pattern) for pattern in patterns)


def test_scripts_make_no_markup_from_text() -> None:
    for file in PAGE.glob("*.js"):
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", file.read_text())


# In Chromium


@needs_chromium
def test_everything_is_shown(lively: Running, tab: Tab) -> None:
    show(tab, lively, "ann")
    stats = lively.http.get("/v1/stats").json()
    tiles = tab.text("#tiles")
    assert "Decisions a second" in tiles and f"\n{stats['decisions']}\n" in tiles and f"\n{stats['rewards']}\n" in tiles
    for chart in ("reward", "load", "latency"):
        assert tab.run(f"document.querySelector('#{chart}-chart path.line-0').getAttribute('d').startsWith('M')"), chart
    assert tab.text("#evidence .verdict") and stats["evidence"]["sentence"] in tab.text("#evidence")
    leads = tab.run("[...document.querySelectorAll('#evidence .bars td:last-child')].map((cell) => cell.textContent)")
    values = [stats["evidence"][name] for name in ("with_graph", "everyone", "alone") if stats["evidence"][name] is not None]
    assert [float(lead.replace(",", "")) for lead in leads] == [pytest.approx(v - min(values), abs=0.051) for v in values]

    why = lively.http.get("/v1/users/ann/explanation").json()
    arms = tab.run("[...document.querySelectorAll('#user-view .bars tbody th')].map((cell) => cell.textContent)")
    assert arms == [arm["arm"] for arm in why["arms"]]
    assert tab.run("document.querySelectorAll('.graph circle').length") == 1 + len(why["neighbours"])
    assert tab.run("new Set([...document.querySelectorAll('.graph circle')].map((c) => getComputedStyle(c).fill)).size") > 1
    history = tab.text(".history")
    assert "nothing yet" in history and "0.93" in history  # the last decision, and the reward of the 57th, 56 / 60
    assert tab.complaints == []
    assert all(address.startswith(f"{lively.url}/") for address in tab.requested)


@needs_chromium
def test_names_are_text_whatever_they_look_like(lively: Running, tab: Tab) -> None:
    show(tab, lively, EVIL)
    assert EVIL in tab.text("#user-view .bars") and EVIL in tab.text(".history")
    show(tab, lively, "ann")
    assert EVIL in str(tab.run("document.querySelector('#user-view details').textContent"))
    assert tab.run("document.images.length") == 1  # the logo
    assert tab.run("document.title") == "graphbandit" and tab.complaints == []
    refused = tab.run("(() => { try { document.body.innerHTML = '<b>x</b>'; return 'done' } catch (e) { return e.name } })()")
    assert refused == "TypeError"


@needs_chromium
@pytest.mark.parametrize("user", ["zoë", "a/b?c#d", "50%", " spaced ", "ünï & co", "x" * 200])
def test_any_id_can_be_looked_at(lively: Running, tab: Tab, user: str) -> None:
    lively.http.put(f"/v1/users/{quote(user, safe='')}").raise_for_status()
    tab.open(f"{lively.url}/")
    tab.until("!document.querySelector('#views').hidden")
    tab.run("document.querySelector('#user').focus()")
    tab.type(user)
    tab.press("Enter")
    tab.until(f"document.querySelector('.who')?.textContent === {json.dumps(user)}")
    tab.look(360, 800, phone=True)
    tab.until("document.documentElement.scrollWidth === 360")
    assert tab.run("decodeURIComponent(location.hash)") == f"#user={user}"


@needs_chromium
def test_by_keyboard_alone(lively: Running, tab: Tab) -> None:
    tab.open(f"{lively.url}/")
    tab.until("document.querySelector('#example a')")
    visited: list[str] = []
    for _ in range(40):
        tab.press("Tab")
        visited.append(
            str(tab.run("document.activeElement.id || document.activeElement.className || document.activeElement.tagName"))
        )
        if visited[-1] == "user":
            break
        outlined = "[document.activeElement, document.activeElement.nextElementSibling]"  # a radio's is around its label
        assert tab.run(f"{outlined}.some((e) => e && getComputedStyle(e).outlineStyle === 'solid')"), visited
    assert visited[0] == "skip" and visited[-1] == "user"
    tab.type("bob")
    tab.press("Enter")
    tab.until("document.querySelector('.who')?.textContent === 'bob'")
    assert "bob" in tab.text("#user-status") and tab.run("document.activeElement.id") == "user"
    for _ in range(20):
        tab.press("Tab")
        if tab.run("document.activeElement.matches('#user-view summary')"):
            break
    tab.press("Enter")
    tab.until("document.querySelector('#user-view details').open")
    tab.press("Tab")
    tab.press("Tab")
    neighbour = tab.run("document.activeElement.textContent")
    tab.press("Enter")
    tab.until(f"document.querySelector('.who')?.textContent === {json.dumps(neighbour)}")
    assert tab.run("document.activeElement.className") == "who"
    tab.run("history.back()")
    tab.until("document.querySelector('.who')?.textContent === 'bob'")


@needs_chromium
def test_screen_readers_find_names_landmarks_and_tables(lively: Running, tab: Tab) -> None:
    show(tab, lively, "ann")
    tab.run("document.querySelectorAll('details').forEach((details) => details.open = true)")
    found = tab.names()
    roles = [role for role, _ in found]
    assert {"banner", "main", "contentinfo", "search", "status", "radio", "textbox"} <= set(roles) and roles.count("main") == 1
    named = {"button", "link", "textbox", "radio", "region", "image", "img", "table", "heading", "search", "DisclosureTriangle"}
    assert [role for role, name in found if role in named and not name.strip()] == []
    pictures = [name for role, name in found if role in ("image", "img")]
    assert any("mean reward: now" in name for name in pictures) and any("neighbours" in name for name in pictures)
    levels = tab.run("[...document.querySelectorAll('h1, h2, h3, h4')].map((heading) => +heading.tagName[1])")
    assert levels[0] == 1 and all(after <= before + 1 for before, after in pairwise(levels))
    drawn = tab.run("document.querySelectorAll('figure details tbody tr').length")
    assert drawn > 0 and tab.run("document.querySelectorAll('table:not(:has(caption))').length") == 0


@needs_chromium
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_contrast(lively: Running, tab: Tab, dark: bool) -> None:
    tab.look(1280, dark=dark)
    show(tab, lively, "ann")
    tab.run("document.querySelectorAll('details').forEach((details) => details.open = true)")
    found = tab.run(CONTRAST)
    assert len(found["texts"]) > 100
    assert [entry for entry in found["texts"] if entry[1] < 4.5] == []  # WCAG 2 AA
    assert [entry for entry in found["marks"] if entry[1] < 3.0] == []
    back = tab.run("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", back))) < 150) == dark


@needs_chromium
@pytest.mark.parametrize("width", [320, 360, 768])
def test_fits_on_small_screens(lively: Running, tab: Tab, width: int) -> None:
    tab.look(width, 800, phone=True)
    show(tab, lively, EVIL)
    tab.until(f"document.documentElement.scrollWidth === {width}")
    beyond = "[...document.querySelectorAll('main *')].filter((e) => !e.closest('.scroll, .unseen, .graph')"
    tab.until(f"!{beyond} && e.getBoundingClientRect().right > {width}).length")


@needs_chromium
def test_before_anything_has_happened(fresh: Running, tab: Tab) -> None:
    show(tab, fresh, "joe")
    assert "No reward has come yet." in tab.text("#reward-chart") and "LinUCB" in tab.text("#evidence")
    view = tab.text("#user-view")
    assert "Nothing has been recommended to this user yet." in view and "does not say how uncertain" in view
    assert tab.complaints == []


@needs_chromium
def test_unknown_user(fresh: Running, tab: Tab) -> None:
    tab.open(f"{fresh.url}/#user=%20Ann")
    tab.until("document.querySelector('#user-status').dataset.state === 'problem'")
    assert "There is no user “ Ann”" in tab.text("#user-status") and "space" in tab.text("#user-status")
    tab.run("document.querySelector('#example a').click()")
    tab.until("document.querySelector('.who')?.textContent === 'ann'")
    tab.open(f"{fresh.url}/#user=..")
    tab.until("document.querySelector('#user-status').textContent.includes('browser cannot ask')")


@needs_chromium
def test_starting_interrupted_in_trouble_and_back(fresh: Running, tab: Tab) -> None:
    def becomes(answer: str, status: str, notice: str) -> None:
        tab.run(f"window.answer = (path) => ({answer}), 0")
        tab.until(f"document.querySelector('#status').textContent === {json.dumps(status)}")
        tab.until(f"document.querySelector('#notice').textContent.includes({json.dumps(notice)})")
        assert tab.run("document.querySelector('#notice').hidden") == (not notice)

    down = json.dumps(
        [503, {"detail": [{"loc": ["store"], "msg": "the service is starting or stopping", "type": "unavailable"}]}]
    )
    tab.before(STAGE + f"window.answer = (path) => ({down});")
    tab.open(f"{fresh.url}/")
    becomes(down, "Starting", "up to a minute")
    becomes("null", "Live", "")
    becomes(down, "Interrupted", "What you see is from")
    becomes("[0]", "No connection", "cannot be reached")
    becomes('[429, {detail: [{msg: "too many requests."}]}]', "Waiting", "more often than it allows")
    becomes('[500, "oh"]', "Problem", "the answer was 500.")
    stats = fresh.http.get("/v1/stats").json() | {"trouble": "the disk is full"}
    becomes(f"[200, {json.dumps(stats)}]", "Store in trouble", "The store cannot be used: the disk is full.")
    becomes("null", "Live", "")


@needs_chromium
def test_asks_gently_and_not_at_all_while_hidden(fresh: Running, tab: Tab) -> None:
    stage(tab, fresh)
    tab.until("asked.length > 3")
    assert set(tab.run("asked")) == {"/v1/stats?series=seconds&points=75"} and tab.run("Math.min(...waits)") == 2000
    hide = "Object.defineProperty(document, 'hidden', { value: %s, configurable: true });"
    hide += " document.dispatchEvent(new Event('visibilitychange'))"
    tab.run(hide % "true")
    tab.run("new Promise((go) => setTimeout(go, 20_000))")  # what was under way ends
    before = tab.run("asked.length")
    tab.run("new Promise((go) => setTimeout(go, 40_000))")
    assert tab.run("asked.length") == before
    tab.run(hide % "false")
    tab.until(f"asked.length > {before + 2}")


@needs_chromium
def test_token_is_asked_for_and_kept_in_the_tab(tmp_path: Path, tab: Tab) -> None:
    (tmp_path / "tokens").write_text(TOKEN)
    with running(tmp_path, small_initial_state(), token_file=tmp_path / "tokens") as server:

        def enter(token: str) -> None:
            tab.until("document.activeElement.id === 'token'")
            tab.type(token)
            tab.press("Enter")

        tab.open(f"{server.url}/#user=ann")
        tab.until("document.querySelector('#status').textContent === 'Locked'")
        assert tab.run("document.querySelector('#views').hidden && document.querySelector('#notice').hidden")
        for wrong in ("not-the-token", "wïth-ümläuts"):
            enter(wrong)
            tab.until("document.querySelector('#notice').textContent.includes('does not know this token')")
            assert tab.run("sessionStorage.length") == 0
        enter(TOKEN)
        tab.until("document.querySelector('.who')?.textContent === 'ann'")
        assert tab.run("document.querySelector('#notice').hidden && document.querySelector('#lock').hidden")
        assert tab.run("document.querySelector('#links').hidden")  # a link cannot carry the token
        assert tab.run("[...Object.values(sessionStorage)]") == [TOKEN]
        assert tab.run("localStorage.length") == 0 and tab.run("document.cookie") == ""
        assert TOKEN not in tab.run("document.documentElement.outerHTML") and TOKEN not in tab.run("location.href")
        tab.send("Page.reload")
        tab.until("document.querySelector('.who')?.textContent === 'ann'")
        tab.run("document.querySelector('#forget').click()")
        tab.until("document.querySelector('#status').textContent === 'Locked'")
        assert tab.run("sessionStorage.length") == 0


@needs_chromium
def test_range_is_chosen_by_keyboard(lively: Running, tab: Tab) -> None:
    stage(tab, lively)
    day = {"step": 60, "time": [60 * k for k in range(1440)], "decisions": [120] * 1440, "rewards": [2] * 1440}
    day |= {"mean_reward": [0.25] * 1440, "regret_proxy": [-0.5] * 1440}
    day |= {"latency_p50_ms": [1.25, *[None] * 1438, 1.5], "latency_p99_ms": [*[None] * 1439, 17.5]}
    stats = lively.http.get("/v1/stats?series=minutes").json() | {"minutes": day}
    tab.run(f"window.answer = (path) => path.includes('minutes') ? [200, {json.dumps(stats)}] : null, 0")
    tab.run("document.querySelector('input[name=range]').focus()")
    tab.press("ArrowRight")
    tab.until("document.querySelector('#reward-chart svg[role=img]').getAttribute('aria-label').includes('reward: now 0.25')")
    assert "regret-proxy: now −0.5" in str(tab.run("document.querySelector('#reward-chart svg[role=img]').ariaLabel"))
    assert "decisions a second 2" in tab.text("#load-chart")
    latency = str(tab.run("document.querySelector('#latency-chart svg[role=img]').ariaLabel"))
    assert "half within: now 1.5, at first 1.25" in latency and "99 % within: now 17.5" in latency
    tab.run("document.querySelector('#latency-chart details').open = true")
    tab.until("document.querySelector('#latency-chart tbody tr')")
    cells = "[...row.cells].slice(1).map((cell) => cell.textContent)"
    rows = tab.run(f"[...document.querySelectorAll('#latency-chart tbody tr')].map((row) => {cells})")
    assert len(rows) == 1440 and rows[0] == ["1.5", "17.5"] and rows[1] == ["–", "–"] and rows[-1] == ["1.25", "–"]
    tab.run("window.answer = (path) => [0], document.querySelector('input[value=seconds]').click()")  # without an answer too
    assert "now 1.5" not in str(tab.run("document.querySelector('#latency-chart svg[role=img]').ariaLabel"))


@needs_chromium
def test_latency_is_not_lost_when_the_page_is_opened_again(lively: Running, tab: Tab) -> None:
    read = "document.querySelector('#latency-chart svg[role=img]').ariaLabel"

    def first() -> float:
        series = lively.http.get("/v1/stats?series=seconds&points=75").json()["seconds"]
        return float(next(value for value in series["latency_p50_ms"] if value is not None))

    for _ in range(2):
        before = first()
        tab.open(f"{lively.url}/")
        tab.until(f"{read}.includes('half within: now')")
        sentence, either = tab.run(read), [before, first()]  # steps may have been put together meanwhile
        shown = tab.run(f"import('/assets/dom.js').then((it) => {either}.map((value) => it.number(value)))")
        assert any(f"at first {text}," in sentence.partition("99 %")[0] for text in shown), sentence
        tab.send("Page.navigate", url="about:blank")


def module(tab: Tab, server: Running, file: str, script: str) -> Any:
    """Return the value of an expression in which `it` is a module of the page."""
    tab.open(f"{server.url}/")
    return tab.run(f"import('/assets/{file}').then((it) => {script})")


@needs_chromium
def test_a_scale_of_logarithms_has_round_ends_around_the_values(fresh: Running, tab: Tab) -> None:
    for low, high, marks in (
        (1.2, 12.9, [1, 2, 5, 10, 20]),
        (1.0, 1.0, [1, 2]),
        (0.3, 0.4, [0.2, 0.5]),
        (1000.0, 5000.0, [1000, 2000, 5000, 10000]),
        (0.06, 60000.0, [0.01, 0.1, 1, 10, 100, 1000, 10000, 100000]),
    ):
        assert module(tab, fresh, "charts.js", f"it.logTicks({low}, {high}, 7)") == marks
    data = {"x": [0, 60, 120, 180], "a": [0.0, 1.0, 10.0, 100.0]}
    draw = "(() => { const host = document.createElement('figure'); document.body.append(host);"
    draw += " const chart = new it.LineChart(host, { name: 'n', empty: '', log: true, lines: [{ key: 'a', name: 'a' }] });"
    draw += f" chart.update({json.dumps(data)}); return host.querySelector('path.line-0[d*=L]').getAttribute('d') }})()"
    heights = [float(place.split()[1]) for place in re.split("[ML]", module(tab, fresh, "charts.js", draw))[1:]]
    rises = [before - after for before, after in pairwise(heights)]
    assert rises[0] == 0 and rises[1] > 20 and rises[1] == pytest.approx(rises[2], abs=0.2)


@needs_chromium
def test_bars_of_negative_means_end_at_zero(fresh: Running, tab: Tab) -> None:
    read = "[...it.scoreBar(-1, 0.5, -1, 3).querySelectorAll('rect')]"
    read += ".map((bar) => [+bar.getAttribute('x'), +bar.getAttribute('width')])"
    assert module(tab, fresh, "charts.js", read) == [[0, 25], [0, 12.5]]
    read = read.replace("-1, 0.5", "1, 2")
    assert module(tab, fresh, "charts.js", read) == [[25, 25], [50, 50]]


@needs_chromium
def test_rewards_join_their_decisions(fresh: Running, tab: Tab) -> None:
    events = [
        {"kind": "reward", "time": 9.0, "decision": "7.1", "arm": "far", "value": 4.0},
        {"kind": "reward", "time": 3.0, "decision": "2.0", "arm": "b", "value": 0.5},
        {
            "kind": "decision",
            "time": 2.0,
            "decision": "2.0",
            "arms": ["a", "b"],
            "mean": [1, 2],
            "bonus": [3, 4],
            "propensity": 1,
        },
    ]
    assert module(tab, fresh, "explorer.js", f"it.visits({json.dumps(events)})") == [
        {"time": 9.0, "arms": [{"arm": "far", "value": 4.0}]},
        {
            "time": 2.0,
            "arms": [
                {"arm": "a", "place": 0, "mean": 1, "bonus": 3},
                {"arm": "b", "value": 0.5, "place": 1, "mean": 2, "bonus": 4},
            ],
        },
    ]


@needs_chromium
def test_what_is_read_stays_while_figures_change(lively: Running, tab: Tab) -> None:
    stage(tab, lively)
    tab.run("document.querySelector('#evidence details').open = true")
    tab.run("window.kept = document.querySelector('#evidence .verdict'), window.tile = document.querySelector('#tiles dd'), 0")
    stats = lively.http.get("/v1/stats").json()
    changed = stats | {
        "decisions_per_second": 77.0,
        "evidence": stats["evidence"] | {"answer": "no", "sentence": "It hurts."},
    }
    tab.run(f"window.answer = (path) => [200, {json.dumps(changed)}], 0")
    tab.until("tile.textContent === '77' && kept.textContent === 'No'")
    assert tab.run("kept.isConnected && tile.isConnected && document.querySelector('#evidence details').open")
    misled = stats["evidence"] | {"misled": [{"user": EVIL, "gain": -9.0, "rounds": 15}]}
    tab.run(
        f"window.answer = (path) => path.startsWith('/v1/stats') ? [200, {json.dumps(stats | {'evidence': misled})}] : null, 0"
    )
    tab.until("document.querySelector('#evidence .names a')")
    tab.run("document.querySelector('#evidence .names a').click()")
    tab.until(f"document.querySelector('.who')?.textContent === {json.dumps(EVIL)}")
