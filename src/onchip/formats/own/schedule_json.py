"""The schedule file: stacks, mappings and instructions, with the whole accelerator and what their maker claims.

Read here, written by `schedule_json_writer`. Whether a schedule is legal is the verifier's to say.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final, Literal, NotRequired

from typing_extensions import TypedDict

from onchip.answer.document import Claim, Document, Granularity, Reading, ScheduleDocument
from onchip.answer.problem import Count
from onchip.answer.program import Plan
from onchip.answer.result import Status
from onchip.answer.schedule import Homes, Schedule, ScheduledMapping, ScheduledStack, ScheduleError
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import Memory
from onchip.errors import InputError, errors_in_file
from onchip.formats.files import read_file
from onchip.formats.own.accelerator_yaml import AcceleratorFields, accelerator_of
from onchip.formats.own.document_fields import (
    BindingFields,
    PixelFields,
    SourceFields,
    bindings_of,
    check_sizes,
    source_of,
)
from onchip.formats.own.layer_fields import LayerFields, NestFields, layer_of, mapping_of
from onchip.formats.own.program_fields import InstructionFields, instructions_of
from onchip.formats.validation import Format, field_path, parse, placed
from onchip.without_collecting import without_collecting

SCHEDULE_FORMAT: Final = Format("onchip-schedule", 1, ScheduleError)
DECISIONS: Final = ("order", "stacks", "tilings", "homes", "mappings", "residencies", "prefetch")
"""What may be chosen, in the space of a claim."""
FIGURES: Final = ("energy_pj", "latency_cycles", "traffic_bytes")
"""Figures of a schedule in a claim; the energy is left out if the accelerator does not state that of a MAC."""


class ScheduleReadingFields(BindingFields):
    """How the network was read; null: an element has the model's own bits, a sum in the making 16 more, up to 32.

    Beside the model's own bits a sum has 32, if nothing is said; it never has fewer than its output.
    """

    bits: int | None
    partial_bits: NotRequired[int | None]
    granularity: NotRequired[Granularity]


class ScheduledStackFields(TypedDict):
    """Operators by name; `tile` and `mode` where they run tile by tile."""

    operators: list[str]
    tile: PixelFields | None
    mode: NotRequired[OverlapMode]


class HomesFields(TypedDict, total=False):
    """Memories by name; an operand that is left out streams from or to DRAM, or the layer has none."""

    input: str
    weight: str
    output: str


class ScheduledMappingFields(NestFields):
    """How tile operators of a stack run whose loop nest is `layer`; stacks are numbered from 0."""

    stack: int
    layer: LayerFields
    homes: HomesFields


class SpaceFields(TypedDict):
    """What the bound is proven among: `any`, or the restriction in words."""

    order: str
    stacks: str
    tilings: str
    homes: str
    mappings: str
    residencies: str
    prefetch: str


class ScheduleResultFields(TypedDict):
    """What the maker claims; objective and bound in femtojoules, cycles, the product of both, or bytes."""

    method: str
    status: Status
    objective: Literal["energy", "latency", "edp", "traffic"]
    objective_value: int | float
    lower_bound: int | float
    energy_pj: NotRequired[int | float]
    latency_cycles: int
    traffic_bytes: int
    space: SpaceFields


class ScheduleFields(TypedDict):
    """A schedule file; the stacks stand in the order in which they run, the accelerator is an accelerator file's."""

    format: Literal["onchip-schedule"]
    version: Literal[1]
    graph: SourceFields
    accelerator: AcceleratorFields
    reading: ScheduleReadingFields
    stacks: list[ScheduledStackFields]
    mappings: list[ScheduledMappingFields]
    instructions: list[InstructionFields]
    result: NotRequired[ScheduleResultFields]


@without_collecting()
def read_schedule(path: Path) -> ScheduleDocument:
    """What a schedule file says, unpacked where `path` ends in `.gz`; raises InputError."""
    return schedule_from_json(read_file(path), str(path))


def schedule_from_json(text: str | bytes, file: str) -> ScheduleDocument:
    """What the schedule `text` says; `file` is its name in errors. Raises InputError with the field."""
    fields = parse(ScheduleFields, SCHEDULE_FORMAT, text, file)
    with errors_in_file(file):
        accelerator = accelerator_of(fields["accelerator"], "accelerator")
        stacks = tuple(_stack(entry, field_path(("stacks", at))) for at, entry in enumerate(fields["stacks"]))
        mappings = tuple(
            _mapping(entry, len(stacks), field_path(("mappings", at))) for at, entry in enumerate(fields["mappings"])
        )
        instructions = tuple(instructions_of(fields["instructions"], ScheduleError))
        return Document(
            source_of(fields["graph"], "graph", ScheduleError),
            accelerator,
            _reading(fields["reading"]),
            Schedule(stacks, mappings, Plan(addressed_memories(accelerator), instructions)),
            _claim(fields["result"]) if "result" in fields else None,
        )


def addressed_memories(accelerator: Accelerator) -> tuple[Memory, ...]:
    """The memories in which the program of a schedule allocates."""
    return tuple(level.memory for level in accelerator.addressed)


def _reading(fields: ScheduleReadingFields) -> Reading:
    """All tensors of a schedule are counted."""
    bits, partial_bits = fields["bits"], fields.get("partial_bits")
    check_sizes({"bits": bits, "partial_bits": partial_bits}, ScheduleError)
    reading = Reading.of(bindings_of(fields, ScheduleError), fields.get("granularity", Granularity.FUSED))
    return replace(reading, bits=bits, count=Count.ALL, partial_bits=partial_bits)


def _stack(fields: ScheduledStackFields, place: str) -> ScheduledStack:
    tile, mode = fields["tile"], fields.get("mode")
    if (tile is None) is not (mode is None):
        what = "it has a mode and no tile" if tile is None else "it has a tile and no mode"
        raise ScheduleError(what, place=place, expected="both or none")
    try:
        tiling = None if tile is None or mode is None else Tiling(tile["columns"], tile["rows"], mode)
        return ScheduledStack(tuple(fields["operators"]), tiling)
    except InputError as error:
        raise placed(error, place) from None


def _mapping(fields: ScheduledMappingFields, stack_count: int, place: str) -> ScheduledMapping:
    stack = fields["stack"]
    if not 0 <= stack < stack_count:
        expected = f"0 to {stack_count - 1}" if stack_count else "a stack"
        raise ScheduleError(f"there is no stack {stack}", place=f"{place}.stack", expected=expected)
    layer = layer_of(fields["layer"], f"{place}.layer")
    return ScheduledMapping(stack, layer, Homes(**fields["homes"]), mapping_of(fields, place))


def _claim(fields: ScheduleResultFields) -> Claim:
    return Claim(
        fields["method"],
        fields["status"],
        fields["objective"],
        fields["objective_value"],
        fields["lower_bound"],
        {name: fields[name] for name in FIGURES if name in fields},
        {decision: fields["space"][decision] for decision in DECISIONS},
    )
