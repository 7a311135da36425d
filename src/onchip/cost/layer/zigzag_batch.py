"""The cost of many mappings of one layer as ZigZag or DeFiNES counts it; the same figures as `layer_cost` gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.cost.layer import zigzag_kernel as kernel
from onchip.cost.layer.accounting import DEFINES, ZIGZAG, Accounting
from onchip.cost.layer.limits import check_array, check_memories
from onchip.cost.layer.parts import check_parts
from onchip.cost.layer.tables import Chosen, chosen_of, machine_of, shape_of
from onchip.cost.layer.zigzag_tables import RealCosts, bench_of, facts_of
from onchip.errors import InputError


class ZigzagCosts:
    """Costs mappings of one layer; `accounting` is ZIGZAG or DEFINES, with any systolic dimensions.

    The layer has its bounds as they are asked for. Raises AcceleratorError where the accelerator says too little,
    InputError for another accounting.
    """

    def __init__(self, problem: LayerProblem, accounting: Accounting = ZIGZAG) -> None:
        if replace(accounting, systolic=()) not in (ZIGZAG, DEFINES):
            expected = "ZIGZAG or DEFINES, with any systolic dimensions"
            raise InputError("the compiled cost model does not know it", place="accounting", expected=expected)
        self._problem = problem
        self._shape = shape_of(problem.layer, problem.accelerator)
        self._machine = machine_of(problem)
        self._facts = facts_of(problem, accounting)

    def encode(self, mappings: Sequence[LayerMapping]) -> Chosen:
        """In flat arrays; raises MappingError for what no capacity could mend, and where bounds are not the same."""
        for mapping in mappings:
            check_memories(self._problem, mapping)
            check_array(self._problem.accelerator, mapping)
            check_parts(self._problem.layer, mapping)
        executed = mappings[0].layer(self._problem.layer) if mappings else self._problem.layer
        return chosen_of(executed, self._problem, mappings)

    def of_chosen(self, chosen: Chosen) -> RealCosts:
        """Energy infinite and cycles -1 for mappings that exceed a capacity or the array (`status` says which)."""
        rows = chosen.temporal_count.size
        costs = RealCosts(np.empty(rows), np.empty(rows), np.empty(rows, np.int64))
        bench = bench_of(self._machine, chosen.temporal_loop.shape[1])
        kernel.cost_all(self._shape, self._machine, self._facts, chosen, bench, costs)
        return costs

    def of(self, mappings: Sequence[LayerMapping]) -> RealCosts:
        """Return the costs of `mappings` in their order, as ZigZag counts them."""
        return self.of_chosen(self.encode(mappings))
