"""Mappings timed on CoSA's network on chip (docs/network_on_chip.md)."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from enum import IntEnum
from functools import cache
from itertools import pairwise, product
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from onchip.answer.layer_mapping import LayerMapping, Loop
from onchip.answer.layer_problem import LayerProblem
from onchip.arch.memory import MemoryLevel
from onchip.errors import InputError, InternalError
from onchip.ir.layer import INPUT, OUTPUT, RELEVANT, WEIGHT, Layer

PLACE: Final = "network on chip"
MOST_ENDPOINTS: Final = 64
"""The engine keeps sets of endpoints and of routers in 64 bits."""


class RouterPort(IntEnum):
    """A port of a router, to a neighbour or an endpoint."""

    LOCAL = 0
    NORTH = 1
    EAST = 2
    SOUTH = 3
    WEST = 4


@dataclass(frozen=True, slots=True)
class MeshEndpoint:
    """An endpoint at a port of a router; routers are counted row by row.

    The tail of a sent packet leaves at least `read_cycles` after the packet began, and the next packet begins after
    that; a received packet counts `write_cycles` after its tail arrived.
    """

    router: int
    port: RouterPort = RouterPort.LOCAL
    read_cycles: int = 0
    write_cycles: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshNetwork:
    """A mesh with X-Y routing; a packet has `packet_flits` flits, a head of no payload among them.

    Between two crossbars lie `buffer_flits` flits; a flit passes the next crossbar `hop_cycles` after the one before
    at the earliest, and the place it leaves is filled again `credit_cycles` later at the earliest. The same holds of
    the way in, `injection_flits` and `injection_cycles`; the way out never blocks and takes `ejection_cycles`.
    """

    columns: int
    rows: int
    endpoints: tuple[MeshEndpoint, ...]
    flit_bits: int = 64
    packet_flits: int = 5
    buffer_flits: int = 11
    hop_cycles: int = 4
    credit_cycles: int = 2
    injection_flits: int = 4
    injection_cycles: int = 2
    ejection_cycles: int = 3

    def __post_init__(self) -> None:
        routers = self.columns * self.rows
        if min(self.columns, self.rows) < 1 or routers > MOST_ENDPOINTS or len(self.endpoints) > MOST_ENDPOINTS:
            detail = f"it has {self.columns}x{self.rows} routers and {len(self.endpoints)} endpoints"
            raise InputError(detail, place=PLACE, expected=f"at most {MOST_ENDPOINTS} of each")
        if self.buffer_flits < self.packet_flits:
            detail = f"{self.buffer_flits} flits between crossbars"
            raise InputError(detail, place=PLACE, expected=f"a packet of {self.packet_flits} at least")

    @property
    def payload_bits(self) -> int:
        """Bits of payload of a packet, whose head has none unless it is alone."""
        return max(self.packet_flits - 1, 1) * self.flit_bits

    def packets(self, bits: int) -> int:
        """Return the number of packets for `bits` bits, at least one."""
        return max(-(-bits // self.payload_bits), 1)

    def numbers(self) -> list[int]:
        """Return the network as the engine reads it."""
        fields = asdict(self)
        endpoints = fields.pop("endpoints")
        del fields["flit_bits"]
        return [*fields.values(), len(endpoints), *(number for one in endpoints for number in one.values())]


COSA_ELEMENTS: Final = 16
COSA_BUFFER: Final = 19
COSA_DRAM: Final = 20
"""Endpoints of COSA_NETWORK; elements are 0 to 15, and 16 to 18 have nothing to do."""
COSA_NETWORK: Final = MeshNetwork(
    columns=4,
    rows=5,
    endpoints=(
        *(MeshEndpoint(router) for router in range(20)),
        MeshEndpoint(19, RouterPort.SOUTH, read_cycles=16, write_cycles=13),
    ),
)
"""CoSA's simulation of Simba: elements row by row, the global buffer and DRAM at the last router.

Cycles and buffers were measured on the authors' simulator; DRAM reads 32 bytes in 17 cycles, one packet at a time.
"""


class TaskKind(IntEnum):
    """The kind of a task; a barrier has no endpoint and ends with the tasks it waits for."""

    SEND = 0
    COMPUTE = 1
    BARRIER = 2


@dataclass(frozen=True, slots=True)
class TrafficTask:
    """Packets to send to all `receivers`, or cycles to compute: `size`.

    A task begins when the earlier tasks of `waits_for` have ended (at its own endpoint, if that is a receiver), and not
    before cycle `earliest`; an endpoint runs one task at a time, the first that may begin.
    """

    kind: TaskKind
    actor: int | None
    size: int = 0
    receivers: tuple[int, ...] = ()
    waits_for: tuple[int, ...] = ()
    earliest: int = 0


@dataclass(frozen=True, slots=True)
class NetworkRun:
    """Begin and end of each task in cycles; a flit-hop is a flit that passes a router's output."""

    cycles: int
    flit_hops: int
    begins: tuple[int, ...]
    ends: tuple[int, ...]


def run_tasks(network: MeshNetwork, tasks: Sequence[TrafficTask]) -> NetworkRun:
    """Run all tasks to their end.

    Raises InputError for tasks that no network has, InternalError where tasks wait for one another for ever.
    """
    numbers = [*network.numbers(), len(tasks), *(number for task in tasks for number in _numbers(task))]
    done = subprocess.run([engine()], input=" ".join(map(str, numbers)), capture_output=True, text=True, check=False)
    if done.returncode:
        raise InputError(done.stdout.strip() or done.stderr, place=PLACE, expected="tasks of its endpoints")
    has_ended, cycles, flit_hops, *times = map(int, done.stdout.split())
    if not has_ended:
        raise InternalError(f"after {cycles} cycles nothing can move any more", place=PLACE)
    return NetworkRun(cycles, flit_hops, tuple(times[::2]), tuple(times[1::2]))


def _numbers(task: TrafficTask) -> list[int]:
    if task.receivers and not 0 <= min(task.receivers) <= max(task.receivers) < MOST_ENDPOINTS:
        raise InputError(f"a task sends to {task.receivers}", place=PLACE, expected="endpoints of the network")
    actor, receivers = -1 if task.actor is None else task.actor, sum(1 << one for one in task.receivers)
    return [task.kind, actor, task.size, task.earliest, receivers, len(task.waits_for), *task.waits_for]


@cache
def engine() -> Path:
    """Return the compiled program of `mesh.cpp`, made with the compiler of the environment if the source is newer."""
    source = Path(__file__).with_suffix(".cpp")
    program = source.parents[2] / "build" / "mesh"
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        program.parent.mkdir(exist_ok=True)
        with TemporaryDirectory(dir=program.parent) as folder:
            made = Path(folder) / program.name
            subprocess.run([os.environ.get("CXX", "c++"), "-std=c++20", "-O2", "-o", made, source], check=True)
            made.replace(program)
    return program


@dataclass(frozen=True, slots=True)
class TileFlow:
    """A transfer of `bits` into one memory, or out of it, every `period` rounds.

    Partial sums that begin in these rounds bring back `revisited_bits`, as loops inside a round leave a tile and
    return.
    """

    period: int
    bits: int
    revisited_bits: int


@dataclass(frozen=True, slots=True)
class Movement:
    """Movement of one operand to each of `groups`, elements that need the same tile, and to the shared memory.

    An operand that bypasses the shared memory has no flow there.
    """

    groups: tuple[tuple[int, ...], ...]
    element: TileFlow
    shared: TileFlow | None


@dataclass(frozen=True, slots=True)
class ElementRounds:
    """A mapping as the network sees it; `outer` are the sizes of the loops outside, innermost first."""

    elements: int
    outer: tuple[Loop, ...]
    cycles: int
    movements: dict[str, Movement]

    @property
    def count(self) -> int:
        """Number of rounds of each element."""
        return prod(loop.size for loop in self.outer)

    def is_continued(self, round_number: int, period: int) -> bool:
        """Return True if an earlier round began the sums of a round: a reduction loop has advanced."""
        turned = 1
        for loop in self.outer:
            if turned >= period and loop.dimension not in RELEVANT[OUTPUT] and round_number // turned % loop.size:
                return True
            turned *= loop.size
        return False


def element_rounds(problem: LayerProblem, mapping: LayerMapping, *, has_refills: bool = True) -> ElementRounds:
    """Return the rounds of a mapping on elements below a shared memory.

    With `has_refills`, tiles that come and go within a round move each time; without, the data of a round moves once,
    as the authors of CoSA count, even if it does not fit.

    Raises InputError for a machine without such elements, and for a mapping with other tiles.
    """
    shared, own = _levels(problem)
    along = element_dimensions(problem)
    mapping, layer = mapping.without_loops_of_one(), mapping.layer(problem.layer)
    names = {level.memory.name for level in own}
    inside = max((_cut(operand, names, mapping) for operand in layer.operands), default=0)
    outer = tuple(loop for loop in mapping.nest[inside:] if loop.along is None)
    beside = tuple(loop for loop in mapping.nest if loop.along in along)
    digits = [tuple(reversed(one)) for one in product(*(range(loop.size) for loop in reversed(beside)))]
    movements: dict[str, Movement] = {}
    for operand in layer.operands:
        cut = _cut(operand, names, mapping)
        own_loops = [loop for loop in mapping.nest if loop.along is not None and loop.along not in along]
        held = _cut(operand, {shared.memory.name}, mapping)
        if not has_refills:
            cut, held = max(cut, inside), max(held, inside)
        element = _flow(layer, operand, mapping, cut, inside, own_loops)
        all_along = [loop for loop in mapping.nest if loop.along is not None]
        is_shared = any(kept.memory == shared.memory.name for kept in mapping.kept(operand))
        flow = _flow(layer, operand, mapping, max(held, cut), inside, all_along) if is_shared else None
        movements[operand] = Movement(_groups(operand, beside, digits), element, flow)
    cycles = prod(loop.size for loop in mapping.nest[:inside] if loop.along is None)
    return ElementRounds(len(digits), outer, cycles, movements)


def element_dimensions(problem: LayerProblem) -> set[str]:
    """Return the dimensions of the array along which elements lie: those that no memory below the shared one serves.

    Raises InputError for a machine without such elements.
    """
    shared, own = _levels(problem)
    array = problem.accelerator.array
    sizes = set(array.sizes) if array is not None else set()
    return sizes.difference(*(level.serves or () for level in own)) & set(shared.serves or sizes)


def _flow(
    layer: Layer, operand: str, mapping: LayerMapping, cut: int, inside: int, side_by_side: list[Loop]
) -> TileFlow:
    """Return the flow of the tile within the first `cut` loops, which moves when a related outer loop advances."""
    tile = _bits(layer, operand, [*(loop for loop in mapping.nest[:cut] if loop.along is None), *side_by_side])
    turning = [loop for loop in mapping.nest[cut:] if loop.along is None]
    first = 0
    while first < len(turning) and turning[first].dimension not in RELEVANT[operand]:
        first += 1
    in_round = len([loop for loop in mapping.nest[cut : max(cut, inside)] if loop.along is None])
    if first >= in_round:
        below = [loop for loop in mapping.nest[inside:cut] if loop.along is None]
        return TileFlow(prod(loop.size for loop in (*below, *turning[in_round:first])), tile, 0)
    again = turning[first:in_round]
    moved = prod(loop.size for loop in again)
    different = prod(loop.size for loop in again if loop.dimension in RELEVANT[operand])
    return TileFlow(1, tile * moved, tile * (moved - different))


def _levels(problem: LayerProblem) -> tuple[MemoryLevel, tuple[MemoryLevel, ...]]:
    levels, array = problem.accelerator.levels, problem.accelerator.array
    addressed = {level.memory.name for level in problem.accelerator.addressed}
    own = tuple(level for level in levels if level.memory.name not in addressed)
    if array is None or not own or len(own) + 1 != len(levels) or levels[-1].memory.name not in addressed:
        what = f"accelerator {problem.accelerator.name!r} has no elements with memories of their own"
        raise InputError(what, place=PLACE, expected="one shared memory above all others, as of simba")
    return levels[-1], own


def _cut(operand: str, memories: set[str], mapping: LayerMapping) -> int:
    """Return the loops within a tile of the outermost of some memories, up to the last that selects other data."""
    most = max((kept.loops for kept in mapping.kept(operand) if kept.memory in memories), default=0)
    related = (index for index in range(most) if mapping.nest[index].dimension in RELEVANT[operand])
    return max((index + 1 for index in related if mapping.nest[index].along is None), default=0)


def _groups(operand: str, beside: tuple[Loop, ...], digits: list[tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
    groups: dict[tuple[int, ...], list[int]] = {}
    for element, own in enumerate(digits):
        related = zip(beside, own, strict=True)
        key = tuple(digit for loop, digit in related if loop.dimension in RELEVANT[operand])
        groups.setdefault(key, []).append(element)
    return tuple(map(tuple, groups.values()))


def _bits(layer: Layer, operand: str, loops: list[Loop]) -> int:
    sizes = {name: prod(loop.size for loop in loops if loop.dimension == name) for name in RELEVANT[operand]}
    bits = layer.partial_bits if operand == OUTPUT else layer.bits(operand)
    return bits * layer.elements_within(operand, sizes)


MOVED: Final = (OUTPUT, INPUT, WEIGHT)
"""Order of the operands within a round."""


def tasks_of(rounds: ElementRounds, first_rounds: int) -> list[TrafficTask]:
    """Return what happens in the first rounds of a mapping, on CoSA's network."""
    made = _Tasks(rounds)
    for round_number in range(first_rounds):
        made.add_round(round_number)
    return made.tasks


def reduction_chain(elements: Sequence[int], columns: int = COSA_NETWORK.columns) -> list[tuple[int, int]]:
    """Return senders and receivers of partial sums: along each row, then between the rows' last elements."""
    rows: dict[int, list[int]] = {}
    for element in sorted(elements):
        rows.setdefault(element // columns, []).append(element)
    across = [pair for row in rows.values() for pair in pairwise(row)]
    lasts = [row[-1] for row in rows.values()]
    return across + list(pairwise(lasts))


@dataclass(slots=True)
class _Tasks:
    """Builds the tasks round by round; lists of numbers are tasks that later tasks wait for."""

    rounds: ElementRounds
    network: MeshNetwork = COSA_NETWORK
    tasks: list[TrafficTask] = field(default_factory=list)
    _computed: list[list[int]] = field(default_factory=list)
    _given_away: list[dict[int, list[int]]] = field(default_factory=list)
    _came: dict[tuple[str, int], int] = field(default_factory=dict)
    _loaded: dict[str, int] = field(default_factory=dict)
    _used_up: dict[str, list[int]] = field(default_factory=dict)
    _stored: list[int] = field(default_factory=list)
    _written: list[int] = field(default_factory=list)

    def add_round(self, round_number: int) -> None:
        for operand, movement in self.rounds.movements.items():
            if movement.shared is not None:
                self._load(operand, movement.shared, round_number)
        for operand in MOVED:
            if operand in self.rounds.movements:
                self._send_to_elements(operand, round_number)
        self._compute()
        self._give_away(round_number)
        self._store(round_number)
        for operand, movement in self.rounds.movements.items():
            if movement.shared is not None and (round_number + 1) % movement.shared.period == 0:
                self._used_up.setdefault(operand, []).append(self._barrier(self._computed[-1]))

    def _load(self, operand: str, flow: TileFlow, round_number: int) -> None:
        """Load from DRAM into the global buffer, which holds two tiles, once the tile before last is computed."""
        bits = self._bits(operand, flow, round_number)
        if not bits:
            return
        generation, used_up = round_number // flow.period, self._used_up.get(operand, [])
        waits = [used_up[generation - 2]] if generation >= 2 else []
        waits += self._written if operand == OUTPUT else []
        self._loaded[operand] = self._send(COSA_DRAM, (COSA_BUFFER,), bits, waits)

    def _send_to_elements(self, operand: str, round_number: int) -> None:
        """Send once to all elements that need the same tile, once they have computed the round before last."""
        movement = self.rounds.movements[operand]
        bits = self._bits(operand, movement.element, round_number)
        if not bits:
            return
        source = COSA_DRAM if movement.shared is None else COSA_BUFFER
        ready = [self._loaded[operand]] if operand in self._loaded else []
        ready += self._stored if operand == OUTPUT else []
        for group in movement.groups:
            before = [self._computed[-2][element] for element in group] if len(self._computed) > 1 else []
            sent = self._send(source, group, bits, [*before, *ready])
            for element in group:
                self._came[operand, element] = sent

    def _bits(self, operand: str, flow: TileFlow, round_number: int) -> int:
        """Return the bits to bring before a round: none of partial sums that begin in it, unless they return."""
        if round_number % flow.period:
            return 0
        is_begun = operand == OUTPUT and not self.rounds.is_continued(round_number, flow.period)
        return flow.revisited_bits if is_begun else flow.bits

    def _compute(self) -> None:
        """Compute once all operands have arrived and the sums of two rounds before have left."""
        computed: list[int] = []
        for element in range(self.rounds.elements):
            waits = [self._came[operand, element] for operand in MOVED if (operand, element) in self._came]
            waits += [self._computed[-1][element]] if self._computed else []
            waits += self._given_away[-2].get(element, []) if len(self._given_away) > 1 else []
            computed.append(self._add(TaskKind.COMPUTE, element, self.rounds.cycles, (), waits))
        self._computed = [*self._computed[-1:], computed]

    def _give_away(self, round_number: int) -> None:
        """Add up sums along the elements that share them, and send these to the global buffer, or else to DRAM."""
        movement, given = self.rounds.movements[OUTPUT], dict[int, list[int]]()
        self._given_away = [*self._given_away[-1:], given]
        if (round_number + 1) % movement.element.period:
            return
        computed, arrived = self._computed[-1], dict[int, list[int]]()
        for group in movement.groups:
            for source, target in reduction_chain(group):
                sent = self._send(
                    source, (target,), movement.element.bits, [computed[source], *arrived.get(source, [])]
                )
                arrived.setdefault(target, []).append(sent)
                given.setdefault(source, []).append(sent)
        summed = self._barrier([*computed, *(one for some in arrived.values() for one in some), *self._stored])
        target = COSA_DRAM if movement.shared is None else COSA_BUFFER
        stored: list[int] = []
        for group in movement.groups:
            chain = reduction_chain(group)
            last = chain[-1][1] if chain else group[0]
            stored.append(self._send(last, (target,), movement.element.bits, [summed]))
            given.setdefault(last, []).append(stored[-1])
        self._stored = [self._barrier(stored)]

    def _store(self, round_number: int) -> None:
        """Store from the global buffer to DRAM once the buffer's tile of sums is complete or must make room."""
        flow = self.rounds.movements[OUTPUT].shared
        if flow is not None and (round_number + 1) % flow.period == 0:
            self._written = [self._send(COSA_BUFFER, (COSA_DRAM,), flow.bits, self._stored)]

    def _send(self, source: int, receivers: tuple[int, ...], bits: int, waits_for: Iterable[int]) -> int:
        return self._add(TaskKind.SEND, source, self.network.packets(bits), receivers, waits_for)

    def _barrier(self, waits_for: Iterable[int]) -> int:
        return self._add(TaskKind.BARRIER, None, 0, (), waits_for)

    def _add(
        self, kind: TaskKind, actor: int | None, size: int, receivers: tuple[int, ...], waits_for: Iterable[int]
    ) -> int:
        self.tasks.append(TrafficTask(kind, actor, size, receivers, tuple(dict.fromkeys(waits_for))))
        return len(self.tasks) - 1


def floor_of_rounds(rounds: ElementRounds, network: MeshNetwork = COSA_NETWORK) -> int:
    """Return a lower bound in cycles on the simulation of all rounds of a mapping.

    An endpoint does one task at a time. Its work bounds the time, together with the tasks that must precede its first
    task and follow its last one.
    """

    def packets(bits: int) -> int:
        return network.packets(bits) if bits else 0

    def brought(operand: str, flow: TileFlow) -> int:
        """Return the packets of all rounds; of partial sums, those continued and those that return within a round."""
        times = -(-rounds.count // flow.period)
        if operand != OUTPUT:
            return times * packets(flow.bits)
        begun, turned = 1, 1
        for loop in rounds.outer:
            begun *= loop.size if turned >= flow.period and loop.dimension in RELEVANT[OUTPUT] else 1
            turned *= loop.size
        return (times - begun) * packets(flow.bits) + begun * packets(flow.revisited_bits)

    flits, reading = network.packet_flits, cycles_of_a_read(network)
    moved, sums = rounds.movements.items(), rounds.movements[OUTPUT]
    given = packets(sums.element.bits)
    times = rounds.count // sums.element.period
    stored_last = 0 if sums.shared is None else packets(sums.shared.bits)
    stored = 0 if sums.shared is None else stored_last * (rounds.count // sums.shared.period)
    first = sum(packets((one.shared or one.element).bits) for operand, one in moved if operand != OUTPUT)
    to_elements = {operand: len(one.groups) * brought(operand, one.element) for operand, one in moved}
    to_shared = {operand: brought(operand, one.shared) for operand, one in moved if one.shared is not None}
    read_from_dram = sum(to_shared.get(operand, bits) for operand, bits in to_elements.items())
    received = sum(to_shared.values()) + (0 if sums.shared is None else len(sums.groups) * given * times)
    return max(
        reading * read_from_dram + rounds.cycles + flits * (given + stored_last),
        reading * first + rounds.count * rounds.cycles + flits * (given * times + stored_last),
        flits * (stored + sum(to_elements[operand] for operand in to_shared)),
        flits * (received + stored_last),
    )


def cycles_of_a_read(network: MeshNetwork) -> int:
    """Return the cycles in which DRAM reads a packet."""
    return max(network.endpoints[COSA_DRAM].read_cycles + 1, network.packet_flits)


MOST_ROUNDS: Final = 4096
"""Limit on simulated rounds of a mapping."""


@dataclass(frozen=True, slots=True)
class LayerOnNetwork:
    """A mapping's run; `flit_hops` and `dram_packets` belong to the simulated rounds.

    `cycles` extrapolate the second half of a partial simulation, and are at least the lower bound of all rounds. An
    element computes for `compute_cycles` in all rounds.
    """

    cycles: int
    compute_cycles: int
    rounds: int
    rounds_simulated: int
    flit_hops: int
    dram_packets: int


def layer_on_network(
    problem: LayerProblem, mapping: LayerMapping, most_rounds: int = MOST_ROUNDS, *, has_refills: bool = True
) -> LayerOnNetwork:
    """Simulate a mapping; `has_refills` is as in `element_rounds`.

    Raises InputError for a mapping that uses more than 16 elements, or a machine without one shared memory above them.
    """
    rounds = element_rounds(problem, mapping, has_refills=has_refills)
    if rounds.elements > COSA_ELEMENTS:
        detail = f"the mapping uses {rounds.elements} elements"
        raise InputError(detail, place=PLACE, expected=f"at most {COSA_ELEMENTS}")
    simulated = min(rounds.count, max(most_rounds, 2))
    tasks = tasks_of(rounds, simulated)
    run = run_tasks(COSA_NETWORK, tasks)
    cycles: float = run.cycles
    if simulated < rounds.count:
        # element 0 computes once in each round; the later half of the rounds is typical of those left out
        ends = [
            end for task, end in zip(tasks, run.ends, strict=True) if task.kind is TaskKind.COMPUTE and task.actor == 0
        ]
        half = simulated // 2
        going_on = (rounds.count - simulated) * (ends[simulated - 1] - ends[half - 1]) / (simulated - half)
        cycles = max(cycles + going_on, floor_of_rounds(rounds))
    dram = sum(one.size for one in tasks if one.kind is TaskKind.SEND and COSA_DRAM in (one.actor, *one.receivers))
    return LayerOnNetwork(round(cycles), rounds.count * rounds.cycles, rounds.count, simulated, run.flit_hops, dram)
