"""What a layer's tile costs by its best mapping, for the cost model of fused stacks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from onchip.answer.layer_mapping import LayerMapping, loops_along
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.result import Result, Status, Stop
from onchip.arch.accelerator import Accelerator
from onchip.errors import AcceleratorError, InputError, InternalError, UsageError
from onchip.ir.layer import LOOPS, OTHER_NAMES
from onchip.mapping.baselines.fixed_unrolling import (
    FixedUnrolling,
    TemporalMethod,
    unrolling_groups,
    with_groups_unrolled,
)
from onchip.mapping.local_search.one_by_one import one_by_one
from onchip.mapping.methods.cache import MappingCache
from onchip.mapping.methods.registry import MappingMethod
from onchip.model.accounting.accounting import DEFINES, AccountingName
from onchip.model.group.mapper import Mapper
from onchip.model.layer.cost import LayerCost, layer_cost
from onchip.model.layer.limits import array_of
from onchip.scheduling.fronts.cost_table import CostingStoppedError
from onchip.search.budget.limits import Run
from onchip.verify.mapping import verify_mapping
from onchip.verify.rules import Rule

EXACT, DIVE, LOMA, UNEVEN = "exact", "dive", "loma", "uneven"
SECONDS_OF_A_TILE: Final = 2e-3
"""To ask for the layer of a tile, known or not, and to price it, where work is counted."""
MAPPERS: Final[Mapping[AccountingName, tuple[str, ...]]] = {
    AccountingName.INTERPRETER: (EXACT, LOMA, "hybrid", "random", DIVE),
    AccountingName.DEFINES: (UNEVEN, LOMA),
}
"""Methods that map tiles, the default first; of other accountings no bounds of stacks are proven."""


class UnmappableError(UsageError):
    """A method cannot map a layer that may well have mappings: nothing would be proven without it."""


def mapper_named(name: str | None, accounting: AccountingName, objective: MappingObjective) -> str:
    """The method, without a name the accounting's default; raises UsageError for what does not go together."""
    if accounting not in MAPPERS:
        what = f"bounds of stacks are not proven for {accounting}"
        raise UsageError(what, place="--accounting", expected=" or ".join(MAPPERS))
    own = MAPPERS[accounting]
    if name is None:
        name = own[0]
    if name not in own:
        others = [other for other, methods in MAPPERS.items() if name in methods]
        what = f"{name!r} counts as {others[0]} alone" if others else f"there is no mapper {name!r} for tiles"
        expected = f"one of {', '.join(own)} with accounting {accounting}"
        raise UsageError(what, place="--method", expected=expected)
    if name == UNEVEN and objective is not MappingObjective.ENERGY:
        what = f"{UNEVEN!r} does not map for least {objective}"
        raise UsageError(what, place="--method", expected=f"{LOMA}, or objective energy or dram")
    return name


def check_rule_unrolls(accelerator: Accelerator) -> None:
    """Raises AcceleratorError for an array on which DeFiNES's rule unrolls nothing, or what may not stand there."""
    array = array_of(unrolling_groups(accelerator))
    named = {name: OTHER_NAMES.get(name, name) for name in array.sizes}
    for name, loop in named.items():
        if loop in LOOPS and loop not in loops_along(array, name):
            what = f"{name!r} may not unroll the loop that it is named for"
            raise AcceleratorError(what, place="array", expected="it to, by DeFiNES's rule")
    if not set(named.values()) & set(LOOPS):
        what = f"its dimensions are {', '.join(named)}, on which DeFiNES's rule unrolls nothing"
        raise AcceleratorError(what, place="array", expected="K, C, OX or OY among them")


@dataclass(frozen=True, slots=True)
class LayerMapper:
    """One method, asked within the run's limits; what it has proven may be kept between runs."""

    method: MappingMethod
    objective: MappingObjective
    run: Run
    cache: MappingCache | None = None

    def __call__(self, problem: LayerProblem) -> LayerCost | None:
        """The best mapping and its cost, None where nothing fits; where the method finds none, one product by one.

        Raises CostingStoppedError where the run has to stop first, UnmappableError for a layer that the method refuses.
        """
        try:
            result = self._result(problem)
        except InputError as error:
            raise _unmappable(error, self.method.name) from None
        mapping = _completed(result, self.run)
        if mapping is None and result.status is not Status.INFEASIBLE:
            mapping = _makeshift(problem)
        return None if mapping is None else layer_cost(problem, mapping)

    def _result(self, problem: LayerProblem) -> Result[LayerMapping]:
        own = Run(self.run.limits, interrupt=self.run.interrupt, deadline=self.run.deadline, watch=self.run.watch)
        if self.cache is not None:
            return self.cache.solve(self.method, problem, self.objective, own)
        return self.method(problem, self.objective, own)


@dataclass(frozen=True, slots=True)
class RuleMapper:
    """As DeFiNES has it: its rule says what stands on the array, its accounting what a mapping costs."""

    method: TemporalMethod
    objective: MappingObjective
    run: Run

    def __call__(self, problem: LayerProblem) -> LayerCost | None:
        """As `LayerMapper`."""
        widened = with_groups_unrolled(problem)
        by_rule = FixedUnrolling(self.method, DEFINES, self.objective, run=self.run)
        try:
            result = by_rule.result(widened)
        except InputError as error:
            raise _unmappable(error, self.method) from None
        mapping = _completed(result, self.run)
        if mapping is None:
            return None
        self._ensure_legal(widened, mapping)
        return layer_cost(widened, mapping, DEFINES)

    def _ensure_legal(self, problem: LayerProblem, mapping: LayerMapping) -> None:
        """Whole units may need more room than the parts that are counted, so that is left to the cost model."""
        for violation in verify_mapping(problem, mapping, may_pad=True):
            if violation.rule is not Rule.CAPACITY_EXCEEDED:
                raise InternalError(f"its mapping is not legal: {violation}", place=f"--method {self.method}")


@dataclass(frozen=True, slots=True)
class MapperInTime:
    """A mapper that is asked as long as the run need not stop: a stack may have thousands of layers in its tiles."""

    mapper: Mapper
    run: Run

    def __call__(self, problem: LayerProblem) -> LayerCost | None:
        """As the mapper itself; raises CostingStoppedError where the run has to stop."""
        if self.run.stop is not None:
            raise CostingStoppedError
        self.run.spend(SECONDS_OF_A_TILE)
        return self.mapper(problem)


def _makeshift(problem: LayerProblem) -> LayerMapping | None:
    """For a layer of which a method neither finds a mapping nor says that there is none."""
    mapping = one_by_one(problem)
    return None if verify_mapping(problem, mapping) else mapping


def _unmappable(error: InputError, method: str) -> UnmappableError:
    return UnmappableError(error.what, place=f"--method {method}", expected=error.expected)


def _completed(result: Result[LayerMapping], run: Run) -> LayerMapping | None:
    """None where nothing fits; raises CostingStoppedError where that may be so because the run has to stop.

    Of several unrollings one that is looked at in time may have none where a later one would.
    """
    if result.stopped_by is not Stop.COMPLETED or (result.answer is None and run.stop is not None):
        raise CostingStoppedError
    return result.answer
