"""A mapping of a layer as one kernel of CUDA or OpenCL."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from math import prod
from typing import Final, TypeAlias, TypeVar

from onchip.answer.layer_mapping import LayerMapping, Loop
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import MemoryLevel, Operand
from onchip.backends.c.text import comment
from onchip.backends.nests.c_loops import NestLoop, element_bits, numbered, times
from onchip.errors import InputError
from onchip.ir.layer import INPUT, LOOPS, OUTPUT, RELEVANT, WEIGHT, Axis, Layer
from onchip.reports.exports import MappingFormat

THREAD: Final = "thread"
BLOCK: Final = "block"
GREATEST_THREADS: Final = 1024
GREATEST_SHARED_BYTES: Final = 48 * 2**10
"""Limit on a block's static shared memory; some GPUs offer more at the launch of a kernel."""
GREATEST_INDEX: Final = 2**31 - 1
GREATEST_UNROLLED: Final = 4096
"""Multiply-accumulates that are written out one after the other, so that registers have no index."""


@dataclass(frozen=True, slots=True)
class GpuNest:
    """The loops innermost first; `shared` and `registers` say how many of them an operand's tile there spans.

    Of those along threads a tile in shared memory spans all. `layer` is the one executed.
    """

    layer: Layer
    loops: tuple[NestLoop, ...]
    shared: dict[str, int]
    registers: dict[str, int]

    @property
    def threads(self) -> int:
        """Number of threads of a block."""
        return prod(loop.size for loop in self.loops if loop.along == THREAD)

    @property
    def blocks(self) -> int:
        """Number of blocks of the grid."""
        return prod(loop.size for loop in self.loops if loop.along == BLOCK)

    def span(self, dimension: str) -> int:
        """Return the iterations of all loops of a dimension, at least its bound."""
        return prod(loop.size for loop in self.loops if loop.dimension == dimension)

    def ends_short(self, dimension: str) -> bool:
        """Return True if the loops of this dimension exceed its bound."""
        return self.span(dimension) != self.layer.bounds[dimension]

    def in_shared(self, operand: str, dimension: str) -> tuple[NestLoop, ...]:
        """Return the loops of a dimension within an operand's tile in shared memory, innermost first."""
        cut = self.shared[operand]
        return tuple(
            loop
            for at, loop in enumerate(self.loops)
            if loop.dimension == dimension and (loop.along == THREAD or (loop.along is None and at < cut))
        )

    def in_registers(self, operand: str, dimension: str) -> tuple[NestLoop, ...]:
        """Return the loops of a dimension within an operand's tile in the registers of a thread, innermost first."""
        inside = self.loops[: self.registers.get(operand, 0)]
        return tuple(loop for loop in inside if loop.dimension == dimension and loop.along is None)

    def others(self, dimension: str, spanned: Iterable[NestLoop]) -> tuple[NestLoop, ...]:
        """Return the loops of a dimension outside a tile."""
        inside = tuple(spanned)
        return tuple(loop for loop in self.loops if loop.dimension == dimension and loop not in inside)

    def lasts_to(self, operand: str, cut: int) -> int:
        """Return the number of loops during which a tile stays, including outer loops it does not depend on."""
        while cut < len(self.loops):
            loop = self.loops[cut]
            if loop.along is None and loop.dimension in RELEVANT[operand]:
                break
            cut += 1
        return cut

    def is_unrolled(self, loop: NestLoop) -> bool:
        """Return True if the next iteration needs other registers, which have no index."""
        readers = (operand for operand, relevant in RELEVANT.items() if loop.dimension in relevant)
        return any(loop in self.in_registers(operand, loop.dimension) for operand in readers)


def gpu_nest(layer: Layer, mapping: LayerMapping, accelerator: Accelerator) -> GpuNest:
    """Return the loops of a legal mapping; raises InputError for a mapping that kernels do not support."""
    if not layer.has_weight:
        raise InputError("it has no weights", place="layer", expected="a product or a convolution")
    short = mapping.without_loops_of_one()
    for loop in short.nest:
        _can_run_along(loop)
    loops = numbered(short.nest, dict.fromkeys(LOOPS, 1))
    shared: dict[str, int] = {}
    registers: dict[str, int] = {}
    levels = {level.memory.name: level for level in accelerator.levels}
    for operand in Operand:
        for kept in short.kept(operand):
            place = _place_of(levels[kept.memory], operand)
            found = {THREAD: registers, BLOCK: shared}.get(place, {})
            if operand in found:
                raise _error(f"{operand} is kept twice by a {place}", "one memory of each kind")
            found[str(operand)] = kept.loops
    nest = GpuNest(short.layer(layer), tuple(loops), shared, registers)
    _can_run(nest)
    return nest


def _place_of(level: MemoryLevel, operand: Operand) -> str:
    """Return the owner of the memory: a thread, a block, or '' for all blocks."""
    if level.serves == ():
        return THREAD
    if level.serves is None or BLOCK in level.serves:
        return ""
    if THREAD not in level.serves:
        detail = f"{level.memory.name!r} serves what is along {', '.join(level.serves)}"
        raise _error(detail, f"{THREAD} or {BLOCK}, as in `h100-like`")
    if operand == OUTPUT:
        raise _error(f"outputs are kept in {level.memory.name!r}, which threads share", "sums in registers alone")
    if level.double_buffered:
        raise _error(f"{level.memory.name!r} is double buffered", "one tile at a time")
    return BLOCK


def _can_run_along(loop: Loop) -> None:
    if loop.along not in (THREAD, BLOCK, None):
        raise _error(f"loop {loop.dimension} runs along {loop.along!r}", f"{THREAD} or {BLOCK}, as in `h100-like`")
    if loop.along is not None and loop.dimension not in RELEVANT[OUTPUT]:
        detail = f"loop {loop.dimension}, which is added up, runs along {loop.along!r}"
        raise _error(detail, f"one of {', '.join(RELEVANT[OUTPUT])}")


def _can_run(nest: GpuNest) -> None:
    if nest.threads > GREATEST_THREADS:
        raise _error(f"a block has {nest.threads} threads", f"at most {GREATEST_THREADS}")
    unrolled = prod(loop.size for loop in nest.loops if nest.is_unrolled(loop))
    if unrolled > GREATEST_UNROLLED:
        raise _error(f"a thread has {unrolled} products of elements in registers", f"at most {GREATEST_UNROLLED}")
    for operand in (INPUT, WEIGHT, OUTPUT):
        elements = max(nest.layer.elements(operand), prod(nest.span(name) for name in RELEVANT[operand]))
        if elements > GREATEST_INDEX:
            raise _error(f"{operand} has {elements} elements", f"at most {GREATEST_INDEX}")


def _error(detail: str, expected: str) -> InputError:
    return InputError(detail, place="mapping", expected=expected)


AXES: Final[Mapping[str, tuple[str, ...]]] = {
    INPUT: ("N", "H", "W", "G", "C"),
    WEIGHT: ("R", "S", "C", "G", "K"),
    OUTPUT: ("N", "P", "Q", "G", "K"),
}
PIXELS: Final = ("H", "W")
Digits: TypeAlias = Callable[[NestLoop], str]
"""The expression of a loop's iteration, where a line stands."""


def by_name(loop: NestLoop) -> str:
    """Return the name of a loop's counter."""
    return loop.name


def network_sizes(layer: Layer, operand: str) -> dict[str, int]:
    """Return the size of an operand of the network along each axis, the contiguous axis last."""
    height, width = layer.input_pixels
    sizes = {**layer.bounds, "H": height, "W": width}
    return {axis: sizes[axis] for axis in AXES[operand]}


def offset(places: Mapping[str, str], sizes: Mapping[str, int]) -> str:
    """Return the expression of the offset in elements of an element with these indices."""
    terms, stride = [], 1
    for axis in reversed(list(sizes)):
        if places[axis] != "0" and sizes[axis] > 1:
            is_sum = stride > 1 and " " in places[axis]
            terms.append(times(f"({places[axis]})" if is_sum else places[axis], stride))
        stride *= sizes[axis]
    return " + ".join(reversed(terms)) or "0"


def index(loops: Iterable[NestLoop], digits: Digits = by_name) -> str:
    """Return the expression of the index of a dimension."""
    return " + ".join(times(digits(loop), loop.step) for loop in loops) or "0"


def pixel(axis: Axis, outputs: Iterable[NestLoop], filters: Iterable[NestLoop], *, relative: bool = False) -> str:
    """Return the expression of the row or column of the input; `relative` omits the padding."""
    terms = [times(loop.name, loop.step * axis.stride) for loop in outputs]
    terms += [times(loop.name, loop.step * axis.dilation) for loop in filters]
    shift = f" - {axis.padding}" if axis.padding and not relative else ""
    return (" + ".join(terms) or "0") + shift


def axis_of(layer: Layer, name: str) -> Axis:
    """Return the height or the width of the input."""
    return layer.axes[PIXELS.index(name)]


def packed_index(loops: Sequence[NestLoop], digits: Digits = by_name) -> str:
    """Return the expression of an index within a tile that packs the iterations of these loops."""
    terms, radix = [], 1
    for loop in loops:
        terms.append(times(digits(loop), radix))
        radix *= loop.size
    return " + ".join(terms) or "0"


Part = TypeVar("Part")


def unpacked(place: str, sizes: Mapping[Part, int]) -> dict[Part, str]:
    """Return the expression of each part's index at a packed index; the first part is the least significant."""
    found, radix = dict.fromkeys(sizes, "0"), 1
    long = [part for part, size in sizes.items() if size > 1]
    for part in long:
        shifted = place if radix == 1 else f"{place} / {radix}"
        radix *= sizes[part]
        if part != long[-1]:
            found[part] = f"({shifted} % {sizes[part]})"
        else:
            found[part] = shifted if shifted == place else f"({shifted})"
    return found


def unpacked_index(loops: Sequence[NestLoop], place: str) -> str:
    """Return the expression of the network index at an index of such a tile, as short as contiguity allows."""
    is_close = all(outer.step == inner.step * inner.size for inner, outer in pairwise(loops))
    if loops and is_close and place != "0":
        return times(place, loops[0].step)
    digits = unpacked(place, {loop: loop.size for loop in loops})
    return index(loops, lambda loop: digits[loop])


@dataclass(frozen=True)
class OperandTile(ABC):
    """An operand's tile, with rows and columns from the first to the last that it reads."""

    nest: GpuNest
    operand: str

    @property
    @abstractmethod
    def sizes(self) -> dict[str, int]:
        """Map from axis to its elements."""

    @property
    def elements(self) -> int:
        """Number of elements of the tile."""
        return prod(self.sizes.values())


@dataclass(frozen=True)
class SharedTile(OperandTile):
    """An operand's tile in the shared memory of a block: as many elements as the largest tile touches.

    Rows and columns of the input are those from the first to the last that are touched, without zeros around it.
    """

    @property
    def name(self) -> str:
        """Return its name in the kernel."""
        return f"shared_{self.operand}"

    @property
    def place(self) -> int:
        """Number of loops during which it stays."""
        return self.nest.lasts_to(self.operand, self.nest.shared[self.operand])

    @property
    def sizes(self) -> dict[str, int]:
        """Map from axis to its elements."""
        bounds = self.nest.layer.bounds
        return {
            axis: self._longest(axis) if axis in PIXELS else len(_indices(self.loops(axis), bounds[axis]))
            for axis in AXES[self.operand]
        }

    def loops(self, dimension: str) -> tuple[NestLoop, ...]:
        """Return the loops of a dimension within the tile."""
        return self.nest.in_shared(self.operand, dimension)

    def others(self, dimension: str) -> tuple[NestLoop, ...]:
        """Return the loops of a dimension that select the tile."""
        return self.nest.others(dimension, self.loops(dimension))

    def first(self, axis: str) -> str:
        """Return the expression of its first row or column of the input."""
        one = axis_of(self.nest.layer, axis)
        lowest = pixel(one, self.others(one.output_loop), self.others(one.filter_loop))
        return f"max({lowest}, 0)" if one.padding else lowest

    def _longest(self, name: str) -> int:
        axis = axis_of(self.nest.layer, name)
        ends = [list(self._ends(loop)) for loop in (axis.output_loop, axis.filter_loop)]
        longest = 0
        for (first_output, last_output), (first_filter, last_filter) in product(*ends):
            first = first_output * axis.stride + first_filter * axis.dilation - axis.padding
            last = last_output * axis.stride + last_filter * axis.dilation - axis.padding
            longest = max(longest, min(last, axis.size - 1) - max(first, 0) + 1)
        return longest

    def _ends(self, dimension: str) -> Iterable[tuple[int, int]]:
        bound = self.nest.layer.bounds[dimension]
        for first in _indices(self.others(dimension), bound):
            yield first, first + max(_indices(self.loops(dimension), bound - first))


@dataclass(frozen=True)
class RegisterTile(OperandTile):
    """An operand's tile in the registers of a thread: of an input with all between its first and last row and column.

    An operand that is not kept there has a tile of one element.
    """

    @property
    def name(self) -> str:
        """Return its name in the kernel."""
        return "sums" if self.operand == OUTPUT else f"own_{self.operand}"

    @property
    def place(self) -> int:
        """Number of loops during which it stays."""
        return self.nest.lasts_to(self.operand, self.nest.registers.get(self.operand, 0))

    @property
    def sizes(self) -> dict[str, int]:
        """Map from axis to its elements."""
        return {
            axis: self._span(axis) if axis in PIXELS else prod(loop.size for loop in self.loops(axis))
            for axis in AXES[self.operand]
        }

    @property
    def multiplied(self) -> int:
        """Upper limit on its useful elements: without those that strides skip or that are padding in every tile."""
        return prod(self._most_read(axis) if axis in PIXELS else size for axis, size in self.sizes.items())

    def loops(self, dimension: str) -> tuple[NestLoop, ...]:
        """Return the loops of a dimension within the tile."""
        return self.nest.in_registers(self.operand, dimension)

    def first(self, axis: str) -> str:
        """Return the expression of its first row or column, which may lie before the input."""
        one = axis_of(self.nest.layer, axis)
        outputs, filters = (self.nest.others(name, self.loops(name)) for name in (one.output_loop, one.filter_loop))
        return pixel(one, outputs, filters)

    def element(self) -> str:
        """Return the expression of the current element."""
        places = {}
        for axis in AXES[self.operand]:
            if axis in PIXELS:
                one = axis_of(self.nest.layer, axis)
                places[axis] = pixel(one, self.loops(one.output_loop), self.loops(one.filter_loop), relative=True)
            else:
                places[axis] = packed_index(self.loops(axis))
        return f"{self.name}[{offset(places, self.sizes)}]"

    def _span(self, name: str) -> int:
        axis = axis_of(self.nest.layer, name)
        outputs = sum((loop.size - 1) * loop.step for loop in self.loops(axis.output_loop))
        filters = sum((loop.size - 1) * loop.step for loop in self.loops(axis.filter_loop))
        return outputs * axis.stride + filters * axis.dilation + 1

    def _most_read(self, name: str) -> int:
        axis = axis_of(self.nest.layer, name)
        outputs, filters = (list(self._tiles(loop)) for loop in (axis.output_loop, axis.filter_loop))
        read = (
            {output * axis.stride + tap * axis.dilation - axis.padding for output, tap in product(*tiles)}
            for tiles in product(outputs, filters)
        )
        return max(sum(0 <= row < axis.size for row in rows) for rows in read)

    def _tiles(self, dimension: str) -> Iterable[list[int]]:
        bound = self.nest.layer.bounds[dimension]
        for first in _indices(self.nest.others(dimension, self.loops(dimension)), bound):
            yield [first + index for index in _indices(self.loops(dimension), bound - first)]


def _indices(loops: Sequence[NestLoop], bound: int) -> list[int]:
    """Return the indices below a bound that these loops reach, with all other loops at 0."""
    found = [0]
    for loop in loops:
        found = [one + digit * loop.step for digit in range(loop.size) for one in found]
    return [one for one in found if one < bound]


@dataclass(frozen=True, slots=True)
class GpuReads:
    """The tiles of a nest, by operand: those that threads share, and those of a thread."""

    nest: GpuNest
    shared: Mapping[str, SharedTile]
    own: Mapping[str, RegisterTile]

    def factor(self, operand: str) -> str:
        """Return the expression of a factor of the innermost product."""
        if operand in self.own:
            return self.own[operand].element()
        pixels = {}
        for axis in self.pixel_axes(operand):
            one = axis_of(self.nest.layer, axis)
            loops = [loop for loop in self.nest.loops if loop.dimension == one.output_loop]
            pixels[axis] = pixel(one, loops, [loop for loop in self.nest.loops if loop.dimension == one.filter_loop])
        return self._read(operand, by_name, pixels)

    def loaded(self, tile: RegisterTile, at: str) -> str:
        """Return the expression of the element at an index of a thread's tile."""
        places = unpacked(at, dict(reversed(tile.sizes.items())))
        digits: dict[str, str] = {}
        for axis in AXES[tile.operand]:
            if axis not in PIXELS:
                digits_here = unpacked(places[axis], {loop: loop.size for loop in tile.loops(axis)})
                digits |= {loop.name: digit for loop, digit in digits_here.items()}
        pixels = {axis: _sum(tile.first(axis), places[axis]) for axis in self.pixel_axes(tile.operand)}
        return self._read(tile.operand, lambda loop: digits.get(loop.name, loop.name), pixels)

    def copied(self, tile: SharedTile, at: str) -> tuple[dict[str, str], list[str]]:
        """Return the network indices of the element at an index of a shared tile, and the conditions that it exists."""
        inside = unpacked(at, dict(reversed(tile.sizes.items())))
        places, guards = {}, []
        sizes = network_sizes(self.nest.layer, tile.operand)
        for axis in AXES[tile.operand]:
            if axis in PIXELS:
                is_whole = axis not in self.pixel_axes(tile.operand)
                places[axis] = "0" if is_whole else _sum(f"{tile.name}_{axis.lower()}", inside[axis])
                if not is_whole:
                    guards.append(f"{places[axis]} < {sizes[axis]}")
                continue
            places[axis] = _sum(index(tile.others(axis)), unpacked_index(tile.loops(axis), inside[axis]))
            if self.nest.ends_short(axis):
                guards.append(f"{places[axis]} < {sizes[axis]}")
        return places, guards

    def pixel_axes(self, operand: str) -> tuple[str, ...]:
        """Return the axes of the input with several elements or with padding."""
        if operand != INPUT:
            return ()
        layer = self.nest.layer
        return tuple(axis for axis in PIXELS if _is_long(self.nest, axis) or any(layer.padding))

    def _read(self, operand: str, digits: Digits, pixels: Mapping[str, str]) -> str:
        """Return the expression of an element of shared memory, if it holds the operand, else of the network."""
        sizes = network_sizes(self.nest.layer, operand)
        tile = self.shared.get(operand)
        places, guards = {}, []
        for axis in AXES[operand]:
            if axis in PIXELS:
                place, size = pixels.get(axis, "0"), sizes[axis]
                if tile is not None and axis in pixels:
                    place, size = f"{place} - {tile.name}_{axis.lower()}", tile.sizes[axis]
                if axis in pixels and self._may_lie_outside(axis):
                    guards.append(f"(unsigned)({place}) < {size}")
                places[axis] = place
                continue
            loops = [loop for loop in self.nest.loops if loop.dimension == axis]
            whole = index(loops, digits)
            if self.nest.ends_short(axis):
                guards.append(f"{whole} < {sizes[axis]}")
            places[axis] = whole if tile is None else packed_index(tile.loops(axis), digits)
        source, extents = (operand, sizes) if tile is None else (tile.name, tile.sizes)
        value = f"{source}[{offset(places, extents)}]"
        return f"({' && '.join(guards)} ? {value} : 0)" if guards else value

    def _may_lie_outside(self, axis: str) -> bool:
        one = axis_of(self.nest.layer, axis)
        return any(self.nest.layer.padding) or any(map(self.nest.ends_short, (one.output_loop, one.filter_loop)))


def _is_long(nest: GpuNest, axis: str) -> bool:
    one = axis_of(nest.layer, axis)
    return nest.span(one.output_loop) > 1 or nest.span(one.filter_loop) > 1


def _sum(*terms: str) -> str:
    return " + ".join(term for term in terms if term != "0") or "0"


@dataclass(frozen=True, slots=True)
class GpuDialect:
    """The syntax of a kernel language; `THREADS` stands for the threads of a block.

    `held` follows the read of an ELEMENT into a register of KIND f or r, and `all_held` follows all reads: compilers
    move no read past them, so that the whole tile is in registers, as in the mapping.
    """

    ending: str
    kernel: str
    memory: str
    restrict: str
    shared: str
    barrier: str
    held: str
    all_held: str
    thread: str
    block: str
    small_integer: str


CUDA: Final = GpuDialect(
    ".cu",
    'extern "C" __global__ void __launch_bounds__(THREADS, 1)',
    "",
    "__restrict__",
    "volatile __shared__",
    "__syncthreads();",
    'asm volatile("" : "+KIND"(ELEMENT) :: "memory");',
    "__syncwarp();",
    "(int)threadIdx.x",
    "(int)blockIdx.x",
    "signed char",
)
OPENCL: Final = GpuDialect(
    ".cl",
    "__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) void",
    "__global ",
    "restrict",
    "__local",
    "barrier(CLK_LOCAL_MEM_FENCE);",
    "",
    "",
    "(int)get_local_id(0)",
    "(int)get_group_id(0)",
    "char",
)
DIALECTS: Final = {MappingFormat.CUDA: CUDA, MappingFormat.OPENCL: OPENCL}

ELEMENT_BYTES: Final = {32: 4, 8: 1}
REDUCED: Final = ("C", "R", "S")


@dataclass(frozen=True, slots=True)
class GpuKernel:
    """The source of a kernel `name(input, weight, output)`, and its demands on the GPU.

    `registers` counts the 32-bit registers of a thread that hold useful elements of its tiles.
    """

    name: str
    source: str
    blocks: int
    threads: int
    shared_bytes: int
    registers: int


def gpu_kernel(
    layer: Layer, mapping: LayerMapping, accelerator: Accelerator, dialect: GpuDialect, name: str, label: str = ""
) -> GpuKernel:
    """Return a legal mapping as a kernel, whose comment quotes `label`.

    Raises InputError for a layer without weights or with elements other than float32 (32 bits) and int8 (8 bits), and
    for a mapping that blocks and threads cannot run.
    """
    element_bits(layer)
    writer = GpuSource(gpu_nest(layer, mapping, accelerator), dialect)
    if writer.shared_bytes > GREATEST_SHARED_BYTES:
        detail = f"its tiles take {writer.shared_bytes} bytes of shared memory"
        raise InputError(detail, place="mapping", expected=f"at most {GREATEST_SHARED_BYTES}")
    source = writer.text(name, label or str(dict(layer.bounds)), str(mapping))
    nest = writer.nest
    registers = sum(RegisterTile(nest, operand).multiplied for operand in nest.registers)
    return GpuKernel(name, source, nest.blocks, nest.threads, writer.shared_bytes, registers)


@dataclass(frozen=True, slots=True)
class GpuSource:
    """The parts of a kernel from the outside in."""

    nest: GpuNest
    dialect: GpuDialect

    @property
    def shared_bytes(self) -> int:
        """Number of bytes of the tiles in shared memory."""
        return sum(tile.elements for tile in self._shared.values()) * ELEMENT_BYTES[self.nest.layer.input_bits]

    def text(self, name: str, label: str, mapping: str) -> str:
        """Return all of its lines."""
        nest, dialect = self.nest, self.dialect
        pointers = [f"{dialect.memory}const element *{dialect.restrict} {one}" for one in (INPUT, WEIGHT)]
        pointers.append(f"{dialect.memory}sum *{dialect.restrict} {OUTPUT}")
        is_narrow = nest.layer.input_bits == 8
        lines = [
            f"/* {comment(label)}",
            f" * {comment(mapping)}",
            " * input [N][height][width][G][C], weight [R][S][C][G][K], output [N][P][Q][G][K].",
            f" * {nest.blocks} blocks of {nest.threads} threads, {self.shared_bytes} bytes of shared memory each. */",
            f"typedef {dialect.small_integer if is_narrow else 'float'} element;",
            f"typedef {'int' if is_narrow else 'float'} sum;",
            "",
            dialect.kernel.replace("THREADS", str(nest.threads)) + f" {name}({', '.join(pointers)})",
            "{",
            *_indented(self._places()),
            *_indented(self._inside(len(nest.loops))),
            "}",
        ]
        return "\n".join(lines) + "\n"

    @property
    def _shared(self) -> Mapping[str, SharedTile]:
        return {operand: SharedTile(self.nest, operand) for operand in AXES if operand in self.nest.shared}

    @property
    def _own(self) -> Mapping[str, RegisterTile]:
        held = [operand for operand in (INPUT, WEIGHT) if operand in self.nest.registers]
        return {operand: RegisterTile(self.nest, operand) for operand in held}

    @property
    def _sums(self) -> RegisterTile:
        return RegisterTile(self.nest, OUTPUT)

    @property
    def _reads(self) -> GpuReads:
        return GpuReads(self.nest, self._shared, self._own)

    def _places(self) -> list[str]:
        lines = [f"{self.dialect.shared} element {tile.name}[{tile.elements}];" for tile in self._shared.values()]
        words = ((THREAD, self.dialect.thread), (BLOCK, self.dialect.block))
        for along, word in words:
            loops = [loop for loop in self.nest.loops if loop.along == along]
            if not loops and not (along == THREAD and self._shared):
                continue
            lines.append(f"const int {along} = {word};")
            radix = 1
            for loop in loops:
                shifted = along if radix == 1 else f"{along} / {radix}"
                taken = f" % {loop.size}" if loop is not loops[-1] else ""
                lines.append(f"const int {loop.name} = {shifted}{taken};")
                radix *= loop.size
        return lines

    def _inside(self, place: int) -> list[str]:
        lines = []
        if place == self._sums.place:
            lines += [f"sum {self._sums.name}[{self._sums.elements}] = {{0}};"]
        copies = [line for tile in self._shared.values() if tile.place == place for line in self._copy(tile)]
        if copies:
            is_first = place == len(self.nest.loops)
            lines += [*([] if is_first else [self.dialect.barrier]), *copies, self.dialect.barrier]
        lines += self._loads([tile for tile in self._own.values() if tile.place == place])
        if place:
            lines += self._loop(self.nest.loops[place - 1], self._inside(place - 1))
        else:
            reads = self._reads
            lines += [f"{self._sums.element()} += (sum){reads.factor(WEIGHT)} * (sum){reads.factor(INPUT)};"]
        if place == self._sums.place:
            lines += self._store()
        return lines

    def _loop(self, loop: NestLoop, body: Sequence[str]) -> list[str]:
        """Return a loop that ends with its dimension, at the same iteration for all threads of a block.

        A loop over different registers is unrolled, so that the compiler knows the registers.
        """
        if loop.along is not None:
            return list(body)
        condition = f"{loop.name} < {loop.size}"
        is_summed = loop.dimension not in RELEVANT[OUTPUT]
        shortened = ""
        if self.nest.ends_short(loop.dimension):
            outside = self.nest.loops[self.nest.loops.index(loop) :]
            of_all = [one for one in outside if one.dimension == loop.dimension]
            of_all += [one for one in self.nest.loops if one.dimension == loop.dimension and one.along == BLOCK]
            reached = index(dict.fromkeys(one for one in of_all if one.along != THREAD))
            shortened = f"{reached} < {self.nest.layer.bounds[loop.dimension]}"
        if self.nest.is_unrolled(loop):
            inner = [f"if ({shortened}) {{", *_indented(body), "}"] if shortened and is_summed else list(body)
            return _for(loop.name, condition, inner, "#pragma unroll")
        return _for(loop.name, f"{condition} && {shortened}" if shortened else condition, body, "#pragma unroll 1")

    def _copy(self, tile: SharedTile) -> list[str]:
        """Return the copy of a tile by all threads into shared memory, with zeros beyond the operand."""
        condition = f"{tile.name}_at < {tile.elements}"
        places, guards = self._reads.copied(tile, f"{tile.name}_at")
        value = f"{tile.operand}[{offset(places, network_sizes(self.nest.layer, tile.operand))}]"
        found = f"{' && '.join(guards)} ? {value} : 0" if guards else value
        head = f"for (int {tile.name}_at = {THREAD}; {condition}; {tile.name}_at += {self.nest.threads})"
        firsts = [
            f"const int {tile.name}_{axis.lower()} = {tile.first(axis)};"
            for axis in self._reads.pixel_axes(tile.operand)
        ]
        return [*firsts, "#pragma unroll 1", head, f"    {tile.name}[{tile.name}_at] = {found};"]

    def _loads(self, tiles: Sequence[RegisterTile]) -> list[str]:
        """Return the reads of a thread's tiles; the element multiplied first comes last and so waits for all others."""
        kind = "r" if self.nest.layer.input_bits == 8 else "f"
        lines, held = [], []
        for tile in tiles:
            at = f"{tile.name}_at"
            head = f"for (int {at} = {tile.elements - 1}; {at} >= 0; {at}--)"
            lines += [f"sum {tile.name}[{tile.elements}];", "#pragma unroll", head]
            lines += [f"    {tile.name}[{at}] = {self._reads.loaded(tile, at)};"]
            if self.dialect.held:
                asm = self.dialect.held.replace("KIND", kind).replace("ELEMENT", f"{tile.name}[{at}]")
                held += ["#pragma unroll", head, f"    {asm}"]
        return [*lines, *held, self.dialect.all_held] if held else lines

    def _store(self) -> list[str]:
        """Return the stores of the sums within the bounds of the layer; later sums add to earlier ones."""
        nest, tile = self.nest, self._sums
        inside = [loop for dimension in AXES[OUTPUT] for loop in tile.loops(dimension)]
        places = {axis: index(one for one in nest.loops if one.dimension == axis) for axis in AXES[OUTPUT]}
        target = f"{OUTPUT}[{offset(places, network_sizes(nest.layer, OUTPUT))}]"
        around = [loop for loop in nest.loops[tile.place :] if loop.along is None and loop.dimension in REDUCED]
        value = tile.element()
        if around:
            first = " && ".join(f"{loop.name} == 0" for loop in around)
            value = f"({first}) ? {value} : {target} + {value}"
        lines = [f"{target} = {value};"]
        guards = [f"{places[axis]} < {nest.layer.bounds[axis]}" for axis in AXES[OUTPUT] if nest.ends_short(axis)]
        if guards:
            lines = [f"if ({' && '.join(guards)})", f"    {lines[0]}"]
        for loop in inside:
            lines = _for(loop.name, f"{loop.name} < {loop.size}", lines, "#pragma unroll")
        return lines


def _for(name: str, condition: str, body: Sequence[str], pragma: str) -> list[str]:
    return [pragma, f"for (int {name} = 0; {condition}; {name}++) {{", *_indented(body), "}"]


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for line in lines]
