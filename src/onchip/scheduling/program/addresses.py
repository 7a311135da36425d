"""Addresses of residencies, and loads that begin early.

A queue takes its copies in the order of the program. A load that stands behind the stores of the operator before waits
for them, and so for that operator; in front of it the load and the operator run at the same time.

Tensors and workspaces have lifetimes in instructions. First each memory is filled in program order, which is fast and
suffices where memory is ample; if the latency counts, so that loads may begin early. Then the packer searches; then
workspaces get the largest gap that the packed tensors leave at each step, and the loop nests that do not fit there are
mapped again (`composition.py`).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from onchip.answer.packing import Buffer, PackingProblem
from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction
from onchip.arch.memory import DRAM, Memory
from onchip.ir.graph import Graph
from onchip.ir.operator import InPlace
from onchip.memory.allocate.pack import pack
from onchip.search.budget.limits import Limits, Run


def with_early_loads(
    instructions: Sequence[Instruction], memories: Sequence[Memory], size_of: Callable[[str, str], int], graph: Graph
) -> list[Instruction]:
    """Return a program with each load in front of the Compute before it, if memories have enough free bytes.

    `size_of` returns the bytes of a tensor in a memory; `graph` is the tile graph. A load does not pass an instruction
    that reads, writes, moves, or frees its tensor. So the homes of operands and the copies in DRAM do not change.
    """
    capacity = {memory.name: memory.capacity_bytes for memory in memories}
    found: list[Instruction] = []
    free: list[Mapping[str, int]] = []  # bytes of each memory behind each instruction of `found`
    at = 0
    while at < len(instructions):
        one, after = instructions[at], instructions[at + 1] if at + 1 < len(instructions) else None
        moved, place = [one], len(found)
        if isinstance(one, Allocate) and isinstance(after, Copy) and (after.tensor, after.source) == (one.tensor, DRAM):
            moved.append(after)
            place = _place(found, free, one, size_of(one.tensor, one.memory), graph)
        found[place:place] = moved
        free[place:place] = [capacity] * len(moved)
        for number in range(place, len(found)):
            free[number] = _after(found[number], free[number - 1] if number else capacity, size_of)
        at += len(moved)
    return found


def _place(
    found: Sequence[Instruction], free: Sequence[Mapping[str, int]], load: Allocate, size_bytes: int, graph: Graph
) -> int:
    """Return where a load may stand: in front of the last Compute and all that is allocated for it, else at the end.

    `free` are the free bytes behind each instruction of `found`; an empty memory has enough.
    """
    place, is_earlier = len(found), False
    while place and not (is_earlier and not isinstance(found[place - 1], Allocate)):
        place -= 1
        lacks_bytes = place > 0 and free[place - 1][load.memory] < size_bytes
        if _touches(found[place], load.tensor, graph) or lacks_bytes:
            return len(found)
        is_earlier |= isinstance(found[place], Compute)
    return place if is_earlier else len(found)


def _touches(one: Instruction, tensor: str, graph: Graph) -> bool:
    """Return True if an instruction is about a tensor, or an operator reads or writes it."""
    if isinstance(one, Compute):
        operator = graph.operator[one.operator]
        return tensor in operator.reads or tensor in operator.outputs
    return one.tensor == tensor


def _after(one: Instruction, free: Mapping[str, int], size_of: Callable[[str, str], int]) -> dict[str, int]:
    """Return the free bytes of each memory behind an instruction."""
    left = dict(free)
    match one:
        case Allocate(tensor, memory):
            left[memory] -= size_of(tensor, memory)
        case Free(tensor, memory):
            left[memory] += size_of(tensor, memory)
    return left


EFFORT_TO_PACK: Final = 5_000_000
"""Buffers that the packer's exact search looks at for one memory, in all its nodes: some tenths of a second."""
REPAIRS_TO_PACK: Final = 20
"""Rounds of the packer's repair, each about as long as placing all buffers once."""


@dataclass(frozen=True, slots=True)
class BytesInMemory:
    """Bytes of one memory from one instruction to another (exclusive); `at` is the number of its Allocate."""

    at: int
    until: int
    name: str
    size_bytes: int


Offsets: TypeAlias = Mapping[int, int]
"""Map from the number of an Allocate to its offset in bytes."""
Lenders: TypeAlias = Mapping[int, int]
"""Map from the Allocate of an output to that of the first tensor of which it takes the bytes."""


class NoOffsetsError(Exception):
    """Raised if no offsets were found; in program order the Allocate with number `at` is the first without a gap."""

    def __init__(self, memory: str, at: int) -> None:
        super().__init__(f"no offsets were found for the tensors in {memory!r}")
        self.at = at


def lenders_of(instructions: Sequence[Instruction], graph: Graph) -> Lenders:
    """Return the outputs that take the bytes of an input in place, which is freed after its operator has run."""
    begun: dict[tuple[str, str], int] = {}
    found: dict[int, int] = {}
    for at, one in enumerate(instructions):
        match one:
            case Allocate(tensor, memory):
                begun[tensor, memory] = at
                producer = graph.producer.get(tensor)
                for pair in () if producer is None else producer.in_place:
                    first = begun.get((pair.input, memory))
                    if first is not None and _is_freed_behind(instructions, at, pair, memory):
                        found[at] = found.get(first, first)
                        break
            case Free(tensor, memory):
                begun.pop((tensor, memory), None)
    return found


def _is_freed_behind(instructions: Sequence[Instruction], at: int, pair: InPlace, memory: str) -> bool:
    """Return True if an input is freed between the Compute after instruction `at` and the next, without a Copy."""
    has_run = False
    for number in range(at, len(instructions)):
        match instructions[number]:
            case Compute():
                if has_run:
                    return False
                has_run = True
            case Copy(tensor) if tensor in (pair.input, pair.output):
                return False
            case Free(pair.input, where) if where == memory:
                return has_run
    return False


def residencies_of(
    instructions: Sequence[Instruction],
    memories: Sequence[Memory],
    size_of: Callable[[str, str], int],
    lenders: Lenders,
) -> Mapping[str, Sequence[BytesInMemory]]:
    """Return the residencies of a program by memory, in the order in which they begin.

    An output in the bytes of an input continues the input's residency.
    """
    begun: dict[tuple[str, str], int] = {}
    until: dict[int, int] = {}
    tensors = Counter[int]()
    for at, one in enumerate(instructions):
        match one:
            case Allocate(tensor, memory):
                first = begun[tensor, memory] = lenders.get(at, at)
                tensors[first] += 1
            case Free(tensor, memory):
                first = begun[tensor, memory]
                tensors[first] -= 1
                if not tensors[first]:
                    until[first] = at
    found: dict[str, list[BytesInMemory]] = {memory.name: [] for memory in memories}
    for at, one in enumerate(instructions):
        if isinstance(one, Allocate) and at not in lenders:
            size_bytes = size_of(one.tensor, one.memory)
            found[one.memory].append(BytesInMemory(at, until.get(at, len(instructions)), one.tensor, size_bytes))
    return found


def with_offsets(instructions: Sequence[Instruction], offsets: Offsets, lenders: Lenders) -> Iterator[Instruction]:
    """Yield the instructions of a program, each Allocate at its offset."""
    for at, one in enumerate(instructions):
        yield replace(one, offset_bytes=offsets[lenders.get(at, at)]) if isinstance(one, Allocate) else one


def offsets_of(
    memories: Sequence[Memory], residencies: Mapping[str, Sequence[BytesInMemory]], *, is_timed: bool = False
) -> Offsets:
    """Return offsets of all residencies. Raises NoOffsetsError if none were found.

    With `is_timed` all get bytes that have been free for long, if that leaves room for all: nothing waits for them.
    """
    found: dict[int, int] = {}
    for memory in memories:
        for own in _apart(residencies[memory.name]):
            offsets = placed_where_free_longest(memory, own) if is_timed else None
            if offsets is None:
                offsets = placed_in_order(memory, own)
            if len(offsets) < len(own):
                packing = packed(memory, own)
                if packing is None:
                    raise NoOffsetsError(memory.name, own[len(offsets)].at)
                offsets = packing
            found |= offsets
    return found


def _apart(residencies: Sequence[BytesInMemory]) -> Iterator[Sequence[BytesInMemory]]:
    """Yield the residencies in parts, in order; when a part begins, all residencies of the parts before have ended."""
    first = until = 0
    for number, one in enumerate(residencies):
        if one.at >= until and number > first:
            yield residencies[first:number]
            first = number
        until = max(until, one.until)
    if residencies:
        yield residencies[first:]


def largest_gaps(
    memory: Memory, residencies: Sequence[BytesInMemory], offsets: Offsets, steps: Sequence[int]
) -> Iterator[tuple[int, int]]:
    """Yield the largest aligned gap (offset, bytes) between the residents at each of these instructions, ascending."""
    begins = sorted(residencies, key=lambda one: one.at)
    ends = sorted(residencies, key=lambda one: one.until)
    alive: list[tuple[int, int]] = []
    begun = ended = 0
    for step in steps:
        while begun < len(begins) and begins[begun].at <= step:
            one = begins[begun]
            insort(alive, (offsets[one.at], offsets[one.at] + one.size_bytes))
            begun += 1
        while ended < len(ends) and ends[ended].until <= step:
            one = ends[ended]
            alive.remove((offsets[one.at], offsets[one.at] + one.size_bytes))
            ended += 1
        best, at = (0, 0), 0
        for begin, end in (*alive, (memory.capacity_bytes, memory.capacity_bytes)):
            aligned = -(-at // memory.alignment_bytes) * memory.alignment_bytes
            best = max(best, (begin - aligned, aligned))
            at = end
        yield best[1], best[0]


def placed_in_order(memory: Memory, residencies: Sequence[BytesInMemory]) -> Offsets:
    """Place each residency when it begins, in the tightest gap, up to the first that finds no gap."""
    space, offsets = AddressSpace(memory), dict[int, int]()
    ends = sorted(residencies, key=lambda one: one.until)
    ended = 0
    for one in residencies:
        while ends[ended].until <= one.at:
            space.give_back(str(ends[ended].at))
            ended += 1
        offset = space.take(str(one.at), one.size_bytes)
        if offset is None:
            break
        offsets[one.at] = offset
    return offsets


def placed_where_free_longest(memory: Memory, residencies: Sequence[BytesInMemory]) -> Offsets | None:
    """Place each residency when it begins, in the bytes that have been free for longest; None if one finds no gap.

    A load can then begin early, and a Compute does not wait for the store of a tensor that had the bytes before.
    """
    free = [_FreeBytes(0, memory.capacity_bytes, -1)]
    offsets = dict[int, int]()
    ends = sorted(residencies, key=lambda one: one.until)
    ended = 0
    for one in residencies:
        while ends[ended].until <= one.at:
            last = ends[ended]
            begin = offsets[last.at]
            insort(free, _FreeBytes(begin, begin + last.size_bytes, last.until))
            ended += 1
        places = _places(free, one.size_bytes, memory.alignment_bytes)
        offset = min(places, key=lambda place: place.rank, default=None)
        if offset is None:
            return None
        offsets[one.at] = offset.begin
        free = [*_without(free, offset.begin, offset.begin + one.size_bytes)]
    return offsets


@dataclass(frozen=True, slots=True, order=True)
class _FreeBytes:
    """Free bytes of a memory, half open, and the instruction since which they are free."""

    begin: int
    end: int
    since: int


@dataclass(frozen=True, slots=True)
class _Place:
    """An offset, the instruction since which all its bytes are free, and the bytes of the gap around it."""

    begin: int
    since: int
    gap_bytes: int

    @property
    def rank(self) -> tuple[int, int, int]:
        """Return the sort key of the place; the best place has the smallest key."""
        return (self.since, self.gap_bytes, -self.begin)


def _places(free: Sequence[_FreeBytes], size_bytes: int, alignment_bytes: int) -> Iterator[_Place]:
    """Yield places at the lower end of each piece of free bytes, and at the upper end of each gap."""
    first = 0
    while first < len(free):
        last = first
        while last + 1 < len(free) and free[last + 1].begin == free[last].end:
            last += 1
        gap = free[first : last + 1]
        begin, end = gap[0].begin, gap[-1].end
        for offset in dict.fromkeys((*(one.begin for one in gap), end - size_bytes)):
            aligned = -(-offset // alignment_bytes) * alignment_bytes
            if offset == end - size_bytes:
                aligned = offset // alignment_bytes * alignment_bytes
            if begin <= aligned and aligned + size_bytes <= end:
                until = aligned + max(size_bytes, 1)
                since = max((one.since for one in gap if one.begin < until and one.end > aligned), default=-1)
                yield _Place(aligned, since, end - begin)
        first = last + 1


def _without(free: Sequence[_FreeBytes], begin: int, end: int) -> Iterator[_FreeBytes]:
    """Yield the free bytes outside a range."""
    for one in free:
        if one.end <= begin or one.begin >= end:
            yield one
            continue
        if one.begin < begin:
            yield _FreeBytes(one.begin, begin, one.since)
        if one.end > end:
            yield _FreeBytes(end, one.end, one.since)


def packed(memory: Memory, residencies: Sequence[BytesInMemory]) -> Offsets | None:
    """Search for offsets by the packer; None if it finds none with its nodes."""
    buffers = tuple(Buffer(one.at, one.until, one.size_bytes) for one in residencies)
    problem = PackingProblem(buffers, memory.capacity_bytes, memory.alignment_bytes)
    nodes = EFFORT_TO_PACK // max(len(buffers), 1)
    found = pack(problem, Run(Limits()), nodes, REPAIRS_TO_PACK).answer
    if found is None:
        return None
    return {one.at: offset for one, offset in zip(residencies, found.offsets_bytes, strict=True)}


@dataclass(slots=True)
class AddressSpace:
    """The residents of one memory as half-open ranges of bytes, and the gaps between them.

    Gaps are kept by length and begin, by begin, and by end; below `free_below` nothing is resident.
    """

    memory: Memory
    free_below: int = field(init=False)
    _taken: dict[str, tuple[int, int]] = field(default_factory=dict)
    _gaps: list[tuple[int, int]] = field(default_factory=list)
    _gap_ends: dict[int, int] = field(default_factory=dict)
    _gap_begins: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.free_below = self.memory.capacity_bytes

    def take(self, tensor: str, size_bytes: int) -> int | None:
        """Return the upper end of the tightest gap, else the highest place below all residents, else None."""
        for at in range(bisect_left(self._gaps, (size_bytes, -1)), len(self._gaps)):
            length, begin = self._gaps[at]
            offset = self._aligned(begin + length - size_bytes)
            if offset >= begin:
                self._fill(begin)
                self._open(begin, offset)
                self._open(offset + size_bytes, begin + length)
                break
        else:
            offset = self._aligned(self.free_below - size_bytes)
            if offset < 0:
                return None
            self._open(offset + size_bytes, self.free_below)
            self.free_below = offset
        self._taken[tensor] = offset, offset + size_bytes
        return offset

    def give_back(self, tensor: str) -> None:
        """End the residency of a tensor."""
        begin, end = self._taken.pop(tensor)
        if end in self._gap_ends:
            end = self._fill(end)
        if begin in self._gap_begins:
            begin = self._gap_begins[begin]
            self._fill(begin)
        if begin == self.free_below:
            self.free_below = end
        else:
            self._open(begin, end)

    def _aligned(self, offset: int) -> int:
        return offset // self.memory.alignment_bytes * self.memory.alignment_bytes

    def _open(self, begin: int, end: int) -> None:
        if begin < end:
            insort(self._gaps, (end - begin, begin))
            self._gap_ends[begin], self._gap_begins[end] = end, begin

    def _fill(self, begin: int) -> int:
        """Remove a gap; return its end."""
        end = self._gap_ends.pop(begin)
        del self._gap_begins[end]
        del self._gaps[bisect_left(self._gaps, (end - begin, begin))]
        return end
