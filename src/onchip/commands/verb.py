"""Commands made from option dataclasses, and the names of their options in messages of the library.

Each field is an argument or an option. The library names an argument as Python does, within backticks:
`minimize='latency'`. A command shows it as an option: --objective latency.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from inspect import Parameter, Signature
from re import Match, sub
from typing import Annotated, Any, Final, TypeVar, get_type_hints

import typer

from onchip.answer.options.choices import Described, all_described
from onchip.commands.progress import progress_of_verb
from onchip.errors import InputError, OnchipError, UsageError

Options = TypeVar("Options")

AS_IT_STANDS: Final = "\b\n"
"""Marker before a paragraph of a help text that must not be wrapped."""
EXAMPLE: Final = "Example:\n  "


def add_verb(app: typer.Typer, command: Callable[[Options], int], example: str) -> None:
    """Register `onchip NAME`, which calls the function `NAME_command` with its options, a dataclass.

    The help is the docstring of the function, followed by an example.

    A field of the options corresponds to a parameter of a Typer command: its type determines how it is parsed, and a
    field of type typer.Context gets the context. A field whose type is a dataclass is a group, replaced by its own
    fields, without those that only the library has. Raises ValueError if a command would
    have two fields of one name.
    """
    options: type[Options] = get_type_hints(command)["options"]

    def call(**given: object) -> int:  # Typer passes every parameter by name
        with progress_of_verb():
            return command(_made(options, given))

    call.__doc__ = command.__doc__
    vars(call)["__signature__"] = Signature(list(_parameters(options)))
    app.command(command.__name__.removesuffix("_command"), epilog=AS_IT_STANDS + EXAMPLE + example)(call)


def _parameters(options: type) -> Iterator[Parameter]:
    """Yield a parameter for each field, including those of groups."""
    described = {field.name: one for field, one in all_described(options)}
    for field, kind in _kinds(options):
        if isinstance(kind, type) and is_dataclass(kind):
            yield from _parameters(kind)
        elif field.name in described:
            if described[field.name].is_flag:
                yield _described_parameter(field, kind, described[field.name])
        else:
            default = Parameter.empty if field.default is MISSING else field.default
            yield Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def _described_parameter(field: Field[Any], kind: Any, one: Described) -> Parameter:  # noqa: ANN401 (a type)
    """Return the parameter of a field of an options dataclass; a flag negates a truth value that is true by default."""
    is_negated = field.default is True
    declared = one.flag or f"--{field.name.replace('_', '-')}"
    as_typer = typer.Option(
        declared,
        metavar=one.metavar,
        help=one.help,
        show_default=one.default if one.default is not None else not isinstance(field.default, bool),
        min=one.least,
        max=one.most,
    )
    annotation: object = Annotated[str | None if one.parse else kind, as_typer]
    default = False if is_negated else field.default
    return Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _made(options: type[Options], given: Mapping[str, object]) -> Options:
    """Return options, including their groups, from the values of their fields by name."""
    hashable: type = options
    described = {field.name: one for field, one in all_described(hashable)}
    values: dict[str, object] = {}
    for field, kind in _kinds(hashable):
        if isinstance(kind, type) and is_dataclass(kind):
            values[field.name] = _made(kind, given)
        elif field.name in described:
            if described[field.name].is_flag:
                values[field.name] = _value(field, described[field.name], given[field.name])
        else:
            values[field.name] = given[field.name]
    return options(**values)


def _value(field: Field[Any], one: Described, given: object) -> object:
    """Return the value of a described option; raises UsageError for text that cannot be parsed."""
    if field.default is True:
        return not given
    if one.parse is None or not isinstance(given, str):
        return given
    try:
        return one.parse(given)
    except InputError as error:
        raise UsageError(error.what, place=field.name, expected=error.expected) from None


@cache
def _kinds(options: type) -> tuple[tuple[Field[Any], Any], ...]:
    """Return each field with its type, which `from __future__ import annotations` leaves as text."""
    kinds = get_type_hints(options, include_extras=True)
    return tuple((field, kinds[field.name]) for field in fields(options))


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
