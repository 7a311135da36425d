"""Lower bounds on the scratchpad that the tilings of a network need; docs/tiling.md derives them.

The tilings are those of `plan --tiles`: each operator runs whole, or in tiles along one axis of its output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import takewhile
from math import prod
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from onchip.answer.problem import Problem
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role
from onchip.ir.tile import Range, size_of
from onchip.model.capacity.bounds import operator_need, packed_bytes
from onchip.ops.slicing import Geometry, OperandAccess, Span
from onchip.search.budget.clock import never
from onchip.transform.slices.emission import counted_geometries

_LONGEST_AXIS: Final = 512
"""Longest axis whose states are followed through the network; the work grows with its square."""
_IMPOSSIBLE: Final = 1 << 60


@dataclass(frozen=True, slots=True)
class SmallestNeed:
    """The bytes that some tile of an operator needs in every tiling of it."""

    operator: Operator
    need_bytes: int


def smallest_need(problem: Problem, *, is_model: bool) -> SmallestNeed:
    """Return the largest of the operators' smallest needs, packed in the first scratchpad, and the first that has it.

    The need is 0 if states or shared bytes may lower it.
    """
    graph = problem.graph
    if graph.shares_bytes or graph.states:
        return SmallestNeed(graph.operators[0], 0)
    geometries = counted_geometries(problem, is_model=is_model)
    needs = (SmallestNeed(each, smallest_tile_bytes(problem, each, geometries[each.name])) for each in graph.operators)
    return max(needs, key=lambda one: one.need_bytes)


def least_peak_of_tilings(problem: Problem, *, is_model: bool, is_late: Callable[[], bool] = never) -> int:
    """Return a lower bound in bytes on the peak of plans without spills, over all tilings, in one scratchpad.

    The bound is 0 if states or shared bytes may lower it. Once `is_late` returns True, operators are left out.
    """
    if problem.graph.shares_bytes or problem.graph.states:
        return 0
    need = smallest_need(problem, is_model=is_model).need_bytes
    return max(need, TilingPeak(problem, counted_geometries(problem, is_model=is_model)).bytes(is_late))


def least_spills_of_tilings(
    problem: Problem, *, is_model: bool, is_late: Callable[[], bool] = never, repeats: bool = False
) -> int:
    """Return a lower bound in bytes on the traffic beyond compulsory, over all tilings, in one scratchpad.

    The bytes that some tile needs beyond the scratchpad, for itself and for later tiles, are loaded again. They
    are stored before, unless DRAM has them anyway. If an operator `repeats` for the tiles of its reader, only the
    barriers count. The bound is 0 if states or shared bytes may lower it.
    """
    if problem.graph.shares_bytes or problem.graph.states:
        return 0
    geometries = counted_geometries(problem, is_model=is_model)
    at_barriers = Barriers(problem, geometries, repeats).spilled_bytes(is_late)
    if repeats:
        return at_barriers
    away_bytes = max(0, TilingPeak(problem, geometries).bytes(is_late) - problem.memories[0].capacity_bytes)
    in_dram_bytes = sum(one.size_bytes for one in problem.counted_tensors if one.role is not Role.ACTIVATION)
    return max(at_barriers, away_bytes + max(0, away_bytes - in_dram_bytes))


@dataclass
class Barriers:
    """The tensors that live across the first tile of an operator in every tiling and every order of the tiles.

    They are complete before the tile, because all its values depend on all their elements, and their later readers
    depend on the operator; docs/tiling.md, *At barriers*. With `repeats`, tensors with one reader do not count.
    """

    problem: Problem
    geometries: Mapping[str, Geometry | None]
    repeats: bool

    def spilled_bytes(self, is_late: Callable[[], bool] = never) -> int:
        """Return a lower bound on the bytes beyond compulsory: the sum over barriers that share no tensor."""
        capacity_bytes, graph, found = self.problem.memories[0].capacity_bytes, self.problem.graph, []
        numbers = takewhile(lambda _: not is_late(), range(len(graph.operators)))
        for live in map(self.live_bytes, numbers):
            if (away_bytes := sum(live.values()) - capacity_bytes) > 0:
                in_dram = sum(size for name, size in live.items() if graph.tensor[name].role is not Role.ACTIVATION)
                found.append((away_bytes + max(0, away_bytes - in_dram), live.keys()))
        total, taken = 0, set[str]()
        for spilled, names in sorted(found, key=lambda one: -one[0]):
            if taken.isdisjoint(names):
                total, taken = total + spilled, taken | names
        return total

    def live_bytes(self, number: int) -> dict[str, int]:
        """Return the bytes of each counted tensor that are complete before an operator and needed from it on."""
        graph = self.problem.graph
        barrier, *others = graph.operators[number:]
        complete, after, found = self._complete_before(barrier), set(barrier.outputs), dict[str, int]()
        for operator in (barrier, *others):
            if operator is barrier or any(self._reads[operator.name, name][1] for name in after & {*operator.reads}):
                after.update(operator.outputs)
                for name in complete & {*operator.reads}:
                    is_made_once = len(graph.readers[name]) > 1 or graph.tensor[name].role is not Role.ACTIVATION
                    if self.problem.counts(graph.tensor[name]) and (is_made_once or not self.repeats):
                        found[name] = max(found.get(name, 0), self._reads[operator.name, name][0])
        return found

    def _complete_before(self, barrier: Operator) -> set[str]:
        """Return the tensors that are written, or loaded by some reader, before the first tile of an operator."""
        graph = self.problem.graph
        complete = {
            name
            for name in {*barrier.reads} & graph.producer.keys()
            if self._reads[barrier.name, name][1] == graph.tensor[name].size_bytes
        }
        waiting = list(complete)
        while waiting:
            producer = graph.producer.get(waiting.pop())
            if producer is None or len(producer.outputs) > 1:
                continue
            for name in producer.reads:
                if self._reads[producer.name, name][0] == graph.tensor[name].size_bytes and name not in complete:
                    complete.add(name)
                    waiting.append(name)
        return complete

    @cached_property
    def _reads(self) -> dict[tuple[str, str], tuple[int, int]]:
        """Bytes of a tensor that all tiles of an operator read together, and that each reads at least, by both names.

        Operands that an operator reads along one axis twice count as none: its tiles may read a diagonal.
        """
        found = dict[tuple[str, str], tuple[int, int]]()
        for operator in self.problem.graph.operators:
            geometry = self.geometries[operator.name]
            for name in operator.reads:
                if geometry is None:
                    found[operator.name, name] = (self.problem.graph.tensor[name].size_bytes,) * 2
                    continue
                accesses = [one for one in geometry.reads if one.tensor == name]
                axes = [[span.axis for span in one.spans if span.axis is not None] for one in accesses]
                together = [
                    prod(_extent(geometry, span) for span in one.spans) * one.element_bytes
                    for one, own in zip(accesses, axes, strict=True)
                    if len(set(own)) == len(own)
                ]
                alone = [
                    min(_bytes_of_tile(geometry, one, axis, at) for at in range(size)) if size <= _LONGEST_AXIS else 0
                    for axis, size in _axes(geometry)
                    for one in accesses
                    if _is_cut(one, axis)
                ]
                most = max(together, default=0)
                found[operator.name, name] = most, min((most, *alone))
        return found


def smallest_tile_bytes(problem: Problem, operator: Operator, geometry: Geometry | None) -> int:
    """Return the bytes that some tile of the operator needs in every tiling, packed in the first scratchpad.

    In one scratchpad a further cut never increases the need, so tiles of one element along an axis need least.
    """
    whole = operator_need(problem, operator).need_bytes
    if geometry is None:
        return whole
    tilings = (
        max(_need_of_tile(problem, geometry, axis, place) for place in {0, size // 2, size - 1})
        for axis, size in _axes(geometry)
    )
    return min((whole, *tilings))


def _axes(geometry: Geometry) -> Iterator[tuple[int, int]]:
    """Yield the axes along which an operator can be cut, and their sizes."""
    yield from ((at, axis.size) for at, axis in enumerate(geometry.axes) if not axis.is_reduction and axis.size > 1)


def _need_of_tile(problem: Problem, geometry: Geometry, axis: int, place: int) -> int:
    found: dict[str, int] = {}
    for access in (*geometry.reads, *geometry.writes):
        if problem.counts(problem.graph.tensor[access.tensor]):
            size_bytes = _bytes_of_tile(geometry, access, axis, place)
            found[access.tensor] = max(found.get(access.tensor, 0), size_bytes)
    return packed_bytes(found.values(), problem.memories[0].alignment_bytes)


def _bytes_of_tile(geometry: Geometry, access: OperandAccess, axis: int, place: int) -> int:
    tile: list[Range] = [(0, each.size) for each in geometry.axes]
    tile[axis] = (place, place + 1)
    region = access.region(tile, geometry.axes)
    return 0 if region is None else size_of(region) * access.element_bytes


Counts: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class _Link:
    """The elements of a tensor's dimension that each tile position of a reader needs.

    `own` are the sizes of disjoint parts of the needs, by position; `row_bytes` are the bytes that the reader reads of
    an element of the dimension. Any set of positions, neither empty nor full, shares at least `border` elements with
    the other positions. Every position needs `smallest` elements.
    """

    tensor: str
    dimension: int
    length: int
    row_bytes: int
    own: Counts
    smallest: int
    border: int

    @cached_property
    def needed(self) -> Counts:
        """Return the least number of elements that n positions need, for n from none to all."""
        return np.concatenate((np.zeros(1, np.int64), np.cumsum(np.sort(self.own))))

    @cached_property
    def released(self) -> Counts:
        """Return the greatest number of elements that only n positions need, for n from none to all."""
        return np.concatenate((np.zeros(1, np.int64), np.cumsum(np.sort(self.own)[::-1])))


@lru_cache(maxsize=4096)
def _link(geometry: Geometry, access: OperandAccess, axis: int) -> _Link | None:
    """Return the needs of the positions along an axis, or None if no single dimension follows the axis in order."""
    dimensions = [at for at, span in enumerate(access.spans) if span.axis == axis]
    size = geometry.axes[axis].size
    if len(dimensions) != 1 or size > _LONGEST_AXIS:
        return None
    span = access.spans[dimensions[0]]
    if span.size > _LONGEST_AXIS:
        return None
    ranges = np.array([span.range(at, at + 1, size) for at in range(size)], np.int64)
    starts, stops = ranges[:, 0], ranges[:, 1]
    if np.any(np.diff(starts) < 0) or np.any(np.diff(stops) < 0):
        return None
    own: Counts = np.concatenate((starts[1:], stops[-1:])) - starts
    others = (each for at, each in enumerate(access.spans) if at != dimensions[0])
    row_bytes = access.element_bytes * prod(_extent(geometry, each) for each in others)
    border = max(0, int(np.min(stops[:-1] - starts[1:], initial=span.size)))
    return _Link(access.tensor, dimensions[0], span.size, row_bytes, own, int(np.min(stops - starts)), border)


def _is_cut(access: OperandAccess, axis: int) -> bool:
    return any(span.axis == axis for span in access.spans)


def _extent(geometry: Geometry, span: Span) -> int:
    """Return the elements of a dimension that an operator reads in all."""
    if span.axis is None:
        return span.size
    size = geometry.axes[span.axis].size
    start, stop = span.range(0, size, size)
    return stop - start


@dataclass
class TilingPeak:
    """Lower bounds on the peak of plans without spills, over all tilings and all orders of their tiles.

    While a tile of an operator runs, the operators before it on a path of the network have either run completely, or
    borders between their tiles are on chip, and so for the operators behind it; docs/tiling.md, *The least peak*.
    """

    problem: Problem
    geometries: Mapping[str, Geometry | None]
    _held_before: dict[tuple[str, int], Counts] = field(default_factory=dict)
    _held_behind: dict[tuple[str, int], Counts] = field(default_factory=dict)

    def bytes(self, is_late: Callable[[], bool] = never) -> int:
        """Return the largest bound of an operator; once `is_late` returns True, of the operators so far."""
        for operator in reversed(self.problem.graph.operators):
            if is_late():
                return 0
            for axis, _ in self._axes(operator):
                self._held_behind[operator.name, axis] = self._behind(operator, axis)
        largest = 0
        for operator in self.problem.graph.operators:
            if is_late():
                break
            for axis, _ in self._axes(operator):
                self._held_before[operator.name, axis] = self._before(operator, axis)
            largest = max(largest, self._peak_at(operator))
        return largest

    def _axes(self, operator: Operator) -> list[tuple[int, int]]:
        geometry = self.geometries[operator.name]
        return [] if geometry is None else list(_axes(geometry))

    def _reads(self, operator: Operator) -> list[OperandAccess]:
        geometry = self.geometries[operator.name]
        return [] if geometry is None else list(geometry.reads)

    def _peak_at(self, operator: Operator) -> int:
        """Return the bytes on chip while some tile of the operator runs, in each of its tilings."""
        geometry = self.geometries[operator.name]
        whole = sum(tensor.size_bytes for tensor in self.problem.operands(operator))
        if geometry is None:
            return whole
        return min((whole, *(self._peak_along(operator, geometry, axis) for axis, _ in self._axes(operator))))

    def _peak_along(self, operator: Operator, geometry: Geometry, axis: int) -> int:
        size = geometry.axes[axis].size
        if size > _LONGEST_AXIS:
            return 0
        written = self._written_bytes(geometry, axis)
        least: dict[str, int] = {}
        for access in geometry.reads:
            link = _link(geometry, access, axis)
            held = _bytes_of_tile(geometry, access, axis, 0)
            if _is_cut(access, axis):
                held = 0 if link is None else link.smallest * link.row_bytes
            least[access.tensor] = max(least.get(access.tensor, 0), held)
        behind = self._held_behind[operator.name, axis]
        tensors = self.problem.graph.tensor
        weights = {name: held for name, held in least.items() if tensors[name].role is Role.PARAMETER}
        largest = _least_at_each_count(written, np.full((size, size + 1), sum(least.values())), behind)
        for access in geometry.reads:
            if (link := _link(geometry, access, axis)) is not None:
                fixed = sum(held for name, held in weights.items() if name != link.tensor)
                largest = max(largest, _least_at_each_count(written, fixed + self._read_bytes(link), behind))
        return largest

    def _written_bytes(self, geometry: Geometry, axis: int) -> Counts:
        """Return the least bytes of the outputs of a tile of n positions, for n from none to all."""
        counts = np.arange(geometry.axes[axis].size + 1)
        found = np.zeros_like(counts)
        for write in geometry.writes:
            if write.dimension_of_positions(axis, geometry.axes[axis].size) is not None:
                found += counts * _bytes_of_tile(geometry, write, axis, 0)
        return found

    def _read_bytes(self, link: _Link) -> Counts:
        """Return the least bytes of a tensor and the tensors before it, by positions that have run and that run.

        The tile that runs reads elements that positions need, and the elements that later tiles need remain.
        """
        size = len(link.own)
        before, rows = self._before_rows(link), np.arange(link.length + 1)
        found = np.zeros((size, size + 1), np.int64)
        read = np.maximum(link.needed, link.smallest)
        for done in range(size):
            written = np.minimum(link.length - link.needed[size - done] + rows, link.length)
            held = rows * link.row_bytes + before[written]
            found[done] = np.minimum.accumulate(held[::-1])[::-1][read]
        return found

    def _before(self, operator: Operator, axis: int) -> Counts:
        """Return the least bytes held of the tensors before an operator, by the most positions that have run.

        At least one has run; if all may have, the bytes are 0.
        """
        geometry = self.geometries[operator.name]
        size = 0 if geometry is None else geometry.axes[axis].size
        found = np.zeros(size + 1, np.int64)
        for access in self._reads(operator):
            assert geometry is not None
            link = _link(geometry, access, axis)
            if link is None:
                if not _is_cut(access, axis):
                    found[:size] = np.maximum(found[:size], _bytes_of_tile(geometry, access, axis, 0))
                continue
            before, rows = self._before_rows(link), np.arange(link.border, link.length + 1)
            for done in range(1, size):
                written = np.minimum(link.length - link.needed[size - done] + rows, link.length)
                found[done] = max(found[done], int(np.min(rows * link.row_bytes + before[written])))
        if size:
            found[0] = found[min(1, size)]
        return found

    def _before_rows(self, link: _Link) -> Counts:
        """Return the least bytes before a tensor's producer, by the most elements of the tensor that are written.

        A producer that is not tiled along the dimension has written all of them.
        """
        operator = self.problem.graph.producer.get(link.tensor)
        found = np.zeros(link.length + 1, np.int64)
        if operator is None:
            return found
        geometry = self.geometries[operator.name]
        writes = () if geometry is None else geometry.writes
        write = next((one for one in writes if one.tensor == link.tensor), None)
        axis = None if write is None else write.spans[link.dimension].axis
        if write is None or axis is None or geometry is None or geometry.axes[axis].size < 2:
            found[:-1] = _IMPOSSIBLE
        elif write.dimension_of_positions(axis, link.length) is not None:
            return self._held_before[operator.name, axis]
        return found

    def _behind(self, operator: Operator, axis: int) -> Counts:
        """Return the least bytes of the tensors behind an operator, by the positions that have run (fewer than all)."""
        geometry = self.geometries[operator.name]
        assert geometry is not None
        size = geometry.axes[axis].size
        found = np.zeros(size, np.int64)
        for write in geometry.writes if size <= _LONGEST_AXIS else ():
            if (dimension := write.dimension_of_positions(axis, size)) is not None:
                for reader in self.problem.graph.readers[write.tensor]:
                    found = np.maximum(found, self._held_for(reader, write, dimension, size))
        return found

    def _held_for(self, reader: Operator, write: OperandAccess, dimension: int, size: int) -> Counts:
        """Return the least bytes from a tensor on, by its elements that are written, for one of its readers.

        The reader has not run yet if it needs all elements at once.
        """
        rows, geometry = np.arange(size), self.geometries[reader.name]
        if geometry is None:
            return rows * (write.size_bytes // size)
        access = next((one for one in geometry.reads if one.tensor == write.tensor), None)
        if access is None or _extent(geometry, access.spans[dimension]) < size:
            return np.zeros(size, np.int64)
        others = (each for at, each in enumerate(access.spans) if at != dimension)
        row_bytes = access.element_bytes * prod(_extent(geometry, each) for each in others)
        axis = access.spans[dimension].axis
        if axis is None or geometry.axes[axis].is_reduction or geometry.axes[axis].size < 2:
            return rows * row_bytes
        link = _link(geometry, access, axis)
        if link is None:
            return np.zeros(size, np.int64)
        return self._held_by_progress(link, self._held_behind[reader.name, axis])

    def _held_by_progress(self, link: _Link, behind: Counts) -> Counts:
        """Return the least bytes from a tensor on, by its elements that are written.

        Elements that are not held any more are needed only by positions of the reader that have run.
        """
        found = np.arange(link.length) * link.row_bytes
        after = np.append(behind, _IMPOSSIBLE)
        for written in range(1, link.length):
            held = np.arange(written)
            ran = np.searchsorted(link.released, written - held)
            behind_it = np.maximum(held, link.border) * link.row_bytes + after[ran]
            found[written] = min(int(found[written]), int(np.min(behind_it)))
        return np.minimum.accumulate(found[::-1])[::-1]


def _least_at_each_count(written: Counts, read: Counts, behind: Counts) -> int:
    """Return the largest, over counts of positions, of the least bytes while the tile runs that reaches the count."""
    size = len(behind)
    total = written[None, :] + read + behind[:, None]
    return max(int(np.min(total[np.arange(count), count - np.arange(count)])) for count in range(1, size + 1))
