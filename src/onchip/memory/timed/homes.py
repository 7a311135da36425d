"""Home scratchpad of each operand of each operator, and the problem with these homes for the native search.

A tensor that its operators need in several scratchpads goes to the others through DRAM. Loads ahead fill all
capacity if an order with its transfers then packs, else less of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import combinations, product
from math import prod
from typing import Final, TypeAlias

from onchip.answer.packing import Buffer, PackingProblem
from onchip.answer.problem import Order
from onchip.arch.memory import DRAM
from onchip.bounds.latency.ways_to_run import WHOLE, OperatorWays, Parts, WaysToRun
from onchip.ir.tensor import Role
from onchip.memory.allocate.pack import pack
from onchip.memory.effort import STEP
from onchip.native import (
    LatencyAccess,
    LatencyBands,
    LatencyMachine,
    LatencyPlacing,
    LatencyRoom,
    LatencyTensor,
    LatencyTiming,
    LatencyWholeOperator,
    LatencyWholeTensor,
    StopToken,
)
from onchip.search.budget.limits import Run
from onchip.search.strategy.interruptible import run_watched

Homes: TypeAlias = tuple[tuple[int, ...], ...]
"""By operator the scratchpads, by number, of what it reads and then of what it writes."""
Use: TypeAlias = tuple[int, int]
"""An operator, and the place of an operand among what it reads and writes."""
Move: TypeAlias = Mapping[Use, int]
"""Scratchpads of some uses."""


@dataclass(frozen=True)
class HomesOfOperands:
    """Possible homes of the operands of a problem in its scratchpads."""

    ways: WaysToRun

    @property
    def unfit(self) -> int | None:
        """The first operator that fits in no number of parts, each operand in one scratchpad; None if all do."""
        operators = range(len(self.ways.operators))
        return next((one for one in operators if self._beside(one, {}, spreads=True) is None), None)

    def never_fits(self, operator: int) -> bool:
        """Return True if the operator fits in no plan, even with bands of one tensor in several scratchpads.

        No scratchpad holds one of its operands, or its smallest band needs more bytes than all scratchpads have.
        """
        operands, room = self._operands(operator), sum(one.capacity_bytes for one in self.ways.problem.memories)
        if not all(any(self._may((operator, at), one) for one in self._memories) for at in range(len(operands))):
            return True
        ways = self.ways.operators[operator].cycles
        return all(sum(self.ways.operand_bytes(operator, one, parts) for one in operands) > room for parts in ways)

    def start(self, *, spreads: bool) -> Homes:
        """Return homes in which each operator fits in some number of parts; none may be `unfit`.

        A tensor stays where an operator before has it, if the others then fit. With `spreads`, another tensor goes into
        the scratchpad with the most free capacity, else into the first one with enough.
        """
        known: dict[int, int] = {}
        homes = []
        for operator in range(len(self.ways.operators)):
            found = self._beside(operator, known, spreads=spreads) or self._beside(operator, {}, spreads=spreads)
            assert found is not None
            homes.append(found)
            for tensor, home in zip(self._operands(operator), found, strict=True):
                known.setdefault(tensor, home)
        return tuple(homes)

    def whole(self) -> Homes | None:
        """Return homes in which each operator fits whole, regardless of earlier homes; None if one does not fit."""
        homes: list[tuple[int, ...]] = []
        for operator in range(len(self.ways.operators)):
            found = _Fitting(self, operator, WHOLE, {}, spreads=True).homes()
            if found is None:
                return None
            homes.append(found)
        return tuple(homes)

    def fewest_parts_that_fit(self, homes: Homes, share: float = 1.0) -> Parts | None:
        """Return each operator's fewest parts such that a part fits in a share of the scratchpads; None if none do."""
        parts = []
        for operator, one in enumerate(self.ways.operators):
            count = next((each for each in sorted(one.cycles) if self.fits(operator, each, homes, share)), None)
            if count is None:
                return None
            parts.append(count)
        return tuple(parts)

    def moves(self) -> list[Move]:
        """Return the changes that do not depend on the homes: a tensor, or one use of it, goes elsewhere."""
        return [*self._moves_of_tensors(), *self._moves_of_uses()]

    def swaps(self, homes: Homes) -> Iterator[Move]:
        """Yield homes in which two operands of an operator in different scratchpads are exchanged."""
        for operator, one in enumerate(homes):
            operands = self._operands(operator)
            for first, second in combinations(range(len(one)), 2):
                if one[first] != one[second]:
                    moved = ((operands[first], one[second]), (operands[second], one[first]))
                    yield {use: home for tensor, home in moved for use in self._uses[tensor] if self._may(use, home)}

    def moved(self, homes: Homes, move: Move) -> Homes:
        """Return the homes with some of them changed."""
        changed = [list(one) for one in homes]
        for (operator, at), home in move.items():
            changed[operator][at] = home
        return tuple(map(tuple, changed))

    @cached_property
    def _uses(self) -> Mapping[int, Sequence[Use]]:
        found: dict[int, list[Use]] = defaultdict(list)
        for operator in range(len(self.ways.operators)):
            for at, tensor in enumerate(self._operands(operator)):
                found[tensor].append((operator, at))
        return found

    def _moves_of_tensors(self) -> Iterator[Move]:
        for uses in self._uses.values():
            for memory in self._memories:
                yield {use: memory for use in uses if self._may(use, memory)}

    def _moves_of_uses(self) -> Iterator[Move]:
        for uses in self._uses.values():
            for use in uses if len(uses) > 1 else ():
                yield from ({use: memory} for memory in self._memories if self._may(use, memory))

    def _operands(self, operator: int) -> tuple[int, ...]:
        one = self.ways.operators[operator]
        return (*one.reads, *one.writes)

    @property
    def _memories(self) -> range:
        return range(len(self.ways.problem.memories))

    def _may(self, use: Use, memory: int) -> bool:
        """True if the array reads that operand from there, or writes it there."""
        problem, operator = self.ways.problem, self.ways.problem.graph.operators[use[0]]
        tensor = self.ways.tensors[self._operands(use[0])[use[1]]]
        return problem.operand(operator, tensor) in problem.memories[memory].holds

    def fits(self, operator: int, parts: int, homes: Homes, share: float = 1.0) -> bool:
        """True if one of `parts` parts fits in a share of the scratchpads, with its operands at these homes."""
        fills = [_Fill() for _ in self._memories]
        for tensor, home in zip(self._operands(operator), homes[operator], strict=True):
            fills[home] = fills[home].with_one(*self._bytes(operator, tensor, parts, home))
        memories = self.ways.problem.memories
        return all(one.need_bytes <= int(m.capacity_bytes * share) for one, m in zip(fills, memories, strict=True))

    def _bytes(self, operator: int, tensor: int, parts: int, memory: int) -> tuple[int, int]:
        """Return the bytes of an operand, exact and rounded up to the next address."""
        size_bytes = self.ways.operand_bytes(operator, tensor, parts)
        return size_bytes, self.ways.aligned(size_bytes, memory)

    def _beside(self, operator: int, known: Mapping[int, int], *, spreads: bool) -> tuple[int, ...] | None:
        """Homes of its operands in the fewest parts that have any; those that are known are kept where they may be."""
        for parts in sorted(self.ways.operators[operator].cycles):
            found = _Fitting(self, operator, parts, known, spreads=spreads).homes()
            if found is not None:
                return found
        return None


@dataclass(frozen=True, slots=True)
class _Fill:
    """Content of a scratchpad: bytes rounded up to addresses, and the most that one operand leaves unused."""

    aligned_bytes: int = 0
    spared_bytes: int = 0

    @property
    def need_bytes(self) -> int:
        """Upon each other, the one that leaves most on top."""
        return self.aligned_bytes - self.spared_bytes

    def with_one(self, size_bytes: int, aligned_bytes: int) -> _Fill:
        """Return the content with one more operand."""
        return _Fill(self.aligned_bytes + aligned_bytes, max(self.spared_bytes, aligned_bytes - size_bytes))


class _Fitting:
    """Search for homes of the operands of a slice that fit: known homes first, then few choices, then large operands.

    Of scratchpads of the same kind and content one is tried.
    """

    def __init__(
        self, homes: HomesOfOperands, operator: int, parts: int, known: Mapping[int, int], *, spreads: bool
    ) -> None:
        operands, memories = homes._operands(operator), homes._memories
        may = [[memory for memory in memories if homes._may((operator, at), memory)] for at in range(len(operands))]
        self._spreads = spreads
        self._bytes = [[homes._bytes(operator, tensor, parts, memory) for memory in memories] for tensor in operands]
        self._known = {at: known[tensor] for at, tensor in enumerate(operands) if known.get(tensor) in may[at]}
        self._may = [[self._known[at]] if at in self._known else one for at, one in enumerate(may)]
        self._kinds = [(m.capacity_bytes, m.alignment_bytes, *sorted(m.holds)) for m in homes.ways.problem.memories]
        self._capacities = [memory.capacity_bytes for memory in homes.ways.problem.memories]
        self._order = sorted(
            range(len(operands)), key=lambda at: (at not in self._known, len(self._may[at]), -self._bytes[at][0][0])
        )
        self._hopeless: set[tuple[int, tuple[object, ...]]] = set()
        self._found = [0] * len(operands)

    def homes(self) -> tuple[int, ...] | None:
        """Return a home for each operand; None if they do not fit."""
        return tuple(self._found) if self._place(0, tuple(_Fill() for _ in self._capacities)) else None

    def _place(self, index: int, fills: tuple[_Fill, ...]) -> bool:
        if index == len(self._order):
            return True
        alike = [(*kind, fill.aligned_bytes, fill.spared_bytes) for kind, fill in zip(self._kinds, fills, strict=True)]
        state = (index, tuple(sorted(alike, key=repr) if index >= len(self._known) else alike))
        if state in self._hopeless:
            return False
        at, tried = self._order[index], set[object]()
        free = [capacity - fill.need_bytes for capacity, fill in zip(self._capacities, fills, strict=True)]
        for memory in sorted(self._may[at], key=lambda one: -free[one] if self._spreads else one):
            fill = fills[memory].with_one(*self._bytes[at][memory])
            if alike[memory] in tried or fill.need_bytes > self._capacities[memory]:
                continue
            tried.add(alike[memory])
            self._found[at] = memory
            if self._place(index + 1, (*fills[:memory], fill, *fills[memory + 1 :])):
                return True
        self._hopeless.add(state)
        return False


def latency_bands(ways: WaysToRun, homes: Homes) -> LatencyBands:
    """Return the search over the bands and orders of a problem.

    Operators and tensors have the same numbers; a tensor with several homes has further ones, after all others.
    """
    problem = ways.problem
    durations = problem.known_durations
    rates = problem.transfers.rates
    addressed = (
        memory.capacity_bytes // memory.alignment_bytes * memory.alignment_bytes for memory in problem.memories
    )
    machine = LatencyMachine(
        scratchpads=list(zip(ways.capacities_bytes, addressed, strict=True)),
        queues=durations.queues,
        setup_cycles=durations.setup_cycles,
        has_one_channel=durations.has_one_channel,
    )
    accesses = [
        LatencyAccess(
            alignment_bytes=memory.alignment_bytes,
            load=rates[DRAM, memory.name].terms,
            store=rates[memory.name, DRAM].terms,
        )
        for memory in problem.memories
    ]
    places = _Places(ways, homes)
    operators = [places.operator(number, one) for number, one in enumerate(ways.operators)]
    tensors = places.tensors()
    return LatencyBands(tensors, operators, machine, accesses=accesses, has_given_order=problem.order is Order.GIVEN)


@dataclass
class _Places:
    """Numbers of tensors by home: the tensor's number in the home that writes or else first reads it."""

    ways: WaysToRun
    homes: Homes
    _first: dict[int, int] = field(default_factory=dict)
    _others: dict[tuple[int, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for one, homes in zip(self.ways.operators, self.homes, strict=True):
            for tensor, home in zip((*one.reads, *one.writes), homes, strict=True):
                if tensor in one.writes or tensor not in self._first:
                    self._first[tensor] = home
        for one, homes in zip(self.ways.operators, self.homes, strict=True):
            for tensor, home in zip((*one.reads, *one.writes), homes, strict=True):
                if home != self._first[tensor]:
                    self._others.setdefault((tensor, home), len(self.ways.tensors) + len(self._others))

    def operator(self, number: int, one: OperatorWays) -> LatencyWholeOperator:
        """Return the operator with the places of its operands."""
        homes, count = self.homes[number], len(one.reads)
        reads, writes = self._operands(one, one.reads, homes[:count]), self._operands(one, one.writes, homes[count:])
        ways = sorted(one.cycles.items())
        return LatencyWholeOperator(reads=reads, writes=writes, ways=ways, cuts_inputs=one.cuts_inputs)

    def _operands(self, one: OperatorWays, tensors: Sequence[int], homes: Sequence[int]) -> list[tuple[int, bool]]:
        pairs = zip(tensors, homes, strict=True)
        return [(self._others.get((tensor, home), tensor), tensor in one.cut) for tensor, home in pairs]

    def tensors(self) -> list[LatencyWholeTensor]:
        """Return each tensor in its first home, then the tensors with several homes in their other homes."""
        first = [self._tensor(number, self._first.get(number, 0), None) for number in range(len(self.ways.tensors))]
        return first + [self._tensor(number, home, number) for number, home in self._others]

    def _tensor(self, number: int, home: int, same_as: int | None) -> LatencyWholeTensor:
        tensor, channels = self.ways.tensors[number], self.ways.channels[number] or 1
        bits = 0 if tensor.shape is None or tensor.bits is None else prod(tensor.shape) // channels * tensor.bits
        is_written = number in self.ways.writer
        is_elsewhere = is_written and any(one == number for one, _ in self._others)
        return LatencyWholeTensor(
            size_bytes=tensor.size_bytes,
            channels=channels,
            bits_per_channel=bits,
            is_in_dram=tensor.role in (Role.INPUT, Role.PARAMETER) or same_as is not None,
            is_output=same_as is None and (tensor.role is Role.OUTPUT or is_elsewhere),
            memory=home,
            same_as=-1 if same_as is None else same_as,
        )


@dataclass(frozen=True, slots=True)
class PlacingParams:
    """Constants of addresses for an order with its transfers."""

    rooms: tuple[float, ...] = (1.0, 0.99, 0.98, 0.97, 0.95, 0.92, 0.88, 0.84, 0.8, 0.7, 0.6, 0.5, 0.25, 0.0)
    """Parts of each scratchpad that stays, and loads ahead, may fill: less packs sooner, and ends later."""
    least_placed: float = 0.6
    """Part of each scratchpad, below which no stays are placed while an order is timed."""
    efforts: tuple[tuple[int, float], ...] = ((3_000, 1.005), (30_000, 1.03), (200_000, 1.1))
    """Nodes for each packing, and the ratio of latencies to the room tried next."""
    repair_rounds: int = 600
    """Rounds of repair for each packing: about a second for a thousand stays."""
    ahead: tuple[float, ...] = (1.0, 0.97)
    """Parts of the room of stays that loads ahead may fill, if stays are placed afterwards."""
    stays_afterwards: int = 500_000
    """Stays placed in all rounds of one room: a second."""

    @property
    def rooms_placed(self) -> tuple[float, ...]:
        """Parts of each scratchpad for stays that are placed while an order is timed."""
        return tuple(room for room in self.rooms if room >= self.least_placed)


PARAMS: Final = PlacingParams()
PLACINGS: Final = (LatencyPlacing.LOWEST, LatencyPlacing.HIGHEST)


@dataclass(frozen=True, slots=True)
class PlacedOrder:
    """An order of pieces with its transfers, and the offset in bytes of each of its stays.

    `room` limits stays and loads ahead; `tensors` give the scratchpad of each stay.
    """

    order: tuple[int, ...]
    room: LatencyRoom
    timing: LatencyTiming
    offsets_bytes: tuple[int, ...]
    tensors: tuple[LatencyTensor, ...]

    @classmethod
    def of_best(cls, search: LatencyBands, room: LatencyRoom, timing: LatencyTiming) -> PlacedOrder:
        """Return the best order of a search with the addresses of its timing in that room."""
        return cls(tuple(search.order), room, timing, tuple(timing.offsets_bytes), tuple(search.tensors))


@dataclass(frozen=True, slots=True)
class PackingEffort:
    """Nodes of the exact search for one packing, and rounds of repair before it."""

    nodes: int
    repair_rounds: int = 0


def placed_quickly(ways: WaysToRun, search: LatencyBands, run: Run, below: float) -> PlacedOrder | None:
    """Return the best order with addresses, as it ends in what packs at once; None if nothing does before `below`."""
    nodes, step = PARAMS.efforts[0]
    return _first_that_packs(ways, search, run, PackingEffort(nodes), step, below)


def placed(ways: WaysToRun, search: LatencyBands, run: Run, below: float) -> PlacedOrder | None:
    """Return the best order with addresses, ending as soon as what packs soon; None if nothing does before `below`."""
    for nodes, step in PARAMS.efforts[1:]:
        found = _first_that_packs(ways, search, run, PackingEffort(nodes), step, below)
        if found is not None:
            return found
    return None


def placed_by_repairs(ways: WaysToRun, search: LatencyBands, run: Run, below: float) -> PlacedOrder | None:
    """Return the best order in the room in which it ends soonest and repairs find a packing; None if none is found.

    Rooms are bisected: if one packs, later ends are of no interest, otherwise earlier ones are not.
    """
    rooms = [room for latency, room in _rooms(search) if latency < below]
    best, first, stop = None, 0, len(rooms)
    while first < stop and run.stop is None:
        middle = (first + stop) // 2
        found = packed_as_timed(ways, search, run, PackingEffort(0, PARAMS.repair_rounds), rooms[middle])
        best = found or best
        first, stop = (middle + 1, stop) if found is None else (first, middle)
    return best


def placed_somehow(ways: WaysToRun, search: LatencyBands, run: Run) -> PlacedOrder | None:
    """Return the best order with addresses, however late it ends; the rooms filled least are tried first."""
    effort = PackingEffort(PARAMS.efforts[0][0])
    for _, room in reversed(_rooms(search)):
        found = None if run.stop is not None else packed_as_timed(ways, search, run, effort, room)
        if found is not None:
            return found
    return None


def placed_step_by_step(ways: WaysToRun, search: LatencyBands) -> PlacedOrder | None:
    """Return the best order in which nothing stays from step to step; None if bands need more than the whole.

    The operands of each step lie upon each other, the one that leaves most up to the next address on top.
    """
    room = LatencyRoom(0.0, 0.0)
    timing, tensors, sizes_bytes = search.evaluate(room), search.tensors, search.sizes_bytes
    if not timing.fits:
        return None
    stays = timing.stays
    offsets_bytes, free = [0] * len(stays), dict[tuple[int, int], int]()

    def spared_bytes(at: int) -> int:
        tensor = stays[at].tensor
        return ways.aligned(sizes_bytes[tensor], tensors[tensor].memory) - sizes_bytes[tensor]

    for at in sorted(range(len(stays)), key=spared_bytes):
        stay, memory = stays[at], tensors[stays[at].tensor].memory
        offsets_bytes[at] = free.get((memory, stay.start), 0)
        stop = offsets_bytes[at] + sizes_bytes[stay.tensor]
        if stop > ways.problem.memories[memory].capacity_bytes:
            return None
        free[memory, stay.start] = ways.aligned(stop, memory)
    return PlacedOrder(tuple(search.order), room, timing, tuple(offsets_bytes), tuple(tensors))


def placed_better(ways: WaysToRun, search: LatencyBands, run: Run, below: float) -> PlacedOrder | None:
    """Return the best order with addresses that ends before `below` without them, sought for longer."""
    return _first_that_packs(ways, search, run, PackingEffort(STEP.check_nodes), 1.0, below)


def placed_while_timed(search: LatencyBands, run: Run) -> PlacedOrder | None:
    """Return the best order in which each load takes the address that is free soonest; None if some load has none."""
    for share, has_place_for_all in product(PARAMS.rooms_placed, (False, True)):
        if run.stop is not None:
            return None
        found = _soonest(
            search,
            (
                LatencyRoom(share, 1.0, placing, is_longest_first, has_place_for_all)
                for placing, is_longest_first in product(PLACINGS, (False, True))
            ),
        )
        if found is not None:
            return found
    return None


def placed_afterwards(search: LatencyBands, run: Run, share: float) -> PlacedOrder | None:
    """Return the best order timed in bytes, then placed in many rounds; None if no round finds a place for all."""
    best: PlacedOrder | None = None
    rounds = max(PARAMS.stays_afterwards // len(search.order), 1)
    for ahead, is_longest_first in product(PARAMS.ahead, (True, False)):
        if run.stop is not None:
            break
        token = StopToken()
        room = LatencyRoom(share, share * ahead, LatencyPlacing.AFTERWARDS, is_longest_first, rounds=rounds)
        timing = run_watched(partial(search.evaluate, room, stop=token), token.ask, run)
        if timing.fits and (best is None or timing.latency < best.timing.latency):
            best = PlacedOrder.of_best(search, room, timing)
    return best


def _soonest(search: LatencyBands, rooms: Iterable[LatencyRoom], first: Sequence[int] = ()) -> PlacedOrder | None:
    """Return the best order in the room in which it ends soonest; None if it fits in no room."""
    found = [(room, timing) for room in rooms if (timing := search.evaluate(room, first)).fits]
    if not found:
        return None
    room, timing = min(found, key=lambda one: one[1].latency)
    return PlacedOrder.of_best(search, room, timing)


def packed_then_placed(ways: WaysToRun, search: LatencyBands, run: Run) -> PlacedOrder | None:
    """Return the best order with packed stays; loads then come as early as possible, also at other addresses."""
    effort = PackingEffort(PARAMS.efforts[1][0])
    for share in PARAMS.rooms_placed:
        packed = packed_as_timed(ways, search, run, effort, LatencyRoom(share, 0.0)) if run.stop is None else None
        if packed is None:
            continue
        rooms = [LatencyRoom(share, 1.0, one, has_place_for_all=True) for one in PLACINGS]
        found = _soonest(search, rooms, packed.offsets_bytes)
        if found is not None:
            return found
    return None


def _first_that_packs(
    ways: WaysToRun, search: LatencyBands, run: Run, effort: PackingEffort, step: float, below: float
) -> PlacedOrder | None:
    """Go through rooms as the order ends in them, sooner first; each room that does not pack rules out its like."""
    least = 0.0
    for latency, room in _rooms(search):
        if run.stop is not None or latency >= below:
            return None
        if latency < least:
            continue
        found = packed_as_timed(ways, search, run, effort, room)
        if found is not None:
            return found
        least = latency * step
    return None


def packed_as_timed(
    ways: WaysToRun, search: LatencyBands, run: Run, effort: PackingEffort, room: LatencyRoom
) -> PlacedOrder | None:
    """Return the best order in that room with its stays packed; None if that effort finds no packing."""
    timing, tensors, sizes_bytes = search.evaluate(room), search.tensors, search.sizes_bytes
    if not timing.fits:
        return None
    stays = timing.stays
    offsets_bytes = [0] * len(stays)
    for number, memory in enumerate(ways.problem.memories):
        there = [at for at, stay in enumerate(stays) if tensors[stay.tensor].memory == number]
        buffers = tuple(Buffer(stays[at].start, stays[at].stop, sizes_bytes[stays[at].tensor]) for at in there)
        problem_there = PackingProblem(buffers, memory.capacity_bytes, memory.alignment_bytes)
        packing = pack(problem_there, run, effort.nodes, effort.repair_rounds).answer
        if packing is None:
            return None
        for at, offset_bytes in zip(there, packing.offsets_bytes, strict=True):
            offsets_bytes[at] = offset_bytes
    return PlacedOrder(tuple(search.order), room, timing, tuple(offsets_bytes), tuple(tensors))


def _rooms(search: LatencyBands) -> list[tuple[int, LatencyRoom]]:
    """Return the end of the best order in each room in which it fits, sooner first; of equals the smallest room."""
    found: dict[int, LatencyRoom] = {}
    for stays, ahead in product(PARAMS.rooms, PARAMS.rooms):
        room = LatencyRoom(stays, min(stays, ahead))
        timing = search.evaluate(room)
        if timing.fits:
            found[timing.latency] = room
    return sorted(found.items(), key=lambda one: one[0])
