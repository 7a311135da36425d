"""Construction of commands from option dataclasses: each field is an argument or an option."""

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
"""Marker before a paragraph of a help text that must not be wrapped."""
EXAMPLE: Final = "Example:\n  "


def add_verb(
    app: typer.Typer, name: str, options: type[Options], command: Callable[[Options], int], example: str
) -> None:
    """Register `onchip NAME`, which calls `command` with its options.

    The help is its docstring, followed by an example.

    A field of `options` corresponds to a parameter of a Typer command: its type determines how it is parsed, and a
    field of type typer.Context gets the context. A field whose type is a dataclass is a group, replaced by its own
    fields. Raises ValueError if a command would have two fields of one name.
    """

    def call(**given: object) -> int:  # Typer passes every parameter by name
        with progress_of_verb():
            return command(_made(options, given))

    call.__doc__ = command.__doc__
    vars(call)["__signature__"] = Signature(list(_parameters(options)))
    app.command(name, epilog=AS_IT_STANDS + EXAMPLE + example)(call)


def _parameters(options: type) -> Iterator[Parameter]:
    """Yield a parameter for each field, including those of groups."""
    for field, kind in _kinds(options):
        if isinstance(kind, type) and is_dataclass(kind):
            yield from _parameters(kind)
        else:
            default = Parameter.empty if field.default is MISSING else field.default
            yield Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def _made(options: type[Options], given: Mapping[str, object]) -> Options:
    """Return options, including their groups, from the values of their fields by name."""
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
