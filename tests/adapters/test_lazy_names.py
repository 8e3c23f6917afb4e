from __future__ import annotations

import subprocess
import sys

import pytest

import graphbandit as gb
import graphbandit.adapters


def test_nothing_is_imported_before_it_is_used() -> None:
    program = """
import sys, graphbandit, graphbandit.adapters
loaded = {"sklearn", "gymnasium", "obp", "igraph", "sknetwork", "pandas", "networkx"} & set(sys.modules)
assert not loaded, loaded
assert graphbandit.obp.BanditPolicy and not {"sklearn", "gymnasium"} & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'graphbandit' has no attribute 'pytorch'"):
        gb.pytorch  # type: ignore[attr-defined]  # noqa: B018


def test_a_missing_library_is_named_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "graphbandit.adapters.sklearn", raising=False)
    monkeypatch.setitem(sys.modules, "sklearn.base", None)  # as if it were not installed
    if hasattr(gb.adapters, "sklearn"):
        monkeypatch.delattr(gb.adapters, "sklearn")
    with pytest.raises(ImportError, match=r"graphbandit.sklearn needs sklearn.*: install .* pip install '\.\[sklearn\]'"):
        gb.sklearn  # noqa: B018
