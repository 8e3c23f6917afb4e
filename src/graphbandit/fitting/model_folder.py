"""The folder of a model: its files, what is kept of a fit that was interrupted, and when it is done.

| file | what is in it |
|---|---|
| `recommender.gb` | names of users, arms and their vectors |
| `policy.gb` | the policy |
| `fit.json` | what it was fitted to; written last |
| `.fitting/` | what is kept of a fit that has not ended: the survey of the log, a checkpoint, sorted runs |
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..storage import archive
from ..storage.atomic import write_text
from .event_files import Piece
from .log_survey import PieceFacts, Survey

SURVEY = "survey of a log"


class ModelFolder:
    """The folder that a fit writes to, of a job that is known by its digest.

    A ValueError says that the folder holds something else.
    """

    def __init__(self, path: Path, digest: str, *, restart: bool = False) -> None:
        self.path, self.digest = Path(path), digest
        self.kept = self.path / ".fitting"
        self.path.mkdir(parents=True, exist_ok=True)
        if restart:
            shutil.rmtree(self.kept, ignore_errors=True)
            (self.path / "fit.json").unlink(missing_ok=True)
        done = self.summary()
        self.is_done = done.get("digest") == digest
        begun = self._pointer().get("digest", "")
        if done and not self.is_done and begun != digest:
            raise ValueError(
                f"{self.path} holds a model that was fitted to another log, or with other settings: "
                "give another folder, or replace it with --restart."
            )
        if begun not in ("", digest):
            raise ValueError(
                f"{self.path} holds a fit that was interrupted, of another log or with other settings: "
                "go on with these, give another folder, or begin anew with --restart."
            )
        if not self.is_done:
            self.kept.mkdir(exist_ok=True)

    def summary(self) -> dict[str, Any]:
        """What the model was fitted to; {} if there is none."""
        return _read(self.path / "fit.json")

    def _pointer(self) -> dict[str, Any]:
        return _read(self.kept / "checkpoint.json")

    # What is kept of a fit that has not ended

    def survey(self) -> Survey | None:
        """The survey that was kept; None if there is none of this job."""
        path = self.kept / "survey.gb"
        if not path.exists():
            return None
        header, _ = archive.read(path, SURVEY)
        if header["digest"] != self.digest:
            return None
        pieces = [Piece(file, first, rows, tuple(groups), number) for file, first, rows, groups, number in header["pieces"]]
        return Survey(pieces, [PieceFacts(*facts) for facts in header["facts"]], header["joining"])

    def keep_survey(self, survey: Survey) -> None:
        """Keep a survey."""
        header = dict(digest=self.digest, **survey._asdict())
        archive.write(self.kept / "survey.gb", SURVEY, header, {})

    def checkpoint(self) -> tuple[int, Path | None]:
        """How many rows the checkpoint has learned, and where it is; 0 and None if there is none."""
        found = self._pointer()
        return (found["rows"], self.kept / found["name"]) if found else (0, None)

    def keep_checkpoint(self, rows: int, write: Callable[[Path], None]) -> None:
        """Replace the checkpoint: `write` makes a file or folder, which counts from when it is whole."""
        path = self.kept / f"checkpoint-{rows}"
        _remove(path)
        write(path)
        self._write(self.kept / "checkpoint.json", rows=rows, name=path.name)
        for other in self.kept.glob("checkpoint-*"):
            if other != path:
                _remove(other)

    # The end

    def begin_to_write(self) -> None:
        """Take away what a folder with another model would be opened by."""
        for name in ("recommender.gb", "policy.gb"):
            (self.path / name).unlink(missing_ok=True)

    def finish(self, summary: dict[str, Any]) -> None:
        """Say what the model was fitted to, and keep nothing else."""
        self._write(self.path / "fit.json", **summary)
        shutil.rmtree(self.kept, ignore_errors=True)

    def _write(self, path: Path, **table: Any) -> None:
        text = json.dumps({"format": archive.FORMAT, "digest": self.digest, **table}, indent=2, ensure_ascii=False)
        write_text(path, text + "\n")


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _read(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    table: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    archive.check_format(table.get("format"), path)
    return table
