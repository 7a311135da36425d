"""The spatial mapping of a layer mapping."""

from __future__ import annotations

import numpy as np

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.ir.layer import LOOPS
from onchip.mapping.prove.unrolled_ways import UnrolledWays
from onchip.model.layer.limits import array_of


def way_of(problem: LayerProblem, mapping: LayerMapping) -> UnrolledWays:
    """Return its units by dimension of the array and loop."""
    names = list(array_of(problem.accelerator).sizes)
    units = np.ones((len(names), len(LOOPS)), np.int64)
    for loop in mapping.nest:
        if loop.along is not None:
            units[names.index(loop.along), LOOPS.index(loop.dimension)] *= loop.size
    return UnrolledWays(problem, units, units.copy())
