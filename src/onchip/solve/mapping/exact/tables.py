"""What the exact mapper's compiled part reads: the layer's prime factors, the machine, who is filled from whom.

Operands and classes are 0 input, 1 weight, 2 output; a loop's class is the operand that it does not lead through
(K: input; N, P, Q: weight; C, R, S: output), G has class 3. Levels as the accelerator lists them, DRAM after the last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise, product
from math import prod
from typing import Final, NamedTuple

import numpy as np

from onchip.answer.layer_mapping import loops_along
from onchip.answer.layer_problem import LayerProblem
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import MemoryLevel
from onchip.cost.layer.limits import array_of
from onchip.cost.layer.tables import AXES, OPERANDS, Flags, Integers, Machine, Reals, Shape, machine_of, shape_of
from onchip.cost.layer.tiles import block_sizes
from onchip.errors import AcceleratorError, InputError
from onchip.ir.layer import INPUT, LOOPS, OUTPUT, RELEVANT, Axis, Layer
from onchip.solve.mapping.factors import divisors, prime_counts

NO_CLASS: Final = 3
CLASSES: Final = tuple(
    next((at for at, operand in enumerate(OPERANDS) if loop not in RELEVANT[operand]), NO_CLASS) for loop in LOOPS
)
MOST_TILES: Final = 1 << 17


class Blocks(NamedTuple):
    """Sizes of blocks of the input along its axes."""

    place: Integers  # of a divisor among those of its loop: axis loop (P R Q S), divisor
    entry: Integers  # axis, places of: outputs within, beside, taps within, beside; -1 where they do not divide
    total: Reals  # of an entry: elements over all places of its blocks
    largest: Integers
    fewest: Reals  # of an entry: times of moving times the largest block moved, if smaller blocks may make it up
    start: Integers  # of an entry's pairs of size and times
    stop: Integers
    size: Integers
    times: Integers


class Space(NamedTuple):
    """The layer's factors and the chains of memories."""

    digit_loop: Integers  # of each pair of a loop and a prime
    digit_prime: Integers
    copies: Integers  # how often the prime divides the loop's bound
    bounds: Integers
    class_of: Integers  # of each loop
    holds: Flags  # operand, level
    touched: Reals  # operand: different elements that the layer uses
    above: Integers  # operand, level + 1 (0: the MACs): the level it is filled from; -1 where the level lacks it
    blocks: Blocks


class UnrollingWays(NamedTuple):
    """For each dimension of the array the ways to unroll loops along it; `first` is where a dimension's ways start."""

    first: Integers
    sizes: Integers  # way, loop
    relevant: Integers  # way, operand: units with other elements; of the input, those along an axis are apart
    copies: Integers  # way, operand: units with the same
    axis: Integers  # way, axis loop (P R Q S)


class Tables(NamedTuple):
    """All tables that the kernels read, those of a space, a layer and a machine."""

    space: Space
    shape: Shape
    machine: Machine
    sides: UnrollingWays


def tables_of(problem: LayerProblem) -> Tables:
    """Raises AcceleratorError where memories of an operand are no chain, InputError for a layer with too many tiles."""
    layer, accelerator = problem.layer, problem.accelerator
    digits = [(at, prime, count) for at, loop in enumerate(LOOPS) for prime, count in _primes(layer, loop)]
    if prod(count + 1 for _, _, count in digits) > MOST_TILES:
        detail = f"it has more than {MOST_TILES} tile shapes"
        raise InputError(detail, place="layer", expected="bounds with fewer divisors")
    loops, primes, copies = (np.array(column, np.int64) for column in zip(*digits, strict=True)) if digits else (
        np.zeros(0, np.int64) for _ in range(3)
    )  # fmt: skip
    holds = np.array([_held(problem, operand) for operand in OPERANDS])
    machine = _with_homes_reserved(layer, machine_of(problem))
    above = np.array([_above(problem.levels, held, int(home)) for held, home in zip(holds, machine.home, strict=True)])
    sides = _sides(layer, accelerator)
    blocks = _blocks(layer, prod(array_of(accelerator).sizes.values()))
    space = Space(
        loops, primes, copies,
        np.array(list(layer.bounds.values())), np.array(CLASSES), holds.reshape(3, -1),
        np.array([_touched(layer, operand) for operand in OPERANDS]), above, blocks,
    )  # fmt: skip
    return Tables(space, shape_of(layer, accelerator), machine, sides)


def _primes(layer: Layer, loop: str) -> Iterable[tuple[int, int]]:
    return prime_counts(layer.bounds[loop]).items()


def _touched(layer: Layer, operand: str) -> float:
    if operand != INPUT:
        return float(layer.elements(operand))
    found = layer.n * layer.c * layer.g
    for axis in layer.axes:
        outputs, filters = layer.bounds[axis.output_loop], layer.bounds[axis.filter_loop]
        positions = {o * axis.stride + f * axis.dilation - axis.padding for o in range(outputs) for f in range(filters)}
        found *= sum(0 <= position < axis.size for position in positions)
    return float(found)


def _held(problem: LayerProblem, operand: str) -> list[bool]:
    keepers = problem.keepers(operand) if operand in problem.layer.operands else ()
    return [level in keepers for level in problem.levels]


def _with_homes_reserved(layer: Layer, machine: Machine) -> Machine:
    """Room for the inputs and weights that lie whole in a memory; how wide outputs are there the chain decides."""
    left = np.append(machine.capacity_bits, 0)
    for operand, home in zip(OPERANDS, machine.home, strict=True):
        if operand != OUTPUT:
            left[home] -= layer.elements(operand) * layer.bits(operand)
    return machine._replace(capacity_bits=left[:-1])


def _above(levels: Sequence[MemoryLevel], held: Flags, home: int) -> list[int]:
    chain = [-1, *np.flatnonzero(held).tolist(), home]
    for lower, upper in pairwise(chain[1:-1]):
        served, needed = levels[upper].serves, levels[lower].serves
        if served is not None and (needed is None or not set(needed) <= set(served)):
            raise AcceleratorError(
                f"it cannot be filled from {levels[upper].memory.name!r}",
                place=f"memory {levels[lower].memory.name!r}",
                expected="the next that holds the same operand to serve at least the same",
            )
    above = [-1] * (len(levels) + 1)
    for lower, upper in pairwise(chain):
        above[lower + 1] = upper
    return above


def _sides(layer: Layer, accelerator: Accelerator) -> UnrollingWays:
    array = array_of(accelerator)
    first, ways = [0], list[tuple[int, ...]]()
    for along, units in array.sizes.items():
        allowed = loops_along(array, along)
        of_bounds = [divisors(bound) if loop in allowed else [1] for loop, bound in layer.bounds.items()]
        ways.extend(_within(of_bounds, units))
        first.append(len(ways))
    sizes = np.array(ways, np.int64)
    classes, axes = np.array(CLASSES), [LOOPS.index(loop) for loop in AXES]
    copies = [np.where(classes == operand, sizes, 1).prod(axis=1) for operand in range(3)]
    relevant = [np.where(classes != operand, sizes, 1).prod(axis=1) for operand in range(3)]
    relevant[0] //= sizes[:, axes].prod(axis=1)
    return UnrollingWays(
        np.array(first), sizes, np.array(relevant).T.copy(), np.array(copies).T.copy(), sizes[:, axes].copy()
    )


def _within(of_bounds: Sequence[Sequence[int]], units: int) -> Iterator[tuple[int, ...]]:
    """All choices of one each whose product is at most `units`."""
    if not of_bounds:
        yield ()
        return
    for divisor in of_bounds[0]:
        if divisor <= units:
            for rest in _within(of_bounds[1:], units // divisor):
                yield (divisor, *rest)


def _blocks(layer: Layer, units: int) -> Blocks:
    """At most `units` blocks are beside each other."""
    bounds = [layer.bounds[loop] for axis in layer.axes for loop in (axis.output_loop, axis.filter_loop)]
    of_bounds = [divisors(bound) for bound in bounds]
    place = np.zeros((4, max(bounds) + 1), np.int64)
    for at, some in enumerate(of_bounds):
        place[at, some] = range(len(some))
    most = max(map(len, of_bounds))
    entry = np.full((2, most, most, most, most), -1, np.int64)
    found: list[tuple[tuple[int, int], ...]] = []
    seen: dict[tuple[object, ...], int] = {}
    for number, axis in enumerate(layer.axes):
        own = of_bounds[2 * number], of_bounds[2 * number + 1]
        for places in product(*(range(len(own[at // 2])) for at in range(4))):
            sizes = tuple(own[at // 2][one] for at, one in enumerate(places))
            if (
                max(sizes[1], sizes[3]) > units
                or own[0][-1] % (sizes[0] * sizes[1])
                or own[1][-1] % (sizes[2] * sizes[3])
            ):
                continue
            key = axis.stride, axis.dilation, axis.padding, axis.size, own[0][-1], own[1][-1], sizes
            if key not in seen:
                seen[key] = len(found)
                found.append(_sizes(axis, own[0][-1], own[1][-1], sizes))
            entry[(number, *places)] = seen[key]
    pairs = [pair for one in found for pair in one]
    stop = np.cumsum([len(one) for one in found])
    size, times = (np.array(column, np.int64) for column in zip(*pairs, strict=True))
    total = np.array([float(sum(size * times for size, times in one)) for one in found])
    largest = np.array([max(size for size, _ in one) for one in found])
    fewest = _fewest(entry, largest, of_bounds)
    return Blocks(place, entry, total, largest, fewest, np.array([0, *stop[:-1]]), stop, size, times)


def _fewest(entry: Integers, largest: Integers, of_bounds: Sequence[Sequence[int]]) -> Reals:
    """The least, over all blocks that an entry's are made of, of how many make one times the largest of them.

    Blocks within one have divisors of its outputs and taps; smaller ones are listed before it.
    """
    fewest = largest.astype(np.float64)
    for axis, outputs, beside, taps, taps_beside in np.argwhere(entry >= 0).tolist():
        own = entry[axis, outputs, beside, taps, taps_beside]
        for prime in prime_counts(of_bounds[2 * axis][outputs]):
            smaller = of_bounds[2 * axis].index(of_bounds[2 * axis][outputs] // prime)
            fewest[own] = min(fewest[own], prime * fewest[entry[axis, smaller, beside, taps, taps_beside]])
        for prime in prime_counts(of_bounds[2 * axis + 1][taps]):
            smaller = of_bounds[2 * axis + 1].index(of_bounds[2 * axis + 1][taps] // prime)
            fewest[own] = min(fewest[own], prime * fewest[entry[axis, outputs, beside, smaller, taps_beside]])
    return fewest


def _sizes(axis: Axis, outputs: int, filters: int, sizes: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    within, beside, taps, taps_beside = sizes
    step, tap_step = axis.stride * within, axis.dilation * taps
    return block_sizes(
        axis.padding,
        axis.size,
        ((within, axis.stride), (taps, axis.dilation)),
        ((beside, step), (taps_beside, tap_step)),
        (
            (outputs // (within * beside), step * beside),
            (filters // (taps * taps_beside), tap_step * taps_beside),
        ),
    )


def sizes_of(bounds: Mapping[str, int]) -> Integers:
    """Return the bounds in the order of LOOPS."""
    return np.array([bounds[loop] for loop in LOOPS])
