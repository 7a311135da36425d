"""The mappers of tile layers, for the cost model of fused groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from onchip.answer.layer_mapping import LayerMapping, loops_along
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.result import SearchResult, Status, Stop
from onchip.arch.accelerator import Accelerator
from onchip.errors import AcceleratorError, InputError, InternalError, UsageError
from onchip.ir.layer import LOOPS, OTHER_NAMES
from onchip.mapping.baselines.loma import one_by_one
from onchip.mapping.methods.cache import MappingCache
from onchip.mapping.methods.registry import MappingMethod
from onchip.mapping.tile_search.uneven import FixedUnrolling, TemporalMethod, unrolling_groups, with_groups_unrolled
from onchip.model.accounting.accounting import DEFINES, AccountingName
from onchip.model.group.machine import Mapper
from onchip.model.layer.cost import LayerCost, layer_cost
from onchip.model.layer.limits import array_of, misfit
from onchip.search.budget.clock import Deadline
from onchip.search.budget.limits import Run

EXACT, DIVE, LOMA, UNEVEN = "exact", "dive", "loma", "uneven"
MAPPERS: Final[Mapping[AccountingName, tuple[str, ...]]] = {
    AccountingName.INTERPRETER: (EXACT, LOMA, DIVE),
    AccountingName.DEFINES: (UNEVEN, LOMA),
}
"""Methods that map tiles, the default first; other accountings have no proven bounds of groups."""


class CostingStoppedError(Exception):
    """The time ran out before a cost was found."""


class UnmappableError(UsageError):
    """A method cannot map a layer that may have mappings: without it no bound is proven."""


def mapper_named(name: str | None, accounting: AccountingName, objective: MappingObjective) -> str:
    """Return the method, by default the accounting's first; raises UsageError for an incompatible combination."""
    if accounting not in MAPPERS:
        what = f"bounds of stacks are not proven for {accounting}"
        raise UsageError(what, place="accounting", expected=" or ".join(MAPPERS))
    own = MAPPERS[accounting]
    if name is None:
        name = own[0]
    if name not in own:
        others = [other for other, methods in MAPPERS.items() if name in methods]
        what = f"{name!r} counts as {others[0]} alone" if others else f"there is no mapper {name!r} for tiles"
        expected = f"one of {', '.join(own)} with accounting {accounting}"
        raise UsageError(what, place="mapper", expected=expected)
    if name == UNEVEN and objective is not MappingObjective.ENERGY:
        what = f"{UNEVEN!r} does not map for least {objective}"
        raise UsageError(what, place="mapper", expected=f"{LOMA}, or objective energy or dram")
    return name


def check_rule_unrolls(accelerator: Accelerator) -> None:
    """Raise AcceleratorError for an array on which DeFiNES's rule unrolls no loop, or a forbidden one."""
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
    """A mapper that uses one method within the run's limits; proofs may be cached between runs."""

    method: MappingMethod
    objective: MappingObjective
    run: Run
    cache: MappingCache | None = None

    def __call__(self, problem: LayerProblem) -> LayerCost | None:
        """Return the cost of the best mapping, or None if none fits; the serial mapping if the method finds none.

        Raises CostingStoppedError if the run stops first, UnmappableError for a layer that the method refuses.
        """
        try:
            result = self._result(problem)
        except InputError as error:
            raise _unmappable(error, self.method.name) from None
        mapping = _completed(result, self.run)
        if mapping is None and result.status is not Status.INFEASIBLE:
            mapping = _makeshift(problem)
        return None if mapping is None else layer_cost(problem, mapping)

    def _result(self, problem: LayerProblem) -> SearchResult[LayerMapping]:
        own = Run(self.run.limits, interrupt=self.run.interrupt, deadline=self.run.deadline, watch=self.run.watch)
        if self.cache is not None:
            return self.cache.solve(self.method, problem, self.objective, own)
        return self.method(problem, self.objective, own)


@dataclass(frozen=True, slots=True)
class RuleMapper:
    """A mapper with DeFiNES's unrolling rule and accounting."""

    method: TemporalMethod
    objective: MappingObjective
    run: Run

    def __call__(self, problem: LayerProblem) -> LayerCost | None:
        """Return the cost of the best mapping, or None if none fits; raises as `LayerMapper` does."""
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
        """Raise InternalError for an illegal mapping; capacity is excluded: whole units need more than fractions."""
        fault = misfit(problem, mapping, may_pad=True, counts_room=False)
        if fault is not None:
            raise InternalError(f"its mapping is not legal: {fault}", place=f"method {self.method}")


@dataclass(frozen=True, slots=True)
class MapperInTime:
    """A mapper that maps each layer once, and raises once the run must stop: a group may have thousands of layers."""

    mapper: Mapper
    run: Run
    known: dict[LayerProblem, LayerCost | None] = field(default_factory=dict)

    def __call__(self, problem: LayerProblem) -> LayerCost | None:
        """Return the mapper's answer; raises CostingStoppedError if the run must stop."""
        if self.run.stop is not None:
            raise CostingStoppedError
        if problem not in self.known:
            self.known[problem] = self.mapper(problem)
        return self.known[problem]

    def untimed(self) -> MapperInTime:
        """Return the mapper without a time limit, with the same known answers; Ctrl-C still ends it."""
        limits = replace(self.run.limits, time_limit_seconds=None, workers=1)
        run = Run(limits, interrupt=self.run.interrupt, deadline=Deadline(), watch=self.run.watch)
        mapper = self.mapper
        if isinstance(mapper, LayerMapper | RuleMapper):
            mapper = replace(mapper, run=run)
        return MapperInTime(mapper, run, self.known)


def _makeshift(problem: LayerProblem) -> LayerMapping | None:
    """Return the serial mapping, for a layer without a mapping or proof of infeasibility."""
    mapping = one_by_one(problem)
    return mapping if misfit(problem, mapping) is None else None


def _unmappable(error: InputError, method: str) -> UnmappableError:
    return UnmappableError(error.what, place=f"method {method}", expected=error.expected)


def _completed(result: SearchResult[LayerMapping], run: Run) -> LayerMapping | None:
    """Return the mapping, None if none fits; raises CostingStoppedError if the search was cut short.

    With several unrollings, the first may have no mapping although a later one does.
    """
    if result.stopped_by is not Stop.COMPLETED or (result.answer is None and run.stop is not None):
        raise CostingStoppedError
    return result.answer
