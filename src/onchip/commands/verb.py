"""How a verb gets what the user asked: the fields of one dataclass are its arguments and options."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from inspect import Parameter, Signature
from typing import Any, Final, TypeVar, get_type_hints

import typer

from onchip.commands.progress import progress_of_verb

Options = TypeVar("Options")

AS_IT_STANDS: Final = "\b\n"
"""Before a paragraph of a help text that is not to be wrapped."""
EXAMPLE: Final = "Example:\n  "


def add_verb(
    app: typer.Typer, name: str, options: type[Options], command: Callable[[Options], int], example: str
) -> None:
    """Let `onchip NAME` call `command` with its options; the command's docstring is its help, which ends in an example.

    A field of `options` is what a parameter of a Typer command is: its type says how it is read, and one of type
    typer.Context gets the context. A field whose type is a dataclass is a group: the group's fields stand in its
    place. Raises ValueError where a verb would have two fields of one name.
    """

    def call(**given: object) -> int:  # Typer hands over every parameter by its name
        with progress_of_verb():
            return command(_made(options, given))

    call.__doc__ = command.__doc__
    vars(call)["__signature__"] = Signature(list(_parameters(options)))
    app.command(name, epilog=AS_IT_STANDS + EXAMPLE + example)(call)


def _parameters(options: type) -> Iterator[Parameter]:
    """Yield a parameter for each field, those of groups included."""
    for field, kind in _kinds(options):
        if isinstance(kind, type) and is_dataclass(kind):
            yield from _parameters(kind)
        else:
            default = Parameter.empty if field.default is MISSING else field.default
            yield Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def _made(options: type[Options], given: Mapping[str, object]) -> Options:
    """Return options, their groups included, made of the values of their fields by name."""
    hashable: type = options
    values = {
        field.name: _made(kind, given) if isinstance(kind, type) and is_dataclass(kind) else given[field.name]
        for field, kind in _kinds(hashable)
    }
    return options(**values)


@cache
def _kinds(options: type) -> tuple[tuple[Field[Any], Any], ...]:
    """Return each field with its type, which `from __future__ import annotations` leaves as text."""
    kinds = get_type_hints(options, include_extras=True)
    return tuple((field, kinds[field.name]) for field in fields(options))
