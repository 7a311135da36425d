"""Spatial unrollings of a layer: their factors, and the ways to make them up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from onchip.answer.layer_mapping import Loop, loops_along
from onchip.answer.layer_problem import LayerProblem
from onchip.arch.accelerator import Accelerator
from onchip.errors import InputError
from onchip.ir.layer import LOOPS, OTHER_NAMES, Layer
from onchip.model.layer.limits import array_of


def prime_counts(bound: int) -> dict[int, int]:
    """Return the count of each prime factor of the bound, ascending; empty for 1."""
    counts: dict[int, int] = {}
    prime = 2
    while bound > 1:
        if prime * prime > bound:
            prime = bound
        while bound % prime == 0:
            counts[prime] = counts.get(prime, 0) + 1
            bound //= prime
        prime += 1
    return counts


def padded_bound(bound: int, largest_prime: int) -> int:
    """Return the least number of at least `bound` without a prime factor above `largest_prime` (at least 2)."""
    if max(prime_counts(bound), default=1) <= largest_prime:
        return bound
    primes = [prime for prime in range(3, largest_prime + 1) if prime_counts(prime) == {prime: 1}]
    return _least_product(1, bound, primes, _doubled(1, bound))


def _least_product(product: int, bound: int, primes: Sequence[int], least: int) -> int:
    """Return the minimum of `least` and the least multiple of `product` by 2 and these primes that is >= `bound`."""
    least = min(least, _doubled(product, bound))
    for at, prime in enumerate(primes):
        if product * prime >= least:
            break
        least = _least_product(product * prime, bound, primes[at:], least)
    return least


def _doubled(product: int, bound: int) -> int:
    """Return the least product times a power of 2 that is at least the bound."""
    return product << (-(-bound // product) - 1).bit_length()


def divisors(bound: int) -> list[int]:
    """Return all divisors of a bound, ascending."""
    found = [1]
    for prime, count in prime_counts(bound).items():
        found = [one * prime**power for one in found for power in range(count + 1)]
    return sorted(found)


Ways: TypeAlias = NDArray[np.int64]  # axes: unrolling, dimension of the array, loop; values: units
MOST_OF_A_DIMENSION: Final = 20_000
MOST_WAYS: Final = 300_000


def all_ways(problem: LayerProblem) -> Ways | None:
    """Return every unrolling, or None above MOST_WAYS, or MOST_OF_A_DIMENSION along one dimension."""
    found = np.ones((1, 0, len(LOOPS)), np.int64)
    for own in _of_dimensions(problem):
        if own is None or len(found) * len(own) > MOST_WAYS:
            return None
        found = _joined(found, own)
    return found


def some_ways(problem: LayerProblem, most: int) -> Ways:
    """Return up to `most` unrollings with the fewest iterations, pruned after each dimension."""
    bounds = np.array(list(problem.layer.bounds.values()))
    found = np.ones((1, 0, len(LOOPS)), np.int64)
    for own in _of_dimensions(problem, most):
        if own is None:
            own = np.ones((1, len(LOOPS)), np.int64)
        turns = np.prod(np.ceil(bounds / own), axis=1)
        found = _joined(found, own[np.argsort(turns, kind="stable")[:most]])
        turns = np.prod(np.ceil(bounds / np.prod(found, axis=1)), axis=1)
        found = found[np.argsort(turns, kind="stable")[:most]]
    return found


def _joined(found: Ways, own: NDArray[np.int64]) -> Ways:
    first, second = np.repeat(found, len(own), axis=0), np.tile(own, (len(found), 1))
    return np.concatenate([first, second[:, None, :]], axis=1)


def _of_dimensions(problem: LayerProblem, most: int = 0) -> Iterator[NDArray[np.int64] | None]:
    """Yield for each dimension the loop sizes along it, or None for too many; with `most`, only useful sizes."""
    array, bounds = array_of(problem.accelerator), problem.layer.bounds
    for name, units in array.sizes.items():
        allowed = loops_along(array, name)
        sizes = [_sizes(bounds[loop], units, fewer=most > 0) if loop in allowed else [1] for loop in LOOPS]
        rows: list[tuple[int, ...]] = []
        for row in choices_within(sizes, units):
            rows.append(row)
            if len(rows) > MOST_OF_A_DIMENSION:
                break
        is_whole = len(rows) <= MOST_OF_A_DIMENSION or most > 0
        yield np.array(rows, np.int64) if is_whole else None


def _sizes(bound: int, units: int, *, fewer: bool) -> list[int]:
    every = range(1, min(bound, units) + 1)
    return sorted({-(-bound // -(-bound // size)) for size in every}, reverse=True) if fewer else list(every)


def choices_within(sizes: Sequence[Sequence[int]], units: int) -> Iterator[tuple[int, ...]]:
    """Yield every choice of one size from each sequence whose product is at most `units`."""
    if not sizes:
        yield ()
        return
    for size in sizes[0]:
        if size <= units:
            for rest in choices_within(sizes[1:], units // size):
                yield (size, *rest)


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
