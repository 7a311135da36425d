"""Cost of a layer on an accelerator with a given mapping: accesses, energy, cycles.

This version follows the definition; `batch` computes the same for millions of mappings. docs/layer_cost.md states what
is counted, and `simulate.nest` counts it element by element. The latency model is ZigZag's (Mei et al., DATE 2022).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import ceil, prod
from typing import Final

from onchip.answer.layer_mapping import LayerMapping, Move
from onchip.answer.layer_problem import LayerProblem
from onchip.arch.accelerator import Accelerator
from onchip.arch.energies import stated, summed
from onchip.arch.memory import DRAM, Access
from onchip.errors import AcceleratorError
from onchip.ir.layer import INPUT, OUTPUT, RELEVANT, WEIGHT
from onchip.model.accounting.accounting import INTERPRETER, Accounting, settled
from onchip.model.layer.limits import (
    Accesses,
    array_of,
    bits_below,
    checked_boundaries,
    is_pending,
    layer_accesses,
    needed_bits,
    output_bits_in,
    port_for,
)
from onchip.model.layer.ragged import Crossed, PortMove, RaggedTime, TileFilling, boundaries, ends_short
from onchip.model.layer.tiles import MACS, Boundary


@dataclass(frozen=True, slots=True)
class Latency:
    """The parts of a latency in cycles; `total` is their sum.

    `ideal` is MACs over units of the array, `unused` the cycles lost to idle units, `stall` the cycles lost waiting for
    ports. `preload` and `offload` come before and after the loops, `drain` is that of a systolic array.
    """

    ideal: float
    unused: float
    stall: int
    preload: float
    offload: float
    drain: int = 0

    @property
    def total(self) -> float:
        """Return the sum of all parts; a whole number unless loads are hidden behind the loops."""
        return self.ideal + self.unused + self.stall + self.preload + self.offload + self.drain


def latency(
    problem: LayerProblem,
    mapping: LayerMapping,
    boundaries: Crossed,
    rooms: frozenset[tuple[str, str]] | None,
    accounting: Accounting = INTERPRETER,
) -> Latency:
    """Return the latency of a layer as executed (with padded bounds); `ideal` is that of the requested bounds.

    `boundaries` are those of the executed layer. `rooms` are the pairs of memory and operand with capacity for two
    tiles; None to use the memories' double buffering.
    """
    whole = boundaries[OUTPUT][0].layer
    ideal = problem.layer.macs / array_of(problem.accelerator).macs
    crossed = list(_crossings(boundaries, rooms))
    crossings = [list(_visits(one, problem.accelerator)) for one in crossed]
    time = RaggedTime(whole, mapping) if ends_short(whole, mapping) else None
    cycles = mapping.temporal_iterations if time is None else time.cycles
    stall = _stall(crossed, crossings, time, cycles, accounting)
    drain = sum(
        prod(loop.size for loop in mapping.nest if loop.along == dimension) - 1 for dimension in accounting.systolic
    )
    preload: float = _chained([visit for visit in visits if visit.is_first] for visits in crossings)
    offload: float = _chained([visit for visit in visits if visit.is_last] for visits in crossings)
    if accounting.counts_from_bounds:
        nearest = {one.boundary.operand: one.lower_bits for one in crossed if one.number == 1 and not one.returns}
        once = [visit for visits in crossings for visit in visits if not visit.returns]
        preload, offload = _loaded(once, nearest, cycles, stall, problem, hides=accounting.is_zigzag)
    return Latency(ideal, cycles - ideal, stall, preload, offload, drain)


def _stall(
    crossed: Sequence[_Crossing],
    crossings: Sequence[Sequence[Visit]],
    time: RaggedTime | None,
    cycles: int,
    accounting: Accounting,
) -> int:
    """Return the cycles that the busiest port stalls the loops; `time` is that of loops that end short."""
    ports: dict[tuple[str, int], list[Visit]] = defaultdict(list)
    for visits in crossings:
        for visit in visits:
            ports[visit.memory, visit.port].append(visit)
    if time is None:
        return max((stall_at(visits, cycles, accounting) for visits in ports.values()), default=0)
    fillings = {(one.boundary.operand, one.number): one.boundary for one in crossed}
    return max((time.stall(_moves(visits, fillings)) for visits in ports.values()), default=0)


def _moves(visits: Sequence[Visit], boundaries_of: Mapping[tuple[str, int], Boundary]) -> list[PortMove]:
    moves = []
    for visit in visits:
        boundary = boundaries_of[visit.operand, visit.boundary]
        filling = TileFilling.of(boundary) if boundary.lower.memory != MACS else None
        moves.append(PortMove(filling, visit.busy, visit.times, visit.returns))
    return moves


def _loaded(
    transfers: Sequence[Visit],
    nearest: Mapping[str, int],
    cycles: int,
    stall: int,
    problem: LayerProblem,
    *,
    hides: bool,
) -> tuple[float, float]:
    """Return the cycles of the first transfers and of the last ones, as ZigZag or (without `hides`) DeFiNES counts.

    Each boundary takes the longer of its two ends. Of the last sums, DeFiNES counts the transfer to the topmost memory,
    plus one cycle for each memory below it. `nearest` is the bits of the nearest memory's tile by operand.
    """
    left = _unhidden(transfers, nearest, cycles, stall) if hides else {one: float(one.busy) for one in transfers}
    ends: dict[tuple[str, int], list[Visit]] = defaultdict(list)
    for one in transfers:
        if one.boundary:
            ends[one.operand, one.boundary].append(one)
    shared, apart, last = defaultdict[str, float](float), defaultdict[str, float](float), dict[int, float]()
    for (operand, boundary), own in ends.items():
        longest = max(left[one] for one in own)
        if operand == OUTPUT:
            last[boundary] = longest
        else:
            (shared if all(_holds_both(problem, one.memory) for one in own) else apart)[operand] += longest
    # Operands are loaded one after the other where both ends share ports.
    orders = ((INPUT, WEIGHT), (WEIGHT, INPUT)) if problem.layer.has_weight else ((INPUT, WEIGHT),)
    loaded = min(shared[first] + max(shared[second] + apart[second], apart[first]) for first, second in orders)
    if hides:
        return loaded, sum(last.values())
    return loaded, last[max(last)] + len(last) - 1 if last else 0.0


def _unhidden(transfers: Sequence[Visit], nearest: Mapping[str, int], cycles: int, stall: int) -> dict[Visit, float]:
    """Return the cycles left of each transfer after one-time transfers use the idle port cycles, the longest first.

    The nearest memory's tile cannot be hidden.
    """
    left = {one: float(one.busy) for one in transfers}
    ports: dict[tuple[str, int], list[Visit]] = defaultdict(list)
    for one in transfers:
        ports[one.memory, one.port].append(one)
    for at_port in ports.values():
        bits = at_port[0].bits_per_cycle
        taken = sum(one.bits // one.period for one in at_port if one.period != cycles)
        free = max(0.0, (bits - taken) / bits * (cycles + stall))
        for one in sorted((one for one in at_port if one.period == cycles), key=lambda one: -one.busy):
            hidden = min(max(0.0, one.busy - ceil(nearest.get(one.operand, 0) / bits)), free)
            left[one] -= hidden
            free -= hidden
    return left


def _holds_both(problem: LayerProblem, memory: str) -> bool:
    held = {level.memory.name: set(level.memory.holds) for level in problem.levels}
    return memory == DRAM or {INPUT, WEIGHT} <= held[memory]


def _chained(crossings: Iterable[Sequence[Visit]]) -> int:
    """Return the cycles of transfers from memory to memory; operands run in parallel if they share no port."""
    operands: dict[str, int] = defaultdict(int)
    ports: dict[tuple[str, int], int] = defaultdict(int)
    for visits in crossings:
        for visit in visits:
            ports[visit.memory, visit.port] += visit.busy
        if visits:
            operands[visits[0].operand] += max(visit.busy for visit in visits)
    return max([*operands.values(), *ports.values()], default=0)


@dataclass(frozen=True, slots=True)
class _Crossing:
    """Tiles that cross a boundary in one direction; bits are those of the largest tile at each end."""

    boundary: Boundary
    upwards: bool
    lower_bits: int
    upper_bits: int
    times: int
    number: int
    is_first: bool = False
    is_last: bool = False
    returns: bool = False


def _crossings(boundaries: Crossed, rooms: frozenset[tuple[str, str]] | None) -> Iterator[_Crossing]:
    for crossed in boundaries.values():
        for number, boundary in enumerate(crossed):
            yield from _crossings_of(crossed, number, boundary, rooms)


def _crossings_of(
    crossed: Sequence[Boundary], number: int, boundary: Boundary, rooms: frozenset[tuple[str, str]] | None
) -> Iterator[_Crossing]:
    accounting, operand = boundary.accounting, boundary.operand
    upper = _largest(boundary.upper_sizes()) * _bits(boundary)
    bits_in_lower = 0
    if number:
        below = crossed[number - 1]
        bits_in_lower = bits_below(boundary, below) if operand == OUTPUT else _bits(below)
    lower = _largest(boundary.lower_sizes()) * bits_in_lower
    if rooms is not None:
        boundary = replace(boundary, has_room_for_two=(boundary.lower.memory, operand) in rooms)
    keeps = boundary.lower.memory != MACS
    times = boundary.episodes - (keeps or accounting.counts_from_bounds)
    if operand != OUTPUT:
        yield _Crossing(boundary, False, lower, upper, times, number, is_first=keeps)
        return
    yield _Crossing(boundary, True, lower, upper, times, number, is_last=keeps)
    returned = boundary.episodes - boundary.distinct_tiles
    if accounting.counts_from_bounds:
        returned = times if is_pending(boundary) else 0
    yield _Crossing(boundary, False, lower, upper, returned, number, returns=True)


def _bits(boundary: Boundary) -> int:
    """Return the bits of an element in the upper memory."""
    return output_bits_in(boundary) if boundary.operand == OUTPUT else boundary.layer.bits(boundary.operand)


def _largest(sizes: Iterable[tuple[int, int]]) -> int:
    return max((size for size, _ in sizes), default=0)


def _visits(crossing: _Crossing, accelerator: Accelerator) -> Iterator[Visit]:
    boundary = crossing.boundary
    lower, upper = boundary.lower, boundary.upper
    dram_ports = accelerator.dram.ports if accelerator.dram else ()
    upper_ports = upper.level.ports if upper.level else dram_ports
    lower_ports = lower.level.ports if lower.level else ()
    upper_move = Move.WRITE_FROM_BELOW if crossing.upwards else Move.READ_FOR_BELOW
    lower_move = Move.READ_FOR_ABOVE if crossing.upwards else Move.WRITE_FROM_ABOVE
    for memory, ports, move, bits in (
        (upper.memory, upper_ports, upper_move, crossing.upper_bits),
        (lower.memory, lower_ports, lower_move, crossing.lower_bits),
    ):
        if ports and bits and (crossing.times or crossing.is_first or crossing.is_last or _may_wait(crossing)):
            port = port_for(memory, ports, move)
            busy = ceil(bits / ports[port].bits_per_cycle)
            yield Visit(
                memory,
                port,
                boundary.operand,
                busy,
                boundary.period,
                boundary.window,
                crossing.times,
                crossing.is_first,
                crossing.is_last,
                bits,
                ports[port].bits_per_cycle,
                crossing.number,
                crossing.returns,
            )


def _may_wait(crossing: _Crossing) -> bool:
    """Return True if its window counts although nothing moves in it during the loops."""
    accounting = crossing.boundary.accounting
    is_one = not crossing.returns or is_pending(crossing.boundary)
    return accounting.counts_from_bounds and is_one


@dataclass(frozen=True, slots=True)
class Visit:
    """A kind of transfer at a port of a memory: `busy` cycles in each `period`, within its last `window`.

    `times` is the count during the loops; `is_first` and `is_last` add one before or after. `bits` is the size of a
    transfer. `boundary` numbers the operand's boundaries, 0 at the MACs. `returns` is True for a sum from above.
    """

    memory: str
    port: int
    operand: str
    busy: int
    period: int
    window: int
    times: int
    is_first: bool = False
    is_last: bool = False
    bits: int = 0
    bits_per_cycle: int = 1
    boundary: int = 0
    returns: bool = False


def stall_at(visits: Sequence[Visit], cycles: int, accounting: Accounting) -> int:
    """Return the stall at one port: the excess of single transfers over their windows, or of all over the union."""
    last_counts = accounting.counts_from_bounds
    visits = [visit for visit in visits if visit.times or last_counts]
    if not visits:
        return 0
    alone = sum(max(visit.busy - visit.window, 0) * visit.times for visit in visits)
    covered = covered_cycles(visits, cycles, last_counts=last_counts)
    together = sum(visit.busy * visit.times for visit in visits) - covered
    return max(alone, together, 0)


def covered_cycles(visits: Sequence[Visit], cycles: int, *, last_counts: bool = False) -> int:
    """Return the cycles that are in the window of at least one visit.

    Periods are products of inner loops of one nest, so each is a multiple of the shorter ones. A tile's last period has
    no window unless `last_counts`, since no tile follows. Transfers of the MACs have every cycle.
    """
    if any(visit.period == 1 or (last_counts and visit.period == visit.window) for visit in visits):
        return cycles
    ordered = sorted(visits, key=lambda visit: (visit.period, visit.window))
    whole = [0]  # cycles covered in one period of the first visits, by number of visits
    for count, visit in enumerate(ordered):
        whole.append(_covered(ordered, whole, count + 1, visit.period))
    if last_counts:
        return whole[-1] * (cycles // ordered[-1].period)
    covered = 0
    for visit, in_a_period in reversed(list(zip(ordered, whole[1:], strict=True))):
        covered += in_a_period * (cycles // visit.period - 1)
        cycles = visit.period
    return covered


def _covered(ordered: Sequence[Visit], whole: Sequence[int], count: int, cycles: int) -> int:
    """Return the covered cycles in the first `cycles` of a period of visit `count - 1`, by the first `count` visits."""
    if not count or not cycles:
        return 0
    visit = ordered[count - 1]
    before = min(cycles, visit.period - visit.window)
    if count == 1:
        return cycles - before
    inner = ordered[count - 2].period
    within = whole[count - 1] * (before // inner) + _covered(ordered, whole, count - 1, before % inner)
    return within + cycles - before


ORDER: Final = (OUTPUT, WEIGHT, INPUT)
"""Order in which operands get the remaining capacity."""


@dataclass(frozen=True, slots=True)
class LayerCost:
    """The cost of `mapping`: energies in pJ, by memory and operand and of the MACs; `macs` exclude padding.

    `mac_energy_pj` is None if the accelerator does not state it; a memory without stated access energies has no entry.
    `needed_bits` is the need of one instance of each memory for each operand.
    """

    mapping: LayerMapping
    macs: int
    accesses: tuple[Accesses, ...]
    memory_energy_pj: dict[tuple[str, str], float]
    mac_energy_pj: float | None
    latency: Latency
    units: int
    needed_bits: Mapping[tuple[str, str], int] = field(default_factory=dict)

    @property
    def energy_pj(self) -> float:
        """Return the energy of all memories and MACs in pJ; raises AcceleratorError if it is unknown."""
        return stated(self.stated_energy_pj)

    @property
    def stated_energy_pj(self) -> float | None:
        """Return the energy in pJ, or None if the accelerator does not state one of its parts."""
        if any((one.memory, one.operand) not in self.memory_energy_pj for one in self.accesses):
            return None
        return summed((sum(self.memory_energy_pj.values()), self.mac_energy_pj))

    @property
    def cycles(self) -> float:
        """Return the cycles from the start of preloading to the end of offloading."""
        return self.latency.total

    @property
    def energy_delay_pj_cycles(self) -> float:
        """Return the energy-delay product, in pJ times cycles."""
        return self.energy_pj * self.cycles

    @property
    def utilisation(self) -> float:
        """Return the array utilisation: the layer's multiply-accumulates over units times cycles."""
        return self.macs / (self.units * self.cycles)


def layer_cost(problem: LayerProblem, mapping: LayerMapping, accounting: Accounting = INTERPRETER) -> LayerCost:
    """Return the cost of a layer's mapping.

    Raises MappingError if the mapping does not fit, AcceleratorError if the accelerator's description is incomplete.
    """
    crossed = checked_boundaries(problem, mapping, accounting)
    needs = needed_bits(problem, crossed)
    counted = crossed[OUTPUT][0].layer
    array = array_of(problem.accelerator)
    costed = settled(mapping) if accounting.counts_from_bounds else mapping
    if costed is not mapping:
        crossed = boundaries(counted, problem, costed, accounting)
    accesses = layer_accesses(problem.accelerator, crossed)
    energies: dict[tuple[str, str], float] = {}
    for one in accesses:
        key, access = (one.memory, one.operand), stated_access(problem.accelerator, one.memory)
        if access is not None:
            energies[key] = energies.get(key, 0.0) + energy_pj(one, access)
    rooms = with_room_for_two(problem, crossed) if accounting.counts_from_bounds else None
    whole = mapping.layer(problem.layer)
    in_time = crossed if counted == whole else boundaries(whole, problem, costed, accounting)
    return LayerCost(
        mapping,
        problem.layer.macs,
        accesses,
        energies,
        None if array.mac_energy_pj is None else counted.macs * array.mac_energy_pj,
        latency(problem, costed, in_time, rooms, accounting),
        array.macs,
        needs,
    )


def energy_pj(accesses: Accesses, access: Access) -> float:
    """Return the energy in pJ of one memory for one operand and move."""
    reads = accesses.move in (Move.READ_FOR_BELOW, Move.READ_FOR_ABOVE)
    return accesses.words(access) * (access.read_energy_pj if reads else access.write_energy_pj)


def access_of(accelerator: Accelerator, memory: str) -> Access:
    """Return the access to a memory, or to DRAM; raises AcceleratorError if its energies are not stated."""
    access = stated_access(accelerator, memory)
    if access is None:
        place = "dram" if memory == DRAM else f"memory {memory!r}"
        expected = "access_bits, read_energy_pj and write_energy_pj"
        raise AcceleratorError("the energy of an access is not stated", place=place, expected=expected)
    return access


def stated_access(accelerator: Accelerator, memory: str) -> Access | None:
    """Return the access to a memory, or to DRAM, or None if its energies are not stated."""
    if memory == DRAM:
        return accelerator.dram.access if accelerator.dram else None
    return next(level.access for level in accelerator.levels if level.memory.name == memory)


def with_room_for_two(problem: LayerProblem, crossed: Crossed) -> frozenset[tuple[str, str]]:
    """Return the pairs of a memory and an operand with capacity for a second tile.

    A tile counts with the part in use at a time: without the outermost loops along which it moves on. If a memory's
    operands together take at most half of it, all get a second tile; else they get one in order while capacity is left.
    """
    in_use: dict[tuple[str, str], int] = {}
    for operand in (operand for operand in ORDER if operand in crossed):
        for below, boundary in pairwise(crossed[operand]):
            bits = bits_below(boundary, below) if operand == OUTPUT else boundary.layer.bits(operand)
            ((size, _),) = boundary.lower_sizes()[-1:]
            in_use[boundary.lower.memory, operand] = size * bits // _outermost_steps(boundary)
    taken = {level.memory.name: 0 for level in problem.levels}
    for (memory, _), bits in in_use.items():
        taken[memory] += bits
    capacities = {level.memory.name: problem.usable_bits(level.memory.name) for level in problem.levels}
    found = set()
    for (memory, operand), bits in in_use.items():
        if 2 * taken[memory] <= capacities[memory]:
            found.add((memory, operand))
        elif bits <= capacities[memory] - taken[memory]:
            found.add((memory, operand))
            taken[memory] += bits
    return frozenset(found)


def _outermost_steps(boundary: Boundary) -> int:
    overlapping = {loop for axis in boundary.axes for loop in (axis.output_loop, axis.filter_loop)}
    whole = [loop for loop in RELEVANT[boundary.operand] if loop not in overlapping]
    own = [
        loop
        for loop in boundary.mapping.nest[boundary.inner_cut : boundary.lower.cut]
        if loop.along is None and loop.size > 1
    ]
    kept = list(own)
    while kept and kept[-1].dimension in whole:
        kept.pop()
    return prod(loop.size for loop in own[len(kept) :])
