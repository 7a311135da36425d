"""A mapper of the layers of fused stacks as DeFiNES has it: what stands on the array follows from the layer's kind."""

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
    """How the loops in time are ordered and cut."""

    LOMA = "loma"
    UNEVEN = "uneven"


def unrolling_for(layer: Layer, accelerator: Accelerator) -> Unrolling:
    """DeFiNES's rule, for arrays whose dimensions are named K, C, OX and OY: each unrolls its loop as far as it goes.

    Where channels are groups (a pool, a depthwise convolution) K unrolls these. Where there are only groups (an
    addition) all dimensions but C do, one after the other as long as there are any left. Ten of the layers in its files
    depart from it (`workloads.unrollings` has them by name).
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
    """That of the rule; for an addition then fewer dimensions of it, down to none.

    The two inputs of an addition may not fit side by side for all units (Tesla's 1 KiB has room for one of 1,024).
    """
    rule = unrolling_for(layer, accelerator)
    yield rule
    if prod(layer.bounds.values()) == layer.g:
        for dimensions in range(len(rule) - 1, -1, -1):
            yield dict(list(rule.items())[:dimensions])


def unrolling_groups(accelerator: Accelerator) -> Accelerator:
    """The same, with an array of which every dimension may unroll groups too."""
    array = array_of(accelerator)
    wider = {name: tuple(dict.fromkeys((*loops_along(array, name), "G"))) for name in array.dimensions}
    return replace(accelerator, array=replace(array, unrolls=wider))


def with_groups_unrolled(problem: LayerProblem) -> LayerProblem:
    """The same on such an array."""
    return replace(problem, accelerator=unrolling_groups(problem.accelerator))


@dataclass(frozen=True, slots=True)
class FixedUnrolling:
    """For `cost.fused`: the cost of the best mapping with a given unrolling, None where nothing fits.

    Of several unrollings the first that leaves one. LOMA joins factors until `limit` are left. `run` starts anew for
    each layer unless it is given.
    """

    method: TemporalMethod = TemporalMethod.LOMA
    accounting: Accounting = DEFINES
    objective: MappingObjective = MappingObjective.ENERGY
    limit: int = LIMIT
    unrollings: UnrollingsOf = unrollings_for
    run: Run = field(default_factory=Run)

    def __call__(self, problem: LayerProblem) -> LayerCost | None:
        """Raises UsageError where `uneven` does not know the objective, InputError where not the accounting."""
        widened = with_groups_unrolled(problem)
        mapping = self.result(widened).answer
        return None if mapping is None else layer_cost(widened, mapping, self.accounting)

    def result(self, problem: LayerProblem) -> Result[LayerMapping]:
        """That of which the cost is; the array must unroll what the rule says."""
        unrollings = self.unrollings(problem.layer, problem.accelerator)
        results = (self._unrolled(problem, unrolling) for unrolling in unrollings)
        first = next(results)
        return next((one for one in chain([first], results) if one.answer is not None), first)

    def _unrolled(self, problem: LayerProblem, unrolling: Unrolling) -> Result[LayerMapping]:
        given = problem, self.objective, self.run
        if self.method is TemporalMethod.UNEVEN:
            return solve_uneven(*given, self.accounting, unrolling)
        return solve_as_loma(*given, self.limit, self.accounting, unrolling)
