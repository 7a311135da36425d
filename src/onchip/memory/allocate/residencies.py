"""Offsets for the residencies of a schedule: as a packing of chains, by CP-SAT with ties, or by a beam over layouts.

The beam is `native/layouts.hpp`. It keeps what the schedule keeps, and evicts more often what finds no offset.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeAlias

from onchip.answer.packing import Buffer, PackingProblem
from onchip.answer.result import SearchResult, Status, Stop
from onchip.memory.decisions import OperatorSchedule, PlannedResidency
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.native import LayoutOperator, LayoutTensor, OrderBeam, StopToken
from onchip.search.budget.limits import Run
from onchip.search.strategy.interruptible import cp_sat_is_within_reach, run_watched, solve_for_result

if TYPE_CHECKING:
    from ortools.sat.python import cp_model


@dataclass(frozen=True, slots=True)
class ChainedSchedule:
    """A schedule as a packing: residency i lies `shifts_bytes[i]` behind the beginning of buffer `buffer_of[i]`.

    A chain takes all bytes from its lowest to its highest for its whole life, also where it does not use them. What
    cannot be tied, since then others of the chain would overlap, has lost that tie in the `schedule`.
    """

    schedule: OperatorSchedule
    problem: PackingProblem
    buffer_of: tuple[int, ...]
    shifts_bytes: tuple[int, ...]

    def offsets_bytes(self, of_buffers: Sequence[int]) -> tuple[int, ...]:
        """Return the offset in bytes of each residency, from those of the buffers."""
        return tuple(of_buffers[at] + shift for at, shift in zip(self.buffer_of, self.shifts_bytes, strict=True))


@dataclass(slots=True)
class _Member:
    """A residency, by number, in a chain: bytes [start_bytes, stop_bytes) of it over its steps."""

    at: int
    residency: PlannedResidency
    start_bytes: int
    stop_bytes: int

    def overlaps(self, other: _Member, shift: int) -> bool:
        """True if it shares a byte in some step with a member moved up by `shift` bytes."""
        mine, its = self.residency, other.residency
        meet = mine.start < its.stop and its.start < mine.stop
        return meet and self.start_bytes < other.stop_bytes + shift and other.start_bytes + shift < self.stop_bytes


@dataclass(slots=True)
class _Chain:
    """Members of a chain, and for each the latest stop among it and the members before it."""

    members: list[_Member] = field(default_factory=list)
    latest: list[int] = field(default_factory=list)

    def append(self, member: _Member) -> None:
        self.members.append(member)
        self.latest.append(max(self.latest[-1] if self.latest else 0, member.residency.stop))

    def overlaps(self, other: _Member, shift: int, but: tuple[int, int]) -> bool:
        """True if a member overlaps `other`, apart from the tied two."""
        for place in range(len(self.members) - 1, -1, -1):
            if self.latest[place] <= other.residency.start:
                return False
            one = self.members[place]
            if {one.at, other.at} != {*but} and one.overlaps(other, shift):
                return True
        return False


def packing_problem(indexed: IndexedProblem, schedule: OperatorSchedule) -> PackingProblem:
    """Return the packing that gives a schedule in which nothing is overwritten its addresses: a buffer a residency."""
    buffers = tuple(Buffer(r.start, r.stop, indexed.sizes_bytes[r.tensor]) for r in schedule.residencies)
    memory = indexed.memory
    return PackingProblem(buffers, memory.capacity_bytes, memory.alignment_bytes)


def chained(indexed: IndexedProblem, schedule: OperatorSchedule) -> ChainedSchedule:
    """Return the packing that gives the schedule its addresses, a buffer for each chain of residencies."""
    if not any(residency.ties for residency in schedule.residencies):
        count = len(schedule.residencies)
        problem = packing_problem(indexed, schedule)
        return ChainedSchedule(schedule, problem, tuple(range(count)), (0,) * count)
    chains = _Chains(indexed, schedule)
    kept = tuple(chains.tie(at) for at in range(len(schedule.residencies)))
    buffers: list[Buffer] = []
    buffer_of, shifts = [0] * len(kept), [0] * len(kept)
    for members in chains.each():
        lowest, highest = min(one.start_bytes for one in members), max(one.stop_bytes for one in members)
        start, stop = min(one.residency.start for one in members), max(one.residency.stop for one in members)
        for one in members:
            buffer_of[one.at], shifts[one.at] = len(buffers), one.start_bytes - lowest
        buffers.append(Buffer(start, stop, highest - lowest))
    memory = indexed.memory
    problem = PackingProblem(tuple(buffers), memory.capacity_bytes, memory.alignment_bytes)
    return ChainedSchedule(OperatorSchedule(schedule.order, kept), problem, tuple(buffer_of), tuple(shifts))


class _Chains:
    """Chains of tied residencies; at first every residency is a chain."""

    def __init__(self, indexed: IndexedProblem, schedule: OperatorSchedule) -> None:
        self._residencies = schedule.residencies
        self._ending = {(one.tensor, one.stop): at for at, one in enumerate(self._residencies)}
        self._members: list[_Member] = []
        self._chain_of: list[_Chain] = []
        for at, residency in enumerate(self._residencies):
            self._members.append(_Member(at, residency, 0, indexed.sizes_bytes[residency.tensor]))
            chain = _Chain()
            chain.append(self._members[-1])
            self._chain_of.append(chain)

    def each(self) -> Iterator[list[_Member]]:
        """Yield the members of each chain, chains in order of their first residency."""
        seen: set[int] = set()
        for chain in self._chain_of:
            if id(chain) not in seen:
                seen.add(id(chain))
                yield chain.members

    def tie(self, at: int) -> PlannedResidency:
        """Tie a residency to overwritten inputs, which end with its first step; return it with the ties it got."""
        residency = self._residencies[at]
        if not residency.ties:
            return residency
        ends = residency.start + 1
        ties = tuple(tie for tie in residency.ties if self._is_tied(at, self._ending[tie[0], ends], tie[1]))
        return replace(residency, ties=ties)

    def _is_tied(self, output: int, lender: int, shift_bytes: int) -> bool:
        """Join their chains, the smaller one to the larger, unless members would overlap."""
        one, other = self._chain_of[lender], self._chain_of[output]
        shift = self._members[lender].start_bytes + shift_bytes - self._members[output].start_bytes
        if one is other:
            return shift == 0
        if len(one.members) < len(other.members):
            one, other, shift = other, one, -shift
        if any(one.overlaps(member, shift, (output, lender)) for member in other.members):
            return False
        for member in other.members:
            member.start_bytes += shift
            member.stop_bytes += shift
            one.append(member)
            self._chain_of[member.at] = one
        return True


METHOD = "tied"
PlacedSchedule: TypeAlias = tuple[OperatorSchedule, tuple[int, ...]]
"""A schedule whose residencies have the ties chosen, and their offsets in bytes."""


def pack_with_ties(
    indexed: IndexedProblem, schedule: OperatorSchedule, run: Run, most_work: float = float("inf")
) -> SearchResult[PlacedSchedule]:
    """Find offsets within the scratchpad, or prove that the residencies have none with any ties.

    There is no objective. UNKNOWN if no time is left to load the solver, or after `most_work` (see
    `solve_interruptibly`).
    """
    if not cp_sat_is_within_reach(run):
        return SearchResult(Status.UNKNOWN, None, None, 0, run.seconds, METHOD, run.stop or Stop.TIME_LIMIT)
    return _TiedModel(indexed, schedule).solve(run, most_work)


class _TiedModel:
    """A rectangle of steps and units for each residency; one that lies within another at a step is not there then."""

    def __init__(self, indexed: IndexedProblem, schedule: OperatorSchedule) -> None:
        from ortools.sat.python import cp_model

        self._indexed, self._schedule = indexed, schedule
        self._residencies = schedule.residencies
        self._alignment = indexed.memory.alignment_bytes
        self._model = cp_model.CpModel()
        self._offsets = [self._model.new_int_var(0, self._last_offset(r), "") for r in self._residencies]
        self._inside: dict[tuple[int, int], list[cp_model.IntVar]] = {}
        self._ties: dict[int, list[tuple[tuple[int, int], cp_model.IntVar]]] = {}
        self._outputs_may_be_tied()
        self._residencies_do_not_overlap()

    def _last_offset(self, residency: PlannedResidency) -> int:
        return (self._indexed.memory.capacity_bytes - self._indexed.sizes_bytes[residency.tensor]) // self._alignment

    def _outputs_may_be_tied(self) -> None:
        """Let each output be tied to one input of each group that ends with its step."""
        ending = {(one.tensor, one.stop): at for at, one in enumerate(self._residencies)}
        beginning = {(one.tensor, one.start): at for at, one in enumerate(self._residencies)}
        for step, operator in enumerate(self._schedule.order):
            groups: dict[tuple[int, int], list[cp_model.IntVar]] = {}
            for one in self._indexed.overwritable_lists[operator]:
                if (one.tensor, step + 1) not in ending:
                    continue
                lender = ending[one.tensor, step + 1]
                for written, shift_bytes in one.ties:
                    output = beginning[written, step]
                    tie = self._tie(output, lender, shift_bytes)
                    groups.setdefault((one.group, written), []).append(tie)
                    inside = output if written in one.inside else lender
                    self._inside.setdefault((inside, step), []).append(tie)
            for ties in groups.values():
                self._model.add_at_most_one(ties)

    def _tie(self, output: int, lender: int, shift_bytes: int) -> cp_model.IntVar:
        """Return a boolean that is true if an output lies in the bytes of an input in the last step of the input."""
        tie = self._model.new_bool_var(f"tie_{output}_{lender}")
        difference = self._offsets[output] - self._offsets[lender]
        self._model.add(difference == shift_bytes // self._alignment).only_enforce_if(tie)
        self._ties.setdefault(output, []).append(((self._residencies[lender].tensor, shift_bytes), tie))
        return tie

    def _residencies_do_not_overlap(self) -> None:
        model, lives, ranges = self._model, [], []
        for at, residency in enumerate(self._residencies):
            size = self._indexed.room.units[residency.tensor]
            range_ = model.new_fixed_size_interval_var(self._offsets[at], size, "")
            apart = [step for place, step in self._inside if place == at]
            for start, stop in _between(residency, apart):
                lives.append(model.new_fixed_size_interval_var(start, stop - start, ""))
                ranges.append(range_)
            for step in apart:
                is_apart = model.new_bool_var("")
                model.add(sum(self._inside[at, step]) + is_apart == 1)
                lives.append(model.new_optional_fixed_size_interval_var(step, 1, is_apart, ""))
                ranges.append(range_)
        model.add_no_overlap_2d(lives, ranges)

    def solve(self, run: Run, most_work: float) -> SearchResult[PlacedSchedule]:
        """Solve within the work limit."""
        from ortools.sat.python import cp_model

        solver = cp_model.CpSolver()
        return solve_for_result(solver, self._model, run, METHOD, lambda: self._placed(solver), most_work)

    def _placed(self, solver: cp_model.CpSolver) -> PlacedSchedule:
        residencies = tuple(
            replace(one, ties=tuple(tie for tie, literal in self._ties.get(at, ()) if solver.boolean_value(literal)))
            for at, one in enumerate(self._residencies)
        )
        offsets = tuple(solver.value(offset) * self._alignment for offset in self._offsets)
        return OperatorSchedule(self._schedule.order, residencies), offsets


def _between(residency: PlannedResidency, steps: list[int]) -> list[tuple[int, int]]:
    """Return the stretches of steps of a residency that are left without these steps."""
    ends = [residency.start, *(end for step in sorted(steps) for end in (step, step + 1)), residency.stop]
    return [(start, stop) for start, stop in zip(ends[::2], ends[1::2], strict=True) if start < stop]


LARGEST_SUM: Final = 1 << 60
ANYWHERE: Final = -1


def has_countable_layouts(indexed: IndexedProblem) -> bool:
    """True if a beam can price every plan: nothing is overwritten, and costs do not overflow."""
    if indexed.problem.graph.shares_bytes or len(indexed.views) > 1:
        return False
    costs = (
        indexed.load_costs[tensor] + indexed.store_costs[tensor]
        for operands in indexed.operand_lists
        for tensor in operands
    )
    return sum(costs) <= LARGEST_SUM and indexed.memory.capacity_bytes <= LARGEST_SUM


class LayoutPlacer:
    """Places one schedule in one scratchpad that `has_countable_layouts`; every operator must fit alone."""

    def __init__(self, indexed: IndexedProblem, schedule: OperatorSchedule) -> None:
        self._order = schedule.order
        memory = indexed.memory
        self._beam = OrderBeam(
            layout_tensors(indexed),
            [ANYWHERE] * len(indexed.sizes_bytes),
            _steps(indexed, schedule),
            capacity_bytes=memory.capacity_bytes,
            alignment_bytes=memory.alignment_bytes,
        )

    @property
    def cost(self) -> int:
        """Return the cost of the last placed schedule beyond the compulsory transfers."""
        return self._beam.cost

    def place(self, width: int, run: Run) -> tuple[OperatorSchedule, tuple[int, ...]] | None:
        """Return a schedule with its offsets in bytes from a beam of `width` layouts; None if the run has to stop."""
        token = StopToken()
        options = {"upper_bound": 4 * LARGEST_SUM, "ahead": 1, "soon": 0, "seed": run.limits.seed}
        if not run_watched(lambda: self._beam.run(width, **options, stop=token), token.ask, run):
            return None
        stays = sorted(self._beam.stays, key=lambda stay: (stay.start, stay.tensor))
        residencies = tuple(PlannedResidency(stay.tensor, stay.start, stay.stop) for stay in stays)
        return OperatorSchedule(self._order, residencies), tuple(stay.offset_bytes for stay in stays)


def layout_tensors(indexed: IndexedProblem) -> list[LayoutTensor]:
    """Return the tensors as beams take them: storing what DRAM has a copy of anyway costs nothing."""
    capacity_bytes = indexed.memory.capacity_bytes
    return [
        LayoutTensor(
            size_bytes=min(size, capacity_bytes),
            load_cost=indexed.load_costs[tensor],
            store_cost=0 if indexed.backed >> tensor & 1 else indexed.store_costs[tensor],
        )
        for tensor, size in enumerate(indexed.sizes_bytes)
    ]


def _steps(indexed: IndexedProblem, schedule: OperatorSchedule) -> list[LayoutOperator]:
    """Return the operators in order, each after the one before; each releases the tensors whose residency it ends."""
    ends = {(one.tensor, one.stop - 1) for one in schedule.residencies}
    return [
        LayoutOperator(
            reads=indexed.read_lists[operator],
            writes=indexed.write_lists[operator],
            predecessors=range(max(0, step - 1), step),
            released=[tensor for tensor in indexed.operand_lists[operator] if (tensor, step) in ends],
        )
        for step, operator in enumerate(schedule.order)
    ]
