"""Better places by the schedule's own figures: maps stay on the chip from where they are written to who reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from onchip.arch.memory import MemoryLevel, Operand
from onchip.ir.graph import Graph
from onchip.ir.tensor import Role, Tensor
from onchip.solve.run.limits import Run
from onchip.solve.schedule.composition import Composer, Composition, NoMappingError
from onchip.solve.schedule.places import Places


@dataclass(frozen=True, slots=True)
class Placed:
    """Places, the schedule composed from them, and its objective value."""

    places: Places
    composition: Composition
    value: int


@dataclass(frozen=True, slots=True)
class Stay:
    """A tensor lies in one memory from the stack that writes it (None: it comes from DRAM) to those that read it."""

    tensor: str
    writer: int | None
    readers: frozenset[int]
    memory: str | None

    def applied(self, places: Places) -> Places:
        """Places with this tensor there."""
        return places.with_map(self.tensor, self.writer, self.readers, self.memory)


@dataclass(slots=True)
class Improver:
    """Tries where each map may stay, the largest first, and keeps what is better, until nothing is."""

    network: Graph
    stack_of: Mapping[str, int]
    levels: Sequence[MemoryLevel]
    composer: Composer
    value_of: Callable[[Composition], int]
    run: Run
    lower_bound: int

    def improved(self, start: Placed) -> Placed:
        """The best found before the run has to stop; what would take as long as is left is not begun."""
        best, is_better, longest = start, True, 0.0
        stays = sorted(self._stays(), key=lambda stay: -self._weight(stay))
        while is_better and self.run.stop is None:
            is_better = False
            for stay in stays:
                if self.run.stop is not None or self.run.seconds_left < longest:
                    return best
                begun = self.run.seconds
                found = self._tried(stay.applied(best.places))
                longest = max(longest, self.run.seconds - begun)
                if found is not None and found.value < best.value:
                    best, is_better = found, True
                    self.run.report(best.value, self.lower_bound, f"keep {stay.tensor!r} in {stay.memory or 'DRAM'}")
        return best

    def _tried(self, places: Places) -> Placed | None:
        try:
            composition = self.composer.composed(places)
        except NoMappingError:
            return None
        return Placed(places, composition, self.value_of(composition))

    def _stays(self) -> Iterator[Stay]:
        """Every map in every memory that holds it, for its first readers, one more at a time, and for none."""
        for tensor in self.network.tensors:
            producer = self.network.producer.get(tensor.name)
            writer = None if producer is None else self.stack_of[producer.name]
            readers = sorted({self.stack_of[one.name] for one in self.network.readers[tensor.name]})
            memories = [level.memory.name for level in self.levels if _may_hold(level, tensor)]
            yield Stay(tensor.name, writer, frozenset(readers), None)
            for memory in memories:
                for count in range(1, len(readers) + 1):
                    yield Stay(tensor.name, writer, frozenset(readers[:count]), memory)

    def _weight(self, stay: Stay) -> int:
        return self.network.tensor[stay.tensor].size_bytes * len(stay.readers)


def _may_hold(level: MemoryLevel, tensor: Tensor) -> bool:
    """Parameters where weights may be; maps that somebody writes and somebody reads where both may be."""
    if tensor.role is Role.PARAMETER:
        return Operand.WEIGHT in level.memory.holds
    needed = {Operand.INPUT} if tensor.role is Role.INPUT else {Operand.INPUT, Operand.OUTPUT}
    return needed <= set(level.memory.holds)
