"""A study: networks, machines, objectives and parameters, and all their combinations that the constraints allow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Final, TypeAlias

from onchip.api.budgets import CapacityBudget
from onchip.errors import InputError, UsageError
from onchip.sweeps.expression import Expression, Value
from onchip.sweeps.machine import is_capacity
from onchip.sweeps.point import Number
from onchip.sweeps.stored_row import COLUMNS
from onchip.sweeps.values import Scalar, number_of
from onchip.sweeps.verbs import VERBS, SweptVerb

End: TypeAlias = "Scalar | CapacityBudget"

GREATEST_POINTS: Final = 1_000_000
SRAM: Final = "sram"
"""Parameter for the size of one scratchpad, if no accelerator is given."""
SRAM_PATH: Final = "memories.sram.capacity"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A field of the machine, by path, and its values, which may include budgets if it is a size."""

    name: str
    path: str
    values: tuple[Scalar | BudgetSize, ...]

    @property
    def is_capacity(self) -> bool:
        """Return True if the parameter is the size of a memory."""
        return is_capacity(self.path)


@dataclass(frozen=True, slots=True)
class CostTable:
    """A cost that depends on the value of a parameter or on the accelerator; `named` is that parameter."""

    named: str
    table: Mapping[str, Number] = field(hash=False)

    @property
    def names(self) -> frozenset[str]:
        """Return the names whose values the cost needs."""
        return frozenset((self.named,))

    def value(self, values: Mapping[str, Value]) -> Value:
        """Return the cost; raises InputError for a value that the table does not contain."""
        value = values[self.named]
        if str(value) not in self.table:
            raise InputError(f"it says nothing of {self.named} {value!r}", expected="an entry for each value")
        return self.table[str(value)]


@dataclass(frozen=True, slots=True)
class PointLimits:
    """Limits of memory and time for the computation of one point; None is no limit."""

    memory_bytes: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class StudyQuestion:
    """A question of a study before resolution, with names as the user wrote them."""

    network: str
    accelerator: str | None
    objective: str
    options: Mapping[str, object]
    parameters: Mapping[str, Scalar]
    costs: Mapping[str, Number]


SizesFinder: TypeAlias = Callable[[str, str, Mapping[str, object], CapacityBudget], int]
"""A function from network, objective, options and budget to the budget's size in bytes."""


def _resolved(value: Scalar | BudgetSize, network: str, size_of: Callable[[CapacityBudget], int] | None) -> Scalar:
    """Return a value as a number; raises UsageError for an unknown budget, or an empty range."""
    place = f"parameters.{SRAM} of {network}"
    if not isinstance(value, BudgetSize):
        return value
    if size_of is None:
        raise UsageError(f"{value.first} is a budget", place=place, expected="a size")
    try:
        return value.bytes_of(size_of)
    except InputError as error:
        error.place = place
        raise


@dataclass(frozen=True, slots=True)
class Study:
    """Networks, machines, parameters, objectives and options; the points are all combinations.

    `swept_options` are options with several values. `located` adds file and line to an error if the study is a file.
    Raises UsageError, with the place, for parts that do not fit together.
    """

    networks: tuple[str, ...]
    accelerators: tuple[str, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    objectives: tuple[str, ...] = ()
    verb: SweptVerb = SweptVerb.PLAN
    options: Mapping[str, object] = field(default_factory=dict, hash=False)
    swept_options: Mapping[str, tuple[object, ...]] = field(default_factory=dict, hash=False)
    constraints: tuple[Expression, ...] = ()
    costs: Mapping[str, Expression | CostTable] = field(default_factory=dict, hash=False)
    limits: PointLimits = PointLimits()
    name: str = "study"
    located: Callable[[InputError], InputError] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        self._names_are_free()
        self._the_machine_is_given()
        self._objectives_are_those_of_the_verb()
        self._expressions_name_parameters()
        points = self.greatest_count
        if points > GREATEST_POINTS:
            raise UsageError(
                f"the study has {points:,} points", place="parameters", expected=f"at most {GREATEST_POINTS:,}"
            )

    @property
    def greatest_count(self) -> int:
        """Return the number of combinations before constraints."""
        sizes = [len(self.networks), max(1, len(self.accelerators)), len(self.objectives)]
        sizes += [len(parameter.values) for parameter in self.parameters]
        sizes += [len(values) for values in self.swept_options.values()]
        count = 1
        for size in sizes:
            count *= size
        return count

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns of its rows: those of every row, parameters, costs and options."""
        named = (parameter.name for parameter in self.parameters)
        return (*COLUMNS, *named, *self.costs, *self.options, *self.swept_options)

    def combinations(self, sized: SizesFinder | None = None) -> Iterator[StudyQuestion]:
        """Yield every question that the constraints allow, in order; raises InputError for a cost without a value.

        `sized` returns the size of a budget for a network, an objective and options.
        """
        axes = [parameter.values for parameter in self.parameters]
        swept = list(self.swept_options.items())
        machines: Sequence[str | None] = self.accelerators or (None,)
        choices = product(
            self.networks, machines, self.objectives, product(*(values for _, values in swept)), product(*axes)
        )
        names = [parameter.name for parameter in self.parameters]
        asked: set[str] = set()
        for network, accelerator, objective, chosen, values in choices:
            options = {**self.options, **dict(zip((name for name, _ in swept), chosen, strict=True))}
            size_of = None if sized is None else partial(sized, network, objective, options)
            found = [_resolved(one, network, size_of) for one in values]
            parameters = dict(zip(names, found, strict=True))
            place = repr((network, accelerator, objective, chosen, found))
            if place in asked:
                continue  # budgets of a network may be equal
            asked.add(place)
            known: dict[str, Value] = {**parameters, "accelerator": accelerator or SRAM}
            if not self._is_allowed(known):
                continue
            yield StudyQuestion(network, accelerator, objective, options, parameters, self._costs_of(known))

    def paths_of(self, combination: StudyQuestion) -> dict[str, Scalar]:
        """Return the machine fields that a combination sets, by path."""
        return {one.path: combination.parameters[one.name] for one in self.parameters}

    def _is_allowed(self, values: Mapping[str, Value]) -> bool:
        for at, constraint in enumerate(self.constraints):
            try:
                if not constraint.holds(values):
                    return False
            except InputError as error:
                error.place = f"constraints[{at}]"
                raise
        return True

    def _costs_of(self, values: Mapping[str, Value]) -> dict[str, Number]:
        found: dict[str, Number] = {}
        for name, cost in self.costs.items():
            try:
                value = cost.value(values)
            except InputError as error:
                error.place = f"costs.{name}"
                raise
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise InputError(f"it is {value!r}", place=f"costs.{name}", expected="a number")
            found[name] = value
        return found

    def _names_are_free(self) -> None:
        """Check that no parameter or cost has the name of another column of the store's rows."""
        taken = {*COLUMNS, *VERBS[self.verb].options}
        for group, names in (("parameters", [one.name for one in self.parameters]), ("costs", [*self.costs])):
            for name in names:
                if name in taken or not name:
                    raise UsageError(f"the name {name!r} is taken", place=group, expected="another name, and `path`")
                taken.add(name)

    def _the_machine_is_given(self) -> None:
        if not self.networks:
            raise UsageError("there is none", place="networks", expected="at least one network")
        has_sram = any(parameter.path == SRAM_PATH and parameter.name == SRAM for parameter in self.parameters)
        if has_sram and self.accelerators:
            raise UsageError("both are given", place=f"accelerators, parameters.{SRAM}", expected="one of them")
        if has_sram and VERBS[self.verb].needs_accelerator:
            raise UsageError(f"`{self.verb}` needs a whole machine", place="accelerators", expected="at least one")
        if not has_sram and not self.accelerators:
            raise UsageError(
                "there is no machine", place="accelerators", expected="accelerators, or the parameter sram"
            )

    def _objectives_are_those_of_the_verb(self) -> None:
        known = tuple(VERBS[self.verb].objectives)
        for at, objective in enumerate(self.objectives):
            if objective not in known:
                expected = f"one of {', '.join(known)}"
                raise UsageError(f"it is {objective!r}", place=f"objectives[{at}]", expected=expected)
        if not self.objectives:
            raise UsageError("there is none", place="objectives", expected="at least one")

    def _expressions_name_parameters(self) -> None:
        known = frozenset((*(parameter.name for parameter in self.parameters), "accelerator"))
        places = [(f"constraints[{at}]", one) for at, one in enumerate(self.constraints)]
        for place, one in (*places, *((f"costs.{name}", cost) for name, cost in self.costs.items())):
            unknown = sorted(one.names - known)
            if unknown:
                expected = f"one of {', '.join(sorted(known))}"
                raise UsageError(f"it names {unknown[0]!r}, which is no parameter", place=place, expected=expected)


@dataclass(frozen=True, slots=True)
class BudgetSize:
    """A size at a given share of the way from one end to another, where ends are budgets or sizes."""

    first: End
    last: End
    share: Fraction = Fraction(0)

    def bytes_of(self, size_of: Callable[[CapacityBudget], int]) -> int:
        """Return the size in bytes for a network with these budgets; raises UsageError for an empty range."""
        low, high = (
            size_of(end) if isinstance(end, CapacityBudget) else int(number_of(end)) for end in (self.first, self.last)
        )
        if low > high:
            what = f"the range from {self.first} to {self.last} is empty: {low} to {high} bytes"
            raise UsageError(what, expected="a first value that is not above the last")
        return int(low + (high - low) * self.share)


def budget_named(value: object) -> CapacityBudget | None:
    """Return the budget of that name; None for any other value."""
    name = value.strip().lower() if isinstance(value, str) else ""
    return CapacityBudget(name) if name in tuple(CapacityBudget) else None


def budget_sizes(first: Scalar, last: Scalar, steps: int) -> tuple[BudgetSize, ...]:
    """Return `steps` evenly spaced sizes from one end to another; at least one end is a budget."""
    ends = budget_named(first) or first, budget_named(last) or last
    return tuple(BudgetSize(*ends, Fraction(at, max(1, steps - 1))) for at in range(steps))
