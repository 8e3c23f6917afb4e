"""A real Chromium, driven over its own protocol (DevTools), to use a page as people do and to look at it."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
from websockets.sync.client import ClientConnection, connect

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
PATIENCE = 60.0  # seconds; a machine may be busy


CONTRAST = """(() => {
  const canvas = Object.assign(document.createElement("canvas"), { width: 1, height: 1 });
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  function rgba(text) {
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = text;
    pen.fillRect(0, 0, 1, 1);
    return [...pen.getImageData(0, 0, 1, 1).data];
  }
  function luminance(text) {
    const linear = rgba(text).map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  }
  function ratio(a, b) {
    const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x);
    return (high + 0.05) / (low + 0.05);
  }
  function behind(element) {
    const color = getComputedStyle(element).backgroundColor;
    return rgba(color)[3] === 255 ? color : behind(element.parentElement);
  }
  const says = (element) => [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  const all = [...document.querySelectorAll("body *:not(noscript)")];
  const seen = all.filter((element) => element.checkVisibility() && says(element));
  const ink = (element) => getComputedStyle(element)[element.ownerSVGElement ? "fill" : "color"];
  const named = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name);
  return {
    texts: seen.map((element) => [element.textContent.slice(0, 30), ratio(ink(element), behind(element))]),
    marks: ["c0", "c1", "c2", "edge", "ink"].map((name) => [name, ratio(named(name), named("card"))]),
  };
})()"""
"""Contrast of every text and mark of a page with what is behind it, as an expression."""


def executable() -> str | None:
    """Return the path of Chromium on this machine; the environment variable CHROMIUM overrides the search."""
    return os.environ.get("CHROMIUM") or next((path for path in map(shutil.which, NAMES) if path), None)


class Tab:
    """A page, with a record of its requests to the network and its error messages."""

    def __init__(self, socket: ClientConnection) -> None:
        self.connection, self.ids = socket, count(1)
        self.requested: list[str] = []
        self.complaints: list[str] = []
        for domain in ("Page", "Runtime", "Network", "Log", "Accessibility"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command of the protocol and return its result."""
        number = next(self.ids)
        self.connection.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self.connection.recv(timeout=PATIENCE))
            if message.get("id") == number:
                assert "error" not in message, f"{method}: {message['error']}"
                result: dict[str, Any] = message["result"]
                return result
            self._note(message)

    def _note(self, message: dict[str, Any]) -> None:
        parameters = message.get("params", {})
        match message.get("method"):
            case "Network.requestWillBeSent":
                self.requested.append(parameters["request"]["url"])
            case "Runtime.exceptionThrown":
                self.complaints.append(json.dumps(parameters["exceptionDetails"]))
            case "Log.entryAdded" if parameters["entry"]["level"] in ("warning", "error"):
                self.complaints.append(f"{parameters['entry']['text']} {parameters['entry'].get('url', '')}")

    def run(self, script: str) -> Any:
        """Return the value of an expression on the page; wait for a promise."""
        found = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def until(self, script: str) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + PATIENCE
        while not self.run(f"Boolean({script})"):
            assert time.monotonic() < end, f"not true: {script}\nThe page says: {self.text()}\nComplaints: {self.complaints}"
            time.sleep(0.05)

    def before(self, script: str) -> None:
        """Run a script in every page that is opened from now on, before its own scripts."""
        self.send("Page.addScriptToEvaluateOnNewDocument", source=script)

    def open(self, url: str) -> None:
        """Go to an address."""
        self.send("Page.navigate", url=url)
        self.until(f"location.href.startsWith({json.dumps(url)}) && document.readyState === 'complete'")

    def text(self, selector: str = "body") -> str:
        """Return the visible text of an element."""
        return str(self.run(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"))

    def press(self, key: str) -> None:
        """Press a key, as a person does."""
        codes = {"Tab": 9, "Enter": 13, "ArrowRight": 39, " ": 32}
        shared: dict[str, Any] = dict(key=key, code=key, windowsVirtualKeyCode=codes[key])
        self.send("Input.dispatchKeyEvent", type="keyDown", **shared, **({"text": "\r"} if key == "Enter" else {}))
        self.send("Input.dispatchKeyEvent", type="keyUp", **shared)

    def type(self, text: str) -> None:
        """Type text into the focused element."""
        self.send("Input.insertText", text=text)

    def look(self, width: int, height: int = 900, *, dark: bool = False, phone: bool = False) -> None:
        """Set the size of the window and its theme."""
        scale = 2 if phone else 1
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=phone)
        theme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.send("Emulation.setEmulatedMedia", media="screen", features=theme)

    def picture(self, path: Path) -> None:
        """Save the whole page as PNG."""
        found = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(found["data"]))

    def names(self) -> list[tuple[str, str]]:
        """Return (role, name) of everything that a screen reader finds."""
        nodes = self.send("Accessibility.getFullAXTree")["nodes"]
        shown = [node for node in nodes if not node["ignored"]]
        return [(str(node["role"]["value"]), str(node.get("name", {}).get("value", ""))) for node in shown]


class Browser:
    """A running Chromium."""

    def __init__(self, address: str) -> None:
        self._address = address

    @contextmanager
    def tab(self) -> Iterator[Tab]:
        """Open a new tab in a context of its own: no storage is shared with others."""
        root = httpx.get(f"{self._address}/json/version").json()["webSocketDebuggerUrl"]
        with connect(root, max_size=None, ping_interval=None) as socket:
            browser = Tab.__new__(Tab)
            browser.connection, browser.ids, browser.requested, browser.complaints = socket, count(1), [], []
            context = browser.send("Target.createBrowserContext")["browserContextId"]
            target = browser.send("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
            with connect(
                f"{root.rpartition('/devtools/')[0]}/devtools/page/{target}", max_size=None, ping_interval=None
            ) as page:
                yield Tab(page)
            browser.send("Target.disposeBrowserContext", browserContextId=context)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start Chromium without a window, and end it."""
    command = executable()
    assert command is not None
    with TemporaryDirectory(prefix="graphbandit-chromium-", ignore_cleanup_errors=True) as profile:
        flags = ["--headless", "--remote-debugging-port=0", f"--user-data-dir={profile}", "--no-first-run", "--disable-gpu"]
        flags += ["--no-sandbox", "--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update"]
        process = subprocess.Popen([command, *flags, "about:blank"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            port = Path(profile) / "DevToolsActivePort"
            end = time.monotonic() + PATIENCE
            while not (port.exists() and port.read_text().strip()):
                assert process.poll() is None and time.monotonic() < end, "Chromium did not start"
                time.sleep(0.05)
            yield Browser(f"http://127.0.0.1:{port.read_text().split()[0]}")
        finally:
            process.terminate()
            process.wait(timeout=PATIENCE)
