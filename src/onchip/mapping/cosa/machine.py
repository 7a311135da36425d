"""The accelerator as CoSA sees it, and the placement of operands."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from onchip.answer.layer_mapping import LayerMapping, Loop, even, loops_along
from onchip.answer.layer_problem import LayerProblem, operands_kept
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import MemoryLevel, Operand
from onchip.errors import AcceleratorError, InputError
from onchip.ir.layer import INPUT, OUTPUT, WEIGHT, Layer
from onchip.model.unrolling.unrolling import prime_counts

RELATED: Final[Mapping[str, tuple[str, ...]]] = {
    WEIGHT: ("R", "S", "C", "K", "G"),
    INPUT: ("P", "Q", "C", "N", "G"),
    OUTPUT: ("P", "Q", "K", "N", "G"),
}
"""Matrix A of CoSA's Table IV: R and S affect the input by its halo only. G, which CoSA lacks, is relevant to all."""
WINDOWS: Final[Mapping[str, str]] = {"R": "P", "S": "Q"}
"""The output loop that slides over the input with each filter loop."""
EXACT: Final = 1e-9
"""Tolerance for multiples of a tenth."""
INPUT_SHARE_BESIDE_OUTPUT: Final = 0.25
"""Input's share of a memory that holds inputs and outputs; outputs get the rest (the program's partition ratios)."""


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a factor: temporal at a level, or spatial `along` a dimension of the array.

    Levels count memories from the MACs; DRAM is the level after the last.
    """

    level: int
    along: str | None = None


@dataclass(frozen=True, slots=True)
class CosaWeights:
    """The weights of utilisation, compute and traffic in Eq. 12; the defaults are those of the authors' program.

    Weights are multiples of a tenth. The paper chooses them for an architecture by a micro-benchmark.
    """

    utilisation: float = 0.1
    compute: float = 10.0
    traffic: float = 1.0

    def __post_init__(self) -> None:
        for name, weight in zip(self.__slots__, (self.utilisation, self.compute, self.traffic), strict=True):
            if weight < 0 or abs(10 * weight - round(10 * weight)) > EXACT:
                raise InputError(f"{name} counts {weight}", place="CoSA's weights", expected="tenths, 0 or more")


@dataclass(frozen=True, slots=True)
class CosaMachine:
    """A layer and an accelerator as the constants of CoSA's program.

    `entries` is the number of elements of each operand that fit at each level (B and M of the paper). `units` is the
    maximum product of spatial factors at a place (S), `loops` the loops allowed there, `weights` the objective's
    weights.
    """

    layer: Layer
    names: tuple[str, ...]
    entries: tuple[Mapping[str, int], ...]
    units: Mapping[Place, int]
    loops: Mapping[Place, tuple[str, ...]]
    weights: CosaWeights = CosaWeights()

    @classmethod
    def of(cls, layer: Layer, accelerator: Accelerator, weights: CosaWeights | None = None) -> CosaMachine:
        """Return the machine without memories that are too small for any operand.

        Raises AcceleratorError if there is no array, or the memories are no chain with ever fewer instances.
        """
        accelerator = LayerProblem(layer, accelerator).without_memories_of_no_use().accelerator
        array = accelerator.array
        if array is None:
            place = f"accelerator {accelerator.name!r}"
            raise AcceleratorError("it has no array to map loops on", place=place, expected="`array` in its file")
        units: dict[Place, int] = {}
        served: set[str] = set()
        for index, level in enumerate(accelerator.levels):
            now = set(array.sizes) if level.serves is None else set(level.serves)
            _serves_at_least(level, now, served)
            units |= {Place(index, name): array.sizes[name] for name in array.sizes if name in now - served}
            served = now
        _serves_at_least(accelerator.levels[-1], served, set(array.sizes))
        return cls(
            layer,
            tuple(level.memory.name for level in accelerator.levels),
            tuple(
                _entries(layer, level, kept, is_last=level is accelerator.levels[-1])
                for level, kept in zip(accelerator.levels, operands_kept(accelerator.levels, layer), strict=True)
            ),
            units,
            {place: loops_along(array, place.along or "") for place in units},
            weights or CosaWeights(),
        )

    @property
    def dram(self) -> int:
        """Return the number of DRAM's level, the highest."""
        return len(self.names)

    @property
    def shared(self) -> int:
        """Return the global buffer's level: the last on the chip, where the loop order counts."""
        return len(self.names) - 1

    @property
    def places(self) -> tuple[Place, ...]:
        """Return all places for factors: the levels including DRAM, then the units."""
        return (*(Place(level) for level in range(self.dram + 1)), *self.units)

    @property
    def input_level(self) -> int | None:
        """Return the last memory of inputs below the global buffer, the only one for which CoSA counts a halo."""
        return self._last_below_shared(INPUT)

    @property
    def weight_level(self) -> int | None:
        """Return the last memory of weights below the global buffer."""
        return self._last_below_shared(WEIGHT)

    def may_hold(self, place: Place, loop: str, prime: int) -> bool:
        """Return True if a factor of a loop may be at the place.

        A factor of 1 matters only if an input tile spans it; of equivalent places only one is allowed.
        """
        if prime == 1:
            return place.along is None and place.level in (*self._input_levels(loop), self.dram)
        return place.along is None or (loop in self.loops[place] and prime <= self.units[place])

    def step(self, operand: str, loop: str) -> int:
        """Return the distance in an operand between neighbouring iterations of a loop; CoSA strides each factor."""
        return {"P": self.layer.stride[0], "Q": self.layer.stride[1]}.get(loop, 1) if operand == INPUT else 1

    def _input_levels(self, loop: str) -> tuple[int, ...]:
        held = tuple(level for level in range(self.shared) if INPUT in self.entries[level])
        return held if self.step(INPUT, loop) > 1 else held[-1:]

    def _last_below_shared(self, operand: str) -> int | None:
        return max((i for i in range(self.shared) if operand in self.entries[i]), default=None)


def _serves_at_least(level: MemoryLevel, served: set[str], needed: set[str]) -> None:
    if not needed <= served:
        raise AcceleratorError(
            f"it serves {', '.join(sorted(served)) or 'nothing'} of the array",
            place=f"memory {level.memory.name!r}",
            expected=f"also {', '.join(sorted(needed - served))}: each memory what those nearer the MACs serve, "
            "the last the whole array",
        )


def _entries(layer: Layer, level: MemoryLevel, kept: Collection[str], *, is_last: bool) -> dict[str, int]:
    """Return the capacity of each operand; the global buffer counts partial sums with the width of finished ones."""
    held = [operand for operand in layer.operands if operand in kept]
    shares = {operand: 1 / len(held) for operand in held}
    if set(held) == {INPUT, OUTPUT}:
        shares = {INPUT: INPUT_SHARE_BESIDE_OUTPUT, OUTPUT: 1 - INPUT_SHARE_BESIDE_OUTPUT}
    bits = {operand: layer.bits(operand) for operand in held}
    if OUTPUT in bits and not is_last:
        bits[OUTPUT] = layer.partial_bits
    return {operand: int(level.memory.capacity_bytes * 8 // bits[operand] * shares[operand]) for operand in held}


Factor = tuple[str, int]
"""A loop and one of its primes; 1 for a loop of R, S, P, Q with bound 1, since its place counts too."""
GIVEN_ORDER: Final = ("R", "S", "P", "Q", "C", "K", "N", "G")
"""Order of temporal loops within a level, innermost first, where CoSA leaves it open."""


@dataclass(frozen=True, slots=True)
class FactorPlacement:
    """The place of each factor; `orders` holds the levels' temporal loop orders that differ from GIVEN_ORDER.

    Orders are innermost first. CoSA decides only the order at the global buffer.
    """

    counts: Mapping[tuple[Factor, Place], int]
    orders: Mapping[int, tuple[str, ...]] = field(default_factory=dict)

    def order(self, level: int) -> tuple[str, ...]:
        """Return all loops in their order at a level, innermost first."""
        return self.orders.get(level, GIVEN_ORDER)

    def sizes(self, places: Iterable[Place]) -> dict[str, int]:
        """Return the product of each loop's factors at these places, with loops in GIVEN_ORDER."""
        wanted, sizes = set(places), dict.fromkeys(GIVEN_ORDER, 1)
        for ((loop, prime), place), count in self.counts.items():
            if place in wanted:
                sizes[loop] *= prime**count
        return sizes

    def copies(self, loop: str, places: Iterable[Place]) -> int:
        """Return the number of a loop's factors at these places, including factors of 1."""
        wanted = set(places)
        return sum(count for ((name, _), place), count in self.counts.items() if name == loop and place in wanted)

    def mapping(self, machine: CosaMachine) -> LayerMapping:
        """Return the even mapping; at each level spatial loops are inside."""
        levels = [(name, self._loops(machine, level)) for level, name in enumerate(machine.names)]
        holders = {
            str(operand): [name for level, name in enumerate(machine.names) if operand in machine.entries[level]]
            for operand in Operand
        }
        return even(levels, holders, self._loops(machine, machine.dram))

    def _loops(self, machine: CosaMachine, level: int) -> list[Loop]:
        side_by_side = [
            Loop(loop, size, place.along)
            for place in machine.units
            if place.level == level
            for loop, size in self.sizes((place,)).items()
            if size > 1
        ]
        sizes = self.sizes((Place(level),))
        return [*side_by_side, *(Loop(loop, sizes[loop]) for loop in self.order(level) if sizes[loop] > 1)]


def factors_of(bounds: Mapping[str, int]) -> dict[Factor, int]:
    """Return the number of copies of each factor that must be placed."""
    factors: dict[Factor, int] = {}
    for loop in GIVEN_ORDER:
        primes = prime_counts(bounds[loop])
        if not primes and loop in ("R", "S", "P", "Q"):
            primes = {1: 1}
        factors |= {(loop, prime): count for prime, count in primes.items()}
    return factors
