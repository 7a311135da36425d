"""Moves of placement: each tensor stays on chip for some of its readers, in one of the memories that may hold it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final, Protocol, TypeAlias

from onchip.arch.memory import MemoryLevel, Operand
from onchip.ir.graph import Graph
from onchip.ir.tensor import Role, Tensor
from onchip.ops.views import joined_maps
from onchip.scheduling.program.composition import MOST_KEPT_STEPS, Composer, Composition, NoMappingError
from onchip.scheduling.program.places import Place, Places
from onchip.search.budget.limits import Run

SHAKES_IN_VAIN: Final = 40
"""Number of unsuccessful perturbations in a row that end `shake`; the number of residencies if that is larger."""
MOST_MOVED_AT_ONCE: Final = 4
"""Most tensors that one perturbation moves. With more, hardly anything of the schedule is left."""
MOST_READERS: Final = 6
"""Readers of a tensor up to which every run of them is tried; beyond that only the first ones and the last ones."""

Key: TypeAlias = tuple[int, int, int]
"""The objective value, and the figures that decide between equal values: energy in fJ and traffic in bytes."""


class Evaluator(Protocol):
    """Prices compositions for one objective."""

    def least(self, composition: Composition) -> Key:
        """Return a lower bound on the key of a composition without offsets; exact for energy and traffic."""

    def of(self, composition: Composition) -> Key:
        """Return the key of a composition with offsets."""


@dataclass(frozen=True, slots=True)
class Placed:
    """Places, the schedule composed from them with offsets, and its key."""

    places: Places
    composition: Composition
    key: Key

    @property
    def value(self) -> int:
        """Return the objective value of the schedule."""
        return self.key[0]


@dataclass(frozen=True, slots=True)
class ResidencyMove:
    """The on-chip residency of one tensor: the stack that writes it with its memory, the reading stacks with theirs.

    After the stacks `leaving` the tensor leaves the chip and returns for a later reader. `span` holds the first and the
    last stack that use the tensor. If the tensor is a concatenation that is not materialised, `parts` are its inputs,
    each with the stack and memory that write it.
    """

    tensor: str
    span: tuple[int, int]
    writer: Place | None = None
    readers: Mapping[int, str] = field(default_factory=dict)
    leaving: tuple[int, ...] = ()
    parts: tuple[tuple[str, Place | None], ...] = ()

    def applied(self, places: Places) -> Places:
        """Return the places with this tensor there."""
        placed = places.with_residency(self.tensor, self.writer, self.readers, self.leaving)
        for part, writer in self.parts:
            placed = placed.with_written(part, writer, self.leaving)
        return placed


@dataclass(slots=True)
class Improver:
    """Tries the residencies of each tensor, the largest tensor first, and keeps the better schedule.

    `best` is the best schedule so far. The search is over when no single residency makes it better.
    """

    network: Graph
    composer: Composer
    evaluator: Evaluator
    lower_bound: int
    best: Placed
    views: frozenset[str] = frozenset()
    """Concatenations that are not made."""
    seconds: float = 0.0
    """Time of the first composition, without mappings: no trial begins with less time left."""
    _residencies: Sequence[ResidencyMove] = field(init=False)
    _next: int = field(default=0, init=False)
    _in_vain: int = field(default=0, init=False)
    """Number of residencies in a row that were no better."""
    _longest: float = field(default=0.0, init=False)
    """Seconds of the longest trial since the last call of `improve` or `shake`."""
    _chance: Random = field(default_factory=lambda: Random(0), init=False)
    _known: dict[tuple[int, ...], tuple[Composition, Composition, Key]] = field(default_factory=dict, init=False)
    """By the identities of composed groups: their composition without and with offsets, and its key."""

    def __post_init__(self) -> None:
        self._residencies = sorted(self._all_residencies(), key=lambda one: -self._weight(one))

    @property
    def is_over(self) -> bool:
        """True if no single residency makes the best schedule better."""
        return self._in_vain >= len(self._residencies)

    def begin_again(self) -> None:
        """Try every residency once more, since better mappings are known."""
        self._next = self._in_vain = 0

    def consider(self, places: Places, run: Run) -> bool:
        """Take these places if they are better; return True if they are."""
        found = self._tried(places, run, self.best.key)
        if found is None:
            return False
        self.best, self._in_vain = found, 0
        return True

    def improve(self, run: Run) -> None:
        """Try residencies until none is better or the run has to stop; begin none that may take longer than is left."""
        self._longest = self.seconds
        while not self.is_over and run.stop is None and run.seconds_left >= self._longest:
            one = self._residencies[self._next]
            self._next = (self._next + 1) % len(self._residencies)
            self._in_vain += 1
            places = one.applied(self.best.places)
            if places != self.best.places and self.consider(places, run):
                run.report(self.best.value, self.lower_bound, f"residency of {one.tensor!r}")

    def shake(self, run: Run) -> None:
        """Move a few tensors with overlapping lifetimes at once, whatever that costs, and descend from there.

        It ends after `SHAKES_IN_VAIN` perturbations without a better schedule, or when the run has to stop.
        """
        in_vain, self._longest = 0, self.seconds
        enough = max(SHAKES_IN_VAIN, len(self._residencies))
        while self._residencies and in_vain < enough and run.stop is None and run.seconds_left >= self._longest:
            found = self._shaken(run)
            in_vain += 1
            if found is not None and found.key < self.best.key:
                self.best, self._in_vain, in_vain = found, 0, 0
                run.report(found.value, self.lower_bound, "several tensors moved at once")

    def _shaken(self, run: Run) -> Placed | None:
        """Return the best schedule near a perturbed one; None if the perturbed one has no mappings or offsets."""
        first = self._chance.choice(self._residencies)
        near = [one for one in self._residencies if one.span[0] <= first.span[1] and first.span[0] <= one.span[1]]
        places = self.best.places
        for one in (first, *self._chance.choices(near, k=self._chance.randint(1, MOST_MOVED_AT_ONCE - 1))):
            places = one.applied(places)
        best = self._tried(places, run, None)
        self._chance.shuffle(near)
        is_better = best is not None
        while best is not None and is_better:
            is_better = False
            for one in near:
                if run.stop is not None or run.seconds_left < self._longest:
                    return best
                places = one.applied(best.places)
                found = self._tried(places, run, best.key) if places != best.places else None
                if found is not None:
                    best, is_better = found, True
        return best

    def _tried(self, places: Places, run: Run, below: Key | None) -> Placed | None:
        """Return the schedule of these places; None if there is none, or none with a key below the given one."""
        begun = run.seconds
        try:
            bare = self.composer.composed(places)
            if below is not None and self.evaluator.least(bare) >= below:
                return None
            composition, key = self._addressed(bare)
            return None if below is not None and key >= below else Placed(places, composition, key)
        except NoMappingError:
            return None
        finally:
            self._longest = max(self._longest, run.seconds - begun)

    def _addressed(self, bare: Composition) -> tuple[Composition, Key]:
        """Return the composition with offsets, and its key. Perturbations often meet the same groups again.

        The composer keeps composed groups and makes new ones for new mappings, so identity tells that groups are equal.
        """
        groups = tuple(map(id, bare.composed))
        known = self._known.get(groups)
        if known is None:
            composition = self.composer.addressed(bare)
            known = bare, composition, self.evaluator.of(composition)
            if len(self._known) * sum(len(one.steps) for one in bare.composed) >= MOST_KEPT_STEPS:
                self._known.clear()
            self._known[groups] = known
        return known[1:]

    def _all_residencies(self) -> Iterator[ResidencyMove]:
        """Yield the residencies of every tensor in use: none, and those in each memory that may hold it.

        In a memory the tensor is resident for each run of its readers. A tensor without readers is resident until it is
        copied out.
        """
        stacks = self.composer.stacks
        stack_of = {name: number for number, one in enumerate(stacks) for name in one.operators}
        joined = joined_maps(self.network, self.views)
        for tensor in self.network.tensors:
            producer = self.network.producer.get(tensor.name)
            writer = None if producer is None else stack_of[producer.name]
            readers = sorted({stack_of[one.name] for one in self.network.readers[tensor.name]})
            users = {*readers, *(() if writer is None else (writer,))}
            if not users:
                continue
            span = min(users), max(users)
            parts = [one.part for one in joined.get(tensor.name, ()) if one.part in self.network.producer]
            writers = {part: stack_of[self.network.producer[part].name] for part in parts}
            yield ResidencyMove(tensor.name, span, parts=tuple((part, None) for part in writers))
            is_whole = all(stacks[number].tiling is None for number in users)
            for level in self.composer.accelerator.addressed:
                if is_whole and tensor.size_bytes > level.memory.capacity_bytes:
                    continue
                if writer is not None and not readers and Operand.OUTPUT in level.memory.holds:
                    yield _with_parts(ResidencyMove(tensor.name, span, (writer, level.memory.name)), writers)
                if readers and _may_hold(level, tensor):
                    for one in residencies_in(tensor.name, span, writer, readers, level.memory.name):
                        yield _with_parts(one, writers)

    def _weight(self, one: ResidencyMove) -> int:
        return self.network.tensor[one.tensor].size_bytes * (len(one.readers) + 1)


def _with_parts(one: ResidencyMove, writers: Mapping[str, int]) -> ResidencyMove:
    """Return the residency of a concatenation with its parts; `writers` maps each part to the stack that writes it."""
    memory = None if one.writer is None else one.writer[1]
    parts = ((part, None if memory is None else (stack, memory)) for part, stack in writers.items())
    return replace(one, span=(min(one.span[0], *writers.values()), one.span[1]), parts=tuple(parts)) if writers else one


def residencies_in(
    tensor: str, span: tuple[int, int], writer: int | None, readers: Sequence[int], memory: str
) -> Iterator[ResidencyMove]:
    """Yield the residencies of a tensor in one memory: each run of its readers, and all of them with one eviction.

    A run that begins with the first reader begins with the writer, if that is another stack.
    """
    count = len(readers)
    place = None if writer is None else (writer, memory)
    for begin in range(count):
        for end in range(begin + 1, count + 1):
            if count <= MOST_READERS or begin == 0 or end == count:
                some = dict.fromkeys(readers[begin:end], memory)
                yield ResidencyMove(
                    tensor,
                    span,
                    place if begin == 0 else None,
                    some,
                    tuple(readers[end - 1 : end]) if end < count else (),
                )
    every = dict.fromkeys(readers, memory)
    users = [*(() if writer is None or writer in readers else (writer,)), *readers]
    for behind in users[:-1]:
        yield ResidencyMove(tensor, span, place, every, (behind,))


def _may_hold(level: MemoryLevel, tensor: Tensor) -> bool:
    """Return True if a memory holds weights, for a parameter; inputs and outputs, for a feature map."""
    if tensor.role is Role.PARAMETER:
        return Operand.WEIGHT in level.memory.holds
    needed = {Operand.INPUT} if tensor.role is Role.INPUT else {Operand.INPUT, Operand.OUTPUT}
    return needed <= set(level.memory.holds)
