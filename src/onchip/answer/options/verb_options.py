"""Options of the verbs, one dataclass each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import inf
from typing import Final

from onchip.answer.document import Runtime
from onchip.answer.operator_tiles import TilesOption
from onchip.answer.options.choices import GREATEST_ALIGNMENT, GREATEST_BITS, as_choices, documented, option
from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.problem import Count, Order, Placement, Recompute
from onchip.answer.schedule import Schedule
from onchip.answer.stacks import OverlapMode, tile_of_text
from onchip.arch.sharing import Share
from onchip.errors import UsageError

CASE_STUDY_COLUMNS: Final = (1, 4, 16, 60, 240, 960)
CASE_STUDY_ROWS: Final = (1, 4, 18, 72, 270, 540)
"""Figure 12 of DeFiNES (HPCA 2023): 36 sizes for a map of 960 x 540."""
SWEEP_COLUMNS: Final = (1, 2, 4, 8, 16, 32, 60, 120, 240, 480, 960)
SWEEP_ROWS: Final = (1, 2, 4, 9, 18, 36, 72, 135, 270, 540)
"""The same number as the 110 of the paper's whole sweep, which it does not list: the sizes of Figure 12 and
intermediate ones.
"""


class TileSizes(StrEnum):
    """A list of sizes along an axis, which always includes the whole axis.

    CASE_STUDY, SWEEP: those of the paper up to the axis length. HALVES: the axis halved repeatedly, rounded up. POWERS
    of two, DIVISORS of the axis, ALL.
    """

    CASE_STUDY = "case-study"
    SWEEP = "sweep"
    HALVES = "halves"
    POWERS = "powers"
    DIVISORS = "divisors"
    ALL = "all"

    def along_columns(self, pixels: int) -> tuple[int, ...]:
        """Return the tile widths for an axis of `pixels`, ascending."""
        published = {TileSizes.CASE_STUDY: CASE_STUDY_COLUMNS, TileSizes.SWEEP: SWEEP_COLUMNS}
        return _within(published.get(self) or self._sizes(pixels), pixels)

    def along_rows(self, pixels: int) -> tuple[int, ...]:
        """Return the tile heights for an axis of `pixels`, ascending."""
        published = {TileSizes.CASE_STUDY: CASE_STUDY_ROWS, TileSizes.SWEEP: SWEEP_ROWS}
        return _within(published.get(self) or self._sizes(pixels), pixels)

    def _sizes(self, pixels: int) -> Sequence[int]:
        if self is TileSizes.HALVES:
            return [-(-pixels >> shift) for shift in range(pixels.bit_length() + 1)]
        if self is TileSizes.POWERS:
            return [1 << shift for shift in range(pixels.bit_length())]
        every = range(1, pixels + 1)
        return every if self is TileSizes.ALL else [size for size in every if pixels % size == 0]


def _within(sizes: Sequence[int], pixels: int) -> tuple[int, ...]:
    return tuple(sorted({size for size in sizes if size <= pixels} | {pixels}))


ORDERS: Final = "Operator orders: any, the order of the file, or one of minimum peak."
COUNTED: Final = "Planned tensors: all, or all but parameters."
SHARED: Final = "Outputs that may share bytes with inputs: computed in place, parts of a whole (alias), or both."
TILED: Final = "Search tiles of operators and of fused groups (auto), or run operators whole."
ALIGNED: Final = "Alignment of every offset in bytes."
AS_STATED: Final = "as the memory states, else 1"
PARTIAL: Final = ("Accumulator width in bits.", "N", "16 more than an element, at most 32")
AGAIN: Final = "Multiply-accumulates that overlapping tiles may recompute, in percent of the network's."
CACHE: Final = "Ignore cached mappings of earlier runs."


def percent_of(text: str) -> float:
    """Return the number of a percentage such as `10%` or `10`; raises UsageError for another text."""
    try:
        return float(text.removesuffix("%"))
    except ValueError:
        raise UsageError(f"{text!r} is no percentage", expected="a number such as 10%") from None


def _ensure_percentage(max_recompute: float) -> None:
    """Raise UsageError unless the number is finite and at least 0."""
    if not 0 <= max_recompute < inf:
        raise UsageError(f"{max_recompute}% is invalid", place="max_recompute", expected="at least 0%")


@documented
@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """Options of the verb `plan`; None stands for the default in words."""

    order: Order | None = option(None, ORDERS, default="as the method")
    method: str | None = option(None, "Name of the search.", "NAME", "exact; timed for latency")
    placement: Placement = option(
        Placement.DYNAMIC, "dynamic: tensors may be evicted and reloaded. static: one address per tensor, or DRAM only."
    )
    count: Count | None = option(None, COUNTED, default="activations; all for latency if a scratchpad holds weights")
    tiles: TilesOption | None = option(
        None, TILED, default="auto if an operator does not fit whole in the only scratchpad"
    )
    max_recompute: float = option(100.0, AGAIN, "PERCENT", "100%", parse=percent_of, is_swept=False)
    runtime: Runtime | None = option(
        None,
        "Plan for a runtime: its operators in tiles, lives, scratch buffers and alignment.",
        default="none",
        is_swept=False,
    )
    cap_tensors: bool = option(False, "Clamp larger tensors to the size of the largest scratchpad, for analysis only.")
    share: Share | None = option(None, SHARED, default="as the accelerator states, else none")
    bands: Mapping[str, int] = option(
        dict[str, int](), "Number of channel slices by operator, if its file states the cost of slices.", is_flag=False
    )
    recompute: Recompute = option(
        Recompute.NEVER, "Allow operators to run again instead of keeping or reloading their outputs."
    )
    recompute_price: float | None = option(
        None,
        "Cost of a million recomputation cycles, in units of the objective.",
        "N",
        "as the accelerator states",
        least=0,
    )
    cost: str = option("mapping", "Cycle model of operators without a cycle count: mapping, macs or a plug-in.", "NAME")
    alignment_bytes: int | None = option(None, ALIGNED, "N", AS_STATED, is_flag=False)

    def __post_init__(self) -> None:
        as_choices(
            self,
            order=Order,
            placement=Placement,
            count=Count,
            share=Share,
            recompute=Recompute,
            tiles=TilesOption,
            runtime=Runtime,
        )
        _ensure_percentage(self.max_recompute)
        if self.cap_tensors and self.tiles is TilesOption.AUTO:
            what = "`cap_tensors` and `tiles` exclude each other"
            raise UsageError(what, place="cap_tensors, tiles", expected="one of them")


@documented
@dataclass(frozen=True, slots=True, kw_only=True)
class MapOptions:
    """Options of `map_layer` and `map_network`."""

    method: str = option("exact", "Search: exact, exact-even, dive, cosa, random, hybrid, loma or uneven.", "NAME")
    partial_bits: int | None = option(None, *PARTIAL, least=1, most=GREATEST_BITS)
    accounting: str = option(
        "interpreter", "Cost model: onchip's interpreter, or that of ZigZag or DeFiNES.", "interpreter|zigzag|defines"
    )
    mapspace: str | None = option(
        None, "Mapspace file of a Timeloop architecture: the operands of each memory.", "FILE", is_swept=False
    )
    uses_cache: bool = option(True, CACHE, flag="--no-cache", is_swept=False)


@documented
@dataclass(frozen=True, slots=True, kw_only=True)
class PackOptions:
    """Options of the verb `pack`."""

    alignment_bytes: int | None = option(None, ALIGNED, default="as the file of the buffers says, else 1")
    overflow: bool = option(False, "If not everything fits, minimise the bytes outside the capacity.")
    together: tuple[tuple[str, ...], ...] = option((), "Groups of buffer names; each group must lie in one memory.")
    apart: tuple[tuple[str, ...], ...] = option((), "Groups of buffer names, no two of them in the same memory.")
    splits: bool = option(False, "Split over the fewest allocations, none larger than the capacity.")


@documented
@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityOptions:
    """Options of the verb `capacity`."""

    order: Order = option(Order.FREE, ORDERS)
    count: Count | None = option(None, COUNTED, default="activations")
    share: Share = option(Share.NONE, SHARED)
    alignment_bytes: int | None = option(
        None, ALIGNED, "N", AS_STATED, flag="--alignment", least=1, most=GREATEST_ALIGNMENT
    )
    tiles: TilesOption = option(TilesOption.NEVER, TILED)
    max_recompute: float = option(100.0, AGAIN, "PERCENT", "100%", parse=percent_of, is_swept=False)

    def __post_init__(self) -> None:
        as_choices(self, order=Order, count=Count, share=Share, tiles=TilesOption)
        _ensure_percentage(self.max_recompute)


OPTIMAL: Final = "optimal"
"""Value of `groups`: any legal fused groups."""
LAYERS: Final = "layers"
"""Value of `groups`: each layer alone."""


class Placements(StrEnum):
    """The allowed placements of feature maps: on chip where that is best, or always in DRAM."""

    SEARCH = "search"
    DRAM = "dram"


class Softmax(StrEnum):
    """Whether a softmax between two products may run in slices of the keys (online), or only on whole rows."""

    ROWS = "rows"
    ONLINE = "online"


class Combination(StrEnum):
    """The combination of tilings: one per fused group, or the same for all, clipped to their last feature maps."""

    BEST = "best"
    SINGLE = "single"


@dataclass(frozen=True, slots=True)
class _GroupOptions:
    """Options of the verbs that fuse; None means that the choice is searched."""

    groups: str = option(
        OPTIMAL,
        "Layers that run together, tile by tile: a search, or runs of layers by number or by name.",
        "one|greedy|optimal|layers|0-3,4-7",
    )
    tile: tuple[int, int] | None = option(
        None, "Tile size, columns x rows of a group's last feature map.", "4x72", "searched", parse=tile_of_text
    )
    mode: OverlapMode | None = option(
        None, "Overlap mode: data that tiles share instead of recomputing it.", default="searched"
    )
    placements: Placements = option(
        Placements.SEARCH, "Keep feature maps on chip where that is best, or always in DRAM."
    )
    partial_bits: int | None = option(None, *PARTIAL, least=1, most=GREATEST_BITS)
    uses_cache: bool = option(True, CACHE, flag="--no-cache", is_swept=False)

    def __post_init__(self) -> None:
        as_choices(self, mode=OverlapMode, placements=Placements)

    @property
    def maps_stay(self) -> bool:
        """True if operands may stay on chip."""
        return self.placements is Placements.SEARCH


@documented
@dataclass(frozen=True, slots=True)
class FusionOptions(_GroupOptions):
    """Options of `fuse`; None means that the choice is searched."""

    tile_sizes: TileSizes = option(TileSizes.SWEEP, "Tile sizes that are tried along columns and rows.")
    combination: Combination = option(
        Combination.BEST, "Tile and mode: the best of each group, or a single one for all."
    )
    mapper: str | None = option(
        None,
        "Search for the loop nests of a tile: exact, dive, loma or uneven.",
        "NAME",
        "exact; uneven as DeFiNES counts",
        flag="--method",
    )
    accounting: str = option(
        "interpreter", "Cost model: onchip's interpreter, or that of DeFiNES.", "interpreter|defines"
    )

    def __post_init__(self) -> None:
        _GroupOptions.__post_init__(self)
        as_choices(self, tile_sizes=TileSizes, combination=Combination)

    @property
    def modes(self) -> tuple[OverlapMode, ...]:
        """Return the overlap modes that are searched."""
        return tuple(OverlapMode) if self.mode is None else (self.mode,)


WEIGHED: Final = "the front of LOMA's orders, and the best found by energy, latency and their product"
CUT: Final = (
    "stacks of one operator, whole or in a few tiles that units divide more evenly, and those of all schedules found"
)
"""Stacks that are selected jointly from Pareto fronts."""


@documented
@dataclass(frozen=True, slots=True)
class ScheduleOptions(_GroupOptions):
    """Options of `schedule` and `pareto`; None means that the choice is searched."""

    softmax: Softmax = option(
        Softmax.ROWS, "Tiles of a softmax between two products: whole rows, or also slices of keys (online)."
    )
    weighs_mappings: bool = option(
        True,
        "Select mappings jointly; if not, each loop nest has the mapping that is best for it alone.",
        is_flag=False,
    )
    start: Schedule | None = option(
        None,
        "An earlier legal schedule of the network, also on another machine, to start the search from.",
        is_flag=False,
    )

    def __post_init__(self) -> None:
        _GroupOptions.__post_init__(self)
        as_choices(self, softmax=Softmax)

    @property
    def leaves_stacks_open(self) -> bool:
        """Return True if neither groups nor tiles are given."""
        return self.groups == OPTIMAL and self.tile is None and self.mode is None

    @property
    def runs_layers_whole(self) -> bool:
        """Return True if every operator is to run alone and no tile is given."""
        return self.groups == LAYERS and self.tile is None and self.mode is None

    @property
    def of_fusion(self) -> FusionOptions:
        """Return the groups and tilings that are searched, or given."""
        return FusionOptions(self.groups, self.tile, self.mode, self.placements, tile_sizes=TileSizes.HALVES)

    @property
    def space(self) -> Mapping[str, str]:
        """Return the degrees of freedom by name: `any`, or the restriction in words.

        The bound covers every choice except mappings that bypass a memory, so it holds for any options.
        """
        tilings = "any" if self.tile is None else f"{self.tile[0]}x{self.tile[1]}"
        if self.softmax is Softmax.ONLINE:
            tilings += ", of softmaxes whole or in 2, 4, 8 or 16 slices of keys"
        return {
            "order": "any",
            "stacks": "any" if self.groups == OPTIMAL else self.groups,
            "tilings": tilings,
            "homes": "any" if self.maps_stay else "DRAM",
            "mappings": "no memory bypass",
            "residencies": "any",
            "prefetch": "any",
        }

    def weighed(self, objective: ScheduleObjective) -> str:
        """Return a description of the mappings and stacks from which the search selects.

        The search omits all others for lack of time.
        """
        is_joined = self.weighs_mappings and objective is not ScheduleObjective.ENERGY
        if not is_joined:
            return "the best found for each nest alone"
        return f"{WEIGHED}; {CUT}" if objective.is_timed and self.leaves_stacks_open else WEIGHED
