"""The plan file: a straight-line program with what it was made from and what its maker claims.

Read here, written by `export/plan_json`. Whether the plan is legal is the verifier's to say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from re import fullmatch
from typing import Final, Literal, NotRequired

from typing_extensions import TypedDict

from onchip.arch.memory import Memory
from onchip.errors import InputError, PlanError
from onchip.frontends.files import read_file
from onchip.frontends.validation import Format, field_path, parse, placed, quoted
from onchip.plan.document import Claim, Granularity, PlanDocument, Reading, Source, Split
from onchip.plan.plan import Allocate, Compute, Copy, Free, Instruction, Plan
from onchip.plan.problem import Count, Objective
from onchip.plan.result import Status

PLAN_FORMAT: Final = Format("onchip-plan", 1, PlanError)


class SourceFields(TypedDict):
    """What the plan was made from; `sha256` may be absent in plans of other tools."""

    name: str
    sha256: NotRequired[str]


class ReadingFields(TypedDict):
    """How the network file was read."""

    bits: NotRequired[int | None]
    dims: NotRequired[dict[str, int]]
    granularity: NotRequired[Granularity]
    count: NotRequired[Count]
    split: NotRequired[Split]


class MemoryFields(TypedDict):
    """A scratchpad."""

    name: str
    capacity_bytes: int
    alignment_bytes: NotRequired[int]


class AllocateFields(TypedDict):
    """A residency begins."""

    tensor: str
    memory: str
    offset_bytes: int


class CopyFields(TypedDict):
    """The bytes of a tensor move."""

    tensor: str
    source: str
    target: str


class FreeFields(TypedDict):
    """A residency ends."""

    tensor: str
    memory: str


class InstructionFields(TypedDict, total=False):
    """One instruction: exactly one of the fields; `compute` names an operator."""

    allocate: AllocateFields
    copy: CopyFields
    compute: str
    free: FreeFields


class ResultFields(TypedDict):
    """What the maker claims."""

    method: str
    status: Status
    objective: Objective
    objective_value: int
    lower_bound: int


class PlanFields(TypedDict):
    """A plan file."""

    format: Literal["onchip-plan"]
    version: Literal[1]
    graph: SourceFields
    accelerator: SourceFields
    reading: NotRequired[ReadingFields]
    memories: list[MemoryFields]
    instructions: list[InstructionFields]
    result: NotRequired[ResultFields]


def read_plan(path: Path) -> PlanDocument:
    """What a plan file says; raises InputError."""
    return plan_from_json(read_file(path), str(path))


def plan_from_json(text: str | bytes, file: str) -> PlanDocument:
    """What the plan `text` says; `file` is its name in errors. Raises InputError."""
    fields = parse(PlanFields, PLAN_FORMAT, text, file)
    try:
        return PlanDocument(
            _source(fields["graph"], "graph"),
            _source(fields["accelerator"], "accelerator"),
            _reading(fields.get("reading", {})),
            Plan(_memories(fields["memories"]), tuple(_instructions(fields["instructions"]))),
            Claim(**fields["result"]) if "result" in fields else None,
        )
    except InputError as error:
        raise error.in_file(file) from None


def _source(fields: SourceFields, place: str) -> Source:
    sha256 = fields.get("sha256")
    if sha256 is not None and not fullmatch("[0-9a-f]{64}", sha256):
        raise PlanError(f"it is {quoted(sha256)}", place=f"{place}.sha256", expected="64 hexadecimal digits")
    return Source(fields["name"], sha256)


def _reading(fields: ReadingFields) -> Reading:
    numbers = {"bits": fields.get("bits")} | {f"dims.{name}": size for name, size in fields.get("dims", {}).items()}
    for name, number in numbers.items():
        if number is not None and number < 1:
            raise PlanError(f"it is {number}", place=f"reading.{name}", expected="at least 1")
    return Reading(**fields)


def _memories(entries: list[MemoryFields]) -> tuple[Memory, ...]:
    if not entries:
        raise PlanError("it is empty", place="memories", expected="at least one scratchpad")
    memories = []
    for index, entry in enumerate(entries):
        try:
            memories.append(Memory(**entry))
        except InputError as error:
            raise placed(error, field_path(("memories", index))) from None
    name, times = Counter(memory.name for memory in memories).most_common(1)[0]
    if times > 1:
        raise PlanError(f"{times} memories have the name {quoted(name)}", place="memories", expected="one")
    return tuple(memories)


def _instructions(entries: list[InstructionFields]) -> Iterable[Instruction]:
    for index, entry in enumerate(entries):
        if len(entry) != 1:
            raise PlanError(
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
