"""Independent components, each planned alone; their plans run one after another.

docs/search.md, *Independent components*, proves that the value and the bound of the whole follow from theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeAlias

from onchip.answer.problem import Objective, Problem
from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction, Plan
from onchip.answer.result import Result, Status, Stop
from onchip.memory.decisions.incumbent import PlanIncumbent
from onchip.model.lifetimes.components import IndependentPart, components_of
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.search.budget.limits import Progress, Run

Solve: TypeAlias = Callable[[Problem, Run], Result[Plan]]


def solve_in_components(problem: Problem, run: Run, solve: Solve, method: str) -> Result[Plan] | None:
    """Plan each component by `solve`; return None if there is only one, or if their arenas do not simply compare."""
    if problem.objective is Objective.PEAK and len(problem.memories) > 1:
        return None
    components = components_of(problem)
    if len(components) == 1 and len(components[0].tensor_names) == 1:
        return None
    return _ComponentsPlanner(problem, components, run, solve, method).result()


class _ComponentsPlanner:
    """Plans the small components first, so that all the time that they leave is the large ones'."""

    def __init__(
        self, problem: Problem, components: Iterable[IndependentPart], run: Run, solve: Solve, method: str
    ) -> None:
        self._components = sorted(components, key=lambda one: len(one.problem.graph.operators))
        self._incumbent = PlanIncumbent(IndexedProblem.of(problem), run)
        self._run = run
        self._solve = solve
        self._method = method
        self._total = max if problem.objective is Objective.PEAK else sum
        self._bounds: list[int] = []
        self._values: list[int] = []
        self._instructions: list[Instruction] = []

    def result(self) -> Result[Plan]:
        """Plan all components and return what is known of the whole."""
        for number, component in enumerate(self._components):
            result = self._planned(component, len(self._components) - number)
            self._bounds += [result.lower_bound] * len(component.tensor_names)
            if result.stopped_by is not Stop.COMPLETED:
                self._incumbent.stopped_by = result.stopped_by
            if result.status is Status.INFEASIBLE:
                return replace(result, lower_bound=0, method=self._method)
            if result.answer is not None and result.objective_value is not None:
                self._values += [result.objective_value] * len(component.tensor_names)
                self._take(component, result.answer)
        self._incumbent.raise_bound(self._total(self._bounds))
        if len(self._values) == len(self._bounds):
            plan = Plan(self._incumbent.indexed.problem.memories, tuple(self._instructions))
            self._incumbent.keep(plan, self._total(self._values), "all components")
        return self._incumbent.result(self._method)

    def _planned(self, component: IndependentPart, components_left: int) -> Result[Plan]:
        """Plan a component in its share of the time."""
        copies = len(component.tensor_names)

        def tell(heard: Progress) -> None:
            best = None
            if components_left == 1 and heard.best is not None and len(self._values) == len(self._bounds):
                best = self._total([*self._values, *[heard.best] * copies])
            bound = self._total([*self._bounds, *[heard.lower_bound] * copies])
            known = self._incumbent.value
            best = known if best is None or (known is not None and known < best) else best
            self._run.report(best, max(bound, self._incumbent.lower_bound), heard.phase)

        share = self._run.within(self._run.seconds_left / components_left)
        return self._solve(component.problem, replace(share, listener=tell, warm_start=None))

    def _take(self, component: IndependentPart, plan: Plan) -> None:
        """Append the component's program once for each copy; all that is left on chip afterwards is freed."""
        program = [*plan.instructions, *_frees_of_leftovers(plan.instructions)]
        for operators, tensors in zip(component.operator_names, component.tensor_names, strict=True):
            self._instructions += [_renamed(one, operators, tensors) for one in program]


def _frees_of_leftovers(instructions: Iterable[Instruction]) -> list[Instruction]:
    resident: dict[tuple[str, str], None] = {}
    for one in instructions:
        if isinstance(one, Allocate):
            resident[one.tensor, one.memory] = None
        elif isinstance(one, Free):
            del resident[one.tensor, one.memory]
    return [Free(tensor, memory) for tensor, memory in resident]


def _renamed(one: Instruction, operators: Mapping[str, str], tensors: Mapping[str, str]) -> Instruction:
    if isinstance(one, Compute):
        return Compute(operators[one.operator])
    if isinstance(one, Allocate):
        return Allocate(tensors[one.tensor], one.memory, one.offset_bytes, one.is_state)
    if isinstance(one, Copy):
        return Copy(tensors[one.tensor], one.source, one.target)
    return Free(tensors[one.tensor], one.memory)
