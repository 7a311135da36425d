"""CoSA's mixed-integer program and its objective.

All sums are of binary logarithms. The constants are those of the authors' program, which made the paper's schedules;
docs/cosa.md lists them.

The paper has one boolean per prime factor and place. Equal primes of one loop are interchangeable, so an integer here
counts the copies at a place. This gives the same schedules without their permutations. Logarithms are integers, in
millionths of a bit or finer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import floor, log2, prod
from typing import TYPE_CHECKING, Final

from onchip.ir.layer import INPUT, OUTPUT, WEIGHT
from onchip.mapping.cosa.machine import (
    GIVEN_ORDER,
    RELATED,
    WINDOWS,
    CosaMachine,
    CosaWeights,
    Factor,
    FactorPlacement,
    Place,
)
from onchip.search.mip import MipOutcome

if TYPE_CHECKING:
    from ortools.math_opt.python import mathopt

WEIGHT_BUFFER_FACTOR: Final = 1.01
"""Factor for the buffer that weights enter straight from DRAM."""
WEIGHTS_FROM_DRAM_FACTOR: Final = 1.01
BELOW_DRAM_FACTOR: Final = 0.99
"""Factor for data sizes and spatial factors, relative to iterations."""
NEAREST_LEVEL_FACTOR: Final = 0.8
FACTOR_PER_LEVEL: Final = 0.04
"""Weight of a data size at the nearest level, and its increase per level away from the MACs."""


@dataclass(frozen=True, slots=True)
class CosaObjective:
    """The three terms of CoSA's objective, in bits."""

    utilisation: float
    compute: float
    traffic: float
    weights: CosaWeights = field(default_factory=CosaWeights)

    @property
    def total(self) -> float:
        """Return the minimised sum (Eq. 12)."""
        weights = self.weights
        return -weights.utilisation * self.utilisation + weights.compute * self.compute + weights.traffic * self.traffic


def objective_of(machine: CosaMachine, placement: FactorPlacement) -> CosaObjective:
    """Return the terms of Eq. 12."""
    terms = utilisation(machine, placement), compute(machine, placement), traffic(machine, placement)
    return CosaObjective(*terms, machine.weights)


def tile_elements(machine: CosaMachine, placement: FactorPlacement, level: int, operand: str) -> int:
    """Return the elements of an operand's tile: its factors up to this level (Eq. 1), with strides per factor."""
    inside = [place for place in machine.places if place.level <= level]
    sizes = placement.sizes(inside)
    steps = prod(machine.step(operand, loop) ** placement.copies(loop, inside) for loop in RELATED[operand])
    halo = window(machine, placement) if operand == INPUT and level == machine.input_level else 1
    return int(prod(sizes[loop] for loop in RELATED[operand]) * steps * halo)


def window(machine: CosaMachine, placement: FactorPlacement) -> int:
    """Return the factor of R and S in the input buffer's tile: 2 per on-chip factor if outputs are inside, else itself.

    As in the program, all factors below DRAM count, including those at the global buffer.
    """
    if machine.input_level is None:
        return 1
    below = [place for place in machine.places if place.level <= machine.input_level]
    on_chip = [place for place in machine.places if place.level < machine.dram]
    sizes = placement.sizes(on_chip)
    return prod(
        2 ** placement.copies(taps, on_chip) if placement.copies(outputs, below) else sizes[taps]
        for taps, outputs in WINDOWS.items()
    )


def fits(machine: CosaMachine, placement: FactorPlacement) -> bool:
    """Return True if tiles fit their memories (Eq. 2) and spatial factors fit the array (Eq. 4)."""
    return all(
        tile_elements(machine, placement, level, operand) <= most
        for level, entries in enumerate(machine.entries)
        for operand, most in entries.items()
    ) and all(prod(placement.sizes((place,)).values()) <= most for place, most in machine.units.items())


def utilisation(machine: CosaMachine, placement: FactorPlacement) -> float:
    """Return the sum of the logarithms of all tiles below the global buffer (Eq. 5)."""
    return sum(
        log2(tile_elements(machine, placement, level, operand))
        * (WEIGHT_BUFFER_FACTOR if level == machine.weight_level else 1)
        for level in range(machine.shared)
        for operand in machine.entries[level]
    )


def window_weight(machine: CosaMachine) -> float:
    """Return the negated weight of a bit of the window in Eq. 12; the input buffer may also hold weights."""
    return machine.weights.utilisation * (WEIGHT_BUFFER_FACTOR if machine.input_level == machine.weight_level else 1)


def compute(machine: CosaMachine, placement: FactorPlacement) -> float:
    """Return the logarithm of the temporal iterations (Eq. 6)."""
    return log2(prod(placement.sizes(Place(level) for level in range(machine.dram + 1)).values()))


def traffic(machine: CosaMachine, placement: FactorPlacement) -> float:
    """Return each operand's data size, spatial factors and iterations (Eq. 11), and the iterations at DRAM."""
    from_dram = log2(prod(placement.sizes((Place(machine.dram),)).values()))
    return sum(
        BELOW_DRAM_FACTOR * (data_size(machine, placement, operand) + spatial_size(machine, placement))
        + iterations(machine, placement, operand)
        + from_dram * (WEIGHTS_FROM_DRAM_FACTOR if operand == WEIGHT else 1)
        for operand in machine.layer.operands
    )


def data_size(machine: CosaMachine, placement: FactorPlacement, operand: str) -> float:
    """Return the data size moved at once to below the global buffer (Eq. 7), weighted by level."""
    total = 0.0
    for level in range(machine.shared):
        sizes = placement.sizes(place for place in machine.places if place.level == level)
        total += level_factor(level) * log2(prod(sizes[loop] for loop in RELATED[operand]))
    return total


def level_factor(level: int) -> float:
    """Return the weight of a factor at a level within Eq. 7."""
    return NEAREST_LEVEL_FACTOR + FACTOR_PER_LEVEL * level


def spatial_size(machine: CosaMachine, placement: FactorPlacement) -> float:
    """Return the spatial factors at the global buffer (Eq. 8; as in the program without A, so all loops count)."""
    spatial = (place for place in machine.units if place.level == machine.shared)
    return log2(prod(placement.sizes(spatial).values()))


def iterations(machine: CosaMachine, placement: FactorPlacement, operand: str) -> float:
    """Return the global buffer's iterations from the innermost relevant loop outwards (Eqs. 9 and 10)."""
    sizes = placement.sizes((Place(machine.shared),))
    total, moves = 0.0, False
    for loop in placement.order(machine.shared):
        moves = moves or (loop in RELATED[operand] and sizes[loop] > 1)
        total += log2(sizes[loop]) if moves else 0.0
    return total


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
