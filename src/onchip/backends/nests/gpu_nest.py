"""A mapping as loops of a GPU: blocks of a grid, threads of a block, and what each thread does one after the other.

Which level is what follows from what one instance of a memory serves: registers serve no dimension of the array, shared
memory serves the threads of a block, all that is beyond serves the blocks too and is not addressed by a kernel.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import Final

from onchip.answer.layer_mapping import LayerMapping, Loop
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import MemoryLevel, Operand
from onchip.errors import InputError
from onchip.ir.layer import INPUT, LOOPS, OUTPUT, RELEVANT, WEIGHT, Layer

THREAD: Final = "thread"
BLOCK: Final = "block"
GREATEST_THREADS: Final = 1024
GREATEST_SHARED_BYTES: Final = 48 * 2**10
"""What a block may declare; some GPUs have more, which is asked for when a kernel is started."""
GREATEST_INDEX: Final = 2**31 - 1
GREATEST_UNROLLED: Final = 4096
"""Multiply-accumulates that are written out one after the other, so that registers have no index."""


@dataclass(frozen=True, slots=True)
class GpuLoop:
    """Each of its `size` iterations goes `step` elements on along its dimension; `along` is block, thread or None."""

    name: str
    dimension: str
    size: int
    step: int
    along: str | None


@dataclass(frozen=True, slots=True)
class GpuNest:
    """The loops innermost first; `shared` and `registers` say how many of them an operand's tile there spans.

    Of those along threads a tile in shared memory spans all. `layer` is the one executed.
    """

    layer: Layer
    loops: tuple[GpuLoop, ...]
    shared: dict[str, int]
    registers: dict[str, int]

    @property
    def threads(self) -> int:
        """The threads of a block."""
        return prod(loop.size for loop in self.loops if loop.along == THREAD)

    @property
    def blocks(self) -> int:
        """The blocks of the grid."""
        return prod(loop.size for loop in self.loops if loop.along == BLOCK)

    def span(self, dimension: str) -> int:
        """How many iterations all loops of a dimension have: its bound, or more where they end short."""
        return prod(loop.size for loop in self.loops if loop.dimension == dimension)

    def ends_short(self, dimension: str) -> bool:
        """Whether loops of this dimension go beyond its bound."""
        return self.span(dimension) != self.layer.bounds[dimension]

    def in_shared(self, operand: str, dimension: str) -> tuple[GpuLoop, ...]:
        """The loops of a dimension that an operand's tile in shared memory spans, innermost first."""
        cut = self.shared[operand]
        return tuple(
            loop
            for at, loop in enumerate(self.loops)
            if loop.dimension == dimension and (loop.along == THREAD or (loop.along is None and at < cut))
        )

    def in_registers(self, operand: str, dimension: str) -> tuple[GpuLoop, ...]:
        """The loops of a dimension that an operand's tile in the registers of a thread spans, innermost first."""
        inside = self.loops[: self.registers.get(operand, 0)]
        return tuple(loop for loop in inside if loop.dimension == dimension and loop.along is None)

    def others(self, dimension: str, spanned: Iterable[GpuLoop]) -> tuple[GpuLoop, ...]:
        """The loops of a dimension that a tile does not span."""
        inside = tuple(spanned)
        return tuple(loop for loop in self.loops if loop.dimension == dimension and loop not in inside)

    def lasts_to(self, operand: str, cut: int) -> int:
        """The number of loops while which a tile stays: loops right above it may lead to no other element."""
        while cut < len(self.loops):
            loop = self.loops[cut]
            if loop.along is None and loop.dimension in RELEVANT[operand]:
                break
            cut += 1
        return cut

    def is_unrolled(self, loop: GpuLoop) -> bool:
        """Whether a tile in registers has other elements in its next iteration: registers have no index."""
        return any(loop in self.in_registers(operand, loop.dimension) for operand in _operands_of(loop))


def gpu_nest(layer: Layer, mapping: LayerMapping, accelerator: Accelerator) -> GpuNest:
    """The loops of a legal mapping; raises InputError for what no kernel does: the message says what it expects."""
    if not layer.has_weight:
        raise InputError("it has no weights", place="layer", expected="a product or a convolution")
    short = mapping.without_loops_of_one()
    step, count = dict.fromkeys(LOOPS, 1), dict.fromkeys(LOOPS, 0)
    loops: list[GpuLoop] = []
    for loop in short.nest:
        name = loop.dimension
        _can_run_along(loop)
        count[name] += 1
        loops.append(GpuLoop(f"{name.lower()}{count[name]}", name, loop.size, step[name], loop.along))
        step[name] *= loop.size
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
    """Whose memory it is: a thread's, a block's, or everybody's ('')."""
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


def _operands_of(loop: GpuLoop) -> tuple[str, ...]:
    return tuple(operand for operand, relevant in RELEVANT.items() if loop.dimension in relevant)


def _error(detail: str, expected: str) -> InputError:
    return InputError(detail, place="mapping", expected=expected)
