"""Random contents of answer files: accelerators, layers with mappings, instructions."""

from __future__ import annotations

from hypothesis import strategies as st

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop
from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.energy_laws import EnergyLaw, EnergyTable, SquareRootLaw
from onchip.arch.memory import Access, Direction, Dma, Dram, Link, Memory, MemoryLevel, Operand, Port
from onchip.ir.layer import LOOPS, Layer

ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]))
INTEGERS = st.integers(-(2**63) + 1, 2**63 - 1)
INSTRUCTIONS: st.SearchStrategy[Instruction] = st.one_of(
    st.builds(Allocate, ANY_TEXT, ANY_TEXT, INTEGERS),
    st.builds(Copy, ANY_TEXT, ANY_TEXT, ANY_TEXT),
    st.builds(Compute, ANY_TEXT),
    st.builds(Free, ANY_TEXT, ANY_TEXT),
)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8).filter(lambda name: name != "dram")
POSITIVE = st.integers(1, 2**40)
UNITS = st.integers(1, 2**12)
ENERGIES = st.floats(0, 1e9)
PORTS = st.lists(st.builds(Port, st.sampled_from(Direction), POSITIVE), max_size=2).map(tuple)
UNROLLED = st.lists(st.sampled_from(("N", "K", "C")), min_size=1, unique=True).map(tuple)
HELD = st.lists(st.sampled_from(Operand), min_size=1, unique=True).map(tuple)
ACCESSES = st.none() | st.builds(Access, POSITIVE, ENERGIES, ENERGIES, st.none() | st.just(1))
SMALL_ENERGIES = st.floats(0, 1e3)
LAWS: st.SearchStrategy[EnergyLaw] = st.builds(SquareRootLaw, SMALL_ENERGIES, SMALL_ENERGIES) | st.builds(
    lambda first, last: EnergyTable(((1, first), (2**40, last))), ENERGIES, ENERGIES
)
ACCESSES_BY_LAW = st.builds(Access, POSITIVE, st.just(0.0), st.just(0.0), st.none() | st.just(1), st.tuples(LAWS, LAWS))


@st.composite
def accelerators(draw: st.DrawFn) -> Accelerator:
    dimensions = draw(st.dictionaries(NAMES, UNITS, max_size=3))
    energy = draw(st.none() | ENERGIES)
    array = (
        ComputeArray(dimensions, None, energy, draw(st.dictionaries(st.sampled_from([*dimensions]), UNROLLED)))
        if dimensions
        else draw(st.none() | st.builds(ComputeArray, free=UNITS))
    )
    levels = tuple(
        MemoryLevel(
            Memory(name, draw(POSITIVE), draw(POSITIVE), draw(HELD)),
            draw(st.none() | st.just(tuple(dimensions))),
            is_scratchpad=draw(st.booleans()) or index == 0,
            double_buffered=draw(st.booleans()),
            access=draw(ACCESSES | ACCESSES_BY_LAW),
            ports=draw(PORTS),
        )
        for index, name in enumerate(draw(st.lists(NAMES, min_size=1, max_size=3, unique=True)))
    )
    levels = tuple(level.resized(level.memory.capacity_bytes) for level in levels)
    scratchpads = tuple(level.memory for level in levels if level.is_scratchpad)
    ways = [(one.name, other.name) for one in scratchpads for other in scratchpads if one != other]
    linked = draw(st.lists(st.sampled_from(ways), unique=True)) if ways else []
    return Accelerator(
        draw(NAMES),
        scratchpads,
        levels,
        draw(st.none() | st.floats(1, 1e4)),
        array,
        draw(st.none() | st.builds(Dram, ACCESSES, PORTS)),
        draw(st.none() | st.builds(Dma, UNITS, POSITIVE)),
        tuple(Link(source, target, draw(st.none() | POSITIVE)) for source, target in linked),
    )


@st.composite
def mapped_layers(draw: st.DrawFn) -> tuple[Layer, LayerMapping]:
    """Draw a layer, and a mapping with perfect or imperfect factors."""
    sizes = st.integers(1, 9)
    loops = st.lists(st.tuples(st.sampled_from(LOOPS), sizes, st.none() | st.just("lane")), max_size=8)
    nest = tuple(Loop(*each) for each in draw(loops))
    bounds = dict.fromkeys(LOOPS, 1)
    for loop in nest:
        bounds[loop.dimension] *= loop.size
    cuts = sorted(draw(st.lists(st.integers(0, len(nest)), max_size=3)))
    kept = tuple(Kept(draw(NAMES), cut) for cut in cuts)
    bits = draw(sizes)
    plain = Layer(stride=(draw(sizes), 1), dilation=(1, draw(sizes)), input_bits=bits, has_weight=bits > 4)
    ragged = tuple(sorted(draw(st.sets(st.sampled_from(LOOPS))), key=LOOPS.index)) if draw(st.booleans()) else ()
    layer = plain.padded_to(bounds | {name: -(-bounds[name] * 2 // 3) for name in ragged})
    return layer, LayerMapping(nest, kept, (), kept, ragged=ragged)
