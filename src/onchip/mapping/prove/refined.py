"""A mapping made better step by step: cuts, loops and factors moved, each operand cut at its own places."""

from __future__ import annotations

from math import inf
from typing import Final

from onchip.answer.layer_mapping import LayerMapping, loops_along
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.ir.layer import LOOPS, Layer
from onchip.mapping.tile_search.exact import OBJECTIVES, mapping_of
from onchip.model.layer.batch import LayerCosts
from onchip.model.layer.limits import array_of
from onchip.model.layer.native_layer import native_layer, native_machine
from onchip.native import ExactRefiner
from onchip.search.budget.limits import Run

MAPPINGS_AT_ONCE: Final = 20_000
SEED: Final = 1


def refined(
    problem: LayerProblem,
    executed: Layer,
    objective: MappingObjective,
    start: LayerMapping,
    mappings: int,
    run: Run,
) -> tuple[float, LayerMapping]:
    """The best of about so many mappings and its value as `executed` costs it, `start` where none is better.

    Its loops are those of `executed`, which may be longer than the layer's. Raises MappingError for a start of others.
    """
    array = array_of(problem.accelerator)
    search = ExactRefiner(
        native_layer(executed, problem.accelerator),
        native_machine(problem),
        OBJECTIVES[objective],
        [[loop in loops_along(array, name) for loop in LOOPS] for name in array.sizes],
        SEED,
        *LayerCosts(problem, executed).encode([start]),
    )
    for costed in range(0, mappings, MAPPINGS_AT_ONCE):
        if run.stop is not None:
            break
        search.go_on(min(MAPPINGS_AT_ONCE, mappings - costed))
    return search.value, mapping_of(search.nest, problem) if search.value < inf else start
