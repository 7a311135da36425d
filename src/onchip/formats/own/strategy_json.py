"""The strategy file: stacks of layers, their tiles and modes, and what their maker claims.

Read here, written by `strategy_json_writer`. Whether a strategy is legal is the verifier's to say.
"""

from __future__ import annotations

from pathlib import Path
from re import fullmatch
from typing import Final, Literal, NotRequired

from typing_extensions import TypedDict

from onchip.answer.document import Granularity, Source
from onchip.answer.result import Status
from onchip.answer.stacks import FusionStrategy, OverlapMode, StackStrategy, StrategyError, Tiling
from onchip.answer.strategy_document import (
    CostModel,
    StrategyClaim,
    StrategyDocument,
    StrategyFigures,
    StrategyReading,
)
from onchip.arch.memory import DRAM
from onchip.errors import InputError
from onchip.formats.files import read_file
from onchip.formats.own.plan_json import SourceFields
from onchip.formats.validation import Format, field_path, parse, placed, quoted

STRATEGY_FORMAT: Final = Format("onchip-strategy", 1, StrategyError)


class StrategyReadingFields(TypedDict):
    """How the network file is read, and who maps each layer's tiles; what is left out is as in `StrategyReading`."""

    bits: NotRequired[int]
    partial_bits: NotRequired[int]
    dims: NotRequired[dict[str, int]]
    granularity: NotRequired[Granularity]
    mapper: NotRequired[str]
    model: NotRequired[CostModel]


class TileFields(TypedDict):
    """Pixels of the last layer's output."""

    columns: int
    rows: int


class StackFields(TypedDict):
    """Layers by name; their last output lies in memory `output`, or in DRAM."""

    layers: list[str]
    tile: TileFields
    mode: OverlapMode
    output: NotRequired[str]


class StrategyResultFields(TypedDict):
    """What the maker claims."""

    status: Status
    objective: Literal["energy", "latency", "edp", "dram"]
    objective_value: int | float
    lower_bound: int | float
    energy_pj: int | float
    latency_cycles: int | float
    macs: int
    dram_bits: int
    space: NotRequired[str]


class StrategyFields(TypedDict):
    """A strategy file; the stacks stand in the order in which they run."""

    format: Literal["onchip-strategy"]
    version: Literal[1]
    network: SourceFields
    accelerator: SourceFields
    reading: NotRequired[StrategyReadingFields]
    stacks: list[StackFields]
    result: NotRequired[StrategyResultFields]


def read_strategy(path: Path) -> StrategyDocument:
    """What a strategy file says; raises InputError."""
    return strategy_from_json(read_file(path), str(path))


def strategy_from_json(text: str | bytes, file: str) -> StrategyDocument:
    """What `text` says; `file` is its name in errors. Raises StrategyError."""
    fields = parse(StrategyFields, STRATEGY_FORMAT, text, file)
    try:
        if not fields["stacks"]:
            raise StrategyError("it is empty", place="stacks", expected="at least one stack")
        stacks = [_stack(entry, field_path(("stacks", index))) for index, entry in enumerate(fields["stacks"])]
        return StrategyDocument(
            _source(fields["network"], "network"),
            _source(fields["accelerator"], "accelerator"),
            _reading(fields.get("reading", {})),
            FusionStrategy(tuple(stacks)),
            _claim(fields["result"]) if "result" in fields else None,
        )
    except InputError as error:
        raise error.in_file(file) from None


def _source(fields: SourceFields, place: str) -> Source:
    sha256 = fields.get("sha256")
    if sha256 is not None and not fullmatch("[0-9a-f]{64}", sha256):
        raise StrategyError(f"it is {quoted(sha256)}", place=f"{place}.sha256", expected="64 hexadecimal digits")
    return Source(fields["name"], sha256)


def _reading(fields: StrategyReadingFields) -> StrategyReading:
    numbers = {"bits": fields.get("bits", 1), "partial_bits": fields.get("partial_bits", 1)}
    numbers |= {f"dims.{name}": size for name, size in fields.get("dims", {}).items()}
    for name, number in numbers.items():
        if number < 1:
            raise StrategyError(f"it is {number}", place=f"reading.{name}", expected="at least 1")
    return StrategyReading(**fields)


def _stack(fields: StackFields, place: str) -> StackStrategy:
    try:
        tiling = Tiling(fields["tile"]["columns"], fields["tile"]["rows"], fields["mode"])
        return StackStrategy(tuple(fields["layers"]), tiling, fields.get("output", DRAM))
    except InputError as error:
        raise placed(error, place) from None


def _claim(fields: StrategyResultFields) -> StrategyClaim:
    figures = StrategyFigures(
        fields["objective_value"],
        fields["energy_pj"],
        fields["latency_cycles"],
        fields["macs"],
        fields["dram_bits"],
    )
    space = fields.get("space", "")
    return StrategyClaim(fields["status"], fields["objective"], figures, fields["lower_bound"], space)
