"""Better places by the schedule's own figures: maps stay on the chip from where they are written to who reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

from onchip.arch.memory import MemoryLevel, Operand
from onchip.ir.graph import Graph
from onchip.ir.tensor import Role, Tensor
from onchip.scheduling.program.composition import Composer, Composition, NoMappingError
from onchip.scheduling.program.places import Places
from onchip.search.budget.limits import Run

SHAKES_IN_VAIN: Final = 40
"""At least so many one after the other without a better schedule, and as many as there are stays, and it is enough."""
MOST_MOVED_AT_ONCE: Final = 4
"""Maps: with more, hardly anything is as it was."""


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

    @property
    def span(self) -> tuple[int, int]:
        """Return the first and the last stack that the tensor is on the chip for, or would be."""
        stacks = (*self.readers, *(() if self.writer is None else (self.writer,)))
        return min(stacks), max(stacks)

    def applied(self, places: Places) -> Places:
        """Places with this tensor there."""
        return places.with_map(self.tensor, self.writer, self.readers, self.memory)


@dataclass(slots=True)
class Improver:
    """Tries where each map may stay, the largest first, again and again, and keeps what is better.

    `best` is the best so far. It is over when nothing is better any more.
    """

    network: Graph
    composer: Composer
    value_of: Callable[[Composition], int]
    lower_bound: int
    best: Placed
    _stays: Sequence[Stay] = field(init=False)
    _next: int = field(default=0, init=False)
    _in_vain: int = field(default=0, init=False)
    """How many stays one after the other were no better."""
    _longest: float = field(default=0.0, init=False)
    """Of all places tried since it was last asked to improve or to shake, in seconds."""
    _chance: Random = field(default_factory=lambda: Random(0), init=False)

    def __post_init__(self) -> None:
        self._stays = sorted(self._all_stays(), key=lambda stay: -self._weight(stay))

    @property
    def is_over(self) -> bool:
        """Whether no single stay makes the best one better."""
        return self._in_vain >= len(self._stays)

    def begin_again(self) -> None:
        """What was in vain may not be any more: mappings are better known."""
        self._next = self._in_vain = 0

    def consider(self, places: Places, run: Run) -> None:
        """These places are the best from now on, if they are."""
        found = self._tried(places, run)
        if found is not None and found.value < self.best.value:
            self.best, self._in_vain = found, 0

    def improve(self, run: Run) -> None:
        """Until it is over or the run has to stop; what would take as long as is left is not begun."""
        self._longest = 0.0
        while not self.is_over and run.stop is None and run.seconds_left >= self._longest:
            stay = self._stays[self._next]
            self._next = (self._next + 1) % len(self._stays)
            self._in_vain += 1
            places = stay.applied(self.best.places)
            if places == self.best.places:
                continue
            found = self._tried(places, run)
            if found is not None and found.value < self.best.value:
                self.best, self._in_vain = found, 0
                run.report(found.value, self.lower_bound, f"keep {stay.tensor!r} in {stay.memory or 'DRAM'}")

    def shake(self, run: Run) -> None:
        """Move a few maps that are on the way at the same time at once, whatever that costs, and improve what is near.

        Again and again until as many as there are stays, and at least `SHAKES_IN_VAIN`, one after the other were no
        better, or the run has to stop.
        """
        in_vain, self._longest = 0, 0.0
        enough = max(SHAKES_IN_VAIN, len(self._stays))
        while self._stays and in_vain < enough and run.stop is None and run.seconds_left >= self._longest:
            found = self._shaken(run)
            in_vain += 1
            if found is not None and found.value < self.best.value:
                self.best, self._in_vain, in_vain = found, 0, 0
                run.report(found.value, self.lower_bound, "several maps moved at once")

    def _shaken(self, run: Run) -> Placed | None:
        """The best near another schedule than the best; None where no mapping fits."""
        first = self._chance.choice(self._stays)
        near = [stay for stay in self._stays if stay.span[0] <= first.span[1] and first.span[0] <= stay.span[1]]
        places = self.best.places
        for stay in (first, *self._chance.choices(near, k=self._chance.randint(1, MOST_MOVED_AT_ONCE - 1))):
            places = stay.applied(places)
        best = self._tried(places, run)
        self._chance.shuffle(near)
        is_better = best is not None
        while best is not None and is_better:
            is_better = False
            for stay in near:
                if run.stop is not None or run.seconds_left < self._longest:
                    return best
                places = stay.applied(best.places)
                found = self._tried(places, run) if places != best.places else None
                if found is not None and found.value < best.value:
                    best, is_better = found, True
        return best

    def _tried(self, places: Places, run: Run) -> Placed | None:
        begun = run.seconds
        try:
            composition = self.composer.composed(places)
            return Placed(places, composition, self.value_of(composition))
        except NoMappingError:
            return None
        finally:
            self._longest = max(self._longest, run.seconds - begun)

    def _all_stays(self) -> Iterator[Stay]:
        """Every map in every memory that holds it, for its first readers, one more at a time, and for none.

        An input that nobody reads lies nowhere.
        """
        stacks = self.composer.stacks
        stack_of = {name: number for number, one in enumerate(stacks) for name in one.operators}
        for tensor in self.network.tensors:
            producer = self.network.producer.get(tensor.name)
            writer = None if producer is None else stack_of[producer.name]
            readers = sorted({stack_of[one.name] for one in self.network.readers[tensor.name]})
            users = {*readers, *(() if writer is None else (writer,))}
            if not users:
                continue
            yield Stay(tensor.name, writer, frozenset(readers), None)
            is_whole = all(stacks[number].tiling is None for number in users)
            for level in self.composer.accelerator.addressed:
                if _may_hold(level, tensor) and not (is_whole and tensor.size_bytes > level.memory.capacity_bytes):
                    for count in range(1, len(readers) + 1):
                        yield Stay(tensor.name, writer, frozenset(readers[:count]), level.memory.name)

    def _weight(self, stay: Stay) -> int:
        return self.network.tensor[stay.tensor].size_bytes * len(stay.readers)


def _may_hold(level: MemoryLevel, tensor: Tensor) -> bool:
    """Parameters where weights may be; maps that somebody writes and somebody reads where both may be."""
    if tensor.role is Role.PARAMETER:
        return Operand.WEIGHT in level.memory.holds
    needed = {Operand.INPUT} if tensor.role is Role.INPUT else {Operand.INPUT, Operand.OUTPUT}
    return needed <= set(level.memory.holds)
