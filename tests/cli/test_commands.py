"""Every command, option and module of the command line is in its table, has help, and is documented."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from graphbandit import cli

ROOT = Path(__file__).parents[2]


def commands(group: Any, name: str = "graphbandit") -> Iterator[tuple[str, Any]]:
    for word, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{name} {word}")
        else:
            yield f"{name} {word}", command


COMMANDS = dict(commands(typer.main.get_command(cli.app)))


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_in_the_table_and_in_the_docs(name: str) -> None:
    assert cli.__doc__ is not None
    words = name.split()
    assert " ".join(words[:2]) in cli.__doc__ and f"`{words[-1]}`" in cli.__doc__.replace(f"`{' '.join(words[:-1])} ", "`")
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    assert any(name in page.read_text() for page in pages)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_and_its_options_have_help(name: str) -> None:
    command = COMMANDS[name]
    assert command.help and command.help.rstrip().endswith((".", "?"))
    for option in command.params:
        assert option.help and option.help.endswith("."), f"{name} {option.name}"


def test_every_module_is_in_the_table() -> None:
    assert cli.__doc__ is not None
    for module in pkgutil.iter_modules(cli.__path__):
        assert module.name == "__main__" or f"| `{module.name}` |" in cli.__doc__, module.name
