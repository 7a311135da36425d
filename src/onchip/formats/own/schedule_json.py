"""The schedule file: fused groups, mappings and instructions, the whole accelerator, and the maker's claims.

The reader does not judge whether the schedule is legal; the verifier does. The same schedule gives the same bytes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Final, Literal, NotRequired

from typing_extensions import TypedDict

from onchip.answer.document import Claim, Document, Granularity, Reading, ScheduleDocument
from onchip.answer.problem import Count
from onchip.answer.program import Plan
from onchip.answer.result import Status
from onchip.answer.schedule import Homes, Schedule, ScheduledMapping, ScheduledStack, ScheduleError
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import Memory
from onchip.formats.files import document_text
from onchip.formats.own.accelerator_yaml import AcceleratorFields, accelerator_fields, accelerator_of
from onchip.formats.own.fields import (
    BindingFields,
    FileKind,
    InstructionFields,
    LayerFields,
    NestFields,
    PixelFields,
    SourceFields,
    binding_fields,
    claim_fields,
    instruction_fields,
    instructions_of,
    layer_fields,
    layer_of,
    made,
    mapping_fields,
    mapping_of,
    reading_of,
    source_of,
    written,
)
from onchip.formats.validation import Doc, Format, errors_at, field_path

SCHEDULE_FORMAT: Final = Format("onchip-schedule", 1, ScheduleError)
DECISIONS: Final = ("order", "stacks", "tilings", "homes", "mappings", "residencies", "prefetch")
"""Decisions that the space of a claim names."""
FIGURES: Final = ("energy_pj", "latency_cycles", "traffic_bytes")
"""Figures of a schedule in a claim; the energy is absent if the accelerator does not state the energy of a MAC."""


class ScheduleReadingFields(BindingFields):
    """Options with which the network was read.

    With `bits` null, elements have the bits of the model; `partial_bits`, the accumulator width, is then 16 more, up
    to 32, if it is null, and 32 if it is absent. An accumulator never has fewer bits than the output.
    """

    bits: Annotated[int | None, Doc("Bits per element; null for the data types of the model.")]
    partial_bits: NotRequired[Annotated[int | None, Doc("Accumulator width in bits.")]]
    granularity: NotRequired[Annotated[Granularity, Doc("`fused`, or `raw` for the nodes of the file.")]]
    key_slices: NotRequired[Annotated[int, Doc("Slices of the keys in which softmaxes between products run.")]]


class ScheduledTileFields(PixelFields):
    """A tile of the last output of a fused group, with all channels or a slice of them."""

    channels: NotRequired[Annotated[int, Doc("Channels of the tile, which then has all pixels; all if absent.")]]


class ScheduledStackFields(TypedDict):
    """Operators of a fused group, by name; `tile` and `mode` if they run tile by tile."""

    operators: Annotated[list[str], Doc("Names of the operators in execution order.")]
    tile: Annotated[ScheduledTileFields | None, Doc("Tile of the last output; null if the group runs untiled.")]
    mode: NotRequired[Annotated[OverlapMode, Doc("Overlap mode: `recompute`, `h-cached` or `fully-cached`.")]]


class HomesFields(TypedDict, total=False):
    """Home memories by name; an absent operand streams from or to DRAM, or does not exist."""

    input: Annotated[str, Doc("Home memory of the input.")]
    weight: Annotated[str, Doc("Home memory of the weight.")]
    output: Annotated[str, Doc("Home memory of the output.")]


class ScheduledMappingFields(NestFields):
    """The mapping of the tile operators of a fused group whose loop nest is `layer`; groups are numbered from 0."""

    stack: Annotated[int, Doc("Number of the fused group, from 0.")]
    layer: Annotated[LayerFields, Doc("Loop nest with the exact extents of the tile.")]
    homes: Annotated[HomesFields, Doc("Home memories of the operands.")]


class SpaceFields(TypedDict):
    """The space in which the bound is proven: `any`, or the restriction in words, for each decision."""

    order: Annotated[str, Doc("Operator orders.")]
    stacks: Annotated[str, Doc("Fused groups.")]
    tilings: Annotated[str, Doc("Tiles and overlap modes.")]
    homes: Annotated[str, Doc("Operand placements.")]
    mappings: Annotated[str, Doc("Loop mappings.")]
    residencies: Annotated[str, Doc("Residencies.")]
    prefetch: Annotated[str, Doc("Times of transfers.")]


class ScheduleResultFields(TypedDict):
    """Claims of the maker; objective and bound in femtojoules, cycles, the product of both, or bytes."""

    method: Annotated[str, Doc("Method that found the schedule.")]
    status: Annotated[Status, Doc("`OPTIMAL`, `FEASIBLE`, `INFEASIBLE` or `UNKNOWN`.")]
    objective: Annotated[Literal["energy", "latency", "edp", "traffic"], Doc("Name of the objective.")]
    objective_value: int | float
    """Value of the schedule in femtojoules, cycles, their product, or bytes."""
    lower_bound: Annotated[int | float, Doc("Lower bound on the value of every schedule of the space.")]
    energy_pj: NotRequired[int | float]
    """Energy in pJ; absent if the accelerator does not state all energies."""
    latency_cycles: Annotated[int, Doc("Latency in cycles.")]
    traffic_bytes: Annotated[int, Doc("Bytes from and to DRAM.")]
    space: Annotated[SpaceFields, Doc("Space for which the bound holds.")]


class ScheduleFields(TypedDict):
    """A schedule file, with fused groups in execution order and the fields of an accelerator file."""

    format: Annotated[Literal["onchip-schedule"], Doc("Name of the format.")]
    version: Annotated[Literal[1], Doc("Version of the format.")]
    graph: Annotated[SourceFields, Doc("Network that the schedule is for.")]
    accelerator: Annotated[AcceleratorFields, Doc("The complete accelerator.")]
    reading: Annotated[ScheduleReadingFields, Doc("Options with which the network file is read.")]
    stacks: Annotated[list[ScheduledStackFields], Doc("Fused groups in execution order.")]
    mappings: Annotated[list[ScheduledMappingFields], Doc("Mapping of each distinct loop nest.")]
    instructions: Annotated[list[InstructionFields], Doc("The program over the network in tiles.")]
    result: NotRequired[Annotated[ScheduleResultFields, Doc("Claims of the maker; `onchip check` recomputes them.")]]


def _schedule_of(fields: ScheduleFields) -> ScheduleDocument:
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


def _reading(fields: ScheduleReadingFields) -> Reading:
    key_slices = fields.get("key_slices", 1)
    if key_slices < 1:
        raise ScheduleError(f"there are {key_slices}", place="reading.key_slices", expected="at least 1")
    return replace(reading_of(fields, ScheduleError), count=Count.ALL, key_slices=key_slices)


def addressed_memories(accelerator: Accelerator) -> tuple[Memory, ...]:
    """Return the memories in which the program of a schedule allocates."""
    return tuple(level.memory for level in accelerator.addressed)


def _stack(fields: ScheduledStackFields, place: str) -> ScheduledStack:
    tile, mode = fields["tile"], fields.get("mode")
    if (tile is None) is not (mode is None):
        what = "it has a mode and no tile" if tile is None else "it has a tile and no mode"
        raise ScheduleError(what, place, "both or none")
    with errors_at(place):
        tiling = None if tile is None or mode is None else Tiling(**tile, mode=mode)
        return ScheduledStack(tuple(fields["operators"]), tiling)


def _mapping(fields: ScheduledMappingFields, stack_count: int, place: str) -> ScheduledMapping:
    stack = fields["stack"]
    if not 0 <= stack < stack_count:
        expected = f"0 to {stack_count - 1}" if stack_count else "a stack"
        raise ScheduleError(f"there is no stack {stack}", f"{place}.stack", expected)
    layer = layer_of(fields["layer"], f"{place}.layer")
    return ScheduledMapping(stack, layer, Homes(**fields["homes"]), mapping_of(fields, place))


def _claim(fields: ScheduleResultFields) -> Claim:
    figures = {name: fields[name] for name in FIGURES if name in fields}
    return made(Claim, fields, figures=figures, space={decision: fields["space"][decision] for decision in DECISIONS})


def schedule_to_json(document: ScheduleDocument) -> str:
    """Return the text of a schedule file, one line per fused group, mapping and instruction.

    Raises ScheduleError for names that are not Unicode, and for a program over other memories than the addressed
    memories of the accelerator, which the file could not express.
    """
    schedule, reading, claim = document.answer, document.reading, document.claim
    if schedule.program.memories != addressed_memories(document.accelerator):
        names = ", ".join(memory.name for memory in schedule.program.memories)
        expected = f"those that {document.accelerator.name!r} addresses"
        raise ScheduleError(f"the program is over {names or 'no memory'}", "instructions", expected)
    graph = written(SourceFields, document.graph)
    fields = {
        "accelerator": {
            name: tuple(value) if name == "memories" and isinstance(value, list) else value
            for name, value in accelerator_fields(document.accelerator).items()
        },
        "reading": {
            "bits": reading.bits,
            "partial_bits": reading.partial_bits,
            **binding_fields(reading.bindings),
            "granularity": reading.granularity,
            **({"key_slices": reading.key_slices} if reading.key_slices > 1 else {}),
        },
        "stacks": tuple(map(_stack_fields, schedule.stacks)),
        "mappings": tuple(map(_mapping_fields, schedule.mappings)),
        "instructions": tuple(map(instruction_fields, schedule.program.instructions)),
        "result": claim and _claim_fields(claim),
    }
    head = {"format": SCHEDULE_FORMAT.name, "version": SCHEDULE_FORMAT.version, "graph": graph}
    return document_text(head, fields, ScheduleError)


_SCHEDULES: Final = FileKind(SCHEDULE_FORMAT, ScheduleFields, _schedule_of, schedule_to_json)
read_schedule, schedule_from_json, write_schedule = _SCHEDULES.read, _SCHEDULES.of_text, _SCHEDULES.write


def _stack_fields(stack: ScheduledStack) -> dict[str, object]:
    operators, tiling = list(stack.operators), stack.tiling
    if tiling is None:
        return {"operators": operators, "tile": None}
    return {"operators": operators, "tile": tile_fields(tiling), "mode": tiling.mode}


def tile_fields(tiling: Tiling) -> dict[str, object]:
    """Return the sizes of a tile; its channels only if it does not have all."""
    return written(ScheduledTileFields, tiling)


def _mapping_fields(mapping: ScheduledMapping) -> dict[str, object]:
    homes = {str(operand): home for operand, home in mapping.homes}
    fields = {"stack": mapping.stack, "layer": layer_fields(mapping.layer), "homes": homes}
    return fields | mapping_fields(mapping.mapping)


def _claim_fields(claim: Claim) -> dict[str, object]:
    figures = {name: claim.figures[name] for name in FIGURES if name in claim.figures}
    space = {decision: claim.space[decision] for decision in DECISIONS}
    return {"method": claim.method, **claim_fields(claim), **figures, "space": space}
