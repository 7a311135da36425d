"""A mapping: the loop nest of a layer in space and time, and the tile of each operand in each memory.

A memory holds the tile of an operand that is touched by the innermost `loops` loops of the nest, and by all spatial
loops along the array dimensions that one instance of the memory serves. Each operand has its own list of memories (an
omitted memory is bypassed) and its own level boundaries in the nest, so mappings may be uneven. DRAM is above all of
them and holds everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import prod

from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Operand
from onchip.errors import InputError
from onchip.ir.layer import LOOPS, OTHER_NAMES, Layer


class MappingError(InputError):
    """An error for a mapping that does not fit its layer or its accelerator."""


class Move(StrEnum):
    """The accesses of a memory when tiles move; below is the side of the MACs, above the side of DRAM."""

    READ_FOR_BELOW = "read for below"
    WRITE_FROM_ABOVE = "write from above"
    READ_FOR_ABOVE = "read for above"
    WRITE_FROM_BELOW = "write from below"


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop of `size` iterations of a layer's dimension: temporal or, `along` a dimension of the array, spatial.

    Several loops of one `dimension` (of LOOPS) split it: the inner one is the less significant digit of its index.
    Raises MappingError for an unknown dimension, or less than one iteration.
    """

    dimension: str
    size: int
    along: str | None = None

    def __post_init__(self) -> None:
        if self.dimension not in LOOPS:
            expected = f"one of {', '.join(LOOPS)}"
            raise MappingError(f"{self.dimension!r} is no loop of a layer", place="mapping", expected=expected)
        if self.size < 1:
            detail = f"loop {self.dimension} has {self.size} iterations"
            raise MappingError(detail, place="mapping", expected="at least 1")

    def __str__(self) -> str:
        return f"{self.dimension}{self.size}" + (f"@{self.along}" if self.along else "")


@dataclass(frozen=True, slots=True)
class Kept:
    """A memory, by name, and the number of innermost loops of the nest that its tile spans."""

    memory: str
    loops: int


@dataclass(frozen=True, slots=True)
class LayerMapping:
    """A loop nest, innermost first, and for each operand its memories nearest the MACs first, without DRAM.

    `ragged` names the loops of the layer with remainder tiles: their loops in the nest may multiply to more than the
    bound, and iterations beyond the bound are not executed. A longer loop that is not ragged pads the layer, and the
    padding is executed. Raises MappingError for level boundaries out of order, or an invalid `ragged`.
    """

    nest: tuple[Loop, ...]
    input: tuple[Kept, ...] = ()
    weight: tuple[Kept, ...] = ()
    output: tuple[Kept, ...] = ()
    ragged: tuple[str, ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        if self.ragged != tuple(name for name in LOOPS if name in self.ragged):
            detail = f"loops {', '.join(self.ragged)} end short"
            raise MappingError(detail, place="mapping", expected=f"some of {', '.join(LOOPS)}, in this order")
        for operand in Operand:
            cuts = [0, *(kept.loops for kept in self.kept(operand)), len(self.nest)]
            if cuts != sorted(cuts):
                raise MappingError(
                    f"the tiles of {operand} span {cuts[1:-1]} of {len(self.nest)} loops",
                    place="mapping",
                    expected="each at least as many as the one before, at most all",
                )

    def __str__(self) -> str:
        kept = (f"{o}({', '.join(f'{k.memory}:{k.loops}' for k in self.kept(o))})" for o in Operand)
        short = f" | {' '.join(self.ragged)} short" if self.ragged else ""
        return f"{' '.join(map(str, self.nest))} | {' '.join(kept)}{short}"

    def kept(self, operand: str) -> tuple[Kept, ...]:
        """Return the memories that hold the operand, nearest the MACs first, without DRAM."""
        return {Operand.INPUT: self.input, Operand.WEIGHT: self.weight, Operand.OUTPUT: self.output}[Operand(operand)]

    @property
    def bounds(self) -> dict[str, int]:
        """Return the product of the loops of each dimension: the layer's bound, or more if it is padded or ragged."""
        found = dict.fromkeys(LOOPS, 1)
        for loop in self.nest:
            found[loop.dimension] *= loop.size
        return found

    @property
    def temporal_iterations(self) -> int:
        """Return the number of temporal iterations, which is the number of cycles without stalls."""
        return prod(loop.size for loop in self.nest if loop.along is None)

    def layer(self, layer: Layer) -> Layer:
        """Return the executed layer: `layer`, padded to the mapping's bounds except for ragged loops.

        Raises MappingError if a bound of the mapping is less than the layer's.
        """
        bounds = self.bounds
        for name, bound in layer.bounds.items():
            if bounds[name] < bound:
                raise MappingError(f"loop {name} has {bounds[name]} iterations", place="mapping", expected=f"{bound}")
            if name in self.ragged:
                bounds[name] = bound
        return layer if bounds == layer.bounds else layer.padded_to(bounds)

    def without_loops_of_one(self) -> LayerMapping:
        """Return the same mapping without its loops of one iteration."""
        kept = (
            tuple(
                replace(one, loops=sum(loop.size > 1 for loop in self.nest[: one.loops])) for one in self.kept(operand)
            )
            for operand in Operand
        )
        return LayerMapping(tuple(loop for loop in self.nest if loop.size > 1), *kept, ragged=self.ragged)


def even(
    levels: Sequence[tuple[str, Iterable[Loop]]], holders: Mapping[str, Sequence[str]], outermost: Iterable[Loop]
) -> LayerMapping:
    """Return the mapping in which all operands have the same level boundaries, as in Timeloop and CoSA.

    `levels` are memories, nearest the MACs first, each with its own loops, innermost first and spatial ones included:
    its tile spans these loops and all inner ones. `holders` maps each operand to the memories that hold it; `outermost`
    are the loops of DRAM.
    """
    nest: list[Loop] = []
    cuts: dict[str, int] = {}
    for memory, loops in levels:
        nest.extend(loops)
        cuts[memory] = len(nest)
    kept = {o: tuple(Kept(name, cut) for name, cut in cuts.items() if name in holders.get(o, ())) for o in Operand}
    return LayerMapping((*nest, *outermost), kept[Operand.INPUT], kept[Operand.WEIGHT], kept[Operand.OUTPUT])


def loops_along(array: ComputeArray, dimension: str) -> tuple[str, ...]:
    """Return the loops that may be unrolled along a dimension of the array.

    These are the loops of its `unrolls`; without such an entry, the loop that the dimension is named after, or all
    loops.
    """
    if dimension in array.unrolls:
        return array.unrolls[dimension]
    name = OTHER_NAMES.get(dimension, dimension)
    return (name,) if name in LOOPS else LOOPS
