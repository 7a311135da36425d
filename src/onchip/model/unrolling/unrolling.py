"""What stands side by side on the array: as asked for, or as much as can be; and what is left for the loops in time."""

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
"""By dimension of the array: loops and how many units each takes, `{"D1": {"K": 32}}`."""
UnrollingsOf: TypeAlias = Callable[[Layer, Accelerator], Iterable[Unrolling]]
"""Unrollings of a layer to try, the preferred one first."""


@dataclass(frozen=True, slots=True)
class Unrolled:
    """`beside` on the array, `turns` of each loop one after the other; together the bounds or, padded, more."""

    beside: tuple[Loop, ...]
    turns: dict[str, int]

    @property
    def bounds(self) -> dict[str, int]:
        """Return by loop the bounds of the layer as it is executed."""
        return {loop: turns * _side(self.beside, loop) for loop, turns in self.turns.items()}

    def parts(self, layer: Layer) -> dict[str, tuple[int, int]]:
        """Loops that run longer than in the layer: its bound, and how long they run."""
        return {loop: (layer.bounds[loop], bound) for loop, bound in self.bounds.items() if bound > layer.bounds[loop]}


def unrolled_as_asked(layer: Layer, accelerator: Accelerator, unrolling: Unrolling) -> Unrolled:
    """The rule of ZigZag and DeFiNES: a loop takes `ceil(bound / units)` turns, all on as few units as these need.

    So 48 channels on 32 units are 2 turns of 24, and 1000 are 32 turns of 31.25: the loop runs to 1024 on 32 units.
    Of several dimensions that unroll one loop the first of the longest is shortened. Raises InputError for what the
    array does not have or does not unroll.
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
    """Largest prime factors first, along the first dimension of the array that takes them; nothing is padded.

    A factor with which not all may stand beside each other is left to the loops in time.
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
