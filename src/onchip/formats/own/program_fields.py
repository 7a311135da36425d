"""The instructions of a program, as plan files and schedule files have them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NotRequired

from typing_extensions import TypedDict

from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction
from onchip.errors import InputError
from onchip.formats.validation import field_path


class AllocateFields(TypedDict):
    """A residency begins at an offset in bytes; `is_state`: of what the inference before has left there."""

    tensor: str
    memory: str
    offset_bytes: int
    is_state: NotRequired[bool]


class CopyFields(TypedDict):
    """The bytes of a tensor move."""

    tensor: str
    source: str
    target: str


class FreeFields(TypedDict):
    """The tensor's residency in a memory ends."""

    tensor: str
    memory: str


class InstructionFields(TypedDict, total=False):
    """One instruction: exactly one of the fields; `compute` names an operator."""

    allocate: AllocateFields
    copy: CopyFields
    compute: str
    free: FreeFields


def instructions_of(entries: Iterable[InstructionFields], error: type[InputError]) -> Iterable[Instruction]:
    """Yield the instructions that the fields say; raises `error` for an entry that is not exactly one."""
    for index, entry in enumerate(entries):
        if len(entry) != 1:
            raise error(
                f"it has {' and '.join(entry) or 'no field'}",
                place=field_path(("instructions", index)),
                expected="one of allocate, copy, compute, free",
            )
        yield _instruction(entry)


def _instruction(entry: InstructionFields) -> Instruction:
    if "allocate" in entry:
        return Allocate(**entry["allocate"])
    if "copy" in entry:
        return Copy(**entry["copy"])
    if "free" in entry:
        return Free(**entry["free"])
    return Compute(entry["compute"])


def instruction_fields(instruction: Instruction) -> InstructionFields:
    """The fields of an instruction."""
    match instruction:
        case Allocate(tensor, memory, offset_bytes, is_state):
            fields: AllocateFields = {"tensor": tensor, "memory": memory, "offset_bytes": offset_bytes}
            return {"allocate": {**fields, "is_state": True} if is_state else fields}
        case Copy(tensor, source, target):
            return {"copy": {"tensor": tensor, "source": source, "target": target}}
        case Free(tensor, memory):
            return {"free": {"tensor": tensor, "memory": memory}}
        case Compute(operator):
            return {"compute": operator}
