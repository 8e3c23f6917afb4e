"""The commands of a Typer application as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any


def commands_text(app: Any, name: str = "graphbandit") -> str:
    """Return every command, with its help and a table of its arguments and options."""
    return "\n\n".join(_commands(app, name))


def _commands(command: Any, name: str) -> Iterator[str]:
    inner: dict[str, Any] = getattr(command, "commands", {})
    if not inner:
        yield command_text(command, name)
    for word in sorted(inner):
        yield from _commands(inner[word], f"{name} {word}")


def command_text(command: Any, name: str) -> str:
    """Return the section of one command."""
    shown = [parameter for parameter in command.params if not getattr(parameter, "hidden", False)]
    arguments = [parameter for parameter in shown if parameter.param_type_name == "argument"]
    options = [parameter for parameter in shown if parameter.param_type_name == "option" and parameter.name != "help"]
    needed = [f"{option.opts[0]} {placeholder(option)}" for option in options if option.required]
    words = [name, *map(usage, arguments), *needed, *(["[options]"] if options else [])]
    parts = [f"## {name}", paragraphs(command.help or ""), f"```text\n{' '.join(words)}\n```"]
    rows = [(placeholder(found), found) for found in arguments]
    rows += [(" / ".join([*found.opts, *found.secondary_opts]), found) for found in options]
    if rows:
        lines = [f"| `{first}` | {cell(found.help or '')} | {default(found)} |" for first, found in rows]
        parts.append("\n".join(["| | | default |", "|---|---|---|", *lines]))
    return "\n\n".join(parts)


def placeholder(parameter: Any) -> str:
    """Return the placeholder of a value in the usage of a command."""
    return str(parameter.metavar or parameter.name.upper())


def usage(argument: Any) -> str:
    """Return an argument as in the first line of a help text."""
    shown = placeholder(argument) + ("..." if argument.nargs != 1 else "")
    return shown if argument.required else f"[{shown}]"


def paragraphs(help_text: str) -> str:
    """Return a help text as Markdown: a blank line begins a paragraph, other line breaks are spaces."""
    blocks = re.split(r"\n\s*\n", help_text.replace("\b", "").strip())
    return "\n\n".join(cell(" ".join(block.split())) for block in blocks)


def cell(text: str) -> str:
    """Escape text for Markdown, except for code between backticks."""
    pieces = re.split(r"(`[^`]*`)", " ".join(text.split()))
    escaped = [piece if piece.startswith("`") else re.sub(r"([*_<>\[\]$|\\])", r"\\\1", piece) for piece in pieces]
    return "".join(escaped).replace("--", "\\-\\-")


def default(parameter: Any) -> str:
    """Return the default of an option as text; "required" if it must be given."""
    value = parameter.default
    if parameter.required:
        return "required"
    if value is None or value is False or value == [] or value == ():
        return ""
    if value is True:
        return "yes"
    return f"`{', '.join(map(str, value)) if isinstance(value, list | tuple) else value}`"
