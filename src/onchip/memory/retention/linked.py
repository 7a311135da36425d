"""Order, residencies, copies and addresses in CP-SAT models, for scratchpads joined by links (docs/scratchpads.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

from onchip.answer.problem import Placement
from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction, Plan
from onchip.answer.result import SearchResult, Status
from onchip.arch.memory import DRAM
from onchip.memory.decisions import PlanIncumbent
from onchip.memory.retention.addressed import PARAMS, StepModel, StepPlace
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.search.strategy.interruptible import cp_sat_is_within_reach

if TYPE_CHECKING:
    from ortools.sat.python import cp_model


IN_DRAM = -1


@dataclass(frozen=True, slots=True)
class PossibleCopy:
    """A copy of a tensor before a step, from one memory (by number, DRAM is -1) to another.

    Its source is resident during the step before or, if the copy `is_passed_on`, arrives before this step.
    """

    tensor: int
    step: int
    source: int
    target: int
    is_passed_on: bool = False

    @property
    def arrival(self) -> StepPlace:
        """Return the place that the copy fills."""
        return StepPlace(self.tensor, self.target, self.step)

    @property
    def origin(self) -> StepPlace:
        """Return the place that the copy reads: an arrival before the same step, or a resident of the step before."""
        return StepPlace(self.tensor, self.source, self.step if self.is_passed_on else self.step - 1)


class Copies(Enum):
    """Precision of the copies between two steps.

    RELAXED copies only need to fit with the tensors that stay, so the model bounds every plan. TIMED copies have an
    instant and capacity, so the model gives plans: all but those in which a tensor arrives in a scratchpad twice
    between the same two steps. REPEATED bounds these: RELAXED, and some arrival is passed on and paid once more.
    """

    RELAXED = auto()
    TIMED = auto()
    REPEATED = auto()


class LinkedModel(StepModel[Plan]):
    """The minimum non-compulsory cost between two bounds.

    Boundary number `step` lies before that step; the last one lies behind the last step. A place that `arrives` in a
    boundary is a residency that begins there with a copy; it `remains` if it is resident in the step. A place that
    `stays` is the same residency as in the step before. `time` orders the copies within a boundary. Only the timed
    model has plans; the answer of the others is an empty one.
    """

    method = "linked"

    def __init__(self, indexed: IndexedProblem, lower_bound: int, upper_bound: int | None, copies: Copies) -> None:
        super().__init__(indexed)
        self._horizon = 2 + len(self._tensors) * (len(indexed.views) + 1)
        self._is_timed = copies is Copies.TIMED
        self._repeated: dict[StepPlace, cp_model.IntVar] = {}
        self._make_arrivals()
        self._make_copies()
        self._what_is_there_stays_arrived_or_is_computed()
        self._a_copy_reads_what_is_there()
        self._dram_has_what_is_stored()
        self._residents_have_room(self._at)
        if self._is_timed:
            self._make_ends()
            self._a_source_is_there_until_it_is_copied()
            self._residencies_between_steps_do_not_overlap()
        else:
            self._what_arrives_has_room_beside_what_stays()
        if copies is Copies.REPEATED:
            self._a_tensor_is_passed_on_and_arrives_again()
        if indexed.problem.placement is Placement.STATIC:
            clauses = ((place.tensor, (stays.negated(),)) for place, stays in self._stays.items())
            self._a_tensor_has_one_residency_or_each_of_one_step(self._arrives | self._computed, clauses)
        self._minimise(self._non_compulsory_cost(), lower_bound, upper_bound)

    # Variables

    def _make_arrivals(self) -> None:
        model, places = self._model, self._at
        self._stays = {place: model.new_bool_var(f"stays_{place}") for place in places if place.before in places}
        arrivals = [p for p in places if not self._is_computed(p.tensor) or p.before.step in self._life(p.tensor)]
        self._remains = {place: model.new_bool_var(f"remains_{place}") for place in arrivals}
        arrivals += [
            StepPlace(tensor, memory, len(self._steps))
            for tensor in self._tensors
            if self._is_output(tensor)
            for memory in self._memories_of(tensor)
        ]
        self._arrives = {place: model.new_bool_var(f"arrives_{place}") for place in arrivals}
        self._time = {place: model.new_int_var(1, self._horizon, f"time_{place}") for place in arrivals}

    def _make_copies(self) -> None:
        model = self._model
        self._copies = {way: model.new_bool_var(f"copied_{way}") for way in self._ways()}
        self._into: dict[StepPlace, list[PossibleCopy]] = {}
        for way in self._copies:
            self._into.setdefault(way.arrival, []).append(way)
        self._stored = {place: model.new_bool_var("") for place in self._into if place.memory == IN_DRAM}
        self._time |= {place: model.new_int_var(1, self._horizon, "") for place in self._stored}

    def _ways(self) -> Iterator[PossibleCopy]:
        """Yield the copies that may be useful: over a link, from DRAM, and of computed tensors to DRAM."""
        links = self._indexed.links
        for place in self._arrives:
            yield PossibleCopy(place.tensor, place.step, IN_DRAM, place.memory)
            for source in (source for source, target in links if target == place.memory):
                yield from self._from(place.tensor, place.step, source, place.memory)
        for tensor in filter(self._is_computed, self._tensors):
            for step in range(self._life(tensor).start + 1, self._life(tensor).stop + 1):
                for memory in self._memories_of(tensor):
                    yield from self._from(tensor, step, memory, IN_DRAM)

    def _from(self, tensor: int, step: int, source: int, target: int) -> Iterator[PossibleCopy]:
        ways = (
            PossibleCopy(tensor, step, source, target),
            PossibleCopy(tensor, step, source, target, is_passed_on=True),
        )
        yield from (way for way in ways if way.origin in (self._arrives if way.is_passed_on else self._at))

    def _life(self, tensor: int) -> range:
        """Return the steps from where it may exist, of an output to the end."""
        producer, users = self._indexed.producer[tensor], self._windows.lifetimes[tensor]
        start = self._windows.steps[producer].start if producer >= 0 else 0
        return range(start, len(self._steps) if self._is_output(tensor) else users.stop)

    def _memories_of(self, tensor: int) -> list[int]:
        """Return the scratchpads into which it fits: it may wait where the array does not read it."""
        size = self._indexed.sizes_bytes[tensor]
        return [m for m, view in enumerate(self._indexed.views) if size <= view.memory.capacity_bytes]

    def _make_ends(self) -> None:
        """Create the end of each place in the boundary after its step, and of each arrival in its own boundary."""
        model, latest = self._model, self._horizon + 1
        self._end_old = {place: model.new_int_var(1, latest, f"end_{place}") for place in self._at}
        self._end_new = {place: model.new_int_var(2, latest, f"end_new_{place}") for place in self._arrives}

    def _end(self, way: PossibleCopy) -> cp_model.IntVar:
        return (self._end_new if way.is_passed_on else self._end_old)[way.origin]

    # Constraints

    def _what_is_there_stays_arrived_or_is_computed(self) -> None:
        model = self._model
        for place, at in self._at.items():
            model.add(sum(ways[place] for ways in (self._stays, self._remains, self._computed) if place in ways) == at)
        for place, stays in self._stays.items():
            model.add_implication(stays, self._at[place.before])
            model.add(self._offset[place] == self._offset[place.before]).only_enforce_if(stays)
            if place in self._arrives:
                model.add_bool_or(stays.negated(), self._arrives[place].negated())
        for place, remains in self._remains.items():
            model.add_implication(remains, self._arrives[place])

    def _a_copy_reads_what_is_there(self) -> None:
        """An arrival is copied once, from a resident of the step before or from an earlier arrival."""
        for place, arrives in (self._arrives | self._stored).items():
            self._model.add(sum(self._copies[way] for way in self._into.get(place, ())) == arrives)
        for way, copied in self._copies.items():
            if way.source != IN_DRAM:
                self._model.add_implication(copied, (self._arrives if way.is_passed_on else self._at)[way.origin])
            if way.is_passed_on:
                self._model.add(self._time[way.arrival] > self._time[way.origin]).only_enforce_if(copied)

    def _dram_has_what_is_stored(self) -> None:
        """A computed tensor is stored at most once, an output exactly once, and loaded only afterwards."""
        stored: dict[int, dict[int, cp_model.IntVar]] = {t: {} for t in self._tensors if self._is_computed(t)}
        for place, literal in self._stored.items():
            stored[place.tensor][place.step] = literal
        for tensor, literals in stored.items():
            once = self._model.add_exactly_one if self._is_output(tensor) else self._model.add_at_most_one
            once(literals.values())
        for way, loaded in self._copies.items():
            if way.source == IN_DRAM and way.tensor in stored:
                literals = stored[way.tensor]
                earlier = [literal for step, literal in literals.items() if step <= way.step]
                self._model.add_bool_or(*earlier, loaded.negated())
                if way.step in literals:
                    later = self._time[way.arrival] > self._time[StepPlace(way.tensor, IN_DRAM, way.step)]
                    self._model.add(later).only_enforce_if(loaded, literals[way.step])

    def _what_arrives_has_room_beside_what_stays(self) -> None:
        staying: dict[tuple[int, int], list[cp_model.LinearExprT]] = {}
        for place, stays in self._stays.items():
            staying.setdefault((place.memory, place.step), []).append(self._units(place) * stays)
        sums = {key: self._model.new_int_var(0, self._most_units(key[0]), "") for key in staying}
        for key, total in sums.items():
            self._model.add(sum(staying[key]) == total)
        for place, arrives in self._arrives.items():
            most = self._most_units(place.memory)
            self._model.add(self._units(place) * arrives + sums.get((place.memory, place.step), 0) <= most)

    def _most_units(self, memory: int) -> int:
        """Return the units of a scratchpad, the last, partial one included where a tensor may end within it."""
        room = self._indexed.views[memory].room
        return room.capacity_units + bool(room.may_end_short)

    def _a_tensor_is_passed_on_and_arrives_again(self) -> None:
        passed_on: dict[StepPlace, list[cp_model.IntVar]] = {}
        for way, copied in self._copies.items():
            if way.is_passed_on:
                passed_on.setdefault(way.origin, []).append(copied)
        for place, copies in passed_on.items():
            self._repeated[place] = self._model.new_bool_var(f"repeated_{place}")
            self._model.add_bool_or(*copies, self._repeated[place].negated())
        self._model.add_at_least_one(self._repeated.values())

    def _a_source_is_there_until_it_is_copied(self) -> None:
        model, latest = self._model, self._horizon + 1
        for way, copied in self._copies.items():
            if way.source != IN_DRAM:
                model.add(self._end(way) > self._time[way.arrival]).only_enforce_if(copied)
        for place, stays in self._stays.items():
            model.add(self._end_old[place.before] == latest).only_enforce_if(stays)
        for place, remains in self._remains.items():
            model.add(self._end_new[place] == latest).only_enforce_if(remains)
        for place, arrives in self._arrives.items():
            model.add(self._end_new[place] > self._time[place])
            if place.before in self._at:
                is_gone = self._end_old[place.before] <= self._time[place]
                model.add(is_gone).only_enforce_if(arrives, self._at[place.before])

    def _residencies_between_steps_do_not_overlap(self) -> None:
        """Residencies are rectangles of time and addresses; an arrival takes its place when it is copied."""
        rectangles: dict[tuple[int, int], list[tuple[cp_model.IntervalVar, cp_model.IntervalVar]]] = {}
        for place, at in self._at.items():
            end = self._end_old[place]
            times = self._model.new_optional_interval_var(0, end, end, at, "")
            rectangles.setdefault((place.memory, place.step + 1), []).append((times, self._range(place, at)))
        self._passing = {}
        for place, arrives in self._arrives.items():
            start, end = self._time[place], self._end_new[place]
            size = self._model.new_int_var(1, self._horizon, "")
            times = self._model.new_optional_interval_var(start, size, end, arrives, "")
            self._passing[place] = self._model.new_int_var(0, self._last_offset(place), f"passing_{place}")
            if place in self._remains:
                is_same = self._passing[place] == self._offset[place]
                self._model.add(is_same).only_enforce_if(self._remains[place])
            bytes_held = self._model.new_optional_fixed_size_interval_var(
                self._passing[place], self._units(place), arrives, ""
            )
            rectangles.setdefault((place.memory, place.step), []).append((times, bytes_held))
        for boxes in rectangles.values():
            self._model.add_no_overlap_2d([times for times, _ in boxes], [held for _, held in boxes])

    # Objective

    def _non_compulsory_cost(self) -> cp_model.LinearExprT:
        indexed = self._indexed
        copies = (indexed.copy_cost(one.tensor, one.source, one.target) * way for one, way in self._copies.items())
        again = (
            min(indexed.copy_cost(one.tensor, one.source, one.target) for one in self._into[place]) * repeated
            for place, repeated in self._repeated.items()
        )
        return sum(copies) + sum(again) - self._compulsory_cost()

    # Extract

    def _extract(self, solver: cp_model.CpSolver) -> Plan:
        program = LinkedProgram(self._indexed)
        if not self._is_timed:
            return program.plan()
        for step in range(len(self._steps) + 1):
            held = [p for p in self._at if p.step == step - 1 and solver.boolean_value(self._at[p])]
            kept = {p.before for p in self._stays if p.step == step and solver.boolean_value(self._stays[p])}
            ends = {p: solver.value(self._end_old[p]) for p in held if p not in kept}
            arrivals = [p for p in self._arrives if p.step == step and solver.boolean_value(self._arrives[p])]
            new = [self._residence(solver, p) for p in arrivals]
            copies = [w for w, copied in self._copies.items() if w.step == step and solver.boolean_value(copied)]
            transfers = [TimedCopy(w, solver.value(self._time[w.arrival])) for w in copies]
            program.copy(ends, new, transfers)
            for operator in (o for o, runs in enumerate(self._runs) if step in runs):
                if solver.boolean_value(self._runs[operator][step]):
                    written = [p for p, c in self._computed.items() if p.step == step and solver.boolean_value(c)]
                    program.run(operator, {p: self._bytes(p, solver.value(self._offset[p])) for p in written})
        return program.plan()

    def _residence(self, solver: cp_model.CpSolver, place: StepPlace) -> Residence:
        offset_bytes = self._bytes(place, solver.value(self._passing[place]))
        remains = place in self._remains and solver.boolean_value(self._remains[place])
        return Residence(place, offset_bytes, None if remains else solver.value(self._end_new[place]))


@dataclass(frozen=True, slots=True)
class Residence:
    """A place at an offset in bytes; `end`: until when, in the boundary before its step, or None if in the step too."""

    place: StepPlace
    offset_bytes: int
    end: int | None


@dataclass(frozen=True, slots=True)
class TimedCopy:
    """A copy and when, within its boundary, it happens."""

    way: PossibleCopy
    time: int


class LinkedProgram:
    """The instructions so far of a plan whose scratchpads may be linked."""

    def __init__(self, indexed: IndexedProblem) -> None:
        self._indexed = indexed
        self._memories = [memory.name for memory in indexed.problem.memories]
        self._names = [tensor.name for tensor in indexed.tensors]
        self._instructions: list[Instruction] = []

    def copy(
        self, ends: Mapping[StepPlace, int], arriving: Sequence[Residence], transfers: Sequence[TimedCopy]
    ) -> None:
        """Write one boundary; `ends` maps each place of the step before that leaves to the end of its hold."""
        arrivals = {one.place: one for one in arriving}
        held = [(end, place) for place, end in ends.items()]
        held += [(one.end, place) for place, one in arrivals.items() if one.end is not None]
        for transfer in sorted(transfers, key=lambda one: one.time):
            for end, place in sorted(held, key=lambda pair: pair[0]):
                if end <= transfer.time:
                    held.remove((end, place))
                    self._free(place)
            way = transfer.way
            if way.arrival in arrivals:
                self._allocate(way.arrival, arrivals[way.arrival].offset_bytes)
            self._instructions.append(Copy(self._names[way.tensor], self._name(way.source), self._name(way.target)))
        for _, place in held:
            self._free(place)

    def run(self, operator: int, offsets_bytes: Mapping[StepPlace, int]) -> None:
        """Write one step: the outputs have these places."""
        for place, offset_bytes in offsets_bytes.items():
            self._allocate(place, offset_bytes)
        self._instructions.append(Compute(self._indexed.problem.graph.operators[operator].name))

    def plan(self) -> Plan:
        """Return the plan; what nothing reads any more is freed at once."""
        return Plan(self._indexed.problem.memories, tuple(_freed_early(self._indexed, self._instructions)))

    def _allocate(self, place: StepPlace, offset_bytes: int) -> None:
        self._instructions.append(Allocate(self._names[place.tensor], self._memories[place.memory], offset_bytes))

    def _free(self, place: StepPlace) -> None:
        self._instructions.append(Free(self._names[place.tensor], self._memories[place.memory]))

    def _name(self, memory: int) -> str:
        return DRAM if memory < 0 else self._memories[memory]


def _freed_early(indexed: IndexedProblem, instructions: Sequence[Instruction]) -> list[Instruction]:
    """Return the same with each Free right behind the last instruction that uses its residency."""
    operands = {
        operator.name: {tensor.name for tensor in indexed.problem.operands(operator)}
        for operator in indexed.problem.graph.operators
    }
    last_use: dict[tuple[str, str], int] = {}
    frees: dict[int, list[Free]] = {}
    for index, instruction in enumerate(instructions):
        match instruction:
            case Allocate(tensor, memory, _):
                last_use[tensor, memory] = index
            case Copy(tensor, source, target):
                last_use |= {(tensor, end): index for end in (source, target) if (tensor, end) in last_use}
            case Compute(operator):
                last_use |= {key: index for key in last_use if key[0] in operands[operator]}
            case Free(tensor, memory):
                frees.setdefault(last_use.pop((tensor, memory)), []).append(instruction)
    for (tensor, memory), index in last_use.items():
        frees.setdefault(index, []).append(Free(tensor, memory))
    early: list[Instruction] = []
    for index, instruction in enumerate(instructions):
        if not isinstance(instruction, Free):
            early += (instruction, *frees.get(index, ()))
    return early


def prove_with_links(incumbent: PlanIncumbent) -> None:
    """Raise the bound by the relaxed model, then look for a better plan with the timed one.

    If that finds none at the bound, a separate model bounds the plans in which a tensor arrives again.
    """
    indexed = incumbent.indexed
    size = indexed.operator_count * len(indexed.tensors) * len(indexed.views) ** 2
    if size > PARAMS.linked or not cp_sat_is_within_reach(incumbent.run):
        return
    relaxed = _solve(incumbent, Copies.RELAXED)
    incumbent.raise_bound(relaxed.lower_bound)
    if incumbent.is_proven or relaxed.status is not Status.OPTIMAL or incumbent.run.stop is not None:
        return
    bound = _bound(incumbent, _solve(incumbent, Copies.TIMED))
    if not incumbent.is_proven and incumbent.run.stop is None:
        incumbent.raise_bound(min(bound, _bound(incumbent, _solve(incumbent, Copies.REPEATED))))


def _solve(incumbent: PlanIncumbent, copies: Copies) -> SearchResult[Plan]:
    """Solve for a plan better than the best so far, and keep it."""
    better = None if incumbent.value is None else incumbent.value - (copies is not Copies.RELAXED)
    result = LinkedModel(incumbent.indexed, incumbent.lower_bound, better, copies).solve(incumbent.run)
    incumbent.stopped_by = result.stopped_by
    if copies is Copies.TIMED and result.answer is not None and result.objective_value is not None:
        incumbent.keep(result.answer, result.objective_value, "with links and addresses")
    return result


def _bound(incumbent: PlanIncumbent, result: SearchResult[Plan]) -> int:
    """Return a lower bound from a model: the best value so far if the model has no better plan."""
    if result.status is Status.INFEASIBLE and incumbent.value is not None:
        return incumbent.value
    return result.lower_bound
