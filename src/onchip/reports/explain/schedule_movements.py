"""Why tensors of a schedule move: every Copy and every streamed operand, with what stands against staying."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Final

from onchip.answer.layer_mapping import LayerMapping, Move
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.residencies import Began
from onchip.answer.schedule import Homes
from onchip.arch.memory import DRAM, Direction, Operand
from onchip.ir.layer import Layer
from onchip.ir.tensor import Role, Tensor
from onchip.model.layer.cost import energy_pj, layer_cost, stated_access
from onchip.model.program.copies import CopyPrices
from onchip.model.program.rates import FEMTOJOULES_PER_PICOJOULE, MemoryRates
from onchip.ops.derive.banded_operands import BandedOperand
from onchip.reports.explain.schedule_history import ScheduleHistory, StepCopy
from onchip.reports.explain.schedule_room import Crowding, RoomOverTime
from onchip.scheduling.program.runs import NestPlace

_READS: Final = (Move.READ_FOR_BELOW, Move.READ_FOR_ABOVE)

_FROM_OUTSIDE: Final = (Role.INPUT, Role.PARAMETER)


class MovementKind(StrEnum):
    """How bytes move: by a Copy, or streamed by a mapping.

    A RELOAD is a load of what was on the chip before; WRITE is that of an output of the network, SPILL of anything
    else; a MOVE stays on the chip.
    """

    LOAD = "load"
    RELOAD = "reload"
    WRITE = "write"
    SPILL = "spill"
    MOVE = "move"
    STREAMED_IN = "streamed in"
    STREAMED_OUT = "streamed out"


class MovementReason(StrEnum):
    """Why a schedule moves bytes from or to DRAM.

    NEEDED: what comes from outside is read once, an output is written once. NOT_HELD: no addressed memory may hold it.
    TOO_LARGE: for each that may. NO_ROOM: beside what else lies there. CHOSEN: it would fit by its bytes. MOVED: it
    does not pass DRAM.
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
        """What lies where in each step."""
        return RoomOverTime(self.history)

    @cached_property
    def all(self) -> tuple[TensorMovement, ...]:
        """Every Copy and every streamed operand, in the order of steps, Copies before the Compute of their step."""
        moved: list[StepCopy | StreamedOperand] = [*self.history.copies, *StreamedOperands(self.history).found()]
        moved.sort(key=lambda one: (one.step, isinstance(one, StreamedOperand)))
        found: list[TensorMovement] = []
        read: set[str] = set()
        for one in moved:
            found += [self._copied(one, read)] if isinstance(one, StepCopy) else self._streamed(one, read)
        return tuple(found)

    @cached_property
    def _prices(self) -> CopyPrices:
        return CopyPrices(self.history.accelerator)

    def _copied(self, copy: StepCopy, read: set[str]) -> TensorMovement:
        """`read` are the bands that DRAM has handed out so far."""
        tensor = self.history.tiles.graph.tensor[copy.tensor]
        is_parameter = tensor.role is Role.PARAMETER
        price = self._prices.of(tensor.size_bytes, copy.source, copy.target, is_parameter=is_parameter)
        kind = self._kind(copy, tensor)
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
        self, copy: StepCopy, tensor: Tensor, kind: MovementKind, *, is_first: bool
    ) -> tuple[MovementReason, Crowding | None]:
        """A band that DRAM hands on, or gets, would have had to stay from where it was until its next reader runs."""
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
        """What stands against all bands of an operand lying in one memory over the steps [start, stop)."""
        sizes = {band.name: band.size_bytes for band in operand.bands}
        crowding = self.room.crowding(operand.operand, sizes, start_step, stop_step)
        if crowding is None:
            return MovementReason.NOT_HELD, None
        if crowding.is_too_large:
            return MovementReason.TOO_LARGE, crowding
        return MovementReason.NO_ROOM if crowding.missing_bytes > 0 else MovementReason.CHOSEN, crowding

    def _kind(self, copy: StepCopy, tensor: Tensor) -> MovementKind:
        if DRAM not in (copy.source, copy.target):
            return MovementKind.MOVE
        if copy.source == DRAM:
            filled = self.room.residency(copy.tensor, copy.target, copy.instruction)
            return MovementKind.RELOAD if filled.began is Began.RELOADED else MovementKind.LOAD
        return MovementKind.WRITE if tensor.role is Role.OUTPUT else MovementKind.SPILL

    def _operator_of(self, copy: StepCopy) -> str:
        """The tile operator that has run just before bytes leave the chip, or runs next."""
        operators = self.history.operators
        return operators[min(max(copy.step - (copy.target == DRAM), 0), len(operators) - 1)]

    def _operand(self, step: int, band: str) -> BandedOperand:
        """The operand of the Compute of a step that a band is a part of; by itself, if nothing of it is counted."""
        for operand in self.history.steps[self.history.operators[step]].operands:
            if operand.operand is not Operand.OUTPUT and any(one.name == band for one in operand.bands):
                return operand
        return BandedOperand(Operand.INPUT, (self.history.tiles.graph.tensor[band],))

    def _next_reader(self, band: str, step: int) -> int | None:
        steps = self._reading_steps.get(band, ())
        place = bisect_left(steps, step)
        return steps[place] if place < len(steps) else None

    def _left(self, band: str, step: int) -> int:
        """The step in which what is loaded before `step` was last there, or was written."""
        ends = self._ends.get(band, ())
        before = bisect_left(ends, step + 1)
        producer = self.history.tiles.graph.producer.get(band)
        written = 0 if producer is None else self._step_of[producer.name]
        return max(ends[before - 1] if before else 0, written)

    def _leaves(self, copy: StepCopy) -> int:
        """The step in which what is copied to DRAM leaves the memory."""
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
        """By band the steps in which its residencies end."""
        found: dict[str, list[int]] = defaultdict(list)
        for one in self.history.residencies:
            found[one.tensor].append(one.stop_step)
        return {name: sorted(steps) for name, steps in found.items()}


def _is_needed(operand: BandedOperand, read: set[str], *, is_read: bool) -> bool:
    """Whether these are the one read of what comes from outside, or the one write of an output."""
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
    """An operand of the Compute of `step` that has no home; `moved` may be both ways, of sums in the making."""

    step: int
    operator: str
    operand: BandedOperand
    moved: tuple[StreamedBits, ...]


@dataclass(frozen=True)
class StreamedOperands:
    """Finds the streamed operands of a schedule; what moves of each is the cost model's."""

    history: ScheduleHistory

    def found(self) -> Iterator[StreamedOperand]:
        """Yield every streamed operand of every Compute, in the order in which they run."""
        known: dict[NestPlace, Mapping[Operand, tuple[StreamedBits, ...]]] = {}
        for number, (name, homes) in enumerate(self.history.homes.items()):
            step, places = self.history.steps[name], self.history.nest_places[name]
            for place in places:
                if place not in known:
                    known[place] = self._of_nest(place)
            roles = (Operand.INPUT, *((Operand.WEIGHT,) if len(step.operands) > 2 else ()), Operand.OUTPUT)
            for at, (operand, home) in enumerate(zip(step.operands, homes, strict=True)):
                if home is not None:
                    continue
                if places:
                    moved = tuple(one for place in places for one in known[place].get(roles[at], ()))
                else:
                    moved = (self._once(operand),)
                yield StreamedOperand(number, name, operand, moved)

    def _once(self, operand: BandedOperand) -> StreamedBits:
        """An operator without a nest moves each operand once."""
        direction = Direction.WRITE if operand.operand is Operand.OUTPUT else Direction.READ
        energy_fj = self._rates.stated_energy_fj(DRAM, direction, operand.bits)
        energy = None if energy_fj is None else float(energy_fj / FEMTOJOULES_PER_PICOJOULE)
        return StreamedBits(direction, operand.bits, energy)

    def _of_nest(self, place: NestPlace) -> Mapping[Operand, tuple[StreamedBits, ...]]:
        accelerator = self.history.accelerator
        access = stated_access(accelerator, DRAM)
        problem = LayerProblem(place.layer, accelerator, place.homes, {}, place.weight_is_an_input)
        mapping = self._mappings[place.stack, place.layer, place.homes]
        found: dict[Operand, tuple[StreamedBits, ...]] = {}
        for one in layer_cost(problem, mapping).accesses:
            if one.memory == DRAM:
                direction = Direction.READ if one.move in _READS else Direction.WRITE
                energy = None if access is None else energy_pj(one, access)
                moved = StreamedBits(direction, one.elements * one.bits, energy)
                found[Operand(one.operand)] = (*found.get(Operand(one.operand), ()), moved)
        return found

    @cached_property
    def _mappings(self) -> Mapping[tuple[int, Layer, Homes], LayerMapping]:
        return {(one.stack, one.layer, one.homes): one.mapping for one in self.history.schedule.mappings}

    @cached_property
    def _rates(self) -> MemoryRates:
        return MemoryRates(self.history.accelerator)
