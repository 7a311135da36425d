"""The plan file: a straight-line program with what it was made from and what its maker claims.

Read here, written by `plan_json_writer`. Whether the plan is legal is the verifier's to say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Final, Literal, NotRequired

from typing_extensions import TypedDict

from onchip.answer.document import Claim, Granularity, PlanDocument, Reading, Split
from onchip.answer.problem import Count, Durations, Objective, Order, Placement, Rate, Transfers
from onchip.answer.program import Plan
from onchip.answer.recomputation import Recomputation, Recompute
from onchip.answer.result import Status
from onchip.arch.memory import DRAM, Memory, Operand
from onchip.arch.sharing import NO_SHARING, SharedKinds
from onchip.errors import InputError, PlanError, errors_in_file
from onchip.formats.files import read_file
from onchip.formats.own.answer_format import ONNX_SUFFIX
from onchip.formats.own.document_fields import BindingFields, SourceFields, bindings_of, check_sizes, source_of
from onchip.formats.own.program_fields import InstructionFields, instructions_of
from onchip.formats.validation import Format, field_path, parse, placed, quoted

PLAN_FORMAT: Final = Format("onchip-plan", 1, PlanError)


class SharingFields(TypedDict):
    """The kinds of operators that compute in place, and that are an alias; `*` is every kind that can be."""

    in_place: list[str]
    alias: list[str]


class PlanReadingFields(BindingFields):
    """How the network file was read."""

    bits: NotRequired[int | None]
    granularity: NotRequired[Granularity]
    count: NotRequired[Count]
    split: NotRequired[Split]
    cap_tensors: NotRequired[bool]
    share: NotRequired[SharingFields]
    states: NotRequired[dict[str, str]]
    bands: NotRequired[dict[str, int]]
    recompute: NotRequired[Recompute]


class ScratchpadFields(TypedDict):
    """A scratchpad; without `holds` the array reads and writes every operand in it."""

    name: str
    capacity_bytes: int
    alignment_bytes: NotRequired[int]
    holds: NotRequired[list[Operand]]


class WayFields(TypedDict):
    """A way from one scratchpad to another beside DRAM."""

    source: str
    target: str


class TermFields(TypedDict):
    """What every unit begun costs."""

    unit_bits: int
    cost: int


class RateFields(TypedDict):
    """What a transfer that way costs, in the unit of the objective; without a rate it costs its bytes."""

    source: str
    target: str
    setup: int
    terms: list[TermFields]


class DurationFields(TypedDict):
    """How long things last, in cycles, where latency is least; `cycles` are of operators that state none themselves."""

    queues: int
    setup_cycles: int
    has_one_channel: bool
    cycles: dict[str, int]


class RecomputationFields(TypedDict):
    """What one more run of an operator costs, by its name and in the unit of the objective; else nothing."""

    costs: dict[str, int]


class PlanResultFields(TypedDict):
    """What the maker of a plan claims of it."""

    method: str
    status: Status
    objective: Objective
    objective_value: int
    lower_bound: int


class PlanFields(TypedDict):
    """The fields of a plan file, version 1."""

    format: Literal["onchip-plan"]
    version: Literal[1]
    graph: SourceFields
    accelerator: SourceFields
    reading: NotRequired[PlanReadingFields]
    memories: list[ScratchpadFields]
    links: NotRequired[list[WayFields]]
    rates: NotRequired[list[RateFields]]
    placement: NotRequired[Placement]
    order: NotRequired[Order]
    durations: NotRequired[DurationFields]
    recomputation: NotRequired[RecomputationFields]
    instructions: list[InstructionFields]
    result: NotRequired[PlanResultFields]


def read_plan(path: Path) -> PlanDocument:
    """What a plan file says, or an ONNX model that holds one; raises InputError."""
    if path.suffix == ONNX_SUFFIX:
        from onchip.formats.onnx.metadata import plan_in_model

        return plan_from_json(plan_in_model(path), str(path))
    return plan_from_json(read_file(path), str(path))


def plan_from_json(text: str | bytes, file: str) -> PlanDocument:
    """What the plan `text` says; `file` is its name in errors. Raises InputError."""
    fields = parse(PlanFields, PLAN_FORMAT, text, file)
    with errors_in_file(file):
        memories = _memories(fields["memories"])
        return PlanDocument(
            source_of(fields["graph"], "graph", PlanError),
            source_of(fields["accelerator"], "accelerator", PlanError),
            _reading(fields.get("reading", {})),
            Plan(memories, tuple(instructions_of(fields["instructions"], PlanError))),
            Claim(**fields["result"]) if "result" in fields else None,
            _transfers(fields, [memory.name for memory in memories]),
            fields.get("placement", Placement.DYNAMIC),
            fields.get("order", Order.FREE),
            _durations(fields),
            _recomputation(fields),
        )


def _reading(fields: PlanReadingFields) -> Reading:
    check_sizes({"bits": fields.get("bits")}, PlanError)
    bound = bindings_of(fields, PlanError)
    return Reading(
        fields.get("bits"),
        bound.dims,
        fields.get("granularity", Granularity.FUSED),
        fields.get("count", Count.ACTIVATIONS),
        fields.get("split", Split.NEVER),
        fields.get("cap_tensors", False),
        shapes=bound.shapes,
        values=bound.values,
        sharing=_sharing(fields["share"]) if "share" in fields else NO_SHARING,
        states=fields.get("states", {}),
        bands=fields.get("bands", {}),
        recompute=fields.get("recompute", Recompute.NEVER),
    )


def _sharing(fields: SharingFields) -> SharedKinds:
    return SharedKinds(tuple(fields["in_place"]), tuple(fields["alias"]))


def _memories(entries: list[ScratchpadFields]) -> tuple[Memory, ...]:
    if not entries:
        raise PlanError("it is empty", place="memories", expected="at least one scratchpad")
    memories = []
    for index, entry in enumerate(entries):
        try:
            memories.append(_memory(entry))
        except InputError as error:
            raise placed(error, field_path(("memories", index))) from None
    name, times = Counter(memory.name for memory in memories).most_common(1)[0]
    if times > 1:
        raise PlanError(f"{times} memories have the name {quoted(name)}", place="memories", expected="one")
    return tuple(memories)


def _memory(entry: ScratchpadFields) -> Memory:
    holds = tuple(entry.get("holds", Operand))
    return Memory(entry["name"], entry["capacity_bytes"], entry.get("alignment_bytes", 1), holds)


def _transfers(fields: PlanFields, names: list[str]) -> Transfers:
    links: list[tuple[str, str]] = []
    for index, link in enumerate(fields.get("links", ())):
        links.append(_ends(link, field_path(("links", index)), names, links))
    objective = fields["result"]["objective"] if "result" in fields else None
    if fields.get("rates") and objective in (Objective.TRAFFIC, Objective.PEAK, Objective.RECOMPUTATION):
        raise PlanError(
            f"there are rates, and the objective is {objective}, which takes no account of them",
            place="rates",
            expected=f"none, or the objective {Objective.DMA_CYCLES} or {Objective.DMA_ENERGY}",
        )
    rates: dict[tuple[str, str], Rate] = {}
    for index, entry in enumerate(fields.get("rates", ())):
        place = field_path(("rates", index))
        ends = _ends(entry, place, [DRAM, *names], rates)
        if DRAM not in ends and ends not in links:
            raise PlanError(
                f"no link leads from {quoted(ends[0])} to {quoted(ends[1])}", place=place, expected="one among `links`"
            )
        try:
            rates[ends] = Rate(entry["setup"], tuple((term["unit_bits"], term["cost"]) for term in entry["terms"]))
        except InputError as error:
            raise placed(error, place) from None
    return Transfers(tuple(links), rates)


def _durations(fields: PlanFields) -> Durations | None:
    """How long things last; the objective latency needs it, and the rates of all ways, too."""
    objective = fields["result"]["objective"] if "result" in fields else None
    if "durations" not in fields:
        if objective is Objective.LATENCY:
            raise PlanError("it is absent", place="durations", expected="how long things last, for the latency")
        return None
    try:
        return Durations(**fields["durations"])
    except InputError as error:
        raise placed(error, "durations") from None


def _recomputation(fields: PlanFields) -> Recomputation | None:
    """What running again costs, where the reading allows it; nothing for a plan that says no more."""
    if fields.get("reading", {}).get("recompute", Recompute.NEVER) is not Recompute.ALLOWED:
        if "recomputation" in fields:
            what, expected = "it is there, and nothing may run again", "`recompute` in `reading`: `allowed`"
            raise PlanError(what, place="recomputation", expected=expected)
        return None
    try:
        return Recomputation(**fields.get("recomputation", {"costs": {}}))
    except InputError as error:
        raise placed(error, "recomputation") from None


def _ends(
    entry: WayFields | RateFields, place: str, names: list[str], before: Collection[tuple[str, str]]
) -> tuple[str, str]:
    """Source and target of a way that is not `before`."""
    source, target = entry["source"], entry["target"]
    for field, name in (("source", source), ("target", target)):
        if name not in names:
            known = ", ".join(map(quoted, names))
            raise PlanError(f"it is {quoted(name)}", place=f"{place}.{field}", expected=f"one of {known}")
    if source == target:
        raise PlanError("it leads nowhere", place=place, expected="two memories")
    if (source, target) in before:
        raise PlanError(f"it is the second from {quoted(source)} to {quoted(target)}", place=place, expected="one")
    return source, target
