"""Names of arguments in messages of the library, converted to options of the command line.

The library names an argument as Python does, within backticks: `minimize='latency'`. A command shows it as an option:
--objective latency.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextvars import ContextVar
from functools import cache
from re import Match, sub
from typing import Any, Final

from onchip.errors import OnchipError, UsageError

_RENAMED: Final = {
    "target": ("sram", "accelerator"),
    "minimize": ("pareto", "objective"),
    "dims": ("dim",),
    "shapes": ("shape",),
    "values": ("value",),
    "states": ("state",),
    "alignment_bytes": ("alignment",),
    "inputs": ("input",),
}
"""Parameters of commands for the arguments of the library that have another name."""


_RUNNING: Final = ContextVar[tuple[Any, ...]]("running", default=())
"""The command that runs and the group of all commands, as Typer makes them."""


def set_running_command(group: Any, name: str) -> None:  # noqa: ANN401 (Typer's own type)
    """Set the command whose options messages name; those of other commands are the fallback."""
    own = group.commands.get(name)
    _RUNNING.set((group,) if own is None else (own, group))


def name_flags(error: OnchipError) -> None:
    """Convert the arguments that an error names to options, within backticks, and as the place of a UsageError."""
    error.what = with_flags(error.what)
    error.place = error.place and with_flags(error.place)
    error.expected = error.expected and with_flags(error.expected)
    if error.place and isinstance(error, UsageError):
        places = (part.partition(" ") for part in error.place.split(", "))
        error.place = ", ".join(f"{', '.join(_flags(name)) or name}{space}{value}" for name, space, value in places)


def with_flags(text: str) -> str:
    """Convert the arguments within backticks to options; other words within backticks stay as they are."""
    return sub(r"`([a-z_]+)(?:=(?:'([^`']*)'|([^`']*)))?`", _as_option, text)


def _as_option(found: Match[str]) -> str:
    flag = " or ".join(_flags(found[1]))
    value = found[2] if found[2] is not None else found[3]
    if not flag:
        return found[0]
    return flag if value in (None, "True") else f"{flag} {value}"


def _flags(argument: str) -> list[str]:
    """Return the options for an argument in the command that runs, or in any command; both for a target."""
    for options in (_options_of(command) for command in _RUNNING.get()):
        names = [name for name in (*_RENAMED.get(argument, ()), argument) if name in options]
        if names:
            return [options[name] for name in names[: 2 if argument == "target" else 1]]
    return []


@cache
def _options_of(command: Any) -> dict[str, str]:  # noqa: ANN401 (Typer's own type)
    """Return the options of a command, or of all verbs of a group, by parameter."""
    return dict(_named_options(command))


def _named_options(command: Any) -> Iterator[tuple[str, str]]:  # noqa: ANN401 (Typer's own type)
    for one in getattr(command, "commands", {}).values():
        yield from _named_options(one)
    for parameter in command.params:
        flag = max(parameter.opts, key=len, default="")
        if flag.startswith("--"):
            yield parameter.name, flag
            yield flag.removeprefix("--").replace("-", "_"), flag
