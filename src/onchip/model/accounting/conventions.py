"""Differences between the cost models of fused groups here and in DeFiNES, each as one option."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from onchip.model.accounting.accounting import AccountingName


@dataclass(frozen=True, slots=True)
class Conventions:
    """The counting conventions for fused groups; docs/fused.md has a paragraph on each option.

    Without `levels_are_skipped`, data stay in the largest on-chip memory or in DRAM, as if only DRAM were modelled.
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
"""Conventions of KULeuven-MICAS/DeFiNES, commit 7097d60."""


def conventions_of(accounting: AccountingName) -> Conventions:
    """Return the conventions for groups that match an accounting of layers."""
    return DEFINES if accounting is AccountingName.DEFINES else OURS
