"""The strategy file: fused groups of layers with tiles, overlap modes and mappings, and the maker's claims.

The reader does not judge whether the strategy is legal; the verifier does. The same strategy gives the same bytes.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, NotRequired

from typing_extensions import TypedDict

from onchip.answer.document import Claim, CostModel, Granularity, StrategyDocument, as_written
from onchip.answer.result import Status
from onchip.answer.schedule import Homes
from onchip.answer.stacks import OverlapMode, StackStrategy, StrategyError, Tiling
from onchip.answer.strategy import EnergyCause, FusionStrategy, TileMapping, named_parts, nested_figures
from onchip.arch.memory import DRAM
from onchip.formats.files import document_text
from onchip.formats.own.fields import (
    BindingFields,
    FileKind,
    LayerFields,
    NestFields,
    PixelFields,
    SourceFields,
    binding_fields,
    claim_fields,
    layer_fields,
    layer_of,
    made,
    mapping_fields,
    mapping_of,
    present,
    reading_of,
    source_of,
    written,
)
from onchip.formats.own.schedule_json import HomesFields
from onchip.formats.validation import Doc, Format, errors_at, field_path

STRATEGY_FORMAT: Final = Format("onchip-strategy", 1, StrategyError)
STRATEGIES: Final = "strategies"
"""The decision that the space of a strategy's claim names."""


class StrategyReadingFields(BindingFields):
    """Options with which the network is read, and the mapper of tiles; defaults are 8 bits, `exact` and `onchip`.

    With `bits` null, elements have the data types of the model.
    """

    bits: NotRequired[Annotated[int | None, Doc("Bits per element; null: the data types of the model.")]]
    partial_bits: NotRequired[Annotated[int, Doc("Accumulator width in bits.")]]
    granularity: NotRequired[Annotated[Granularity, Doc("`fused`, or `raw` for the nodes of the file.")]]
    mapper: NotRequired[Annotated[str, Doc("Method that mapped the layers of tiles.")]]
    model: NotRequired[Annotated[CostModel, Doc("Cost model: `onchip` or `defines`.")]]


class StackFields(TypedDict):
    """Layers of a fused group, by name; `output` is the home memory of their last output, DRAM if absent."""

    layers: Annotated[list[str], Doc("Names of the layers in execution order.")]
    tile: Annotated[PixelFields, Doc("Tile of the last feature map.")]
    mode: Annotated[OverlapMode, Doc("Overlap mode: `recompute`, `h-cached` or `fully-cached`.")]
    output: NotRequired[Annotated[str, Doc("Home memory of the last output; DRAM if absent.")]]


class TileMappingFields(NestFields):
    """The mapping of the layers `names` of a fused group in tiles with loop nest `layer`; groups are numbered from 0.

    `room` maps a memory to the bytes left to tiles in one instance; an absent memory belongs to the tiles entirely.
    """

    stack: Annotated[int, Doc("Number of the fused group, from 0.")]
    names: Annotated[list[str], Doc("Layers that run by this mapping.")]
    layer: Annotated[LayerFields, Doc("Loop nest of the tile.")]
    homes: Annotated[HomesFields, Doc("Home memories of the operands.")]
    room: NotRequired[dict[str, int]]
    """Map from a memory to the bytes of one instance that the tiles may use."""


class StrategyResultFields(TypedDict):
    """Claims of the maker: `lower_bound` holds for all strategies, `bound_among` for those that `space` names.

    Without `bound_among` the lower bound is that of the space.
    """

    status: Annotated[Status, Doc("`OPTIMAL`, `FEASIBLE`, `INFEASIBLE` or `UNKNOWN`.")]
    objective: Annotated[Literal["energy", "latency", "edp", "dram"], Doc("Name of the objective.")]
    objective_value: int | float
    """Value in femtojoules, cycles, their product, or bits of DRAM traffic."""
    lower_bound: Annotated[int | float, Doc("Lower bound on the value of every strategy.")]
    energy_pj: NotRequired[Annotated[int | float, Doc("Energy in pJ.")]]
    latency_cycles: Annotated[int | float, Doc("Latency in cycles.")]
    macs: Annotated[int, Doc("Multiply-accumulates, recomputation included.")]
    dram_bits: Annotated[int, Doc("Bits from and to DRAM.")]
    energies_pj: NotRequired[dict[str, dict[EnergyCause, int | float]]]
    """Energy in pJ by memory and cause."""
    peak_bytes: NotRequired[dict[str, int]]
    """Map from a memory to the maximum number of bytes in one instance."""
    space: NotRequired[Annotated[str, Doc("Strategies among which `bound_among` holds.")]]
    bound_among: NotRequired[Annotated[int | float, Doc("Lower bound on the value of the strategies of `space`.")]]


class StrategyFields(TypedDict):
    """A strategy file, with fused groups in execution order, and the names of operators outside of them."""

    format: Annotated[Literal["onchip-strategy"], Doc("Name of the format.")]
    version: Annotated[Literal[1], Doc("Version of the format.")]
    network: Annotated[SourceFields, Doc("Network that the strategy is for.")]
    accelerator: Annotated[SourceFields, Doc("Accelerator that the strategy is for.")]
    reading: NotRequired[Annotated[StrategyReadingFields, Doc("Options with which the network file is read.")]]
    stacks: Annotated[list[StackFields], Doc("Fused groups in execution order.")]
    mappings: NotRequired[Annotated[list[TileMappingFields], Doc("Mapping of each distinct loop nest.")]]
    outside: NotRequired[Annotated[list[str], Doc("Operators that run outside of all fused groups.")]]
    result: NotRequired[Annotated[StrategyResultFields, Doc("Claims of the maker; `onchip check` recomputes them.")]]


def _strategy_of(fields: StrategyFields) -> StrategyDocument:
    if not fields["stacks"] and not fields.get("outside"):
        raise StrategyError("it is empty", "stacks", "at least one stack, or operators outside")
    reading = fields.get("reading", {})
    mapper = reading.get("mapper", "exact")
    stacks = [_stack(entry, field_path(("stacks", index))) for index, entry in enumerate(fields["stacks"])]
    entries = enumerate(fields.get("mappings", ()))
    mappings = [_mapping(entry, field_path(("mappings", index))) for index, entry in entries]
    return StrategyDocument(
        source_of(fields["network"], "network", StrategyError),
        source_of(fields["accelerator"], "accelerator", StrategyError),
        reading_of(reading, StrategyError, bits=8),
        FusionStrategy(tuple(stacks), tuple(mappings), tuple(fields.get("outside", ()))),
        _claim(fields["result"], mapper) if "result" in fields else None,
        mapper,
        reading.get("model", CostModel.ONCHIP),
    )


def _stack(fields: StackFields, place: str) -> StackStrategy:
    with errors_at(place):
        tiling = Tiling(**fields["tile"], mode=fields["mode"])
        return StackStrategy(tuple(fields["layers"]), tiling, fields.get("output", DRAM))


def _mapping(fields: TileMappingFields, place: str) -> TileMapping:
    layer, mapping = layer_of(fields["layer"], f"{place}.layer"), mapping_of(fields, place)
    with errors_at(place):
        homes, room = Homes(**fields["homes"]), fields.get("room", {})
        return TileMapping(fields["stack"], tuple(fields["names"]), layer, homes, mapping, room)


def _claim(fields: StrategyResultFields, mapper: str) -> Claim:
    figures: dict[str, float] = {"energy_pj": fields["energy_pj"]} if "energy_pj" in fields else {}
    figures |= {name: fields[name] for name in ("latency_cycles", "macs", "dram_bits")}
    by_cause = {
        (memory, str(cause)): energy
        for memory, energies in fields.get("energies_pj", {}).items()
        for cause, energy in energies.items()
    }
    figures |= named_parts(by_cause, fields.get("peak_bytes", {}))
    space = {STRATEGIES: fields["space"]} if fields.get("space") else {}
    return made(Claim, fields, method=mapper, figures=figures, space=space)


def strategy_to_json(document: StrategyDocument) -> str:
    """Return the text of a strategy file, one line per fused group and mapping.

    Raises StrategyError for names that are not Unicode and for figures that are not finite.
    """
    answer, claim, reading = document.answer, document.claim, document.reading
    head = {
        "format": STRATEGY_FORMAT.name,
        "version": STRATEGY_FORMAT.version,
        "network": written(SourceFields, document.graph),
        "accelerator": written(SourceFields, document.accelerator),
    }
    partial = {} if reading.partial_bits is None else {"partial_bits": reading.partial_bits}
    fields = {
        "reading": {
            "bits": reading.bits,
            **partial,
            **binding_fields(reading.bindings),
            "granularity": reading.granularity,
            "mapper": document.mapper,
            "model": document.model,
        },
        "stacks": tuple(map(_stack_fields, answer.stacks)),
        "mappings": tuple(map(_mapping_fields, answer.mappings)) or None,
        "outside": [*answer.outside] or None,
        "result": claim and _claim_fields(claim),
    }
    return document_text(head, fields, StrategyError)


_STRATEGIES: Final = FileKind(STRATEGY_FORMAT, StrategyFields, _strategy_of, strategy_to_json)
read_strategy, strategy_from_json, write_strategy = _STRATEGIES.read, _STRATEGIES.of_text, _STRATEGIES.write


def _stack_fields(stack: StackStrategy) -> dict[str, object]:
    output = None if stack.output_home == DRAM else stack.output_home
    tile = written(PixelFields, stack.tiling)
    return written(StackFields, stack, tile=tile, mode=stack.tiling.mode, output=output)


def _mapping_fields(one: TileMapping) -> dict[str, object]:
    homes = {str(operand): home for operand, home in one.homes}
    room = {"room": dict(sorted(one.room_bytes.items()))} if one.room_bytes else {}
    fields = {"stack": one.stack, "names": list(one.names), "layer": layer_fields(one.layer), "homes": homes}
    return fields | room | mapping_fields(one.mapping)


def _claim_fields(claim: Claim) -> dict[str, object]:
    figures = nested_figures({name: as_written(figure) for name, figure in claim.figures.items()})
    among = None if claim.bound_among is None else as_written(claim.bound_among)
    space = claim.space[STRATEGIES] if claim.space else None
    return claim_fields(claim) | figures | present({"space": space, "bound_among": among})
