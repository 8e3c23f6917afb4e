"""The page at `/docs`: every endpoint, from this package alone, for everybody."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from chromium import Browser, chromium, executable
from graphbandit.serving.http.reference_page import METHODS, render
from serving_zoo import Running, running, small_initial_state

TOKEN = "a-token-for-the-page"
needs_chromium = pytest.mark.skipif(executable() is None, reason="no Chromium here: apt-get install chromium, or set CHROMIUM")


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service with a token."""
    folder = tmp_path_factory.mktemp("locked")
    (folder / "tokens").write_text(TOKEN)
    with running(folder, small_initial_state(), token_file=folder / "tokens") as server:
        yield server


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


def test_every_endpoint_is_described_without_a_token(locked: Running) -> None:
    anybody = {"authorization": ""}
    page = locked.http.get("/docs", headers=anybody)
    assert page.status_code == 200 and page.headers["content-type"].startswith("text/html")
    document = locked.http.get("/openapi.json", headers=anybody).json()
    found = page.text.replace("<wbr>", "")
    for path, operations in document["paths"].items():
        for method in METHODS:
            if method in operations:
                assert f">{method.upper()}</span> <code>{path}</code></h2>" in found
                assert operations[method]["description"].split("\n")[0].split("'")[0] in found
    for part in ("idempotency_key", "1 to 200 characters", "curl -s localhost:8000/v1/recommendations", "Too many requests."):
        assert part in found, part
    again = locked.http.get("/redoc", headers=anybody)
    assert again.status_code == 307 and again.headers["location"] == "/docs"


def test_the_page_asks_nobody_else_and_runs_no_script(locked: Running) -> None:
    page = locked.http.get("/docs")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "<script" not in page.text and "style=" not in page.text

    addresses: list[str] = []

    class Links(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            addresses.extend(value or "" for name, value in attrs if name in ("src", "href"))

    Links().feed(page.text)
    assert addresses and all(re.match(r"[/#](?!/)", address) for address in addresses)
    names = re.findall(r'id="([^"]+)"', page.text)
    assert len(names) == len(set(names)) and {a[1:] for a in addresses if a[0] == "#"} <= set(names)


def test_examples_can_be_sent_as_they_are(locked: Running) -> None:
    page = locked.http.get("/docs").text
    body = re.search(r"localhost:8000/v1/recommendations \\\n.*?-d &#x27;(.*?)&#x27;<", page, flags=re.S)
    assert body is not None
    content = body[1].replace("&quot;", '"').replace("cola", "coffee")
    answer = locked.http.post("/v1/recommendations", content=content, headers={"content-type": "application/json"})
    assert answer.status_code == 200, answer.text


def test_texts_of_a_document_do_not_become_markup() -> None:
    evil = "<img src=x onerror=alert(1)>"
    parameter = {"name": evil, "schema": {"type": "string"}, "description": evil}
    operation = {"description": evil, "parameters": [parameter], "responses": {"404": {"description": evil}}}
    document = {"info": {"title": evil, "version": "1", "summary": evil}, "paths": {f"/{evil}": {"get": operation}}}
    assert "<img" not in render(document)


@needs_chromium
@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_a_phone_in_both_themes(locked: Running, browser: Browser, tmp_path: Path, width: int, dark: bool) -> None:
    with browser.tab() as tab:
        tab.look(width, dark=dark, phone=width < 500)
        tab.open(f"{locked.url}/docs")
        assert tab.run("document.documentElement.scrollWidth") <= width
        assert tab.complaints == [] and {url.split("/")[2] for url in tab.requested} == {locked.url.split("/")[2]}
        background = tab.run("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, re.findall(r"\d+", background)[:3])) < 200) == dark
        tab.picture(tmp_path / "page.png")
        assert (tmp_path / "page.png").stat().st_size > 10_000
