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
from onchip.mapping.cosa.machine import RELATED, WINDOWS, CosaMachine, Place
from onchip.mapping.cosa.objective import added_by, window_weight
from onchip.mapping.cosa.placement import GIVEN_ORDER, Factor, FactorPlacement
from onchip.search.mip import MipOutcome

if TYPE_CHECKING:
    from ortools.math_opt.python import mathopt

LEAST_PER_BIT: Final = 10**6
"""Logarithms are integers in units of this or a tenth, hundredth ... of it, as fine as capacities ask for."""
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
        self._filter_taps_widen_the_window()
        self._tiles_fit_their_memories()
        self._one_order_of_loops_is_chosen()
        self._minimise_the_weighted_sum()

    def placement(self, outcome: MipOutcome) -> FactorPlacement:
        """Return where a solution of the program places each factor."""
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
        """The halo: each factor of R (S) counts as 2 if any of P (Q) is in the input buffer, else as itself.

        `counted_as_two` are the copies of such a factor if any of P (Q) is inside, else 0: sums of small integers,
        since CP-SAT may try the values of a variable that stands for a logarithm one after the other.
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
        """Y[v,z] (Eq. 9) leaves three orders of the global buffer's loops; `reused` is what the chosen one saves.

        It adds up, of each factor there, the copies that the chosen order saves: at most all, and of one order only.
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
        """-w_U Util + w_C Comp + w_T Traf (Eq. 12); Traf is linear but for the loops that reuse (Eq. 10).

        What is reused is never more than the iterations it is taken off, so that `offset` need not cover it.
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
        """Another variable: the first where the flag is 1, else 0."""
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
