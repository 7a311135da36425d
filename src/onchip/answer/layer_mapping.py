"""A mapping: where and in which order the loops of one layer run, and which memory holds which tile.

A memory holds of an operand the tile that is touched while the innermost `loops` loops of the nest run, and all
spatial loops along the dimensions of the array that one instance of the memory serves. Each operand has its own list
of memories (one that is left out is skipped) and its own cuts of the nest, so that mappings may be uneven. DRAM
stands above them all and holds everything.
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
    """A mapping that does not fit its layer or its accelerator."""


class Move(StrEnum):
    """What a memory does when a tile, or a part of it, moves; below is the side of the MACs, above that of DRAM."""

    READ_FOR_BELOW = "read for below"
    WRITE_FROM_ABOVE = "write from above"
    READ_FOR_ABOVE = "read for above"
    WRITE_FROM_BELOW = "write from below"


@dataclass(frozen=True, slots=True)
class Loop:
    """`size` iterations of a layer's loop: one after the other or, `along` a dimension of the array, side by side.

    Several loops of one `dimension` (of LOOPS) split it: the inner one is the less significant digit of its index.
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
    """A memory, by its name, and how many loops of the nest, from the innermost, its tile spans."""

    memory: str
    loops: int


@dataclass(frozen=True, slots=True)
class LayerMapping:
    """`nest` is innermost first; `input`, `weight` and `output` list memories nearest the MACs first, without DRAM.

    `ragged` names loops of the layer that end short: those of the nest may multiply to more than its bound, and what
    lies beyond the bound is not executed (else the layer is padded, and it is).
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
        """The memories that hold the operand, nearest the MACs first, DRAM not among them."""
        return {Operand.INPUT: self.input, Operand.WEIGHT: self.weight, Operand.OUTPUT: self.output}[Operand(operand)]

    @property
    def bounds(self) -> dict[str, int]:
        """The product of the loops of each dimension: the layer's bounds, or more where it is padded or ends short."""
        found = dict.fromkeys(LOOPS, 1)
        for loop in self.nest:
            found[loop.dimension] *= loop.size
        return found

    @property
    def temporal_iterations(self) -> int:
        """How many iterations run one after the other: cycles, if nothing stalls."""
        return prod(loop.size for loop in self.nest if loop.along is None)

    def layer(self, layer: Layer) -> Layer:
        """The layer that is executed: `layer`, padded to the mapping's bounds but for ragged loops.

        Raises MappingError where the mapping's bounds are shorter than the layer's.
        """
        bounds = self.bounds
        for name, bound in layer.bounds.items():
            if bounds[name] < bound:
                raise MappingError(f"loop {name} has {bounds[name]} iterations", place="mapping", expected=f"{bound}")
            if name in self.ragged:
                bounds[name] = bound
        return layer if bounds == layer.bounds else layer.padded_to(bounds)

    def without_loops_of_one(self) -> LayerMapping:
        """The same mapping; a loop of one iteration says nothing."""
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
    """The mapping where all operands cut the nest at the same places, as in Timeloop and CoSA.

    `levels` are memories, nearest the MACs first, each with its own loops innermost first, spatial ones among them:
    its tile spans them and all before. `holders` says for each operand which memories hold it; `outermost` are DRAM's.
    """
    nest: list[Loop] = []
    cuts: dict[str, int] = {}
    for memory, loops in levels:
        nest.extend(loops)
        cuts[memory] = len(nest)
    kept = {o: tuple(Kept(name, cut) for name, cut in cuts.items() if name in holders.get(o, ())) for o in Operand}
    return LayerMapping((*nest, *outermost), kept[Operand.INPUT], kept[Operand.WEIGHT], kept[Operand.OUTPUT])


def loops_along(array: ComputeArray, dimension: str) -> tuple[str, ...]:
    """The loops that may run side by side along a dimension of the array.

    As its `unrolls` says; else a dimension named for a loop runs that one, any other name stands for all.
    """
    if dimension in array.unrolls:
        return array.unrolls[dimension]
    name = OTHER_NAMES.get(dimension, dimension)
    return (name,) if name in LOOPS else LOOPS
