"""Differences between other cost models and the interpreter (`simulate.nest`), each as one option."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from onchip.answer.layer_mapping import Kept, LayerMapping
from onchip.arch.memory import Operand
from onchip.errors import InputError
from onchip.ir.layer import RELEVANT

OF_BOUNDS: Final = (
    "skipped_rows_are_absent",
    "neighbours_share_no_halo",
    "units_in_parts",
    "parts_are_cut_late",
    "parts_have_whole_room",
    "single_taps_are_channels",
    "accesses_are_of_a_cycle",
)
"""Options that require `tiles_from_bounds`."""


@dataclass(frozen=True, slots=True)
class Accounting:
    """The options by which a cost model differs from the interpreter; none by default (see docs/layer_cost.md).

    Options about sizes that follow from loop bounds alone need `tiles_from_bounds`. `systolic` are the dimensions of
    the array that results leave one unit per cycle.
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
    units_in_parts: bool = False
    parts_are_cut_late: bool = False
    parts_have_whole_room: bool = False
    single_taps_are_channels: bool = False
    accesses_are_of_a_cycle: bool = False
    lone_transfers_never_stall: bool = False
    last_sums_overlap: bool = False

    def __post_init__(self) -> None:
        if self.tiles_from_bounds:
            return
        for name in OF_BOUNDS:
            if getattr(self, name):
                detail = f"{name} needs sizes from bounds"
                raise InputError(detail, place="accounting", expected="tiles_from_bounds with it")


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
    units_in_parts=True,
)
"""Accounting of zigzag-dse 3.9.1, for a machine without systolic dimensions."""
DEFINES: Final = replace(
    ZIGZAG,
    units_keep_operands=False,
    whole_operands_load_meanwhile=False,
    parts_are_cut_late=True,
    parts_have_whole_room=True,
    single_taps_are_channels=True,
    accesses_are_of_a_cycle=True,
    last_sums_overlap=True,
)
"""Accounting of KULeuven-MICAS/DeFiNES, commit 7097d60, whose layers have no padding."""


class AccountingName(StrEnum):
    """The user's names of the accountings."""

    INTERPRETER = "interpreter"
    ZIGZAG = "zigzag"
    DEFINES = "defines"

    @property
    def accounting(self) -> Accounting:
        """Return the options for which the name stands."""
        return {"interpreter": INTERPRETER, "zigzag": ZIGZAG, "defines": DEFINES}[self.value]


def settled(mapping: LayerMapping) -> LayerMapping:
    """Return the mapping with each cut raised above the loops right above it that reuse the tile."""

    def raised(operand: Operand) -> tuple[Kept, ...]:
        return tuple(replace(kept, loops=_end_of_reuse(mapping, operand, kept.loops)) for kept in mapping.kept(operand))

    return replace(mapping, input=raised(Operand.INPUT), weight=raised(Operand.WEIGHT), output=raised(Operand.OUTPUT))


def _end_of_reuse(mapping: LayerMapping, operand: Operand, cut: int) -> int:
    end = cut
    for at, loop in enumerate(mapping.nest[cut:], cut):
        if loop.along is None and loop.size > 1:
            if loop.dimension in RELEVANT[operand]:
                break
            end = at + 1
    return end
