"""Costs of many mappings of a layer in ZigZag's or DeFiNES's accounting; equal to those of `layer_cost`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from onchip import native
from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.arch.memory import Operand
from onchip.errors import InputError
from onchip.model.accounting.accounting import DEFINES, ZIGZAG, Accounting
from onchip.model.layer.limits import array_of, check_array, check_memories
from onchip.model.layer.native_layer import native_layer, native_machine
from onchip.model.layer.tables import Chosen, Integers, Reals, chosen_of
from onchip.model.unrolling.parts import check_parts


class RealCosts(NamedTuple):
    """Costs by row; cycles are whole numbers unless loads are hidden behind the loops."""

    energy_pj: Reals
    cycles: Reals
    status: Integers


class ZigzagCosts:
    """A compiled cost model for mappings of one layer; `accounting` is ZIGZAG or DEFINES, with any systolic dimensions.

    The layer has its bounds without padding. Raises AcceleratorError if the accelerator's description is incomplete,
    InputError for another accounting or a layer that is too large.
    """

    def __init__(self, problem: LayerProblem, accounting: Accounting = ZIGZAG) -> None:
        if replace(accounting, systolic=()) not in (ZIGZAG, DEFINES):
            expected = "ZIGZAG or DEFINES, with any systolic dimensions"
            raise InputError("the compiled cost model does not know it", place="accounting", expected=expected)
        self._problem = problem
        both = {Operand.INPUT, Operand.WEIGHT}
        self._costs = native.ZigzagCosts(
            layer=native_layer(problem.layer, problem.accelerator),
            bounds=list(problem.layer.bounds.values()),
            machine=native_machine(problem),
            is_shared=[*(both <= set(level.memory.holds) for level in problem.levels), True],
            accounting=_native_accounting(accounting, list(array_of(problem.accelerator).sizes)),
        )

    def encode(self, mappings: Sequence[LayerMapping]) -> Chosen:
        """Return the mappings as flat arrays.

        Raises MappingError if a mapping is illegal at any capacity, or if the mappings' bounds differ.
        """
        for mapping in mappings:
            check_memories(self._problem, mapping)
            check_array(self._problem.accelerator, mapping)
            check_parts(self._problem.layer, mapping)
        executed = mappings[0].layer(self._problem.layer) if mappings else self._problem.layer
        return chosen_of(executed, self._problem, mappings)

    def of_chosen(self, chosen: Chosen) -> RealCosts:
        """Return costs by row: energy infinite and cycles -1 if a capacity or the array is exceeded (see `status`)."""
        return RealCosts(*self._costs.of(*chosen))

    def of(self, mappings: Sequence[LayerMapping]) -> RealCosts:
        """Return the costs of `mappings` in their order."""
        return self.of_chosen(self.encode(mappings))


def _native_accounting(accounting: Accounting, dimensions: Sequence[str]) -> native.ZigzagAccounting:
    return native.ZigzagAccounting(
        units_keep_operands=accounting.units_keep_operands,
        whole_operands_load_meanwhile=accounting.whole_operands_load_meanwhile,
        parts_are_cut_late=accounting.parts_are_cut_late,
        parts_have_whole_room=accounting.parts_have_whole_room,
        single_taps_are_channels=accounting.single_taps_are_channels,
        accesses_are_of_a_cycle=accounting.accesses_are_of_a_cycle,
        lone_transfers_never_stall=accounting.lone_transfers_never_stall,
        last_sums_overlap=accounting.last_sums_overlap,
        is_systolic=[name in accounting.systolic for name in dimensions],
    )
