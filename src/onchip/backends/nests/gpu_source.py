"""A mapping of a layer as one kernel of CUDA or OpenCL: its loops in its order, and the copies of its tiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from onchip.answer.layer_mapping import LayerMapping
from onchip.arch.accelerator import Accelerator
from onchip.backends.c.names import comment
from onchip.backends.nests.gpu_nest import BLOCK, GREATEST_SHARED_BYTES, THREAD, GpuLoop, GpuNest, gpu_nest
from onchip.backends.nests.gpu_places import AXES, RegisterTile, SharedTile, index, network_sizes, offset
from onchip.backends.nests.gpu_reads import GpuReads
from onchip.errors import InputError
from onchip.ir.layer import INPUT, OUTPUT, RELEVANT, WEIGHT, Layer
from onchip.reports.exports import MappingFormat


@dataclass(frozen=True, slots=True)
class GpuDialect:
    """How a language writes a kernel; `THREADS` stands for the threads of a block.

    `held` stands after an ELEMENT of a tile was read into a register of KIND f or r, and `all_held` after all were: a
    compiler moves no read beyond, so that the whole tile is in registers, as the mapping has it.
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
    """The source of a kernel `name(input, weight, output)`, and what it claims of the GPU that runs it.

    `registers` are those of a thread, of 32 bits, that hold what its tiles have of use.
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
    """A legal mapping as a kernel; `label` says in its comment what it computes.

    Raises InputError for a layer without weights or of other elements than float32 (32 bits) and int8 (8 bits), and
    for a mapping that blocks and threads cannot run.
    """
    if layer.input_bits != layer.weight_bits or layer.input_bits not in ELEMENT_BYTES:
        detail = f"inputs have {layer.input_bits} bits and weights {layer.weight_bits}"
        raise InputError(detail, place="layer", expected="both 32 (float32) or both 8 (int8, with sums of int32)")
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
        """What the tiles in shared memory take."""
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
        """Tiles in shared memory, and the iterations of the loops along threads and blocks."""
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
        """What runs within the loops from number `place` on."""
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

    def _loop(self, loop: GpuLoop, body: Sequence[str]) -> list[str]:
        """A loop that ends where its dimension does, the same for all threads of a block.

        One whose iterations lead to other registers is written out, so that the compiler knows which.
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
        """All threads together copy a tile into shared memory; what lies beyond the operand is zero there."""
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
        """A thread reads its own tiles, the element that is multiplied first last, so that it waits for all others."""
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
        """Sums are stored where the layer has outputs; those of loops before are added to."""
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
