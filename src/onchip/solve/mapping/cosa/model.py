"""CoSA's formulation over integer counts, constraint by constraint; `docs/cosa.md` says where it departs.

The paper has one boolean per prime factor and place. Copies of one prime of one loop are alike, so here an integer
says how many of them are at a place: the same schedules without their permutations. Logarithms are integers, in
millionths of a bit or finer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import floor, log2
from typing import TYPE_CHECKING, Final

from onchip.ir.layer import INPUT, OUTPUT, WEIGHT
from onchip.solve.joint.mip import MipOutcome
from onchip.solve.mapping.cosa.machine import RELATED, WINDOWS, CosaMachine, Place
from onchip.solve.mapping.cosa.objective import TRAFFIC_WEIGHT, added_by, window_weight
from onchip.solve.mapping.cosa.placement import GIVEN_ORDER, Factor, FactorPlacement

if TYPE_CHECKING:
    from ortools.math_opt.python import mathopt

LEAST_PER_BIT: Final = 10**6
"""Logarithms are integers in units of this or a tenth, hundredth ... of it, as fine as capacities ask for."""
GREATEST: Final = 10**7
"""Of a variable: CP-SAT cuts off what is above, so that larger amounts are two variables."""
OBJECTIVE_PER_UNIT: Final = 10
"""The objective is an integer in tenths of these units: its weights are, where they meet variables."""
FINE_OBJECTIVE_PER_UNIT: Final = 1000
"""The same where inputs and weights share a buffer, whose factor the window's weight then has."""
REUSED: Final[tuple[tuple[str, Mapping[str, tuple[str, ...]]], ...]] = (
    ("PQN", {WEIGHT: ("P", "Q", "N")}),
    ("RSK", {INPUT: ("R", "S", "K"), OUTPUT: ("R", "S")}),
    ("RSC", {INPUT: ("R", "S"), OUTPUT: ("R", "S", "C")}),
)
"""Which loops stand innermost at the global buffer, and for which loops each operand then stays where it is.

No other order saves more: what is related to all of them ends the reuse, and after R and S either K or C does.
"""


class CosaModel:
    """Minimises Eq. 12, raised by `offset` so that it is never below 0."""

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
        self._tiles_fit_their_memories()
        self._filter_taps_widen_the_window()
        self._one_order_of_loops_is_chosen()
        self._minimise_the_weighted_sum()

    def placement(self, outcome: MipOutcome) -> FactorPlacement:
        """What a solution says."""
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
        self.window = {taps: self._amount(self._widest(taps)) for taps in self._windows()}
        self.innermost = {name: self.model.add_binary_variable() for name, _ in REUSED}
        self.most_reused = 2 * sum(self._bits(factor) * count for factor, count in self.factors.items())
        self.reused = self._amount(self.most_reused)

    def _each_factor_has_one_place(self) -> None:
        """The sum over places of each factor's copies is how many there are (Eq. 3)."""
        for factor, count in self.factors.items():
            terms = [variable for (name, _), variable in self.placed.items() if name == factor]
            self.model.add_linear_constraint(self._total(terms) == count)

    def _factors_side_by_side_fit_the_array(self) -> None:
        """The sum of log(prime) * copies at a spatial place <= log(S) (Eq. 4)."""
        for place, units in self.machine.units.items():
            terms = [self._bits(f) * variable for (f, where), variable in self.placed.items() if where == place]
            if terms:
                self.model.add_linear_constraint(self._total(terms) <= self._bound(units))

    def _tiles_fit_their_memories(self) -> None:
        """U[I,v] = the sum of log(prime) A[j,v] B[I,v] * copies up to level I <= log(M[I,v]) (Eqs. 1 and 2)."""
        for level, entries in enumerate(self.machine.entries):
            for operand, most in entries.items():
                self.model.add_linear_constraint(self._tile(level, operand) <= self._bound(most))

    def _filter_taps_widen_the_window(self) -> None:
        """The halo: each factor of R (S) counts as 2 if any of P (Q) is in the input buffer, else as itself."""
        most_level = self.machine.input_level or 0
        for taps, outputs in self._windows().items():
            inside = [
                variable
                for ((loop, _), place), variable in self.placed.items()
                if loop == outputs and place.level <= most_level
            ]
            flag, most, window = self.outputs_inside[taps], self._widest(taps), self.window[taps]
            for variable in inside:
                self.model.add_linear_constraint(variable <= variable.upper_bound * flag)
            self.model.add_linear_constraint(flag <= self._total(inside))
            own = [(f, v) for (f, place), v in self.placed.items() if f[0] == taps and place in self.on_chip]
            for flag_is_off, width in (
                (flag, self._total(self._bits(f) * v for f, v in own)),
                (1 - flag, self._total(self.per_bit * v for _, v in own)),
            ):
                self.model.add_linear_constraint(window - width <= most * flag_is_off)
                self.model.add_linear_constraint(width - window <= most * flag_is_off)

    def _one_order_of_loops_is_chosen(self) -> None:
        """Y[v,z] (Eq. 9) leaves three orders of the global buffer's loops; what they save is at most `reused`."""
        self.model.add_linear_constraint(self._total(self.innermost.values()) == 1)
        most = self.most_reused
        for name, kept in REUSED:
            saved = [
                self._bits(f) * variable
                for (f, place), variable in self.placed.items()
                if place == Place(self.machine.shared)
                for operand, loops in kept.items()
                if operand in self.machine.layer.operands and f[0] in loops
            ]
            self.model.add_linear_constraint(self.reused <= self._total(saved) + most * (1 - self.innermost[name]))

    def _minimise_the_weighted_sum(self) -> None:
        """-w_U Util + w_C Comp + w_T Traf (Eq. 12); Traf is linear but for the loops that reuse (Eq. 10).

        What is reused is never more than the iterations it is taken off, so that `offset` need not cover it.
        """
        costs = {key: round(self.objective_per_bit * added_by(self.machine, *key)) for key in self.placed}
        terms = [cost * self.placed[key] for key, cost in costs.items()]
        wide = round(self.objective_per_unit * window_weight(self.machine))
        widened = [-wide * window for window in self.window.values()]
        reused = -round(self.objective_per_unit * TRAFFIC_WEIGHT) * self.reused
        self.offset = wide * sum(map(self._widest, self.window))
        self.offset -= sum(min(0, cost) * self.factors[factor] for (factor, _), cost in costs.items())
        self.model.minimize(self._total([*terms, *widened, reused, float(self.offset)]))

    def _amount(self, most: int) -> mathopt.LinearBase:
        """Of logarithms, from 0 to `most`, or a little above where that is more than one variable can be."""
        if most <= GREATEST:
            return self.model.add_variable(lb=0, ub=most)
        whole = self.model.add_integer_variable(lb=0, ub=most // GREATEST)
        return GREATEST * whole + self.model.add_variable(lb=0, ub=GREATEST)

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
    """So many units that a sum of rounded logarithms tells a product of `most` from one of `most` + 1.

    Each logarithm but those of 2, 4, ... is off by half a unit at most; the bound is that of `most` + 1/2, and
    log2(1 + 0.5 / most) is 0.72 / most.
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
