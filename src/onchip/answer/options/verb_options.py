"""Options of the verbs, one dataclass each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from onchip.answer.operator_tiles import TilesOption
from onchip.answer.options.choices import (
    ALIGNMENT,
    CACHE,
    COST,
    MAX_RECOMPUTE,
    PARTIAL_BITS,
    as_choices,
    described,
    ensure_percentage,
)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """Options of the verb `plan`.

    Attributes
    ----------
    order
        Allowed operator orders; by default those that the method searches.
    method
        Name of the search: by default `exact`, and `timed` for latency.
    placement
        Whether tensors may be evicted (dynamic) or have one address (static).
    count
        Planned tensors: by default activations; all for latency if a scratchpad holds weights.
    tiles
        Whether fused groups in tiles are searched (`auto`); by default where an operator does not fit whole.
    max_recompute
        Multiply-accumulates that overlapping tiles may recompute, in percent of the network's.
    cap_tensors
        Count tensors that are larger than the largest scratchpad as that scratchpad.
    share
        Outputs that may share bytes with inputs; by default as the accelerator says, else none.
    bands
        Number of channel slices by operator, for operators whose file states the cost of slices.
    recompute, recompute_price
        Whether operators may run again, and the price of a million cycles of these runs in the objective's unit.
    cost
        Cycle model of operators without stated cycles: `mapping`, `macs` or the name of a plug-in.
    alignment_bytes
        Every offset is a multiple of it; by default as the memory says.

    """

    order: Order | None = field(
        default=None,
        metadata=described(
            "Operator orders: any, the order of the file, or one of minimum peak.", default="as the method"
        ),
    )
    method: str | None = field(
        default=None, metadata=described("Name of the search.", "NAME", "exact; timed for latency")
    )
    placement: Placement = field(
        default=Placement.DYNAMIC,
        metadata=described(
            "dynamic: tensors may be evicted and reloaded. static: one address per tensor, or DRAM only."
        ),
    )
    count: Count | None = field(
        default=None,
        metadata=described(
            "Planned tensors: all, or all but parameters.",
            default="activations; all for latency if a scratchpad holds weights",
        ),
    )
    tiles: TilesOption | None = field(
        default=None,
        metadata=described(
            "Search tiles of operators and of fused groups (auto), or run operators whole.",
            default="auto if an operator does not fit whole in the only scratchpad",
        ),
    )
    max_recompute: float = field(default=100.0, metadata=MAX_RECOMPUTE)
    cap_tensors: bool = field(
        default=False,
        metadata=described("Clamp larger tensors to the size of the largest scratchpad, for analysis only."),
    )
    share: Share | None = field(
        default=None,
        metadata=described(
            "Outputs that may share bytes with inputs: computed in place, parts of a whole (alias), or both.",
            default="as the accelerator states, else none",
        ),
    )
    bands: Mapping[str, int] = field(default_factory=dict, hash=False)
    recompute: Recompute = field(
        default=Recompute.NEVER,
        metadata=described("Allow operators to run again instead of keeping or reloading their outputs."),
    )
    recompute_price: float | None = field(
        default=None,
        metadata=described(
            "Cost of a million recomputation cycles, in units of the objective.",
            "N",
            "as the accelerator states",
            least=0,
        ),
    )
    cost: str = field(default="mapping", metadata=COST)
    alignment_bytes: int | None = None

    def __post_init__(self) -> None:
        as_choices(
            self, order=Order, placement=Placement, count=Count, share=Share, recompute=Recompute, tiles=TilesOption
        )
        ensure_percentage(self.max_recompute)
        if self.cap_tensors and self.tiles is TilesOption.AUTO:
            raise UsageError(
                "`cap_tensors` and `tiles` exclude each other", place="cap_tensors, tiles", expected="one of them"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class MapOptions:
    """Options of `map_layer` and `map_network`.

    Attributes
    ----------
    method
        Name of the search: `exact`, `exact-even`, `dive`, `cosa`, `random`, `hybrid`, `loma` or `uneven`.
    partial_bits
        Width of a partial sum; by default 16 bits more than an element, up to 32, limited by the memories.
    accounting
        How energy and cycles are counted: by `interpreter`, or as `zigzag` or `defines` does.
    mapspace
        File of a Timeloop architecture that says which memory keeps which operand.
    uses_cache
        Whether mappings that earlier runs proved are used again.

    """

    method: str = field(
        default="exact",
        metadata=described("Search: exact, exact-even, dive, cosa, random, hybrid, loma or uneven.", "NAME"),
    )
    partial_bits: int | None = field(default=None, metadata=PARTIAL_BITS)
    accounting: str = field(
        default="interpreter",
        metadata=described(
            "Cost model: onchip's interpreter, or that of ZigZag or DeFiNES.", "interpreter|zigzag|defines"
        ),
    )
    mapspace: str | None = field(
        default=None,
        metadata=described(
            "Mapspace file of a Timeloop architecture: the operands of each memory.", "FILE", is_swept=False
        ),
    )
    uses_cache: bool = field(default=True, metadata=CACHE)


@dataclass(frozen=True, slots=True, kw_only=True)
class PackOptions:
    """Options of the verb `pack`.

    Attributes
    ----------
    alignment_bytes
        Every offset is a multiple of it; by default as the file of the buffers says, else 1.
    overflow
        Whether buffers may lie outside the capacity; their bytes are minimised.
    together, apart
        Groups of buffer names: those of a group must lie in one memory, or no two of them in the same.
    splits
        Whether the buffers may be split over several allocations, none larger than the capacity; their number is
        minimised.

    """

    alignment_bytes: int | None = None
    overflow: bool = False
    together: tuple[tuple[str, ...], ...] = ()
    apart: tuple[tuple[str, ...], ...] = ()
    splits: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityOptions:
    """Options of the verb `capacity`.

    Attributes
    ----------
    order
        Allowed operator orders.
    count
        Planned tensors: by default activations.
    share
        Outputs that may share bytes with inputs.
    alignment_bytes
        Every offset is a multiple of it; by default as the accelerator says, else 1.
    tiles
        Whether tilings are searched (`auto`), in a scratchpad without an accelerator.
    max_recompute
        Multiply-accumulates that overlapping tiles may recompute, in percent of the network's.

    """

    order: Order = field(
        default=Order.FREE, metadata=described("Operator orders: any, the order of the file, or one of minimum peak.")
    )
    count: Count | None = field(
        default=None,
        metadata=described(
            "Planned tensors: all, or all but parameters.",
            default="activations",
        ),
    )
    share: Share = field(
        default=Share.NONE,
        metadata=described(
            "Outputs that may share bytes with inputs: computed in place, parts of a whole (alias), or both."
        ),
    )
    alignment_bytes: int | None = field(default=None, metadata=ALIGNMENT)
    tiles: TilesOption = field(
        default=TilesOption.NEVER,
        metadata=described("Search tiles of operators and of fused groups (auto), or run operators whole."),
    )
    max_recompute: float = field(default=100.0, metadata=MAX_RECOMPUTE)

    def __post_init__(self) -> None:
        as_choices(self, order=Order, count=Count, share=Share, tiles=TilesOption)
        ensure_percentage(self.max_recompute)


OPTIMAL: Final = "optimal"
"""Value of `groups`: any legal fused groups."""
LAYERS: Final = "layers"
"""Value of `groups`: each layer alone."""


class Placements(StrEnum):
    """The allowed placements of feature maps: on chip where that is best, or always in DRAM."""

    SEARCH = "search"
    DRAM = "dram"


GROUPS: Final = described(
    "Layers that run together, tile by tile: a search, or runs of layers by number or by name.",
    "one|greedy|optimal|layers|0-3,4-7",
)
TILE: Final = described(
    "Tile size, columns x rows of a group's last feature map.", "4x72", "searched", parse=tile_of_text
)
MODE: Final = described("Overlap mode: data that tiles share instead of recomputing it.", default="searched")
PLACEMENTS: Final = described("Keep feature maps on chip where that is best, or always in DRAM.")


class Combination(StrEnum):
    """The combination of tilings: one per fused group, or the same for all, clipped to their last feature maps."""

    BEST = "best"
    SINGLE = "single"


@dataclass(frozen=True, slots=True)
class FusionOptions:
    """Options of `fuse`; None means that the choice is searched.

    Attributes
    ----------
    groups
        Fused groups: `one`, `greedy`, `optimal`, `layers`, or a list such as `0-3,4-7`.
    tile
        Columns and rows of a group's last feature map, clipped to smaller maps.
    mode
        Data that tiles share instead of computing it again.
    tile_sizes
        Tile sizes that are tried along columns and rows.
    combination
        One tiling per group, or the same tiling for all groups.
    placements
        Placements of the feature maps between groups: on chip where that is best, or in DRAM.
    mapper
        Search that maps the layers of a tile: by default `exact`, and `uneven` if DeFiNES's accounting is used.
    partial_bits
        Width of a partial sum; by default 16 bits more than an element, up to 32, limited by the memories.
    accounting
        How energy and cycles are counted: by `interpreter`, or as `defines` does.
    uses_cache
        Whether mappings that earlier runs proved are used again.

    """

    groups: str = field(default=OPTIMAL, metadata=GROUPS)
    tile: tuple[int, int] | None = field(default=None, metadata=TILE)
    mode: OverlapMode | None = field(default=None, metadata=MODE)
    tile_sizes: TileSizes = field(
        default=TileSizes.SWEEP, metadata=described("Tile sizes that are tried along columns and rows.")
    )
    combination: Combination = field(
        default=Combination.BEST, metadata=described("Tile and mode: the best of each group, or a single one for all.")
    )
    placements: Placements = field(default=Placements.SEARCH, metadata=PLACEMENTS)
    mapper: str | None = field(
        default=None,
        metadata=described(
            "Search for the loop nests of a tile: exact, dive, loma or uneven.",
            "NAME",
            "exact; uneven as DeFiNES counts",
            flag="--method",
        ),
    )
    partial_bits: int | None = field(default=None, metadata=PARTIAL_BITS)
    accounting: str = field(
        default="interpreter",
        metadata=described("Cost model: onchip's interpreter, or that of DeFiNES.", "interpreter|defines"),
    )
    uses_cache: bool = field(default=True, metadata=CACHE)

    def __post_init__(self) -> None:
        as_choices(self, mode=OverlapMode, tile_sizes=TileSizes, combination=Combination, placements=Placements)

    @property
    def maps_stay(self) -> bool:
        """True if feature maps may stay on chip."""
        return self.placements is Placements.SEARCH

    @property
    def modes(self) -> tuple[OverlapMode, ...]:
        """Return the overlap modes that are searched."""
        return tuple(OverlapMode) if self.mode is None else (self.mode,)


WEIGHED: Final = "the front of LOMA's orders, and the best found by energy, latency and their product"
CUT: Final = (
    "stacks of one operator, whole or in a few tiles that units divide more evenly, and those of all schedules found"
)
"""Stacks that are selected jointly from Pareto fronts."""


@dataclass(frozen=True, slots=True)
class ScheduleOptions:
    """Options of `schedule` and `pareto`; None means that the choice is searched.

    Attributes
    ----------
    groups
        Fused groups: `optimal`, `layers`, `one`, `greedy`, or a list such as `0-3,4-7`.
    tile
        Columns and rows of a group's last feature map.
    mode
        Data that tiles share instead of computing it again.
    placements
        Operand placements: on chip where that is best, or every operand is streamed from and to DRAM.
    weighs_mappings
        Whether mappings are selected jointly; if not, each loop nest has the mapping that is best for it alone.
    start
        An earlier legal schedule of the network, also on another machine, that the search may start from.
    partial_bits
        Width of a partial sum; by default 16 bits more than an element, up to 32, limited by the memories.
    uses_cache
        Whether mappings that earlier runs proved are used again.

    """

    groups: str = field(default=OPTIMAL, metadata=GROUPS)
    tile: tuple[int, int] | None = field(default=None, metadata=TILE)
    mode: OverlapMode | None = field(default=None, metadata=MODE)
    placements: Placements = field(default=Placements.SEARCH, metadata=PLACEMENTS)
    weighs_mappings: bool = True
    start: Schedule | None = None
    partial_bits: int | None = field(default=None, metadata=PARTIAL_BITS)
    uses_cache: bool = field(default=True, metadata=CACHE)

    def __post_init__(self) -> None:
        as_choices(self, mode=OverlapMode, placements=Placements)

    @property
    def maps_stay(self) -> bool:
        """True if operands may stay on chip."""
        return self.placements is Placements.SEARCH

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
        return FusionOptions(self.groups, self.tile, self.mode, TileSizes.HALVES, placements=self.placements)

    @property
    def space(self) -> Mapping[str, str]:
        """Return the degrees of freedom by name: `any`, or the restriction in words.

        The bound covers every choice except mappings that bypass a memory, so it holds for any options.
        """
        return {
            "order": "any",
            "stacks": "any" if self.groups == OPTIMAL else self.groups,
            "tilings": "any" if self.tile is None else f"{self.tile[0]}x{self.tile[1]}",
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
