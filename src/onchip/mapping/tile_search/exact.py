"""The compiled exact mapper and its search space."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import inf, isfinite, prod
from typing import Final

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop, loops_along
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.result import SearchResult, Status, Stop
from onchip.arch.memory import MemoryLevel, Operand
from onchip.bounds.layer.nest_work import work_of_all
from onchip.errors import AcceleratorError, InputError
from onchip.ir.layer import LOOPS, RELEVANT
from onchip.model.layer.limits import array_of
from onchip.model.layer.tables import OPERANDS, LayerCosts, native_layer, native_machine
from onchip.model.unrolling.unrolling import choices_within, divisors, prime_counts
from onchip.native import ExactMapper as CompiledMapper
from onchip.native import ExactNest, ExactObjective, ExactSpace, StopToken
from onchip.search.budget.limits import Run
from onchip.search.strategy.interruptible import WatchedWork, run_watched

NO_CLASS: Final = 3
CLASSES: Final = tuple(
    next((at for at, operand in enumerate(OPERANDS) if loop not in RELEVANT[operand]), NO_CLASS) for loop in LOOPS
)
"""The operand to which each loop is irrelevant (K: input; N, P, Q: weight; C, R, S: output); G has none."""
MOST_TILES: Final = 1 << 17


def space_of(problem: LayerProblem) -> ExactSpace:
    """Return the search space of a problem.

    Raises AcceleratorError if an operand's memories are no chain, InputError for a layer with too many tiles.
    """
    layer, accelerator, work = problem.layer, problem.accelerator, work_of_all(problem.layer)
    copies = [count for bound in layer.bounds.values() for count in prime_counts(bound).values()]
    if prod(count + 1 for count in copies) > MOST_TILES:
        detail = f"it has more than {MOST_TILES} tile shapes"
        raise InputError(detail, place="layer", expected="bounds with fewer divisors")
    holds = [_held(problem, operand) for operand in OPERANDS]
    for held in holds:
        _check_chain(problem.levels, held)
    return ExactSpace(
        layer=native_layer(layer, accelerator),
        machine=native_machine(problem),
        bounds=list(layer.bounds.values()),
        holds=holds,
        touched=[float(work.inputs), float(work.weights), float(work.outputs)],
        ways=ways_of(problem),
    )


def ways_of(problem: LayerProblem) -> list[list[tuple[int, ...]]]:
    """Return for each dimension of the array the possible unrollings along it, with sizes in LOOPS order."""
    array = array_of(problem.accelerator)
    ways = []
    for along, units in array.sizes.items():
        allowed = loops_along(array, along)
        of_bounds = [divisors(bound) if loop in allowed else [1] for loop, bound in problem.layer.bounds.items()]
        ways.append(list(choices_within(of_bounds, units)))
    return ways


def _held(problem: LayerProblem, operand: str) -> list[bool]:
    keepers = problem.keepers(operand) if operand in problem.layer.operands else ()
    return [level in keepers for level in problem.levels]


def _check_chain(levels: Sequence[MemoryLevel], held: Sequence[bool]) -> None:
    """Raise AcceleratorError unless each of an operand's memories serves at least the units of the one below."""
    for lower, upper in pairwise(at for at, is_held in enumerate(held) if is_held):
        served, needed = levels[upper].serves, levels[lower].serves
        if served is not None and (needed is None or not set(needed) <= set(served)):
            raise AcceleratorError(
                f"it cannot be filled from {levels[upper].memory.name!r}",
                place=f"memory {levels[lower].memory.name!r}",
                expected="the next that holds the same operand to serve at least the same",
            )


METHOD: Final = "exact"
NO_LEVEL: Final = -1
UNLIMITED: Final = 1 << 60
SECONDS_OF_FIRST: Final = 0.3
"""Extra seconds for a first mapping beyond the time limit, without a node limit; it mostly takes milliseconds."""
NODES_OF_A_DIVE: Final = 24
"""Node limit of a dive; the first dive mostly finds a mapping after about ten tiles."""
WORK_OF_A_DIVE: Final = 28_800
"""Work limit of a dive, about 8 ms; for a few layers one tile takes as long as a whole dive of others."""
DEPTHS_OF_DIVES: Final = (1, 8, 64)
"""Multiples of a dive's limits, tried until a mapping is found: small memories may need a longer dive."""
OBJECTIVES: Final = {
    MappingObjective.ENERGY: ExactObjective.ENERGY,
    MappingObjective.LATENCY: ExactObjective.LATENCY,
    MappingObjective.EDP: ExactObjective.PRODUCT,
}


@dataclass(slots=True)
class ExactMapper:
    """A search on one layer's problem, without memories that are too small for any operand."""

    problem: LayerProblem
    objective: MappingObjective
    run: Run
    best: float = inf
    answer: LayerMapping | None = None
    most_work: int = UNLIMITED
    """Work limit of the compiled search, which does about 3.6 million units a second."""
    _token: StopToken = field(default_factory=StopToken)
    _search: CompiledMapper = field(init=False)
    _paused: WatchedWork[None] | None = None

    def __post_init__(self) -> None:
        self.problem = self.problem.without_memories_of_no_use()
        self._search = CompiledMapper(space_of(self.problem), OBJECTIVES[self.objective])

    def solve(self, start: LayerMapping | None = None) -> SearchResult[LayerMapping]:
        """Return the best mapping; `start` is a mapping to improve on."""
        if start is not None:
            self._begin_with(start)
        if self.most_work < UNLIMITED:  # ends within milliseconds, as long as it takes to start a thread
            self._work()
            self._report()
        else:
            run_watched(self._work, self._stop, self.run, self._report)
        return self._ended()

    def go_on(self, turn: Run, nodes: float) -> bool:
        """Begin or resume the search; return True if it ended.

        The search pauses after about `nodes` nodes, or at the end of `turn`.
        """
        until = self.nodes + nodes
        if self._paused is None:
            self._paused = WatchedWork(self._work)
        self._token.resume()
        has_ended = self._paused.watch(lambda: turn.stop is not None or self.nodes >= until)
        if not has_ended:
            self._token.pause()
        self._take_answer()
        return has_ended

    def end(self) -> SearchResult[LayerMapping]:
        """Return the search's result; end the search if it is running."""
        if self._paused is None:
            return self.solve()
        if self.run.stop is None and not self._paused.has_ended:
            self._token.ask()
        self._token.resume()
        run_watched(self._paused.end, self._stop, self.run)
        return self._ended()

    def _ended(self) -> SearchResult[LayerMapping]:
        self._take_answer()
        return self._result()

    def _take_answer(self) -> None:
        if (nest := self._search.answer) is not None:
            self.best, self.answer = self._search.best, mapping_of(nest, self.problem)

    @property
    def nodes(self) -> int:
        """Return the number of tiles expanded."""
        return self._search.nodes

    def _begin_with(self, start: LayerMapping) -> None:
        costs = LayerCosts(self.problem).of([start])
        energy, cycles = float(costs.energy_pj[0]), float(costs.cycles[0])
        value = self.objective.of(energy, cycles) if isfinite(energy) else inf
        if value < self.best:
            self.best, self.answer = value, start

    def _work(self) -> None:
        self._search.run(self.best, self._token, self.run.limits.workers, self._most_nodes, self.most_work)

    @property
    def _most_nodes(self) -> int:
        limit = self.run.limits.node_limit
        return UNLIMITED if limit is None else limit

    def _stop(self) -> None:
        """Ask the search to stop; a time limit alone waits for the first mapping."""
        has_any = isfinite(min(self.best, self._search.best))
        if has_any or self.run.interrupt.is_set() or self.run.seconds_left < -SECONDS_OF_FIRST:
            self._token.ask()

    def _report(self) -> None:
        best = min(self.best, self._search.best)
        value = round(best) if isfinite(best) else None
        proven = int(self._search.proven)
        bound = proven if value is None else min(proven, value)
        self.run.report(value, bound, f"{self._search.nodes} tiles looked into")

    def _result(self) -> SearchResult[LayerMapping]:
        stop = (self.run.stop or Stop.NODE_LIMIT) if self._token.is_asked else None
        if stop is None and self._search.nodes >= self._most_nodes:
            stop = Stop.NODE_LIMIT
        if stop is None and self._search.work >= self.most_work:
            stop = Stop.TIME_LIMIT
        proven = int(self._search.proven)
        if self.answer is None:
            status = Status.UNKNOWN if stop else Status.INFEASIBLE
            return SearchResult(status, None, None, proven, self.run.seconds, METHOD, stop or Stop.COMPLETED)
        value = round(self.best)
        bound = min(proven, value) if stop else value
        status = Status.OPTIMAL if bound == value else Status.FEASIBLE
        return SearchResult(status, self.answer, value, bound, self.run.seconds, METHOD, stop or Stop.COMPLETED)


def mapping_of(nest: ExactNest, problem: LayerProblem) -> LayerMapping:
    """Return the compiled search's mapping with memory and loop names."""
    along = [*array_of(problem.accelerator).sizes]
    loops = [Loop(LOOPS[loop], size, along[at] if at >= 0 else None) for loop, size, at in nest.loops]
    names = [level.memory.name for level in problem.levels]
    kept = [
        tuple(Kept(name, spanned) for name, spanned in zip(names, own, strict=True) if spanned != NO_LEVEL)
        for own in nest.kept
    ]
    return LayerMapping(tuple(loops), *(kept[at] for at, _ in enumerate(Operand)))


def solve_exactly(
    problem: LayerProblem, objective: MappingObjective, run: Run, start: LayerMapping | None = None
) -> SearchResult[LayerMapping]:
    """Return the best of EVEN_MAPPINGS; `start` is a mapping to improve on.

    INFEASIBLE means that no even mapping fits. Raises AcceleratorError if the accelerator's description is incomplete,
    InputError for a layer with too many tiles.
    """
    return ExactMapper(problem, objective, run).solve(start)


def solve_by_dive(
    problem: LayerProblem, objective: MappingObjective, run: Run, depth: int = 1
) -> SearchResult[LayerMapping]:
    """Return the mapping of the first dive into EVEN_MAPPINGS; deterministic, mostly within milliseconds.

    `depth` multiplies the dive's limits. Without a mapping the status is UNKNOWN, or INFEASIBLE if no even mapping
    fits. Raises the errors of `solve_exactly`.
    """
    limits = replace(run.limits, node_limit=depth * NODES_OF_A_DIVE, time_limit_seconds=None)
    own = Run(limits, interrupt=run.interrupt)
    found = ExactMapper(problem, objective, own, most_work=depth * WORK_OF_A_DIVE).solve()
    stopped_by = Stop.INTERRUPTED if found.stopped_by is Stop.INTERRUPTED else Stop.COMPLETED
    if found.answer is None:
        return replace(found, lower_bound=0, stopped_by=stopped_by)
    return replace(found, status=Status.FEASIBLE, lower_bound=0, stopped_by=stopped_by)
