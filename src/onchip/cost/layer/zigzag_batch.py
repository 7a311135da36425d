"""The cost of many mappings of one layer as ZigZag or DeFiNES counts it; the same figures as `layer_cost` gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from onchip.answer.layer_mapping import LayerMapping
from onchip.arch.accelerator import Accelerator
from onchip.cost.layer import zigzag_kernel as kernel
from onchip.cost.layer.accounting import DEFINES, ZIGZAG, Accounting
from onchip.cost.layer.limits import check_array, check_memories
from onchip.cost.layer.parts import check_parts
from onchip.cost.layer.tables import Chosen, chosen_of, machine_of, shape_of
from onchip.cost.layer.zigzag_tables import RealCosts, bench_of, facts_of
from onchip.errors import InputError
from onchip.ir.layer import Layer


class ZigzagCosts:
    """Costs mappings of `layer` on one accelerator; `accounting` is ZIGZAG or DEFINES, with any systolic dimensions.

    `layer` has its bounds as they are asked for. Raises AcceleratorError where the accelerator says too little,
    InputError for another accounting.
    """

    def __init__(self, layer: Layer, accelerator: Accelerator, accounting: Accounting = ZIGZAG) -> None:
        if replace(accounting, systolic=()) not in (ZIGZAG, DEFINES):
            expected = "ZIGZAG or DEFINES, with any systolic dimensions"
            raise InputError("the compiled cost model does not know it", place="accounting", expected=expected)
        self._layer = layer
        self._accelerator = accelerator
        self._shape = shape_of(layer, accelerator)
        self._machine = machine_of(accelerator)
        self._facts = facts_of(layer, accelerator, accounting)

    def encode(self, mappings: Sequence[LayerMapping]) -> Chosen:
        """In flat arrays; raises MappingError for what no capacity could mend, and where bounds are not the same."""
        for mapping in mappings:
            check_memories(self._layer, self._accelerator, mapping)
            check_array(self._accelerator, mapping)
            check_parts(self._layer, mapping)
        executed = mappings[0].layer(self._layer) if mappings else self._layer
        return chosen_of(executed, self._accelerator, mappings)

    def of_chosen(self, chosen: Chosen) -> RealCosts:
        """Energy infinite and cycles -1 for mappings that exceed a capacity or the array (`status` says which)."""
        rows = chosen.temporal_count.size
        costs = RealCosts(np.empty(rows), np.empty(rows), np.empty(rows, np.int64))
        bench = bench_of(self._machine, chosen.temporal_loop.shape[1])
        kernel.cost_all(self._shape, self._machine, self._facts, chosen, bench, costs)
        return costs

    def of(self, mappings: Sequence[LayerMapping]) -> RealCosts:
        """Of `mappings` in their order."""
        return self.of_chosen(self.encode(mappings))
