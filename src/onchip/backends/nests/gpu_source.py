"""A mapping of a layer as one kernel of CUDA or OpenCL."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, product
from math import prod
from typing import Final, TypeAlias, TypeVar

from onchip.answer.layer_mapping import LayerMapping
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import MemoryLevel, Operand
from onchip.backends.c.calls import comment
from onchip.backends.nests import MappingFormat
from onchip.backends.nests.c_loops import NestLoop, element_bits, numbered, times
from onchip.errors import InputError
from onchip.ir.layer import INPUT, LOOPS, OUTPUT, RELEVANT, WEIGHT, Axis, Layer

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

    def along(self, place: str) -> list[NestLoop]:
        """Return the loops along the threads of a block, or along blocks."""
        return [loop for loop in self.loops if loop.along == place]

    def of(self, *dimensions: str) -> list[NestLoop]:
        """Return the loops of these dimensions, one dimension after the other."""
        return [loop for dimension in dimensions for loop in self.loops if loop.dimension == dimension]

    def span(self, dimension: str) -> int:
        """Return the iterations of all loops of a dimension, at least its bound."""
        return _sizes(self.of(dimension))

    def ends_short(self, dimension: str) -> bool:
        """Return True if the loops of this dimension exceed its bound."""
        return self.span(dimension) != self.layer.bounds[dimension]

    def is_unrolled(self, loop: NestLoop) -> bool:
        """Return True if the next iteration needs other registers, which have no index."""
        readers = [operand for operand, relevant in RELEVANT.items() if loop.dimension in relevant]
        return any(loop in GpuTile(self, one, is_shared=False).loops(loop.dimension) for one in readers)


def _sizes(loops: Iterable[NestLoop]) -> int:
    return prod(loop.size for loop in loops)


def gpu_nest(layer: Layer, mapping: LayerMapping, accelerator: Accelerator) -> GpuNest:
    """Return the loops of a legal mapping; raises InputError for a mapping that kernels do not support."""
    if not layer.has_weight:
        raise InputError("it has no weights", place="layer", expected="a product or a convolution")
    short = mapping.without_loops_of_one()
    for loop in short.nest:
        if loop.along not in (THREAD, BLOCK, None):
            raise _error(f"loop {loop.dimension} runs along {loop.along!r}", f"{THREAD} or {BLOCK}, as in `h100-like`")
        if loop.along is not None and loop.dimension not in RELEVANT[OUTPUT]:
            detail = f"loop {loop.dimension}, which is added up, runs along {loop.along!r}"
            raise _error(detail, f"one of {', '.join(RELEVANT[OUTPUT])}")
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


def _can_run(nest: GpuNest) -> None:
    if (threads := _sizes(nest.along(THREAD))) > GREATEST_THREADS:
        raise _error(f"a block has {threads} threads", f"at most {GREATEST_THREADS}")
    unrolled = _sizes(loop for loop in nest.loops if nest.is_unrolled(loop))
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


def _by_name(loop: NestLoop) -> str:
    return loop.name


def _network_sizes(layer: Layer, operand: str) -> dict[str, int]:
    """Return the size of an operand of the network along each axis, the contiguous axis last."""
    height, width = layer.input_pixels
    sizes = {**layer.bounds, "H": height, "W": width}
    return {axis: sizes[axis] for axis in AXES[operand]}


def _offset(places: Mapping[str, str], sizes: Mapping[str, int]) -> str:
    """Return the expression of the offset in elements of an element with these indices."""
    terms, stride = [], 1
    for axis in reversed(list(sizes)):
        if places[axis] != "0" and sizes[axis] > 1:
            is_sum = stride > 1 and " " in places[axis]
            terms.append(times(f"({places[axis]})" if is_sum else places[axis], stride))
        stride *= sizes[axis]
    return " + ".join(reversed(terms)) or "0"


def _index(loops: Iterable[NestLoop], digits: Digits = _by_name) -> str:
    """Return the expression of the index of a dimension."""
    return " + ".join(times(digits(loop), loop.step) for loop in loops) or "0"


def _packed_index(loops: Iterable[NestLoop], digits: Digits = _by_name) -> str:
    """Return the expression of an index within a tile that packs the iterations of these loops."""
    terms, radix = [], 1
    for loop in loops:
        terms.append(times(digits(loop), radix))
        radix *= loop.size
    return " + ".join(terms) or "0"


def _pixel(axis: Axis, loops: Iterable[NestLoop], *, relative: bool = False) -> str:
    """Return the expression of the row or column of the input; `relative` omits the padding."""
    factors = {axis.output_loop: axis.stride, axis.filter_loop: axis.dilation}
    terms = [times(loop.name, loop.step * factors[loop.dimension]) for loop in loops]
    shift = f" - {axis.padding}" if axis.padding and not relative else ""
    return (" + ".join(terms) or "0") + shift


def _axis_of(layer: Layer, name: str) -> Axis:
    return layer.axes[PIXELS.index(name)]


Part = TypeVar("Part")


def _unpacked(place: str, sizes: Mapping[Part, int]) -> dict[Part, str]:
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


def _unpacked_index(loops: Sequence[NestLoop], place: str) -> str:
    """Return the expression of the network index at an index of such a tile, as short as contiguity allows."""
    is_close = all(outer.step == inner.step * inner.size for inner, outer in pairwise(loops))
    if loops and is_close and place != "0":
        return times(place, loops[0].step)
    digits = _unpacked(place, {loop: loop.size for loop in loops})
    return _index(loops, lambda loop: digits[loop])


@dataclass(frozen=True)
class GpuTile:
    """An operand's tile in the shared memory of a block, or in the registers of a thread.

    It has all rows and columns of the input from the first to the last that it reads; in shared memory, none of the
    padding. An operand that is not kept in registers has a tile of one element there.
    """

    nest: GpuNest
    operand: str
    is_shared: bool

    @property
    def name(self) -> str:
        """Return its name in the kernel."""
        if self.is_shared:
            return f"shared_{self.operand}"
        return "sums" if self.operand == OUTPUT else f"own_{self.operand}"

    @property
    def cut(self) -> int:
        """Number of loops that it spans."""
        return (self.nest.shared if self.is_shared else self.nest.registers).get(self.operand, 0)

    @property
    def place(self) -> int:
        """Number of loops during which it stays, including outer loops it does not depend on."""
        outside = enumerate(self.nest.loops[self.cut :], self.cut)
        moving = (at for at, loop in outside if loop.along is None and loop.dimension in RELEVANT[self.operand])
        return next(moving, len(self.nest.loops))

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Map from axis to the elements of the largest tile."""
        bounds = self.nest.layer.bounds
        found = {}
        for axis in AXES[self.operand]:
            if axis in PIXELS:
                found[axis] = self._longest(axis) if self.is_shared else self._span(axis)
            else:
                loops = self.loops(axis)
                found[axis] = len(_indices(loops, bounds[axis])) if self.is_shared else _sizes(loops)
        return found

    @property
    def elements(self) -> int:
        """Number of elements of the tile."""
        return prod(self.sizes.values())

    @property
    def multiplied(self) -> int:
        """Upper limit on its useful elements: without those that strides skip or that are padding in every tile."""
        return prod(self._most_read(axis) if axis in PIXELS else size for axis, size in self.sizes.items())

    def loops(self, *dimensions: str) -> list[NestLoop]:
        """Return the loops of these dimensions within the tile, innermost first."""
        inside = self.nest.loops[: self.cut]
        return [
            loop
            for loop in self.nest.of(*dimensions)
            if (loop.along == THREAD and self.is_shared) or (loop.along is None and loop in inside)
        ]

    def others(self, *dimensions: str) -> list[NestLoop]:
        """Return the loops of these dimensions that select the tile."""
        inside = self.loops(*dimensions)
        return [loop for loop in self.nest.of(*dimensions) if loop not in inside]

    def first(self, name: str) -> str:
        """Return the expression of its first row or column; of a thread's tile it may lie before the input."""
        axis = _axis_of(self.nest.layer, name)
        lowest = _pixel(axis, self.others(axis.output_loop, axis.filter_loop))
        return f"max({lowest}, 0)" if axis.padding and self.is_shared else lowest

    def element(self) -> str:
        """Return the expression of the current element of a tile in registers."""
        places = {}
        for name in AXES[self.operand]:
            places[name] = _packed_index(self.loops(name))
            if name in PIXELS:
                axis = _axis_of(self.nest.layer, name)
                places[name] = _pixel(axis, self.loops(axis.output_loop, axis.filter_loop), relative=True)
        return f"{self.name}[{_offset(places, self.sizes)}]"

    def _span(self, name: str) -> int:
        axis = _axis_of(self.nest.layer, name)
        loops = (self.loops(axis.output_loop), self.loops(axis.filter_loop))
        return axis.span(*(1 + sum((loop.size - 1) * loop.step for loop in some) for some in loops))

    def _longest(self, name: str) -> int:
        size = _axis_of(self.nest.layer, name).size
        return max(0, *(min(max(rows), size - 1) - max(min(rows), 0) + 1 for rows in self._rows(name)))

    def _most_read(self, name: str) -> int:
        size = _axis_of(self.nest.layer, name).size
        return max(sum(0 <= row < size for row in rows) for rows in self._rows(name))

    def _rows(self, name: str) -> Iterator[set[int]]:
        """Yield the rows or columns that each tile reads, including those of the padding."""
        axis = _axis_of(self.nest.layer, name)
        for outputs, taps in product(*(list(self._tiles(one)) for one in (axis.output_loop, axis.filter_loop))):
            pairs = product(outputs, taps)
            yield {output * axis.stride + tap * axis.dilation - axis.padding for output, tap in pairs}

    def _tiles(self, dimension: str) -> Iterator[list[int]]:
        bound = self.nest.layer.bounds[dimension]
        for first in _indices(self.others(dimension), bound):
            yield [first + index for index in _indices(self.loops(dimension), bound - first)]


def _indices(loops: Iterable[NestLoop], bound: int) -> list[int]:
    """Return the indices below a bound that these loops reach, with all other loops at 0."""
    found = [0]
    for loop in loops:
        found = [one + digit * loop.step for digit in range(loop.size) for one in found]
    return [one for one in found if one < bound]


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
    nest = gpu_nest(layer, mapping, accelerator)
    writer = GpuSource(nest, dialect)
    shared_bytes = sum(tile.elements for tile in writer.shared.values()) * ELEMENT_BYTES[nest.layer.input_bits]
    if shared_bytes > GREATEST_SHARED_BYTES:
        detail = f"its tiles take {shared_bytes} bytes of shared memory"
        raise InputError(detail, place="mapping", expected=f"at most {GREATEST_SHARED_BYTES}")
    blocks, threads = (_sizes(nest.along(place)) for place in (BLOCK, THREAD))
    comments = [
        f"/* {comment(label or str(dict(layer.bounds)))}",
        f" * {comment(str(mapping))}",
        " * input [N][height][width][G][C], weight [R][S][C][G][K], output [N][P][Q][G][K].",
        f" * {blocks} blocks of {threads} threads, {shared_bytes} bytes of shared memory each. */",
    ]
    source = "\n".join((*comments, *writer.lines(name, threads))) + "\n"
    registers = sum(GpuTile(nest, operand, is_shared=False).multiplied for operand in nest.registers)
    return GpuKernel(name, source, blocks, threads, shared_bytes, registers)


@dataclass(frozen=True)
class GpuSource:
    """Writes a kernel from the outside in."""

    nest: GpuNest
    dialect: GpuDialect

    @cached_property
    def shared(self) -> Mapping[str, GpuTile]:
        """Map from operand to its tile in shared memory."""
        return {one: GpuTile(self.nest, one, is_shared=True) for one in AXES if one in self.nest.shared}

    @cached_property
    def _own(self) -> Mapping[str, GpuTile]:
        held = [operand for operand in (INPUT, WEIGHT) if operand in self.nest.registers]
        return {operand: GpuTile(self.nest, operand, is_shared=False) for operand in held}

    @cached_property
    def _sums(self) -> GpuTile:
        return GpuTile(self.nest, OUTPUT, is_shared=False)

    def lines(self, name: str, threads: int) -> list[str]:
        """Return the lines of the types and the kernel."""
        dialect, is_narrow = self.dialect, self.nest.layer.input_bits == 8
        pointers = [f"{dialect.memory}const element *{dialect.restrict} {one}" for one in (INPUT, WEIGHT)]
        pointers.append(f"{dialect.memory}sum *{dialect.restrict} {OUTPUT}")
        return [
            f"typedef {dialect.small_integer if is_narrow else 'float'} element;",
            f"typedef {'int' if is_narrow else 'float'} sum;",
            "",
            dialect.kernel.replace("THREADS", str(threads)) + f" {name}({', '.join(pointers)})",
            "{",
            *_indented((*self._places(), *self._inside(len(self.nest.loops)))),
            "}",
        ]

    def _places(self) -> Iterator[str]:
        """Yield the tiles in shared memory, and the iterations of the loops along threads and blocks."""
        for tile in self.shared.values():
            yield f"{self.dialect.shared} element {tile.name}[{tile.elements}];"
        for along, word in ((THREAD, self.dialect.thread), (BLOCK, self.dialect.block)):
            loops = self.nest.along(along)
            if not loops and not (along == THREAD and self.shared):
                continue
            yield f"const int {along} = {word};"
            radix = 1
            for loop in loops:
                shifted = along if radix == 1 else f"{along} / {radix}"
                taken = f" % {loop.size}" if loop is not loops[-1] else ""
                yield f"const int {loop.name} = {shifted}{taken};"
                radix *= loop.size

    def _inside(self, place: int) -> list[str]:
        """Return the lines within the first `place` loops."""
        lines = []
        if place == self._sums.place:
            lines.append(f"sum {self._sums.name}[{self._sums.elements}] = {{0}};")
        copies = [line for tile in self.shared.values() if tile.place == place for line in self._copy(tile)]
        if copies:
            is_first = place == len(self.nest.loops)
            lines += [*([] if is_first else [self.dialect.barrier]), *copies, self.dialect.barrier]
        lines += self._loads([tile for tile in self._own.values() if tile.place == place])
        if place:
            lines += self._loop(self.nest.loops[place - 1], self._inside(place - 1))
        else:
            lines.append(f"{self._sums.element()} += (sum){self._factor(WEIGHT)} * (sum){self._factor(INPUT)};")
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
        shortened = ""
        if self.nest.ends_short(loop.dimension):
            outside = self.nest.loops[self.nest.loops.index(loop) :]
            of_all = [one for one in outside if one.dimension == loop.dimension]
            of_all += [one for one in self.nest.of(loop.dimension) if one.along == BLOCK]
            reached = _index(dict.fromkeys(one for one in of_all if one.along != THREAD))
            shortened = f"{reached} < {self.nest.layer.bounds[loop.dimension]}"
        if self.nest.is_unrolled(loop):
            is_guarded = shortened and loop.dimension in REDUCED
            inner = [f"if ({shortened}) {{", *_indented(body), "}"] if is_guarded else body
            return _for(loop.name, condition, inner, "#pragma unroll")
        return _for(loop.name, f"{condition} && {shortened}" if shortened else condition, body, "#pragma unroll 1")

    def _copy(self, tile: GpuTile) -> list[str]:
        """Return the copy of a tile by all threads into shared memory, with zeros beyond the operand."""
        at, axes = f"{tile.name}_at", self._pixel_axes(tile.operand)
        inside = _unpacked(at, dict(reversed(tile.sizes.items())))
        places, guards = {}, []
        sizes = _network_sizes(self.nest.layer, tile.operand)
        for axis in AXES[tile.operand]:
            if axis in PIXELS:
                places[axis] = _sum(f"{tile.name}_{axis.lower()}", inside[axis]) if axis in axes else "0"
            else:
                places[axis] = _sum(_index(tile.others(axis)), _unpacked_index(tile.loops(axis), inside[axis]))
            if axis in axes or (axis not in PIXELS and self.nest.ends_short(axis)):
                guards.append(f"{places[axis]} < {sizes[axis]}")
        value = f"{tile.operand}[{_offset(places, sizes)}]"
        found = f"{' && '.join(guards)} ? {value} : 0" if guards else value
        step = _sizes(self.nest.along(THREAD))
        head = f"for (int {at} = {THREAD}; {at} < {tile.elements}; {at} += {step})"
        firsts = [f"const int {tile.name}_{axis.lower()} = {tile.first(axis)};" for axis in axes]
        return [*firsts, "#pragma unroll 1", head, f"    {tile.name}[{at}] = {found};"]

    def _loads(self, tiles: Sequence[GpuTile]) -> list[str]:
        """Return the reads of a thread's tiles; the element multiplied first comes last and so waits for all others."""
        kind = "r" if self.nest.layer.input_bits == 8 else "f"
        lines, held = [], []
        for tile in tiles:
            at = f"{tile.name}_at"
            head = f"for (int {at} = {tile.elements - 1}; {at} >= 0; {at}--)"
            lines += [f"sum {tile.name}[{tile.elements}];", "#pragma unroll", head]
            lines += [f"    {tile.name}[{at}] = {self._loaded(tile, at)};"]
            if self.dialect.held:
                asm = self.dialect.held.replace("KIND", kind).replace("ELEMENT", f"{tile.name}[{at}]")
                held += ["#pragma unroll", head, f"    {asm}"]
        return [*lines, *held, self.dialect.all_held] if held else lines

    def _store(self) -> list[str]:
        """Return the stores of the sums within the bounds of the layer; later sums add to earlier ones."""
        nest, tile = self.nest, self._sums
        places = {axis: _index(nest.of(axis)) for axis in AXES[OUTPUT]}
        target = f"{OUTPUT}[{_offset(places, _network_sizes(nest.layer, OUTPUT))}]"
        around = [loop for loop in nest.loops[tile.place :] if loop.along is None and loop.dimension in REDUCED]
        value = tile.element()
        if around:
            first = " && ".join(f"{loop.name} == 0" for loop in around)
            value = f"({first}) ? {value} : {target} + {value}"
        lines = [f"{target} = {value};"]
        guards = [f"{places[axis]} < {nest.layer.bounds[axis]}" for axis in AXES[OUTPUT] if nest.ends_short(axis)]
        if guards:
            lines = [f"if ({' && '.join(guards)})", f"    {lines[0]}"]
        for loop in tile.loops(*AXES[OUTPUT]):
            lines = _for(loop.name, f"{loop.name} < {loop.size}", lines, "#pragma unroll")
        return lines

    def _factor(self, operand: str) -> str:
        """Return the expression of a factor of the innermost product."""
        if operand in self._own:
            return self._own[operand].element()
        pixels = {}
        for name in self._pixel_axes(operand):
            axis = _axis_of(self.nest.layer, name)
            pixels[name] = _pixel(axis, self.nest.of(axis.output_loop, axis.filter_loop))
        return self._read(operand, _by_name, pixels)

    def _loaded(self, tile: GpuTile, at: str) -> str:
        """Return the expression of the element at an index of a thread's tile."""
        places = _unpacked(at, dict(reversed(tile.sizes.items())))
        digits: dict[str, str] = {}
        for axis in set(AXES[tile.operand]).difference(PIXELS):
            found = _unpacked(places[axis], {loop: loop.size for loop in tile.loops(axis)})
            digits |= {loop.name: digit for loop, digit in found.items()}
        pixels = {axis: _sum(tile.first(axis), places[axis]) for axis in self._pixel_axes(tile.operand)}
        return self._read(tile.operand, lambda loop: digits.get(loop.name, loop.name), pixels)

    def _pixel_axes(self, operand: str) -> list[str]:
        """Return the axes of the input with several elements or with padding."""
        layer, axes = self.nest.layer, PIXELS if operand == INPUT else ()
        return [axis for axis in axes if any(layer.padding) or _sizes(self._loops_along(axis)) > 1]

    def _loops_along(self, name: str) -> list[NestLoop]:
        axis = _axis_of(self.nest.layer, name)
        return self.nest.of(axis.output_loop, axis.filter_loop)

    def _read(self, operand: str, digits: Digits, pixels: Mapping[str, str]) -> str:
        """Return the expression of an element of shared memory, if it holds the operand, else of the network."""
        sizes, tile = _network_sizes(self.nest.layer, operand), self.shared.get(operand)
        places, guards = {}, []
        for axis in AXES[operand]:
            if axis in PIXELS:
                place, size = pixels.get(axis, "0"), sizes[axis]
                if tile is not None and axis in pixels:
                    place, size = f"{place} - {tile.name}_{axis.lower()}", tile.sizes[axis]
                dimensions = {loop.dimension for loop in self._loops_along(axis)}
                may_lie_outside = any(self.nest.layer.padding) or any(map(self.nest.ends_short, dimensions))
                if axis in pixels and may_lie_outside:
                    guards.append(f"(unsigned)({place}) < {size}")
                places[axis] = place
                continue
            whole = _index(self.nest.of(axis), digits)
            if self.nest.ends_short(axis):
                guards.append(f"{whole} < {sizes[axis]}")
            places[axis] = whole if tile is None else _packed_index(tile.loops(axis), digits)
        source, extents = (operand, sizes) if tile is None else (tile.name, tile.sizes)
        value = f"{source}[{_offset(places, extents)}]"
        return f"({' && '.join(guards)} ? {value} : 0)" if guards else value


def _for(name: str, condition: str, body: Sequence[str], pragma: str) -> list[str]:
    return [pragma, f"for (int {name} = 0; {condition}; {name}++) {{", *_indented(body), "}"]


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"    {line}" for line in lines]
