"""`tools/fresh.py` runs a target where nothing is installed, and reports how it ended."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
import fresh

MAKEFILE = """
good:  ## is in the home folder of a stranger, and leaves something in it
\ttest -z "$$(ls -A $$HOME)" && test -z "$$NUMBA_CACHE_DIR" && touch $$HOME/left

bad:  ## fails
\t@exit 3

needs:  ## needs what was never committed
\ttest -e installed.txt

fresh:  ## runs this script
\tpython3 tools/fresh.py

.hidden:
\techo
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a git repository with a Makefile, and a file that is not part of it."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "Makefile").write_text(MAKEFILE)
    git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "--quiet"], ["add", "Makefile"], ["commit", "--quiet", "-m", "all"]):
        subprocess.run([*git, *words], check=True)
    (folder / "installed.txt").write_text("by hand")
    monkeypatch.setattr(fresh, "ROOT", folder)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    return folder


def test_every_target_is_run_where_nothing_is_installed(
    project: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["fresh.py"])
    assert fresh.main() == 2  # make's own status of a target that failed, the first of two
    table = [line.split(" | ") for line in capfd.readouterr().out.splitlines() if line.startswith("| ")]
    assert [(row[0], row[2]) for row in table[1:]] == [("| good", "0 |"), ("| bad", "2 |"), ("| needs", "2 |")]


def test_targets_that_do_not_exist_are_named(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["fresh.py", "good", "better"])
    with pytest.raises(SystemExit):
        fresh.main()
    assert "no such target: better. The Makefile has good, bad, needs." in capsys.readouterr().err
