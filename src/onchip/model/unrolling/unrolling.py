"""Spatial unrolling on the array, given or greedy, and the temporal iterations left."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from onchip.answer.layer_mapping import Loop, loops_along
from onchip.arch.accelerator import Accelerator
from onchip.errors import InputError
from onchip.ir.layer import LOOPS, OTHER_NAMES, Layer
from onchip.model.layer.limits import array_of
from onchip.model.unrolling.factors import prime_counts

Unrolling: TypeAlias = Mapping[str, Mapping[str, int]]
"""By dimension of the array, the units of each loop, for example `{"D1": {"K": 32}}`."""
UnrollingsOf: TypeAlias = Callable[[Layer, Accelerator], Iterable[Unrolling]]
"""Function that yields unrollings of a layer, the preferred one first."""


@dataclass(frozen=True, slots=True)
class Unrolled:
    """The spatial loops (`beside`) and temporal iterations (`turns`) of a layer; padding may increase their product."""

    beside: tuple[Loop, ...]
    turns: dict[str, int]

    @property
    def bounds(self) -> dict[str, int]:
        """Return the executed bounds of the layer, by loop."""
        return {loop: turns * _side(self.beside, loop) for loop, turns in self.turns.items()}

    def parts(self, layer: Layer) -> dict[str, tuple[int, int]]:
        """Return the requested and executed bounds of padded loops."""
        return {loop: (layer.bounds[loop], bound) for loop, bound in self.bounds.items() if bound > layer.bounds[loop]}


def unrolled_as_asked(layer: Layer, accelerator: Accelerator, unrolling: Unrolling) -> Unrolled:
    """Return the unrolling by the rule of ZigZag and DeFiNES.

    A loop takes `ceil(bound / units)` iterations, all on the fewest units that suffice. So 48 channels on 32 units are
    2 iterations of 24, and 1000 are 32 iterations of 31.25: the loop runs to 1024 on 32 units. If several dimensions
    unroll one loop, the first of the longest is shortened. Raises InputError for dimensions that the array lacks or
    loops that it does not unroll.
    """
    sizes = {
        (name, loop): size for name, loops in unrolling.items() for loop, size in _checked(accelerator, name, loops)
    }
    turns = dict(layer.bounds)
    for loop, bound in layer.bounds.items():
        own = {key: min(size, bound) for key, size in sizes.items() if key[1] == loop}
        if own:
            turns[loop] = -(-bound // prod(own.values()))
            longest = max(own, key=lambda key: own[key])
            others = prod(own.values()) // own[longest]
            own[longest] = -(-bound // (turns[loop] * others))
            sizes |= own
    return Unrolled(tuple(Loop(loop, size, name) for (name, loop), size in sizes.items() if size > 1), turns)


def _checked(accelerator: Accelerator, name: str, loops: Mapping[str, int]) -> list[tuple[str, int]]:
    array = array_of(accelerator)
    if name not in array.sizes:
        expected = f"one of {', '.join(array.sizes)}"
        raise InputError(f"the array has no dimension {name!r}", place="unrolling", expected=expected)
    found = [(OTHER_NAMES.get(loop, loop), size) for loop, size in loops.items()]
    for loop, size in found:
        if loop not in loops_along(array, name) or size < 1:
            expected = f"one of {', '.join(loops_along(array, name))}, on at least 1 unit"
            raise InputError(f"{loop} is unrolled {size} times", place=f"unrolling: {name}", expected=expected)
    if prod(size for _, size in found) > array.sizes[name]:
        detail = f"{prod(size for _, size in found)} units are asked for"
        raise InputError(detail, place=f"unrolling: {name}", expected=f"at most {array.sizes[name]}")
    return found


def unrolled_greedily(
    layer: Layer, accelerator: Accelerator, may_stand: Callable[[tuple[Loop, ...]], bool] = lambda _: True
) -> Unrolled:
    """Return a greedy unrolling without padding: largest primes first, on the first dimension that takes them.

    A factor that violates `may_stand` stays temporal.
    """
    array = array_of(accelerator)
    left, sizes = dict(array.sizes), dict[tuple[str, str], int]()
    for name in left:
        for loop in loops_along(array, name):
            taken = prod(size for (_, other), size in sizes.items() if other == loop)
            for prime in sorted(_primes(layer.bounds[loop] // taken), reverse=True):
                more = sizes | {(name, loop): sizes.get((name, loop), 1) * prime}
                if prime <= left[name] and may_stand(_beside(more)):
                    left[name] //= prime
                    sizes = more
    beside = _beside(sizes)
    return Unrolled(beside, {loop: layer.bounds[loop] // _side(beside, loop) for loop in LOOPS})


def _beside(sizes: Mapping[tuple[str, str], int]) -> tuple[Loop, ...]:
    return tuple(Loop(loop, size, name) for (name, loop), size in sizes.items())


def _side(beside: tuple[Loop, ...], loop: str) -> int:
    return prod(one.size for one in beside if one.dimension == loop)


def _primes(bound: int) -> list[int]:
    return [prime for prime, count in prime_counts(bound).items() for _ in range(count)]
