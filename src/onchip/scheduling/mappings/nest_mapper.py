"""The mapper of nests at their homes in a given capacity: proven optima, or the best found in time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Final, TypeAlias

from onchip.answer.layer_mapping import Kept, LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.result import SearchResult, Status
from onchip.answer.schedule import Homes
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import Access, Operand
from onchip.errors import AcceleratorError, InputError
from onchip.ir.layer import Layer
from onchip.mapping.baselines.loma import greedy_mapping, one_by_one
from onchip.mapping.methods.cache import (
    SECONDS_OF_LOMA,
    MappingCache,
    best_mapping_at,
    first_mapping_at,
    hurried_mapping_at,
    known_mapping_at,
    mappings_of_front_at,
)
from onchip.mapping.methods.registry import METHODS
from onchip.model.layer.limits import misfit
from onchip.model.layer.tables import LayerCosts
from onchip.model.program.compute_cost import nest_cost
from onchip.scheduling.mappings.cycle_floors import CycleFloors
from onchip.scheduling.mappings.mapped import MappedNest, NestKey, Room, key_of
from onchip.scheduling.program.runs import NestPlace
from onchip.search.budget.clock import Deadline
from onchip.search.budget.limits import Run

PICOJOULES_OF_A_DRAM_BIT: Final = 1e7
"""Energy far above that of any on-chip path, and far below the largest that an accelerator may state."""
SECONDS_OF_A_MAKESHIFT: Final = 0.0045
"""Processor seconds to build and cost a makeshift mapping and to compose its schedule."""
_NestInRoom: TypeAlias = tuple[Layer, Homes, bool, tuple[tuple[str, int], ...]]

SHARE_OF_A_COMPOSITION: Final = 0.25
"""Share of the remaining time for all unmapped nests of a schedule."""
SHARE_OF_A_NEST: Final = 0.1
"""Maximum share of the remaining time for one nest."""
SHARE_OF_A_FIRST_COMPOSITION: Final = 0.6
"""Share of the remaining time for a schedule of which no nest was mapped before."""
LEAST_SECONDS: Final = 0.1
"""Minimum seconds per nest while there is time: enough for LOMA's mapping, and mostly for the proof."""
SECONDS_OF_A_FIRST_LOOK: Final = 0.015
"""Seconds per nest below which the mapping of the first dive suffices at first."""


@dataclass(slots=True)
class BestMapper:
    """A mapper that searches for the best mapping of each nest, within its share of the time.

    After the time limit a nest gets a greedy mapping, so there is a schedule, mostly within a small factor of a good
    one.
    """

    accelerator: Accelerator
    objective: MappingObjective
    run: Run
    cache: MappingCache | None = None
    shows_others: bool = False
    """True to return mappings of less energy or fewer cycles along with the best."""
    prices: Accelerator | None = None
    """Machine with the energies used in mapping searches, if these are not its own (`dram_first`)."""
    floors: CycleFloors = field(init=False)
    is_quick: bool = field(default=False, init=False)
    """True if known mappings and LOMA suffice for now."""
    _is_sure: bool = field(default=False, init=False)
    _is_hurried: bool = field(default=False, init=False)
    seconds: float = field(default=0.0, init=False)
    """Total seconds of all mapping searches."""
    _took: dict[Layer, float] = field(default_factory=dict, init=False)
    """Longest search so far of each layer, in seconds: a shorter one at other homes would find nothing new."""
    _until: float = field(default=float("inf"), init=False)
    _waiting: int = field(default=1, init=False)
    _makeshifts: Makeshifts = field(init=False)

    def __post_init__(self) -> None:
        self.floors = CycleFloors(self.accelerator)
        self._makeshifts = Makeshifts(self.objective)

    @contextmanager
    def quick(self, *, is_quick: bool = True, is_sure: bool = False, is_hurried: bool = False) -> Iterator[None]:
        """Within the context, known mappings and LOMA suffice; with `is_sure`, nests without one are searched.

        With `is_hurried` the first dive's mapping suffices, even if there is more time.
        """
        before = self.is_quick, self._is_sure, self._is_hurried
        self.is_quick, self._is_sure, self._is_hurried = is_quick, is_sure, is_hurried
        try:
            yield
        finally:
            self.is_quick, self._is_sure, self._is_hurried = before

    def expect(self, asked: Sequence[tuple[NestPlace, Room]]) -> None:
        """Divide the time among the nests of the next calls."""
        self._waiting = max(1, len(asked))
        self._makeshifts.expect([nest for nest, _ in asked])
        of_time = SHARE_OF_A_FIRST_COMPOSITION if self._is_first else SHARE_OF_A_COMPOSITION
        self._until = self.run.seconds + of_time * max(0.0, self.run.seconds_left)

    def _problem(self, nest: NestPlace, room: Room) -> LayerProblem | None:
        """Return the mapping problem; None if a parameter that is the nest's input is where only weights may be."""
        try:
            return LayerProblem(nest.layer, self.accelerator, nest.homes, room, nest.weight_is_an_input)
        except AcceleratorError:
            return None

    def _priced(self, problem: LayerProblem) -> LayerProblem:
        """Return the problem with the energies used in mapping searches."""
        return problem if self.prices is None else replace(problem, accelerator=self.prices)

    def __call__(self, nest: NestPlace, room: Room, similar: Sequence[LayerMapping] = ()) -> MappedNest | None:
        """Return the best mapping, or None if nothing fits or nothing was found in time."""
        begun, problem = self.run.seconds, self._problem(nest, room)
        if problem is None:
            return None
        share = min((self._until - begun) / self._waiting, SHARE_OF_A_NEST * self.run.seconds_left)
        self._waiting = max(1, self._waiting - 1)
        if self._is_first:
            self._makeshifts.look(nest, self.run.deadline)
        found: MappedNest | Status = Status.UNKNOWN
        seconds = max(share, LEAST_SECONDS)
        is_quick = self.is_quick or seconds < self.seconds_of(nest.layer)
        if not self._is_over:
            found = (
                self._quickly(problem, 0.0 if self._is_hurried else share)
                if is_quick
                else self._searched(problem, seconds)
            )
        best = self._best(problem, found, similar, is_quick=is_quick)
        may_lack = self.is_quick and not self._is_sure
        if best is None and is_quick and not may_lack and not self._is_over:
            best = self._to_search_later(nest, problem, room)
        if best is None and is_quick and not may_lack and not self._is_over:
            found = self._searched(problem, seconds)
            best = self._best(problem, found, similar, is_quick=False)
        if best is None and found is not Status.INFEASIBLE and not (may_lack and not self._is_over):
            best = self._makeshifts.of(nest, problem, room)
        elif self.shows_others and best is not None and not best.others and not self._is_over:
            best = replace(best, others=self._front(problem))
        self.seconds += self.run.seconds - begun
        return best

    @property
    def _is_first(self) -> bool:
        """Return True for the first composition of a schedule with other groups."""
        return self.is_quick and self._is_sure

    @property
    def _is_over(self) -> bool:
        """Return True if searches have ended: the time is over, or the rest is reserved for makeshifts."""
        return self.run.stop is not None or (self._is_first and self._makeshifts.is_late)

    def seconds_of(self, layer: Layer) -> float:
        """Return the seconds of the longest mapping search of this layer at any homes; 0 before the first."""
        return self._took.get(layer, 0.0)

    def longer(self, nest: NestPlace, room: Room, seconds: float) -> MappedNest | None:
        """Return the mapping found within `seconds`, at most the remaining time; None if there is none."""
        begun = self.run.seconds
        problem = LayerProblem(nest.layer, self.accelerator, nest.homes, room, nest.weight_is_an_input)
        found = self._searched(problem, seconds)
        self.seconds += self.run.seconds - begun
        return found if isinstance(found, MappedNest) else None

    def wider(self, nest: NestPlace, room: Room, seconds: float) -> MappedNest | None:
        """Return the best mapping found among all without bypass, uneven ones included; None if there is none."""
        begun, objective, method = self.run.seconds, self.objective, METHODS["exact"]
        problem = LayerProblem(nest.layer, self.accelerator, nest.homes, room, nest.weight_is_an_input)
        asked, run = self._priced(problem), self._run(seconds)
        try:
            found = (
                method(asked, objective, run) if self.cache is None else self.cache.solve(method, asked, objective, run)
            )
        except InputError:
            return None
        finally:
            self.seconds += self.run.seconds - begun
        mapped = _mapped(problem, found)
        return replace(mapped, is_proven=True, is_wide=True) if isinstance(mapped, MappedNest) else None

    def priced(self, nest: NestPlace, room: Room, mapping: LayerMapping) -> MappedNest | None:
        """Return a mapping of an earlier schedule with its cost here; None if it is illegal here."""
        problem = self._problem(nest, room)
        if problem is None or misfit(problem, mapping) is not None:
            return None
        return MappedNest(mapping, nest_cost(problem, mapping), is_quick=True)

    def otherwise(self, nest: NestPlace, room: Room, seconds: float) -> Iterator[MappedNest]:
        """Yield LOMA's front, and the best mappings by other objectives, each within its part of `seconds`.

        Searches with too little time are skipped.
        """
        begun = self.run.seconds
        problem = LayerProblem(nest.layer, self.accelerator, nest.homes, room, nest.weight_is_an_input)
        yield from self._front(problem)
        each = seconds / len(self.others)
        for objective in self.others if each >= SECONDS_OF_A_FIRST_LOOK else ():
            found = self._searched(problem, each, objective)
            if isinstance(found, MappedNest):
                yield found
        self.seconds += self.run.seconds - begun

    @property
    def others(self) -> Sequence[MappingObjective]:
        """Return all objectives except its own."""
        return [one for one in MappingObjective if one is not self.objective]

    def value_of(self, mapped: MappedNest) -> tuple[float, float]:
        """Return the minimised value of a mapping, and a tie-breaker."""
        cost = mapped.cost
        if self.prices is not None:
            return cost.dram_read_bits + cost.dram_written_bits, cost.energy_pj
        return self.objective.of(cost.energy_pj, cost.cycles), cost.energy_pj

    def _quickly(self, problem: LayerProblem, seconds: float) -> MappedNest | Status:
        """Return the cached result of an earlier run, or a short search's; shorter if `seconds` are few."""
        run = self._run(SECONDS_OF_LOMA)
        asked = self._priced(problem)
        kept = known_mapping_at(asked, self.objective, run, self.cache) if self.cache is not None else None
        try:
            if kept is None and seconds < SECONDS_OF_A_FIRST_LOOK:
                return _mapped(problem, hurried_mapping_at(asked, self.objective, run))
            found = kept or first_mapping_at(asked, self.objective, run)
        except InputError:
            return Status.UNKNOWN
        self._took[problem.layer] = max(run.seconds, self.seconds_of(problem.layer))
        return _mapped(problem, found)

    def _front(self, problem: LayerProblem) -> tuple[MappedNest, ...]:
        """Return the Pareto front in energy and cycles of LOMA's mappings."""
        try:
            found = mappings_of_front_at(problem, self._run(SECONDS_OF_LOMA))
        except InputError:
            return ()
        return tuple(MappedNest(one, nest_cost(problem, one), is_quick=True) for one in found)

    def _searched(
        self, problem: LayerProblem, seconds: float, objective: MappingObjective | None = None
    ) -> MappedNest | Status:
        """Return the mapping found within `seconds`, if time is limited; else INFEASIBLE or UNKNOWN.

        The default objective is the mapper's own.
        """
        asked, begun = (self._priced(problem), objective or self.objective), self.run.seconds
        try:
            found = best_mapping_at(*asked, self._run(seconds), self.cache)
        except InputError:
            return Status.UNKNOWN
        self._took[problem.layer] = max(self.run.seconds - begun, self.seconds_of(problem.layer))
        return _mapped(problem, found)

    def _run(self, seconds: float) -> Run:
        """Return a separate run, of `seconds` if time is limited."""
        return self.run.apart(max(0.0, seconds))

    def _best(
        self, problem: LayerProblem, found: MappedNest | Status, similar: Sequence[LayerMapping], *, is_quick: bool
    ) -> MappedNest | None:
        """Return a proven mapping, else the best of it and mappings adapted from the same layer at other homes."""
        if isinstance(found, MappedNest) and found.is_proven:
            return found
        best = found if isinstance(found, MappedNest) else None
        other = self._adapted(problem, similar)
        if other is not None and (best is None or self.value_of(other) < self.value_of(best)):
            best = replace(other, others=() if best is None else best.others)
        return None if best is None else replace(best, is_quick=is_quick)

    def _adapted(self, problem: LayerProblem, similar: Sequence[LayerMapping]) -> MappedNest | None:
        try:
            mapping = best_adapted(self._priced(problem), similar, self.objective)
        except InputError:
            return None
        return None if mapping is None else MappedNest(mapping, nest_cost(problem, mapping))

    def _to_search_later(self, nest: NestPlace, problem: LayerProblem, room: Room) -> MappedNest | None:
        """Return a makeshift mapping, stored as a quick one: the next longer search includes its nest.

        A search for a nest that no quick method maps may take as long as all others together.
        """
        found = self._makeshifts.of(nest, problem, room)
        return None if found is None else replace(found, is_makeshift=False, is_quick=True)


def dram_first(accelerator: Accelerator) -> Accelerator:
    """Return the machine with DRAM bits so expensive that a mapping of least energy has least DRAM traffic.

    Among mappings with equal traffic it has least on-chip energy. Traffic counts bits, independent of the access width.
    """
    dram = accelerator.dram
    if dram is None or dram.access is None:
        return accelerator
    by_bits = Access(1, PICOJOULES_OF_A_DRAM_BIT, PICOJOULES_OF_A_DRAM_BIT)
    return replace(accelerator, dram=replace(dram, access=by_bits))


def _mapped(problem: LayerProblem, found: SearchResult[LayerMapping]) -> MappedNest | Status:
    """Return the mapping with its cost; without a mapping, the status."""
    if found.answer is None:
        return found.status
    return MappedNest(found.answer, nest_cost(problem, found.answer), is_proven=found.status is Status.OPTIMAL)


def best_adapted(
    problem: LayerProblem, similar: Iterable[LayerMapping], objective: MappingObjective
) -> LayerMapping | None:
    """Return the best mapping that is legal after adaptation, the first of equals; None if none is.

    Raises AcceleratorError if the accelerator's description is incomplete, InputError for loops of more than 65,535.
    """
    executed: defaultdict[Layer, list[LayerMapping]] = defaultdict(list)
    for mapping in dict.fromkeys(adapted(other, problem) for other in similar):
        if misfit(problem, mapping) is None:
            executed[mapping.layer(problem.layer)].append(mapping)
    valued = [
        (objective.of(float(energy_pj), float(cycles)), mapping)
        for layer, mappings in executed.items()
        for costs in (LayerCosts(problem, layer).of(mappings),)
        for mapping, energy_pj, cycles in zip(mappings, costs.energy_pj, costs.cycles, strict=True)
        if isfinite(energy_pj)
    ]
    return min(valued, key=lambda one: one[0], default=(0.0, None))[1]


def adapted(mapping: LayerMapping, problem: LayerProblem) -> LayerMapping:
    """Return the same loops with every memory of the problem in use; a new one keeps the tile of the memory below.

    The tiles may exceed the capacity: `misfit` decides on legality.
    """
    return replace(
        mapping,
        input=_kept(mapping, problem, Operand.INPUT),
        weight=_kept(mapping, problem, Operand.WEIGHT),
        output=_kept(mapping, problem, Operand.OUTPUT),
    )


def _kept(mapping: LayerMapping, problem: LayerProblem, operand: Operand) -> tuple[Kept, ...]:
    if operand not in problem.layer.operands:
        return ()
    loops_of = {one.memory: one.loops for one in mapping.kept(operand)}
    kept: list[Kept] = []
    for level in problem.keepers(operand):
        below = kept[-1].loops if kept else 0
        kept.append(Kept(level.memory.name, loops_of.get(level.memory.name, below)))
    return tuple(kept)


@dataclass(slots=True)
class Makeshifts:
    """Fallback mappings without a search: greedy, or serial if that fails.

    Each is built once for all equal nests, since there is no time to rebuild it. `is_late` is True if a first
    composition needs all remaining time for makeshifts of its unmapped nests.
    """

    objective: MappingObjective
    is_late: bool = field(default=False, init=False)
    _made: dict[_NestInRoom, MappedNest | None] = field(default_factory=dict, init=False)
    _waiting: set[NestKey] = field(default_factory=set, init=False)

    def of(self, nest: NestPlace, problem: LayerProblem, room: Room) -> MappedNest | None:
        """Return the makeshift of the nest or of an equal one; None if it does not fit."""
        key = nest.layer, nest.homes, nest.weight_is_an_input, tuple(problem.room_bytes.items())
        if key not in self._made:
            self._made[key] = _made_at_once(problem, self.objective)
        found = self._made[key]
        return found if found is not None and found.fits(room) else None

    def expect(self, asked: Sequence[NestPlace]) -> None:
        """Begin a composition in which these nests have no mapping yet."""
        self._waiting, self.is_late = {key_of(nest) for nest in asked}, False

    def look(self, nest: NestPlace, deadline: Deadline) -> None:
        """Check that there is time to search for the next nest; once there is none, no other nest is searched."""
        if not self.is_late and deadline.is_too_short_for(SECONDS_OF_A_MAKESHIFT * len(self._waiting)):
            self.is_late = True
        self._waiting.discard(key_of(nest))


def _made_at_once(problem: LayerProblem, objective: MappingObjective) -> MappedNest | None:
    try:
        mapping = greedy_mapping(problem, objective) or one_by_one(problem)
    except InputError:
        mapping = one_by_one(problem)
    try:
        return MappedNest(mapping, nest_cost(problem, mapping), is_makeshift=True)
    except InputError:
        return None
