"""Legality of a mapping on an accelerator: names, array, capacities; accesses of memories, and their ports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, inf, prod

from onchip.answer.layer_mapping import LayerMapping, MappingError, Move, loops_along
from onchip.answer.layer_problem import LayerProblem
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import DRAM, Access, Direction, MemoryLevel, Operand, Port
from onchip.errors import AcceleratorError
from onchip.ir.layer import OUTPUT, RELEVANT, Layer
from onchip.model.accounting.accounting import INTERPRETER, Accounting
from onchip.model.layer.ragged import Crossed, RaggedBoundary, boundaries
from onchip.model.layer.tiles import EPSILON, MACS, Boundary, Sizes


def port_for(memory: str, ports: Sequence[Port], move: Move) -> int:
    """Return the first port for moves towards the MACs, the last for others; raises AcceleratorError if none fits."""
    reads = move in (Move.READ_FOR_BELOW, Move.READ_FOR_ABOVE)
    wanted = (Direction.READ if reads else Direction.WRITE, Direction.READ_WRITE)
    fitting = [index for index, port in enumerate(ports) if port.direction in wanted]
    if not fitting:
        place = "dram" if memory == DRAM else f"memory {memory!r}"
        raise AcceleratorError(f"no port can {wanted[0]}", place=place, expected=f"one that does, to {move}")
    return fitting[0] if move in (Move.READ_FOR_BELOW, Move.WRITE_FROM_BELOW) else fitting[-1]


def ports_of(accelerator: Accelerator, memory: str) -> Sequence[Port]:
    """Return the ports of a memory, given by name, or of DRAM."""
    if memory == DRAM:
        return accelerator.dram.ports if accelerator.dram else ()
    return next(level.ports for level in accelerator.levels if level.memory.name == memory)


def bits_per_cycle(accelerator: Accelerator, memory: str, move: Move) -> float:
    """Return the bits per cycle of one instance for a move; infinite without ports."""
    ports = ports_of(accelerator, memory)
    return ports[port_for(memory, ports, move)].bits_per_cycle if ports else inf


@dataclass(frozen=True, slots=True)
class Accesses:
    """The accesses of a memory, over all its instances, for one operand and one kind of move.

    `sizes` are pairs of the elements moved at once and their count, `bits` the width of an element in this memory. If
    accesses are counted per cycle, at most `bits_in_a_cycle` move in one.
    """

    memory: str
    operand: str
    move: Move
    sizes: Sizes
    bits: int
    bits_in_a_cycle: float = inf

    @property
    def elements(self) -> int:
        """Return the number of elements accessed over all tiles."""
        return sum(size * times for size, times in self.sizes)

    def words(self, access: Access) -> float:
        """Return the accesses of `access_bits`; each transfer is rounded up to whole shortest accesses."""
        shortest = access.shortest_access_bits or access.access_bits
        units = sum(self._shortest_accesses(size * self.bits, shortest) * times for size, times in self.sizes)
        return units * shortest / access.access_bits

    def _shortest_accesses(self, bits: int, shortest: int) -> int:
        if bits <= self.bits_in_a_cycle:
            return -(-bits // shortest)
        return ceil(self.bits_in_a_cycle / shortest - EPSILON) * ceil(bits / self.bits_in_a_cycle - EPSILON)


def layer_accesses(accelerator: Accelerator, crossed: Crossed) -> tuple[Accesses, ...]:
    """Return the accesses of every memory, operand and move; zero counts are omitted."""
    found: list[Accesses] = []
    for operand, own in crossed.items():
        widths = [_bits_in_a_cycle(boundary, accelerator) for boundary in own]
        if operand != OUTPUT:
            found.extend(_of_reads(own, widths))
        elif ragged := [one for one in own if isinstance(one, RaggedBoundary)]:
            found.extend(_of_ragged_sums(ragged))
        else:
            found.extend(_of_sums(own, widths))
    return tuple(accesses for accesses in found if accesses.elements)


def output_bits_in(boundary: Boundary) -> int:
    """Return the bits of an output in the upper memory of a boundary: partial-sum width unless all arrive complete."""
    return boundary.layer.partial_bits if is_pending(boundary) else boundary.layer.output_bits


def bits_below(boundary: Boundary, below: Boundary) -> int:
    """Return the bits of an output in the lower memory as it crosses the boundary; `below` is the next boundary."""
    return output_bits_in(boundary if boundary.accounting.counts_from_bounds else below)


def is_pending(boundary: Boundary) -> bool:
    """Return True if sums that arrive in the upper memory are added to later."""
    return any(
        loop.dimension not in RELEVANT[OUTPUT]
        and loop.size > 1
        and (at >= boundary.lower.cut if loop.along is None else boundary.upper.has_beside_it(loop))
        for at, loop in enumerate(boundary.mapping.nest)
    )


@dataclass(frozen=True, slots=True)
class _Widths:
    """The maximum bits that cross a boundary per cycle, in each direction."""

    downwards: float = inf
    upwards: float = inf


def _bits_in_a_cycle(boundary: Boundary, accelerator: Accelerator) -> _Widths:
    """Return the width of the narrower port, with all lower instances below an upper one together."""
    if not boundary.accounting.is_defines or boundary.lower.memory == MACS:
        return _Widths()

    def width(upper: Move, lower: Move) -> float:
        below = bits_per_cycle(accelerator, boundary.lower.memory, lower) * boundary.neighbours
        return min(bits_per_cycle(accelerator, boundary.upper.memory, upper), below)

    return _Widths(width(Move.READ_FOR_BELOW, Move.WRITE_FROM_ABOVE), width(Move.WRITE_FROM_BELOW, Move.READ_FOR_ABOVE))


def _of_reads(crossed: tuple[Boundary, ...], widths: Sequence[_Widths]) -> Iterator[Accesses]:
    for boundary, width in zip(crossed, widths, strict=True):
        operand, bits = boundary.operand, boundary.layer.bits(boundary.operand)
        sizes, most = boundary.upper_sizes(), width.downwards
        yield Accesses(boundary.upper.memory, operand, Move.READ_FOR_BELOW, sizes, bits, most)
        if boundary.lower.memory != MACS:
            yield Accesses(boundary.lower.memory, operand, Move.WRITE_FROM_ABOVE, boundary.lower_sizes(), bits)


def _of_sums(crossed: tuple[Boundary, ...], widths: Sequence[_Widths]) -> Iterator[Accesses]:
    """Yield the accesses of sums; a tile of sums returns from above unless its upper tile's sums begin with it."""
    begun = crossed[0].layer.elements(OUTPUT)
    for boundary, width in zip(reversed(crossed), reversed(widths), strict=True):
        above, below = boundary.upper.memory, boundary.lower.memory
        bits, size = output_bits_in(boundary), boundary.upper_sizes()[0][0]
        arrived = _elements(boundary.upper_sizes())
        returned = arrived - begun
        if boundary.accounting.counts_from_bounds:
            returned = arrived if is_pending(boundary) else 0
        yield Accesses(above, OUTPUT, Move.WRITE_FROM_BELOW, boundary.upper_sizes(), bits, width.upwards)
        yield Accesses(above, OUTPUT, Move.READ_FOR_BELOW, ((size, returned // size),), bits, width.downwards)
        if below != MACS:
            own_bits = bits_below(boundary, crossed[crossed.index(boundary) - 1])
            ((own_size, _),) = boundary.lower_sizes()
            yield Accesses(below, OUTPUT, Move.READ_FOR_ABOVE, boundary.lower_sizes(), own_bits)
            own_returned = returned
            if boundary.accounting.counts_from_bounds:
                own_returned = _elements(boundary.lower_sizes()) if returned else 0
            yield Accesses(below, OUTPUT, Move.WRITE_FROM_ABOVE, ((own_size, own_returned // own_size),), own_bits)
            begun = _elements(boundary.lower_sizes()) - returned


def _of_ragged_sums(crossed: Sequence[RaggedBoundary]) -> Iterator[Accesses]:
    below: RaggedBoundary | None = None
    for boundary in crossed:
        bits = output_bits_in(boundary)
        upper, lower = boundary.upper.memory, boundary.lower.memory
        yield Accesses(upper, OUTPUT, Move.WRITE_FROM_BELOW, boundary.upper_sizes(), bits)
        yield Accesses(upper, OUTPUT, Move.READ_FOR_BELOW, boundary.returned_sizes(joined=True), bits)
        if below is not None:
            own_bits = bits_below(boundary, below)
            yield Accesses(lower, OUTPUT, Move.READ_FOR_ABOVE, boundary.lower_sizes(), own_bits)
            yield Accesses(lower, OUTPUT, Move.WRITE_FROM_ABOVE, boundary.returned_sizes(joined=False), own_bits)
        below = boundary


def _elements(sizes: Sizes) -> int:
    return sum(size * times for size, times in sizes)


def checked_boundaries(problem: LayerProblem, mapping: LayerMapping, accounting: Accounting = INTERPRETER) -> Crossed:
    """Return the boundaries that tiles cross, of the layer as executed or, in parts, as requested.

    Raises MappingError if the mapping does not fit, AcceleratorError if there is no array or no path upwards.
    """
    check_memories(problem, mapping)
    _check_loops_divide(problem.layer, mapping, accounting)
    check_array(problem.accelerator, mapping)
    executed = mapping.layer(problem.layer)
    crossed = boundaries(problem.layer if accounting.counts_from_bounds else executed, problem, mapping, accounting)
    _check_capacities(problem, needed_bits(problem, crossed))
    return crossed


def misfit(
    problem: LayerProblem, mapping: LayerMapping, *, may_pad: bool = False, counts_room: bool = True
) -> MappingError | None:
    """Return why a mapping is illegal, or None; without `counts_room`, capacities do not matter.

    With `may_pad` the loops may iterate beyond the layer's bounds.
    """
    try:
        _check_iterations(problem.layer, mapping, may_pad=may_pad)
        if not counts_room:
            check_memories(problem, mapping)
            check_array(problem.accelerator, mapping)
        else:
            checked_boundaries(problem, mapping)
    except MappingError as error:
        return error
    return None


def _check_iterations(layer: Layer, mapping: LayerMapping, *, may_pad: bool) -> None:
    """Raise MappingError for loops that do not cover a bound, or do so without their last iteration."""
    for name, bound in layer.bounds.items():
        sizes = [loop.size for loop in mapping.nest if loop.dimension == name and loop.size > 1]
        iterations = prod(sizes)
        without_last = iterations - prod(sizes[:-1]) if sizes else 0
        is_too_long = without_last >= bound if name in mapping.ragged else iterations > bound and not may_pad
        if iterations < bound or is_too_long:
            raise MappingError(f"loop {name} has {iterations} iterations", place="mapping", expected=f"{bound}")


def array_of(accelerator: Accelerator) -> ComputeArray:
    """Return the accelerator's array; raises AcceleratorError if there is none."""
    if accelerator.array is None:
        place = f"accelerator {accelerator.name!r}"
        raise AcceleratorError("it has no array to map loops on", place=place, expected="`array` in its file")
    return accelerator.array


def _check_loops_divide(layer: Layer, mapping: LayerMapping, accounting: Accounting) -> None:
    """Raise MappingError for loops that end short, except in the interpreter's accounting."""
    for name in mapping.ragged if accounting.counts_from_bounds else ():
        if mapping.bounds[name] > layer.bounds[name]:
            detail = f"loop {name} ends short: {mapping.bounds[name]} iterations for {layer.bounds[name]}"
            expected = "loops that divide the bound, or the interpreter's accounting"
            raise MappingError(detail, place="mapping", expected=expected)


def check_memories(problem: LayerProblem, mapping: LayerMapping) -> None:
    """Raise MappingError unless each memory holds its operand, and farther ones serve all that nearer ones do."""
    levels = {level.memory.name: level for level in problem.levels}
    order = list(levels)
    for operand in Operand:
        names = [kept.memory for kept in mapping.kept(operand)]
        if names and operand not in problem.layer.operands:
            raise MappingError(f"the layer has no {operand}", place="mapping", expected="it to be kept nowhere")
        for name in names:
            if name not in levels:
                raise MappingError(f"there is no memory {name!r}", place=f"{operand}", expected=_one_of(levels))
            holds = levels[name].memory.holds
            if operand not in holds:
                raise MappingError(f"memory {name!r} does not hold it", place=f"{operand}", expected=_one_of(holds))
            if levels[name] not in problem.below_home(operand):
                detail = f"memory {name!r} is not below {problem.home(operand)!r}, where all of it lies"
                raise MappingError(detail, place=f"{operand}", expected="it to be kept below")
        for lower, upper in pairwise(names):
            served, needed = levels[upper].serves, levels[lower].serves
            serves_less = served is not None and (needed is None or not set(needed) <= set(served))
            if order.index(lower) >= order.index(upper) or serves_less:
                detail = f"memory {lower!r} cannot be filled from memory {upper!r}"
                expected = "one farther from the MACs that serves at least the same"
                raise MappingError(detail, place=f"{operand}", expected=expected)


def check_array(accelerator: Accelerator, mapping: LayerMapping) -> None:
    """Raise MappingError unless each dimension allows its spatial loops and has enough units."""
    array = array_of(accelerator)
    for dimension in dict.fromkeys(loop.along for loop in mapping.nest if loop.along is not None):
        if dimension not in array.sizes:
            raise MappingError(
                f"the array has no dimension {dimension!r}", place="array", expected=_one_of(array.sizes)
            )
        loops = [loop for loop in mapping.nest if loop.along == dimension and loop.size > 1]
        for loop in loops:
            if loop.dimension not in loops_along(array, dimension):
                detail = f"{loop.dimension} cannot be unrolled along {dimension!r}"
                raise MappingError(detail, place="array", expected=_one_of(loops_along(array, dimension)))
        need = prod(loop.size for loop in loops)
        if need > array.sizes[dimension]:
            detail = f"{' x '.join(map(str, loops))} need {need} units"
            raise MappingError(detail, place=f"array: {dimension}", expected=f"at most {array.sizes[dimension]}")


def _check_capacities(problem: LayerProblem, needs: Mapping[tuple[str, str], int]) -> None:
    """Raise MappingError if the operands together exceed a memory's capacity."""
    for level in problem.levels:
        need = {operand: bits for (memory, operand), bits in needs.items() if memory == level.memory.name}
        capacity = problem.usable_bits(level.memory.name)
        if sum(need.values()) > capacity:
            greatest = max(need, key=lambda operand: need[operand])
            raise MappingError(
                f"tiles need {sum(need.values())} bits, {need[greatest]} of them {greatest}",
                place=f"memory {level.memory.name!r}",
                expected=f"at most {capacity} bits",
            )


def needed_bits(problem: LayerProblem, crossed: Crossed) -> dict[tuple[str, str], int]:
    """Return the bits that one instance of each memory needs for each operand."""
    needs = {}
    for operand, own in crossed.items():
        layer = own[0].layer
        if (home := problem.home(operand)) != DRAM:
            bits = output_bits_in(own[-1]) if operand == OUTPUT else layer.bits(operand)
            needs[home, operand] = layer.elements(operand) * bits
        for below, boundary in pairwise(own):
            level = boundary.lower.level
            bits = bits_below(boundary, below) if operand == OUTPUT else layer.bits(operand)
            needs[boundary.lower.memory, operand] = boundary.lower_room() * bits * _copies(level, boundary)
    return needs


def _copies(level: MemoryLevel | None, boundary: Boundary) -> int:
    """Return 2 for a double-buffered memory with several tiles, else 1."""
    return 2 if level is not None and level.double_buffered and boundary.episodes > 1 else 1


def _one_of(names: Iterable[str]) -> str:
    return f"one of {', '.join(names)}"
