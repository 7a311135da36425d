"""Where the model of fused stacks differs from that of DeFiNES: each difference is one option."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from onchip.model.accounting.accounting import AccountingName


@dataclass(frozen=True, slots=True)
class Conventions:
    """What is counted how; docs/fused.md has a paragraph on each.

    Without `levels_are_skipped` data stay in the largest memory on the chip or in DRAM, as where only DRAM is modelled.
    """

    levels_are_skipped: bool = True
    padding_is_stored: bool = False
    waiting_maps_take_room: bool = True
    weights_lie_together: bool = False
    stack_inputs_are_cached_for_free: bool = False
    caches_are_sized_as_fully_cached: bool = False
    first_tiles_count_no_caches: bool = False
    cache_levels_are_the_next_tiles: bool = False
    maps_between_stacks_are_in_dram: bool = False
    offloading_is_free: bool = False


OURS: Final = Conventions()
DEFINES: Final = Conventions(
    waiting_maps_take_room=False,
    weights_lie_together=True,
    stack_inputs_are_cached_for_free=True,
    caches_are_sized_as_fully_cached=True,
    first_tiles_count_no_caches=True,
    cache_levels_are_the_next_tiles=True,
    maps_between_stacks_are_in_dram=True,
    offloading_is_free=True,
)
"""Of KULeuven-MICAS/DeFiNES, commit 7097d60."""


def conventions_of(accounting: AccountingName) -> Conventions:
    """How stacks are counted whose layers are counted so."""
    return DEFINES if accounting is AccountingName.DEFINES else OURS
