"""Resource variables: what is read of them before it is assigned is state, or a constant where nobody assigns it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from onchip.errors import GraphError
from onchip.formats.tflite.file import FileOperator, refused_if_damaged

VariableName: TypeAlias = tuple[str, str]
"""The container and the name by which handles of one variable are known."""
_EXPECTED = "variables that VAR_HANDLE names"


@dataclass(frozen=True, slots=True)
class KeptVariable:
    """A variable that keeps its value: the tensor that has it before an inference, and the one that has it after.

    `initial` is the constant that it begins with, None where nothing says it. A variable that nobody assigns is the
    constant itself, and none of these.
    """

    name: str
    before: int
    after: int
    initial: int | None


@dataclass
class Variables:
    """By the network's index of a handle its variable; by variable what it holds as operators run, and begins with."""

    handles: dict[int, VariableName] = field(default_factory=dict)
    held: dict[VariableName, int] = field(default_factory=dict)
    first_read: dict[VariableName, int] = field(default_factory=dict)
    initial: dict[VariableName, int] = field(default_factory=dict)

    def add_handle(self, index: int, operator: FileOperator) -> None:
        """Note which variable a VAR_HANDLE names; raises InputError for a damaged one."""
        self.handles[index] = _variable_of(operator)

    def of(self, operator: FileOperator, inputs: Sequence[int], place: str) -> VariableName:
        """The variable that an operator reads or assigns; raises GraphError where nobody names it."""
        name = self.handles.get(inputs[0]) if inputs else None
        if name is None:
            raise GraphError(f"{operator.kind} has a variable that nobody names", place=place, expected=_EXPECTED)
        return name

    def kept(self, resolved: Callable[[int], int]) -> tuple[KeptVariable, ...]:
        """The variables that are read before they are assigned; `resolved` is which tensor another stands for."""
        return tuple(
            KeptVariable("/".join(filter(None, name)), index, resolved(self.held[name]), self.initial.get(name))
            for name, index in self.first_read.items()
            if name in self.held
        )

    def constants(self, place: str) -> dict[int, int]:
        """By the tensor that reads a variable that nobody assigns, what it begins with; raises GraphError."""
        found = {}
        for name, index in self.first_read.items():
            if name not in self.held:
                if name not in self.initial:
                    what = f"variable {name[1]!r} is read, and nobody assigns it"
                    raise GraphError(what, place=place, expected="a CALL_ONCE that does")
                found[index] = self.initial[name]
        return found


def _variable_of(operator: FileOperator) -> VariableName:
    import tflite

    with refused_if_damaged():
        place = operator.table.BuiltinOptions()
        if place is None or operator.table.BuiltinOptionsType() != tflite.BuiltinOptions.VarHandleOptions:
            return "", ""
        options = tflite.VarHandleOptions()
        options.Init(place.Bytes, place.Pos)
        container, name = (
            (text or b"").decode(errors="backslashreplace") for text in (options.Container(), options.SharedName())
        )
    return container, name
