"""The architecture file of Timeloop (as in ucb-bar/cosa, configs/arch) as an Accelerator.

Values that Timeloop takes from its own tables have defaults here (docs/timeloop.md): memory accesses have the energies
of the presets after Simba, and without a bandwidth every port makes one access per cycle.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from pathlib import Path
from typing import Any, Final, NotRequired

from typing_extensions import TypedDict

from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Access, Direction, Dram, Memory, MemoryLevel, Operand, Port, with_scratchpad
from onchip.errors import AcceleratorError, InputError, NetworkWarning
from onchip.formats.timeloop.components import (
    ARCHITECTURE,
    BranchFields,
    Component,
    FlatFields,
    Keeps,
    NodeFields,
    NodeWalk,
    check_parts,
    flat_components,
    keeps_of_parts,
    nested_components,
    numbers_of,
    read_document,
)
from onchip.formats.validation import validate

WORD_BITS: Final = 8
WIDTH: Final = ("width", "memory_width", "data_storage_width")
DEPTH: Final = ("depth", "memory_depth", "data_storage_depth")
BLOCK_SIZE: Final = ("block_size", "n_words")
SHORTEST_BITS: Final = 8
"""Shortest access to a part of a block, as in the presets after Simba."""
PJ_PER_64_BITS_OF_8_KIB: Final = 10.0
PJ_PER_64_BITS_OF_DRAM: Final = 1300.0
MAC_PJ: Final = 0.3
"""M. Horowitz, ISSCC 2014, figure 1.1.9 (45 nm): a cache of 8 KiB, DRAM, a multiplication of 8 and a sum of 32 bits."""


class NestedFields(TypedDict):
    """`architecture` of 0.2 and 0.3 in one form, with `subtree`; that of 0.4 has `nodes`."""

    version: NotRequired[str | int | float]
    subtree: NotRequired[list[BranchFields]]
    nodes: NotRequired[list[NodeFields]]


class FileFields(TypedDict):
    """The parts of a file that describe an accelerator."""

    architecture: NotRequired[NestedFields]
    arch: NotRequired[FlatFields]
    variables: NotRequired[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class _Described:
    """The components of a file, outermost first, the operands that each keeps, and notes on omitted features.

    With `may_lack_dram` (0.4) the outermost component may be another memory, which several inner components share.
    """

    components: tuple[Component, ...]
    keeps: Keeps
    may_lack_dram: bool = False
    notes: tuple[str, ...] = ()


def timeloop_architecture(text: str | bytes, file: str, keeps: Keeps | None = None) -> Accelerator:
    """Read `text`; `file` is its name in errors. Raises InputError.

    `keeps` maps memories to the operands that they keep; by default the file's own constraints decide, else a memory
    keeps all operands. The scratchpad is the last memory that keeps inputs, or the last memory. Warns with
    NetworkWarning of reinterpreted sizes and memories, and of the features in the accelerator's `notes`.
    """
    document = read_document(text, ARCHITECTURE, file)
    try:
        described = _described(document.value, keeps)
        accelerator = _accelerator(Path(file).stem, described)
    except InputError as error:
        if error.place is not None and not error.file:
            error.place = document.place(error.place)
        raise error.in_file(file) from None
    outermost = described.components[0]
    remarks = [*described.notes]
    remarks.extend(
        f"{one.name} is read as {_capacity_bytes(one)} whole bytes, {bits} bits less than it has"
        for one in described.components[1 if len(described.components) > 2 else 0 : -1]
        if (bits := _capacity_bits(one) % 8)
    )
    if len(described.components) == 2:
        remarks.append(f"{outermost.name} is the only memory: what it holds comes from a DRAM that costs nothing")
    elif not outermost.is_dram:
        remarks.append(f"{outermost.name}, the outermost memory, is read as a DRAM that holds everything")
    for remark in remarks:
        warnings.warn(f"{file}: {remark}", NetworkWarning, stacklevel=2)
    return accelerator


def _described(value: object, keeps: Keeps | None) -> _Described:
    document = check_parts(value, ARCHITECTURE, "architecture or arch")
    told = {name: document[name] for name in ("architecture", "arch", "variables") if name in document}
    fields = validate(FileFields, told, ARCHITECTURE, "")
    if ("architecture" in fields) is ("arch" in fields):
        raise AcceleratorError("it has no one description", "the whole file", "architecture or arch")
    is_sparse, nested = bool(document.get("sparse_optimizations")), fields.get("architecture", {})
    if is_sparse and "nodes" not in nested:
        what = "the file has sparse_optimizations (Sparseloop, version 0.3)"
        raise AcceleratorError(what, "sparse_optimizations", "a dense machine, or `nodes` (0.4)")
    if "arch" in fields:
        return _Described(tuple(flat_components(fields["arch"])), keeps_of_parts(document) if keeps is None else keeps)
    if ("subtree" in nested) is ("nodes" in nested):
        raise AcceleratorError("the field is missing", "architecture.subtree", "subtree, or nodes (0.4)")
    if "subtree" in nested:
        components = tuple(nested_components(nested["subtree"], "architecture.subtree"))
        return _Described(components, keeps_of_parts(document) if keeps is None else keeps)
    walk = NodeWalk(numbers_of(fields.get("variables", {})))
    walk.add(nested["nodes"], "architecture.nodes")
    of_file = keeps_of_parts(document, walk.unapplied)
    own = {**walk.keeps, **(of_file if keeps is None else keeps)}
    notes = tuple(_notes(walk.unapplied, [*walk.sparse, *(["the file"] if is_sparse else [])]))
    return _Described(tuple(walk.components), own, may_lack_dram=True, notes=notes)


def _notes(unapplied: list[str], sparse: list[str]) -> Iterator[str]:
    """Yield a sentence for the omitted features of each kind."""
    if sparse:
        named = ", ".join(dict.fromkeys(sparse))
        effect = "energies, cycles and capacities are those of dense execution"
        yield f"Not modelled: sparse optimisations of {named} (Timeloop 0.4): {effect}"
    if unapplied:
        named, one = ", ".join(dict.fromkeys(unapplied)), len(unapplied) == 1
        effect = f"the mapping may break {'it' if one else 'them'}, and status and bound are valid for mappings without"
        yield f"Not applied: {named} (Timeloop 0.4): {effect} {'it' if one else 'them'}"


def _accelerator(name: str, described: _Described) -> Accelerator:
    """Build the accelerator from DRAM, the memories on the chip, and the MACs, in this order."""
    outermost, memories, macs = _chain(described)
    chain = (*memories, macs) if outermost is None or memories[0].instances == 1 else (outermost, *memories, macs)
    below = [_dimensions(outer, inner) for outer, inner in pairwise(chain)]
    if not any(below):
        below[-1] = {macs.name: 1}
    levels = []
    for at, one in enumerate(memories, len(chain) - len(memories) - 1):
        serves = tuple(dimension for inside in reversed(below[at:]) for dimension in inside)
        if holds := described.keeps.get(one.name, tuple(Operand)):
            levels.append(_level(one, holds, serves))
    if not levels:
        raise AcceleratorError("no memory on the chip keeps anything", "the whole file", "at least one")
    marked = with_scratchpad(levels[::-1])
    energy_pj = macs.energy("energy_per_op", "energy")
    array = ComputeArray(
        {name: units for inside in reversed(below) for name, units in inside.items()},
        mac_energy_pj=MAC_PJ if energy_pj is None else energy_pj,
    )
    scratchpads = tuple(level.memory for level in marked if level.is_scratchpad)
    free = Dram(Access(_Line.of(memories[0]).access_bits, 0.0, 0.0))
    dram = free if outermost is None else Dram(_access(outermost), _ports(outermost))
    return Accelerator(name, scratchpads, marked, None, array, dram, notes=described.notes)


def _chain(described: _Described) -> tuple[Component | None, tuple[Component, ...], Component]:
    """Return the component that is DRAM (None: a free one), the on-chip memories, outermost first, and the MACs.

    Raises AcceleratorError for components that do not form this chain.
    """
    components = described.components
    has_macs = len(components) > 1 and components[-1].is_mac and not components[0].is_mac
    if not has_macs or not (described.may_lack_dram or components[0].is_dram) or components[-2].is_dram:
        found = ", ".join(one.name for one in components)
        expected = "DRAM first, memories, and last what computes (a class like intmac)"
        raise AcceleratorError(f"from outside inwards it has {found}", "the whole file", expected)
    outermost = components[0] if len(components) > 2 else None
    memories = components[1 if outermost else 0 : -1]
    for one in memories:
        if one.is_dram or one.is_mac:
            raise one.refusal((), f"{one.kind} stands among the memories on the chip", "DRAM outside, the MACs inside")
        if [other.name for other in components].count(one.name) > 1:
            raise one.refusal(("name",), "several have this name", "one each")
    for memory, kept in described.keeps.items():
        if outermost is not None and memory == outermost.name and set(kept) == set(Operand):
            continue
        if memory not in {one.name for one in memories}:
            some = ", ".join(one.name for one in memories)
            raise AcceleratorError(f"there is no memory {memory!r}", "mapspace", f"one of {some}")
    if memories[0].instances != 1 and not described.may_lack_dram:
        raise memories[0].refusal(("instances",), f"{memories[0].instances} share one DRAM", "one memory before DRAM")
    return outermost, memories, components[-1]


def _dimensions(outer: Component, inner: Component) -> dict[str, int]:
    """Return the number of inner components that an outer one serves, by the name of the dimension."""
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


@dataclass(frozen=True, slots=True)
class _Line:
    """A row of a memory: `block` words for this instance, in a row that `cluster` instances share.

    Timeloop's rule (model/buffer.cpp): width = word-bits x block-size x cluster-size, where any of them may be absent.
    """

    word_bits: int
    block: int
    cluster: int

    @property
    def access_bits(self) -> int:
        """Bits per access of one instance."""
        return self.word_bits * self.block

    @classmethod
    def of(cls, memory: Component) -> _Line:
        """Return the row that the attributes describe; raises AcceleratorError if they contradict each other."""
        word_bits = memory.integer("word_bits", "word_width", "datawidth") or WORD_BITS
        width = memory.integer(*WIDTH)
        block, cluster = memory.integer(*BLOCK_SIZE), memory.integer("cluster_size")
        if width is None:
            return cls(word_bits, block or 1, cluster or 1)
        if block is None:
            block = width // (word_bits * (cluster or 1))
        if cluster is None:
            cluster = width // (word_bits * block) if block else 0
        if word_bits * block * cluster != width:
            detail = f"a row of {width} bits is not {cluster} x {block} words of {word_bits} bits"
            raise memory.refusal(WIDTH, detail, "width = word-bits x block-size x cluster-size")
        return cls(word_bits, block, cluster)


def _capacity_bytes(memory: Component) -> int:
    """Return the capacity of one instance in whole bytes."""
    bits = _capacity_bits(memory)
    if bits < 8:
        raise memory.refusal(("entries", *DEPTH), f"it has {bits} bits", "at least a byte")
    return bits // 8


def _capacity_bits(memory: Component) -> int:
    """Return the capacity of one instance: `entries` words, or `depth` blocks of words, or `sizeKB`."""
    line = _Line.of(memory)
    entries, kib, depth = memory.integer("entries"), memory.integer("sizeKB"), memory.integer(*DEPTH)
    if entries is not None:
        return entries * line.word_bits
    if depth is not None:
        return depth * line.access_bits
    if kib is not None:
        return kib * 1024 * 8
    raise memory.refusal((), "nothing says how large it is", "entries, sizeKB or depth")


def _access(memory: Component) -> Access:
    line = _Line.of(memory)
    bits = line.access_bits
    if memory.is_dram and line.cluster > 1:
        raise memory.refusal(("cluster_size", "block_size", *WIDTH), "it is a cluster of DRAMs", "cluster-size 1")
    energy_pj = memory.energy("vector_access_energy")
    if energy_pj is None and memory.is_dram:
        energy_pj = PJ_PER_64_BITS_OF_DRAM * bits / 64
    elif energy_pj is None:
        clustered_bytes = line.cluster * _capacity_bytes(memory)
        energy_pj = PJ_PER_64_BITS_OF_8_KIB * sqrt(clustered_bytes / 8192) * bits / 64
    return Access(bits, energy_pj, energy_pj, None if bits % SHORTEST_BITS else SHORTEST_BITS)


def _ports(memory: Component) -> tuple[Port, ...]:
    """Return the ports of one instance; bandwidths are in words a cycle.

    `shared_bandwidth` is for both directions together. `bandwidth` is half for reads and half for writes, as in
    Timeloop; `read_bandwidth` and `write_bandwidth` win over it.
    """
    line, both = _Line.of(memory), memory.number("bandwidth")
    shared = memory.number("shared_bandwidth")
    read, write = (
        given if (given := memory.number(f"{way}_bandwidth")) is not None or both is None else both / 2
        for way in ("read", "write")
    )
    if shared is not None and (read is not None or write is not None):
        detail = "it has a bandwidth for both directions together and one for each"
        raise memory.refusal(("shared_bandwidth",), detail, "one or the other")
    if shared is not None:
        return (Port(Direction.READ_WRITE, _bits_per_cycle(memory, shared * line.word_bits)),)
    is_single = memory.is_dram or memory.integer("num_ports", "n_rdwr_ports", "n_ports") == 1
    if is_single and read is None and write is None:
        return (Port(Direction.READ_WRITE, line.access_bits),)
    return tuple(
        Port(way, line.access_bits if words is None else _bits_per_cycle(memory, words * line.word_bits))
        for way, words in ((Direction.READ, read), (Direction.WRITE, write))
    )


def _bits_per_cycle(memory: Component, bits: float) -> int:
    if bits < 1:
        names = ("shared_bandwidth", "bandwidth", "read_bandwidth", "write_bandwidth")
        raise memory.refusal(names, f"it moves {bits} bits a cycle", "at least 1")
    return int(bits)
