"""A mapper for layers of fused groups that follows DeFiNES: the layer's kind determines the spatial unrolling."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import chain
from math import prod

from onchip.answer.layer_mapping import LayerMapping, loops_along
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.result import Result
from onchip.arch.accelerator import Accelerator
from onchip.ir.layer import LOOPS, OTHER_NAMES, Layer
from onchip.mapping.baselines.loma import LIMIT, solve_as_loma
from onchip.mapping.tile_search.uneven import solve_uneven
from onchip.model.accounting.accounting import DEFINES, Accounting
from onchip.model.layer.cost import LayerCost, layer_cost
from onchip.model.layer.limits import array_of
from onchip.model.unrolling.unrolling import Unrolling, UnrollingsOf
from onchip.search.budget.limits import Run


class TemporalMethod(StrEnum):
    """The method that orders and tiles the temporal loops."""

    LOMA = "loma"
    UNEVEN = "uneven"


def unrolling_for(layer: Layer, accelerator: Accelerator) -> Unrolling:
    """Return the unrolling by DeFiNES's rule, for arrays with dimensions K, C, OX and OY.

    Each dimension unrolls the loop of its name as far as possible. In grouped layers (pooling, depthwise convolution) K
    unrolls the groups. In layers with groups only (addition) all dimensions but C unroll groups, one after the other
    while any are left. Ten layers in DeFiNES's files depart from the rule (`workloads.unrollings` lists them by name).
    """
    found: dict[str, dict[str, int]] = {}
    groups_alone = prod(layer.bounds.values()) == layer.g
    left = layer.g
    for name, units in array_of(accelerator).sizes.items():
        own = OTHER_NAMES.get(name, name)
        if groups_alone and own == "C":
            continue
        loop, bound = ("G", left) if groups_alone or (own == "K" and layer.g > 1) else (own, layer.bounds.get(own, 1))
        if own in LOOPS and bound > 1:
            found[name] = {loop: min(units, bound)}
            left = -(-left // found[name].get("G", 1))
    return found


def unrollings_for(layer: Layer, accelerator: Accelerator) -> Iterator[Unrolling]:
    """Yield the rule's unrolling, and for an addition then prefixes of it with fewer dimensions, down to none.

    The two inputs of an addition may not fit for all units at once (Tesla has 1 KiB for 1,024 units).
    """
    rule = unrolling_for(layer, accelerator)
    yield rule
    if prod(layer.bounds.values()) == layer.g:
        for dimensions in range(len(rule) - 1, -1, -1):
            yield dict(list(rule.items())[:dimensions])


def unrolling_groups(accelerator: Accelerator) -> Accelerator:
    """Return the accelerator with an array on which every dimension may also unroll groups."""
    array = array_of(accelerator)
    wider = {name: tuple(dict.fromkeys((*loops_along(array, name), "G"))) for name in array.dimensions}
    return replace(accelerator, array=replace(array, unrolls=wider))


def with_groups_unrolled(problem: LayerProblem) -> LayerProblem:
    """Return the problem on an array on which every dimension may also unroll groups."""
    return replace(problem, accelerator=unrolling_groups(problem.accelerator))


@dataclass(frozen=True, slots=True)
class FixedUnrolling:
    """The layer mapper for `cost.fused`: the cost of the best mapping with a fixed unrolling, None if none fits.

    Of several unrollings, it uses the first that has a mapping. LOMA joins factors until `limit` are left. The time of
    `run` restarts for each layer unless `run` is given.
    """

    method: TemporalMethod = TemporalMethod.LOMA
    accounting: Accounting = DEFINES
    objective: MappingObjective = MappingObjective.ENERGY
    limit: int = LIMIT
    unrollings: UnrollingsOf = unrollings_for
    run: Run = field(default_factory=Run)

    def __call__(self, problem: LayerProblem) -> LayerCost | None:
        """Return the cost of the best mapping, or None if none fits.

        Raises UsageError if `uneven` does not support the objective, InputError if it does not support the accounting.
        """
        widened = with_groups_unrolled(problem)
        mapping = self.result(widened).answer
        return None if mapping is None else layer_cost(widened, mapping, self.accounting)

    def result(self, problem: LayerProblem) -> Result[LayerMapping]:
        """Return the mapping search's result; the array must allow the unrollings of the rule."""
        unrollings = self.unrollings(problem.layer, problem.accelerator)
        results = (self._unrolled(problem, unrolling) for unrolling in unrollings)
        first = next(results)
        return next((one for one in chain([first], results) if one.answer is not None), first)

    def _unrolled(self, problem: LayerProblem, unrolling: Unrolling) -> Result[LayerMapping]:
        given = problem, self.objective, self.run
        if self.method is TemporalMethod.UNEVEN:
            return solve_uneven(*given, self.accounting, unrolling)
        return solve_as_loma(*given, self.limit, self.accounting, unrolling)
