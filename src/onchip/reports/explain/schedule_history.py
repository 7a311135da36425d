"""The memories while a legal schedule runs: residencies, free capacity, movements and their reasons."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from onchip.answer.layer_mapping import LayerMapping, Move
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import FEMTO_PER_PICO
from onchip.answer.program import Compute, Residency, Transfer, residencies_of, transfers_of
from onchip.answer.schedule import Homes, Schedule
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, Direction, Memory, Operand
from onchip.ir.layer import Layer
from onchip.ir.tensor import Role, Tensor
from onchip.model.layer.cost import energy_pj, layer_cost, stated_access
from onchip.model.program.compute_cost import ComputeCost, CopyPrices, MemoryRates, resident_bytes
from onchip.model.program.figures import homes_of_computes
from onchip.ops.nests import BandedOperand
from onchip.reports.explain.history import bytes_per_step
from onchip.scheduling.program.runs import NestPlace, Step, step_of
from onchip.transform.groups.tile_graph import TileGraph


@dataclass(frozen=True)
class ScheduleHistory:
    """Facts of a legal schedule, for drawing; step k is the slot of the program's Compute number k.

    A residency in the steps [k, l) begins after Compute k-1 and ends after Compute l-1.
    """

    schedule: Schedule
    tiles: TileGraph
    accelerator: Accelerator
    compute_costs: Mapping[str, ComputeCost]

    @cached_property
    def operators(self) -> tuple[str, ...]:
        """Tile operators in execution order."""
        return tuple(one.operator for one in self.schedule.program.instructions if isinstance(one, Compute))

    @cached_property
    def residencies(self) -> tuple[Residency, ...]:
        """Residencies of tensors and workspaces, in the order of their beginnings."""
        return residencies_of(self.schedule.program, self.tiles.graph, self.size_bytes)

    @cached_property
    def copies(self) -> tuple[Transfer, ...]:
        """Copies in the program's order."""
        return transfers_of(self.schedule.program, self.tiles.graph)

    @cached_property
    def nest_places(self) -> Mapping[str, tuple[NestPlace, ...]]:
        """Map from tile operator to its loop nests and their operand placements, which select its mappings."""
        return {
            name: tuple(self.steps[name].nest_places(homes)) if self.steps[name].nests else ()
            for name, homes in self.homes.items()
        }

    @cached_property
    def tensors_in_dram(self) -> frozenset[str]:
        """Network tensors with a part that is streamed, or copied from or to DRAM."""
        tensors = self.tiles.graph.tensor
        copied = (tensors[one.tensor] for one in self.copies if DRAM in (one.source, one.target))
        streamed = (
            band
            for name, homes in self.homes.items()
            for operand, home in zip(self.steps[name].operands, homes, strict=True)
            for band in operand.bands
            if home is None
        )
        return frozenset(one.part_of or one.name for one in (*copied, *streamed))

    @cached_property
    def steps(self) -> Mapping[str, Step]:
        """Return for each tile operator its nests and operands."""
        return {one.name: step_of(self.tiles, one) for one in self.tiles.graph.operators}

    @cached_property
    def homes(self) -> Mapping[str, tuple[str | None, ...]]:
        """Map from tile operator, in execution order, to the homes of its operands; None is DRAM."""
        operands = {name: step.operands for name, step in self.steps.items()}
        return dict(homes_of_computes(self.accelerator.addressed, self.schedule.program, operands))

    @cached_property
    def mappings(self) -> Mapping[tuple[int, Layer, Homes], LayerMapping]:
        """Map from stack, layer and homes to the mapping of a loop nest."""
        return {(one.stack, one.layer, one.homes): one.mapping for one in self.schedule.mappings}

    @property
    def step_count(self) -> int:
        """Number of tile operators that run."""
        return len(self.operators)

    def size_bytes(self, tensor: str, memory: str) -> int:
        """Return the bytes of a tensor, or of a workspace, in a memory."""
        return resident_bytes(self.tiles.graph, self.compute_costs, tensor, memory)

    def role(self, tensor: str) -> str:
        """Return the tensor's role, or `workspace`."""
        return str(self.tiles.graph.tensor[tensor].role) if tensor in self.tiles.graph.tensor else "workspace"

    def footprint(self, memory: str) -> Mapping[str, Sequence[int]]:
        """Map each role to the bytes resident in a memory in each step."""
        found: dict[str, list[Residency]] = defaultdict(list)
        for one in self.residencies:
            if one.memory == memory:
                found[self.role(one.tensor)].append(one)
        return {role: bytes_per_step(ones, self.step_count) for role, ones in found.items()}


@dataclass(frozen=True, slots=True)
class Crowding:
    """A tensor of `need_bytes` next to `others_bytes` in `memory`, in the fullest of the steps in question."""

    memory: Memory
    step: int
    need_bytes: int
    others_bytes: int

    @property
    def missing_bytes(self) -> int:
        """Number of bytes that do not fit; 0 or less if all fit."""
        return self.need_bytes + self.others_bytes - self.memory.capacity_bytes

    @property
    def is_too_large(self) -> bool:
        """True if the tensor alone exceeds the capacity."""
        return self.need_bytes > self.memory.capacity_bytes


@dataclass(frozen=True)
class RoomOverTime:
    """The bytes resident in each addressed memory of a schedule, step by step; addresses are not looked at."""

    history: ScheduleHistory

    def crowding(
        self, operand: Operand, sizes_bytes: Mapping[str, int], start_step: int, stop_step: int
    ) -> Crowding | None:
        """Return the memory in which these tensors fit best over steps [start, stop), or None if none may hold them.

        Residencies of the tensors themselves do not count as taken.
        """
        holding = [one.memory for one in self.history.accelerator.addressed if operand in one.memory.holds]
        found = [self._in(memory, sizes_bytes, start_step, stop_step) for memory in holding]
        return min(found, key=lambda one: one.missing_bytes, default=None)

    def others(self, crowding: Crowding, own: Iterable[str]) -> Sequence[Residency]:
        """Return the other residencies in the memory in that step, the largest first."""
        apart = set(own)
        there = [
            one
            for one in self._by_memory[crowding.memory.name]
            if one.start_step <= crowding.step < one.stop_step and one.tensor not in apart
        ]
        return sorted(there, key=lambda one: (-one.size_bytes, one.start_instruction))

    def _in(self, memory: Memory, sizes_bytes: Mapping[str, int], start_step: int, stop_step: int) -> Crowding:
        taken = self._footprints[memory.name][start_step:stop_step].copy()
        for tensor in sizes_bytes:
            for one in self._by_tensor.get((tensor, memory.name), ()):
                inside = slice(max(one.start_step - start_step, 0), max(one.stop_step - start_step, 0))
                taken[inside] -= one.size_bytes
        fullest = int(taken.argmax())
        return Crowding(memory, start_step + fullest, sum(sizes_bytes.values()), int(taken[fullest]))

    @cached_property
    def _by_memory(self) -> Mapping[str, Sequence[Residency]]:
        found: dict[str, list[Residency]] = defaultdict(list)
        for one in self.history.residencies:
            found[one.memory].append(one)
        return found

    @cached_property
    def _by_tensor(self) -> Mapping[tuple[str, str], Sequence[Residency]]:
        found: dict[tuple[str, str], list[Residency]] = defaultdict(list)
        for one in self.history.residencies:
            found[one.tensor, one.memory].append(one)
        return found

    @cached_property
    def _footprints(self) -> Mapping[str, npt.NDArray[np.int64]]:
        """Map from memory to the bytes resident in each step, shape (steps,)."""
        names = [level.memory.name for level in self.history.accelerator.addressed]
        return {
            name: np.array(bytes_per_step(self._by_memory.get(name, ()), self.history.step_count)) for name in names
        }


_READS: Final = (Move.READ_FOR_BELOW, Move.READ_FOR_ABOVE)

_FROM_OUTSIDE: Final = (Role.INPUT, Role.PARAMETER)


class MovementKind(StrEnum):
    """Kind of a movement: a Copy, or an operand that a mapping streams.

    A RELOAD loads a tensor that was on the chip before. WRITE stores a network output, SPILL another tensor. A MOVE
    stays on the chip.
    """

    LOAD = "load"
    RELOAD = "reload"
    WRITE = "write"
    SPILL = "spill"
    MOVE = "move"
    STREAMED_IN = "streamed in"
    STREAMED_OUT = "streamed out"


class MovementReason(StrEnum):
    """Reason for a movement from or to DRAM.

    NEEDED: first read of an input or parameter, or the write of an output. NOT_HELD: no addressed memory may hold it.
    TOO_LARGE: larger than each that may. NO_ROOM: does not fit next to the other residents. CHOSEN: would fit by its
    bytes. MOVED: bypasses DRAM.
    """

    NEEDED = "needed"
    NOT_HELD = "not held"
    TOO_LARGE = "too large"
    NO_ROOM = "no room"
    CHOSEN = "chosen"
    MOVED = "moved"


@dataclass(frozen=True, slots=True)
class TensorMovement:
    """Bits of `bands`, parts of the network's `tensor`, move after `step` operators.

    `operator` is the tile operator that streams them or, of a Copy, the next one; of a Copy to DRAM the last one.
    `energy_pj` is that of the Copy, or of a streamed operand that at DRAM, None if it is unknown. `crowding` says in
    which memory, and in which step, there is least against keeping it on the chip instead; None where nothing is to be
    said.
    """

    tensor: str
    bands: tuple[str, ...]
    kind: MovementKind
    step: int
    operator: str
    source: str
    target: str
    bits: int
    energy_pj: float | None
    reason: MovementReason
    crowding: Crowding | None = None


@dataclass(frozen=True)
class ScheduleMovements:
    """Finds all movements of a legal schedule; `room` says what there would have been room for."""

    history: ScheduleHistory

    @cached_property
    def room(self) -> RoomOverTime:
        """Free capacity in each step."""
        return RoomOverTime(self.history)

    @cached_property
    def all(self) -> tuple[TensorMovement, ...]:
        """Copies and streamed operands in the order of steps, Copies before the Compute of their step."""
        moved: list[Transfer | StreamedOperand] = [*self.history.copies, *streamed_operands(self.history)]
        moved.sort(key=lambda one: (one.step, isinstance(one, StreamedOperand)))
        found: list[TensorMovement] = []
        read: set[str] = set()
        for one in moved:
            found += [self._copied(one, read)] if isinstance(one, Transfer) else self._streamed(one, read)
        return tuple(found)

    @cached_property
    def _prices(self) -> CopyPrices:
        return CopyPrices(self.history.accelerator)

    def _copied(self, copy: Transfer, read: set[str]) -> TensorMovement:
        tensor = self.history.tiles.graph.tensor[copy.tensor]
        is_parameter = tensor.role is Role.PARAMETER
        price = self._prices.of(tensor.size_bytes, copy.source, copy.target, is_parameter=is_parameter)
        kind = MovementKind(copy.kind)
        reason, crowding = self._why_copied(copy, tensor, kind, is_first=copy.tensor not in read)
        if copy.source == DRAM:
            read.add(copy.tensor)
        return TensorMovement(
            tensor.part_of or tensor.name,
            (tensor.name,),
            kind,
            copy.step,
            self._operator_of(copy),
            copy.source,
            copy.target,
            tensor.size_bytes * 8,
            None if price.stated_energy_fj is None else sum(price.access_pj.values()),
            reason,
            crowding,
        )

    def _why_copied(
        self, copy: Transfer, tensor: Tensor, kind: MovementKind, *, is_first: bool
    ) -> tuple[MovementReason, Crowding | None]:
        """Return the reason for a Copy: the band would have had to stay until its next reader runs."""
        if kind is MovementKind.MOVE:
            return MovementReason.MOVED, None
        if kind is MovementKind.WRITE or (tensor.role in _FROM_OUTSIDE and is_first):
            return MovementReason.NEEDED, None
        reader = self._next_reader(tensor.name, copy.step)
        if reader is None:
            return MovementReason.CHOSEN, None
        left = self._left(tensor.name, copy.step) if copy.source == DRAM else self._leaves(copy)
        stop = reader + 1 if copy.target == DRAM else max(copy.step, left + 1)
        operand = self._operand(reader, tensor.name)
        return self._why(operand, min(left, reader), min(stop, self.history.step_count))

    def _streamed(self, found: StreamedOperand, read: set[str]) -> Iterator[TensorMovement]:
        operand = found.operand
        reason, crowding = self._why(operand, found.step, found.step + 1)
        for moved in found.moved:
            is_read = moved.direction is Direction.READ
            is_needed = moved.bits <= operand.bits and _is_needed(operand, read, is_read=is_read)
            if is_read:
                read |= {band.name for band in operand.bands}
            yield TensorMovement(
                operand.tensor,
                tuple(band.name for band in operand.bands),
                MovementKind.STREAMED_IN if is_read else MovementKind.STREAMED_OUT,
                found.step,
                found.operator,
                DRAM if is_read else found.operator,
                found.operator if is_read else DRAM,
                moved.bits,
                moved.energy_pj,
                MovementReason.NEEDED if is_needed else reason,
                None if is_needed else crowding,
            )

    def _why(self, operand: BandedOperand, start_step: int, stop_step: int) -> tuple[MovementReason, Crowding | None]:
        """Return the reason why the bands of an operand are not all in one memory over the steps [start, stop)."""
        sizes = {band.name: band.size_bytes for band in operand.bands}
        crowding = self.room.crowding(operand.operand, sizes, start_step, stop_step)
        if crowding is None:
            return MovementReason.NOT_HELD, None
        if crowding.is_too_large:
            return MovementReason.TOO_LARGE, crowding
        return MovementReason.NO_ROOM if crowding.missing_bytes > 0 else MovementReason.CHOSEN, crowding

    def _operator_of(self, copy: Transfer) -> str:
        operators = self.history.operators
        return operators[min(max(copy.step - (copy.target == DRAM), 0), len(operators) - 1)]

    def _operand(self, step: int, band: str) -> BandedOperand:
        """Return the operand of a step's Compute that contains a band, or the band alone if it is not counted."""
        for operand in self.history.steps[self.history.operators[step]].operands:
            if operand.operand is not Operand.OUTPUT and any(one.name == band for one in operand.bands):
                return operand
        return BandedOperand(Operand.INPUT, (self.history.tiles.graph.tensor[band],))

    def _next_reader(self, band: str, step: int) -> int | None:
        steps = self._reading_steps.get(band, ())
        place = bisect_left(steps, step)
        return steps[place] if place < len(steps) else None

    def _left(self, band: str, step: int) -> int:
        """Return the step in which a loaded band last left the chip, or was written."""
        ends = self._ends.get(band, ())
        before = bisect_left(ends, step + 1)
        producer = self.history.tiles.graph.producer.get(band)
        written = 0 if producer is None else self._step_of[producer.name]
        return max(ends[before - 1] if before else 0, written)

    def _leaves(self, copy: Transfer) -> int:
        """Return the step in which a band copied to DRAM leaves the memory."""
        ends = self._ends.get(copy.tensor, ())
        place = bisect_left(ends, copy.step)
        return ends[place] if place < len(ends) else copy.step

    @cached_property
    def _step_of(self) -> Mapping[str, int]:
        return {name: step for step, name in enumerate(self.history.operators)}

    @cached_property
    def _reading_steps(self) -> Mapping[str, Sequence[int]]:
        readers = self.history.tiles.graph.readers
        return {name: sorted(self._step_of[one.name] for one in readers[name]) for name in readers}

    @cached_property
    def _ends(self) -> Mapping[str, Sequence[int]]:
        found: dict[str, list[int]] = defaultdict(list)
        for one in self.history.residencies:
            found[one.tensor].append(one.stop_step)
        return {name: sorted(steps) for name, steps in found.items()}


def _is_needed(operand: BandedOperand, read: set[str], *, is_read: bool) -> bool:
    """Return True for the one read of an input or parameter, or the one write of an output."""
    if is_read:
        return all(band.role in _FROM_OUTSIDE and band.name not in read for band in operand.bands)
    return all(band.role is Role.OUTPUT for band in operand.bands)


@dataclass(frozen=True, slots=True)
class StreamedBits:
    """Bits that DRAM reads, or writes, of one operand, and the picojoules of that at DRAM (None if unknown)."""

    direction: Direction
    bits: int
    energy_pj: float | None


@dataclass(frozen=True, slots=True)
class StreamedOperand:
    """An operand of the Compute of `step` without a home; `moved` has both directions for partial sums."""

    step: int
    operator: str
    operand: BandedOperand
    moved: tuple[StreamedBits, ...]


def streamed_operands(history: ScheduleHistory) -> Iterator[StreamedOperand]:
    """Yield every streamed operand of every Compute, in execution order; the cost model gives the moved bits."""
    known: dict[NestPlace, Mapping[Operand, tuple[StreamedBits, ...]]] = {}
    rates = MemoryRates(history.accelerator)
    for number, (name, homes) in enumerate(history.homes.items()):
        step, places = history.steps[name], history.nest_places[name]
        for place in places:
            if place not in known:
                known[place] = _streamed_by_nest(history, place)
        roles = (Operand.INPUT, *((Operand.WEIGHT,) if len(step.operands) > 2 else ()), Operand.OUTPUT)
        for at, (operand, home) in enumerate(zip(step.operands, homes, strict=True)):
            if home is not None:
                continue
            if places:
                moved = tuple(one for place in places for one in known[place].get(roles[at], ()))
            else:  # without a loop nest, each operand moves once
                direction = Direction.WRITE if operand.operand is Operand.OUTPUT else Direction.READ
                energy_fj = rates.stated_energy_fj(DRAM, direction, operand.bits)
                energy = None if energy_fj is None else float(energy_fj / FEMTO_PER_PICO)
                moved = (StreamedBits(direction, operand.bits, energy),)
            yield StreamedOperand(number, name, operand, moved)


def _streamed_by_nest(history: ScheduleHistory, place: NestPlace) -> Mapping[Operand, tuple[StreamedBits, ...]]:
    access = stated_access(history.accelerator, DRAM)
    problem = LayerProblem(place.layer, history.accelerator, place.homes, {}, place.weight_is_an_input)
    mapping = history.mappings[place.stack, place.layer, place.homes]
    found: dict[Operand, tuple[StreamedBits, ...]] = {}
    for one in layer_cost(problem, mapping).accesses:
        if one.memory == DRAM:
            direction = Direction.READ if one.move in _READS else Direction.WRITE
            energy = None if access is None else energy_pj(one, access)
            moved = StreamedBits(direction, one.elements * one.bits, energy)
            found[Operand(one.operand)] = (*found.get(Operand(one.operand), ()), moved)
    return found
