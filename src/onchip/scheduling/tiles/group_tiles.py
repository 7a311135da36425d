"""Fused groups: consecutive operators that run tile by tile along an axis of the last one, and the bytes they hold.

Tiles are cut by the operators' own geometry (`ops/derive/geometry.py`), as the emission cuts them. A border that later
tiles read again stays resident, as in the cached overlap modes of DeFiNES, unless its operator is recomputed.
docs/tiling.md, *Fused groups*, derives the tiles and their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from math import ceil
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from onchip.answer.problem import Problem
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.model.timeline.mac_count import MacCount
from onchip.ops.slicing import Geometry, OperandAccess, Span, TileAxis

Integers: TypeAlias = NDArray[np.int64]
FINEST: Final = 0
"""Tile size of the finest tiles: each step advances the group's finest operator by one element."""
_ROUNDING: Final = 1e-9
_MOST_STEPS: Final = 1 << 12
"""Greatest number of steps of a group; longer axes advance by several elements."""


@dataclass(frozen=True, slots=True)
class FusedGroup:
    """The operators [first, stop) in tiles of `tile` elements along an axis of the last one; whole without an axis.

    `peak_bytes` are the most bytes on chip while the group runs, with the tensors that live across it; `spilled_bytes`
    are those that leave the scratchpad if as many as fit are there before; `tiles` is the number of its tiles. The
    operators `again` run for each tile of their readers; `macs_again` are the multiply-accumulates beyond one run of
    each.
    """

    first: int
    stop: int
    axis: int | None
    tile: int
    peak_bytes: int
    tiles: int
    again: frozenset[int] = frozenset()
    macs_again: int = 0
    spilled_bytes: int = 0


@dataclass(frozen=True, slots=True)
class TileSteps:
    """The tiles of a group in execution order, as pairs of an operator's number and the end of its tile on `axes`."""

    axes: Mapping[int, int | None]
    order: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class _Use:
    """The accesses of one operator to a tensor; none if its geometry is unknown."""

    operator: int
    accesses: tuple[OperandAccess, ...]
    known: dict[int, int | None] = field(default_factory=dict, compare=False, repr=False)

    def dimension(self, axis: int | None) -> int | None:
        """Return the dimension of the tensor that depends on the operator's axis in all accesses, or None."""
        if axis is None:
            return None
        if axis not in self.known:
            self.known[axis] = _dimension(self.accesses, axis)
        return self.known[axis]


@dataclass
class FusedGroups:
    """The fused groups of a problem's operators in the network's order; operators without a geometry run whole."""

    problem: Problem
    geometries: Mapping[str, Geometry | None]
    operators: tuple[Operator, ...] = field(init=False)
    producer: dict[str, int] = field(init=False)
    uses: dict[str, list[_Use]] = field(init=False)
    macs: list[int] = field(init=False)
    live_bytes: list[int] = field(init=False)
    """Bytes on chip before each operator, as far as earlier operators wrote or read them and later ones read them."""

    def __post_init__(self) -> None:
        graph, counts = self.problem.graph, self.problem.counts
        self.operators = graph.operators
        count = MacCount(graph)
        self.macs = [count.macs(one) for one in self.operators]
        self.producer = {name: at for at, one in enumerate(self.operators) for name in one.outputs}
        self.uses = {tensor.name: [] for tensor in graph.tensors}
        for at, operator in enumerate(self.operators):
            geometry = self.geometries[operator.name]
            for name in dict.fromkeys(operator.reads):
                if counts(graph.tensor[name]):
                    reads = () if geometry is None else tuple(one for one in geometry.reads if one.tensor == name)
                    self.uses[name].append(_Use(at, reads))
        self.live_bytes = [0] * (len(self.operators) + 1)
        for tensor in self.problem.counted_tensors:
            if uses := self.uses[tensor.name]:
                start = self.producer.get(tensor.name, uses[0].operator)
                for at in range(start + 1, uses[-1].operator + 1):
                    self.live_bytes[at] += tensor.size_bytes

    def geometry(self, number: int) -> Geometry | None:
        """Return the geometry of an operator by number."""
        return self.geometries[self.operators[number].name]

    def axes(self, number: int) -> tuple[int, ...]:
        """Return the axes along which an operator can run in tiles: each one that all of its outputs have."""
        geometry = self.geometry(number)
        if geometry is None:
            return ()
        return tuple(at for at, axis in enumerate(geometry.axes) if _can_be_tiled(geometry, at, axis))

    def whole(self, number: int) -> FusedGroup:
        """Return an operator that runs whole, as a group."""
        graph, operator = self.problem.graph, self.operators[number]
        new = [name for name in operator.outputs if self.problem.counts(graph.tensor[name])]
        new += [
            name
            for name in dict.fromkeys(operator.reads)
            if name not in self.producer and self.uses[name] and self.uses[name][0].operator == number
        ]
        added = sum(graph.tensor[name].size_bytes for name in new)
        peak_bytes = self.live_bytes[number] + added
        old_bytes = self.live_bytes[number] - sum(
            graph.tensor[name].size_bytes for name in {*operator.reads} - {*new} if self.uses[name]
        )
        return FusedGroup(
            number, number + 1, None, FINEST, peak_bytes, 1, spilled_bytes=self.spilled(number, peak_bytes, old_bytes)
        )

    def spilled(self, first: int, held: int | Integers, old: int | Integers) -> int:
        """Return the greatest number of bytes that have to leave the chip from operator `first` on.

        Of the bytes `held` at a moment, those `old` are from before. What does not fit before the operator is not on
        chip, and need not be as long as it is not read.
        """
        capacity = self.problem.memories[0].capacity_bytes
        away = np.minimum(max(0, self.live_bytes[first] - capacity), old)
        return max(0, int(np.max(held - capacity - away)))

    def fits_whole(self, number: int) -> bool:
        """Return True if an operator's operands fit the scratchpad together, or if it cannot run in tiles."""
        size_bytes = sum(tensor.size_bytes for tensor in self.problem.operands(self.operators[number]))
        return size_bytes <= self.problem.memories[0].capacity_bytes or not self.axes(number)

    def ending_at(
        self,
        stop: int,
        axis: int,
        tile: int,
        is_useful: Callable[[int, int], bool],
        lowest: int = 0,
        again: frozenset[int] = frozenset(),
    ) -> Iterator[FusedGroup]:
        """Yield the groups of the operators before `stop` in such tiles, the shortest first, down to `lowest`.

        Groups are left out if `is_useful` is False of their first operator and their number of tiles. The operators
        `again` are recomputed as far as their readers are in tiles of the group.
        """
        tiled = _GroupInTiles(self, stop, axis, tile, lowest, again)
        for first in range(stop - 1, tiled.lowest - 1, -1):
            tiled.extend_to(first)
            if is_useful(first, tiled.count):
                own = tiled.again & {*range(first, stop)}
                peak_bytes, spilled_bytes = tiled.peak_and_spills(first)
                yield FusedGroup(first, stop, axis, tile, peak_bytes, tiled.count, own, tiled.macs_again, spilled_bytes)

    def changed(self, group: FusedGroup, tile: int, again: frozenset[int]) -> FusedGroup:
        """Return the same operators in other tiles, of which others are recomputed."""
        assert group.axis is not None
        *_, last = self.ending_at(
            group.stop, group.axis, tile, lambda first, _: first == group.first, group.first, again
        )
        return last

    def recomputed_sets(self) -> tuple[frozenset[int], ...]:
        """Return the sets of operators whose recomputation is tried, those that save the most bytes per operator first.

        These are the operators that write more bytes than they read; than some recomputed operator before them reads;
        and all that may run again.
        """
        sizes = {tensor.name: tensor.size_bytes for tensor in self.problem.graph.tensors}
        narrowest, found = dict[int, int](), (set[int](), set[int](), set[int]())
        for at, operator in enumerate(self.operators):
            read = [name for name in dict.fromkeys(operator.inputs) if self.uses[name]]
            before = [narrowest.get(self.producer.get(name, -1), sizes[name]) for name in read]
            if self.may_run_again(at):
                written = sizes[operator.outputs[0]]
                narrowest[at] = min(written, sum(before))
                limits = sum(sizes[name] for name in read), sum(before), 0
                for one, limit in zip(found, limits, strict=True):
                    one |= {at} if written > limit else set()
        return tuple(dict.fromkeys(map(frozenset, found)))

    def may_run_again(self, number: int) -> bool:
        """Return True if an operator may be recomputed: its only output is inside the network, and has one reader."""
        operator, graph = self.operators[number], self.problem.graph
        uses = [use for name in operator.outputs for use in self.uses[name]]
        is_inner = all(graph.tensor[name].role is Role.ACTIVATION for name in operator.outputs)
        return len(operator.outputs) == len(uses) == 1 and len(uses[0].accesses) == 1 and is_inner

    def steps(self, group: FusedGroup) -> TileSteps:
        """Return the tiles of a group in execution order."""
        if group.axis is None:
            return TileSteps({group.first: None}, ((group.first, 1),))
        tiled = _GroupInTiles(self, group.stop, group.axis, group.tile, group.first, group.again)
        numbers = range(group.first, group.stop)
        for first in reversed(numbers):
            tiled.extend_to(first)
        is_tile = np.stack([tiled.advances[number] > 0 for number in numbers], axis=1)
        order = (
            (group.first + int(at), int(tiled.ends[group.first + int(at)][step])) for step, at in np.argwhere(is_tile)
        )
        return TileSteps({number: tiled.axes[number] for number in numbers}, tuple(order))


class _GroupInTiles:
    """The operators [first, stop) in tiles; `first` falls one by one to `lowest`.

    A step moves the last operator ahead by `pace` elements, and each other one to what its readers need, or
    proportionally before they need it. All operators of a step run in the network's order.
    """

    def __init__(
        self, groups: FusedGroups, stop: int, axis: int, tile: int, lowest: int, again: frozenset[int]
    ) -> None:
        self.groups, self.stop = groups, stop
        self.axes: dict[int, int | None] = {stop - 1: axis}
        self._places = {stop - 1: (1.0, 0.0)}  # of tiled operators: scale and shift of the last one's position
        self.lowest = stop - 1
        while self.lowest > lowest and self._link(self.lowest - 1):
            self.lowest -= 1
        self._place = self._timeline(tile)
        self.again = frozenset(one for one in again if self._may_run_again(one))
        self.ends: dict[int, Integers] = {}
        self.keeps: dict[int, Integers] = {}
        self.advances: dict[int, Integers] = {}
        self.count = self.macs_again = 0
        shape = len(self._place), stop - self.lowest
        self._added, self._freed, self._freed_old = (np.zeros(shape, np.int64) for _ in range(3))
        self._counted: dict[str, list[tuple[bool, int, Integers]]] = {}

    def _link(self, number: int) -> bool:
        """Choose the axis along which an operator is tiled; False if it does not fit, or its reader runs whole."""
        groups, geometry = self.groups, self.groups.geometry(number)
        chosen, places = set[int | None](), list[tuple[float, float]]()
        readers = [use for name in groups.operators[number].outputs for use in self._readers(name)]
        if any(self.axes[use.operator] is None for use in readers):
            return False
        writes = {} if geometry is None else {write.tensor: write for write in geometry.writes}
        for name in groups.operators[number].outputs:
            for use in self._readers(name):
                dimension = use.dimension(self.axes[use.operator])
                if dimension is None or name not in writes:
                    chosen.add(None)
                    continue
                chosen.add(writes[name].spans[dimension].axis)
                scale, shift = self._places[use.operator]
                for span in (access.spans[dimension] for access in use.accesses):
                    slope = span.step / span.per
                    places.append((slope * scale, slope * (shift - span.per) + span.offset + span.extent))
        axis = chosen.pop() if len(chosen) == 1 else None
        if axis is None or geometry is None or not _can_be_tiled(geometry, axis, geometry.axes[axis], least=1):
            self.axes[number] = None
            return groups.fits_whole(number)
        self.axes[number] = axis
        self._places[number] = max(scale for scale, _ in places), max(shift for _, shift in places)
        return True

    def _may_run_again(self, number: int) -> bool:
        """Return True if an operator of the group may run for each tile of its reader."""
        axis, operator = self.axes.get(number), self.groups.operators[number]
        if axis is None or number < self.lowest or not self.groups.may_run_again(number):
            return False
        (use,) = self.groups.uses[operator.outputs[0]]
        return use.operator < self.stop and self._dimension_written(number, operator.outputs[0]) == use.dimension(
            self.axes[use.operator]
        )

    def _readers(self, tensor: str) -> list[_Use]:
        return [use for use in self.groups.uses[tensor] if use.operator in self.axes]

    def _size(self, number: int) -> int:
        axis, geometry = self.axes[number], self.groups.geometry(number)
        return 1 if axis is None or geometry is None else geometry.axes[axis].size

    def _timeline(self, tile: int) -> NDArray[np.float64]:
        """Return the position of the last operator after each step, negative while earlier ones fill its borders."""
        size = self._size(self.stop - 1)
        pace = 1 / max(1.0, *(scale for scale, _ in self._places.values())) if tile == FINEST else float(tile)
        ahead = max(shift / scale for scale, shift in self._places.values())
        pace = max(pace, (size + ahead) / _MOST_STEPS)
        steps = ceil(size / pace - _ROUNDING)
        return np.arange(1 - ceil(max(ahead, 0.0) / pace), steps + 1).astype(np.float64) * pace

    def extend_to(self, number: int) -> None:
        """Put the operator before the group in front of it."""
        size, outputs = self._size(number), self.groups.operators[number].outputs
        starts = None
        if number in self.again:
            starts, ends = self._read_by_tiles(outputs[0])
        elif number == self.stop - 1:
            ends = np.clip(np.floor(self._place + _ROUNDING), 0, size).astype(np.int64)
        else:
            ends = self._needed(number, outputs)
            if number in self._places:
                scale, shift = self._places[number]
                early = np.floor(scale * self._place + (shift + _ROUNDING)).astype(np.int64)
                ends = np.minimum(np.maximum(ends, early), size)
        self.ends[number] = self.keeps[number] = ends
        self.advances[number] = _differences(ends)
        if starts is not None:
            self.advances[number] = ends - starts
            self.keeps[number] = _following(starts, ends, size)
            ran = int(self.advances[number].sum())
            self.macs_again += self.groups.macs[number] * max(0, ran - size) // size
        self.count += int(np.count_nonzero(self.advances[number]))
        for name in dict.fromkeys((*outputs, *self.groups.operators[number].reads)):
            if self.groups.problem.counts(self.groups.problem.graph.tensor[name]):
                self._count(name)

    def _read_by_tiles(self, name: str) -> tuple[Integers, Integers]:
        """Return the range that the tile of the only reader reads in each step, empty if the reader has none."""
        (use,) = self.groups.uses[name]
        stops, starts = self._tables(name, use, use.dimension(self.axes[use.operator]))
        ends, has_tile = self.ends[use.operator], self.advances[use.operator] > 0
        stop = np.maximum.accumulate(np.where(has_tile, stops[ends], 0))
        return np.where(has_tile, np.minimum(starts[ends - self.advances[use.operator]], stop), stop), stop

    def _needed(self, number: int, outputs: tuple[str, ...]) -> Integers:
        """Return the ends that the readers' tiles need; an operator without readers in the group runs last."""
        needed = np.zeros(len(self._place), np.int64)
        readers = [(name, use) for name in outputs for use in self._within(name)]
        for name, use in readers:
            table = self._tables(name, use, self._dimension_written(number, name))[0]
            needed = np.maximum(needed, table[self.ends[use.operator]])
        if not readers:
            needed[-1] = self._size(number)
        return needed if self.axes[number] is not None else np.minimum(needed, 1)

    def _within(self, tensor: str) -> list[_Use]:
        return [use for use in self.groups.uses[tensor] if use.operator in self.ends]

    def _dimension_written(self, number: int, name: str) -> int | None:
        geometry = self.groups.geometry(number)
        writes = () if geometry is None else geometry.writes
        return _dimension(tuple(one for one in writes if one.tensor == name), self.axes[number])

    def _tables(self, name: str, use: _Use, dimension: int | None) -> tuple[Integers, Integers]:
        """Return, by end of the reader's tile, the elements read so far and the first element that is read later.

        They count along a dimension of the tensor; without one, the whole tensor is one element.
        """
        axis, tensor = self.axes[use.operator], self.groups.problem.graph.tensor[name]
        length = 1 if dimension is None else (tensor.shape or (1,))[dimension]
        if dimension is None or use.dimension(axis) != dimension:
            return _whole_tables(self._size(use.operator), length)
        tables = [_span_tables(access.spans[dimension], self._size(use.operator)) for access in use.accesses]
        if len(tables) == 1:
            return tables[0]
        return np.max([one for one, _ in tables], axis=0), np.min([one for _, one in tables], axis=0)

    def _count(self, name: str) -> None:
        """Recount a tensor of the group: the operators that bring its bytes to the chip, and those that free them."""
        self._sum(self._counted.pop(name, []), -1)
        self._counted[name] = [
            (is_added, number - self.lowest, change)
            for is_added, number, change in self._changes(self.groups.problem.graph.tensor[name])
        ]
        self._sum(self._counted[name], 1)

    def _sum(self, changes: list[tuple[bool, int, Integers]], sign: int) -> None:
        """Add the changes of one tensor to the sums; one without additions is from before the group."""
        is_old = not any(is_added for is_added, _, _ in changes)
        for is_added, column, change in changes:
            (self._added if is_added else self._freed)[:, column] += sign * change
            if is_old:
                self._freed_old[:, column] += sign * change

    def _changes(self, tensor: Tensor) -> Iterator[tuple[bool, int, Integers]]:
        """Yield the bytes of a tensor that each operator adds (True) or frees in each step.

        A tensor from before the group counts whole if its readers are tiled along several of its dimensions.
        """
        every, uses = self.groups.uses[tensor.name], self._within(tensor.name)
        writer = self.groups.producer.get(tensor.name)
        is_written = writer is not None and writer in self.ends
        if is_written and writer is not None:
            dimension = self._dimension_written(writer, tensor.name)
        else:
            found = {use.dimension(self.axes[use.operator]) for use in uses} - {None}
            dimension = found.pop() if len(found) == 1 else None
        unit = tensor.size_bytes if dimension is None else tensor.size_bytes // (tensor.shape or (1,))[dimension]
        tables = [self._tables(tensor.name, use, dimension) for use in uses]
        if is_written and writer is not None:
            made = self.advances[writer] * unit
            yield True, writer, made
            if not every or writer in self.again:
                yield False, writer if not every else every[0].operator, made
                return
        elif writer is None and len(uses) and every[0].operator == uses[0].operator:
            seen = np.stack(
                [stop[self.ends[use.operator]] for use, (stop, _) in zip(uses, tables, strict=True)], axis=1
            )
            loaded = _differences(np.maximum.accumulate(seen.reshape(-1))).reshape(seen.shape)
            for use, change in zip(uses, (loaded * unit).T, strict=True):
                yield True, use.operator, change
        if uses and every[-1].operator < self.stop and every[-1].operator == uses[-1].operator:
            starts = [start[self.keeps[use.operator]] for use, (_, start) in zip(uses, tables, strict=True)]
            for use, change in zip(uses, _gone(starts), strict=True):
                yield False, use.operator, change * unit

    def peak_and_spills(self, first: int) -> tuple[int, int]:
        """Return the most bytes on chip while the group runs from operator `first` on, and those that leave it."""
        added, freed, old = (
            one[:, first - self.lowest :].reshape(-1) for one in (self._added, self._freed, self._freed_old)
        )
        held = self.groups.live_bytes[first] + np.cumsum(added - freed) + freed
        old_left = self.groups.live_bytes[first] - np.cumsum(old)
        return int(held.max()), self.groups.spilled(first, held, old_left)


def _can_be_tiled(geometry: Geometry, at: int, axis: TileAxis, least: int = 2) -> bool:
    """Return True if an operator can run in tiles along an axis: elements of all outputs are those of the axis."""
    if axis.size < least or axis.is_reduction:
        return False
    return all(write.dimension_of_positions(at, axis.size) is not None for write in geometry.writes)


def _dimension(accesses: tuple[OperandAccess, ...], axis: int | None) -> int | None:
    """Return the dimension of a tensor that depends on the axis in all accesses, or None."""
    if axis is None or not accesses:
        return None
    found = {at for access in accesses for at, span in enumerate(access.spans) if span.axis == axis}
    is_everywhere = all(any(span.axis == axis for span in access.spans) for access in accesses)
    return found.pop() if len(found) == 1 and is_everywhere else None


def _following(starts: Integers, ends: Integers, size: int) -> Integers:
    """Return the start of the next range that is not empty, after each step; `size` after the last."""
    later = np.where(starts < ends, starts, size)
    return np.minimum.accumulate(np.append(later[1:], size)[::-1])[::-1]


@cache
def _whole_tables(size: int, length: int) -> tuple[Integers, Integers]:
    stops, starts = np.full(size + 1, length, np.int64), np.zeros(size + 1, np.int64)
    stops[0], starts[size] = 0, length
    return stops, starts


@cache
def _span_tables(span: Span, size: int) -> tuple[Integers, Integers]:
    stops = [0, *(span.range(0, end, size)[1] for end in range(1, size + 1))]
    starts = [*(span.range(end, end + 1, size)[0] for end in range(size)), span.size]
    return np.array(stops, np.int64), np.array(starts, np.int64)


def _differences(values: Integers) -> Integers:
    found = values.copy()
    found[1:] -= values[:-1]
    return found


def _gone(starts: list[Integers]) -> list[Integers]:
    """Return the elements that no reader needs any more after each of the readers, in each step."""
    if len(starts) == 1:
        return [_differences(starts[0])]
    later = np.stack(starts, axis=1)
    earlier = np.concatenate((np.zeros((1, len(starts)), np.int64), later[:-1]))
    dead = np.stack(
        [
            np.min(np.concatenate((later[:, : at + 1], earlier[:, at + 1 :]), axis=1), axis=1)
            for at in range(len(starts))
        ],
        axis=1,
    )
    return list(_differences(dead.reshape(-1)).reshape(dead.shape).T)
