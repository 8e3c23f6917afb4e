"""The package runs where there is no Unix: what Windows lacks is taken away here, and a service runs nevertheless.

Nothing here runs on Windows itself. It takes away what the package could ask of Unix; paths, files that cannot be
deleted while they are open, and the lock of Windows, which the library `filelock` has, are not tried.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from graphbandit.storage import atomic

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
UNIX_ONLY = {"fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "posix", "syslog", "readline", "curses", "uvloop"}


def imported(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Import):
        return {alias.name.split(".")[0] for alias in node.names}
    return {(node.module or "").split(".")[0]} if isinstance(node, ast.ImportFrom) and not node.level else set()


def imported_at_once(body: list[ast.stmt]) -> set[str]:
    """Modules that are imported when the file is, under conditions too, but not those inside functions."""
    found = set[str]()
    for node in body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found |= imported(node)
            for _, field in ast.iter_fields(node):
                if isinstance(field, list):
                    found |= imported_at_once([child for child in field if isinstance(child, ast.stmt | ast.excepthandler)])  # type: ignore[misc]
    return found


def test_no_module_imports_what_only_unix_has() -> None:
    assert imported_at_once(ast.parse("try:\n import fcntl\nexcept ImportError:\n import pwd.x").body) == {"fcntl", "pwd"}
    found = {path.name: imported_at_once(ast.parse(path.read_text(encoding="utf-8")).body) & UNIX_ONLY for path in SOURCES}
    assert {name: modules for name, modules in found.items() if modules} == {}


def is_text_without_encoding(call: ast.Call) -> bool:
    """Whether a call reads or writes text in the encoding of the machine, which on Windows is not UTF-8."""
    if any(keyword.arg == "encoding" for keyword in call.keywords):
        return False
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name in ("read_text", "write_text"):
        return isinstance(call.func, ast.Attribute)  # `write_text` of `storage.atomic` writes UTF-8
    modes = [str(a.value) for a in call.args if isinstance(a, ast.Constant) and set(str(a.value)) <= set("rwxabt+")]
    is_builtin = isinstance(call.func, ast.Name) and len(call.args) == 1
    return name == "open" and (any("b" not in mode for mode in modes) or is_builtin)


def test_every_text_file_is_utf_8() -> None:
    wrong = ["open(path)", "path.open('w')", "path.read_text()", "open(path, 'r')"]
    right = ["open(path, 'rb')", "store.open()", "path.read_text(encoding='utf-8')", "write_text(path, text)"]
    for text in wrong + right:
        call = ast.parse(text).body[0]
        assert isinstance(call, ast.Expr) and isinstance(call.value, ast.Call)
        assert is_text_without_encoding(call.value) == (text in wrong), text
    calls = ((path, node) for path in SOURCES for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    found = [f"{path.name}:{n.lineno}" for path, n in calls if isinstance(n, ast.Call) and is_text_without_encoding(n)]
    assert found == []


WITHOUT_UNIX = """
import builtins, os, pkgutil, signal, sys, tempfile
from importlib import import_module
from pathlib import Path

UNIX_ONLY = {unix_only!r}
original = builtins.__import__

def portable_import(name, globals=None, locals=None, fromlist=(), level=0):
    # Libraries have their own ways on Windows: only imports of the package are refused.
    if name.split(".")[0] in UNIX_ONLY and str((globals or {{}}).get("__name__")).startswith("graphbandit"):
        raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
    return original(name, globals, locals, fromlist, level)

import asyncio, multiprocessing, subprocess  # these look at once for what is taken away below
import joblib, numba, pyarrow.parquet, ray, uvicorn

builtins.__import__ = portable_import
for name in ("fork", "forkpty", "getloadavg", "sysconf", "killpg", "nice", "getuid", "setsid", "sched_getaffinity"):
    delattr(os, name)
for name in ("SIGHUP", "SIGKILL", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGPIPE", "pthread_kill", "pthread_sigmask", "setitimer"):
    delattr(signal, name)

def refused(*args):
    raise NotImplementedError

asyncio.unix_events._UnixSelectorEventLoop.add_signal_handler = refused

import graphbandit
modules = [found.name for found in pkgutil.walk_packages(graphbandit.__path__, "graphbandit.")]
for name in modules:
    if not name.endswith("__main__"):
        import_module(name)

from graphbandit.serving import Client, EventStore, StoreInUse
from graphbandit.serving.server import reload_tokens_on_signal
from serving_zoo import running, small_initial_state

with tempfile.TemporaryDirectory() as folder:
    with running(Path(folder), small_initial_state()) as server, Client(server.url) as client:
        decision = client.recommend("ann")
        assert client.reward(decision["decision"], 1.0)["accepted"] == 1
        reload_tokens_on_signal(server.guard, server.settings)
        second = EventStore(server.settings.store)
        try:
            second.open(timeout=0.0)
        except StoreInUse as error:
            print(error)
        second.close()
print(len(modules))
"""


def test_a_service_runs_without_what_only_unix_has() -> None:
    program = WITHOUT_UNIX.format(unix_only=UNIX_ONLY)
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    *_, refusal, n_modules = done.stdout.splitlines()
    assert refusal.endswith("PostgreSQL serves any number.") and int(n_modules) > 200


def test_windows_is_not_asked_to_sync_a_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    synced = list[int]()
    monkeypatch.setattr(os, "fsync", synced.append)
    atomic.sync_folder(tmp_path)
    assert len(synced) == 1
    monkeypatch.setattr(atomic, "os", SimpleNamespace(name="nt"))  # a folder cannot be opened there
    atomic.sync_folder(tmp_path)


def test_output_that_the_terminal_has_no_letters_for_is_printed_nevertheless() -> None:
    """Where output goes into a file on Windows, Python writes it in a code page such as this one."""
    program = "import sys; from graphbandit.cli import app; app.command('say')(lambda: print('α ≤ 1, é')); app(['say'])"
    environment = os.environ | {"PYTHONIOENCODING": "cp1252", "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True)
    assert done.stdout.decode("cp1252").strip() == "? ? 1, é", done.stderr.decode(errors="replace")[-2000:]
