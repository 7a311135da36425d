"""The strategy file: stacks of layers, their tiles and modes, how the layers run in them, what their maker claims.

Read here, written by `strategy_json_writer`. Whether a strategy is legal is the verifier's to say.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final, Literal, NotRequired

from typing_extensions import TypedDict

from onchip.answer.document import Claim, CostModel, Granularity, Reading, StrategyDocument
from onchip.answer.result import Status
from onchip.answer.schedule import Homes
from onchip.answer.stacks import OverlapMode, StackStrategy, StrategyError, Tiling
from onchip.answer.strategy import EnergyCause, FusionStrategy, TileMapping, named_parts
from onchip.arch.memory import DRAM
from onchip.errors import InputError, errors_in_file
from onchip.formats.files import read_file
from onchip.formats.own.document_fields import (
    BindingFields,
    PixelFields,
    SourceFields,
    bindings_of,
    check_sizes,
    source_of,
)
from onchip.formats.own.layer_fields import LayerFields, NestFields, layer_of, mapping_of
from onchip.formats.own.schedule_json import HomesFields
from onchip.formats.validation import Format, field_path, parse, placed

STRATEGY_FORMAT: Final = Format("onchip-strategy", 1, StrategyError)
STRATEGIES: Final = "strategies"
"""What may be chosen, in the space of a strategy's claim."""


class StrategyReadingFields(BindingFields):
    """How the network is read and who maps each layer's tiles; what is left out is 8 bits, `exact` and `onchip`."""

    bits: NotRequired[int]
    partial_bits: NotRequired[int]
    granularity: NotRequired[Granularity]
    mapper: NotRequired[str]
    model: NotRequired[CostModel]


class StackFields(TypedDict):
    """Layers by name; their last output lies in memory `output`, or in DRAM."""

    layers: list[str]
    tile: PixelFields
    mode: OverlapMode
    output: NotRequired[str]


class TileMappingFields(NestFields):
    """How the layers `names` of a stack run in tiles in which their loop nest is `layer`; stacks are numbered from 0.

    `room` are the bytes left to tiles in one instance of a memory, by its name; what is left out is all theirs.
    """

    stack: int
    names: list[str]
    layer: LayerFields
    homes: HomesFields
    room: NotRequired[dict[str, int]]


class StrategyResultFields(TypedDict):
    """Claims of the maker: `lower_bound` holds for all strategies, `bound_among` for those that `space` names.

    Without `bound_among` the lower bound is that of the space.
    """

    status: Status
    objective: Literal["energy", "latency", "edp", "dram"]
    objective_value: int | float
    lower_bound: int | float
    energy_pj: NotRequired[int | float]
    latency_cycles: int | float
    macs: int
    dram_bits: int
    energies_pj: NotRequired[dict[str, dict[EnergyCause, int | float]]]
    peak_bytes: NotRequired[dict[str, int]]
    space: NotRequired[str]
    bound_among: NotRequired[int | float]


class StrategyFields(TypedDict):
    """A strategy file; the stacks stand in the order in which they run, operators outside of them by name."""

    format: Literal["onchip-strategy"]
    version: Literal[1]
    network: SourceFields
    accelerator: SourceFields
    reading: NotRequired[StrategyReadingFields]
    stacks: list[StackFields]
    mappings: NotRequired[list[TileMappingFields]]
    outside: NotRequired[list[str]]
    result: NotRequired[StrategyResultFields]


def read_strategy(path: Path) -> StrategyDocument:
    """What a strategy file says; raises InputError."""
    return strategy_from_json(read_file(path), str(path))


def strategy_from_json(text: str | bytes, file: str) -> StrategyDocument:
    """What `text` says; `file` is its name in errors. Raises StrategyError."""
    fields = parse(StrategyFields, STRATEGY_FORMAT, text, file)
    with errors_in_file(file):
        if not fields["stacks"] and not fields.get("outside"):
            raise StrategyError("it is empty", place="stacks", expected="at least one stack, or operators outside")
        reading = fields.get("reading", {})
        mapper = reading.get("mapper", "exact")
        stacks = [_stack(entry, field_path(("stacks", index))) for index, entry in enumerate(fields["stacks"])]
        entries = enumerate(fields.get("mappings", ()))
        mappings = [_mapping(entry, field_path(("mappings", index))) for index, entry in entries]
        return StrategyDocument(
            source_of(fields["network"], "network", StrategyError),
            source_of(fields["accelerator"], "accelerator", StrategyError),
            _reading(reading),
            FusionStrategy(tuple(stacks), tuple(mappings), tuple(fields.get("outside", ()))),
            _claim(fields["result"], mapper) if "result" in fields else None,
            mapper,
            reading.get("model", CostModel.ONCHIP),
        )


def _reading(fields: StrategyReadingFields) -> Reading:
    bits, partial_bits = fields.get("bits", 8), fields.get("partial_bits")
    check_sizes({"bits": bits, "partial_bits": partial_bits}, StrategyError)
    reading = Reading.of(bindings_of(fields, StrategyError), fields.get("granularity", Granularity.FUSED))
    return replace(reading, bits=bits, partial_bits=partial_bits)


def _stack(fields: StackFields, place: str) -> StackStrategy:
    try:
        tiling = Tiling(fields["tile"]["columns"], fields["tile"]["rows"], fields["mode"])
        return StackStrategy(tuple(fields["layers"]), tiling, fields.get("output", DRAM))
    except InputError as error:
        raise placed(error, place) from None


def _mapping(fields: TileMappingFields, place: str) -> TileMapping:
    layer, mapping = layer_of(fields["layer"], f"{place}.layer"), mapping_of(fields, place)
    try:
        homes, room = Homes(**fields["homes"]), fields.get("room", {})
        return TileMapping(fields["stack"], tuple(fields["names"]), layer, homes, mapping, room)
    except InputError as error:
        raise placed(error, place) from None


def _claim(fields: StrategyResultFields, mapper: str) -> Claim:
    figures: dict[str, float] = {
        **({"energy_pj": fields["energy_pj"]} if "energy_pj" in fields else {}),
        "latency_cycles": fields["latency_cycles"],
        "macs": fields["macs"],
        "dram_bits": fields["dram_bits"],
    }
    by_cause = {
        (memory, str(cause)): energy
        for memory, energies in fields.get("energies_pj", {}).items()
        for cause, energy in energies.items()
    }
    figures |= named_parts(by_cause, fields.get("peak_bytes", {}))
    space = {STRATEGIES: fields["space"]} if fields.get("space") else {}
    value, bound = fields["objective_value"], fields["lower_bound"]
    return Claim(mapper, fields["status"], fields["objective"], value, bound, figures, space, fields.get("bound_among"))
