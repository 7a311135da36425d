"""An interpreter of a layer's mapping, element by element, that counts the accesses of every memory.

It is the reference for the cost model, for layers of a few thousand multiply-accumulates. Each instance of a memory is
a buffer of values. In every iteration, finished tiles of sums are drained upwards, new tiles are filled downwards, and
each position of the array that the mapping uses does one multiply-accumulate. docs/layer_cost.md defines the counts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product
from math import prod
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from onchip.answer.layer_mapping import LayerMapping, Loop, Move
from onchip.answer.layer_problem import LayerProblem
from onchip.errors import InternalError
from onchip.ir.layer import INPUT, OUTPUT, RELEVANT, WEIGHT, Axis, Layer

Element: TypeAlias = tuple[int, ...]
Buffer: TypeAlias = dict[Element, int]
"""The values of some elements."""


def outputs_of(layer: Layer, seed: int = 0) -> Buffer:
    """Return the outputs of the layer, computed from its definition."""
    outputs: Buffer = defaultdict(int)
    for indices in product(*(range(bound) for bound in layer.bounds.values())):
        index = dict(zip(layer.bounds, indices, strict=True))
        weight = value_of(WEIGHT, element_of(WEIGHT, index), seed) if layer.has_weight else 1
        touched = input_element(layer, index)
        outputs[element_of(OUTPUT, index)] += weight * (value_of(INPUT, touched, seed) if touched is not None else 0)
    return dict(outputs)


def value_of(operand: str, element: Element, seed: int) -> int:
    """Return a small number for each element; other elements tend to have others."""
    mixed = seed + (17 if operand == INPUT else 5)
    for index in element:
        mixed = (mixed * 31 + index * 7 + 3) % 10007
    return mixed % 97 - 48


def element_of(operand: str, index: Mapping[str, int]) -> Element:
    """Return the element of the weight or the output that an index of all loops touches."""
    return tuple(index[loop] for loop in RELEVANT[operand])


def input_element(layer: Layer, index: Mapping[str, int]) -> Element | None:
    """Return the element of the input that an index of all loops touches; None for a padded zero."""
    place = [position_of(axis, index) for axis in layer.axes]
    if any(not 0 <= at < axis.size for at, axis in zip(place, layer.axes, strict=True)):
        return None
    return (index["N"], index["G"], index["C"], *place)


def position_of(axis: Axis, index: Mapping[str, int]) -> int:
    """Return the row or column of the input; positions outside [0, size) are padding."""
    return index[axis.output_loop] * axis.stride + index[axis.filter_loop] * axis.dilation - axis.padding


Values = npt.NDArray[np.float64]


class PlainNest:
    """An interpreter of layers; `multiplied` counts all multiply-accumulates, including those with padded zeros."""

    def __init__(self) -> None:
        self.multiplied = 0

    def run(self, layer: Layer, source: Values, weight: Values | None = None, *, largest: bool = False) -> Values:
        """Return the output [n, g, k, p, q] for an input [n, g, c, height, width] and a weight [g, k, c, r, s].

        Without a weight, elements are summed, or the `largest` is taken.
        """
        height, width = layer.input_pixels
        assert source.shape == (layer.n, layer.g, layer.c, height, width)
        assert (weight is not None) == layer.has_weight
        assert weight is None or weight.shape == (layer.g, layer.k, layer.c, layer.r, layer.s)
        output = np.full((layer.n, layer.g, layer.k, layer.p, layer.q), -np.inf if largest else 0.0)
        for n, k, c, p, q, r, s, g in product(*map(range, layer.bounds.values())):
            self.multiplied += 1
            y = p * layer.stride[0] + r * layer.dilation[0] - layer.padding[0]
            x = q * layer.stride[1] + s * layer.dilation[1] - layer.padding[1]
            if not (0 <= y < height and 0 <= x < width):
                continue
            element = source[n, g, c, y, x] * (1.0 if weight is None else weight[g, k, c, r, s])
            made = output[n, g, k, p, q]
            output[n, g, k, p, q] = max(made, element) if largest else made + element
        return output

    def product(self, layer: Layer, rows: Values, matrices: Values) -> Values:
        """Return rows [g, n, c] times matrices [g, c, k] by group: [g, n, k]."""
        source = rows.transpose(1, 0, 2)[:, :, :, None, None]
        made = self.run(layer, source, matrices.transpose(0, 2, 1)[:, :, :, None, None])
        return made[:, :, :, 0, 0].transpose(1, 0, 2)


Digits: TypeAlias = tuple[int, ...]  # one digit per loop of the nest
Position: TypeAlias = tuple[int, ...]  # the digits of some spatial loops: an instance of a memory
Accesses: TypeAlias = dict[tuple[str, str, Move], Counter[int]]


@dataclass(frozen=True, slots=True)
class NestRun:
    """The counts of accesses by memory, operand and move, as sizes with multiplicities, and the final outputs in DRAM.

    `peak_elements` is the most elements of an operand in one instance of a memory.
    """

    accesses: Accesses
    peak_elements: dict[tuple[str, str], int]
    outputs: Buffer
    iterations: int


def run_nest(problem: LayerProblem, mapping: LayerMapping, seed: int = 0) -> NestRun:
    """Execute the mapping; raises InternalError if a value is missing in a memory that should hold it."""
    return _NestRunner(problem, mapping, seed).run()


@dataclass(slots=True)
class _Holder:
    """A memory that holds an operand, with the buffers of its instances.

    `above` are the loops that choose the tile, `within` those that a tile spans, `beside` those that choose the
    instance; all are indices into the nest.
    """

    memory: str
    above: tuple[int, ...]
    within: tuple[int, ...]
    beside: tuple[int, ...]
    buffers: dict[Position, Buffer] = field(default_factory=lambda: defaultdict(dict))
    tile: Digits | None = None


class _NestRunner:
    def __init__(self, problem: LayerProblem, mapping: LayerMapping, seed: int) -> None:
        self._layer = mapping.layer(problem.layer)
        self._nest = mapping.nest
        self._seed = seed
        self._accesses: Accesses = defaultdict(Counter)
        self._peaks: dict[tuple[str, str], int] = defaultdict(int)
        serves = {level.memory.name: level.serves for level in problem.levels}
        self._chains = {
            operand: [
                *(
                    self._holder(operand, kept.memory, kept.loops, serves[kept.memory])
                    for kept in mapping.kept(operand)
                ),
                self._holder(operand, problem.home(operand), len(mapping.nest), None),
            ]
            for operand in problem.layer.operands
        }
        self._spatial = [at for at, loop in enumerate(self._nest) if loop.along is not None]
        self._weights = [
            prod(inner.size for inner in self._nest[:at] if inner.dimension == loop.dimension)
            for at, loop in enumerate(self._nest)
        ]

    def _holder(self, operand: str, memory: str, cut: int, serves: Sequence[str] | None) -> _Holder:
        def is_served(loop: Loop) -> bool:
            return loop.along is not None and (serves is None or loop.along in serves)

        nest = list(enumerate(self._nest))
        return _Holder(
            memory,
            above=tuple(
                at for at, loop in nest if at >= cut and loop.along is None and loop.dimension in RELEVANT[operand]
            ),
            within=tuple(at for at, loop in nest if is_served(loop) or (at < cut and loop.along is None)),
            beside=tuple(at for at, loop in nest if loop.along is not None and not is_served(loop)),
        )

    def run(self) -> NestRun:
        self._put_operands_at_home()
        iterations = 0
        for digits in filter(self._is_executed, self._iterations()):
            self._drain_sums(digits)
            for operand in self._layer.operands:
                self._fill(operand, digits)
            self._compute(digits)
            iterations += 1
        self._drain_sums(None)
        outputs = self._chains[OUTPUT][-1].buffers[()]
        return NestRun(dict(self._accesses), dict(self._peaks), outputs, iterations)

    def _put_operands_at_home(self) -> None:
        for operand in self._layer.operands:
            home = self._chains[operand][-1]
            home.tile = ()
            if operand != OUTPUT:
                elements = self._block(operand, home, (0,) * len(self._nest), ())
                home.buffers[()] = {element: value_of(operand, element, self._seed) for element in elements}

    def _iterations(self) -> Iterator[Digits]:
        """Yield the digits of the temporal loops, the innermost fastest; digits of spatial loops are 0."""
        ranges = [range(1 if loop.along is not None else loop.size) for loop in reversed(self._nest)]
        for outermost_first in product(*ranges):
            yield outermost_first[::-1]

    def _positions(self, loops: Sequence[int]) -> Iterator[Position]:
        return product(*(range(self._nest[at].size) for at in loops))

    def _is_executed(self, digits: Sequence[int]) -> bool:
        """Return True if these digits are within all bounds; with spatial digits of 0, for some position."""
        return self._is_within_bounds(self._index(digits))

    def _is_within_bounds(self, index: dict[str, int]) -> bool:
        return all(index[loop] < bound for loop, bound in self._layer.bounds.items())

    def _index(self, digits: Sequence[int]) -> dict[str, int]:
        index = dict.fromkeys(self._layer.bounds, 0)
        for loop, digit, weight in zip(self._nest, digits, self._weights, strict=True):
            index[loop.dimension] += digit * weight
        return index

    def _placed(self, digits: Digits, loops: Sequence[int], position: Position) -> Digits:
        """Return `digits` with those of `loops` replaced."""
        placed = list(digits)
        for at, digit in zip(loops, position, strict=True):
            placed[at] = digit
        return tuple(placed)

    def _block(self, operand: str, holder: _Holder, digits: Digits, instance: Position) -> list[Element]:
        """Return the elements of one instance: those touched, and for the input also rows and columns in between."""
        start = self._placed(digits, holder.beside, instance)
        every = (self._index(self._placed(start, holder.within, at)) for at in self._positions(holder.within))
        indices = [index for index in every if self._is_within_bounds(index)]
        if operand != INPUT or not indices:
            return sorted({element_of(operand, index) for index in indices})
        rows = []
        for axis in self._layer.axes:
            places = [position_of(axis, index) for index in indices]
            rows.append(range(max(min(places), 0), min(max(places) + 1, axis.size)))
        channels = {(index["N"], index["G"], index["C"]) for index in indices}
        return sorted((*channel, *place) for channel in channels for place in product(*rows))

    def _changes(self, holder: _Holder, digits: Digits | None) -> bool:
        return digits is None or holder.tile != tuple(digits[at] for at in holder.above)

    def _count(self, holder: _Holder, operand: str, move: Move, elements: int) -> None:
        if elements:
            self._accesses[holder.memory, operand, move][elements] += 1

    def _fill(self, operand: str, digits: Digits) -> None:
        """Fill new tiles from the memory above, from the outermost memory inwards."""
        chain = self._chains[operand]
        for holder, upper in reversed(list(pairwise(chain))):
            if not self._changes(holder, digits):
                continue
            holder.tile = tuple(digits[at] for at in holder.above)
            wanted: dict[Position, set[Element]] = defaultdict(set)
            for instance in self._positions(holder.beside):
                source = self._instance_above(holder, upper, instance)
                elements = self._block(operand, holder, digits, instance)
                if operand == OUTPUT:
                    known = upper.buffers[source] if self._is_first_of_its_sum(holder, upper, instance) else {}
                    elements = [element for element in elements if element in known]
                holder.buffers[instance] = {
                    element: self._read(upper, source, operand, element) for element in elements
                }
                wanted[source].update(elements)
                self._count(holder, operand, Move.WRITE_FROM_ABOVE, len(elements))
                self._note_peak(holder, operand, len(elements))
            for elements_read in wanted.values():
                self._count(upper, operand, Move.READ_FOR_BELOW, len(elements_read))

    def _instance_above(self, holder: _Holder, upper: _Holder, instance: Position) -> Position:
        digit = dict(zip(holder.beside, instance, strict=True))
        return tuple(digit[at] for at in upper.beside)

    def _is_first_of_its_sum(self, holder: _Holder, upper: _Holder, instance: Position) -> bool:
        """Return True for the one instance, of those that add to the same sums, that gets back the earlier sums."""
        return all(
            digit == 0 or at in upper.beside or self._nest[at].dimension in RELEVANT[OUTPUT]
            for at, digit in zip(holder.beside, instance, strict=True)
        )

    def _read(self, holder: _Holder, instance: Position, operand: str, element: Element) -> int:
        if element not in holder.buffers[instance]:
            raise InternalError(f"{operand} {element} is not in {holder.memory} {instance}")
        return holder.buffers[instance][element]

    def _note_peak(self, holder: _Holder, operand: str, elements: int) -> None:
        key = holder.memory, operand
        self._peaks[key] = max(self._peaks[key], elements)

    def _drain_sums(self, digits: Digits | None) -> None:
        """Add finished tiles of sums over the instances and write them to the memory above, innermost first."""
        chain = self._chains[OUTPUT]
        for holder, upper in pairwise(chain):
            if not self._changes(holder, digits) or holder.tile is None:
                continue
            arrived: dict[Position, Buffer] = defaultdict(lambda: defaultdict(int))
            for instance, buffer in holder.buffers.items():
                self._count(holder, OUTPUT, Move.READ_FOR_ABOVE, len(buffer))
                self._note_peak(holder, OUTPUT, len(buffer))
                for element, value in buffer.items():
                    arrived[self._instance_above(holder, upper, instance)][element] += value
            for target, buffer in arrived.items():
                upper.buffers[target].update(buffer)
                self._count(upper, OUTPUT, Move.WRITE_FROM_BELOW, len(buffer))
            holder.buffers.clear()

    def _compute(self, digits: Digits) -> None:
        read: dict[tuple[str, Position], set[Element]] = defaultdict(set)
        sums: dict[Position, Buffer] = defaultdict(lambda: defaultdict(int))
        nearest = {operand: chain[0] for operand, chain in self._chains.items()}
        for position in self._positions(self._spatial):
            placed = self._placed(digits, self._spatial, position)
            index = self._index(placed)
            if not self._is_within_bounds(index):
                continue
            product_of_two = 1
            for operand, element in self._factors(index):
                source = tuple(placed[at] for at in nearest[operand].beside)
                product_of_two *= self._read(nearest[operand], source, operand, element) if element else 0
                if element:
                    read[operand, source].add(element)
            target = tuple(placed[at] for at in nearest[OUTPUT].beside)
            sums[target][element_of(OUTPUT, index)] += product_of_two
        for (operand, _), elements in read.items():
            self._count(nearest[operand], operand, Move.READ_FOR_BELOW, len(elements))
        for target, added in sums.items():
            self._accumulate(nearest[OUTPUT], target, added)

    def _factors(self, index: dict[str, int]) -> Iterator[tuple[str, Element | None]]:
        yield INPUT, input_element(self._layer, index)
        if self._layer.has_weight:
            yield WEIGHT, element_of(WEIGHT, index)

    def _accumulate(self, holder: _Holder, instance: Position, added: Buffer) -> None:
        """Count a read and a write for a continued sum, and only a write for a new one."""
        buffer = holder.buffers[instance]
        self._count(holder, OUTPUT, Move.READ_FOR_BELOW, sum(element in buffer for element in added))
        for element, value in added.items():
            buffer[element] = buffer.get(element, 0) + value
        self._count(holder, OUTPUT, Move.WRITE_FROM_BELOW, len(added))
