"""CoSA's least objective: every placement of each prime factor, every order of loops at the global buffer.

Eq. 12 with the constants and departures listed in docs/cosa.md, term by term over the placed factors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations, product
from math import inf, log2, prod

from onchip.answer.layer_problem import LayerProblem
from onchip.arch.accelerator import Accelerator
from onchip.ir.layer import Layer
from oracles.mapping_unrolled import loops_along, primes_of
from oracles.mapspace import standing_levels

RELATED = {"weight": "RSCKG", "input": "PQCNG", "output": "PQKNG"}
WINDOWS = {"R": "P", "S": "Q"}
Factor = tuple[str, int]
Spot = tuple[int, str | None]
"""A level, and the dimension of the array along which the factor runs there."""
Placed = Sequence[tuple[Factor, Spot]]
Weights = tuple[float, float, float]
"""Weights of utilisation, compute and traffic."""
PROGRAM_WEIGHTS: Weights = (0.1, 10.0, 1.0)


@dataclass(frozen=True, slots=True)
class Chain:
    """The number of elements of each operand that fit, and the array dimensions served first, by level."""

    entries: tuple[Mapping[str, int], ...]
    dimensions: tuple[Mapping[str, int], ...]

    @classmethod
    def of(cls, layer: Layer, accelerator: Accelerator) -> Chain:
        """Return the shares and widths of CoSA's program, for memories with capacity for an element."""
        standing = standing_levels(LayerProblem(layer, accelerator))
        sizes = dict(accelerator.array.sizes) if accelerator.array else {}
        entries, dimensions, served = [], [], set[str]()
        for number, level in enumerate(standing.levels):
            now = set(sizes) if level.serves is None else set(level.serves)
            dimensions.append({name: units for name, units in sizes.items() if name in now - served})
            served = now
            held = [operand for operand in ("input", "weight", "output") if level in standing.keepers[operand]]
            shares = {"input": (1, 4), "output": (3, 4)} if set(held) == {"input", "output"} else {}
            is_last = number == len(standing.levels) - 1
            room = {}
            for operand in held:
                bits = layer.partial_bits if operand == "output" and not is_last else layer.bits(operand)
                part, of = shares.get(operand, (1, len(held)))
                room[operand] = level.memory.capacity_bytes * 8 // bits * part // of
            entries.append(room)
        return cls(tuple(entries), tuple(dimensions))

    @property
    def shared(self) -> int:
        """Return the level of the global buffer."""
        return len(self.entries) - 1

    def last_below_shared(self, operand: str) -> int | None:
        """Return the last level below the global buffer that holds the operand."""
        return max((at for at in range(self.shared) if operand in self.entries[at]), default=None)


def least_objective(
    layer: Layer, accelerator: Accelerator, most: int, weights: Weights = PROGRAM_WEIGHTS
) -> float | None:
    """Return the least objective; infinite if nothing fits, None for more than `most` schedules."""
    chain = Chain.of(layer, accelerator)
    factors = [(loop, prime) for loop, bound in layer.bounds.items() for prime in _primes(bound, loop)]
    spots = [list(_spots(chain, accelerator, factor)) for factor in factors]
    if prod(map(len, spots)) > most:
        return None
    every = (list(zip(factors, chosen, strict=True)) for chosen in product(*spots))
    return min((objective(chain, layer, placed, weights) for placed in every), default=inf)


def _primes(bound: int, loop: str) -> list[int]:
    return [1] if bound == 1 and loop in "RSPQ" else primes_of(bound)


def _spots(chain: Chain, accelerator: Accelerator, factor: Factor) -> Iterator[Spot]:
    """Yield the spots of a factor; a factor of 1 is temporal, since it would take no unit."""
    yield from ((level, None) for level in range(chain.shared + 2))
    for level, dimensions in enumerate(chain.dimensions):
        for name, units in dimensions.items():
            if 1 < factor[1] <= units and factor[0] in loops_along(accelerator, name):
                yield level, name


def objective(chain: Chain, layer: Layer, placed: Placed, weights: Weights = PROGRAM_WEIGHTS) -> float:
    """Return Eq. 12, or infinity if the placement does not fit."""
    for level, dimensions in enumerate(chain.dimensions):
        for name, units in dimensions.items():
            if prod(prime for (_, prime), spot in placed if spot == (level, name)) > units:
                return inf
    used, shared = 0.0, chain.shared
    for level, held in enumerate(chain.entries):
        for operand, most in held.items():
            size = _tile(chain, layer, placed, level, operand)
            if size > most:
                return inf
            used += log2(size) * (level < shared) * (1.01 if level == chain.last_below_shared("weight") else 1)
    computed = sum(log2(prime) for (_, prime), (_, along) in placed if along is None)
    moved = 0.0
    for operand, related in RELATED.items():
        for (loop, prime), (level, along) in placed:
            if level < shared:
                moved += 0.99 * (0.8 + 0.04 * level) * log2(prime) * (loop in related)
            elif level == shared and along is not None:
                moved += 0.99 * log2(prime)
            elif level > shared:
                moved += log2(prime) * (1.01 if operand == "weight" else 1)
    at_shared = sorted(factor for factor, spot in placed if spot == (shared, None) and factor[1] > 1)
    moved += min(map(_iterated, set(permutations(at_shared))))
    return -weights[0] * used + weights[1] * computed + weights[2] * moved


def _tile(chain: Chain, layer: Layer, placed: Placed, level: int, operand: str) -> int:
    strides = {"P": layer.stride[0], "Q": layer.stride[1]} if operand == "input" else {}
    inside = [factor for factor, spot in placed if spot[0] <= level]
    size = prod(prime * strides.get(loop, 1) for loop, prime in inside if loop in RELATED[operand])
    if operand == "input" and level == chain.last_below_shared("input"):
        for taps, outputs in WINDOWS.items():
            on_chip = [prime for (loop, prime), spot in placed if loop == taps and spot[0] <= chain.shared]
            size *= 2 ** len(on_chip) if any(loop == outputs for loop, _ in inside) else prod(on_chip)
    return size


def _iterated(order: Sequence[Factor]) -> float:
    total = 0.0
    for related in RELATED.values():
        moves = False
        for loop, prime in order:
            moves = moves or loop in related
            total += log2(prime) if moves else 0.0
    return total
