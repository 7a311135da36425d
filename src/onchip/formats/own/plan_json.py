"""The plan file: a straight-line program, the question that it answers, and the maker's claims.

The reader does not judge whether the plan is legal; the verifier does. The same plan gives the same bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from typing import Annotated, Final, Literal, NotRequired

from typing_extensions import TypedDict

from onchip.answer.document import RECOMPUTED_MACS, Claim, Granularity, PlanDocument, Reading, Runtime
from onchip.answer.operator_tiles import OperatorTiles
from onchip.answer.problem import (
    Count,
    Durations,
    Objective,
    Order,
    Placement,
    Rate,
    Recomputation,
    Recompute,
    Transfers,
)
from onchip.answer.program import Plan
from onchip.answer.result import Status
from onchip.arch.memory import DRAM, Memory, Operand
from onchip.arch.sharing import NO_SHARING, SharedKinds
from onchip.errors import PlanError
from onchip.formats.files import document_text
from onchip.formats.own.fields import (
    BindingFields,
    FileKind,
    InstructionFields,
    SourceFields,
    binding_fields,
    claim_fields,
    instruction_fields,
    instructions_of,
    made,
    present,
    reading_of,
    source_of,
    written,
)
from onchip.formats.validation import Doc, Format, errors_at, field_path, quoted
from onchip.without_collecting import without_collecting

PLAN_FORMAT: Final = Format("onchip-plan", 1, PlanError)


class SharingFields(TypedDict):
    """Kinds of operators that compute in place, and kinds that are an alias; `*` stands for every kind."""

    in_place: Annotated[list[str], Doc("Kinds that compute in place.")]
    alias: Annotated[list[str], Doc("Kinds whose output is an alias.")]


class OperatorTilesFields(TypedDict):
    """Tiles of an operator along a dimension of its output, by their ends in ascending order.

    Without ends, the operator runs for each tile of its reader, and computes again what several of them read.
    """

    axis: Annotated[int, Doc("Dimension of the output.")]
    ends: NotRequired[Annotated[list[int], Doc("End of each tile, ascending.")]]


class PlanReadingFields(BindingFields):
    """Options with which the network file was read."""

    bits: NotRequired[Annotated[int | None, Doc("Bits per element; null for the data types of the model.")]]
    granularity: NotRequired[Annotated[Granularity, Doc("`fused`, or `raw` for the nodes of the file.")]]
    count: NotRequired[Annotated[Count, Doc("`activations`, or `all` if parameters are counted too.")]]
    cap_tensors: NotRequired[Annotated[bool, Doc("True if tensors are cut to the capacity, as in Jang's thesis.")]]
    share: NotRequired[Annotated[SharingFields, Doc("Kinds of operators whose operands share bytes.")]]
    states: NotRequired[Annotated[dict[str, str], Doc("Map from a state input to the output that is its next value.")]]
    bands: NotRequired[Annotated[dict[str, int], Doc("Map from an operator to its number of channel tiles.")]]
    recompute: NotRequired[Annotated[Recompute, Doc("`allowed` if operators may run again.")]]
    tiles: NotRequired[Annotated[dict[str, OperatorTilesFields], Doc("Map from an operator to its tiles.")]]
    runtime: NotRequired[Annotated[Runtime, Doc("Runtime whose operators, lives and scratch buffers are planned.")]]


class ScratchpadFields(TypedDict):
    """A scratchpad; without `holds` the array reads and writes every operand in it."""

    name: Annotated[str, Doc("Name of the scratchpad.")]
    capacity_bytes: Annotated[int, Doc("Capacity in bytes.")]
    alignment_bytes: NotRequired[Annotated[int, Doc("Every offset is a multiple of this number; 1 if absent.")]]
    holds: NotRequired[list[Operand]]
    """Operands that the array reads from the scratchpad or writes to it; all if absent."""


class WayFields(TypedDict):
    """A link from one scratchpad to another that avoids DRAM."""

    source: Annotated[str, Doc("Scratchpad that is read.")]
    target: Annotated[str, Doc("Scratchpad that is written.")]


class TermFields(TypedDict):
    """Cost of each started unit of `unit_bits`."""

    unit_bits: Annotated[int, Doc("Bits of one unit.")]
    cost: Annotated[int, Doc("Cost of one unit.")]


class RateFields(TypedDict):
    """Cost of a transfer from `source` to `target`, in the unit of the objective; without a rate it costs its bytes."""

    source: Annotated[str, Doc("Memory that is read.")]
    target: Annotated[str, Doc("Memory that is written.")]
    setup: Annotated[int, Doc("Cost of each transfer, whatever its size.")]
    terms: Annotated[list[TermFields], Doc("Costs by size, which add up.")]


class DurationFields(TypedDict):
    """Durations in cycles, for the objective latency; `cycles` are those of operators that state none themselves."""

    queues: Annotated[int, Doc("Number of DMA queues.")]
    setup_cycles: Annotated[int, Doc("Cycles to set up one transfer.")]
    has_one_channel: Annotated[bool, Doc("True if loads and stores share one channel of DRAM.")]
    cycles: Annotated[dict[str, int], Doc("Map from an operator to its cycles.")]


class RecomputationFields(TypedDict):
    """Cost of one more run of an operator, by its name, in the unit of the objective; 0 for other operators."""

    costs: Annotated[dict[str, int], Doc("Map from an operator to the cost of one more run.")]


class PlanResultFields(TypedDict):
    """Claims of the maker of a plan."""

    method: Annotated[str, Doc("Method that found the plan.")]
    status: Annotated[Status, Doc("`OPTIMAL`, `FEASIBLE`, `INFEASIBLE` or `UNKNOWN`.")]
    objective: Annotated[Objective, Doc("Name of the objective.")]
    objective_value: Annotated[int, Doc("Value of the plan in the unit of the objective.")]
    lower_bound: Annotated[int, Doc("Lower bound on the value of every plan.")]
    recomputed_macs: NotRequired[
        Annotated[int, Doc("Multiply-accumulates of overlapping tiles beyond one run of each operator.")]
    ]


class PlanFields(TypedDict):
    """The fields of a plan file, version 1."""

    format: Annotated[Literal["onchip-plan"], Doc("Name of the format.")]
    version: Annotated[Literal[1], Doc("Version of the format.")]
    graph: Annotated[SourceFields, Doc("Network that the plan is for.")]
    accelerator: Annotated[SourceFields, Doc("Accelerator that the plan is for.")]
    reading: NotRequired[Annotated[PlanReadingFields, Doc("Options with which the network file is read.")]]
    memories: Annotated[list[ScratchpadFields], Doc("Scratchpads.")]
    links: NotRequired[list[WayFields]]
    """Links between scratchpads; a copy between two scratchpads needs one."""
    rates: NotRequired[Annotated[list[RateFields], Doc("Costs of transfers, if the objective is not traffic.")]]
    placement: NotRequired[Placement]
    """`static` if each tensor has one address for its whole lifetime, or is streamed."""
    order: NotRequired[Annotated[Order, Doc("`given` or `min-peak` if the claim holds for this operator order only.")]]
    durations: NotRequired[Annotated[DurationFields, Doc("Durations on which the latency is based.")]]
    recomputation: NotRequired[Annotated[RecomputationFields, Doc("Costs of operators that run again.")]]
    instructions: Annotated[list[InstructionFields], Doc("The program.")]
    result: NotRequired[Annotated[PlanResultFields, Doc("Claims of the maker; `onchip check` recomputes them.")]]


def _plan_of(fields: PlanFields) -> PlanDocument:
    memories = _memories(fields["memories"])
    return PlanDocument(
        source_of(fields["graph"], "graph", PlanError),
        source_of(fields["accelerator"], "accelerator", PlanError),
        _reading(fields.get("reading", {})),
        Plan(memories, tuple(instructions_of(fields["instructions"], PlanError))),
        _claim(fields["result"]) if "result" in fields else None,
        _transfers(fields, [memory.name for memory in memories]),
        fields.get("placement", Placement.DYNAMIC),
        fields.get("order", Order.FREE),
        _durations(fields),
        _recomputation(fields),
    )


def _claim(fields: PlanResultFields) -> Claim:
    figures = {RECOMPUTED_MACS: fields["recomputed_macs"]} if "recomputed_macs" in fields else {}
    return made(Claim, fields, figures=figures)


def _reading(fields: PlanReadingFields) -> Reading:
    names = ("count", "cap_tensors", "states", "bands", "recompute", "runtime")
    return replace(
        reading_of(fields, PlanError),
        sharing=made(SharedKinds, fields["share"]) if "share" in fields else NO_SHARING,
        tiles={name: made(OperatorTiles, one) for name, one in fields.get("tiles", {}).items()},
        **{name: value for name, value in fields.items() if name in names},  # type: ignore[arg-type]  # validated
    )


def _memories(entries: list[ScratchpadFields]) -> tuple[Memory, ...]:
    if not entries:
        raise PlanError("it is empty", "memories", "at least one scratchpad")
    memories = []
    for index, entry in enumerate(entries):
        with errors_at(field_path(("memories", index))):
            memories.append(made(Memory, entry))
    name, times = Counter(memory.name for memory in memories).most_common(1)[0]
    if times > 1:
        raise PlanError(f"{times} memories have the name {quoted(name)}", "memories", "one")
    return tuple(memories)


def _transfers(fields: PlanFields, names: list[str]) -> Transfers:
    links: list[tuple[str, str]] = []
    for index, link in enumerate(fields.get("links", ())):
        links.append(_ends(link, field_path(("links", index)), names, links))
    objective = fields["result"]["objective"] if "result" in fields else None
    if fields.get("rates") and objective in (Objective.TRAFFIC, Objective.PEAK, Objective.RECOMPUTATION):
        what = f"there are rates, and the objective is {objective}, which takes no account of them"
        raise PlanError(what, "rates", f"none, or the objective {Objective.DMA_CYCLES} or {Objective.DMA_ENERGY}")
    rates: dict[tuple[str, str], Rate] = {}
    for index, entry in enumerate(fields.get("rates", ())):
        place = field_path(("rates", index))
        ends = _ends(entry, place, [DRAM, *names], rates)
        if DRAM not in ends and ends not in links:
            raise PlanError(f"no link leads from {quoted(ends[0])} to {quoted(ends[1])}", place, "one among `links`")
        with errors_at(place):
            rates[ends] = Rate(entry["setup"], tuple((term["unit_bits"], term["cost"]) for term in entry["terms"]))
    return Transfers(tuple(links), rates)


def _durations(fields: PlanFields) -> Durations | None:
    """Return the durations; raises PlanError if the objective latency has none."""
    objective = fields["result"]["objective"] if "result" in fields else None
    if "durations" not in fields:
        if objective is Objective.LATENCY:
            raise PlanError("it is absent", "durations", "how long things last, for the latency")
        return None
    with errors_at("durations"):
        return Durations(**fields["durations"])


def _recomputation(fields: PlanFields) -> Recomputation | None:
    """Return the costs of recomputation, or None if the reading does not allow it; raises PlanError."""
    if fields.get("reading", {}).get("recompute", Recompute.NEVER) is not Recompute.ALLOWED:
        if "recomputation" in fields:
            what, expected = "it is there, and nothing may run again", "`recompute` in `reading`: `allowed`"
            raise PlanError(what, "recomputation", expected)
        return None
    with errors_at("recomputation"):
        return Recomputation(**fields.get("recomputation", {"costs": {}}))


def _ends(
    entry: WayFields | RateFields, place: str, names: list[str], before: Collection[tuple[str, str]]
) -> tuple[str, str]:
    """Return source and target of a link that is not in `before`; raises PlanError."""
    source, target = entry["source"], entry["target"]
    for field, name in (("source", source), ("target", target)):
        if name not in names:
            known = ", ".join(map(quoted, names))
            raise PlanError(f"it is {quoted(name)}", f"{place}.{field}", f"one of {known}")
    if source == target:
        raise PlanError("it leads nowhere", place, "two memories")
    if (source, target) in before:
        raise PlanError(f"it is the second from {quoted(source)} to {quoted(target)}", place, "one")
    return source, target


@without_collecting()
def plan_to_json(document: PlanDocument) -> str:
    """Return the text of a plan file, one line per instruction. Raises PlanError for names that are not Unicode."""
    transfers, durations, claim = document.transfers, document.durations, document.claim
    head = {
        "format": PLAN_FORMAT.name,
        "version": PLAN_FORMAT.version,
        "graph": written(SourceFields, document.graph),
        "accelerator": written(SourceFields, document.accelerator),
    }
    rates = tuple(
        {"source": source, "target": target, "setup": rate.setup}
        | {"terms": [{"unit_bits": unit_bits, "cost": cost} for unit_bits, cost in rate.terms]}
        for (source, target), rate in sorted(transfers.rates.items())
    )
    fields = {
        "reading": _reading_fields(document.reading),
        "memories": tuple(map(memory_fields, document.answer.memories)),
        "links": tuple(dict(zip(("source", "target"), link, strict=True)) for link in transfers.links) or None,
        "rates": rates or None,
        "placement": None if document.placement is Placement.DYNAMIC else document.placement,
        "order": None if document.order is Order.FREE else document.order,
        "durations": durations and written(DurationFields, durations, cycles=dict(sorted(durations.cycles.items()))),
        "recomputation": document.recomputation and {"costs": dict(sorted(document.recomputation.costs.items()))},
        "instructions": tuple(map(instruction_fields, document.answer.instructions)),
        "result": claim and {"method": claim.method, **claim_fields(claim), **claim.figures},
    }
    return document_text(head, fields, PlanError)


_PLANS: Final = FileKind(PLAN_FORMAT, PlanFields, _plan_of, plan_to_json)
read_plan, plan_from_json, write_plan = _PLANS.read, _PLANS.of_text, _PLANS.write


def _reading_fields(reading: Reading) -> dict[str, object]:
    always = {"bits": reading.bits, **binding_fields(reading.bindings), "granularity": reading.granularity}
    always |= {"count": reading.count}
    return always | present(
        {
            "cap_tensors": reading.cap_tensors or None,
            "share": None if reading.sharing == NO_SHARING else written(SharingFields, reading.sharing),
            "states": dict(sorted(reading.states.items())) or None,
            "bands": dict(sorted(reading.bands.items())) or None,
            "recompute": None if reading.recompute is Recompute.NEVER else reading.recompute,
            "tiles": {name: written(OperatorTilesFields, one) for name, one in sorted(reading.tiles.items())} or None,
            "runtime": reading.runtime,
        }
    )


def memory_fields(memory: Memory) -> dict[str, object]:
    """Return the fields of a scratchpad, with `holds` unless it holds every operand."""
    fields: dict[str, object] = {
        "name": memory.name,
        "capacity_bytes": memory.capacity_bytes,
        "alignment_bytes": memory.alignment_bytes,
    }
    return fields if memory.holds == tuple(Operand) else fields | {"holds": list(memory.holds)}
