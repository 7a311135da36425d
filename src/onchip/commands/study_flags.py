"""A study defined by options, for `onchip sweep NETWORK...` without a study file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated

import typer

from onchip.commands.completion import accelerator_names
from onchip.errors import InputError, UsageError
from onchip.sweeps.point import SweptVerb

if TYPE_CHECKING:
    from onchip.formats.own.study_yaml import ParameterFields, StudyFields
    from onchip.sweeps.study import Study

NAME = "sweep"
"""Name of a study defined by options."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyFlags:
    """Options for the parts of a study; None if not given."""

    sram: Annotated[
        str | None, typer.Option(metavar="SIZE..SIZE|SIZE,SIZE", help="Sizes of one scratchpad that holds everything.")
    ] = None
    steps: Annotated[int | None, typer.Option(min=1, metavar="N", help="Values of each range.", show_default="20")] = (
        None
    )
    doubling: Annotated[bool, typer.Option("--doubling", help="Double the value from point to point of a range.")] = (
        False
    )
    accelerator: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME|FILE", help="Accelerator; repeatable.", autocompletion=accelerator_names),
    ] = None
    parameter: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH=VALUES", help="Field of the accelerators: memories.x.capacity=1MiB..2MiB; repeatable."
        ),
    ] = None
    objective: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Objective of the verb; repeatable.")] = (
        None
    )
    verb: Annotated[SweptVerb | None, typer.Option(help="Verb that computes the points.", show_default="plan")] = None
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Option of the verb, as in a study: bits=8; repeatable."),
    ] = None

    def ensure_none_is_given(self, expected: str) -> None:
        """Raise UsageError if a study option is given for a study that comes from elsewhere."""
        for one in fields(self):
            if getattr(self, one.name):
                raise UsageError("the option defines a study", place=f"--{one.name}", expected=expected)

    def study(self, networks: tuple[str, ...]) -> Study:
        """Return the study that the options define; raises UsageError that names an invalid option."""
        from onchip.sweeps.study import study_of

        asked: StudyFields = {"format": "onchip-study", "version": 1, "networks": [*networks]}
        if self.verb is not None:
            asked["verb"] = self.verb.value
        if self.accelerator:
            asked["accelerators"] = self.accelerator
        if self.objective:
            asked["objectives"] = self.objective
        given = {"sram": self.sram} if self.sram else {}
        parameters = [*given.items(), *_named(self.parameter, "--parameter", "PATH=VALUES")]
        asked["parameters"] = {name: self._parameter(values) for name, values in parameters}
        asked["options"] = {name: _parsed(text) for name, text in _named(self.option, "--option", "NAME=VALUE")}
        try:
            return study_of(asked, NAME)
        except InputError as error:
            error.place = _as_option(error.place or "")
            raise

    def _parameter(self, text: str) -> ParameterFields:
        if ".." not in text:
            return {"values": [_parsed(one) for one in text.split(",")]}
        asked: ParameterFields = {"range": text}
        if self.doubling:
            asked["doubling"] = True
        if self.steps is not None:
            asked["steps"] = self.steps
        return asked


def _named(texts: Sequence[str] | None, option: str, expected: str) -> list[tuple[str, str]]:
    """Return the texts split at their equals signs; raises UsageError without one, and for a duplicate name."""
    found: dict[str, str] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise UsageError(f"{text!r} is not of the form {expected}", place=option, expected=expected)
        if name in found:
            raise UsageError(f"{name!r} is given twice", place=option, expected="every name only once")
        found[name] = value
    return [*found.items()]


def _parsed(text: str) -> object:
    """Return a value as a study has it: numbers and booleans converted, comma-separated text as a list."""
    if "," in text:
        return [_parsed(one) for one in text.split(",")]
    stripped = text.strip()
    if stripped.lower() in ("true", "false"):
        return stripped.lower() == "true"
    for kind in (int, float):
        try:
            return kind(stripped)
        except ValueError:
            continue
    return stripped


def _as_option(place: str) -> str:
    """Return the place of an error as an option instead of a field of a study."""
    first, _, rest = place.partition(".")
    if first == "parameters":
        name, _, _ = rest.partition(".")
        return "--sram" if name == "sram" else f"--parameter {rest}"
    named = {"options": "--option", "objectives": "--objective", "accelerators": "--accelerator", "networks": "NETWORK"}
    option = named.get(first.partition("[")[0])
    return place if option is None else " ".join(filter(None, (option, rest)))
