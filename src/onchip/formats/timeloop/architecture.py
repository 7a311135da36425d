"""The architecture file of Timeloop (as in ucb-bar/cosa, configs/arch) as an Accelerator.

What such a file leaves to Timeloop's own tables has defaults here, which docs/timeloop.md lists: an access of a memory
costs what the presets after Simba take for it, and where no bandwidth is given every port does an access a cycle.
"""

from __future__ import annotations

from itertools import pairwise
from math import sqrt
from pathlib import Path
from typing import Final

from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Access, Direction, Dram, Memory, MemoryLevel, Operand, Port
from onchip.errors import AcceleratorError, InputError
from onchip.formats.files import read_file
from onchip.formats.timeloop.bypass import Keeps, keeps_of
from onchip.formats.timeloop.components import Component, read_components

WORD_BITS: Final = 8
SHORTEST_BITS: Final = 8
"""Of a part of a block, as in the presets after Simba."""
PJ_PER_64_BITS_OF_8_KIB: Final = 10.0
PJ_PER_64_BITS_OF_DRAM: Final = 1300.0
MAC_PJ: Final = 0.3
"""M. Horowitz, ISSCC 2014, figure 1.1.9 (45 nm): a cache of 8 KiB, DRAM, a multiplication of 8 and a sum of 32 bits."""


def read_timeloop_architecture(path: Path, keeps: Keeps | None = None) -> Accelerator:
    """What an architecture file says, the accelerator being called like it; raises InputError with line and field."""
    return timeloop_architecture(read_file(path), str(path), keeps)


def timeloop_architecture(text: str | bytes, file: str, keeps: Keeps | None = None) -> Accelerator:
    """What `text` says; `file` is its name in errors. Raises InputError.

    `keeps` says which operands a memory keeps; without it the file's own `mapspace` does, else each keeps all. Software
    addresses the last memory that keeps inputs, or the last.
    """
    components, mapspace, document = read_components(text, file)
    try:
        if keeps is None:
            keeps = keeps_of(mapspace, "mapspace") if mapspace is not None else {}
        return _accelerator(Path(file).stem, components, keeps)
    except InputError as error:
        if error.place is not None and error.file is None:
            error.place = document.place(error.place)
        raise error.in_file(file) from None


def _accelerator(name: str, components: tuple[Component, ...], keeps: Keeps) -> Accelerator:
    """From DRAM, the memories on the chip, the MACs, in this order."""
    _check_chain(components, keeps)
    dram, *memories, macs = components
    below = [_dimensions(outer, inner) for outer, inner in pairwise((*memories, macs))]
    levels = []
    for at, one in enumerate(memories):
        serves = tuple(dimension for inside in reversed(below[at:]) for dimension in inside)
        if holds := keeps.get(one.name, tuple(Operand)):
            levels.append(_level(one, holds, serves))
    marked = _marked(list(reversed(levels)))
    array = ComputeArray(
        {name: units for inside in reversed(below) for name, units in inside.items()} or {macs.name: 1},
        mac_energy_pj=macs.number("energy_per_op") or MAC_PJ,
    )
    scratchpads = tuple(level.memory for level in marked if level.is_scratchpad)
    return Accelerator(name, scratchpads, marked, None, array, Dram(_access(dram), _ports(dram)))


def _check_chain(components: tuple[Component, ...], keeps: Keeps) -> None:
    if len(components) < 3 or not components[0].is_dram or not components[-1].is_mac:
        found = ", ".join(one.name for one in components)
        expected = "DRAM first, memories, and last what computes (a class like intmac)"
        raise AcceleratorError(f"from outside inwards it has {found}", place="the whole file", expected=expected)
    memories = components[1:-1]
    for one in memories:
        if one.is_dram or one.is_mac:
            raise one.refusal((), f"{one.kind} stands among the memories on the chip", "DRAM outside, the MACs inside")
        if [other.name for other in components].count(one.name) > 1:
            raise one.refusal(("name",), "several have this name", "one each")
    for memory in keeps:
        if memory not in {one.name for one in components}:
            some = ", ".join(one.name for one in memories)
            raise AcceleratorError(f"there is no memory {memory!r}", place="mapspace", expected=f"one of {some}")
    if memories[0].instances != 1:
        raise memories[0].refusal(("instances",), f"{memories[0].instances} share one DRAM", "one memory before DRAM")


def _dimensions(outer: Component, inner: Component) -> dict[str, int]:
    """How many of the inner one an outer one serves, along each way in which there are several; named for them."""
    rows = inner.instances // inner.mesh_x, outer.instances // outer.mesh_x
    if inner.mesh_x % outer.mesh_x or rows[0] % rows[1]:
        detail = f"{inner.instances} of it in rows of {inner.mesh_x} stand below {outer.instances} {outer.name}"
        raise inner.refusal(("instances", "meshX"), detail, f"as many for each {outer.name}")
    along = {"x": inner.mesh_x // outer.mesh_x, "y": rows[0] // rows[1]}
    several = {axis: units for axis, units in along.items() if units > 1}
    if len(several) == 1:
        return {f"{inner.name} units": units for units in several.values()}
    return {f"{inner.name} {axis}": units for axis, units in several.items()}


def _level(memory: Component, holds: tuple[Operand, ...], serves: tuple[str, ...]) -> MemoryLevel:
    buffering = memory.number("multiple_buffering") or 1
    if buffering not in (1, 2):
        raise memory.refusal(("multiple_buffering",), f"it is buffered {buffering} times", "1 or 2")
    own = Memory(memory.name, _capacity_bytes(memory), holds=holds)
    return MemoryLevel(own, serves, False, buffering == 2, _access(memory), _ports(memory))


def _marked(levels: list[MemoryLevel]) -> tuple[MemoryLevel, ...]:
    """With the scratchpad marked as such."""
    of_inputs = [at for at, level in enumerate(levels) if Operand.INPUT in level.memory.holds]
    chosen = of_inputs[-1] if of_inputs else len(levels) - 1
    return tuple(
        MemoryLevel(level.memory, level.serves, at == chosen, level.double_buffered, level.access, level.ports)
        for at, level in enumerate(levels)
    )


def _word_bits(memory: Component) -> int:
    return memory.integer("word_bits", "word_width", "datawidth") or WORD_BITS


def _access_bits(memory: Component) -> int:
    """A block of words; `width` is one where it is given."""
    bits = _word_bits(memory)
    return memory.integer("width", "memory_width") or bits * (memory.integer("block_size") or 1)


def _capacity_bytes(memory: Component) -> int:
    """Of an instance: `entries` words, or `sizeKB`, or `depth` blocks."""
    entries, kib = memory.integer("entries"), memory.integer("sizeKB")
    depth = memory.integer("depth", "memory_depth")
    if entries is not None:
        bits = entries * _word_bits(memory)
    elif kib is not None:
        bits = kib * 1024 * 8
    elif depth is not None:
        bits = depth * _access_bits(memory)
    else:
        raise memory.refusal((), "nothing says how large it is", "entries, sizeKB or depth")
    if bits % 8:
        raise memory.refusal(("entries", "depth"), f"it has {bits} bits", "whole bytes")
    return bits // 8


def _access(memory: Component) -> Access:
    bits = _access_bits(memory)
    energy_pj = memory.number("vector_access_energy")
    if energy_pj is None and memory.is_dram:
        energy_pj = PJ_PER_64_BITS_OF_DRAM * bits / 64
    elif energy_pj is None:
        energy_pj = PJ_PER_64_BITS_OF_8_KIB * sqrt(_capacity_bytes(memory) / 8192) * bits / 64
    return Access(bits, energy_pj, energy_pj, None if bits % SHORTEST_BITS else SHORTEST_BITS)


def _ports(memory: Component) -> tuple[Port, ...]:
    """Bandwidths are in words a cycle; an unnamed one is for both directions together."""
    word, shared = _word_bits(memory), memory.number("shared_bandwidth", "bandwidth")
    if shared is not None:
        return (Port(Direction.READ_WRITE, _bits_per_cycle(memory, shared * word)),)
    if memory.is_dram or memory.integer("num_ports", "n_rdwr_ports", "n_ports") == 1:
        return (Port(Direction.READ_WRITE, _access_bits(memory)),)
    wide = _access_bits(memory)
    read, write = (memory.number(f"{way}_bandwidth") for way in ("read", "write"))
    return (
        Port(Direction.READ, wide if read is None else _bits_per_cycle(memory, read * word)),
        Port(Direction.WRITE, wide if write is None else _bits_per_cycle(memory, write * word)),
    )


def _bits_per_cycle(memory: Component, bits: float) -> int:
    if bits < 1:
        names = ("shared_bandwidth", "bandwidth", "read_bandwidth", "write_bandwidth")
        raise memory.refusal(names, f"it moves {bits} bits a cycle", "at least 1")
    return int(bits)
