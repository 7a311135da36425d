"""The best mapping of a nest at its homes in the room that is left: proven, or the best that is found in time."""

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
from onchip.answer.result import Result, Status
from onchip.answer.schedule import Homes
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import Access, Operand
from onchip.errors import AcceleratorError, InputError
from onchip.ir.layer import Layer
from onchip.mapping.local_search.greedy import greedy_mapping
from onchip.mapping.local_search.one_by_one import one_by_one
from onchip.mapping.methods.cache import MappingCache
from onchip.mapping.methods.layer_at import (
    SECONDS_OF_LOMA,
    best_mapping_at,
    first_mapping_at,
    hurried_mapping_at,
    known_mapping_at,
    mappings_of_front_at,
)
from onchip.mapping.methods.registry import METHODS
from onchip.model.layer.batch import LayerCosts
from onchip.model.program.nest_cost import nest_cost
from onchip.scheduling.mappings.cycle_floors import CycleFloors
from onchip.scheduling.mappings.mapped import NestKey, key_of
from onchip.scheduling.mappings.mapped_nest import MappedNest, Room
from onchip.scheduling.program.runs import NestPlace
from onchip.search.budget.clock import Deadline
from onchip.search.budget.limits import Limits, Run
from onchip.search.strategy.pool import Pending, TaskPool
from onchip.verify.mapping import verify_mapping

SECONDS_BETWEEN_LOOKS: Final = 0.05
NestQuestion: TypeAlias = tuple[LayerProblem, MappingObjective]

PICOJOULES_OF_A_DRAM_BIT: Final = 1e7
"""Far above that of any path on chip, and far below the largest energy that an accelerator may state."""
SECONDS_OF_A_MAKESHIFT: Final = 0.0045
"""Of a processor, to make it, to price it and to compose what runs so."""
_NestInRoom: TypeAlias = tuple[Layer, Homes, bool, tuple[tuple[str, int], ...]]

SHARE_OF_A_COMPOSITION: Final = 0.25
"""Of the time that is left, for all nests of a schedule that are not mapped yet."""
SHARE_OF_A_NEST: Final = 0.1
"""Of the time that is left, at most for one nest."""
SHARE_OF_A_FIRST_COMPOSITION: Final = 0.6
"""The same where none of them was mapped before."""
LEAST_SECONDS: Final = 0.1
"""Of a nest, while there is any time: LOMA's mapping is found in it, and mostly the proof."""
SECONDS_OF_AN_ADAPTED: Final = 7e-4
"""To check and to price a mapping of another place, where work is counted."""
SECONDS_OF_A_FIRST_LOOK: Final = 0.015
"""Of a nest: where less is left for each, what the first dive finds will do at first."""


@dataclass(slots=True)
class BestMapper:
    """Asks for the best mapping of each nest, within its share of the time.

    Once the time is over a nest has a greedy mapping: it is a schedule, mostly within a few times of a good one.
    Workers that map `ahead` find together what is asked for next; the answers are the same.
    """

    accelerator: Accelerator
    objective: MappingObjective
    run: Run
    cache: MappingCache | None = None
    shows_others: bool = False
    """Whether beside the best mapping of a nest those are handed out that are less in energy or in cycles."""
    ahead: MappedAhead | None = None
    prices: Accelerator | None = None
    """The machine with the energies by which mappings are searched, if these are not its own (`dram_first`)."""
    floors: CycleFloors = field(init=False)
    is_quick: bool = field(default=False, init=False)
    """Whether what is known, and LOMA, will do for now."""
    _is_sure: bool = field(default=False, init=False)
    _is_hurried: bool = field(default=False, init=False)
    seconds: float = field(default=0.0, init=False)
    """How long all mappings have taken."""
    _took: dict[Layer, float] = field(default_factory=dict, init=False)
    """Of a layer the longest search so far, in seconds: a shorter one at other homes would be in vain."""
    _until: float = field(default=float("inf"), init=False)
    _waiting: int = field(default=1, init=False)
    _makeshifts: Makeshifts = field(init=False)

    def __post_init__(self) -> None:
        self.floors = CycleFloors(self.accelerator)
        self._makeshifts = Makeshifts(self.objective)

    @contextmanager
    def quick(self, *, is_quick: bool = True, is_sure: bool = False, is_hurried: bool = False) -> Iterator[None]:
        """Within it what is known, and LOMA, will do; with `is_sure` what neither maps is searched for.

        With `is_hurried` what the first dive finds will do, however much time there is.
        """
        before = self.is_quick, self._is_sure, self._is_hurried
        self.is_quick, self._is_sure, self._is_hurried = is_quick, is_sure, is_hurried
        try:
            yield
        finally:
            self.is_quick, self._is_sure, self._is_hurried = before

    def expect(self, asked: Sequence[tuple[NestPlace, Room]]) -> None:
        """Share the time among the nests that are asked for next; workers look for all of them now."""
        self._waiting = max(1, len(asked))
        self._makeshifts.expect([nest for nest, _ in asked])
        of_time = SHARE_OF_A_FIRST_COMPOSITION if self._is_first else SHARE_OF_A_COMPOSITION
        share = of_time * max(0.0, self.run.seconds_left)
        self._until = self.run.seconds + share
        if not self.is_quick:
            self.look_ahead(asked, [self.objective], max(share / self._waiting, LEAST_SECONDS))

    def look_ahead(
        self, asked: Sequence[tuple[NestPlace, Room]], objectives: Sequence[MappingObjective], seconds: float
    ) -> None:
        """Let workers, if there are any, search nests for each objective, each in so many seconds of limited time."""
        if self.ahead is not None:
            begun, problems = self.run.seconds, [self._problem(nest, room) for nest, room in asked]
            questions = [
                (self._priced(one), objective) for one in problems if one is not None for objective in objectives
            ]
            self.ahead.ask(questions, self.run, seconds)
            self.seconds += self.run.seconds - begun

    def _problem(self, nest: NestPlace, room: Room) -> LayerProblem | None:
        """None where a parameter that is the nest's input lies where only weights may."""
        try:
            return LayerProblem(nest.layer, self.accelerator, nest.homes, room, nest.weight_is_an_input)
        except AcceleratorError:
            return None

    def _priced(self, problem: LayerProblem) -> LayerProblem:
        """Return the problem by whose energies mappings are searched."""
        return problem if self.prices is None else replace(problem, accelerator=self.prices)

    def __call__(self, nest: NestPlace, room: Room, similar: Sequence[LayerMapping] = ()) -> MappedNest | None:
        """None where nothing fits, or nothing was found in time."""
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
        elif self._may_hurry:
            found = self._quickly(problem, 0.0)
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
        """Whether a schedule in other stacks is composed for the first time."""
        return self.is_quick and self._is_sure

    @property
    def _is_over(self) -> bool:
        """Whether no more is searched for: the time is over, or what is left of it is for makeshifts."""
        return self.run.stop is not None or (self._is_first and self._makeshifts.is_late)

    @property
    def _may_hurry(self) -> bool:
        """Whether all work is done, and there would be time for a first dive."""
        is_sure = self._is_sure and not self._makeshifts.is_late
        return is_sure and self.run.deadline.has_time_beyond_work and not self.run.interrupt.is_set()

    def seconds_of(self, layer: Layer) -> float:
        """How long the longest search for a mapping of this layer took, at whatever homes; 0 before the first."""
        return self._took.get(layer, 0.0)

    def longer(self, nest: NestPlace, room: Room, seconds: float) -> MappedNest | None:
        """What is found in so much time, at most all that is left; None where that is nothing."""
        begun = self.run.seconds
        problem = LayerProblem(nest.layer, self.accelerator, nest.homes, room, nest.weight_is_an_input)
        found = self._searched(problem, seconds)
        self.seconds += self.run.seconds - begun
        return found if isinstance(found, MappedNest) else None

    def wider(self, nest: NestPlace, room: Room, seconds: float) -> MappedNest | None:
        """Return what is found among all mappings without bypass, uneven ones included; None if that is nothing."""
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
        """Return a mapping of an earlier schedule with its cost here; None where it is not legal here."""
        problem = self._problem(nest, room)
        if problem is None or verify_mapping(problem, mapping):
            return None
        return MappedNest(mapping, nest_cost(problem, mapping), is_quick=True)

    def otherwise(self, nest: NestPlace, room: Room, seconds: float) -> Iterator[MappedNest]:
        """LOMA's front, and what is best by other objectives, each found in its part of so many seconds.

        What there is too little time for is left out.
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
        """All objectives but its own."""
        return [one for one in MappingObjective if one is not self.objective]

    def value_of(self, mapped: MappedNest) -> tuple[float, float]:
        """Return what the mapper makes least, and what decides between equals."""
        cost = mapped.cost
        if self.prices is not None:
            return cost.dram_read_bits + cost.dram_written_bits, cost.energy_pj
        return self.objective.of(cost.energy_pj, cost.cycles), cost.energy_pj

    def _quickly(self, problem: LayerProblem, seconds: float) -> MappedNest | Status:
        """What is kept of an earlier run, or what a search finds by its first steps, fewer where seconds are few."""
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
        """LOMA's mappings of which none is at most as much as another in energy and in cycles."""
        try:
            found = mappings_of_front_at(problem, self._run(SECONDS_OF_LOMA))
        except InputError:
            return ()
        return tuple(MappedNest(one, nest_cost(problem, one), is_quick=True) for one in found)

    def _searched(
        self, problem: LayerProblem, seconds: float, objective: MappingObjective | None = None
    ) -> MappedNest | Status:
        """What is found in so much time, if there is a limit; else INFEASIBLE, or UNKNOWN, says why there is none.

        By the mapper's own objective, if no other is given.
        """
        asked, begun = (self._priced(problem), objective or self.objective), self.run.seconds
        try:
            found = self.ahead.taken(asked) if self.ahead is not None else None
            found = found or best_mapping_at(*asked, self._run(seconds), self.cache)
        except InputError:
            return Status.UNKNOWN
        self._took[problem.layer] = max(self.run.seconds - begun, self.seconds_of(problem.layer))
        return _mapped(problem, found)

    def _run(self, seconds: float) -> Run:
        """A run of its own, of so many seconds if there is a limit."""
        return self.run.apart(max(0.0, seconds))

    def _best(
        self, problem: LayerProblem, found: MappedNest | Status, similar: Sequence[LayerMapping], *, is_quick: bool
    ) -> MappedNest | None:
        """What was found if that is proven, else it or the best of the same layer at other homes that is legal here."""
        if isinstance(found, MappedNest) and found.is_proven:
            return found
        best = found if isinstance(found, MappedNest) else None
        other = self._adapted(problem, similar)
        if other is not None and (best is None or self.value_of(other) < self.value_of(best)):
            best = replace(other, others=() if best is None else best.others)
        return None if best is None else replace(best, is_quick=is_quick)

    def _adapted(self, problem: LayerProblem, similar: Sequence[LayerMapping]) -> MappedNest | None:
        self.run.spend(SECONDS_OF_AN_ADAPTED * len(set(similar)))
        try:
            mapping = best_adapted(self._priced(problem), similar, self.objective)
        except InputError:
            return None
        return None if mapping is None else MappedNest(mapping, nest_cost(problem, mapping))

    def _to_search_later(self, nest: NestPlace, problem: LayerProblem, room: Room) -> MappedNest | None:
        """A makeshift mapping that is remembered as one that was found at once: the next longer look is for it.

        A search for a nest that no quick one maps may take as long as all others together.
        """
        found = self._makeshifts.of(nest, problem, room)
        return None if found is None else replace(found, is_makeshift=False, is_quick=True)


def dram_first(accelerator: Accelerator) -> Accelerator:
    """Return the machine with DRAM bits so expensive that a mapping of least energy has least DRAM traffic.

    Of mappings with equal traffic it is one of least energy on chip. Traffic counts bits, whatever the width of an
    access.
    """
    dram = accelerator.dram
    if dram is None or dram.access is None:
        return accelerator
    by_bits = Access(1, PICOJOULES_OF_A_DRAM_BIT, PICOJOULES_OF_A_DRAM_BIT)
    return replace(accelerator, dram=replace(dram, access=by_bits))


def _mapped(problem: LayerProblem, found: Result[LayerMapping]) -> MappedNest | Status:
    """With what it costs; without a mapping, why there is none."""
    if found.answer is None:
        return found.status
    return MappedNest(found.answer, nest_cost(problem, found.answer), is_proven=found.status is Status.OPTIMAL)


def best_adapted(
    problem: LayerProblem, similar: Iterable[LayerMapping], objective: MappingObjective
) -> LayerMapping | None:
    """The best of those that are legal once they are adapted, the first of equals; None where none is.

    Raises AcceleratorError where the accelerator says too little, InputError for loops of more than 65,535.
    """
    executed: defaultdict[Layer, list[LayerMapping]] = defaultdict(list)
    for mapping in dict.fromkeys(adapted(other, problem) for other in similar):
        if not verify_mapping(problem, mapping):
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
    """The same loops; every memory of the problem keeps what it holds, a new one the tile of the memory below it.

    The tiles may be larger than the room: whether it is legal is for the verifier.
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
    """The array and the memories filled without a search; one multiply-accumulate after the other where that fails.

    Each is made once for all nests that are alike: without time there is none to make it again. `is_late` says that a
    first composition needs all time that is left for makeshifts of the nests that have no mapping yet.
    """

    objective: MappingObjective
    is_late: bool = field(default=False, init=False)
    _made: dict[_NestInRoom, MappedNest | None] = field(default_factory=dict, init=False)
    _waiting: set[NestKey] = field(default_factory=set, init=False)

    def of(self, nest: NestPlace, problem: LayerProblem, room: Room) -> MappedNest | None:
        """The nest's own, or that of one which is alike; None where it does not fit."""
        key = nest.layer, nest.homes, nest.weight_is_an_input, tuple(problem.room_bytes.items())
        if key not in self._made:
            self._made[key] = _made_at_once(problem, self.objective)
        found = self._made[key]
        return found if found is not None and found.fits(room) else None

    def expect(self, asked: Sequence[NestPlace]) -> None:
        """A composition begins, of which these nests have no mapping yet."""
        self._waiting, self.is_late = {key_of(nest) for nest in asked}, False

    def look(self, nest: NestPlace, deadline: Deadline) -> None:
        """See whether there is time to search for this nest, which is next; once there is none, for no other either.

        What is searched for less than it would be with more time is cut.
        """
        if not self.is_late and deadline.is_too_short_for(SECONDS_OF_A_MAKESHIFT * len(self._waiting)):
            self.is_late = True
            deadline.cut()
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


@dataclass(frozen=True, slots=True)
class NestSearch:
    """What a worker does: it looks for the best mapping of a nest, and keeps what it proves where it is."""

    uses_cache: bool

    def answer(self, question: tuple[NestQuestion, Limits]) -> Result[LayerMapping] | InputError:
        """Return what is found within limits that begin now, or what is wrong with a nest that is refused."""
        (problem, objective), limits = question
        cache = MappingCache.opened() if self.uses_cache else None
        try:
            return best_mapping_at(problem, objective, Run(limits), cache)
        except InputError as error:
            return error


@dataclass(slots=True)
class MappedAhead:
    """Asks a pool for mappings, and hands each out once; of what no worker has answered in time there is none."""

    pool: TaskPool
    search: NestSearch
    _answers: dict[NestQuestion, Result[LayerMapping] | InputError] = field(default_factory=dict, init=False)

    def ask(self, questions: Iterable[NestQuestion], run: Run, seconds: float) -> None:
        """Wait until all are answered, or the run is to stop; what was answered before is forgotten.

        In limited time each may take so many seconds of one worker, more where few are asked, at most what is left.
        A single question is not asked: it is answered as soon here.
        """
        self._answers.clear()
        distinct = list(dict.fromkeys(questions))
        if len(distinct) < 2:
            return
        left = max(0.0, min(seconds * self.pool.room, run.seconds_left)) if run.deadline.is_set else None
        limits = replace(run.limits, time_limit_seconds=left, workers=1)
        pending = {one: self.pool.submit(self.search.answer, (one, limits)) for one in distinct}
        while pending and run.stop is None:
            self._take(pending)

    def taken(self, question: NestQuestion) -> Result[LayerMapping] | None:
        """Return what a worker has found; None where none has answered. Raises InputError for a nest it refuses."""
        found = self._answers.pop(question, None)
        if isinstance(found, InputError):
            raise found
        return found

    def _take(self, pending: dict[NestQuestion, Pending[Result[LayerMapping] | InputError]]) -> None:
        """Take the answers that there are, waiting a moment for one."""
        for question in [question for question, one in pending.items() if one.ready()]:
            self._answers[question] = pending.pop(question).get()
        for one in [*pending.values()][:1]:
            one.wait(SECONDS_BETWEEN_LOOKS)
