"""Where other cost models count otherwise than the interpreter (`simulate.nest`): each difference is one option."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from onchip.arch.memory import Operand
from onchip.errors import InputError
from onchip.ir.loopnest import RELEVANT
from onchip.plan.mapping import Kept, Mapping


@dataclass(frozen=True, slots=True)
class Accounting:
    """What is counted otherwise; nothing, by default. docs/layer_cost.md has a paragraph on each.

    `skipped_rows_are_absent` and `neighbours_share_no_halo` speak of sizes that come from bounds alone, so they need
    `tiles_from_bounds`. `systolic` are the dimensions of the array that results leave one unit a cycle.
    """

    tiles_span_their_reuse: bool = False
    tiles_from_bounds: bool = False
    skipped_rows_are_absent: bool = False
    neighbours_share_no_halo: bool = False
    units_keep_operands: bool = False
    begun_sums_are_read: bool = False
    finished_sums_leave_short: bool = False
    double_buffered_where_room: bool = False
    windows_end_at_the_level_below: bool = False
    last_periods_have_windows: bool = False
    first_cycles_are_free: bool = False
    operands_load_side_by_side: bool = False
    whole_operands_load_meanwhile: bool = False
    systolic: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if (self.skipped_rows_are_absent or self.neighbours_share_no_halo) and not self.tiles_from_bounds:
            detail = "skipped_rows_are_absent and neighbours_share_no_halo need sizes from bounds"
            raise InputError(detail, place="accounting", expected="tiles_from_bounds with them")


INTERPRETER: Final = Accounting()
ZIGZAG: Final = Accounting(
    tiles_span_their_reuse=True,
    tiles_from_bounds=True,
    skipped_rows_are_absent=True,
    neighbours_share_no_halo=True,
    units_keep_operands=True,
    begun_sums_are_read=True,
    finished_sums_leave_short=True,
    double_buffered_where_room=True,
    windows_end_at_the_level_below=True,
    last_periods_have_windows=True,
    first_cycles_are_free=True,
    operands_load_side_by_side=True,
    whole_operands_load_meanwhile=True,
)
"""Of zigzag-dse 3.9.1, for a machine without systolic dimensions."""


def settled(mapping: Mapping) -> Mapping:
    """The mapping with each cut above the run of loops right above it along which the tile is used again."""

    def raised(operand: Operand) -> tuple[Kept, ...]:
        return tuple(replace(kept, loops=_end_of_reuse(mapping, operand, kept.loops)) for kept in mapping.kept(operand))

    return replace(mapping, input=raised(Operand.INPUT), weight=raised(Operand.WEIGHT), output=raised(Operand.OUTPUT))


def _end_of_reuse(mapping: Mapping, operand: Operand, cut: int) -> int:
    end = cut
    for at, loop in enumerate(mapping.nest[cut:], cut):
        if loop.along is None and loop.size > 1:
            if loop.dimension in RELEVANT[operand]:
                break
            end = at + 1
    return end
