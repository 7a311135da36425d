"""CoSA's mixed-integer program: the accelerator as CoSA sees it, the placement of factors, and the objective.

All sums are of binary logarithms. The constants are those of the authors' program, which made the paper's schedules;
docs/cosa.md lists them.

The paper has one boolean per prime factor and place. Equal primes of one loop are interchangeable, so an integer here
counts the copies at a place. This gives the same schedules without their permutations. Logarithms are integers, in
millionths of a bit or finer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from math import floor, log2
from typing import TYPE_CHECKING, Final

from onchip.answer.layer_mapping import LayerMapping, Loop, even, loops_along
from onchip.answer.layer_problem import LayerProblem, operands_kept
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import MemoryLevel, Operand
from onchip.errors import AcceleratorError, InputError
from onchip.ir.layer import INPUT, OUTPUT, WEIGHT, Layer
from onchip.model.unrolling.unrolling import prime_counts
from onchip.search.strategy.interruptible import MipOutcome

if TYPE_CHECKING:
    from ortools.math_opt.python import mathopt

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


WEIGHT_BUFFER_FACTOR: Final = 1.01
"""Factor for the buffer that weights enter straight from DRAM."""
WEIGHTS_FROM_DRAM_FACTOR: Final = 1.01
BELOW_DRAM_FACTOR: Final = 0.99
"""Factor for data sizes and spatial factors, relative to iterations."""
NEAREST_LEVEL_FACTOR: Final = 0.8
FACTOR_PER_LEVEL: Final = 0.04
"""Weight of a data size at the nearest level, and its increase per level away from the MACs."""


def window_weight(machine: CosaMachine) -> float:
    """Return the negated weight of a bit of the window in Eq. 12; the input buffer may also hold weights."""
    return machine.weights.utilisation * (WEIGHT_BUFFER_FACTOR if machine.input_level == machine.weight_level else 1)


def level_factor(level: int) -> float:
    """Return the weight of a factor at a level within Eq. 7."""
    return NEAREST_LEVEL_FACTOR + FACTOR_PER_LEVEL * level


def added_by(machine: CosaMachine, factor: Factor, place: Place) -> float:
    """Return a copy's contribution to Eq. 12 at a place, without the window and the loops that reuse."""
    (loop, prime), own = factor, log2(factor[1])
    used = moved = 0.0
    for level in range(place.level, machine.shared):
        weight = WEIGHT_BUFFER_FACTOR if level == machine.weight_level else 1
        for operand in machine.entries[level]:
            used += weight * log2(prime * machine.step(operand, loop)) * (loop in RELATED[operand])
    for operand in machine.layer.operands:
        if place.level < machine.shared:
            moved += BELOW_DRAM_FACTOR * level_factor(place.level) * own * (loop in RELATED[operand])
        elif place.level == machine.shared:
            moved += own if place.along is None else BELOW_DRAM_FACTOR * own
        else:
            moved += own * (WEIGHTS_FROM_DRAM_FACTOR if operand == WEIGHT else 1)
    computed = own if place.along is None else 0
    weights = machine.weights
    return -weights.utilisation * used + weights.compute * computed + weights.traffic * moved


LEAST_PER_BIT: Final = 10**6
"""Minimum resolution of logarithms, in units per bit; multiplied by 10 as capacities require."""
OBJECTIVE_PER_UNIT: Final = 10
"""Resolution of the objective: its weights are multiples of a tenth."""
FINE_OBJECTIVE_PER_UNIT: Final = 1000
"""Resolution if inputs and weights share a buffer, whose factor then scales the window's weight."""
REUSED: Final[tuple[tuple[str, Mapping[str, tuple[str, ...]]], ...]] = (
    ("PQN", {WEIGHT: ("P", "Q", "N")}),
    ("RSK", {INPUT: ("R", "S", "K"), OUTPUT: ("R", "S")}),
    ("RSC", {INPUT: ("R", "S"), OUTPUT: ("R", "S", "C")}),
)
"""The innermost loops at the global buffer, and the loops for which each operand then stays resident.

No other order saves more: a loop that is relevant to all ends the reuse, and after R and S comes K or C.
"""


class CosaModel:
    """The program that minimises Eq. 12, raised by `offset` to be non-negative."""

    def __init__(self, machine: CosaMachine, factors: Mapping[Factor, int]) -> None:
        from ortools.math_opt.python import mathopt

        self.model = mathopt.Model(name="CoSA")
        self.machine = machine
        self.factors = factors
        self.per_bit = _per_bit(machine, factors)
        shares = machine.input_level == machine.weight_level
        self.objective_per_unit = FINE_OBJECTIVE_PER_UNIT if shares else OBJECTIVE_PER_UNIT
        self.objective_per_bit = self.objective_per_unit * self.per_bit
        self.on_chip = tuple(place for place in machine.places if place.level < machine.dram)
        self._make_variables()
        self._each_factor_has_one_place()
        self._factors_side_by_side_fit_the_array()
        self._filter_taps_widen_the_window()
        self._tiles_fit_their_memories()
        self._one_order_of_loops_is_chosen()
        self._minimise_the_weighted_sum()

    def placement(self, outcome: MipOutcome) -> FactorPlacement:
        """Return the placement of factors in a solution of the program."""
        counts = {key: outcome.integer(variable) for key, variable in self.placed.items()}
        order = _order(self.innermost, outcome)
        return FactorPlacement({key: count for key, count in counts.items() if count}, {self.machine.shared: order})

    def _make_variables(self) -> None:
        self.placed: dict[tuple[Factor, Place], mathopt.Variable] = {
            ((loop, prime), place): self.model.add_integer_variable(lb=0, ub=count)
            for (loop, prime), count in self.factors.items()
            for place in self.machine.places
            if self.machine.may_hold(place, loop, prime)
        }
        self.outputs_inside = {taps: self.model.add_binary_variable() for taps in self._windows()}
        self.innermost = {name: self.model.add_binary_variable() for name, _ in REUSED}

    def _each_factor_has_one_place(self) -> None:
        """Add Eq. 3: the copies of each factor over all places sum to their number."""
        for factor, count in self.factors.items():
            terms = [variable for (name, _), variable in self.placed.items() if name == factor]
            self.model.add_linear_constraint(self._total(terms) == count)

    def _factors_side_by_side_fit_the_array(self) -> None:
        """Add Eq. 4: the sum of log(prime) * copies at a spatial place <= log(S)."""
        for place, units in self.machine.units.items():
            terms = [self._bits(f) * variable for (f, where), variable in self.placed.items() if where == place]
            if terms:
                self.model.add_linear_constraint(self._total(terms) <= self._bound(units))

    def _tiles_fit_their_memories(self) -> None:
        """Add Eqs. 1 and 2: U[I,v] = sum of log(prime) A[j,v] B[I,v] * copies up to level I <= log(M[I,v])."""
        for level, entries in enumerate(self.machine.entries):
            for operand, most in entries.items():
                self.model.add_linear_constraint(self._tile(level, operand) <= self._bound(most))

    def _filter_taps_widen_the_window(self) -> None:
        """Add the halo: each factor of R (S) counts as 2 if a factor of P (Q) is in the input buffer, else as itself.

        `counted_as_two` are the copies of such a factor if one of P (Q) is inside, else 0. They are sums of small
        integers, since CP-SAT may enumerate the values of a variable that represents a logarithm.
        """
        most_level = self.machine.input_level or 0
        self.window: dict[str, mathopt.LinearBase] = {}
        for taps, outputs in self._windows().items():
            inside = [
                variable
                for ((loop, _), place), variable in self.placed.items()
                if loop == outputs and place.level <= most_level
            ]
            flag = self.outputs_inside[taps]
            for variable in inside:
                self.model.add_linear_constraint(variable <= variable.upper_bound * flag)
            self.model.add_linear_constraint(flag <= self._total(inside))
            terms: list[mathopt.LinearTypes] = []
            for (factor, place), variable in self.placed.items():
                if factor[0] == taps and place in self.on_chip:
                    counted_as_two = self._product(variable, flag)
                    terms += [self._bits(factor) * variable, (self.per_bit - self._bits(factor)) * counted_as_two]
            self.window[taps] = self._total(terms)

    def _one_order_of_loops_is_chosen(self) -> None:
        """Choose one of the three orders of the global buffer's loops that Y[v,z] (Eq.

        9) leaves; `reused` is its saving.

        The saving sums the copies of each factor there that the chosen order reuses: at most all, and for one order
        only.
        """
        self.model.add_linear_constraint(self._total(self.innermost.values()) == 1)
        terms: list[mathopt.LinearTypes] = []
        for (factor, place), variable in self.placed.items():
            if place != Place(self.machine.shared):
                continue
            saved: list[mathopt.Variable] = []
            for name, kept in REUSED:
                times = sum(factor[0] in loops for one, loops in kept.items() if one in self.machine.layer.operands)
                if times:
                    copies = self.model.add_integer_variable(lb=0, ub=variable.upper_bound)
                    self.model.add_linear_constraint(copies <= variable.upper_bound * self.innermost[name])
                    saved.append(copies)
                    terms.append(times * self._bits(factor) * copies)
            if saved:
                self.model.add_linear_constraint(self._total(saved) <= variable)
        self.reused = self._total(terms)

    def _minimise_the_weighted_sum(self) -> None:
        """Minimise -w_U Util + w_C Comp + w_T Traf (Eq. 12); Traf is linear except for the loops that reuse (Eq. 10).

        The reuse never exceeds the iterations from which it is subtracted, so `offset` need not cover it.
        """
        costs = {key: round(self.objective_per_bit * added_by(self.machine, *key)) for key in self.placed}
        terms = [cost * self.placed[key] for key, cost in costs.items()]
        wide = round(self.objective_per_unit * window_weight(self.machine))
        widened = [-wide * window for window in self.window.values()]
        reused = -round(self.objective_per_unit * self.machine.weights.traffic) * self.reused
        self.offset = wide * sum(map(self._widest, self.window))
        self.offset -= sum(min(0, cost) * self.factors[factor] for (factor, _), cost in costs.items())
        self.model.minimize(self._total([*terms, *widened, reused, float(self.offset)]))

    def _product(self, variable: mathopt.Variable, flag: mathopt.Variable) -> mathopt.Variable:
        """Return a new variable equal to `variable` if the flag is 1, else 0."""
        most = variable.upper_bound
        product = self.model.add_integer_variable(lb=0, ub=most)
        self.model.add_linear_constraint(product <= variable)
        self.model.add_linear_constraint(product <= most * flag)
        self.model.add_linear_constraint(product >= variable - most * (1 - flag))
        return product

    def _tile(self, level: int, operand: str) -> mathopt.LinearBase:
        terms: list[mathopt.LinearTypes] = [
            round(self.per_bit * log2(prime * self.machine.step(operand, loop))) * variable
            for ((loop, prime), place), variable in self.placed.items()
            if place.level <= level and loop in RELATED[operand]
        ]
        if operand == INPUT and level == self.machine.input_level:
            terms.extend(self.window.values())
        return self._total(terms)

    def _windows(self) -> Mapping[str, str]:
        return {} if self.machine.input_level is None else WINDOWS

    def _widest(self, taps: str) -> int:
        factors = {factor: count for factor, count in self.factors.items() if factor[0] == taps}
        return max(
            sum(self._bits(factor) * count for factor, count in factors.items()), self.per_bit * sum(factors.values())
        )

    def _bits(self, factor: Factor) -> int:
        return round(self.per_bit * log2(factor[1]))

    def _bound(self, most: int) -> int:
        return floor(self.per_bit * log2(most + 0.5))

    def _total(self, terms: Iterable[mathopt.LinearTypes]) -> mathopt.LinearBase:
        from ortools.math_opt.python import mathopt

        return mathopt.LinearSum(terms)


def _per_bit(machine: CosaMachine, factors: Mapping[Factor, int]) -> int:
    """Return a resolution that separates a product of `most` from one of `most` + 1 in rounded logarithms.

    Each logarithm except of 2, 4, ... has a rounding error of at most half a unit. The bound is that of `most` + 1/2,
    and log2(1 + 0.5 / most) is 0.72 / most.
    """
    most = max((size for entries in machine.entries for size in entries.values()), default=1)
    steps = max(machine.layer.stride)
    rounded = sum(count for (_, prime), count in factors.items() if (prime * steps).bit_count() > 1)
    per_bit = LEAST_PER_BIT
    while 0.72 * per_bit <= most * (0.5 * rounded + 1):
        per_bit *= 10
    return per_bit


def _order(innermost: Mapping[str, mathopt.Variable], outcome: MipOutcome) -> tuple[str, ...]:
    first = next(name for name, variable in innermost.items() if outcome.is_one(variable))
    return (*first, *(loop for loop in GIVEN_ORDER if loop not in first))
